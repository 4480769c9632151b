"""`remat diagnose` of what is no log: an error that says what to give instead, not a clean bill of health."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from remat.diagnosing import ERROR, FAILED, NOTHING_FAILED, run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEXT = b"step 1 loss 2.0\n" * 50


def test_an_empty_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"", b"\n\n", b"\0" * 100):
        (tmp_path / "a.log").write_bytes(content)
        assert run([str(tmp_path / "a.log")], "text", one_run=False) == ERROR
        assert "it is empty" in capsys.readouterr().err


def test_a_compressed_file_is_an_error_that_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(TEXT))
    assert run([str(tmp_path / "a.log.gz")], "text", one_run=False) == ERROR
    assert "gunzip -c" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(bytes(range(256)) * 800)
    assert run([str(tmp_path / "a.log")], "text", one_run=False) == ERROR


def test_a_text_with_some_strange_bytes_is_read(tmp_path: Path) -> None:
    for content in (b"\0" * 5000 + TEXT, b"caf\xe9 " + TEXT, b"\x1b[31mred\x1b[0m\n" + TEXT):
        (tmp_path / "a.log").write_bytes(content)
        assert run([str(tmp_path / "a.log")], "text", one_run=False) == NOTHING_FAILED
    (tmp_path / "a.log").write_bytes(b"\0" * 5000 + b"Traceback (most recent call last):\nValueError: bad\n")
    assert run([str(tmp_path / "a.log")], "text", one_run=False) == FAILED
