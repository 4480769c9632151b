"""Makes a model from its class: with defaults, a configuration class, or the arguments that the project gives it."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from remat.probe.built import FactMissingError
from remat.probe.guards import error_location
from remat.probe.target.absent_tokenizers import AbsentTokenizer
from remat.probe.target.as_called import (
    as_called,
    as_trained,
    needed_of,
    none_settings_read,
    none_where_it_failed,
    open_numbers,
    parameters_of,
    undecided,
)
from remat.probe.target.asides import left_out
from remat.probe.target.building import outside
from remat.probe.target.call_sites import project_folders, sites
from remat.probe.target.config_classes import config_class
from remat.probe.target.settings_files import (
    holders,
    named_settings,
    nearly_all,
    spelled_settings,
    targets,
)
from remat.probe.target.settings_read import attributes_read
from remat.probe.target.spelled import OPEN, listed, spelled, without_site
from remat.probe.target.unwritten import nothing_written
from remat.probe.target.ways import Arguments, HollowError, Ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from remat.probe.messages import Location
    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File
    from remat.probe.target.settings_files import Holder

_MOST_WAYS = 6
_MOST_TOLD = 6  # defaults that a sentence lists
_ENOUGH = 2  # entries by which a file of settings is recognised


def arguments_for(
    callee: Callee[object], file: File, place: Location, inside: str = "{}", config: str | None = None
) -> Ways:
    """Find what `callee` has to be called with. Raises FactMissingError, which names what can't be known.

    `inside`: the expression that its call is a part of, such as `GPT({})` for a configuration.
    `config`: the file that its configuration is read from, if the user named one.
    """
    needed = needed_of(callee)
    if config is not None:
        return _with_config(needed, file, place, config)
    unset = [] if needed else undecided(callee)
    asked = _Asked(
        callee, file, place, inside, needed or unset, {p.name: config_class(p, callee, file) for p in needed}
    )
    if not asked.open:
        ways = [*as_trained(callee, file), Arguments((), (), _defaults_said(callee))]
        return Ways(ways, partial(_left_unset, asked), lambda error: _ways_after(callee, file, error))
    inner: FactMissingError | None = None
    plain: Ways | None = None
    if all(cls is not None for cls in asked.configs.values()):
        try:
            plain = _configured(asked)
        except FactMissingError as error:
            inner = error
        if plain is not None and not unset and not _is_open(asked.configs):
            return plain
    found = list(itertools.islice(itertools.chain(as_called(callee, file), _as_set(asked)), _MOST_WAYS))
    if plain is not None:
        return Ways([*found, *plain.ways], plain.question or partial(_fails, asked, by_call=bool(found)))
    if found:
        return Ways(found, partial(_fails, asked, by_call=True))
    if inner is not None:
        raise inner
    settings = _with_settings(asked)
    if settings is None:
        raise _question(asked)
    return settings


def _defaults_said(callee: Callee[object]) -> tuple[str, ...]:
    """Say which values decide on the sizes of what is made."""
    sizes = [f"{p.name}={p.default}" for p in parameters_of(callee) if type(p.default) is int]
    some = ", ".join(sizes[:_MOST_TOLD]) + (", …" if len(sizes) > _MOST_TOLD else "")
    return (f"{getattr(callee, '__name__', 'model')} is made with its defaults: {some}",) if sizes else ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for: the parameters of `callee` that nothing tells yet, and what classes of settings they take."""

    callee: Callee[object]
    file: File
    place: Location
    inside: str
    open: list[inspect.Parameter]
    configs: Mapping[str, type | None]

    @property
    def name(self) -> str:
        return getattr(self.callee, "__name__", "model")

    def line(self, said: str) -> str:
        return f"add above line {self.place.line} of {self.place.path}: # remat: probe({said})"


def _as_set(asked: _Asked) -> Iterator[Arguments]:
    """Find files of settings that say what it is made with."""
    taken = {p.name for p in parameters_of(asked.callee)}
    needed = {p.name for p in asked.open}
    read = ((said, {k: v for k, v in params.items() if k in taken}) for said, params in targets(asked.name, asked.file))
    makes = [(said, params) for said, params in read if needed <= params.keys()]
    for said, params in makes:
        named = tuple((key, lambda value=value: value) for key, value in params.items())
        elsewhere = list(dict.fromkeys(other for other, _ in makes if other != said))[:3]
        others = (
            (f"{asked.name} is also made by {', '.join(elsewhere)} (model= in a probe comment)",) if elsewhere else ()
        )
        yield Arguments((), named, (f"{asked.name} is made as {said} says", *others))


def _is_open(configs: Mapping[str, type | None]) -> bool:
    known = [cls for cls in configs.values() if cls is not None]
    return AbsentTokenizer in known or any(undecided(cast("Callee[object]", cls)) for cls in known)


def _ways_after(callee: Callee[object], file: File, error: Exception) -> list[Arguments]:
    """Return ways to make what can't be made with its defaults: with the file it asked for, or as it is called."""
    with outside():
        if isinstance(error, FileNotFoundError):
            return _with_its_file(callee, file, str(error.filename))
        return list(itertools.islice(as_called(callee, file), _MOST_WAYS))


def _with_its_file(callee: Callee[object], file: File, name: str) -> list[Arguments]:
    """Give the whole path of a file that a default names, where the project has one of that name."""
    parameter = next((p.name for p in parameters_of(callee) if p.default == name), None)
    there = [folder / name for folder in project_folders(file) if (folder / name).is_file()]
    if parameter is None or len(there) != 1:
        return []
    return [Arguments((), ((parameter, lambda: str(there[0])),), (f"{parameter} is {there[0]}",))]


def _question(asked: _Asked) -> FactMissingError:
    """Ask for what no default and no call in the project tells, with the line to add."""
    needed = {p.name: _of_class(asked.configs.get(p.name)) or OPEN for p in asked.open}
    with nothing_written():
        spelt = [spelled(site, asked.callee, needed) for site in sites(asked.callee, asked.file) if not site.method]
    ways = [*spelt, without_site(asked.callee, needed)]
    best = min((way for way in ways if way.open), key=lambda way: len(way.open), default=ways[-1])
    default = "no default" if asked.open[0].default is inspect.Parameter.empty else "to be set"
    have = "has" if len(best.open) == 1 else "have"
    line = asked.line(f"model={asked.inside.format(best.text)}")
    return FactMissingError(f"{best.missing()} of `{asked.name}(…)`, which {have} {default}", line, asked.place)


def _fails(asked: _Asked, error: Exception, said: tuple[str, ...], *, by_call: bool) -> FactMissingError:
    """Ask for what defaults, or a call in the project, give to no avail."""
    names = {p.name for p in asked.open} | none_where_it_failed(error, asked.callee)
    asked = replace(asked, open=[p for p in parameters_of(asked.callee) if p.name in names])
    question, place = _question(asked), error_location(error)
    where = f" at {place.path}:{place.line}" if place else ""
    failure = f"fails{where} ({type(error).__name__}: {error})"
    made = f"how `{asked.name}` is made: {'; '.join(said)}; that {failure}"
    fact = made if by_call else f"{question.fact}: without, it {failure}"
    return FactMissingError(fact, question.how, question.location)


def _left_unset(asked: _Asked, error: Exception, said: tuple[str, ...]) -> FactMissingError | None:
    """Ask for what is None by default, where that is why the model can't be made."""
    names = none_where_it_failed(error, asked.callee)
    if names:  # what fails next for want of a number is asked for at once
        names |= {p.name for p in open_numbers(asked.callee)}
    names |= none_settings_read(error, asked.callee)
    if isinstance(error, HollowError):
        names = {p.name for p in parameters_of(asked.callee) if p.default is None}
    unset = [p for p in parameters_of(asked.callee) if p.name in names]
    called = () if said == _defaults_said(asked.callee) else said
    return _fails(replace(asked, open=unset), error, called, by_call=bool(called)) if unset else None


def _of_class(cls: type | None) -> str | None:
    """Spell a configuration with what it needs, or says that someone has to set."""
    if cls is None:
        return None
    callee = cast("Callee[object]", cls)
    return f"{cls.__name__}({', '.join(f'{p.name}={OPEN}' for p in [*needed_of(callee), *undecided(callee)])})"


def _with_config(needed: list[inspect.Parameter], file: File, place: Location, config: str) -> Ways:
    if len(needed) != 1:
        names = listed([f"`{p.name}`" for p in needed]) if needed else "nothing"
        raise FactMissingError(f"`config=` gives one parameter, and {names} is needed", "say it with model=…", place)
    name = needed[0].name
    return Ways([Arguments((), ((name, lambda: named_settings(config, file)),), (f"{name} is read from {config}",))])


def _with_settings(asked: _Asked) -> Ways | None:
    """Give the one parameter that is a configuration what a file, or the options of a script, hold."""
    name = asked.open[0].name
    if len(asked.open) != 1 or asked.configs[name] is not None:
        return None
    wanted = attributes_read(asked.callee, name, asked.file)
    if not wanted:
        return None
    found = _nearest(holders(wanted, asked.file), asked.file) if len(wanted) >= _ENOUGH else []
    if len(found) == 1 and not found[0].is_file and _required(wanted, found[0]):
        raise _lacking(asked, wanted, found[0])
    if len(found) == 1:
        said = found[0].said if found[0].is_file else f"the options of {found[0].said}"
        return Ways([Arguments((), ((name, found[0].make),), (f"{name} is read from {said}",))])
    fact = f"`{name}` of `{asked.name}(…)`, of which it reads {', '.join(sorted(wanted))}"
    nearly = nearly_all(wanted, asked.file) if not found and len(wanted) >= _ENOUGH else None
    if nearly is not None and _required(wanted, nearly):
        raise _lacking(asked, wanted, nearly)
    if nearly is not None:
        said = f"{name} is read from the options of {nearly.said}"
        return Ways([Arguments((), ((name, nearly.make),), (said,))], partial(_lacks, asked, wanted, nearly))
    if not found or not found[0].is_file:
        text = asked.inside.format(f"{asked.name}({name}={spelled_settings(wanted)})")
        raise FactMissingError(fact, asked.line(f"model={text}"), asked.place)
    names = [holder.said for holder in found]
    others = f", or {', '.join(names[1:])}"
    line = asked.line(f'config="{names[0]}"') + others
    raise FactMissingError(f"{fact}: {len(found)} files hold all of it", line, asked.place)


def _lacks(
    asked: _Asked, wanted: frozenset[str], holder: Holder, error: Exception, _said: tuple[str, ...]
) -> FactMissingError | None:
    return _lacking(asked, wanted, holder) if isinstance(error, AttributeError) else None


def _lacking(asked: _Asked, wanted: frozenset[str], holder: Holder) -> FactMissingError:
    """Ask for what the options of a script do not hold, the rest filled in with what they do."""
    name, options = asked.open[0].name, holder.make()
    for option in _required(wanted, holder):
        delattr(options, option)
    left = ", ".join(sorted(n for n in wanted if not hasattr(options, n)))
    fact = f"`{left}` of `{name}`, which `{asked.name}(…)` reads; {holder.said} has the rest"
    text = asked.inside.format(f"{asked.name}({name}={spelled_settings(wanted, options)})")
    return FactMissingError(fact, asked.line(f"model={text}"), asked.place)


def _required(wanted: frozenset[str], holder: Holder) -> set[str]:
    """Return those of `wanted` that are options which a script requires, and neither it nor anybody gave."""
    options = holder.make()
    required = {option.lstrip("-").replace("-", "_") for option in left_out()} & wanted
    return {name for name in required if getattr(options, name, name) is None}


def _nearest(found: list[Holder], file: File) -> list[Holder]:
    """Prefer the one script in a folder around the file; those of projects inside of it are for models of their own."""
    around = [h for h in found if not h.is_file and Path(h.said).parent in file.path.parents]
    return around if len(around) == 1 else found


def _configured(asked: _Asked) -> Ways:
    makers: list[tuple[str, Callable[[], object]]] = []
    said: list[str] = []
    question = None
    for name, cls in cast("dict[str, type]", asked.configs).items():
        inside = asked.inside.format(f"{asked.name}({{}})")
        inner = arguments_for(cast("Callee[object]", cls), asked.file, asked.place, inside)
        makers.append((name, lambda cls=cls, inner=inner: inner.call(cls)))  # type: ignore[misc]
        left = f"{name} is left out" if cls is AbsentTokenizer else f"{name} is {cls.__name__}() with its defaults"
        said += inner.said() or (left,)
        question = question or inner.question
    return Ways([Arguments((), tuple(makers), tuple(said))], question)
