"""Between the bytes of a Python file and its text, and back: encoding, BOM and line ends survive a fix."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

_COOKIE = re.compile(  # PEP 263: on the first line, or on the second if the first holds no code
    rb"\A(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\n|\r))??[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"
)
_WIDE_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


@dataclass(frozen=True, slots=True)
class SourceText:
    """A decoded file. Line ends are as in the file; a BOM is not part of `text`."""

    text: str
    encoding: str
    bom: bool


def decode(data: bytes) -> SourceText:
    """Decode as Python would. Raises ValueError with the reason, as read after the file's name."""
    for mark, name in _WIDE_BOMS.items():
        if data.startswith(mark):
            raise ValueError(f"it is {name}, which Python does not read; save it as UTF-8")
    if (null := data.find(b"\0")) >= 0:
        raise ValueError(f"line {_line(data, null)} holds a null byte, which Python does not accept in source text")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    cookie = _COOKIE.match(body)
    encoding = cookie[1].decode("ascii") if cookie else "utf-8"
    if bom and encoding.lower().replace("_", "-") not in {"utf-8", "utf8", "utf-8-sig"}:
        raise ValueError(f'its BOM says UTF-8 and its coding comment says "{encoding}"; remove one of them')
    try:
        return SourceText(body.decode(encoding), encoding, bom)
    except LookupError:
        raise ValueError(f'its coding comment names "{encoding}", which is no text encoding Python knows') from None
    except UnicodeDecodeError as error:
        place = f"line {_line(body, error.start)}: byte 0x{body[error.start]:02x} is not valid {encoding}"
        advice = "" if cookie else "; save it as UTF-8 or name its encoding in a coding comment (PEP 263)"
        raise ValueError(place + advice) from None
    except UnicodeError as error:  # codecs such as idna and utf-7 say no more
        raise ValueError(f"it is not valid {encoding}: {error}") from None


def encode(text: str, like: SourceText) -> bytes:
    """Encode a text as `like` was. Raises ValueError where the text does not fit into that encoding."""
    try:
        body = text.encode(like.encoding)
    except UnicodeError as error:
        raise ValueError(f"the fixed text does not fit its encoding {like.encoding}: {error}") from None
    return codecs.BOM_UTF8 + body if like.bom else body


def replace_file(path: Path, data: bytes, was: bytes) -> None:
    """Put `data` in the place of `was`, all or nothing, with the file's mode; a symbolic link stays one.

    Raises OSError; ValueError where the file is no longer what was read.
    """
    real = path.resolve()
    effective = os.access in os.supports_effective_ids
    if not os.access(real, os.W_OK, effective_ids=effective):  # the rename below needs only a writable folder
        raise PermissionError(errno.EACCES, "no write permission", str(path))
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=".remat-", suffix=".tmp")
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_owner_and_mode(real, scratch)
        _expect(real, was)
        scratch.replace(real)
    except BaseException:
        scratch.unlink()
        raise


def _expect(path: Path, was: bytes) -> None:
    if path.read_bytes() != was:
        raise ValueError("it changed while it was being fixed; run again")


def _copy_owner_and_mode(original: Path, copy: Path) -> None:
    status = original.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # not ours to give: then the file belongs to whoever ran the fix
            os.chown(copy, status.st_uid, status.st_gid)
    copy.chmod(stat.S_IMODE(status.st_mode))


def _line(data: bytes, at: int) -> int:
    return len(re.findall(rb"\r\n|\n|\r", data[:at])) + 1
