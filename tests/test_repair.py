"""Fixes are made until none is left, never two that touch at once, and never one that breaks the text."""

from __future__ import annotations

import re

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.links import REPORT
from remat.repair import apart, compiles, repair


def finding(start, end, new, *, safe=True):
    return Finding("some-rule", Span(start, end), "m", Severity.WARNING, Fix("t", (Edit(Span(start, end), new),), safe))


def renames(old, new, *, safe=True):
    """A check that finds each `old` and would replace it by `new`."""
    return lambda text: [finding(*match.span(), new, safe=safe) for match in re.finditer(old, text)]


def test_every_safe_fix_is_made():
    done = repair("old = old + 1\n", renames("old", "new"), unsafe=False)
    assert (done.text, done.made, done.left, done.refused) == ("new = new + 1\n", 2, (), ())


def test_an_unsafe_fix_is_made_only_when_asked():
    check = renames("old", "new", safe=False)
    assert repair("old\n", check, unsafe=False).text == "old\n"
    assert repair("old\n", check, unsafe=True).text == "new\n"


def test_a_finding_without_a_fix_is_left():
    plain = Finding("some-rule", Span(0, 1), "m", Severity.WARNING)
    done = repair("x\n", lambda _: [plain], unsafe=True)
    assert (done.text, done.made, done.left) == ("x\n", 0, (plain,))


def test_fixes_that_touch_wait_for_the_next_round():
    assert apart([finding(0, 2, "a"), finding(1, 3, "b"), finding(3, 3, "c"), finding(5, 6, "d")]) == [
        finding(0, 2, "a"),
        finding(3, 3, "c"),
        finding(5, 6, "d"),
    ]
    assert repair("f(f(f(x)))\n", renames(r"f\((?=.*\))", "g("), unsafe=False).text == "g(g(g(x)))\n"


def test_a_fix_that_would_break_the_text_is_left_out_and_told_and_the_others_are_made():
    def check(text):
        return [finding(*match.span(), ")" if match[0] == "bad" else "new") for match in re.finditer("old|bad", text)]

    done = repair("old = 1\nbad = 2\nold = 3\n", check, unsafe=False)
    assert done.text == "new = 1\nbad = 2\nnew = 3\n"
    assert done.made == 2
    assert [one.span.start for one in done.left] == [8]
    assert done.refused == (f"a fix of some-rule would have made it invalid Python and was left out; {REPORT}",)


def test_fixes_that_break_the_text_only_together_are_all_left_out():
    def check(text):
        return [finding(0, 1, "("), finding(2, 3, ")")] if text == "a\nb\n" else []

    def opposite(text):
        return [finding(m.start(), m.end(), "(") for m in re.finditer("[ab]", text)]

    assert repair("a\nb\n", opposite, unsafe=False).text == "a\nb\n"
    assert repair("a\nb\n", check, unsafe=False).text == "(\n)\n"


def test_a_text_that_does_not_compile_is_repaired_all_the_same():
    assert repair("old = (\n", renames("old", "new"), unsafe=False).text == "new = (\n"


def test_fixes_that_never_settle_change_nothing_and_are_told():
    done = repair("a\n", lambda text: [finding(0, 1, "b" if text[0] == "a" else "a")], unsafe=False)
    assert (done.text, done.made) == ("a\n", 0)
    assert "did not settle" in done.refused[0]


def test_what_python_refuses_does_not_compile_and_never_raises():
    assert compiles("x = '\\d'\n")  # a warning is no refusal
    for text in ("x = (\n", "x\0", "(" * 5000 + ")" * 5000, "return\n", "x = '\udc80'\n"):
        assert not compiles(text)
