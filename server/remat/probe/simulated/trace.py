"""Every storage that a step allocates and frees, with the module, the line and the phase that made it."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from remat.probe.simulated.accumulation import Accumulation
from remat.probe.simulated.few_values import Unknowable
from remat.probe.simulated.flops import flops_of
from remat.probe.simulated.host import Host
from remat.probe.simulated.kernels import STAND_INS
from remat.probe.simulated.lenient import Assumed, assume
from remat.probe.simulated.log import Allocation, Log, Mark
from remat.probe.simulated.quick import run_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch._subclasses.fake_tensor import FakeTensorMode

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parents[1])
_LOOP = str(Path(__file__).with_name("step.py"))
_CPU = torch.device("cpu")


class Trace(TorchDispatchMode):
    """Logs what runs inside it. Enter it inside `FakeTensorMode`, or without one for a real run."""

    def __init__(self, real_on: str | None = None) -> None:
        """`real_on`: the type of the device whose tensors count in a real run; None: fakes, all of which count."""
        super().__init__()
        self.log = Log()
        self.real_on = real_on
        self.phase = "load"
        self.step = 0
        self.modules: list[str] = []
        self.recomputing = 0
        self.checkpointing = 0
        self.fake: FakeTensorMode | None = None
        """the mode this one is inside of, if any"""
        self.scalars_elsewhere = False
        """tensors made from Python numbers stay on the CPU, whose memory doesn't count"""
        self.wrapper: type | None = None
        """tensors of this class unwrap themselves: what counts is the work on what they wrap"""
        self.doing = ""
        """the category of what is allocated now, where its tensor does not say better"""
        self.stream = 0
        self.lane: int | None = None
        """the number of the optimizer whose turn it is, where there are several"""
        self.host = Host()
        self._accumulation = Accumulation()
        self._live: dict[int, tuple[int, object]] = {}
        self.scratch: Callable[[str, tuple[object, ...], object], tuple[int, int]] = lambda *_: (0, 0)
        """of an operator, by its name, arguments and result: bytes taken before the result is there, and beside it"""
        self.taken_for_good: Callable[[str], None] = lambda _: None
        """told of each operator by its name when its result is there: it allocates what a library keeps for good"""

    def begin(self, phase: str, step: int) -> None:
        if phase == "forward":
            self.log.flops = {} if step != self.step else self.log.flops
        self.phase, self.step = phase, step
        self.log.marks.append(Mark(len(self.log.events), phase, step))

    def apart(self, lane: int | None) -> None:
        self.lane = lane

    def end_forward(self) -> None:
        self.log.kept = [index for index, _ in self._live.values()]
        self.host.end_forward()

    def live(self) -> list[Allocation]:
        return [self.log.allocations[index] for index, _ in self._live.values()]

    def assume(self, what: str) -> None:
        """Notes what had to be taken for granted, with the line that asks for it."""
        note = Assumed(what, line_outside_torch())
        self.log.assumed[note] = self.log.assumed.get(note, 0) + 1

    # ---- storages

    def track(self, tensor: torch.Tensor, operator: str, category: str = "") -> None:
        """Notes the storage of `tensor` if it is new; a category given later wins."""
        if is_traceable_wrapper_subclass(tensor):  # DTensor and its like: what counts is what they wrap
            parts = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
            for part in parts:
                if isinstance(part, torch.Tensor):
                    self.track(part, operator, category)
            return
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
            return
        known = self._live.get(storage._cdata)
        if known is not None:
            if category and self.log.allocations[known[0]].category != "elsewhere":
                self.log.allocations[known[0]].category = category
            return
        if tensor.device.type == "meta" or self.real_on not in {None, tensor.device.type}:
            return
        index = self.allocate(0 if category == "elsewhere" else storage.nbytes(), operator, category)
        key = storage._cdata
        self._live[key] = (index, weakref.ref(storage, lambda _: self._freed(key)))

    def allocate(self, size: int, operator: str, category: str = "") -> int:
        """Notes an allocation that no tensor of ours stands for; returns its number."""
        module = self.modules[-1] if self.modules else ""
        line = line_outside_torch() if self.phase != "load" else None
        self.log.allocations.append(
            Allocation(
                size, self.phase, self.step, module, line, operator, self.recomputing > 0, category or self.doing
            )
        )
        self.log.events.append(len(self.log.allocations))
        if self.stream:
            self.log.streams[len(self.log.allocations) - 1] = self.stream
        if self.lane is not None:
            self.log.lanes[len(self.log.allocations) - 1] = self.lane
        return len(self.log.allocations) - 1

    def free(self, index: int) -> None:
        self.log.events.append(-index - 1)

    def passing(self, size: int, operator: str) -> None:
        """A kernel's own scratch: taken and given back while the operator runs."""
        self.free(self.allocate(size, operator))

    def resized(self, storage: torch.UntypedStorage) -> None:
        """Notes that a storage has another size now: what it had is given back, what it has is taken."""
        key = storage._cdata
        known = self._live.get(key)
        if known is None or self.log.allocations[known[0]].bytes == storage.nbytes():
            return
        self.free(known[0])
        was = self.log.allocations[known[0]]
        self._live[key] = (self.allocate(storage.nbytes(), was.operator, was.category), known[1])

    def _freed(self, key: int) -> None:
        known = self._live.pop(key, None)
        if known is not None:
            self.free(known[0])
            self.host.free(key)

    # ---- operators

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; torch's wrapper against that costs as much as the rest of this dispatch."""
        return False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if self.wrapper is not None and any(issubclass(kind, self.wrapper) for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        name = func._schema.name
        if name == "prim::device":
            # Asked for twice an operator; the mode below would take its long way to the same answer.
            return _CPU if self.fake is not None else func(*args, **kwargs)
        if "device" in kwargs and self.real_on is None:
            kwargs = {**kwargs, "device": _here(kwargs["device"])}
        if self.phase == "backward" and self.fake is not None:
            sum_ = self._accumulation.in_place(name, args, 2)
            if sum_ is not None:
                return sum_
        out = self._run(func, name, args, kwargs)
        on_host = self.host.takes(args, kwargs)
        if on_host is None:
            self._took(name, args, out)
        else:
            for tensor in _tensors(out):
                self.host.put(tensor, on_host)
                self.track(tensor, name, "elsewhere")
        self._count(func, args, kwargs, out)
        return out

    def _took(self, name: str, args: tuple[object, ...], out: object) -> None:
        before, beside = self.scratch(name.rpartition(":")[2], args, out)
        if before:
            self.passing(before, name)
        is_elsewhere = self.scalars_elsewhere and name == "aten::lift_fresh"
        for tensor in _tensors(out):
            self.track(tensor, name, "elsewhere" if is_elsewhere else "")
        self.taken_for_good(name)
        if beside:
            self.passing(beside, name)

    def _run(
        self, func: torch._ops.OpOverload, name: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        if self.real_on is not None:
            return func(*args, **kwargs)
        try:
            stand_in = STAND_INS.get(name)
            if stand_in is not None:
                return stand_in(args, kwargs)
            out = NotImplemented if self.fake is None else run_quickly(self.fake, func, args, kwargs)
            return func(*args, **kwargs) if out is NotImplemented else out
        except Unknowable as error:
            line = line_outside_torch()
            is_torchs_own = self.phase == "optimizer" and line is None  # its count of steps changes no size
            return assume(func, args, error, {} if is_torchs_own else self.log.assumed, line)

    def _count(self, func: object, args: tuple[object, ...], kwargs: dict[str, object], out: object) -> None:
        flops = flops_of(func, args, kwargs, out)
        if flops:
            phase = "recompute" if self.recomputing else self.phase if self.lane is None else self.lane
            self.log.flops[phase] = self.log.flops.get(phase, 0.0) + flops
            if self.checkpointing and not self.recomputing:
                self.log.flops["checkpointed"] = self.log.flops.get("checkpointed", 0.0) + flops


def _here(device: object) -> object:
    """The fake world has one device, the CPU; a CPU-only torch can't make the others, not even fake ones."""
    is_elsewhere = isinstance(device, torch.device) and device.type not in {"cpu", "meta"}
    return torch.device("cpu") if is_elsewhere else device


def _tensors(out: object) -> Iterator[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, (list, tuple)):
        for item in out:
            yield from _tensors(item)


def line_outside_torch() -> tuple[str, int] | None:
    """The innermost line that is neither torch's nor ours, inside the loop of steps."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_TORCH, _OURS, "<")):
            return path, frame.f_lineno
        if path == _LOOP:
            return None
        frame = frame.f_back  # type: ignore[assignment]
    return None
