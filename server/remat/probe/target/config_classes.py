"""Which class of settings a parameter takes, as its annotation, the class it is of, or the file tells."""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import TYPE_CHECKING, cast

from remat.probe.target.absent_tokenizers import AbsentTokenizer
from remat.probe.target.as_called import parameters_of
from remat.probe.target.settings_read import attributes_read

if TYPE_CHECKING:
    import inspect

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File

_CONFIG_NAMES = re.compile(
    r"(config|cfg|conf|args|hparams|hps?|params|opts?|options|configuration|model_?(config|args|cfg|params)|.*_config|.*_args|.*_cfg)"
)
_CONFIG_CLASSES = re.compile(r".*(Config|Configuration|Args|Arguments|Hparams|HParams|Params|Options|Cfg|Settings)")


def config_class(parameter: inspect.Parameter, callee: object, file: File) -> type | None:
    """Return the configuration class that a parameter takes, as its annotation, the class or the file tells."""
    annotated = _annotation(parameter, callee)
    for kind in (annotated, *typing.get_args(annotated)):  # of several, the first
        if isinstance(kind, type) and _is_config(kind):
            return kind
    if parameter.name.lower() == "tokenizer":
        return AbsentTokenizer
    if not _CONFIG_NAMES.fullmatch(parameter.name.lower()):
        return None
    own = getattr(callee, "config_class", None)
    if isinstance(own, type):
        return own
    names = [s for s in file.plan.by_name if _CONFIG_CLASSES.fullmatch(s)]
    exact = [n for n in names if n.lower().startswith(str(getattr(callee, "__name__", "")).lower())]
    classes = [file.look_up(name) for name in [*exact, *(names if len(names) == 1 or not exact else [])]]
    found = [cls for cls in classes if isinstance(cls, type) and _is_config(cls)]
    if len(found) < 2:
        return next(iter(found), None)
    wanted = attributes_read(callee, parameter.name, file)
    return max(found, key=lambda cls: len(wanted & _settings_of(cls)))  # of equals the first


def _settings_of(cls: type) -> set[str]:
    """Return the names that a configuration class knows."""
    return {*dir(cls), *(p.name for p in parameters_of(cast("Callee[object]", cls)))}


def _is_config(cls: type) -> bool:
    if cls.__module__ == "builtins" or cls.__module__.split(".")[0] in {"torch", "argparse", "typing"}:
        return False
    return dataclasses.is_dataclass(cls) or bool(_CONFIG_CLASSES.fullmatch(cls.__name__))


def _annotation(parameter: inspect.Parameter, callee: object) -> object:
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    function = getattr(callee, "__init__", callee) if isinstance(callee, type) else callee
    try:
        return eval(annotation, getattr(function, "__globals__", {}))  # noqa: S307  (an annotation of the user's file)
    except Exception:  # noqa: BLE001  (an annotation may name what only a type checker sees)
        return None
