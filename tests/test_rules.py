"""Every example in every rule, as a test: found where marked, repaired as shown, and quiet where it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remat.lint.check import check
from remat.lint.project import Project, summarise
from remat.lint.rule import Bad, Context, Good, Rule, unmark
from remat.lint.rules import RULES
from remat.settings import Settings
from remat.versions import Versions

if TYPE_CHECKING:
    from remat.finding import Finding

BAD = [
    pytest.param(rule, example, id=f"{rule.name}/bad-{n}")
    for rule in RULES
    for n, example in enumerate((e for e in rule.examples if isinstance(e, Bad)), 1)
]
GOOD = [
    pytest.param(rule, example, id=f"{rule.name}/good-{n}")
    for rule in RULES
    for n, example in enumerate((e for e in rule.examples if isinstance(e, Good)), 1)
]


def findings(rule: Rule, example: Bad | Good, text: str) -> list[Finding]:
    context = Context(
        Versions.parse(example.versions),
        Settings(options={rule.name: dict(example.options)}),
        Project(tuple(summarise(path, beside) for path, beside in example.beside.items())),
    )
    return [f for f in check(text, context) if f.rule == rule.name]


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_bad_example_is_flagged_where_it_is_marked(rule: Rule, example: Bad) -> None:
    text, marks = unmark(example.code)
    found = findings(rule, example, text)
    assert [f.span for f in found] == marks
    assert {f.severity for f in found} == {example.severity or rule.severity}
    for words in example.says:
        assert words in found[0].message


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_the_fix_of_a_bad_example_makes_the_program_shown_which_is_not_flagged(rule: Rule, example: Bad) -> None:
    text, _ = unmark(example.code)
    found = findings(rule, example, text)
    if example.fixed is None:
        assert [f.fix for f in found] == [None] * len(found)
        return
    assert {f.fix.safe for f in found if f.fix} == {example.safe}
    for finding in reversed(found):
        assert finding.fix is not None
        text = finding.fix.apply(text)
    expected, _ = unmark(example.fixed)
    assert text == expected
    compile(text, "fixed.py", "exec")
    assert findings(rule, example, text) == []


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_is_left_alone(rule: Rule, example: Good) -> None:
    text, marks = unmark(example.code)
    compile(text, "good.py", "exec")
    assert marks == []
    assert findings(rule, example, text) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_is_documented_and_guarded(rule: Rule) -> None:
    assert "## Why" in rule.doc
    assert "## Fix safety" in rule.doc
    assert {Bad, Good} == {type(e) for e in rule.examples}
    assert rule.words


def test_rules_are_listed_in_alphabetical_order() -> None:
    assert [r.name for r in RULES] == sorted(r.name for r in RULES)
