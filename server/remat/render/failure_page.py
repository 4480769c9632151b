"""The documentation page of a kind of failure, as Markdown, from its signature."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.texts import TEXTS

if TYPE_CHECKING:
    from remat.diagnose.signature import Signature
    from remat.diagnose.texts import Text

_FACT = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


def title(signature: Signature) -> str:
    """What happened, in one line; facts that a log would give are in angle brackets."""
    return _plain(signature.cause).replace("|", "\\|")


def page(signature: Signature) -> str:
    rows = [f"# {signature.id}", "", _plain(signature.cause), "", "## Fix", "", _plain(signature.fix), ""]
    rows += ["## Verify", "", "```text", _plain(signature.verify, code=True), "```", ""]
    if signature.asks:
        rows += ["## What the log may lack", ""]
        rows += [f"- {_plain(ask.fact)}: {_plain(ask.why)}. Obtain it: {_plain(ask.how)}" for ask in signature.asks]
        rows.append("")
    if signature.rules:
        rows += ["## Rules", "", *(f"- [{rule}](../rules/{rule}.md)" for rule in signature.rules), ""]
    if signature.examples:
        rows += ["## Example", "", "```text", signature.examples[0].rstrip("\n"), "```", ""]
    texts = [f"- `{text.says}` in {text.file}{_until(text)}" for text in TEXTS if signature.id in text.of]
    if signature.sources or texts:
        rows += ["## Sources", "", *texts, *(f"- {_plain(source)}" for source in signature.sources), ""]
    return "\n".join(rows)


def _until(text: Text) -> str:
    return f", in versions before {text.until}" if text.until else ""


def _plain(text: str, *, code: bool = False) -> str:
    """A template as prose: `{fact}` reads as <fact>, and nothing in it is a tag or a link."""
    text = _FACT.sub(r"<\1>", text).replace("{{", "{").replace("}}", "}")
    return text if code else re.sub(r"([<>\[\]*_`])", r"\\\1", text)
