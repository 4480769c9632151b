"""What is kept from one version of a text to the next equals a fresh look, and what is dropped needs no collector."""

from __future__ import annotations

import gc

from hypothesis import given, settings
from hypothesis import strategies as st

from remat.lint.check import analyse
from remat.lint.code.split import common
from remat.lint.code.words import Words

WORDS = ("ab", "aba", "b", "c", "abc")
texts = st.text("abc", max_size=12)


@given(st.lists(texts, min_size=2, max_size=5))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_words_are_known_after_edits_as_they_are_afresh(versions: list[str]) -> None:
    words, before = Words(versions[0]), versions[0]
    for text in versions:
        words, before = Words(text, words, common(before, text)), text
        assert [word in words for word in WORDS] == [word in text for word in WORDS]


def test_what_an_edit_drops_holds_no_cycles() -> None:
    text = "from torch.utils.checkpoint import checkpoint\n" + "".join(
        f"class Block{n}:\n    def forward(self, x):\n        for layer in self.layers:\n"
        f"            x = checkpoint(lambda h: layer(h), x)\n        return x\n"
        for n in range(40)
    )
    analysis = analyse(text)
    gc.collect()
    gc.disable()
    try:
        for n in range(20):
            analysis = analyse(text.replace("x)\n", f"x, {n})\n", 1), before=analysis)
        assert gc.collect() == 0
    finally:
        gc.enable()
