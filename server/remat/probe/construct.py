"""Makes a model from its class: with defaults, a configuration class, or the arguments that the project gives it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from remat.probe.built import FactMissingError
from remat.probe.loading import read
from remat.probe.scopes import evaluate_in, scopes_around
from remat.probe.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from remat.probe.calls import Callee
    from remat.probe.loading import File
    from remat.probe.messages import Location

_CONFIG_NAMES = re.compile(
    r"(config|cfg|conf|args|hparams|hps?|params|opts?|options|configuration|model_?(config|args|cfg|params)|.*_config|.*_args|.*_cfg)"
)
_CONFIG_CLASSES = re.compile(r".*(Config|Configuration|Args|Arguments|Hparams|HParams|Params|Options|Cfg|Settings)")
_MOST_FILES, _LARGEST = 40, 200_000


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a class or function is called with, each made anew by its function."""

    positional: tuple[Callable[[], object], ...] = ()
    named: tuple[tuple[str, Callable[[], object]], ...] = ()
    assumptions: tuple[str, ...] = ()

    def call(self, callee: Callee[object]) -> object:
        return callee(*(make() for make in self.positional), **{name: make() for name, make in self.named})


def arguments_for(callee: Callee[object], file: File, place: Location, inside: str = "{}") -> Arguments:
    """Find what `callee` has to be called with. Raises FactMissingError, which names what can't be known.

    `inside`: the expression that its call is a part of, such as `GPT({})` for a configuration.
    """
    needed = [
        p for p in _parameters(callee) if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    ]
    if not needed:
        return Arguments()
    configs = {p.name: config_class(p, callee, file) for p in needed}
    if all(cls is not None for cls in configs.values()):
        try:
            return _configured(cast("dict[str, type]", configs), file, place, _call_of(callee, inside))
        except FactMissingError:
            found = _as_called(callee, file)
            if found is None:
                raise
            return found
    found = _as_called(callee, file)
    if found is not None:
        return found
    name = getattr(callee, "__name__", "model")
    missing = [p.name for p in needed if configs[p.name] is None]
    given = ", ".join(f"{p.name}=…" for p in needed)
    raise FactMissingError(
        f"{_listed(missing)} of `{name}(…)`, which {'has' if len(missing) == 1 else 'have'} no default",
        f"add above line {place.line} of {place.path}: # remat: probe(model={inside.format(f'{name}({given})')})",
        place,
    )


def config_class(parameter: inspect.Parameter, callee: object, file: File) -> type | None:
    """Return the configuration class that a parameter takes, as its annotation, the class or the file tells."""
    annotated = _annotation(parameter, callee)
    if isinstance(annotated, type) and _is_config(annotated):
        return annotated
    if not _CONFIG_NAMES.fullmatch(parameter.name.lower()):
        return None
    own = getattr(callee, "config_class", None)
    if isinstance(own, type):
        return own
    names = [s for s in file.plan.by_name if _CONFIG_CLASSES.fullmatch(s)]
    exact = [n for n in names if n.lower().startswith(str(getattr(callee, "__name__", "")).lower())]
    for name in [*exact, *(names if len(names) == 1 or not exact else [])]:
        cls = file.look_up(name)
        if isinstance(cls, type) and _is_config(cls):
            return cls
    return None


def _call_of(callee: object, inside: str) -> str:
    return inside.format(f"{getattr(callee, '__name__', 'model')}({{}})")


def _configured(configs: dict[str, type], file: File, place: Location, inside: str) -> Arguments:
    makers: list[tuple[str, Callable[[], object]]] = []
    said: list[str] = []
    for name, cls in configs.items():
        inner = arguments_for(cast("Callee[object]", cls), file, place, inside)
        makers.append((name, lambda cls=cls, inner=inner: inner.call(cls)))  # type: ignore[misc]
        said += inner.assumptions or (f"{name} is {cls.__name__}() with its defaults",)
    return Arguments((), tuple(makers), tuple(said))


def _is_config(cls: type) -> bool:
    if cls.__module__ == "builtins" or cls.__module__.split(".")[0] in {"torch", "argparse", "typing"}:
        return False
    return dataclasses.is_dataclass(cls) or bool(_CONFIG_CLASSES.fullmatch(cls.__name__))


def _parameters(callee: Callee[object]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(callee).parameters.values())
    except (ValueError, TypeError):
        return []


def _annotation(parameter: inspect.Parameter, callee: object) -> object:
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    function = getattr(callee, "__init__", callee) if isinstance(callee, type) else callee
    try:
        return eval(annotation, getattr(function, "__globals__", {}))  # noqa: S307  (an annotation of the user's file)
    except Exception:  # noqa: BLE001  (an annotation may name what only a type checker sees)
        return None


def _as_called(callee: object, file: File) -> Arguments | None:
    """Find a call of it in its file, or in one beside it, whose arguments can be worked out without running it."""
    name = str(getattr(callee, "__name__", ""))
    for other, tree, call in _calls(name, file):
        scopes = scopes_around(tree, call)
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(isinstance(v, ast.Starred) for v in values) or any(k.arg is None for k in call.keywords):
            continue
        makers = [_maker(other, value, scopes) for value in values]
        try:
            arguments = [make() for make in makers]
            inspect.signature(callee).bind(  # type: ignore[arg-type]
                *arguments[: len(call.args)],
                **dict(zip((k.arg or "" for k in call.keywords), arguments[len(call.args) :], strict=True)),
            )
        except (Exception, SystemExit):  # noqa: BLE001, S112  (any code of the user's; the next call may do)
            continue
        named = tuple((k.arg or "", make) for k, make in zip(call.keywords, makers[len(call.args) :], strict=True))
        return Arguments(tuple(makers[: len(call.args)]), named, (f"{name} is made as at {other.path}:{call.lineno}",))
    return None


def _maker(
    file: File, node: ast.expr, scopes: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.If]
) -> Callable[[], object]:
    return lambda: evaluate_in(file, node, scopes)


def _calls(name: str, file: File) -> Iterator[tuple[File, ast.Module, ast.Call]]:
    for path in _near(file.path):
        text = read(path) if path.stat().st_size < _LARGEST else ""
        if not re.search(rf"\b{re.escape(name)}\(", text):
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and dotted(n.func).split(".")[-1] == name]
        if calls:
            try:
                other = file.project.file(path)
            except (Exception, SystemExit):  # noqa: BLE001, S112  (any code of the user's; the next file may do)
                continue
            yield from ((other, tree, call) for call in calls)


def _near(path: Path) -> list[Path]:
    """Return the file itself, then those beside it and one folder above."""
    beside = sorted(path.parent.glob("*.py"))[:_MOST_FILES]
    above = sorted(path.parent.parent.glob("*.py"))[:_MOST_FILES]
    return [path, *(p for p in [*beside, *above] if p != path and p.is_file())]


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
