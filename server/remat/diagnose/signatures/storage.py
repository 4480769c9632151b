"""Files and volumes: full, forbidden, missing, failing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Seen

_ERRNO = "operating system error text"
_PATH = r"(?:: ['\"]?(?P<path>[^'\"\n]{1,400})['\"]?)?"


def _not_shared_memory(seen: Seen) -> Facts | None:
    return None if "nccl-" in seen.text else seen.facts


SIGNATURES = (
    Signature(
        id="io.disk_full",
        words=("No space left on device",),
        pattern=rf"No space left on device{_PATH}",
        read=_not_shared_memory,
        cause="The disk is full: no space left on the volume of {path}.",
        fix="Free space there, or write to another volume; keep fewer checkpoints (save_total_limit).",
        runnable=True,
        verify="df -h; df -i",
        sources=(_ERRNO,),
        extra={"path": "the file being written"},
        examples=("OSError: [Errno 28] No space left on device",),
    ),
    Signature(
        id="io.quota",
        words=("Disk quota exceeded",),
        pattern=rf"Disk quota exceeded{_PATH}",
        cause="The disk quota is exceeded: {path} could not be written.",
        fix="Free quota (quota -s shows it) or save elsewhere; keep fewer checkpoints.",
        runnable=True,
        verify="quota -s; lfs quota -h -u $USER .",
        sources=(_ERRNO,),
        extra={"path": "the file"},
        examples=("OSError: [Errno 122] Disk quota exceeded: '/home/user/ckpt/step_900.pt'",),
    ),
    Signature(
        id="io.write_failed",
        words=("PytorchStreamWriter failed", "iostream error", "unexpected pos", "write(): fd"),
        pattern=r"PytorchStreamWriter failed writing (?:file|central)|basic_ios::clear: iostream error"
        r"|unexpected pos \d+ vs \d+|write\(\): fd \d+ failed with (?P<why>.+)",
        weight=1,
        cause="Writing the checkpoint failed ({why}): the storage refused a write part-way.",
        fix="Check the volume: storage errors (EIO) first, then free space and quota; save to another path, and "
        "save atomically (temporary file, "
        "then rename).",
        verify="df -h DIR; quota -s; dmesg -T | grep -i -E 'i/o error|nfs|ext4'",
        asks=(
            Missing(
                "why the write failed: free space / quota on the target volume at that time (df -h, quota -s), "
                "or the storage log",
                "the writer reports that a write failed, not why",
                "df -h DIR; quota -s; dmesg -T | grep -i error",
            ),
        ),
        sources=("caffe2/serialize/inline_container.cc:672",),
        extra={"why": "the first error is a failed file write"},
        examples=(
            (
                "RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file "
                "data/322: file write failed"
            ),
        ),
    ),
    Signature(
        id="io.read_error",
        words=("Input/output error", "Stale file handle"),
        pattern=rf"(?:\[Errno (?:5|116)\] )?(?P<what>Input/output error|Stale file handle){_PATH}",
        weight=1,
        cause="The storage answered with an {what} for {path}.",
        fix="Check the volume or network file system; copy the data again or to local disk, and retry reads.",
        verify="dmesg -T | grep -i -E 'i/o error|nfs'; md5sum of the file",
        sources=(_ERRNO,),
        extra={"path": "a file"},
        examples=("OSError: [Errno 5] Input/output error: '/mnt/data/shard_00012.tar'",),
    ),
    Signature(
        id="io.permission",
        words=("Permission denied",),
        pattern=rf"PermissionError[\s\S]{{0,40}}?Permission denied{_PATH}",
        weight=1,
        cause="Permission denied: this user may not open {path}.",
        fix="Give the job's user access to {path}, or use another location.",
        runnable=True,
        verify="ls -ld {path}; id",
        sources=(_ERRNO,),
        extra={"path": "the file"},
        examples=("PermissionError: [Errno 13] Permission denied: '/mnt/nfs/shard1'",),
    ),
    Signature(
        id="io.file_missing",
        words=("FileNotFoundError", "NotADirectoryError", "No such file or directory"),
        pattern=r"^(?:\w+\.)*FileNotFoundError: (?:\[(?:Errno|WinError) \d+\] )?(?P<what>.{1,400})|No such file "
        r"or directory: (?P<path>.{1,300})"
        r"|^(?:\w+\.)*(?:FileNotFoundError|NotADirectoryError)$",
        weight=1,
        cause="A file or directory does not exist: {what}",
        fix="Provide the missing file, or correct the path (relative paths depend on the working directory; "
        "every node needs the file).",
        verify="ls -l on that path, on the host of the failing rank",
        sources=(_ERRNO,),
        extra={"what": "its name is in the message."},
        examples=("FileNotFoundError: [Errno 2] No such file or directory: '/data/val/manifest.json'",),
    ),
)
