"""Which words a text holds anywhere: each is sought once, and after an edit only where the edit was."""

from __future__ import annotations


class Words:
    """`edit`: how much the version before has in common with this one, at the start and at the end."""

    def __init__(self, text: str, before: Words | None = None, edit: tuple[int, int] = (0, 0)) -> None:
        self.text = text
        self.found: dict[str, int] = {}  # word -> an offset where it stands; -1: nowhere
        if before is None:
            return
        head, end = edit[0], len(before.text) - edit[1]
        for word, at in before.found.items():
            if 0 <= at <= head - len(word):
                self.found[word] = at
            elif at >= end:
                self.found[word] = at + len(text) - len(before.text)
            elif at < 0:
                self.found[word] = text.find(word, max(head - len(word), 0), len(text) - edit[1] + len(word))

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str):
            return False
        if word not in self.found:
            self.found[word] = self.text.find(word)
        return self.found[word] >= 0
