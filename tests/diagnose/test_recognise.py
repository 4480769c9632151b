"""Which exception of a traceback is told, and where it stands."""

from __future__ import annotations

from remat.diagnose.diagnose import diagnose
from remat.diagnose.report import Place
from remat.diagnose.signatures import KINDS

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


def test_a_worker_that_is_gone_is_named_though_its_end_is_told_only_while_python_ends() -> None:
    at_exit = (
        "Exception ignored in atexit callback: <function dump at 0x7f2f971d8720>\nTraceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler\n'
        "    _error_if_any_worker_fails()\nRuntimeError: DataLoader worker (pid 10432) is killed by signal: Killed. \n"
    )
    lost = next(example for example in KINDS["data.worker_killed"].examples if "ConnectionReset" in example)
    cause = diagnose(lost + at_exit).cause
    assert cause is not None
    assert cause.id == "data.worker_killed"
    assert "10432" in cause.summary
    assert "Killed" in cause.summary


def test_a_text_that_ends_inside_a_traceback_failed_and_what_was_raised_is_missing() -> None:
    report = diagnose(
        'step 1\nTraceback (most recent call last):\n  File "/home/dev/fit.py", line 3, in <module>\n    x()'
    )
    assert report.failed
    assert report.cause is not None
    assert report.cause.id == "ambiguous.no_traceback"
    assert ["exception and its message" in one.fact for one in report.missing] == [True]


def test_a_stack_that_somebody_printed_at_the_end_is_no_failure() -> None:
    assert not diagnose('step 1 loss 2.0\n  File "/home/dev/fit.py", line 3, in <module>\n    x()').failed
