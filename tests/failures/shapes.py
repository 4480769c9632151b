"""What happens to a program's output on its way to who reads it: labels, clocks, wraps, colours, and cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.diagnose.report import Report


def _each(before: str, after: str = "") -> Callable[[str], str]:
    return lambda text: "\n".join(f"{before}{line}{after}" for line in text.split("\n"))


# Nothing is lost in these: the answer must be the same.
WHOLE: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "kubectl logs --timestamps": _each("2026-11-30T08:22:11.123456789Z "),
    "kubectl logs --prefix": _each("[pod/train-0/main] "),
    "docker compose": _each("train-1  | "),
    "journald": _each("Nov 30 08:22:11 gpu01 train[412]: "),
    "pdsh": _each("node07: "),
    "srun --label": _each(" 0: "),
    "colours": _each("\x1b[31m", "\x1b[0m"),
    "a terminal": lambda text: f"(venv) dev@box:~/proj$ python run.py\n{text}(venv) dev@box:~/proj$ ",
}
# These lose lines: the answer may be weaker, and then it says what is missing; it must not be another.
LINES = (5, 10, 20, 40, 60)


def cuts(text: str) -> Iterator[tuple[str, str]]:
    lines = text.rstrip("\n").split("\n")
    for count in LINES:
        if count < len(lines):
            yield f"head -n {count}", "\n".join(lines[:count])
            yield f"tail -n {count}", "\n".join(lines[-count:])


def answer(report: Report) -> tuple[str | None, int | None, object]:
    return report.cause.id if report.cause else None, report.initiating_rank, report.location


def is_true_still(whole: Report, part: Report, cut: str) -> bool:
    """Whether what is said of a part is right (`cut`: a kind that is right of parts), or honest about what it lacks."""
    assert whole.cause is not None
    if part.cause is None or not part.failed:
        return not part.failed  # the failure is not in this part
    if part.initiating_rank not in {None, whole.initiating_rank}:
        return False
    return part.cause.id in {whole.cause.id, "code.user_exception", cut} or bool(part.missing)
