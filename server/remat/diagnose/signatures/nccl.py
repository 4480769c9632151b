"""NCCL: timeouts (collateral by nature), lost peers, and its own configuration errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Role, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_PG = "torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
_ERROR = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, {}, NCCL version 2.21.5\n{}"


def _unnamed(seen: Seen) -> Facts | None:
    """A system error with its warning is another kind, or one that the warning explains."""
    warned = seen.notices.get("nccl_warn", ())
    said = "Last error:" in seen.text and seen.text.split("Last error:", 1)[1].strip()
    return None if warned or said else seen.facts


def _named(seen: Seen) -> Facts | None:
    said = seen.text.split("Last error:", 1)[1].strip().split("\n")[0] if "Last error:" in seen.text else ""
    warned = seen.notices.get("nccl_warn", ())
    call = said or (warned[-1].facts["text"] if warned else "")
    return {**seen.facts, "call": call} if call else None


def _interface(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    used = [n.facts["interface"] for n in seen.notices.get("bootstrap", ())]
    facts["interface"] = used[-1] if used else "an interface that the log does not name"
    facts["reason"] = f" ({facts['why'].strip()})" if "why" in facts else ""
    return facts


SIGNATURES = (
    Signature(
        id="nccl.duplicate_gpu",
        words=("Duplicate GPU detected",),
        bare=True,
        pattern=r"Duplicate GPU detected ?: rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device "
        r"(?P<device>\w+)",
        weight=3,
        cause="Two ranks use one GPU: rank {one} and rank {other} are both on CUDA device {device}.",
        fix='Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the process group is initialised '
        "and before any barrier.",
        verify="print(rank, torch.cuda.current_device()) on every rank",
        sources=("NCCL src/init.cc",),
        examples=(
            _ERROR.format(
                "invalid usage",
                "ncclInvalidUsage: x.\nLast error:\nDuplicate GPU detected : rank 0 and rank 1 both on CUDA "
                "device 1000",
            ),
        ),
    ),
    Signature(
        id="nccl.wrong_interface",
        words=("socketStartConnect", "Connect to "),
        pattern=r"Connect to (?P<address>[\w.:]+)<(?P<port>\d+)> (?:failed|returned)(?: : (?P<why>[A-Z][\w ]{1,80}))?",
        read=_interface,
        weight=3,
        cause="NCCL could not connect to {address} port {port}{reason} over {interface}: that address does not lead to "
        "the peer, or nothing listens there any more.",
        fix="Set NCCL_SOCKET_IFNAME to the routable interface, or exclude the others: "
        "NCCL_SOCKET_IFNAME=^docker0,lo. If {address} is right: open the firewall between the nodes, and look whether "
        "the peer had ended before.",
        verify="ip route get {address}; NCCL_DEBUG=INFO shows the chosen interface",
        sources=("NCCL src/misc/socket.cc",),
        examples=(
            _ERROR.format(
                "unhandled system error",
                "ncclSystemError: x.\nLast error:\nsocketStartConnect: Connect to 172.17.0.1<41255> failed : "
                "Connection refused",
            ),
        ),
    ),
    Signature(
        id="nccl.system_error_unknown",
        words=("ncclSystemError", "unhandled system error"),
        pattern=r"ncclSystemError|unhandled system error",
        read=_unnamed,
        weight=1,
        cause="A system call inside NCCL failed; the line that names the call was not printed.",
        fix="Rerun with NCCL_DEBUG=WARN and read the NCCL WARN line: shared memory, the network interface or "
        "InfiniBand.",
        verify="NCCL_DEBUG=WARN on the same command",
        asks=(
            Missing(
                "the NCCL WARN line naming the failed call: rerun with NCCL_DEBUG=WARN",
                "shared memory, sockets and InfiniBand all end in this text",
                "NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=INIT,NET on the same command",
            ),
        ),
        sources=(_PG,),
        examples=(
            _ERROR.format(
                "unhandled system error",
                "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
            ),
        ),
    ),
    Signature(
        id="nccl.system_error",
        words=("ncclSystemError", "unhandled system error"),
        pattern=r"ncclSystemError|unhandled system error",
        read=_named,
        weight=1,
        cause="A system call inside NCCL failed: {call}.",
        fix="Fix what the call names: shared memory (--shm-size), the interface (NCCL_SOCKET_IFNAME) or InfiniBand.",
        verify="NCCL_DEBUG=WARN on the same command",
        sources=(_PG,),
    ),
    Signature(
        id="nccl.remote_peer_closed",
        words=("ncclRemoteError", "Connection closed by remote peer"),
        pattern=r"(?:ncclRemoteError|remote process exited)(?:[\s\S]{0,400}?closed by remote peer "
        r"(?P<peer>[\w.-]+))?",
        role=Role.WAITING,
        weight=1,
        cause="The remote peer {peer} closed its connection: its process ended first, or the network to it failed.",
        fix="Read the log of {peer} and fix what ended it; the ranks shown here are victims.",
        verify="the last lines of {peer}'s log; dmesg -T there",
        asks=(
            Missing(
                "the log of {peer}, the peer that closed the connection; this log holds only the ranks that noticed",
                "what ended that process is written there only",
                "the stderr of {peer}; dmesg -T on it",
            ),
        ),
        sources=(_PG,),
        extra={"peer": "another node"},
        examples=(
            _ERROR.format(
                "remote process exited",
                "ncclRemoteError: A call failed.\nLast error:\nsocketProgress: Connection closed by remote peer "
                "node03<48122>",
            ),
        ),
    ),
    Signature(
        id="nccl.timeout",
        words=(
            "Watchdog caught collective operation timeout",
            "NCCL communicator was aborted",
            "collective operation timeout",
        ),
        pattern=r"collective operation timeout|NCCL communicator was aborted",
        role=Role.WAITING,
        weight=0,
        cause="A collective timed out.",
        fix="Find the rank that was late.",
        verify="py-spy dump on every rank",
        sources=(_PG,),
    ),
    Signature(
        id="nccl.timeout_rank_absent",
        words=(),
        pattern="",
        cause="Rank {rank} had not completed enqueuing collective {seq} ({op}) that every other rank timed out "
        "in: {evidence}.",
        fix="Find what rank {rank} was doing: its own log and its stack (py-spy dump); do not raise the timeout.",
        verify="py-spy dump --pid PID of rank {rank}; the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, in newer "
        "versions TORCH_FR_BUFFER_SIZE=2000) records what each rank had called",
        asks=(
            Missing(
                "rank {rank}'s own log and stack: what it was doing instead{world}",
                "its absence is proved by the others; the reason is not in what was given",
                "the stderr of rank {rank}; py-spy dump --pid PID there",
            ),
        ),
        sources=(_PG,),
    ),
    Signature(
        id="nccl.mismatched_collective",
        words=(),
        pattern="",
        cause="Rank {rank} called another collective than the others at sequence number {seq}: {difference}.",
        fix="Make rank {rank} reduce the same tensor size with the same operation as the others at that point.",
        verify="TORCH_DISTRIBUTED_DEBUG=DETAIL, or the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, in newer "
        "versions TORCH_FR_BUFFER_SIZE=2000)",
        sources=(_PG,),
    ),
    Signature(
        id="nccl.timeout_undetermined",
        words=(),
        pattern="",
        cause="{who} timed out in collective {seq} ({op}{size}); nothing shows which rank was late.{barrier}",
        fix="Find the late rank: py-spy dump on every rank, or the flight recorder. If only rank 0 saves "
        "(save_checkpoint in a rank-0 "
        "guard), call it on every rank.",
        verify="rerun with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 (flight recorder; in newer "
        "versions TORCH_FR_BUFFER_SIZE)",
        asks=(
            Missing(
                "which rank did not take part in collective {seq}: {needed}",
                "a timeout is seen by those who wait, not by the one they wait for",
                "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 (flight recorder); py-spy dump "
                "on every rank; NCCL_DEBUG=INFO; "
                "dmesg -T | grep Xid",
            ),
        ),
        sources=(_PG,),
    ),
    Signature(
        id="nccl.watchdog_stuck",
        words=(),
        pattern="",
        cause="Rank {rank}'s NCCL watchdog made no progress for {seconds} s: a CUDA or NCCL call is stuck, or "
        "another thread holds the GIL "
        "inside one.",
        fix="Look at the thread stacks of rank {rank}; raising the limit only hides it.",
        verify="py-spy dump --native --pid PID of rank {rank}",
        asks=(
            Missing(
                "thread stacks of rank {rank} (py-spy dump --native) at the hang",
                "the watchdog reports that it is stuck, not in which call",
                "py-spy dump --native --pid PID of rank {rank}",
            ),
        ),
        sources=(_PG,),
    ),
)
