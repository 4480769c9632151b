"""What an edit needs to be in the file: an import under a name that nothing else has, an attribute of the class."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from remat.lint.code.split import Role
from remat.lint.edits import insert, newline_of
from remat.lint.imports import spelling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.finding import Edit
    from remat.lint.code.source import Source
    from remat.lint.code.split import Piece

_IMPORT = re.compile(r"(?:import|from)[ \t]+(?P<module>\.*[\w.]*)")
_FUTURE = "__future__"


def imported(source: Source, module: str, *names: str) -> tuple[tuple[str, ...], list[Edit]]:
    """How the file spells each `module.name`, and the edit that imports those which nothing does yet."""
    spelled: list[str] = []
    wanted: list[str] = []
    for name in names:
        known = spelling(source, module, name)
        if known is not None and not _bound_below(source, known.split(".")[0]):
            spelled.append(known)
            continue
        taken = any(name in place.parsed.names for place in source.places) or _bound_below(source, name)
        spelled.append(f"torch_{name}" if taken else name)
        wanted.append(f"{name} as torch_{name}" if taken else name)
    line = f"from {module} import {', '.join(sorted(wanted))}"
    return tuple(spelled), [_import_line(source, module, line)] if wanted else []


def _bound_below(source: Source, name: str) -> bool:
    """Whether a function or class binds the name to something else: a look at the characters."""
    bound = (
        rf"(?m)^[ \t]+(?:def|class)[ \t]+{name}\b",
        rf"^[ \t]+(?:[\w, ]*,[ \t]*)?{name}[ \t]*(?:,[\w, ]*)?=(?!=)",
        rf"(?:def[ \t]+\w+|lambda)[^\n:]*[(,][ \t]*{name}[ \t]*[,:=)]",
        rf"\b(?:for|as)[ \t]+{name}\b(?![ \t]*,?[ \t]*\n)",
    )
    return re.search("|".join(bound), _without_imports(source)) is not None


def _without_imports(source: Source) -> str:
    return "".join(source.text[p.start : p.end] for p in source.pieces if not _IMPORT.match(source.text, p.start))


def _import_line(source: Source, module: str, line: str) -> Edit:
    """Among the imports of the same library, in their order; else behind the last import; else at the top."""
    text, found = source.text, list(_imports(source))
    same = [p for p, name in found if name.split(".")[0] == module.split(".", maxsplit=1)[0]]
    later = next((p for p, name in found if p in same and name > module), None)
    if later is not None and later is not same[0]:
        return insert(later.start, f"{line}{newline_of(text, later.start)}")
    behind = same[-1] if same else found[-1][0] if found else None
    if behind is not None:
        end = _end_of_import(text, behind)
        return insert(end, f"{newline_of(text, end)}{line}")
    start = _behind_docstring(source)
    newline = newline_of(text, start)
    return insert(start, f"{line}{newline}{newline}")


def _end_of_import(text: str, piece: Piece) -> int:
    """Behind the statement and a comment on its line: what follows in the piece belongs to what comes next."""
    statement = re.compile(r"[^\n(]*(?:\([^)]*\)[^\n]*)?").match(text, piece.start, piece.end)
    end = (
        statement.end()
        if statement and "\\" not in statement[0]
        else piece.start + len(text[piece.start : piece.end].rstrip())
    )
    return end - 1 if text[end - 1 : end] == "\r" else end


def _imports(source: Source) -> Iterable[tuple[Piece, str]]:
    """The file's first imports; those under a condition are no place for another one."""
    begun = False
    for piece in source.pieces:
        match = _IMPORT.match(source.text, piece.start) if piece.role is Role.STATEMENT else None
        if match:
            begun = True
            yield piece, match["module"]
        elif begun and source.text[piece.start : piece.start + 3] not in {"try", "if "}:
            return


def _behind_docstring(source: Source) -> int:
    first = next((p for p in source.pieces if source.text[p.start : p.end].strip()), None)
    if first is None or not source.text[first.start :].startswith(('"', "'", 'r"', "r'")):
        return 0 if first is None else first.start
    return first.end


def class_attribute(source: Source, owner: str, name: str, value: int, about: str) -> tuple[str, list[Edit]] | None:
    """`name = value` at the head of the class, and the name it got; None where the class cannot be read."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    klass = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == owner), None)
    if klass is None or klass.body[0].lineno == klass.lineno:
        return None
    while re.search(rf"\b{name}\b", source.text):
        name += "_n"
    body = klass.body
    has_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
    first = body[1] if has_text else body[0]
    line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
    lines = source.text.split("\n")
    while re.match(r"[ \t]*#", lines[line - 2]) and line - 2 > klass.lineno:
        line -= 1
    start = sum(len(one) + 1 for one in lines[: line - 1])
    newline = newline_of(source.text, start)
    indent = lines[first.lineno - 1][: first.col_offset]
    blank = newline if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
    return name, [insert(start, f"{indent}{name} = {value}  # {about}{newline}{blank}")]
