"""The probe's worker: runs under the user's interpreter, reads requests as lines and answers with events."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from remat.probe.built import Built
    from remat.probe.messages import Event, Request, Variant

HERE = Path(__file__).resolve().parent
_LIBRARIES = ("torch", "transformers", "peft", "diffusers", "timm", "accelerate")
_now = ["import"]
"""what is being done, for the last word of a process that is ended"""


def main() -> None:
    """Serve requests until there are no more. Started as a script: nothing of Remat is on the path."""
    _bring_own_package()
    from remat.probe.guards import guard, open_channel  # noqa: PLC0415  (the package is there from here on)
    from remat.probe.messages import read_request  # noqa: PLC0415

    requests, events = open_channel()
    guarded = False
    for line in requests:
        request = read_request(line)
        if not guarded:
            guard(events, lambda: _now[0], request.limits.memory_bytes)
            guarded = True
        _serve(request, events)


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


def _serve(request: Request, events: TextIO) -> None:
    import time  # noqa: PLC0415

    from remat.probe.guards import time_is_kept, time_limit  # noqa: PLC0415
    from remat.probe.messages import Done, Environment, event_line  # noqa: PLC0415

    def say(event: Event) -> None:
        events.write(event_line(event))
        events.flush()

    began = time.monotonic()
    time_limit(request.limits.seconds)
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
    try:
        import torch  # noqa: F401, PLC0415  (before the user's folder is on the path)

        from remat.probe.target import resolve  # noqa: PLC0415

        _now[0] = "build"
        say(Progress("build", None, 0, total))
        built = resolve(request.target, request.folder)
    except BaseException as error:  # noqa: BLE001  (any code of the user's; it may exit)
        say(_failure(None, error))
        return
    for done, variant in enumerate(request.variants):
        say(Progress("build", variant.name, done, total))
        try:
            say(_estimated(built, variant, request))
        except BaseException as error:  # noqa: BLE001
            say(_failure(variant.name, error))


def _estimated(built: Built, variant: Variant, request: Request) -> Event:
    from remat.probe.estimate import estimate  # noqa: PLC0415

    _now[0] = "build"
    return estimate(built, variant, request.device, request.gpu)


def _failure(variant: str | None, error: BaseException) -> Event:
    """Say what went wrong in the user's words: the line of theirs, and the fact that is missing, if it is one."""
    from remat.probe.built import FactMissingError  # noqa: PLC0415
    from remat.probe.guards import error_location  # noqa: PLC0415
    from remat.probe.messages import Failure, Missing  # noqa: PLC0415

    details = "".join(traceback.format_exception(error))[-20_000:]
    if isinstance(error, FactMissingError):
        missing = Missing(error.fact, error.how)
        return Failure(variant, _now[0], error.fact, error.location, missing, details)
    text = str(error).strip() or "no message"
    what = "the code called exit" if isinstance(error, SystemExit) else type(error).__name__
    return Failure(variant, _now[0], f"{what}: {text}", error_location(error), None, details)


if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[[Event], None]

if __name__ == "__main__":
    main()
