"""Where the documentation stands on the web: the one place that knows the repository's address."""

from __future__ import annotations

_REPOSITORY = "https://github.com/remat-dev/remat"
DOCS = f"{_REPOSITORY}/blob/main/docs"
REPORT = f"please report this at {_REPOSITORY}/issues"  # how a message ends that tells of a fault of ours


def rule_url(rule: str) -> str:
    return f"{DOCS}/rules/{rule}.md"


def failure_url(kind: str) -> str:
    """The page about a kind of failure, by its id."""
    return f"{DOCS}/failures/{kind}.md"
