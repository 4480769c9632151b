"""DistributedDataParallel: models that differ between ranks, parameters it counted wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"


def _marked(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    facts["which"] = (
        f"parameter {facts['name']} (index {facts['index']})" if facts.get("name") else f"parameter {facts['index']}"
    )
    if re.search(r"utils/checkpoint\.py:", seen.frames):
        facts["settled"] = "a checkpoint frame is in the traceback"
    return facts


def _unused(seen: Seen) -> Facts | None:
    names = seen.facts["names"].strip()
    numbers = names.replace(" ", "").isdigit()
    return {**seen.facts, "names": f"in the order of model.parameters(): {names}" if numbers else names}


SIGNATURES = (
    Signature(
        id="ddp.mark_ready_twice",
        words=("Expected to mark a variable ready only once",),
        pattern=r"Expected to mark a variable ready only once(?:[\s\S]{0,3000}?Parameter at index "
        r"(?P<index>\d+)(?: with name (?P<name>\S+))?"
        r" has been marked as ready twice)?",
        read=_marked,
        bare=True,
        cause="DistributedDataParallel saw the gradient of {which} become ready twice in one backward: "
        "reentrant checkpointing, or "
        "one parameter used in two places.",
        fix='Checkpoint with use_reentrant=False (Trainer: gradient_checkpointing_kwargs={{"use_reentrant": '
        "False}}); otherwise "
        "freeze or skip the unused branch instead of find_unused_parameters, or use static_graph=True.",
        verify="one DDP step on two ranks",
        asks=(
            Missing(
                "whether reentrant checkpointing is on (a checkpoint frame, the use_reentrant flag) or a "
                "parameter is used twice, and "
                "whether find_unused_parameters is set",
                "both give this text, and their fixes differ",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameter; grep -rn "
                "'use_reentrant\\|gradient_checkpointing\\|find_unused' .",
            ),
        ),
        rules=("checkpoint-with-reentrant-true", "checkpoint-without-use-reentrant"),
        sources=(_CPU,),
        extra={"index": "of unknown index"},
        examples=(
            (
                "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the "
                "following reasons.\n"
                "Parameter at index 385 with name fc2.weight has been marked as ready twice."
            ),
        ),
    ),
    Signature(
        id="ddp.static_graph_changed",
        words=("training graph has changed in this iteration",),
        pattern=r"training graph has changed in this iteration",
        weight=3,
        cause="DDP was told static_graph=True, and the set of used parameters changed between steps.",
        fix="The graph changes between steps: use static_graph=False (find_unused_parameters=True where "
        "parameters go unused).",
        verify="rerun with static_graph=False",
        sources=(_CPU,),
        examples=(
            (
                "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error indicates "
                "that your training graph has changed in this iteration, this is not compatible with static_graph "
                "set to True."
            ),
        ),
    ),
    Signature(
        id="ddp.unused_params",
        words=(
            "Expected to have finished reduction in the prior iteration",
            "your LightningModule has parameters that were not used",
        ),
        pattern=r"your LightningModule has parameters that were not used"
        r"|Expected to have finished reduction in the prior iteration(?:[\s\S]{0,4000}?"
        r"(?:did not receive grad for rank (?P<which>\d+): (?P<names>[^\n]{1,400})))?",
        read=_unused,
        cause="DDP waited for gradients of parameters that the loss does not use ({names}).",
        fix="Remove the unused parameters (or use their output in the loss), or set find_unused_parameters=True "
        "(Lightning: strategy='ddp_find_unused_parameters_true').",
        verify="TORCH_DISTRIBUTED_DEBUG=DETAIL lists no parameter without gradient",
        sources=(_CPU,),
        extra={"names": "their indices are cut off"},
        bare=True,
        examples=(
            (
                "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error indicates "
                "that your module has parameters that were not used in producing loss.\nParameter indices which did "
                "not receive grad for "
                "rank 0: 2 3"
            ),
        ),
    ),
    Signature(
        id="ddp.param_mismatch",
        words=("DDP expects same model across all ranks", "appears not to match"),
        pattern=r"DDP expects same model across all ranks, but Rank (?P<one>\d+) has (?P<count>\d+) params, while rank "
        r"(?P<other>\d+) has inconsistent (?P<others>\d+)|params\[\d+\] in this process with sizes \[[\d, ]*\] appears "
        r"not to match",
        extra={"one": "one", "count": "its own number of", "other": "another", "others": "other ones"},
        cause="The ranks built different models: rank {one} has {count} parameters, rank {other} has {others}.",
        fix="Build the model identically on every rank: same config, seed and flags.",
        verify="print the number of parameters on every rank before DDP",
        asks=(
            Missing(
                "which parameter count is intended ({count} on rank {one} or {others} on rank {other})",
                "the text shows that two ranks differ, not which one departed",
                "print(sum(1 for _ in model.parameters()), config) on every rank",
            ),
        ),
        sources=(_CPU,),
        examples=(
            (
                "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 5 params, while rank 0 has "
                "inconsistent 4 params."
            ),
        ),
    ),
)
