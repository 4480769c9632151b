"""Where a rule's documentation stands on the web: the one place that knows the repository's address."""

from __future__ import annotations

RULE_PAGES = "https://github.com/remat-dev/remat/blob/main/docs/rules"


def rule_url(rule: str) -> str:
    return f"{RULE_PAGES}/{rule}.md"
