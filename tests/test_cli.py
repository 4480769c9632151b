"""The command line keeps its contract: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from remat import output
from remat.cli import remat

BAD = "from torch.utils.checkpoint import checkpoint\n\n\ndef f(block, x):\n    return checkpoint(block, x)\n"
FIXED = BAD.replace("(block, x)\n", "(block, x, use_reentrant=False)\n").replace(
    "def f(block, x, use_reentrant=False)", "def f(block, x)"
)
SAFE = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x):
        return checkpoint(self.mlp, x)
"""
SAFE_FIXED = SAFE.replace("(self.mlp, x)", "(self.mlp, x, use_reentrant=False)")
RULE = "checkpoint-without-use-reentrant"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "GITHUB_WORKSPACE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*args, stdin=None):
    return CliRunner().invoke(remat, [str(arg) for arg in args], input=stdin, catch_exceptions=False)


def spawn(*args, **options):
    command = [sys.executable, "-m", "remat", *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "server")}
    return subprocess.run(command, capture_output=True, check=False, env=env, **options)


def lay(root, **files):
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)


def codes(result):
    return [(Path(found["filename"]).name, found["location"]["row"]) for found in json.loads(result.stdout)]


def test_check_ends_with_0_where_nothing_is_wrong(here):
    lay(here, good="x = 1\n")
    result = run("check")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "No problems in 1 file.\n", "")


def test_check_ends_with_1_and_shows_where_the_problem_is(here):
    lay(here, bad=BAD)
    result = run("check", "bad.py", "--versions", "torch=2.9.1")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"bad.py:5:12 warning {RULE} — `checkpoint` without `use_reentrant`: torch 2.9.1")
    assert "5 |     return checkpoint(block, x)\n  |            ^^^^^^^^^^\n" in result.stdout
    assert result.stdout.endswith("in 1 file for torch 2.9.1; 1 fixable with `remat fix --unsafe-fixes`.\n")


def test_check_without_paths_looks_at_this_folder_in_path_order(here):
    (here / "a").mkdir()
    lay(here, z=BAD, b=BAD)
    lay(here / "a", y=BAD)
    assert codes(run("check", "--output-format", "json")) == [("y.py", 5), ("b.py", 5), ("z.py", 5)]


def test_json_is_an_empty_array_where_nothing_is_wrong(here):
    lay(here, good="x = 1\n")
    result = run("check", "--output-format", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


def test_concise_is_one_line_per_problem_and_a_summary(here):
    lay(here, bad=BAD)
    first, last = run("check", "--output-format", "concise").stdout.splitlines()
    assert first.startswith(f"bad.py:5:12: warning {RULE} `checkpoint` without")
    assert last.startswith("Found 1 problem (1 warning) in 1 file")


def test_github_names_files_from_the_root_of_the_workspace(here, monkeypatch):
    (here / "sub").mkdir()
    lay(here / "sub", bad=BAD)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    monkeypatch.chdir(here / "sub")
    assert run("check", "--output-format", "github").stdout.startswith("::warning file=sub/bad.py,line=5,col=12,")


def test_rules_can_be_selected_and_ignored(here):
    lay(here, bad=BAD)
    assert run("check", "--ignore", RULE).exit_code == 0
    assert run("check", "--select", "unused-suppression").exit_code == 0
    assert run("check", "--select", f"unused-suppression,{RULE}").exit_code == 1


def test_the_command_line_wins_over_the_settings(here):
    lay(here, bad=BAD)
    (here / "pyproject.toml").write_text(f'[tool.remat]\nignore = ["{RULE}"]\nversions = {{torch = "2.0.1"}}\n')
    assert run("check").exit_code == 0
    assert "torch 2.0.1 silently" in run("check", "--ignore", "unused-suppression").stdout
    assert "torch 2.9.1 warns" in run("check", "--ignore", "unused-suppression", "--versions", "torch=2.9.1").stdout


def test_a_rule_that_does_not_exist_is_an_error_that_names_the_nearest(here):
    result = run("check", "--select", "checkpoint-without-reentrant")
    assert result.exit_code == 2
    assert f'unknown rule "checkpoint-without-reentrant"; did you mean "{RULE}"?' in result.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("torch", "expected NAME=VERSION such as torch=2.9.1"),
        ("torch=new", "expected NAME=VERSION such as torch=2.9.1"),
        ("pytorch=2.9", 'its distribution is called "torch"'),
    ],
)
def test_wrong_versions_are_an_error_that_says_what_was_expected(here, given, says):
    result = run("check", "--versions", given)
    assert result.exit_code == 2
    assert says in result.stderr


def test_the_versions_of_the_projects_environment_are_used(here):
    lay(here, bad=BAD)
    (here / ".venv" / "lib" / "python3.11" / "site-packages" / "torch-2.5.1.dist-info").mkdir(parents=True)
    (here / "pyproject.toml").write_text("")
    assert "torch 2.5.1 warns" in run("check").stdout


def test_an_interpreter_that_does_not_exist_is_an_error_even_where_nothing_is_to_be_checked(here):
    result = run("check", "--python", here / "nope")
    assert result.exit_code == 2
    assert "expected a Python interpreter or the folder of an environment" in result.stderr


def test_an_interpreter_without_packages_is_told(here):
    (here / "python").write_text("")
    result = run("check", "--python", here / "python")
    assert result.exit_code == 0
    assert "has no installed packages; library versions can be given with --versions" in result.stderr


def test_what_cannot_be_read_is_told_and_the_others_are_checked(here):
    lay(here, bad=BAD)
    (here / "latin.py").write_bytes(b"# \xe9\n")
    (here / "null.py").write_bytes(b"x = 1\n\0")
    (here / "wide.py").write_bytes(BAD.encode("utf-16"))
    result = run("check", "--output-format", "json", ".", "gone.py")
    assert result.exit_code == 2
    assert codes(result) == [("bad.py", 5)]
    assert [line.partition(";")[0] for line in result.stderr.splitlines()] == [
        "remat: gone.py: no such file or directory",
        "remat: latin.py: line 1: byte 0xe9 is not valid utf-8",
        "remat: null.py: line 2 holds a null byte, which Python does not accept in source text",
        "remat: wide.py: it is UTF-16, which Python does not read",
    ]


def test_a_file_too_large_to_be_source_is_told(here):
    with (here / "huge.py").open("wb") as file:
        file.truncate(40 * 1024 * 1024)
    result = run("check")
    assert result.exit_code == 2
    assert "huge.py: it is larger than 32 MiB and was not read" in result.stderr


def test_no_files_is_no_error_but_is_told(here):
    result = run("check")
    assert result.exit_code == 0
    assert result.stderr == "remat: no Python files found in .\n"


def test_wrong_settings_are_named_the_rest_holds_and_the_status_says_so(here):
    lay(here, bad=BAD)
    (here / "pyproject.toml").write_text(
        '[tool.remat]\nignore = ["nonsense"]\nselct = []\nversions = {torch = "2.0.1"}\n'
    )
    result = run("check")
    assert result.exit_code == 2  # a CI job must not pass with settings that nobody meant
    assert "torch 2.0.1 silently" in result.stdout
    assert 'remat: pyproject.toml: [tool.remat] selct: unknown key "selct"; did you mean "select"?\n' in result.stderr
    assert 'remat: pyproject.toml: [tool.remat] ignore: unknown rule "nonsense"' in result.stderr


def test_a_pyproject_that_cannot_be_read_is_an_error_and_defaults_hold(here):
    lay(here, bad=BAD)
    (here / "pyproject.toml").write_text("[tool.remat]\nignore = [\n")
    result = run("check")
    assert result.exit_code == 2
    assert "bad.py:5:12" in result.stdout
    assert "remat: pyproject.toml: invalid TOML:" in result.stderr


def test_the_excludes_of_the_settings_hold_but_a_named_file_is_checked(here):
    lay(here, bad=BAD)
    (here / "pyproject.toml").write_text('[tool.remat]\nexclude = ["bad.py"]\n')
    assert run("check").exit_code == 0
    assert run("check", "bad.py").exit_code == 1


def test_a_suppressed_problem_is_not_reported(here):
    lay(here, bad=BAD.replace("x)\n", "x)\n").rstrip() + f"  # remat: ignore[{RULE}]\n")
    assert run("check").exit_code == 0


def test_columns_count_code_points_after_a_bom_crlf_and_astral_characters(here):
    text = BAD.replace("return checkpoint", "return '😀' and checkpoint").replace("\n", "\r\n")
    (here / "bad.py").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (found,) = json.loads(run("check", "--output-format", "json").stdout)
    assert found["location"] == {"row": 5, "column": 20}
    assert found["end_location"] == {"row": 5, "column": 30}


def test_check_reads_standard_input(here):
    result = run("check", "-", "--output-format", "json", stdin=BAD)
    assert result.exit_code == 1
    assert codes(result) == [("-", 5)]


def test_standard_input_may_say_where_it_stands_and_gets_that_places_settings(here):
    (here / "sub").mkdir()
    (here / "sub" / "pyproject.toml").write_text(f'[tool.remat]\nignore = ["{RULE}"]\n')
    assert run("check", "-", "--stdin-filename", "sub/new.py", stdin=BAD).exit_code == 0
    result = run("check", "-", "--stdin-filename", "new.py", stdin=BAD)
    assert result.stdout.startswith("new.py:5:12")


def test_what_standard_input_says_itself_counts_as_in_a_file(here):
    (here / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    text = "from peft import get_peft_model\n" + BAD
    lay(here, bad=text)
    found = [json.loads(run("check", name, "--output-format", "json", stdin=text).stdout) for name in ("-", "bad.py")]
    assert [[one["fix"] for one in findings] for findings in found] == [[None], [None]]


def test_standard_input_that_cannot_be_decoded_is_told(here):
    result = run("check", "-", stdin=b"x = '\xff'\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("remat: -: line 1: byte 0xff is not valid utf-8")


def test_standard_input_cannot_be_mixed_with_files(here):
    result = run("check", "-", "a.py", stdin="")
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr


def test_what_the_project_configures_is_known_to_the_rules(here):
    lay(here, bad=BAD, peft_setup="from peft import get_peft_model\n")
    (here / "main.py").write_text("import peft_setup\n" + BAD)
    (here / "configs").mkdir()
    (here / "configs" / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    found = {
        Path(one["filename"]).name: one["fix"] for one in json.loads(run("check", "--output-format", "json").stdout)
    }
    assert found["bad.py"] is not None
    assert found["main.py"] is None  # non-reentrant checkpointing fails under PEFT with ZeRO-3


def test_fix_makes_safe_fixes_and_says_what_is_left(here):
    lay(here, bad=BAD, safe=SAFE)
    result = run("fix")
    assert result.exit_code == 1
    assert (here / "safe.py").read_text() == SAFE_FIXED
    assert (here / "bad.py").read_text() == BAD
    assert "Fixed 1 problem in 1 file.\nFound 1 problem (1 warning) in 2 files" in result.stdout


def test_fix_makes_unsafe_fixes_when_asked_and_ends_with_0_where_nothing_is_left(here):
    lay(here, bad=BAD)
    result = run("fix", "--unsafe-fixes")
    assert result.exit_code == 0
    assert (here / "bad.py").read_text() == FIXED
    assert result.stdout == "Fixed 1 problem in 1 file.\nNo problems in 1 file.\n"


def test_fix_keeps_bom_line_ends_encoding_and_mode(here):
    (here / "bom.py").write_bytes(b"\xef\xbb\xbf" + SAFE.replace("\n", "\r\n").encode())
    (here / "latin.py").write_bytes(f"# coding: latin-1\n# é\n{SAFE}".encode("latin-1"))
    (here / "latin.py").chmod(0o755)
    assert run("fix").exit_code == 0
    assert (here / "bom.py").read_bytes() == b"\xef\xbb\xbf" + SAFE_FIXED.replace("\n", "\r\n").encode()
    assert (here / "latin.py").read_bytes() == f"# coding: latin-1\n# é\n{SAFE_FIXED}".encode("latin-1")
    assert (here / "latin.py").stat().st_mode & 0o777 == 0o755


def test_fix_diff_writes_nothing_and_prints_what_patch_can_apply(here):
    lay(here, safe=SAFE)
    result = run("fix", "--diff")
    assert result.exit_code == 1  # on disk the problem is still there
    assert (here / "safe.py").read_text() == SAFE
    assert "+        return checkpoint(self.mlp, x, use_reentrant=False)\n" in result.stdout
    assert result.stderr == "Would fix 1 problem in 1 file.\nNo problems in 1 file.\n"
    subprocess.run(["patch", "-s", "-p0"], input=result.stdout_bytes, check=True, cwd=here)
    assert (here / "safe.py").read_text() == SAFE_FIXED


def test_fix_of_standard_input_prints_the_text_and_reports_aside(here):
    result = run("fix", "-", stdin=SAFE)
    assert (result.exit_code, result.stdout) == (0, SAFE_FIXED)
    assert "Fixed 1 problem" in result.stderr
    assert run("fix", "-", stdin="x = 1\n").stdout == "x = 1\n"
    broken = run("fix", "-", stdin=b"x = '\xff'\n")
    assert (broken.exit_code, broken.stdout_bytes) == (2, b"x = '\xff'\n")


def test_a_statement_that_does_not_parse_is_told_and_the_rest_of_the_file_is_checked(here):
    lay(here, half=BAD + "\n\ndef broken(x):\n    y = 1\n    return checkpoint(x,,)\n")
    result = run("check", "--output-format", "json")
    assert (result.exit_code, codes(result)) == (2, [("half.py", 5)])
    assert result.stderr == (
        "remat: half.py: line 10 is not valid Python; this statement was not checked, the rest of the file was\n"
    )


def test_where_a_statement_was_not_read_the_summary_says_so(here):
    lay(here, half="from torch.utils.checkpoint import checkpoint\ny = checkpoint(f,, x)\n", good="x = 1\n")
    result = run("check")
    assert result.exit_code == 2
    assert result.stdout == "No problems in what was read of 2 files (1 of them not as a whole).\n"


def test_a_statement_too_large_to_be_code_is_told_and_the_rest_of_the_file_is_checked(here):
    many = ", ".join(["'checkpoint'"] * 10_000)
    lay(here, data=BAD + f"\n\nNAMES = [{many}]\n\n\n" + BAD)
    result = run("check", "--output-format", "json")
    assert (result.exit_code, codes(result)) == (2, [("data.py", 5), ("data.py", 15)])
    assert result.stderr == (
        "remat: data.py: line 8: the statement has more than 100,000 characters and was not checked, the rest of the "
        "file was\n"
    )


def test_a_statement_nested_too_deeply_is_not_called_invalid(here):
    lay(here, deep=BAD + "checkpoint_names = " + " + ".join(["''"] * 1000) + "\n")
    result = run("check", "--output-format", "json")
    assert (result.exit_code, codes(result)) == (2, [("deep.py", 5)])
    assert "line 6 is nested too deeply; this statement was not checked, the rest of the file was" in result.stderr


def test_fix_repairs_what_can_be_read_of_a_file_that_does_not_parse(here):
    lay(here, half=SAFE + "\n\ndef broken(:\n")
    run("fix")
    assert (here / "half.py").read_text() == SAFE_FIXED + "\n\ndef broken(:\n"


def test_rules_are_listed_with_severity_and_summary():
    result = run("rules")
    assert result.exit_code == 0
    assert any(line.startswith(RULE) and "warning" in line for line in result.stdout.splitlines())


def test_a_rules_documentation_is_shown():
    result = run("rules", RULE)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"# {RULE}\n")
    assert "## Fix safety" in result.stdout


def test_a_rule_without_documentation_of_its_own_is_no_rule_to_show():
    result = run("rules", "nonsense")
    assert result.exit_code == 2
    assert 'unknown rule "nonsense"' in result.stderr


def test_colour_is_for_those_who_ask_and_never_against_no_color(here, monkeypatch):
    lay(here, bad=BAD)
    assert "\x1b" not in run("check").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run("check").stdout
    assert "\x1b[1;33mwarning" in coloured
    assert "\x1b" in run("rules", RULE).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("check").stdout


def test_many_files_are_checked_in_several_processes_with_the_same_result_in_path_order(here):
    for number in range(230):
        lay(here, **{f"m{number:03}": BAD if number % 3 else SAFE})
    found = codes(run("check", "--output-format", "json"))
    assert [name for name, _ in found] == [f"m{number:03}.py" for number in range(230)]
    assert run("fix", "--unsafe-fixes").exit_code == 0
    assert (here / "m001.py").read_text() == FIXED


def test_the_module_runs_as_the_command_does_and_imports_no_rich_for_a_program(here):
    lay(here, bad=BAD)
    done = spawn("check", "--output-format", "json", "bad.py", cwd=here)
    assert (done.returncode, len(json.loads(done.stdout))) == (1, 1)
    code = "import sys; from remat.cli import main\ntry: main()\nfinally: print([m for m in sys.modules if m in NAMES])"
    command = code.replace(
        "NAMES", "{'rich', 'pygls', 'lsprotocol', 'multiprocessing', 'pathspec', 'torch', 'asyncio'}"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, "check", "--output-format", "concise", "bad.py"],
        capture_output=True, check=False, text=True, cwd=here, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_terminal_that_knows_only_ascii_gets_escapes_instead_of_an_error(here):
    lay(here, bad=BAD)
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(__file__).parent.parent / "server")}
    done = subprocess.run([sys.executable, "-m", "remat", "check"], capture_output=True, check=False, cwd=here, env=env)
    assert done.returncode == 1
    assert done.stdout.isascii()
    assert done.stderr == b""


def test_a_reader_that_stops_reading_is_no_error(here):
    for number in range(60):
        lay(here, **{f"m{number}": BAD * 20})
    command = f"'{sys.executable}' -m remat check | head -1"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "server")}
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=here, env=env)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


def test_a_bar_shows_on_a_terminal_when_it_takes_long_and_is_gone_at_the_end(monkeypatch):
    leader, follower = os.openpty()
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with output.progress(40) as advance:
            time.sleep(0.01)
            advance(16)
    shown = ""
    with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
        while True:
            shown += os.read(leader, 100_000).decode()
    os.close(leader)
    assert "Checking" in shown
    assert "16/40 files" in re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert shown.endswith("\x1b[2K")  # the line it stood on is cleared


def test_no_bar_shows_where_standard_error_is_no_terminal(capsys):
    with output.progress(40) as advance:
        advance(40)
    assert capsys.readouterr().err == ""
