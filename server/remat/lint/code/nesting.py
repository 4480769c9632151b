"""Text nested so deeply that libcst's recursive parser would overflow the stack, which no exception reports.

CPython refuses more than 200 open brackets, and gives up on expressions of some thousand operators: no program that
runs is lost.
"""

from __future__ import annotations

import re

from remat.lint.code.strings import STRING

BRACKETS = 200  # what CPython's tokenizer allows
CHAIN = 500  # operators, attributes, calls, lambdas without a comma between them
LONG = 8_000  # characters; a shorter piece has no room for a chain that harms, unless on one line
_TOKEN = re.compile(
    rf"(?P<link>{STRING}|\blambda\b|\bnot\b|\belse\b|\bawait\b|[-+*/%@|&^~]|\.(?=\s*[A-Za-z_]))"
    r"|#[^\n]*|\\\r?\n|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<line>\n)",
    re.DOTALL,
)
_LONG_LINE = re.compile(rf"[^\n]{{{2 * CHAIN},}}")


def nested_too_deeply(text: str) -> bool:
    """A cheap look at most texts: only a long one, one of many brackets or one with a very long line is read closer."""
    brackets = text.count("(") + text.count("[") + text.count("{")
    return (brackets > BRACKETS or len(text) > LONG or _LONG_LINE.search(text) is not None) and _is_too_deep(text)


def _is_too_deep(text: str) -> bool:
    """Whether brackets, and chains since the last comma or line within each, add up to more than Python takes."""
    chains, deep = [0], 0
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "comma" or (kind == "line" and len(chains) == 1):
            deep -= chains[-1]
            chains[-1] = 0
        elif kind == "close":
            if len(chains) > 1:
                deep -= chains.pop()
        elif kind in {"link", "open"}:
            chains[-1] += 1
            deep += 1
            if kind == "open":
                chains.append(0)
            if deep > CHAIN or len(chains) > BRACKETS:
                return True
    return False
