"""A rule's page in Markdown: its documentation, its options and its examples, all from the rule's own module."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from remat.lint.rule import Bad, Rule, unmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.rule import Good


def page(rule: Rule) -> str:
    """Return the whole page."""
    return "\n".join(_blocks(rule)).rstrip("\n") + "\n"


def _blocks(rule: Rule) -> Iterator[str]:
    yield f"# {rule.name}\n"
    yield f"Severity: {rule.severity.value}\n"
    yield f"{rule.doc.strip()}\n"
    if rule.options:
        yield "## Options\n"
        for option in rule.options:
            values = ", ".join(f'`"{value}"`' for value in option.values)
            yield f"- `{option.name}` in `[tool.remat.{rule.name}]`: {values}; the first is the default. {option.doc}"
        yield ""
    yield "## Examples\n"
    for example in rule.examples:
        yield from _bad(example) if isinstance(example, Bad) else _good(example)
    yield f"To leave one place alone, end its line with `# remat: ignore[{rule.name}]`.\n"


def _bad(example: Bad) -> Iterator[str]:
    yield f"Reported{_for(example.versions)}:\n"
    yield _fenced(example.code)
    if example.fixed is not None:
        yield f"{'Fixed' if example.safe else 'Fixed (unsafe: look at it first)'}:\n"
        yield _fenced(example.fixed)


def _good(example: Good) -> Iterator[str]:
    yield f"Not reported{_for(example.versions)}: {example.because}\n"
    yield _fenced(example.code)


def _for(versions: str) -> str:
    return f" ({versions.replace('=', ' ').replace(',', ', ')})" if versions else ""


def _fenced(code: str) -> str:
    return f"```python\n{textwrap.dedent(unmark(code)[0]).strip()}\n```\n"
