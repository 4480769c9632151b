"""Shapes, dtypes, devices, indices and values that do not fit, whoever wrote the line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"


def _expected(seen: Seen) -> Facts | None:
    """What the right operand would have to be for `ab` times it to work."""
    facts = dict(seen.facts)
    left, right = facts.get("left", ""), facts.get("right", "")
    if re.fullmatch(r"\d+x\d+", left) and re.fullmatch(r"\d+x\d+", right):
        inner, rows, columns = left.split("x")[1], right.split("x")[0], right.split("x")[1]
        facts["remedy"] = (
            f"the layer expects {rows} features and gets {inner}: nn.Linear({inner}, {columns}), or reshape its input"
        )
    return facts


def _dtypes(seen: Seen) -> Facts | None:
    """The same tensor type on the CPU and on a GPU is no difference of dtypes."""
    one, other = seen.facts["one"], seen.facts["other"]
    same = one != other and one.replace("cuda.", "") == other.replace("cuda.", "")
    return None if same else seen.facts


def _parsed(seen: Seen) -> Facts | None:
    facts = {**seen.facts, "what": " ".join(seen.facts["what"].split())}
    if "yaml" in facts:
        facts["check"] = "python -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))' FILE"
    elif "TOML" in seen.text:
        facts["check"] = "python -c 'import sys, tomllib; tomllib.load(open(sys.argv[1], \"rb\"))' FILE"
    return facts


def _embedding(seen: Seen) -> Facts | None:
    return seen.facts


SIGNATURES = (
    Signature(
        id="shape.matmul",
        words=(
            "shapes cannot be multiplied",
            "must have same reduction dim",
            "Expected size for first two dimensions of batch2",
            "size mismatch, got",
            "must match the size of tensor",
            "is invalid for input of size",
            "Given groups=",
            "inconsistent tensor size",
        ),
        pattern=r"shapes cannot be multiplied \((?P<left>[\dx]+) and (?P<right>[\dx]+)\)|same reduction dim, "
        r"but got (?P<left2>\[[\d, ]*\]) X (?P<right2>\[[\d, ]*\])"
        r"|Expected size for first two dimensions of batch2 tensor to be: (?P<left3>\[[\d, ]*\]) but got: "
        r"(?P<right3>\[[\d, ]*\])|size mismatch, got"
        r"|inconsistent tensor size",
        read=_expected,
        cause="Two matrices cannot be multiplied: {left} and {right} do not share the inner size.",
        fix="Make the inner sizes equal: {remedy}.",
        verify="print the two shapes just before that line",
        sources=(_CPU,),
        extra={
            "left": "the one shape",
            "right": "the other",
            "remedy": "the layer's in_features, a transpose (w.T), or the shape of its input",
        },
        examples=("RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x768 and 512x10)",),
    ),
    Signature(
        id="shape.cat",
        words=("Sizes of tensors must match except", "torch.cat()", "Tensors must have same number of dimensions"),
        pattern=r"Sizes of tensors must match except in dimension (?P<dim>\d+)\.(?: Expected size (?P<one>\d+) "
        r"but got size (?P<other>\d+) for tensor number (?P<number>\d+))?"
        r"|Tensors must have same number of dimensions",
        cause="Tensors of different shapes were concatenated: size {one} and size {other} outside dimension {dim}.",
        fix="Pad or slice them to equal sizes, or concatenate along another dimension.",
        verify="print([t.shape for t in tensors]) before that line",
        sources=(_CPU,),
        extra={"one": "one", "other": "another", "dim": "the given"},
        examples=(
            (
                "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 4 but got size 5 "
                "for tensor number 1 in the list."
            ),
        ),
    ),
    Signature(
        id="dtype.mismatch",
        words=(
            "must have the same dtype",
            "expected scalar type",
            "expected m1 and m2 to have the same dtype",
            "not implemented for '",
            "should be the same",
            "have the same dtype",
            "can't be cast to the desired output type",
            "Found dtype",
            "source and destination dtypes match",
        ),
        pattern=r"must have the same dtype(?:, but got (?P<one>[\w:]+) and (?P<other>[\w:]+))?|expected scalar type "
        r"(?P<one2>\w+) but found (?P<other2>\w+)"
        r"|have the same dtype, but got: (?P<one3>[\w :]+?) != (?P<other3>[\w :]+)|\b(?P<op>\w{1,80})\"? not "
        r"implemented for '(?P<one4>\w+)'"
        r"|Input type \((?P<one5>[\w.:]+)\) and (?:weight|bias) type \((?P<other5>[\w.:]+)\) should be the same"
        r"|dtypes match, got (?P<one9>\w+) for the destination and (?P<other9>\w+) for the source"
        r"|Found dtype (?P<one6>\w+) but expected (?P<other6>\w+)"
        r"|result type (?P<one7>\w+) can't be cast to the desired output type (?P<other7>\w+)",
        read=_dtypes,
        cause="An operation met dtypes that do not go together: {one} and {other}.",
        fix="Cast the input or the module to one dtype, or run the forward under torch.autocast.",
        verify="print(x.dtype, next(module.parameters()).dtype) before that line",
        sources=(_CPU,),
        extra={"one": "one dtype", "other": "one that the operation supports"},
        examples=(
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
            "RuntimeError: result type Float can't be cast to the desired output type Long",
        ),
    ),
    Signature(
        id="device.meta_tensor",
        words=("meta", "Cannot copy out of meta tensor"),
        pattern=r"[Tt]ensor on device meta is not on the expected device|Cannot copy out of meta tensor"
        r"|(?:found at least two devices|but found two devices|but got).{0,80}\bmeta\b"
        r"|on meta device|cannot be called on meta tensors|Tensor on device \S+ is not on the expected device meta",
        cause="A tensor on the meta device (shape only, no data) met a real one.",
        fix="Materialise the module before use: module.to_empty(device=...) and load its weights, or do not "
        "build it under the meta device.",
        verify="[n for n, p in model.named_parameters() if p.is_meta]",
        sources=("torch/_prims_common/__init__.py:927, torch 2.13.0",),
        examples=("RuntimeError: Tensor on device meta is not on the expected device cpu!",),
    ),
    Signature(
        id="index.target",
        words=("Target ",),
        pattern=r"Target (?P<value>-?\d+) is out of bounds",
        cause="The label {value} is out of range for the loss: labels must lie in [0, num_classes).",
        fix="Correct the labels (they must lie in [0, num_classes)) or give the last layer enough outputs; "
        "ignored ones take ignore_index.",
        verify="print(target.min(), target.max(), logits.shape[1])",
        sources=(_CPU,),
        examples=("IndexError: Target 10 is out of bounds.",),
    ),
    Signature(
        id="index.embedding",
        words=("index out of range in self",),
        pattern=r"index out of range in self",
        cause="An embedding was asked for a row it does not have: a token id (or position) is not below the "
        "vocabulary size.",
        fix="Make every token id smaller than the vocab size: model.resize_token_embeddings(len(tokenizer)), or "
        "the tokenizer that belongs to the model; "
        "for positions: truncate to max_position_embeddings.",
        verify="print(input_ids.max(), model.get_input_embeddings().num_embeddings)",
        sources=(_CPU,),
        examples=("IndexError: index out of range in self",),
    ),
    Signature(
        id="config.empty_optimizer",
        words=("optimizer got an empty parameter list",),
        pattern=r"optimizer got an empty parameter list",
        cause="The optimizer got an empty parameter list: every parameter is frozen, or the generator was used "
        "up before.",
        fix="Unfreeze what is to be trained before building the optimizer: not every parameter may be frozen.",
        verify="print(sum(p.requires_grad for p in model.parameters()))",
        sources=("torch/optim/optimizer.py, torch 2.13.0",),
        examples=("ValueError: optimizer got an empty parameter list",),
    ),
    Signature(
        id="config.parse",
        words=(
            "JSONDecodeError",
            "yaml.",
            "TOMLDecodeError",
            "while parsing",
            "while scanning",
            "ScannerError",
            "ParserError",
        ),
        pattern=r"JSONDecodeError: (?P<what>.{1,200})|(?P<yaml>yaml\.\S+|ScannerError|ParserError): "
        r"(?P<what2>.{1,200}(?:\n.{1,200}){0,5})|TOMLDecodeError: (?P<what3>.{1,200})",
        read=_parsed,
        weight=1,
        cause="A configuration or data file does not parse: {what}",
        fix="Correct the syntax of the file at the position the message gives (trailing comma, indentation, an "
        "empty file).",
        verify="{check}",
        sources=("json/decoder.py, yaml/scanner.py",),
        extra={"what": "the message gives the position.", "check": "python -m json.tool FILE"},
        examples=("json.decoder.JSONDecodeError: Expecting ',' delimiter: line 4 column 3 (char 60)",),
    ),
    Signature(
        id="config.cli_argument",
        words=(
            "No such option",
            "Invalid value for",
            "Missing option",
            "Missing argument",
            "Missing parameter",
            "Got unexpected extra argument",
            "No such command",
            "arguments are not used by the HfArgumentParser",
            "Unknown command line flag",
            "Could not override",
        ),
        pattern=r"^(?:[\w.]+\.)?(?:Error|UsageError|BadParameter): (?P<message>(?:No such (?:option|command)"
        r"|Invalid value for|Missing (?:option|argument|parameter)|Got unexpected extra argument).{0,300})"
        r"|(?P<message2>Some specified arguments are not used by the HfArgumentParser.{0,300})"
        r"|(?P<message3>Unknown command line flag.{0,200}|Could not override.{0,200})",
        extra={"program": "SCRIPT"},
        cause="The command line was rejected: {message}",
        fix="Correct the flag: the script's usage line lists those it knows. Every rank got the same arguments "
        "(exit code 2).",
        verify="python {program} --help",
        sources=("Python argparse",),
        examples=("usage: fit.py [-h] [--lr LR]\nfit.py: error: unrecognized arguments: --learning-rate 1e-4",),
    ),
    Signature(
        id="config.value",
        words=(),
        pattern="",
        cause="A configuration value was refused: {message}",
        fix="Change the value so that it meets the stated condition: {message}",
        verify="construct that object alone with the corrected value",
        examples=(
            (
                'Traceback (most recent call last):\n  File "/home/dev/proj/fit.py", line 6, in build\n    return '
                "torch.nn.MultiheadAttention(64, 7)\n"
                '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/activation.py", line 1193, in '
                "__init__\n    raise AssertionError(\n"
                "AssertionError: embed_dim must be divisible by num_heads"
            ),
        ),
    ),
    Signature(
        id="code.user_exception",
        words=(),
        pattern="",
        weight=0,
        cause="{kind} was raised{where}: {message}",
        fix="{hint}",
        verify="rerun {what} on the same input",
        examples=(
            (
                'Traceback (most recent call last):\n  File "/home/dev/proj/fit.py", line 13, in main\n    raise '
                'ValueError("label 17 outside [0, 16)")\n'
                "ValueError: label 17 outside [0, 16)"
            ),
        ),
    ),
)
