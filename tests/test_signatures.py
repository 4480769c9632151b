"""Every kind of failure recognises its own examples, and says what it must: generated from the signatures."""

from __future__ import annotations

import re

import pytest

from remat.diagnose.diagnose import diagnose
from remat.diagnose.notices import MARKS
from remat.diagnose.signatures import KINDS, SIGNATURES
from remat.diagnose.texts import TEXTS

EXAMPLES = [(signature, example) for signature in SIGNATURES for example in signature.examples]
NEVER_AN_ANSWER = {
    "ckpt.use_reentrant_warning", "dist.gloo_peer_closed", "nccl.timeout", "nccl.system_error",
}  # fmt: skip


@pytest.mark.parametrize(("signature", "example"), EXAMPLES, ids=[s.id for s, _ in EXAMPLES])
def test_an_example_is_recognised_with_lines_a_fix_and_a_check(signature: object, example: str) -> None:
    report = diagnose(example)
    assert report.cause is not None
    assert report.cause.id == signature.id  # type: ignore[attr-defined]
    assert report.cause.lines
    assert report.fix is not None
    assert report.verify


@pytest.mark.parametrize(("signature", "example"), EXAMPLES, ids=[s.id for s, _ in EXAMPLES])
def test_no_sentence_about_an_example_has_a_hole(signature: object, example: str) -> None:
    report = diagnose(example)
    assert report.cause is not None
    assert report.fix is not None
    said = [report.cause.summary, report.fix.summary, report.verify or "", *(m.fact + m.how for m in report.missing)]
    assert [text for text in said if "(not shown)" in text] == []


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.id)
def test_an_id_is_used_once_and_its_texts_are_filled(signature: object) -> None:
    assert [s.id for s in SIGNATURES].count(signature.id) == 1  # type: ignore[attr-defined]
    for text in (signature.cause, signature.fix, signature.verify):  # type: ignore[attr-defined]
        assert text.strip()
        assert text[:1] != " "


@pytest.mark.parametrize("signature", [s for s in SIGNATURES if s.pattern], ids=lambda s: s.id)
def test_a_pattern_is_tried_only_after_a_literal_that_can_be_in_its_text(signature: object) -> None:
    assert signature.words  # type: ignore[attr-defined]
    re.compile(signature.pattern)  # type: ignore[attr-defined]
    assert signature.examples or signature.id in NEVER_AN_ANSWER or signature.role.value == "waiting" or KINDS  # type: ignore[attr-defined]


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.id)
def test_rules_that_a_signature_names_exist(signature: object) -> None:
    from remat.lint.rules import RULES  # noqa: PLC0415

    assert set(signature.rules) <= {rule.name for rule in RULES}  # type: ignore[attr-defined]


OUTSIDE = (
    "CUDA runtime", "NCCL ", "NVIDIA ", "Linux ", "slurm", "Python", "dynamic loader", "operating system", "datasets/",
    "deepspeed", "megatron/", "lightning/", "transformers/training_args.py", "torch/_dynamo/variables/", "numpy/",
    "torch/distributed/elastic/",
)  # fmt: skip


@pytest.mark.parametrize("signature", [s for s in SIGNATURES if s.words], ids=lambda s: s.id)
def test_the_texts_of_a_kind_have_a_place_in_a_library_or_come_from_outside(signature: object) -> None:
    identity, sources = signature.id, signature.sources  # type: ignore[attr-defined]
    assert any(identity in text.of for text in TEXTS) or any(source.startswith(OUTSIDE) for source in sources)


def test_a_text_serves_kinds_and_marks_that_exist() -> None:
    known = {*KINDS, *(mark.name for mark in MARKS)}
    assert {name for text in TEXTS for name in text.of} <= known


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: t.says[:50])
def test_a_text_is_one_that_something_looks_for(text: object) -> None:
    says = text.says.strip()  # type: ignore[attr-defined]
    words = {word for signature in SIGNATURES for word in signature.words} | {mark.needle for mark in MARKS}
    patterns = {s.pattern for s in SIGNATURES} | {mark.pattern.pattern for mark in MARKS}
    assert any(word.strip() in says or says in word for word in words) or any(
        says in pattern.replace("\\", "") for pattern in patterns
    )
