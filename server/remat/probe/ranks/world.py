"""A process group of any size in one process: this is rank 0, the others are pretended, collectives return at once."""

from __future__ import annotations

import contextlib
import gc
import os
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.built import FactMissingError
from remat.probe.simulated.variants import CannotApplyError
from remat.probe.target.building import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.target.calls import Callee

_LAUNCHER = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
"""what torchrun tells each process, beside WORLD_SIZE; nothing listens or connects there"""
_MESH_WORK = ("__init__", "__getitem__", "_flatten", "_unflatten", "get_group", "get_all_groups")
"""of DeviceMesh: what looks into its tensor of ranks, which must be real"""


@contextlib.contextmanager
def pretended_ranks(size: int, *replaced: tuple[object, object], real: bool = False) -> Iterator[None]:
    """Inside it the user's code finds itself on rank 0 of `size`, launched as by torchrun; and in place of the first of
    each pair of `replaced` it finds the second, whatever name it was imported by. The second must have no name in any
    module: it would be the first afterwards. `real`: the code's tensors are, and stand where it says.

    Raises `CannotApplyError` where this torch has no distributed training.
    """
    if not torch.distributed.is_available():
        raise CannotApplyError(
            f"torch {torch.__version__} is built without torch.distributed, which several ranks need"
        )
    import torch.distributed as dist  # noqa: PLC0415 -- these take a second to import, and one rank needs none of them
    from torch.distributed import device_mesh  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    with contextlib.ExitStack() as undo:
        undo.enter_context(_environment({**_LAUNCHER, "WORLD_SIZE": str(size)}))
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
        undo.callback(_leave, dist)
        stand_ins = [
            (dist.init_process_group, lambda *_, **__: None),  # the group is there already
            (dist.destroy_process_group, lambda *_, **__: None),  # and stays
            *replaced,
        ]
        if not real:
            undo.enter_context(_meshes_of_real_ranks(device_mesh.DeviceMesh))
            undo.enter_context(_cuda_of_one_device())
            stand_ins.append((device_mesh.init_device_mesh, _in_the_real_world(device_mesh.init_device_mesh)))
        undo.enter_context(replaced_everywhere(*stand_ins))
        yield


@contextlib.contextmanager
def asking_for_their_number() -> Iterator[None]:
    """Inside it code that starts a process group is a fact missing: how many processes there are."""

    def ask(*_args: object, **_kwargs: object) -> None:
        raise FactMissingError("how many processes train this model together", "say it: --world-size N")

    dist = torch.distributed
    if not dist.is_available() or dist.is_initialized():
        yield
        return
    with contextlib.ExitStack() as undo:
        for where, name in (
            (dist, "init_process_group"),
            (dist.distributed_c10d, "init_process_group"),
            (dist.device_mesh.DeviceMesh, "__init__"),
        ):
            undo.callback(setattr, where, name, getattr(where, name))
            setattr(where, name, ask)
        yield


@contextlib.contextmanager
def replaced_everywhere(*pairs: tuple[object, object]) -> Iterator[None]:
    """Inside it whoever has the first of a pair by a module's name finds the second there."""
    _rename(pairs)
    try:
        yield
    finally:
        _rename([(stand_in, original) for original, stand_in in pairs])


def _rename(pairs: Sequence[tuple[object, object]]) -> None:
    """In one go: finding what refers to a thing takes a tenth of a second, however many things there are."""
    becomes = {id(was): new for was, new in pairs}
    gc.unfreeze()  # what is frozen is not looked through
    for holder in gc.get_referrers(*(was for was, _ in pairs)):
        if isinstance(holder, dict) and "__name__" in holder:  # the names of a module
            for name in [name for name, value in holder.items() if id(value) in becomes]:
                holder[name] = becomes[id(holder[name])]


def _leave(dist: object) -> None:
    if dist.is_initialized():  # type: ignore[attr-defined]
        dist.destroy_process_group()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _environment(told: dict[str, str]) -> Iterator[None]:
    kept = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _cuda_of_one_device() -> Iterator[None]:
    """`torch.cuda.set_device(local_rank)` is the second line of every such script."""
    with contextlib.ExitStack() as undo:
        for name, value in (("set_device", lambda _: None), ("current_device", lambda: 0)):
            undo.callback(setattr, torch.cuda, name, getattr(torch.cuda, name))
            setattr(torch.cuda, name, value)
        yield


@contextlib.contextmanager
def _meshes_of_real_ranks(mesh: type) -> Iterator[None]:
    """Inside it meshes, whose ranks are values, are made and cut outside of the fake world, and stand on its device."""
    with contextlib.ExitStack() as undo:
        for name in _MESH_WORK:
            kept = mesh.__dict__.get(name)
            if isinstance(kept, FunctionType):
                undo.callback(setattr, mesh, name, kept)
                setattr(mesh, name, _in_the_real_world(kept, method=True))
        shown = mesh.__dict__.get("mesh")
        if isinstance(shown, property) and shown.fget is not None:
            undo.callback(setattr, mesh, "mesh", shown)
            look = _in_the_real_world(cast("Callee[object]", shown.fget), method=True)
            setattr(mesh, "mesh", property(look))  # noqa: B010 -- mypy knows no such attribute
        yield


def _in_the_real_world(function: Callee[object], *, method: bool = False) -> Callee[object]:
    """`function` without fakes; where it asks for the type of a device, it gets the one there is."""
    place = 1 if method else 0

    @wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        args = tuple(_here(item) if index == place else item for index, item in enumerate(args))
        if "device_type" in kwargs:
            kwargs["device_type"] = _here(kwargs["device_type"])
        with outside():
            return function(*args, **kwargs)

    return run


def _here(item: object) -> object:
    return "cpu" if isinstance(item, str) and item.partition(":")[0] in {"cuda", "xpu", "hpu"} else item
