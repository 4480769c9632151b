"""What TRL's settings are where a script leaves them out: they differ from those of transformers."""

from __future__ import annotations

import contextlib
import importlib

from remat.probe.messages import TRL_CONFIGS

ABSENT = object()
"""it is no setting of TRL's, or TRL is not installed"""


def trl_default(config: str, setting: str) -> object:
    """The default of a setting of `SFTConfig` and its like, in the version that is installed."""
    if config not in TRL_CONFIGS:
        return ABSENT
    with contextlib.suppress(Exception):  # what its import runs into
        return getattr(getattr(importlib.import_module("trl"), config), setting, ABSENT)
    return ABSENT
