"""A program that fails: what its head says about it, its fixed form, and running it on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
SERVER = HERE.parents[1] / "server"
_FIELD = re.compile(r"^# ([a-z-]+): (.+)$")
_BROKEN = re.compile(r"\s*# broken(?:, fails here)?$")
_FIXED = re.compile(r"^(\s*)# fixed: (.*)$")
_FAILS = re.compile(r"# (?:broken, )?fails here$")
FIELDS = {
    *("run", "cause", "cut", "rank", "collateral", "location", "missing", "says", "quick"),
    *("fix-rule", "fix-says", "fix-edits", "fixed-run"),
}


@dataclass(frozen=True, slots=True)
class Program:
    """A file of `programs/`, and the fields in its head (README.md tells them)."""

    path: Path
    text: str
    fields: dict[str, str]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def fails_at(self) -> int | None:
        """The line (1-based) where the failure stands, None where no line can be told."""
        found = [at for at, line in enumerate(self.text.splitlines(), 1) if _FAILS.search(line)]
        return found[0] if found else None

    @property
    def fixed_by_hand(self) -> str:
        """The program with its `# broken` lines replaced by what its `# fixed:` lines hold."""
        lines = [line for line in self.text.splitlines() if not _BROKEN.search(line)]
        return "".join(_FIXED.sub(r"\1\2", line) + "\n" for line in lines)

    @property
    def edited(self) -> str:
        """What the repair by hand takes away and puts in, and the command lines before and after it."""
        lines = self.text.splitlines()
        touched = [line for line in lines if _BROKEN.search(line) or _FIXED.match(line)]
        commands = [self.fields["run"], self.fields["fixed-run"]] if "fixed-run" in self.fields else []
        return "\n".join([*touched, *commands])

    @property
    def has_repair(self) -> bool:
        return "fix-rule" in self.fields or bool(self.edited)


def load(path: Path) -> Program:
    text = path.read_text()
    _, _, after = text.partition('"""')
    head = after.partition('"""')[2].strip().split("\n\n")[0]
    fields = dict(found.groups() for line in head.splitlines() if (found := _FIELD.match(line)))
    unknown = set(fields) - FIELDS
    assert not unknown, f"{path.name}: no such field {unknown}"
    return Program(path, text, fields)


def everything() -> list[Program]:
    return [load(path) for path in sorted(PROGRAMS.glob("*.py"))]


def environment(folder: Path, token: str) -> dict[str, str]:
    """What a program sees: this Python first on PATH, one thread, no hub, no way out of the machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TORCH", "HF_"))}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(HERE / "offline"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
        "TMPDIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "REMAT_OUTBOUND": str(folder / "outbound.txt"),
        "REMAT_RUN": token,
    }


def run(command: str, folder: Path, seconds: float = 120) -> tuple[int, str]:
    """The exit status and what was printed, both streams as a terminal shows them. Nothing is left running."""
    token = uuid.uuid4().hex
    output = folder / f"{token}.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=environment(folder, token),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        finally:
            _end_all(token)
            process.wait()
    return status, output.read_text(errors="replace")


def _end_all(token: str) -> None:
    """End what carries this run's token: launchers put their workers into sessions of their own."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"REMAT_RUN={token}".encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue  # another user's, or gone
