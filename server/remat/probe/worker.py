"""The probe's worker: runs under the user's interpreter, reads requests as lines and answers with events."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeAlias

    import torch
    from torch import nn

    from remat.probe.built import Built, Inputs
    from remat.probe.guards import Channel
    from remat.probe.messages import Event, Request, Variant, VariantResult

    Stage: TypeAlias = Literal["build", "forward", "backward", "measure"]
    Say: TypeAlias = Callable[[Event], None]

HERE = Path(__file__).resolve().parent
_LIBRARIES = ("torch", "transformers", "peft", "diffusers", "timm", "accelerate")
_now = ["import"]
"""what is being done, for the last word of a process that is ended"""
_built: dict[tuple[str, str], Built] = {}
"""by target and folder"""
_estimated: dict[tuple[str, str, str, str | None], dict[Variant, VariantResult]] = {}
"""by target, folder, device and GPU; the parent ends this process when files change"""


def main() -> None:
    """Serve requests until there are no more. Started as a script: nothing of Remat is on the path."""
    _bring_own_package()
    from remat.probe.guards import guard, open_channel  # noqa: PLC0415  (the package is there from here on)
    from remat.probe.lines import read_request  # noqa: PLC0415
    from remat.probe.ranks.spoken import is_rank, wait_for_the_end  # noqa: PLC0415

    channel = open_channel()
    for number, line in enumerate(channel.requests):
        request = read_request(line)
        if number == 0:
            guard(channel, lambda: _now[0], request.limits.memory_bytes)
        _serve(request, channel)
        if gc.get_freeze_count() == 0:  # at first, and where several ranks had to look through everything
            _set_imports_apart()
    if is_rank():
        wait_for_the_end()


def _set_imports_apart() -> None:
    """Torch and its like are large: to look through them for garbage takes a fifth of a second, every few estimates."""
    gc.collect()
    gc.freeze()


def _bring_own_package() -> None:
    """Import `remat.probe` from beside this file, without a folder of ours on `sys.path`."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    for name, folder in (("remat", HERE.parent), ("remat.probe", HERE)):
        place = [str(folder)]
        spec = importlib.util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{folder} holds no package")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


def _serve(request: Request, channel: Channel) -> None:
    import time  # noqa: PLC0415

    from remat.probe.guards import time_is_kept, time_limit  # noqa: PLC0415
    from remat.probe.lines import event_line  # noqa: PLC0415
    from remat.probe.messages import Done, Environment  # noqa: PLC0415

    def say(event: Event) -> None:
        channel.events.write(event_line(event))
        channel.events.flush()

    began = time.monotonic()
    with contextlib.suppress(OSError):  # resolving the target says what is wrong with the folder
        os.chdir(request.folder)
    time_limit(request.limits.seconds, channel.faults)
    say(Environment(sys.executable, _versions()))
    _now[0] = "import"
    try:
        _answer(request, say)
    finally:
        time_is_kept()
    say(Done(round(time.monotonic() - began, 3)))


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _answer(request: Request, say: Say) -> None:
    from remat.probe.messages import Progress  # noqa: PLC0415

    total = len(request.variants)
    say(Progress("import", None, 0, total))
    if importlib.util.find_spec("torch") is None:
        say(_without_torch())
        return
    try:
        import torch  # noqa: F401, PLC0415  (before the user's folder is on the path)

        _now[0] = "build"
        say(Progress("build", None, 0, total))
        from remat.probe.answering import Answers  # noqa: PLC0415  (it needs torch)

        built = _resolved(request.target, request.folder)
        answers = Answers(built, request, _known_for(request))
    except BaseException as error:  # noqa: BLE001  (any code of the user's; it may exit)
        say(_failure(None, error))
        return
    for done, variant in enumerate(request.variants):
        try:
            tell = partial(_tell, say, variant.name, done, total)
            _now[0] = "build"
            for event in answers.of(variant, _telling(built, tell), partial(_begin_measuring, tell)):
                say(event)
        except BaseException as error:  # noqa: BLE001
            of_all = _now[0] == "build" and type(error).__name__ == "FactMissingError"
            say(_failure(None if of_all else variant.name, error))
            if of_all or isinstance(error, MemoryError):
                return  # the others would fail alike; or what it holds may not be free yet


def _tell(say: Say, variant: str, done: int, total: int, stage: Stage) -> None:
    from remat.probe.messages import Progress  # noqa: PLC0415

    say(Progress(stage, variant, done, total))


def _resolved(target: str, folder: str) -> Built:
    """Read a target once; the parent ends this process when files change."""
    from remat.probe.target.resolve import resolve  # noqa: PLC0415

    if (target, folder) not in _built:
        _built[target, folder] = resolve(target, folder)
    return _built[target, folder]


def _known_for(request: Request) -> dict[Variant, VariantResult] | None:
    """The estimates that were made for such a request; a measurement may change what they say of a GPU's context."""
    if request.mode != "estimate":
        _estimated.clear()
        return None
    if request.snapshot is not None:
        return None
    return _estimated.setdefault((request.target, request.folder, request.device, request.gpu), {})


def _begin_measuring(tell: Callable[[Stage], None]) -> None:
    _now[0] = "measure"
    tell("measure")


def _telling(built: Built, tell: Callable[[Stage], None]) -> Built:
    """`built`, which says what is being done whenever that changes."""

    def now(stage: Stage) -> None:
        if _now[0] != stage or stage == "build":
            _now[0] = stage
            tell(stage)

    def model() -> nn.Module:
        now("build")
        return built.make_model()

    def batch(of: nn.Module, size: int | None, seq: int | None) -> Inputs:
        made = built.make_batch(of, size, seq)
        now("forward")
        return made

    def loss(output: object, inputs: Inputs) -> torch.Tensor:
        made = built.make_loss(output, inputs)
        now("backward")
        return made

    return replace(built, make_model=model, make_batch=batch, make_loss=loss)


def _without_torch() -> Event:
    from remat.probe.messages import Failure, Missing  # noqa: PLC0415

    fact = f"torch is not installed in {sys.executable}"
    how = "choose the Python that trains the model: --python PATH"
    return Failure(None, "import", fact, None, Missing(fact, how))


def _failure(variant: str | None, error: BaseException) -> Event:
    """Say what went wrong in the user's words: the line of theirs, and the fact that is missing, if it is one."""
    from remat.probe.built import FactMissingError  # noqa: PLC0415
    from remat.probe.guards import error_location  # noqa: PLC0415
    from remat.probe.messages import Failure, Missing  # noqa: PLC0415

    details = "".join(traceback.format_exception(error))[-20_000:]
    place = error_location(error)
    traceback.clear_frames(error.__traceback__)  # they hold the model that could not be made
    if isinstance(error, FactMissingError):
        missing = Missing(error.fact, error.how)
        return Failure(variant, _now[0], error.fact, error.location or place, missing, details)
    if type(error).__name__ == "CannotApplyError":  # its module needs torch, which may be what failed
        return Failure(variant, _now[0], str(error), place, None, details)
    if type(error).__name__ == "CannotMeasureError":
        how = str(getattr(error, "how", ""))
        return Failure(variant, "measure", str(error), None, Missing(str(error), how), details)
    text = str(error).strip() or (
        "more memory was asked for than the probe may use" if isinstance(error, MemoryError) else "no message"
    )
    what = "the code called exit" if isinstance(error, SystemExit) else type(error).__name__
    return Failure(variant, _now[0], f"{what}: {text}", place, None, details)


if __name__ == "__main__":
    main()
