"""What to do about an exception of no known kind, from its own words."""

from __future__ import annotations

import re

# What a message says -> the fix; groups of the pattern, and {where} it was raised, are filled in.
_REMEDIES = (
    (
        (
            r"same device, but found at least two devices, (?P<one>[\w:]+) and (?P<other>[\w:]+)!?"
            r"(?: \(when checking argument for (?P<argument>.{1,80}?) in method \w+\))?"
        ),
        "Move both operands to one device{where}: one is on {one}, the other on {other}.",
    ),
    (
        (
            r"Input type \((?P<one>torch\.[\w.]+)\) and (?:weight|bias) type \((?P<other>torch\.[\w.]+)\) should "
            r"be the same"
        ),
        "Move the input to the module's device{where}: the input is {one}, the weights {other}.",
    ),
    (
        (
            r"size of tensor a \((?P<one>\d+)\) must match the size of tensor b \((?P<other>\d+)\) at non-singleton "
            r"dimension (?P<at>\d+)"
        ),
        "Make the two operands equal in dimension {at}{where}: {one} against {other} (or 1, which is broadcast).",
    ),
    (
        r"(?P<call>[\w.<>]{1,200}\(\)) got an unexpected keyword argument '(?P<name>\w{1,100})'",
        (
            "Let {call} take `{name}` (a parameter or **kwargs), or call it with a version of the library that does "
            "not pass it{where}."
        ),
    ),
    (
        r"out of resource: (?P<what>[\w ]{1,40}), Required: (?P<asked>\d{1,12}), Hardware limit: (?P<limit>\d{1,12})",
        (
            "A Triton kernel asks for {asked} bytes of {what} per block and this GPU has {limit}: smaller block sizes "
            "or num_stages{where}, a smaller head dimension, or another kernel."
        ),
    ),
    (
        r"No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device is detected",
        (
            "Let this process see a GPU{where}: nvidia-smi -L on that host (in the container: --gpus all), and "
            "CUDA_VISIBLE_DEVICES, which must name one that exists."
        ),
    ),
    (
        r"No executable batch size found",
        "The smallest batch does not fit either: accelerate halves it at each out-of-memory error, down to none.",
    ),
    (
        r"INTERNAL ASSERT FAILED",
        "PyTorch's own assertion failed{where}: try another version of it, and report what is left when reduced.",
    ),
    (
        r"\b(?P<status>(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT)_STATUS_\w{1,60})",
        (
            "{status} names a step, not a reason: rerun with CUDA_LAUNCH_BLOCKING=1 (an earlier kernel may have "
            "failed), look at the free memory just before, and compare the library's version with the one that torch "
            "was built for."
        ),
    ),
)
_PATTERNS = tuple((re.compile(pattern), remedy) for pattern, remedy in _REMEDIES)


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
    for pattern, remedy in _PATTERNS:
        if found := pattern.search(message):
            return remedy.format(where=where, **found.groupdict(default=""))
    return f"Correct what the message names{where}: {message.rstrip('.')}."
