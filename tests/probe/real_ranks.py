"""Steps that really run, on real tensors, as one of several ranks: over gloo, or beside ranks that are pretended.

Run as a script it is one rank of a real group: `real_ranks.py RANK SIZE PORT HOW` prints what that rank took.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BATCH, LENGTH, WORDS = 4, 32, 101
"""a number of words that no number of ranks divides"""


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 193), nn.Linear(193, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, *, tied: bool = False, frozen: bool = False) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 64), nn.Linear(64, WORDS)
        self.blocks = nn.ModuleList(Block(64) for _ in range(4))
        self.register_buffer("scale", torch.ones(64))
        if tied:
            self.head.weight = self.embed.weight
        if frozen:
            self.blocks.requires_grad_(requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def tokens() -> torch.Tensor:
    return torch.randint(0, WORDS, (BATCH, LENGTH))


def sharded(model: nn.Module, **settings: object) -> nn.Module:
    for block in model.blocks:
        fully_shard(block, **settings)
    return fully_shard(model, **settings)


def view(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


@contextlib.contextmanager
def pretending(size: int) -> Iterator[None]:
    """A group whose collectives return at once, for real tensors."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def taken(model: nn.Module, wrap: Callable[[nn.Module], nn.Module], **optimizer: object) -> dict[str, int]:
    """Bytes of what two steps hold at the end of their phases, and the most that was alive at once."""
    is_sharded = wrap not in {DistributedDataParallel, view}
    if is_sharded:
        model = wrap(model)
    found = {"own": held_bytes(model)}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        runs = model if is_sharded else wrap(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        adamw = torch.optim.AdamW(trained, **optimizer)
        for _ in range(2):
            batch = tokens()
            loss = runs(batch)
            loss.backward()
            del loss, batch
            found["gradients"] = _bytes(p.grad for p in trained)
            adamw.step()
            moments = [value for state in adamw.state.values() for value in state.values() if value.dim()]
            found["state"] = _bytes(moments)
            del moments
            adamw.zero_grad()
    return {**found, "most": most_alive(found["own"], profiler)}


def most_alive(before: int, profiler: profile) -> int:
    alive = most = before
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        most = max(most, alive)
    return most


def held_bytes(model: nn.Module) -> int:
    return _bytes([*model.parameters(), *model.buffers()])


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Of the storages of what this rank holds."""
    held = [getattr(tensor, "_local_tensor", tensor).untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in held}.values())


def main() -> None:
    rank, size, port = map(int, sys.argv[1:4])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if sys.platform == "linux":  # gloo would look the machine's own name up, which need not lead anywhere
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    took = taken(Net(), {"fsdp2": sharded, "ddp": DistributedDataParallel, "view": view}[sys.argv[4]])
    sys.stdout.write(f"TOOK {json.dumps(took)}\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
