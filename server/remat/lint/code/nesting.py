"""Text nested so deeply that libcst's recursive parser would overflow the stack, which no exception reports.

CPython refuses more than 200 open brackets, and gives up on expressions of some thousand operators: no program that
runs is lost.
"""

from __future__ import annotations

import re

from remat.lint.code.strings import STRING

BRACKETS = 200  # what CPython's tokenizer allows
CHAIN = 500  # operators, attributes, calls, lambdas without a comma between them
_BRACKET = re.compile(rf"(?P<open>[(\[{{])|(?P<close>[)\]}}])|#[^\n]*|{STRING}", re.DOTALL)
_LINK = re.compile(r"\blambda\b|\bnot\b|\belse\b|\bawait\b|[-+*/%@|&^~.(\[{]")
_LONG_LINE = re.compile(rf"[^\n]{{{2 * CHAIN},}}")


def nested_too_deeply(text: str) -> bool:
    """A cheap look at most texts: only many brackets or a very long line are read closer."""
    brackets = text.count("(") + text.count("[") + text.count("{")
    if brackets > BRACKETS and _depth(text) > BRACKETS:
        return True
    return any(_longest_chain(line[0]) > CHAIN for line in _LONG_LINE.finditer(text))


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        if match["open"]:
            depth += 1
            deepest = max(deepest, depth)
        elif match["close"]:
            depth = max(depth - 1, 0)
    return deepest


def _longest_chain(line: str) -> int:
    return max(len(_LINK.findall(part)) for part in line.split(","))
