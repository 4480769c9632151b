"""Ranks that lost each other over DDP, gloo and the key-value store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Role, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"
_STACK = "py-spy dump --pid PID on that rank while it hangs"


def _with_frames(seen: Seen) -> Facts | None:
    return {**seen.facts, "frames": seen.frames}


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


def _port(seen: Seen) -> Facts | None:
    port = seen.facts.get("port", "")
    return {
        **seen.facts,
        "which": f"port {port}" if port else "the chosen port",
        "listeners": f"ss -ltnp | grep :{port}" if port else "ss -ltnp",
    }


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
    Signature(
        id="dist.store_timeout",
        words=("clients joined", "in store based barrier"),
        pattern=r"Timed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<size>\d+) "
        r"clients joined|in store based barrier on rank:? \d+.{0,80}\(world_size=(?P<size2>\d+), worker_count="
        r"(?P<joined2>\d+)(?:, [\w ]+=[^,)]{1,60}){0,4}, timeout=(?P<seconds2>[\d:.]+)",
        cause="Only {joined} of {size} processes reached the rendezvous store within {seconds} s.",
        fix="Start every node, with the same MASTER_ADDR and MASTER_PORT, and open the port in the firewall.",
        verify="nc -vz $MASTER_ADDR $MASTER_PORT from every node",
        asks=(
            Missing(
                "which process or node never joined ({joined}/{size} clients joined): the log of the missing node",
                "the store counts clients and does not name the absent",
                "squeue / kubectl get pods; the log of each node's launcher",
            ),
        ),
        sources=(_CPU,),
        examples=(
            "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 1/2 clients joined.",
        ),
    ),
    Signature(
        id="dist.rendezvous_timeout",
        words=("RendezvousTimeoutError", "rendezvous", "Rendezvous"),
        pattern=r"RendezvousTimeoutError|[Rr]endezvous\S* (?:has )?timed out",
        cause="The rendezvous timed out before all nodes joined; how many did is not printed.",
        fix="Start all nodes within the join timeout, with the same --rdzv-id and --rdzv-endpoint; check that "
        "the endpoint is reachable.",
        verify="nc -vz HOST PORT of --rdzv-endpoint from every node",
        asks=(
            Missing(
                "which node did not join the rendezvous: the launcher logs of the other nodes",
                "this text names neither the number of joined nodes nor the absent ones",
                "the torchrun output of every node; nc -vz HOST PORT",
            ),
        ),
        sources=("torch/distributed/elastic/rendezvous/api.py, torch 2.13.0",),
        examples=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",),
    ),
    Signature(
        id="dist.store_unreachable",
        words=("client socket has", "TCP client failed to connect"),
        pattern=r"client socket has (?:timed out after (?P<ms>\w+)|failed to connect)[\s\S]{0,160}?\(?"
        r"(?P<address>[\w.:\[\]-]+), (?P<port>\d+)\)?",
        cause="The store at {address}:{port} (rank 0's process) could not be reached: connecting timed out.",
        fix="Start rank 0 first and on that host; check MASTER_ADDR, MASTER_PORT ({port}) and the firewall.",
        verify="nc -vz {address} {port}",
        asks=(
            Missing(
                "whether rank 0, the store host, ever started: its log",
                "a store that never listened and a blocked port look the same from here",
                "the log of rank 0; ss -ltnp | grep {port} on its host",
            ),
        ),
        sources=("torch/csrc/distributed/c10d/socket.cpp:1028, torch 2.13.0",),
        examples=(
            (
                "torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while trying to "
                "connect to "
                "(127.0.0.1, 29614)."
            ),
        ),
    ),
    Signature(
        id="dist.store_lost",
        words=(
            "failed to recv, got 0 bytes",
            "got error: Socket Timeout",
            "wait timeout after ",
            "recvBytes",
            "recvValue",
            "sendBytes failed",
        ),
        pattern=r"failed to recv, got 0 bytes|wait timeout after \d+ms, keys: "
        r"|got error: Socket Timeout|recv(?:Bytes|Value)\w*|sendBytes failed",
        role=Role.WAITING,
        weight=1,
        cause="The connection to the key-value store{where} was lost: the process that hosts it (rank 0) went "
        "away or stopped "
        "answering.",
        fix="Read rank 0's log and fix what ended it; this rank is a victim.",
        verify="the last lines of rank 0's log",
        asks=(
            Missing(
                "the log of rank 0{where}, which hosts the TCPStore: why it went away first",
                "the ranks shown only lost the store",
                "the stderr of rank 0's node; dmesg -T there",
            ),
        ),
        extra={"where": ""},
    ),
    Signature(
        id="dist.rank0_busy",
        words=("store->get('0')", "main_process_first"),
        pattern=r"\[(?P<waiting>\d{1,6})\] is setting up NCCL communicator[\s\S]{0,200}?store->get\('0'\) got "
        r"error: (?:Socket Timeout|wait timeout)",
        role=Role.WAITING,
        read=_with_frames,
        cause="Rank 0 was still busy ({work}) when the store's timeout ended the wait of the others: they needed its "
        "communicator id.",
        fix="Do the work once, before launching (pre-tokenise and load from cache), or raise the timeout: "
        "TrainingArguments(ddp_timeout=...), "
        "init_process_group(timeout=...).",
        verify="time the phase on one process: it must be shorter than ddp_timeout",
        sources=("torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",),
        extra={"work": "in a section it enters first"},
    ),
    Signature(
        id="dist.port_in_use",
        words=("EADDRINUSE", "ddress already in use"),
        pattern=r"port: (?P<port>\d+)[\s\S]{0,160}?(?:EADDRINUSE|[Aa]ddress already in use)"
        r"|EADDRINUSE|[Aa]ddress already in use",
        read=_port,
        cause="Another process already listens on {which} of this host.",
        fix="Choose another --master-port (MASTER_PORT), or use torchrun --standalone; end the old process if "
        "it is a leftover.",
        runnable=True,
        verify="{listeners}",
        sources=("torch/csrc/distributed/c10d/socket.cpp, torch 2.13.0",),
        examples=(
            (
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
                "address. port: 29577, "
                "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
            ),
        ),
    ),
)
