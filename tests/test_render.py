"""Each format says the same: rows and columns from 1 in code points, nothing that could drive its reader."""

from __future__ import annotations

import json
import re

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.lint.rules import RULES
from remat.render import machine, terminal
from remat.render.diff import unified
from remat.render.report import Lines, Report
from remat.render.rule_page import page
from remat.render.terminal import Read


def report(text, marked, *, message="It is wrong.", severity=Severity.WARNING, fix=None, shown="train.py"):
    start = text.index(marked)
    finding = Finding("some-rule", Span(start, start + len(marked)), message, severity, fix)
    return Report(f"/project/{shown}", shown, text, (finding,))


def plain(pieces):
    return "".join(piece.text for piece in pieces)


def fix(text, at, new, *, safe):
    start = text.index(at)
    return Fix("Say so", (Edit(Span(start, start + len(at)), new),), safe=safe)


def test_rows_and_columns_count_code_points_and_every_line_end_of_python_but_not_a_form_feed():
    lines = Lines.of("a\r\nb\rc\x0c\x85d\ne😀f")
    assert [lines.text[slice(*lines.bounds(row))] for row in range(1, 5)] == ["a", "b", "c\x0c\x85d", "e😀f"]
    assert lines.position(lines.text.index("f")) == (4, 3)
    assert lines.position(lines.text.index("d")) == (3, 4)
    assert lines.position(len(lines.text)) == (4, 4)


def test_json_is_an_array_in_ruffs_shape():
    text = "x = 1\ny = '😀' + wrong(x)\n"
    (found,) = json.loads(machine.as_json([report(text, "wrong", fix=fix(text, "(x)", "(x, y)", safe=True))]))
    assert found == {
        "code": "some-rule",
        "filename": "/project/train.py",
        "location": {"row": 2, "column": 11},
        "end_location": {"row": 2, "column": 16},
        "message": "It is wrong.",
        "severity": "warning",
        "fix": {
            "applicability": "safe",
            "message": "Say so",
            "edits": [
                {
                    "content": "(x, y)",
                    "location": {"row": 2, "column": 16},
                    "end_location": {"row": 2, "column": 19},
                }
            ],
        },
        "url": "https://github.com/remat-dev/remat/blob/main/docs/rules/some-rule.md",
    }


def test_json_without_findings_is_an_empty_array_and_is_ascii_always():
    assert json.loads(machine.as_json([])) == []
    assert machine.as_json([report("x", "x", message="é\udcff")]).isascii()


def test_github_gets_a_command_with_everything_escaped_that_would_end_it():
    text = "a = wrong\n"
    command = machine.as_github([report(text, "wrong", message="50% of:\na, b", shown="a,b:c%.py")])
    assert command == (
        "::warning file=a%2Cb%3Ac%25.py,line=1,col=5,endLine=1,endColumn=10,title=Remat (some-rule)::50%25 of:%0Aa, b\n"
    )


def test_github_gets_no_end_column_on_another_line_and_a_notice_for_information():
    command = machine.as_github([report("f(a,\n  b)\n", "f(a,\n  b)", severity=Severity.INFO)])
    assert command.startswith("::notice file=train.py,line=1,col=1,endLine=2,title=")


def test_concise_is_one_line_per_finding():
    assert plain(terminal.concise([report("a = wrong\n", "wrong", message="Two\nlines.")])) == (
        "train.py:1:5: warning some-rule Two\\nlines.\n"
    )


def test_full_shows_the_line_a_caret_and_the_fix():
    text = "def f():\n\treturn wrong(x)\n"
    shown = plain(terminal.full([report(text, "wrong(x)", fix=fix(text, "(x)", "(x, y)", safe=True))]))
    assert shown.splitlines() == [
        "train.py:2:9 warning some-rule — It is wrong.",
        "  |",
        "2 |     return wrong(x)",
        "  |            ^^^^^^^^",
        "  = fix: Say so (`remat fix` makes it)",
        "",
    ]


def test_full_says_that_a_fix_is_unsafe():
    text = "wrong(x)"
    shown = plain(terminal.full([report(text, "wrong", fix=fix(text, "(x)", "(x, y)", safe=False))]))
    assert "= fix: Say so (unsafe: look at it first; `remat fix --unsafe-fixes` makes it)" in shown


def test_carets_stand_under_wide_and_combining_characters():
    shown = plain(terminal.full([report("x = '模型e\u0301' + wrong", "wrong")])).splitlines()
    assert shown[2] == "1 | x = '模型e\u0301' + wrong"
    assert shown[3] == "  | " + " " * 14 + "^^^^^"


def test_a_finding_over_several_lines_is_marked_on_each_without_its_indentation():
    shown = plain(terminal.full([report("y = f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n)")]))
    assert [line for line in shown.splitlines() if "^" in line] == [
        "  |     ^^",
        "  |     ^^",
        "  |     ^^",
        "  | ^",
    ]


def test_a_long_finding_is_shown_without_its_middle():
    text = "f(\n" + "    a,\n" * 20 + ")\n"
    shown = plain(terminal.full([report(text, text.rstrip("\n"))])).splitlines()
    assert [line.split("|")[0].strip() for line in shown if re.match(r" ?\d| *\.", line)] == [
        "1", "2", "3", "..", "21", "22",
    ]  # fmt: skip


def test_a_very_long_line_is_cut_around_the_finding():
    text = "x = [" + "1, " * 300_000 + "wrong, " + "2, " * 300_000 + "]"
    shown = plain(terminal.full([report(text, "wrong")])).splitlines()
    assert len(shown[2]) < 160
    assert shown[2][shown[3].index("^") :].startswith("wrong")


def test_an_empty_span_has_a_caret_even_at_the_end_of_the_file():
    finding = Finding("some-rule", Span(2, 2), "It ends.", Severity.ERROR)
    assert "^" in plain(terminal.full([Report("/a.py", "a.py", "x\n", (finding,))]))


def test_source_text_and_names_cannot_drive_the_terminal():
    shown = plain(terminal.full([report("x = '\x1b[31m' + wrong", "wrong", message="\x1b[0m", shown="a\nb.py")]))
    assert "\x1b" not in shown
    assert shown.startswith("a\\nb.py:1:")


def test_the_summary_counts_by_severity_and_by_what_fixes():
    text = "wrong"
    safe, unsafe = (fix(text, "wrong", "right", safe=safe) for safe in (True, False))
    reports = [
        report(text, text, fix=safe),
        report(text, text, fix=unsafe),
        report(text, text, severity=Severity.INFO),
    ]
    assert terminal.summary(reports, Read(14), "torch 2.9.1") == (
        "Found 3 problems (2 warnings, 1 info) in 14 files for torch 2.9.1; "
        "1 fixable with `remat fix`, 1 more with `--unsafe-fixes`."
    )
    assert terminal.summary(reports[2:], Read(1), "") == "Found 1 problem (1 info) in 1 file."
    assert terminal.summary(reports[1:2], Read(1), "") == (
        "Found 1 problem (1 warning) in 1 file; 1 fixable with `remat fix --unsafe-fixes`."
    )
    assert terminal.summary([], Read(2, unread=1), "") == "No problems in 2 files (1 more could not be read)."
    assert terminal.summary([], Read(2, 1, partly=1), "") == (
        "No problems in what was read of 2 files (1 of them not as a whole; 1 more could not be read)."
    )


def test_a_diff_keeps_the_encoding_the_line_ends_and_a_missing_last_one():
    diff = unified("é\r\nold", "é\r\nnew", "a.py", "latin-1")
    assert diff == (
        b"--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n \xe9\r\n"
        b"-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n"
    )


def test_a_rules_page_shows_its_documentation_and_every_example_without_marks():
    for rule in RULES:
        text = page(rule)
        assert text.startswith(f"# {rule.name}\n")
        assert rule.doc.strip() in text
        assert text.count("```python") >= len(rule.examples)
        assert "«" not in text
        assert f"# remat: ignore[{rule.name}]" in text
