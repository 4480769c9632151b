"""Saved state that does not fit: state_dict keys and shapes, optimizer groups, unpickling, missing checkpoints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Seen

_PREFIXES = (
    "module.",
    "_orig_mod.",
    "_checkpoint_wrapped_module.",
    "_fsdp_wrapped_module.",
    "model.",
    "base_model.model.",
    "_forward_module.",
)
_WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.", "_forward_module.")
_SIZED = re.compile(r"size mismatch for (\S+):")
_VOCABULARY = re.compile(r"embed|lm_head|\bwte\b|shared\.weight|decoder\.(?:weight|bias)$")
_QUOTED = re.compile(r'"([^"\n]{1,300})"')
_READING = re.compile(r"torch[/\\]serialization\.py:load\n\S*torch[/\\]serialization\.py:\w+\Z")
_CUT_OFF_LOG = """\
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 18, in <module>
    state = torch.load(path)
  File "/venv/lib/python3.11/site-packages/torch/serialization.py", line 1568, in load
    with _open_zipfile_reader(opened_file) as opened_zipfile:
  File "/venv/lib/python3.11/site-packages/torch/serialization.py", line 807, in __init__
    super().__init__(torch._C.PyTorchFileReader(name_or_buffer))
OSError: [Errno 22] Invalid argument
"""
_LOADING = r"Error\(s\) in loading state_dict for (?P<model>\w+)"
_LOG = (
    "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: {}. \n"
    "\tUnexpected key(s) in state_dict: {}. "
)


def _keys(seen: Seen) -> tuple[set[str], set[str]]:
    missing = (
        seen.text.partition("Missing key(s) in state_dict:")[2]
        .partition("Unexpected key(s)")[0]
        .partition("size mismatch")[0]
    )
    unexpected = seen.text.partition("Unexpected key(s) in state_dict:")[2].partition("size mismatch")[0]
    return set(_QUOTED.findall(missing)), set(_QUOTED.findall(unexpected))


def _explaining(seen: Seen) -> str:
    """The wrapper's prefix that, taken away, makes the two lists of keys meet."""
    missing, unexpected = _keys(seen)
    for prefix in _WRAPPERS:
        if (
            unexpected
            and missing
            and {key.replace(prefix, "") for key in unexpected} == {key.replace(prefix, "") for key in missing}
        ):
            return prefix
    for prefix in _PREFIXES:
        if (
            unexpected
            and missing
            and {key.removeprefix(prefix) for key in unexpected} == {key.removeprefix(prefix) for key in missing}
        ):
            return prefix
    return ""


def _prefixed(seen: Seen) -> Facts | None:
    prefix = _explaining(seen)
    if not prefix:
        return None
    where = "the checkpoint's" if any(prefix in key for key in _keys(seen)[1]) else "the model's"
    return {**seen.facts, "prefix": prefix, "where": where}


def _keys_differ(seen: Seen) -> Facts | None:
    missing, unexpected = _keys(seen)
    if _explaining(seen) or not (missing or unexpected) or "size mismatch for" in seen.text:
        return None
    shown = [f"missing {', '.join(sorted(missing)[:3])}"] * bool(missing) + [
        f"unexpected {', '.join(sorted(unexpected)[:3])}"
    ] * bool(unexpected)
    return {**seen.facts, "keys": "; ".join(shown)}


def _other_shapes(seen: Seen) -> Facts | None:
    """Which tensors differ: token tables alone mean another vocabulary."""
    facts = dict(seen.facts)
    keys = _SIZED.findall(seen.text)
    missing, unexpected = _keys(seen)
    facts["shapes"] = f"The checkpoint's {facts['key']} has shape {facts['saved']}, the model's has {facts['current']}"
    if "old" in facts:
        facts["shapes"] = (
            f"The checkpoint's {facts['key']} and the model's have shapes {facts['saved']} and {facts['current']} "
            "(this old wording is known to name the two the wrong way round)"
        )
    counted = ((len(keys) - 1, "more of other shapes"), (len(missing), "missing"), (len(unexpected), "unexpected"))
    shown = ", ".join(f"{count} {what}" for count, what in counted if count > 0)
    facts["others"] = f" ({shown})" if shown else ""
    if all(_VOCABULARY.search(key) for key in keys) and not (missing or unexpected):
        facts["why"] = "only token tables differ, so another vocabulary"
        facts["remedy"] = (
            "Resize the token embeddings before loading, or build the model with the checkpoint's config (vocab_size)."
        )
    else:
        facts["why"] = "another configuration"
        facts["remedy"] = f"Build the model with the checkpoint's config: that which gave {facts['key']} its shape."
    return facts


def _archive(seen: Seen) -> Facts | None:
    """Tell an archive without its end, of which torch 2.13 says `Invalid argument`, from whatever else is invalid."""
    if "refused" in seen.facts and not _READING.search(seen.frames):
        return None
    if "SafetensorError" in seen.text:
        check = """python -c "import sys, safetensors; safetensors.safe_open(sys.argv[1], 'pt')" FILE; ls -l FILE"""
        return {**seen.facts, "what": "its header does not describe the bytes that are there", "check": check}
    return seen.facts


def _global(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    byte = facts.get("byte", "")
    if byte.isdigit():
        shown = f" (`{chr(int(byte))}`)" if 32 <= int(byte) < 127 else ""
        facts["what"] = f"it is no pickle, byte {byte}{shown} begins no such file; a git-lfs pointer begins with `v`"
        facts["remedy"] = (
            "The file is no checkpoint: `head -c 200` shows what it is. A git-lfs pointer: run git lfs pull and load "
            "the file that it fetches; weights_only=False would not help."
        )
    else:
        facts["what"] = f"it holds more than tensors ({facts['what']})"
    facts["file"] = " (the Trainer's rng_state file)" if "_load_rng_state" in seen.frames else ""
    return facts


SIGNATURES = (
    Signature(
        id="state.key_prefix",
        words=("in loading state_dict for",),
        pattern=_LOADING,
        read=_prefixed,
        weight=3,
        cause="Every missing key of {model} is there under another name: {where} keys carry the wrapper's "
        "prefix `{prefix}`.",
        fix="Strip the prefix `{prefix}` from the keys when loading, or save the unwrapped module (under DDP: "
        "model.module.state_dict()).",
        verify="missing and unexpected keys of load_state_dict(..., strict=False) are both empty",
        sources=("torch/nn/modules/module.py:2639, torch 2.13.0",),
        examples=(_LOG.format('"head.weight"', '"module.head.weight"'),),
    ),
    Signature(
        id="state.size_mismatch",
        words=("size mismatch for",),
        pattern=r"size mismatch for (?P<key>\S+): copying a param (?:with shape|of) "
        r"torch\.Size\((?P<saved>\[[\d, ]*\])\) from checkpoint, (?P<old>where )?the shape (?:in current model )?is "
        r"torch\.Size\((?P<current>\[[\d, ]*\])\)",
        read=_other_shapes,
        cause="{shapes}{others}: {why}.",
        fix="{remedy}",
        extra={
            "shapes": "A tensor of the checkpoint has another shape than the model's",
            "others": "",
            "why": "another configuration (only token tables: another vocabulary)",
            "remedy": "Build the model with the checkpoint's config; where only token tables differ, resize the token "
            "embeddings before loading.",
        },
        verify="{{k: (v.shape, model.state_dict()[k].shape) for k, v in state.items() if k in model.state_dict() and "
        "v.shape != model.state_dict()[k].shape}}",
        sources=("torch/nn/modules/module.py:2443, torch 2.13.0",),
        examples=(
            (
                "RuntimeError: Error(s) in loading state_dict for Linear:\n\tsize mismatch for weight: copying a "
                "param with shape torch.Size([8, 4]) "
                "from checkpoint, the shape in current model is torch.Size([4, 4])."
            ),
        ),
    ),
    Signature(
        id="state.missing_unexpected_keys",
        words=("in loading state_dict for",),
        pattern=_LOADING,
        read=_keys_differ,
        weight=1,
        cause="The checkpoint and {model} have different keys, and no wrapper's prefix explains it: {keys}.",
        fix="Load it into the model it was saved from (same class and config), or map the keys; strict=False "
        "only if the difference is meant.",
        verify="print(model.load_state_dict(state, strict=False))",
        sources=("torch/nn/modules/module.py:2639, torch 2.13.0",),
        examples=(_LOG.format('"head.weight"', '"classifier.weight"'),),
    ),
    Signature(
        id="state.optimizer_group",
        words=("loaded state dict ",),
        pattern=r"loaded state dict (?:contains a parameter group that doesn't match|has a different number of "
        r"parameter groups)",
        cause="The saved optimizer has other parameter groups than this one: other parameters are trained, or "
        "they are grouped differently.",
        fix="Build the optimizer with the same param groups (frozen parts, weight-decay split) as when it was "
        "saved, or start it fresh.",
        verify="[len(g['params']) for g in optimizer.param_groups] before and after saving",
        sources=("torch/optim/optimizer.py:952, torch 2.13.0",),
        examples=(
            (
                "ValueError: loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            ),
        ),
    ),
    Signature(
        id="state.weights_only",
        words=("Weights only load failed",),
        pattern=r"Weights only load failed(?:[\s\S]{0,3000}?Unsupported "
        r"(?P<what>global: GLOBAL \S+|operand (?P<byte>\d{1,3})|class \S+))?",
        read=_global,
        weight=3,
        cause="torch.load with weights_only=True (the default since 2.6) refused the file{file}: {what}.",
        fix="{remedy}",
        verify="head -c 200 FILE; torch.load(FILE, weights_only=True)",
        sources=("torch/serialization.py:1455, torch 2.13.0",),
        extra={
            "what": "the message is cut off before the name",
            "remedy": "For a file you trust: torch.serialization.add_safe_globals([...]) with that class, or "
            "weights_only=False; for the Trainer's rng_state upgrade transformers or allow-list the numpy globals.",
        },
        examples=(
            (
                "_pickle.UnpicklingError: Weights only load failed. This file can still be "
                "loaded.\n\tWeightsUnpickler error: Unsupported global: GLOBAL "
                "argparse.Namespace was not an allowed global by default."
            ),
            "_pickle.UnpicklingError: Weights only load failed. WeightsUnpickler error:\n\nUnsupported operand 118",
        ),
    ),
    Signature(
        id="state.corrupt_file",
        words=(
            "PytorchStreamReader failed",
            "failed finding central directory",
            "PyTorchFileReader",
            "Invalid magic number",
            "invalid header or archive",
            "HeaderTooLarge",
            "InvalidHeaderDeserialization",
            "MetadataIncompleteBuffer",
            "Error while deserializing",
            "[Errno 22] Invalid argument",
            "Ran out of input",
            "invalid load key, ",
            "pickle data was truncated",
            "File is not a zip file",
        ),
        pattern=r"PytorchStreamReader failed|failed finding central directory|PyTorchFileReader|[Ii]nvalid "
        r"magic number|invalid header or archive|HeaderTooLarge"
        r"|InvalidHeaderDeserialization|MetadataIncompleteBuffer|SafetensorError: Error while deserializing"
        r"|(?P<refused>\[Errno 22\] Invalid argument|EOFError: Ran out of input)"
        r"|UnpicklingError: (?:invalid load key, |pickle data was truncated)|File is not a zip file",
        read=_archive,
        cause="The checkpoint file is damaged or incomplete: {what}.",
        fix="A downloaded file: delete it (from the cache, too) and fetch it again. One of this run: resume from the "
        "previous checkpoint, and save atomically (write to a temporary file, then rename).",
        verify="{check}",
        extra={"what": "its archive cannot be read", "check": "python -m zipfile -t FILE; ls -l FILE"},
        sources=("caffe2/serialize/inline_container.cc", "safetensors 0.8.0"),
        examples=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
            _CUT_OFF_LOG,
        ),
    ),
    Signature(
        id="state.no_checkpoint",
        words=("No valid checkpoint found", "an't find a valid checkpoint"),
        pattern=r"No valid checkpoint found in output directory \((?P<folder>[^)]*)\)|[Cc]an't find a valid "
        r"checkpoint at (?P<at>\S+)",
        cause="There is no checkpoint to resume from in {folder}.",
        fix="Point resume_from_checkpoint at a folder that has a checkpoint-* directory, or start without it.",
        runnable=True,
        verify="ls -d {folder}/checkpoint-*",
        sources=("transformers/trainer.py:1557, transformers 5.24.0",),
        extra={"folder": "that folder"},
        examples=("ValueError: No valid checkpoint found in output directory (out)",),
    ),
)
