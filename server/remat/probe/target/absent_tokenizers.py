"""Stands in for tokenizers whose files are not there: a model that keeps one takes no part of it into its step."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.built import FactMissingError
from remat.probe.target.asides import note

if TYPE_CHECKING:
    from types import ModuleType

    from remat.probe.target.calls import Callee

_TOKENIZER = re.compile(r"\w*Tokeni[sz]er\w*")
_WITHOUT_A_FILE = (OSError, AssertionError, TypeError, ValueError, RuntimeError)
_WORDS = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "cl100k_base": 100277, "o200k_base": 200019}


class AbsentError(FactMissingError, AttributeError):
    """What is read of a tokenizer that isn't there; an AttributeError too, for who only asks whether it has it."""


class AbsentTokenizer:
    """What may be kept and handed on. `words`: how many it knows, where its name tells."""

    def __init__(self, name: str = "that is handed in", words: int | None = None) -> None:
        self._name = name
        if words is not None:
            self.n_vocab = words

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        fact = f"`{name}` of the tokenizer {self._name}, which is not on this machine"
        raise AbsentError(fact, "download it once, or say with model= what is made of it")


def tiktoken_or_not(module: ModuleType) -> None:
    """tiktoken.registry"""
    load = cast("Callee[object]", module.get_encoding)

    def get_encoding(encoding_name: str) -> object:
        try:
            return load(encoding_name)
        except OSError:
            note(f"the tokenizer {encoding_name} is left out: it is not on this machine")
            return AbsentTokenizer(encoding_name, _WORDS.get(encoding_name))

    setattr(module, "get_encoding", get_encoding)  # noqa: B010  (a module has no such attribute for a type checker)


def left_out_of(error: BaseException | None) -> bool:
    """Leave out the tokenizer in whose making an error arose, of a class of the project; tell whether there is one."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__) if isinstance(error, _WITHOUT_A_FILE) else ():
            cls = type(frame.f_locals.get("self"))
            own = getattr(vars(cls).get("__init__"), "__code__", None) is frame.f_code
            if own and _TOKENIZER.fullmatch(cls.__name__) and not issubclass(cls, nn.Module):
                note(f"{cls.__name__} is left out: it can't be made here ({type(error).__name__}: {error})")
                setattr(cls, "__init__", lambda *_args, **_kwargs: None)  # noqa: B010
                return True
        error = error.__cause__
    return False
