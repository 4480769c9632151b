"""Is this a log at all? Nothing, a compressed file or bytes of something else are refused in words."""

from __future__ import annotations

import errno
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_JUDGED = 65_536  # characters that tell whether this is a text
_EMPTY = "it is empty: give what the run wrote (stdout and stderr)"


def of_text(name: str, lines: Iterable[str]) -> Iterator[str]:
    """The same lines. Raises OSError where there are none, or no text is in them."""
    looked, odd, head = 0, 0, ""
    for line in lines:
        text = line.strip("\0\n\r ") if looked < _JUDGED else ""  # NULs stand where a log was cut while written to
        head = head or text[:4]
        looked += len(text)
        odd += sum(ch in "\ufffd\0" or (ch < " " and ch not in "\t\r\x1b\x07\b\f") for ch in text)
        if looked >= _JUDGED and 5 * odd > looked:
            break
        yield line
    if not looked:
        raise OSError(errno.EINVAL, _EMPTY, name)
    if 5 * odd > looked:
        zipped = f"it is compressed: gunzip -c {shlex.quote(name)} | remat diagnose -"
        other = "it is no text: give the log as text (a compressed one: unzstd or xz -d first)"
        raise OSError(errno.EINVAL, zipped if head[:1] == "\x1f" else other, name)
