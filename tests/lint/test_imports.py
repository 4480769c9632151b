"""Where `import functools` goes in a file that lacks it."""

from __future__ import annotations

import pytest

from remat.finding import apply_edits
from remat.lint.code.source import Source
from remat.lint.imports import import_edit, spelling


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import argparse\nimport torch\n", "import argparse\nimport functools\nimport torch\n"),
        ("import argparse\n\nimport torch\n", "import argparse\nimport functools\n\nimport torch\n"),
        ("import torch\n", "import functools\nimport torch\n"),
        ("import abc\nx = 1\n", "import abc\nimport functools\nx = 1\n"),
        ("from torch import nn\n", "import functools\nfrom torch import nn\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nimport os\n',
            '"""Doc."""\nfrom __future__ import annotations\n\nimport functools\nimport os\n',
        ),
        ("import abc\r\n\r\nimport torch\r\n", "import abc\r\nimport functools\r\n\r\nimport torch\r\n"),
    ],
)
def test_an_import_is_sorted_into_the_first_imports(before: str, after: str) -> None:
    edit = import_edit(Source(before), "functools")
    assert edit is not None
    assert apply_edits(before, (edit,)) == after


def test_nothing_is_imported_into_a_file_without_imports() -> None:
    assert import_edit(Source("x = 1\n"), "functools") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from functools import partial\n", "partial"),
        ("import functools as ft\n", "ft.partial"),
        ("import torch\n", None),
    ],
)
def test_a_name_is_spelled_as_the_file_imports_it(text: str, expected: str | None) -> None:
    assert spelling(Source(text), "functools", "partial") == expected
