"""Where the documentation stands on the web: the one place that knows the repository's address."""

from __future__ import annotations

DOCS = "https://github.com/remat-dev/remat/blob/main/docs"


def rule_url(rule: str) -> str:
    return f"{DOCS}/rules/{rule}.md"


def failure_url(kind: str) -> str:
    """The page about a kind of failure, by its id."""
    return f"{DOCS}/failures/{kind}.md"
