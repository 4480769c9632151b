"""Collects the proofs, `<rule_name>.py`, and makes each of them fail, not vanish, where torch is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

HERE = Path(__file__).parent
NOT_PROOFS = {"conftest", "measure", "tiny_models"}
# What a proof runs on. A rule's harm can't be shown on a machine without these, and a skipped proof proves nothing.
NEEDS = {
    "checkpoint_with_kv_cache": ("torch", "transformers"),
    "test_examples": ("torch", "transformers"),
}
sys.path.insert(0, str(HERE))  # so that a proof finds `measure`


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in one order, so that equal gradients are equal to the last bit; and tiny models run faster."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch  # noqa: PLC0415  # only where there is one

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collected = yield
    if file_path.parent != HERE or file_path.suffix != ".py" or file_path.stem in NOT_PROOFS:
        return collected
    missing = [name for name in NEEDS.get(file_path.stem, ("torch",)) if importlib.util.find_spec(name) is None]
    if missing:
        return [Unproven.from_parent(parent, path=file_path, missing=missing)]
    return [pytest.Module.from_parent(parent, path=file_path)]


class Unproven(pytest.File):
    """A proof whose library is not installed: one test that fails and says what to install."""

    def __init__(self, *, missing: list[str], **options) -> None:
        super().__init__(**options)
        self.missing = missing

    def collect(self) -> Iterator[pytest.Item]:
        def runs_on_the_installed_libraries() -> None:
            pytest.fail(
                f"{self.path.name} shows harm on real tensors and needs {' and '.join(self.missing)}, "
                f"which {sys.executable} does not have. Install: {sys.executable} -m pip install "
                "torch==2.13.0 transformers==5.24.0",
                pytrace=False,
            )

        test = runs_on_the_installed_libraries
        yield pytest.Function.from_parent(self, name=test.__name__, callobj=test)
