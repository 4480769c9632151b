"""What to do about an exception of no known kind, from its own words."""

from __future__ import annotations

import re

_DEVICES = re.compile(
    r"same device, but found at least two devices, (?P<one>[\w:]+) and (?P<other>[\w:]+)!?"
    r"(?: \(when checking argument for (?P<argument>.{1,80}?) in method \w+\))?"
)
_TYPES = re.compile(
    r"Input type \((?P<one>torch\.[\w.]+)\) and (?:weight|bias) type \((?P<other>torch\.[\w.]+)\) should be the same"
)
_SIZES = re.compile(
    r"size of tensor a \((?P<one>\d+)\) must match the size of tensor b \((?P<other>\d+)\) at non-singleton dimension "
    r"(?P<at>\d+)"
)
_KEYWORD = re.compile(r"(?P<call>[\w.<>]{1,200}\(\)) got an unexpected keyword argument '(?P<name>\w{1,100})'")
_STATUS = re.compile(r"\b(?P<status>(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT)_STATUS_\w{1,60})")


def hint(kind: str, message: str, where: str) -> str:
    """The fix for `kind: message`, raised `where` (a phrase that begins with a space, or nothing)."""
    if kind == "IndexError":
        return (
            f"Bound the index by the length (or the dataset's length){where}; `{message}` also comes from an "
            "empty list or batch: then drop_last=True, or skip empty batches."
        )
    if kind == "StopIteration":
        return f"The iterator ran out (is exhausted){where}: cycle it, restart it each epoch, or end the loop with it."
    if kind == "RecursionError":
        return f"End the recursion{where}: an attribute that is never set makes __getattr__ call itself."
    if kind == "KeyError":
        return f"Provide the key {message}, or handle its absence{where}."
    return _told(message, where) or f"Correct what the message names{where}: {message.rstrip('.')}."


def _told(message: str, where: str) -> str:
    if found := _DEVICES.search(message):
        which = f" ({found['argument']})" if found["argument"] else ""
        return (
            f"Move both operands{which} to one device{where}: one is on {found['one']}, the other on {found['other']}."
        )
    if found := _TYPES.search(message):
        return (
            f"Move the input to the module's device{where}: the input is {found['one']}, the weights {found['other']}."
        )
    if found := _SIZES.search(message):
        return (
            f"Make the two operands equal in dimension {found['at']}{where}: {found['one']} against {found['other']} "
            "(or 1, which is broadcast)."
        )
    if found := _KEYWORD.search(message):
        return (
            f"Let {found['call']} take `{found['name']}` (a parameter or **kwargs), or call it with a version of the "
            f"library that does not pass it{where}."
        )
    if found := _STATUS.search(message):
        return (
            f"{found['status']} names a step, not a reason: rerun with CUDA_LAUNCH_BLOCKING=1 (an earlier kernel may "
            "have failed), look at the free memory just before, and compare the library's version with the one that "
            "torch was built for."
        )
    return ""
