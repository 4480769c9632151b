"""Keeps weights, the network, compilers and command lines away from the user's model: a step needs none of them."""

from __future__ import annotations

import argparse
import builtins
import socket
import sys
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from remat.probe.target.asides import note, options_left_out
from remat.probe.target.library_loaders import answer_loaders
from remat.probe.target.no_weights import (
    answered_no,
    loaded_or_not,
    no_weights,
    opened_or_not,
    unless_empty,
)

if TYPE_CHECKING:
    from remat.probe.target.calls import Callee


def keep_away() -> None:
    """From here to the end of the process: no weights are loaded, nothing is compiled and no connection is opened."""
    if getattr(torch.load, "of_remat", False):
        return
    torch.load = loaded_or_not(torch.load)
    setattr(builtins, "open", opened_or_not(cast("Callee[object]", builtins.open)))  # noqa: B010  (typed as it is not)
    setattr(builtins, "input", answered_no(builtins.input))  # noqa: B010
    torch.hub.load_state_dict_from_url = no_weights
    nn.Module.load_state_dict = unless_empty(nn.Module.load_state_dict)
    torch.compile = _not_compiled
    torch.jit.script = _not_compiled
    parse = cast("Callee[object]", argparse.ArgumentParser.parse_known_args)
    setattr(argparse.ArgumentParser, "parse_known_args", _without_options(parse))  # noqa: B010  (typed as it is not)
    socket.socket.connect = _no_network  # type: ignore[method-assign]
    answer_loaders()


def _not_compiled(model: object = None, *_args: object, **_kwargs: object) -> object:
    """Stand for torch.compile and torch.jit.script, called or as a decorator with or without arguments."""
    if model is None:
        return lambda function: function
    if isinstance(model, nn.Module):
        note("torch.compile is left out: the figures are those of the model as it is written")
    return model


def _without_options(parse: Callee[object]) -> Callee[object]:
    """Let a parser be content without options that it requires: a training script is not being run."""

    def parse_known_args(*args: object, **kwargs: object) -> object:
        parser = cast("argparse.ArgumentParser", args[0])
        given = {argument.split("=")[0] for argument in sys.argv[1:]}
        missing = [a for a in parser._actions if a.required and not given.intersection(a.option_strings)]
        for action in missing:
            action.required = False
        options_left_out([max(action.option_strings, key=len, default="") for action in missing])
        if missing:
            note(f"options that the script requires are None: {', '.join(a.dest for a in missing)}")
        return parse(*args, **kwargs)

    return parse_known_args


def _no_network(*_args: object) -> None:
    raise ConnectionError("the probe opens no connection: give what the model needs as a file")
