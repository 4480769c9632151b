"""Lets the tests of failing programs find `program`, and fail where what the programs need is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
NEEDS = ("torch", "transformers", "peft", "accelerate")


@pytest.fixture(autouse=True, scope="session")
def libraries() -> None:
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.fail(
            f"the failing programs need {', '.join(missing)}: {sys.executable} -m pip install them", pytrace=False
        )
