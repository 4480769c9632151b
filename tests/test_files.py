"""The right files are found, each is decoded as Python would, and writing one back changes nothing but the text."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from remat.files import discover, left_out
from remat.pyproject import Pyprojects
from remat.source_text import decode, encode, replace_file


def lay(root, *paths, **texts):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(texts.get(path, ""))
    return root


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def find(root, *paths, exclude=()):
    found, unread = discover([str(root / path) for path in paths or ["."]], lambda _: (str(root), exclude))
    return [os.path.relpath(path, root) for path in found], [
        (os.path.relpath(one.path, root), one.reason) for one in unread
    ]


def test_python_files_are_found_in_path_order(tmp_path):
    lay(tmp_path, "b.py", "a/z.py", "a/y.pyi", "a-b/x.pyw", "data.json", "README.md", "run", "n.ipynb")
    assert find(tmp_path) == (["a/y.pyi", "a/z.py", "a-b/x.pyw", "b.py"], [])


def test_a_file_is_taken_once_however_often_it_is_named(tmp_path):
    lay(tmp_path, "a.py")
    (tmp_path / "link.py").symlink_to("a.py")
    assert find(tmp_path, ".", "a.py", "./a.py")[0] == ["a.py"]


def test_a_link_to_a_file_elsewhere_is_taken(tmp_path):
    lay(tmp_path, "elsewhere/a.py", "here/b.py")
    (tmp_path / "here" / "link.py").symlink_to("../elsewhere/a.py")
    assert find(tmp_path, "here")[0] == ["here/b.py", "here/link.py"]


@pytest.mark.parametrize("folder", [".venv", "venv", "node_modules", "__pycache__", "build", "dist", "site-packages"])
def test_folders_of_other_peoples_code_are_left_out(tmp_path, folder):
    lay(tmp_path, f"sub/{folder}/a.py", "sub/b.py")
    assert find(tmp_path)[0] == ["sub/b.py"]


def test_a_python_environment_of_any_name_is_left_out(tmp_path):
    lay(tmp_path, "myenv/pyvenv.cfg", "myenv/lib/a.py", "conda/conda-meta/x", "conda/b.py", "c.py")
    assert find(tmp_path)[0] == ["c.py"]


def test_an_excluded_folder_that_is_named_is_walked(tmp_path):
    lay(tmp_path, "build/a.py", "build/sub/b.py", "build/build/c.py")
    write(tmp_path / ".gitignore", "build/")
    (tmp_path / ".git").mkdir()
    assert find(tmp_path, "build", exclude=("build",))[0] == ["build/a.py", "build/sub/b.py"]


def test_an_excluded_file_that_is_named_is_taken(tmp_path):
    lay(tmp_path, ".venv/a.py", "script")
    assert find(tmp_path, ".venv/a.py", "script")[0] == [".venv/a.py", "script"]


def test_gitignore_holds_with_negations_and_nested_files(tmp_path):
    lay(tmp_path, "gen/a.py", "gen/keep.py", "x_pb2.py", "sub/x_pb2.py", "sub/own.py", "top/own.py", "only.py")
    write(tmp_path / ".gitignore", "# generated", "*_pb2.py", "gen/*", "!gen/keep.py", "/only.py")
    write(tmp_path / "sub" / ".gitignore", "own.py", "!x_pb2.py")
    assert find(tmp_path)[0] == ["gen/keep.py", "sub/x_pb2.py", "top/own.py"]


def test_a_dot_ignore_file_decides_over_gitignore(tmp_path):
    lay(tmp_path, "a.py", "b.py")
    write(tmp_path / ".gitignore", "a.py")
    write(tmp_path / ".ignore", "!a.py", "b.py")
    assert find(tmp_path)[0] == ["a.py"]


def test_the_ignore_files_above_hold_up_to_the_repository(tmp_path):
    lay(tmp_path, "repo/sub/a.py", "repo/sub/b.py", "repo/sub/c.py", "repo/.git/info/exclude")
    write(tmp_path / ".gitignore", "a.py")
    write(tmp_path / "repo" / ".gitignore", "b.py")
    write(tmp_path / "repo" / ".git" / "info" / "exclude", "c.py")
    assert find(tmp_path, "repo/sub")[0] == ["repo/sub/a.py"]


def test_a_line_of_gitignore_that_git_would_not_understand_costs_no_other_line(tmp_path):
    lay(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_bytes(b"!\n\xff\nb.py\r\n")
    assert find(tmp_path)[0] == ["a.py"]


def test_the_excludes_of_the_settings_are_added_and_can_take_a_default_back(tmp_path):
    lay(tmp_path, "legacy/a.py", "build/b.py", "src/c.py", "src/gen/d.py")
    assert find(tmp_path, exclude=("./legacy", "!build", "src/gen/"))[0] == ["build/b.py", "src/c.py"]


@pytest.mark.parametrize("walked", [".", "src", "build"])
def test_whether_one_file_is_left_out_is_what_a_walk_says(tmp_path, walked):
    paths = """
        a.py x_pb2.py gen/a.py gen/keep.py src/own.py src/x_pb2.py src/build/a.py src/gone/a.py src/env/pyvenv.cfg
        src/env/lib/a.py src/legacy/a.py src/legacy/keep/a.py build/a.py build/sub/b.py .venv/a.py nested/.venv/lib/a.py
    """.split()
    lay(tmp_path, *paths, ".git/info/exclude")
    write(tmp_path / ".gitignore", "*_pb2.py", "gen/*", "!gen/keep.py", "build/")
    write(tmp_path / "src" / ".gitignore", "own.py", "!x_pb2.py")
    write(tmp_path / "src" / ".ignore", "!own.py", "gone")
    exclude = ("src/legacy", "!nested/.venv")
    found = set(find(tmp_path, walked, exclude=exclude)[0])
    root = os.path.normpath(tmp_path / walked)
    below = [path for path in paths if path.endswith(".py") and (walked == "." or path.startswith(f"{walked}/"))]
    kept = {path for path in below if not left_out(str(tmp_path / path), root, lambda _: (str(tmp_path), exclude))}
    assert kept == found
    assert 0 < len(kept) < len(paths)


def test_a_file_that_is_not_below_the_walked_folder_is_not_left_out(tmp_path):
    lay(tmp_path, "build/a.py", "src/b.py")
    assert not left_out(str(tmp_path / "build" / "a.py"), str(tmp_path / "src"), lambda folder: (folder, ()))


def test_links_to_folders_are_not_followed_so_circles_end(tmp_path):
    lay(tmp_path, "a/b.py")
    (tmp_path / "a" / "again").symlink_to("..")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert find(tmp_path) == (["a/b.py"], [])


def test_a_folder_named_like_a_python_file_is_walked(tmp_path):
    lay(tmp_path, "odd.py/inner.py")
    assert find(tmp_path) == (["odd.py/inner.py"], [])
    assert find(tmp_path, "odd.py")[0] == ["odd.py/inner.py"]


def test_what_is_named_and_missing_is_told(tmp_path):
    (tmp_path / "loop.py").symlink_to("loop.py")
    lay(tmp_path, "book.ipynb")
    found, unread = find(tmp_path, "gone.py", "loop.py", "book.ipynb")
    assert found == []
    assert unread[0] == ("gone.py", "no such file or directory")
    assert unread[1] == ("loop.py", "too many levels of symbolic links")
    assert unread[2][1].startswith("notebooks are not read yet")


@pytest.fixture
def closed_to_us():
    """A folder whose permissions bind whoever runs the tests: root goes on as nobody."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    user = os.geteuid()

    def close(path, mode):
        path.chmod(mode)
        if user == 0:
            os.seteuid(65534)

    yield folder, close
    os.seteuid(user)
    for path in folder.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_read_is_told_and_the_others_are_read(closed_to_us):
    folder, close = closed_to_us
    lay(folder, "closed/a.py", "open/b.py")
    close(folder / "closed", 0)
    assert find(folder) == (["open/b.py"], [("closed", "permission denied")])


def test_a_file_that_may_not_be_written_is_left_alone(closed_to_us):
    folder, close = closed_to_us
    write(folder / "a.py", "old")
    close(folder / "a.py", 0o444)
    with pytest.raises(PermissionError, match="no write permission"):
        replace_file(folder / "a.py", b"new", b"old")
    assert (folder / "a.py").read_text() == "old"


def test_the_nearest_pyproject_with_a_table_of_ours_holds(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool.remat]", 'exclude = ["outer"]')
    write(tmp_path / "sub" / "pyproject.toml", "[project]", 'name = "remat-user"')
    write(tmp_path / "sub" / "own" / "pyproject.toml", "[tool.remat]", 'exclude = ["inner"]')
    pyprojects = Pyprojects()
    assert pyprojects.nearest(str(tmp_path / "sub")).table == {"exclude": ["outer"]}
    assert pyprojects.nearest(str(tmp_path / "sub" / "own")).table == {"exclude": ["inner"]}


def test_a_pyproject_that_is_no_toml_is_named_with_the_line(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool.remat]", "ignore = [")
    assert "at line 2, the end" in Pyprojects().nearest(str(tmp_path)).error
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "pyproject.toml").write_bytes(b"[tool.remat]\n# \xe9\n")
    assert Pyprojects().nearest(str(tmp_path / "b")).error == "invalid TOML: line 2 is not UTF-8"


def test_a_table_of_ours_that_is_no_table_is_named(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool]", "remat = true")
    assert Pyprojects().nearest(str(tmp_path)).error == "expected a table [tool.remat], got True"


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\n",
        b"\xef\xbb\xbfx = '\xc3\xa9'\r\ny = 2\r",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        b"\n# coding=euc-jp\nx = '\xa4\xa2'\n",
        b"\x0c# coding: utf-8\n\x0cx = '\xf0\x9f\x98\x80'\n",
        b"",
    ],
)
def test_what_is_decoded_is_encoded_back_to_the_same_bytes(data):
    source = decode(data)
    assert not source.text.startswith("\ufeff")
    assert encode(source.text, source) == data


def test_a_coding_comment_counts_only_where_python_looks_for_it():
    assert decode(b"# coding: latin-1\n# coding: ascii\n").encoding == "latin-1"
    assert decode(b"x = 1\n# coding: latin-1\n").encoding == "utf-8"
    assert decode(b"# a\n# b\n# coding: latin-1\n").encoding == "utf-8"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\nb = '\xff'\n", "line 2: byte 0xff is not valid utf-8; save it as UTF-8 or name its encoding"),
        (b"# coding: ascii\nb = '\xff'\n", "line 2: byte 0xff is not valid ascii"),
        (b"a\nb\0\n", "line 2 holds a null byte"),
        ("x = 1".encode("utf-16"), "it is UTF-16, which Python does not read; save it as UTF-8"),
        (b"# coding: klingon\n", 'its coding comment names "klingon", which is no text encoding'),
        (b"# coding: hex\n", 'its coding comment names "hex", which is no text encoding'),
        (b"\xef\xbb\xbf# coding: latin-1\n", 'its BOM says UTF-8 and its coding comment says "latin-1"'),
    ],
)
def test_a_file_that_cannot_be_decoded_says_where_and_why(data, reason):
    with pytest.raises(ValueError, match="^" + reason.replace("(", r"\(")):
        decode(data)


def test_a_text_that_does_not_fit_its_encoding_is_not_written():
    with pytest.raises(ValueError, match="does not fit its encoding ascii"):
        encode("é", decode(b"# coding: ascii\n"))


def test_writing_keeps_the_mode_and_a_link_and_leaves_nothing_behind(tmp_path):
    lay(tmp_path, "real.py")
    (tmp_path / "real.py").chmod(0o751)
    (tmp_path / "link.py").symlink_to("real.py")
    replace_file(tmp_path / "link.py", b"new", b"")
    assert (tmp_path / "real.py").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real.py").stat().st_mode) == 0o751
    assert (tmp_path / "link.py").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    write(tmp_path / "a.py", "saved by an editor")
    with pytest.raises(ValueError, match="it changed while it was being fixed"):
        replace_file(tmp_path / "a.py", b"new", b"old")
    assert (tmp_path / "a.py").read_text() == "saved by an editor"
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
