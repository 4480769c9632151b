"""Ranks that lost each other in a collective, or made different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Role, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"
_STACK = "py-spy dump --pid PID on that rank while it hangs"


def _sizes(seen: Seen) -> Facts | None:
    """Gloo's receiver compares what came with what it expected: it is the victim, and the sender is not named."""
    facts = dict(seen.facts)
    if "received" in facts:
        facts["difference"] = f"a rank expected {facts['expected']} bytes and received {facts['received']}"
        facts["missing"] = "which rank sent another size than its peers expected: the tensor's shape on every rank"
    if "shapes" in facts:
        shapes = "; ".join(line.strip("- ") for line in facts["shapes"].split("\n") if line.strip())
        facts["difference"] = f"{facts['called']}: {shapes}"
        facts["missing"] = f"which rank's shape is intended ({shapes})"
    return facts


SIGNATURES = (
    Signature(
        id="dist.mismatched_collective",
        words=(
            "Detected mismatch between collectives on ranks",
            "Received data size doesn't match expected size",
            "Cannot apply desired operation due to shape mismatches",
        ),
        pattern=r"(?P<fingerprints>Detected mismatch between collectives on ranks[\s\S]{0,6000})|"
        r"\b(?P<received>\d{1,20}) vs (?P<expected>\d{1,20})\. Received data size doesn't match"
        r"|due to shape mismatches\.[\s\S]{0,400}?Operation: `(?P<called>[\w.]{1,200})`\s+Input shapes:"
        r"(?P<shapes>(?:\s+- Process \d+: .{1,200}){1,64})",
        read=_sizes,
        cause="The ranks called the same collective with other shapes or types: {difference}.",
        fix="Give every rank the same shape in this collective: pad to a common multiple, or gather sizes first.",
        verify="rerun with TORCH_DISTRIBUTED_DEBUG=DETAIL: it is silent",
        sources=(_CPU,),
        bare=True,
        extra={"difference": "the received size is not the expected one"},
        examples=(
            (
                "accelerate.utils.operations.DistributedOperationException: Cannot apply desired operation due to "
                "shape mismatches. All shapes across devices must be valid.\n\nOperation: "
                "`accelerate.utils.operations.gather`\nInput shapes:\n  - Process 0: [3, 2]\n  - Process 1: [4, 2]"
            ),
        ),
    ),
    Signature(
        id="dist.rank_divergence_undetermined",
        words=(),
        pattern="",
        cause="The ranks ran different collectives: {difference}. One stands against one, so which departed is "
        "not shown.",
        fix="Call the same collectives in the same order on every rank: log the same keys, take the same branch.",
        verify="rerun with TORCH_DISTRIBUTED_DEBUG=DETAIL: it is silent",
        sources=(_CPU,),
    ),
    Signature(
        id="dist.rank_divergent_control_flow",
        words=(),
        pattern="",
        cause="Rank {rank} took another path than the other ranks: {difference}.",
        fix="Make the condition the same on every rank (broadcast the decision), so that all call the same "
        "collectives.",
        verify="rerun with TORCH_DISTRIBUTED_DEBUG=DETAIL: it is silent",
        sources=(_CPU,),
    ),
    Signature(
        id="dist.uneven_inputs",
        words=(),
        pattern="",
        cause="Rank {rank} ran out of data after {batches} batches and stopped, while the others waited in the "
        "next collective.",
        fix="Give every rank the same number of batches: drop_last=True, a DistributedSampler, or the Join "
        "context manager.",
        verify="print len(loader) on every rank",
        sources=(_CPU,),
    ),
    Signature(
        id="dist.rank0_only_collective",
        words=(),
        pattern="",
        cause="A collective is called on rank 0 only.",
        fix="Move the collective out of the rank-0 guard: every rank must call it.",
        verify="rerun with TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ),
    Signature(
        id="dist.peer_stalled",
        words=("Timed out waiting", "monitoredBarrier"),
        pattern=r"Timed out waiting (?P<ms>\d+)ms for (?P<what>send|recv) operation|Ranks? (?P<absent>\d[\d, "
        r"]{0,200}) failed to pass monitoredBarrier|monitoredBarrier",
        role=Role.WAITING,
        weight=1,
        cause="Rank {rank} stalled: the other ranks timed out waiting for it ({said}).",
        fix="Find what rank {rank} was doing: its own log and its stack; fix that, not the timeout.",
        verify=_STACK,
        asks=(
            Missing(
                "why rank {rank} stopped: its stack (py-spy dump); the others report only that they were waiting",
                "the waiting ranks cannot see what the stalled one did",
                "py-spy dump --pid PID of rank {rank} while it hangs; its own stderr",
            ),
        ),
        sources=(_CPU,),
    ),
    Signature(
        id="dist.gloo_peer_closed",
        words=(
            "Connection closed by peer",
            "Connection reset by peer",
            "Broken pipe",
            "connectFullMesh failed",
            "Socket closed",
        ),
        pattern=r"gloo[\s\S]{0,200}?(?:Connection closed by peer|Connection reset by peer|Broken pipe|Socket "
        r"closed)|Gloo connectFullMesh failed",
        role=Role.WAITING,
        weight=1,
        cause="A peer closed its connection.",
        fix="Fix the rank that ended first.",
        verify="the log of that rank",
        sources=(_CPU,),
    ),
)
