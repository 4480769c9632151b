"""The documentation page of a kind of failure, as Markdown, from its signature."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.texts import TEXTS

if TYPE_CHECKING:
    from remat.diagnose.signature import Signature
    from remat.diagnose.texts import Text

_FACT = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
_GROUP = re.compile(r"\(\?P<(\w+?)\d?>")


def title(signature: Signature) -> str:
    """What happened, in one line; facts that a log would give are in angle brackets."""
    return _plain(_usual(signature.cause, signature)).replace("|", "\\|")


def page(signature: Signature) -> str:
    cause, fix, verify = (_usual(text, signature) for text in (signature.cause, signature.fix, signature.verify))
    rows = [f"# {signature.id}", "", _plain(cause), "", "## Fix", "", _plain(fix), ""]
    rows += ["## Verify", "", "```text", _plain(verify, code=True), "```", ""]
    if signature.asks:
        rows += ["## What the log may lack", ""]
        asked = [[_plain(_usual(text, signature)) for text in (ask.fact, ask.why, ask.how)] for ask in signature.asks]
        rows += [f"- {fact}: {why}. Obtain it: {how}" for fact, why, how in asked]
        rows.append("")
    if signature.rules:
        rows += ["## Rules", "", *(f"- [{rule}](../rules/{rule}.md)" for rule in signature.rules), ""]
    if signature.examples:
        rows += ["## Example", "", "```text", signature.examples[0].rstrip("\n"), "```", ""]
    texts = [f"- `{text.says}` in {text.file}{_until(text)}" for text in TEXTS if signature.id in text.of]
    if signature.sources or texts:
        rows += ["## Sources", "", *texts, *(f"- {_plain(source)}" for source in signature.sources), ""]
    return "\n".join(rows)


def _usual(text: str, signature: Signature) -> str:
    """A template in the words that a signature has for most logs; what a log gives stays open."""
    given = {*_GROUP.findall(signature.pattern)}
    words = {name: value for name, value in signature.extra.items() if name not in given}
    return _FACT.sub(lambda slot: words.get(slot[1], slot[0]), text)


def _until(text: Text) -> str:
    return f", in versions before {text.until}" if text.until else ""


def _plain(text: str, *, code: bool = False) -> str:
    """A template as prose: `{fact}` reads as <fact>, and nothing in it is a tag or a link."""
    text = _FACT.sub(r"<\1>", text).replace("{{", "{").replace("}}", "}")
    return text if code else re.sub(r"([<>\[\]*_`])", r"\\\1", text)
