"""Text of a log, made unable to act on whoever shows it."""

from __future__ import annotations

import re

# Control characters but tab and line feed; marks that turn the direction of writing, or are not seen at all.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def harmless(text: str) -> str:
    """`text` with each character that could act as a replacement character."""
    return UNSAFE.sub("\ufffd", text)


def may_be_asked_for(path: str) -> bool:
    """Whether looking for a path that a log names stays on this machine: no share, automount or device."""
    return not path.startswith(("//", "\\\\", "/net/", "/dev/", "/proc/", "/sys/")) and "\0" not in path
