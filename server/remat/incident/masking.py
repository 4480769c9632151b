"""Takes out of a text what must not be sent to others: tokens, keys, passwords, the names of users in paths."""

from __future__ import annotations

import re

MASK = "***"

_TOKENS = re.compile(
    r"""
    \b(?:hf|api_org)_[A-Za-z0-9]{16,}\b                     # Hugging Face
    | \bgh[pousr]_[A-Za-z0-9]{20,}\b | \bgithub_pat_\w{20,}\b
    | \bglpat-[\w-]{16,}
    | \bsk-[A-Za-z0-9_-]{16,}                               # OpenAI, Anthropic and others that imitate them
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                         # AWS
    | \bAIza[\w-]{30,}                                      # Google
    | \bxox[abprs]-[\w-]{10,}                               # Slack
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}                  # JSON web tokens
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_NAMED = re.compile(
    r"""(?ix)
    (?P<name> (?:--)? \b [\w.-]{0,40}? (?: api[_-]?key | secret(?:[_-]?(?:access)?[_-]?key)? | token | passwd | password | credentials? ) ["']? )
    (?P<sign> \s{0,3} [=:] \s{0,3} | \s )
    (?P<value> "[^"\n]{4,}" | '[^'\n]{4,}' | [^\s"',;&|)}\]]{8,} )
    """  # noqa: E501
)
_BEARER = re.compile(r"(?i)\b(?P<how>bearer|basic)\s+[A-Za-z0-9+/._~-]{12,}=*")
_USER_IN_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/@]{1,200}@")
_HOME = re.compile(r"(?P<before>(?:/(?:home|Users)/|[A-Za-z]:\\{1,2}Users\\{1,2}))(?P<user>[^/\\\s\"':]+)")
_PUBLIC = frozenset({"runner", "ubuntu", "user", "Public", "Shared", "jovyan", "ec2-user"})
_PLAINLY_NO_SECRET = re.compile(
    r"(?i)none|null|true|false|required|missing|invalid|expired|not|is|was|has|for|to|in|\d{1,9}|<[^>]*>|\[\S*"
)


def users_in(text: str) -> frozenset[str]:
    """Names of users that paths in `text` give away."""
    return frozenset(match["user"] for match in _HOME.finditer(text)) - _PUBLIC


def masked(text: str, users: frozenset[str] = frozenset()) -> str:
    """
    `text` with each secret as ***, and `/home/NAME` as `/home/***`. What merely looks odd is left.

    `users`: names known from elsewhere, which are masked in other paths, too.
    """
    text = _BLOCK.sub(MASK, text)
    text = _TOKENS.sub(MASK, text)
    text = _BEARER.sub(lambda match: f"{match['how']} {MASK}", text)
    text = _USER_IN_URL.sub(lambda match: f"{match['scheme']}{MASK}@", text)
    text = _NAMED.sub(_named, text)
    users |= users_in(text)
    text = _HOME.sub(lambda match: match[0] if match["user"] in _PUBLIC else match["before"] + "***", text)
    for user in sorted(users):  # elsewhere, too: /scratch/NAME/run3
        text = re.sub(rf"(?<=[/\\]){re.escape(user)}(?=[/\\])", "***", text)
    return text


def _named(match: re.Match[str]) -> str:
    value = match["value"]
    bare = match["sign"].isspace()
    secret = not _PLAINLY_NO_SECRET.fullmatch(value.strip("\"'")) and MASK not in value
    if bare:  # `--api-key VALUE`, but not `token ids`: prose has no digits
        secret = secret and match["name"].startswith("-") and re.search(r"\d", value) is not None
    return f"{match['name']}{match['sign']}{MASK}" if secret else match[0]
