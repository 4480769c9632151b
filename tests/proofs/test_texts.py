"""The texts that failures are recognised by are still printed by the installed libraries; what is gone is listed."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import mmap
import sysconfig
from functools import cache
from pathlib import Path

import pytest

from remat.diagnose.texts import TEXTS, Text

# A build for CPUs has none of these.
OF_CUDA = {"torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so"}
FILES = sorted({text.file for text in TEXTS} - OF_CUDA)


def where(file: str) -> Path:
    """The installed file."""
    library, _, rest = file.partition("/")
    if library == "python":
        return Path(sysconfig.get_paths()["stdlib"]) / rest
    spec = importlib.util.find_spec(library)
    assert spec is not None, f"{library} is not installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / rest


@cache
def strings(path: Path) -> str:
    """Every string of a module, pieces that the parser joins as one, and the names of its classes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.append(node.name)
    return "\n".join(found)


def printed(text: Text) -> bool:
    path = where(text.file)
    if path.suffix == ".py":
        return text.says in strings(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(text.says.encode()) >= 0


def version_of(file: str) -> tuple[int, ...]:
    numbers = importlib.metadata.version(file.partition("/")[0]).partition("+")[0].split(".")[:3]
    return tuple(int(number) for number in numbers if number.isdigit())


def expected(text: Text) -> bool:
    return not text.until or version_of(text.file) < tuple(map(int, text.until.split(".")))


@pytest.mark.parametrize("file", FILES)
def test_each_text_is_where_it_is_said_to_be(file: str) -> None:
    texts = [text for text in TEXTS if text.file == file]
    gone = [text for text in texts if expected(text) and not printed(text)]
    back = [text for text in texts if not expected(text) and printed(text)]
    assert [(text.says, text.of) for text in gone] == [], f"gone from {file}"
    assert [(text.says, text.of) for text in back] == [], f"still in {file}"


def test_the_texts_of_cuda_are_checked_where_torch_has_cuda() -> None:
    texts = [text for text in TEXTS if text.file in OF_CUDA and where(text.file).exists()]
    assert [(text.says, text.of) for text in texts if not printed(text)] == []


def test_a_text_that_no_file_has_is_seen_to_be_gone() -> None:
    assert not printed(Text("torch/utils/checkpoint.py", "no library ever printed this sentence", ()))
    assert not printed(Text("torch/lib/libc10.so", "no library ever printed this sentence", ()))
