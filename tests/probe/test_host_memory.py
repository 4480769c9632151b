"""What a model puts into host memory does not count on the GPU, and counts again when it comes back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
from truth import peak_on_cpu

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate, simulate
from remat.probe.simulated.replay import peaks_for_cpu

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import numpy as np

WIDTH, BATCH = 64, 2048
MIB = 2**20
PLAIN = Variant("as-written", optimizer="sgd")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    """Blocks that run inside of `around`."""

    def __init__(self, around: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__()
        self.around = around
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.around():
            x = self.blocks(x)
        return self.head(x)


def _built(make: Callable[[], nn.Module]) -> Built:
    def batch(_model: nn.Module, size: int | None, _seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or BATCH, WIDTH),))

    return Built(make, batch, lambda out, _: out.square().mean())


def _out_of_torch() -> AbstractContextManager[object]:
    """What `save_on_cpu` does between a GPU and a host, between torch's memory and NumPy's."""

    def pack(tensor: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return tensor.detach().numpy().copy(order="K")

    def unpack(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> torch.Tensor:
        return torch.from_numpy(array).clone()

    return saved_tensors_hooks(pack, unpack)


def _wrapped() -> nn.Module:
    stack = Stack(torch.enable_grad)
    stack.blocks = offload_wrapper(stack.blocks)
    return stack


WAYS: dict[str, Callable[[], nn.Module]] = {
    "save_on_cpu": lambda: Stack(save_on_cpu),
    "save_on_cpu with pinned memory": lambda: Stack(lambda: save_on_cpu(pin_memory=True)),
    "offload_wrapper": _wrapped,
    "hooks of its own": lambda: Stack(lambda: saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.cuda())),
    "hooks that name devices": lambda: Stack(
        lambda: saved_tensors_hooks(lambda t: t.to("cpu", non_blocking=True), lambda t: t.to(device="cuda"))
    ),
}


def _without_workspaces(make: Callable[[], nn.Module]) -> int:
    log = simulate(_built(make), PLAIN, "cuda").log
    workspaces = sum(allocation.bytes for allocation in log.allocations if allocation.category == "workspaces")
    return peaks_for_cpu(log).allocated - workspaces


@pytest.mark.parametrize("way", WAYS)
def test_the_gpu_holds_what_a_real_run_holds_outside_of_the_host(way: str) -> None:
    real = peak_on_cpu(_built(lambda: Stack(_out_of_torch)), PLAIN)
    assert _without_workspaces(WAYS[way]) == pytest.approx(real, rel=0.002)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_said_how_much_lies_in_host_memory(way: str) -> None:
    result = estimate(_built(WAYS[way]), PLAIN, "cuda")
    (said,) = [assumption for assumption in result.assumptions if "host memory" in assumption]
    assert ("(save_on_cpu)" in said) == ("hooks" not in way)
    saved = estimate(_built(lambda: Stack(torch.enable_grad)), PLAIN, "cuda").saved_activation_bytes
    parameters = sum(p.numel() for p in Stack(torch.enable_grad).blocks.parameters()) * 4
    lying = float(re.match(r"([\d.]+) MiB", said)[1]) * MIB
    assert lying == pytest.approx(saved + parameters, rel=0.08)


class Around(nn.Module):
    """A layer on the host between two on the GPU."""

    def __init__(self, *, on_host: bool) -> None:
        super().__init__()
        self.on_host = on_host
        self.first, self.last = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.on_host:
            return self.last(x.cpu().sin().exp().tanh().to("cuda"))
        return self.last(x.sin().exp().tanh())


def test_what_is_computed_on_the_host_does_not_count_and_its_gradient_comes_back() -> None:
    layer = BATCH * 4 * WIDTH * 4
    plain = _without_workspaces(lambda: Around(on_host=False))
    offloaded = _without_workspaces(lambda: Around(on_host=True))
    # In backward three activations and two gradients meet; of the other what came back of the host and its gradient.
    assert plain - offloaded == pytest.approx(3 * layer, rel=0.05)
    log = simulate(_built(lambda: Around(on_host=True)), PLAIN, "cuda").log
    came_back = [a for a in log.allocations if a.phase == "backward" and a.operator == "aten::clone" and a.bytes]
    assert {allocation.bytes for allocation in came_back} == {layer}


class Positions(nn.Module):
    """Position ids and a mask that are made on the CPU and moved."""

    def __init__(self, device: str | None) -> None:
        super().__init__()
        self.device = device
        self.table, self.head = nn.Embedding(BATCH, WIDTH), nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ids = torch.arange(x.shape[0], device=self.device).to(x.device)
        keeps = torch.ones(x.shape[0], 1, device=self.device).to("cuda")
        return self.head((x + self.table(ids)) * keeps)


def test_what_is_made_on_the_cpu_and_moved_counts_as_before() -> None:
    moved = estimate(_built(lambda: Positions("cpu")), PLAIN, "cuda")
    made_there = estimate(_built(lambda: Positions(None)), PLAIN, "cuda")
    assert moved.allocated_bytes == made_there.allocated_bytes
    assert not any("host" in assumption for assumption in moved.assumptions)


def test_values_read_on_the_cpu_cost_nothing() -> None:
    class Logging(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            self.seen = out.detach().cpu().abs().max().item()
            return out

    plain = estimate(_built(lambda: Stack(torch.enable_grad)), PLAIN, "cuda").allocated_bytes
    logging = estimate(_built(lambda: Logging(torch.enable_grad)), PLAIN, "cuda").allocated_bytes
    assert plain == logging


def test_on_the_cpu_itself_nothing_is_moved() -> None:
    variant = Variant("as-written", optimizer="sgd")
    built = _built(lambda: Stack(save_on_cpu))
    assert estimate(built, variant, "cpu").allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.002)
