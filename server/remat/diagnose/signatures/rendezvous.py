"""The key-value store and the rendezvous that ranks meet at: not reached, not complete, lost, its port taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Role, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"


def _with_frames(seen: Seen) -> Facts | None:
    return {**seen.facts, "frames": seen.frames}


def _joined(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    joined, size = int(facts["joined"]), int(facts["size"])
    if facts["seconds"].isdigit():
        facts["seconds"] += " s"
    if joined > size:
        facts["came"] = f"{joined} processes registered at the store of a group of {size}, which did not form"
        facts["remedy"] = (
            "Give every attempt a store of its own (a new MASTER_PORT or rendezvous id): another job, or an earlier "
            "attempt of this one, is registered at this store as well."
        )
        facts["check"] = "ss -tnp | grep :$MASTER_PORT on the host of rank 0: the processes of one job only"
        return {**facts, "settled": "nobody is absent"}
    facts["came"] = f"Only {joined} of {size} processes reached the rendezvous store"
    facts["remedy"] = "Start every node, with the same MASTER_ADDR and MASTER_PORT, and open the port in the firewall."
    return facts


def _unreached(seen: Seen) -> Facts | None:
    """Read what torchrun raises: it wraps the reason, and prints the address on a line before the traceback."""
    if "agent" not in seen.facts:
        return seen.facts
    if "_call_store" in seen.frames:
        return None  # it was connected before
    told = next(iter(seen.notices.get("unreached", ())), None)
    named = told.facts if told is not None else {"address": "$MASTER_ADDR", "port": "$MASTER_PORT"}
    return {**seen.facts, **named}


def _lost_by_agent(seen: Seen) -> Facts | None:
    return None if "agent" in seen.facts and "_call_store" not in seen.frames else seen.facts


def _port(seen: Seen) -> Facts | None:
    port = seen.facts.get("port", "")
    return {
        **seen.facts,
        "which": f"port {port}" if port else "the chosen port",
        "listeners": f"ss -ltnp | grep :{port}" if port else "ss -ltnp",
    }


SIGNATURES = (
    Signature(
        id="dist.store_timeout",
        words=("clients joined", "in store based barrier"),
        pattern=r"Timed out after (?P<seconds>\d+) seconds waiting for clients\. (?P<joined>\d{1,9})/(?P<size>\d{1,9}) "
        r"clients joined|in store based barrier on rank:? \d+.{0,80}\(world_size=(?P<size2>\d{1,9}), worker_count="
        r"(?P<joined2>\d{1,9})(?:, [\w ]+=[^,)]{1,60}){0,4}, timeout=(?P<seconds2>[\d:.]+)",
        read=_joined,
        cause="{came} within {seconds}.",
        fix="{remedy}",
        extra={
            "check": "nc -vz $MASTER_ADDR $MASTER_PORT from every node",
            "came": "Fewer processes than the group has (or more) reached the rendezvous store",
            "remedy": "Start every node, with the same MASTER_ADDR and MASTER_PORT, and open the port in the firewall; "
            "more processes than expected: another job or attempt uses the same store.",
        },
        verify="{check}",
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
        words=("client socket has", "TCP client failed to connect", "connection to the C10d store has failed"),
        pattern=r"client socket has (?:timed out after (?P<ms>\w+)|failed to connect)[\s\S]{0,160}?\(?"
        r"(?P<address>[\w.:\[\]-]+), (?P<port>\d+)\)?|(?P<agent>connection to the C10d store has failed)",
        read=_unreached,
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
            "connection to the C10d store has failed",
        ),
        pattern=r"failed to recv, got 0 bytes|wait timeout after \d+ms, keys: "
        r"|got error: Socket Timeout|recv(?:Bytes|Value)\w*|sendBytes failed"
        r"|(?P<agent>connection to the C10d store has failed)",
        read=_lost_by_agent,
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
        r"|failed to bind to \S{1,60}:(?P<port2>\d+)[\s\S]{0,40}?[Aa]ddress\s+already in use"
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
