"""Loads the user's files by running only what is needed of each: no file of a project is ever executed whole."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from remat.probe.built import FactMissingError
from remat.probe.messages import Location
from remat.probe.target.distributions import INSTALLED, not_importable
from remat.probe.target.packages import module_name, read
from remat.probe.target.spec import given_names
from remat.probe.target.statements import Plan, Statement, When, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from types import CodeType

_LOADED: dict[str, File] = {}
"""by path, as `sys.modules` is by name: a file is loaded once in a process"""


@dataclass(frozen=True, slots=True)
class Project:
    """The folders whose files are loaded in part.

    `outside`: the world in which a file's own statements run; the caller leaves its fake tensors there.
    """

    folders: tuple[Path, ...]
    outside: Callable[[], AbstractContextManager[object]] = nullcontext

    def holds(self, path: Path) -> bool:
        return not INSTALLED.intersection(path.parts) and any(path.is_relative_to(folder) for folder in self.folders)

    def file(self, path: Path) -> File:
        """Load a file, or return it if that was done. Raises what its statements raise."""
        key = str(path)
        if key not in _LOADED:
            module = self._module(path, module_name(path))
            # an installed package, or one that replaces itself, isn't loaded in part: what it holds is there
            _LOADED.setdefault(key, File(path, module, Plan(), self))
        return _LOADED[key]

    def _module(self, path: Path, name: str) -> ModuleType:
        there = getattr(sys.modules.get(name), "__file__", str(path))
        if "." in name or (there == str(path) and _finds(name, path)):
            return importlib.import_module(name)
        if str(path.parent) not in sys.path:  # where a script imports from
            sys.path.append(str(path.parent))
        spec = importlib.util.spec_from_loader(f"{name}_of_user", _Loader(path, self), origin=str(path))  # type: ignore[arg-type]
        if spec is None:
            raise ImportError(f"{path} can't be loaded")
        module = importlib.util.module_from_spec(spec)
        module.__file__ = str(path)
        sys.modules[spec.name] = module
        _Loader(path, self).exec_module(module)
        return module


class DataMissingError(FactMissingError, OSError):
    """A name of a file that is worked out from data; an OSError too, as another way to make a model may do without."""


class File:
    """A file of the user whose statements run when the names that they bind are looked up."""

    def __init__(self, path: Path, module: ModuleType, statements: Plan, project: Project) -> None:
        self.path = path
        self.module = module
        self.plan = statements
        self.project = project
        self.done: set[int] = set()
        self.failed: dict[int, BaseException] = {}
        self.stars: list[ModuleType] = []
        self.open: set[int] = set()
        self.given: dict[str, object] = {}
        """what a comment in it says that names stand for"""

    def twin(self) -> File:
        """Return a copy, so that what is worked out in it is forgotten with it."""
        module = ModuleType(self.module.__name__)
        twin = File(self.path, module, self.plan, self.project)
        twin.done, twin.failed, twin.stars = set(self.done), dict(self.failed), list(self.stars)
        own = {"__builtins__": OnDemand(twin.look_up, self.plan.by_name), "__getattr__": twin.attribute}
        vars(module).update(vars(self.module) | own)
        return twin

    def begin(self) -> None:
        """Run what can't wait. What fails here is said when it turns out to be needed."""
        namespace = vars(self.module)
        namespace.update(self.given)
        namespace["__builtins__"] = OnDemand(self.look_up, self.plan.by_name)
        namespace["__getattr__"] = self.attribute
        for number, statement in enumerate(self.plan.statements[: self.plan.top]):
            if statement.when is When.AT_ONCE or _is_star(statement) or self._is_local_import(statement.node):
                try:
                    self.run(number)
                except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
                    self.failed[number] = error

    def look_up(self, name: str) -> object:
        """Run what binds `name`; KeyError where nothing does."""
        try:
            return self._look_up(name)
        except FileNotFoundError as error:
            if self.open and not self._in_class():
                raise  # what is asked for is the name that the model reads, not the one that a file is read into
            raise self._of_data(name, error) from error

    def _in_class(self) -> bool:
        """Tell whether what runs now only defines a class: what that reads can be said, the class can not."""
        return all(isinstance(self.plan.statements[n].node, ast.ClassDef | ast.FunctionDef) for n in self.open)

    def _of_data(self, name: str, error: FileNotFoundError) -> Exception:
        number = next(iter(self.plan.by_name.get(name, [])), 0)
        place = Location(str(self.path), self.plan.statements[number].node.lineno)
        fact = f"`{name}`, which is worked out from {error.filename}, which is not there"
        line = f'# remat: probe(names={{"{name}": …}})'
        return DataMissingError(fact, f"add above line {place.line} of {place.path}: {line}", place)

    def _look_up(self, name: str) -> object:
        namespace = vars(self.module)
        numbers = self.plan.by_name.get(name) or self.plan.guarded.get(name, [])
        running = max(self.open, default=len(self.plan.statements))
        for number in (n for n in numbers if n < running):  # what comes later has not run when this one does
            self.run(number)
        if name in namespace:
            return namespace[name]
        for number in numbers:
            self.run(number)
        if name in namespace:
            return namespace[name]
        for star in self.stars:
            if not name.startswith("_") and hasattr(star, name):
                return getattr(star, name)
        for number, error in self.failed.items():
            if _is_star(self.plan.statements[number]):  # the name may be one of those
                raise error
        raise KeyError(name)

    def attribute(self, name: str) -> object:
        try:
            return self.look_up(name)
        except KeyError:
            raise AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}") from None

    def run(self, number: int) -> None:
        if number in self.done or number in self.open:
            return
        if number in self.failed:
            raise self.failed[number]
        self.open.add(number)
        statement = self.plan.statements[number]
        try:
            with self.project.outside():
                self._execute(statement)
        except KeyError as error:  # would be taken for a name that is bound nowhere
            raise RuntimeError(f"KeyError: {error}") from error
        except ImportError as error:
            place = Location(str(self.path), statement.node.lineno)
            raise not_importable(error, place, self.project.folders) from error
        finally:
            self.open.discard(number)
        self.done.add(number)

    def _execute(self, statement: Statement) -> None:
        code = compiled(ast.Module([statement.node], []), str(self.path), self.plan.future)
        exec(code, vars(self.module))  # noqa: S102  (running the user's code is what a probe is for)
        if _is_star(statement) and isinstance(statement.node, ast.ImportFrom):
            self.stars.append(sys.modules[self._absolute(statement.node)])
        if self.plan.by_text and isinstance(statement.node, ast.Import | ast.ImportFrom):
            for name in statement.binds:
                _define(vars(self.module).get(name))

    def _absolute(self, node: ast.ImportFrom) -> str:
        package = self.module.__package__ or ""
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)

    def _is_local_import(self, node: ast.stmt) -> bool:
        """Tell whether an import is of the user's own: those may register something, and cost little."""
        if isinstance(node, ast.ImportFrom):
            return node.level > 0 or self._is_own(node.module or "")
        return isinstance(node, ast.Import) and any(self._is_own(alias.name) for alias in node.names)

    def _is_own(self, module: str) -> bool:
        root = module.split(".", maxsplit=1)[0]
        if root in sys.modules:
            place = getattr(sys.modules[root], "__file__", None)
            return place is not None and self.project.holds(Path(place))
        return any((Path(f) / root).is_dir() or (Path(f) / f"{root}.py").is_file() for f in self.project.folders)


def _define(module: object) -> None:
    """Run the definitions of a file of ours, so that they are found in its dictionary."""
    file = _LOADED.get(str(getattr(module, "__file__", "")))
    if file is None or module is not file.module:
        return
    for number, statement in enumerate(file.plan.statements[: file.plan.top]):
        if isinstance(statement.node, ast.FunctionDef | ast.ClassDef | ast.ImportFrom):
            try:
                file.run(number)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
                file.failed[number] = error


class OnDemand(dict[str, object]):
    """The builtins of a file loaded in part: a name that is no global yet, and no builtin unless the file gives it
    another meaning (`compile = False`), is looked up in the plan.
    """

    def __init__(self, look_up: Callable[[str], object], own: Iterable[str] = ()) -> None:
        super().__init__(vars(builtins))
        for name in own:
            self.pop(name, None)
        self.look_up = look_up

    def __missing__(self, name: str) -> object:
        try:
            return self.look_up(name)
        except KeyError:
            if hasattr(builtins, name):
                return getattr(builtins, name)
            raise


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds the project's modules as Python does, and loads them in part."""

    project: Project

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py") or name.startswith("remat."):
            return None
        if not self.project.holds(Path(spec.origin)):
            return None
        spec.loader = _Loader(Path(spec.origin), self.project)  # type: ignore[assignment]  # has what importlib calls
        return spec


@dataclass(frozen=True, slots=True)
class _Loader:
    path: Path
    project: Project

    def create_module(self, _: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        text = read(self.path)
        tree = ast.parse(text, str(self.path))
        if "sys.modules[__name__]" in text:  # a package that replaces itself by one whose parts are loaded lazily
            exec(compiled(tree, str(self.path), 0), vars(module))  # noqa: S102
            return
        file = File(self.path, module, plan(tree), self.project)
        _LOADED[str(self.path)] = file
        file.given = given_names(text, self.path)
        file.begin()


def _finds(name: str, path: Path) -> bool:
    """Tell whether `import name` loads that file."""
    if name in sys.modules:
        return True
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin == str(path)


def compiled(tree: ast.Module, path: str, flags: int) -> CodeType:
    return compile(tree, path, "exec", flags=flags, dont_inherit=True)


def install(project: Project) -> None:
    """From here to the end of the process, load the project's files in part."""
    sys.meta_path.insert(0, _Finder(project))
    for folder in reversed(project.folders):
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.path.insert(0, str(folder))


def _is_star(statement: Statement) -> bool:
    node = statement.node
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
