"""Which exception of a traceback is told, and where it stands."""

from __future__ import annotations

from remat.diagnose.diagnose import diagnose
from remat.diagnose.report import Place

FULL = "OSError: [Errno 28] No space left on device"


def test_an_error_that_repeats_while_files_are_closed_stands_where_it_was_first() -> None:
    def raised(line: int) -> str:
        frame = f'  File "/home/dev/fit.py", line {line}, in <module>\n    x()'
        return f"Traceback (most recent call last):\n{frame}\n{FULL}\n"

    report = diagnose(
        raised(13) + "\nDuring handling of the above exception, another exception occurred:\n\n" + raised(11)
    )
    assert report.cause is not None
    assert report.cause.id == "io.disk_full"
    assert report.location == Place("/home/dev/fit.py", 13)


def refused(function: str) -> str:
    library = "/venv/lib/python3.11/site-packages/lib/part.py"
    frames = [("/home/dev/fit.py", "<module>"), (library, function), (library, "_check_state")]
    shown = "".join(f'  File "{path}", line 3, in {name}\n    call()\n' for path, name in frames)
    return f"Traceback (most recent call last):\n{shown}AssertionError: width is not a multiple of heads"


def test_a_check_that_a_constructor_calls_refuses_a_configuration() -> None:
    cause = diagnose(refused("__init__")).cause
    assert cause is not None
    assert cause.id == "config.value"


def test_a_check_that_a_step_calls_refuses_no_configuration() -> None:
    cause = diagnose(refused("step")).cause
    assert cause is not None
    assert cause.id == "code.user_exception"
