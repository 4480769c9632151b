"""Stands in for checkpoints that are not there: values of weights don't matter."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.target.asides import note

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.target.calls import Callee


class NoWeights(dict[object, object]):
    """What stands for a checkpoint whose file isn't there: every entry of it is one too."""

    def __missing__(self, key: object) -> NoWeights:
        return self

    def get(self, _: object, default: object = None) -> object:
        return self if default is None else default

    def pop(self, _: object, *default: object) -> object:
        return default[0] if default else self


_OF_WEIGHTS = {".pth", ".pt", ".ckpt", ".bin", ".pkl", ".tar", ".model", ".th"}
_YES_OR_NO = re.compile(r"\by(es)?\b.{0,4}\bno?\b", re.IGNORECASE)


class _NoFile(io.BytesIO):
    """What stands for an open checkpoint that isn't there."""


def opened_or_not(open_: Callee[object]) -> Callee[object]:
    def open_or_not(*args: object, **kwargs: object) -> object:
        file, mode = args[0] if args else kwargs.get("file"), args[1] if len(args) > 1 else kwargs.get("mode")
        of_weights = mode == "rb" and isinstance(file, str | Path) and Path(file).suffix in _OF_WEIGHTS
        if of_weights and not Path(cast("str", file)).exists():
            note(f"{file} is not there: its weights are left out (their values don't matter)")
            return _NoFile()
        return open_(*args, **kwargs)

    return open_or_not


def answered_no(ask: Callable[[object], str]) -> Callable[[object], str]:
    """Answer a question whether to do something with no, and no other."""

    def answer(prompt: object = "", /) -> str:
        if not _YES_OR_NO.search(str(prompt)):
            return ask(prompt)
        note(f"`{str(prompt).strip()}` is answered with no")
        return "n"

    return answer


def loaded_or_not(load: Callee[object]) -> Callee[object]:
    def load_or_not(*args: object, **kwargs: object) -> object:
        file = args[0] if args else kwargs.get("f", kwargs.get("filename"))
        if isinstance(file, _NoFile):
            return NoWeights()
        if isinstance(file, str | Path) and not Path(file).exists():
            note(f"{file} is not there: its weights are left out (their values don't matter)")
            return NoWeights()
        return load(*args, **kwargs)

    load_or_not.of_remat = True  # type: ignore[attr-defined]
    return load_or_not


def no_weights(url: object = "", *_args: object, **_kwargs: object) -> NoWeights:
    note(f"pretrained weights are left out (their values don't matter): {url}")
    return NoWeights()


def unless_empty(load: Callee[object]) -> Callee[object]:
    def load_state_dict(*args: object, **kwargs: object) -> object:
        if not (args[1] if len(args) > 1 else kwargs.get("state_dict")):
            return nn.modules.module._IncompatibleKeys([], [])
        return load(*args, **kwargs)

    return load_state_dict
