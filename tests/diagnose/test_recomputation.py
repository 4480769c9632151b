"""Errors raised while a checkpointed block runs again are told from the same errors in forward and in backward."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

TORCH = "/venv/lib/python3.11/site-packages/torch"
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x16 and 12x4)"
AGAIN = (
    f"{TORCH}/autograd/__init__.py:backward",
    f"{TORCH}/utils/checkpoint.py:recompute_fn",
    "/home/dev/fit.py:block",
)
REENTRANT = (
    f"{TORCH}/autograd/__init__.py:backward",
    f"{TORCH}/utils/checkpoint.py:backward",
    "/home/dev/fit.py:block",
)


def raised(frames: tuple[str, ...], error: str) -> str:
    lines = ["Traceback (most recent call last):", '  File "/home/dev/fit.py", line 30, in <module>', "    step()"]
    for frame in frames:
        path, _, function = frame.rpartition(":")
        lines += [f'  File "{path}", line 9, in {function}', "    call()"]
    return "\n".join([*lines, error])


@pytest.mark.parametrize("frames", [AGAIN, REENTRANT])
def test_shapes_that_fitted_in_forward_and_not_when_recomputed_differ_between_the_passes(
    frames: tuple[str, ...],
) -> None:
    cause = diagnose(raised(frames, SHAPES)).cause
    assert cause is not None
    assert cause.id == "ckpt.metadata_mismatch"
    assert "2x16 and 12x4" in cause.summary


def test_the_same_error_in_a_checkpointed_forward_is_one_of_shapes() -> None:
    frames = (f"{TORCH}/utils/checkpoint.py:checkpoint", "/home/dev/fit.py:block")
    cause = diagnose(raised(frames, SHAPES)).cause
    assert cause is not None
    assert cause.id == "shape.matmul"


def test_an_error_in_the_backward_of_what_was_recomputed_is_no_difference_between_the_passes() -> None:
    frames = (*REENTRANT[:2], f"{TORCH}/autograd/__init__.py:backward", "/home/dev/fit.py:backward")
    cause = diagnose(raised(frames, SHAPES)).cause
    assert cause is not None
    assert cause.id == "shape.matmul"


def test_a_keyword_given_to_reentrant_checkpoint_names_the_rule_that_repairs_it() -> None:
    report = diagnose(
        raised((f"{TORCH}/utils/checkpoint.py:checkpoint",), "ValueError: Unexpected keyword arguments: mask")
    )
    assert report.cause is not None
    assert report.cause.id == "code.user_exception"
    assert report.fix is not None
    assert report.fix.rules == ("keyword-to-reentrant-checkpoint",)
    assert "use_reentrant=False" in report.fix.summary
