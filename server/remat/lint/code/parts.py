"""The pieces of one version of a text with their parses, taken over from the version before where an edit left them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from remat.lint.code.parsed import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.lint.code.parsed import Interest, Key, Parsed
    from remat.lint.code.split import Piece


_START, _END = attrgetter("start"), attrgetter("end")


class SupersededError(Exception):
    """A newer version of the text has come; nobody wants this one's findings."""


class Part(NamedTuple):
    """A piece and its parse: none when skipped or broken, more than one when stale.

    A tuple, as `Piece` is: an edit makes as many of both as there are pieces behind it.
    """

    piece: Piece
    parsed: tuple[Parsed, ...]
    stale: bool = False
    skipped: bool = False


class Parts:
    """`edit`: how much the version before has in common with this one, at the start and at the end."""

    def __init__(
        self,
        text: str,
        pieces: list[Piece],
        interest: Interest | None,
        before: Parts | None,
        edit: tuple[int, int],
        is_current: Callable[[], bool],
    ) -> None:
        self.text, self.pieces = text, pieces
        self.all: list[Part] = []
        self.keys: list[Key] = []
        self.cache: dict[Key, Parsed | None] = {}
        self.skipped: set[Key] = set()
        self._interest, self._is_current = interest, is_current
        first, last = _left_alone(before, self, edit) if before else (0, 0)
        if before:
            self._take_over(pieces[:first], before.all[:first], before.keys[:first], before)
        for piece in pieces[first : len(pieces) - last]:
            self._read(piece, before)
        if before and last:
            self._take_over(pieces[-last:], before.all[-last:], before.keys[-last:], before)
        if before:
            self._keep_what_last_parsed(before)

    def key(self, piece: Piece) -> Key:
        return self.text[piece.start : piece.end], piece.role

    def parse(self, key: Key, before: Parts | None) -> Parsed | None:
        """The parse of a piece that was skipped before."""
        if key not in self.cache:
            self.cache[key] = before.cache[key] if before and key in before.cache else parse(key)
        self.skipped.discard(key)
        return self.cache[key]

    def _take_over(self, pieces: list[Piece], parts: list[Part], keys: list[Key], before: Parts) -> None:
        """Keep the parses of pieces that an edit left alone. In bulk: an edit leaves thousands alone."""
        if any(part.stale for part in parts):
            for piece, part, key in zip(pieces, parts, keys, strict=True):
                if part.stale:
                    self._read(piece, before)
                else:
                    self._take_over([piece], [part], [key], before)
            return
        moved = pieces[-1:] != [part.piece for part in parts[-1:]]
        self.all += (
            [Part(piece, p.parsed, skipped=p.skipped) for piece, p in zip(pieces, parts, strict=True)]
            if moved
            else parts
        )
        self.keys += keys
        self.skipped.update([key for key, part in zip(keys, parts, strict=True) if part.skipped])
        both = zip(keys, parts, strict=True)
        self.cache.update({k: p.parsed[0] if p.parsed else None for k, p in both if not p.skipped})

    def _read(self, piece: Piece, before: Parts | None) -> None:
        key = self.key(piece)
        self.keys.append(key)
        if key not in self.cache and key not in self.skipped:
            if not self._is_current():
                raise SupersededError
            if before and key in before.cache:
                self.cache[key] = before.cache[key]
            elif (before and key in before.skipped) or (self._interest and not self._interest.words.search(key[0])):
                self.skipped.add(key)
            else:
                self.cache[key] = parse(key)
        parsed = self.cache.get(key)
        self.all.append(Part(piece, (parsed,) if parsed else (), skipped=key in self.skipped))

    def _keep_what_last_parsed(self, before: Parts) -> None:
        broken = [i for i, part in enumerate(self.all) if not part.parsed and not part.skipped]
        if not broken:
            return
        gone = tuple(
            parsed
            for part, key in zip(before.all, before.keys, strict=True)
            if part.stale or key not in self.cache
            for parsed in part.parsed
        )
        for i in broken:
            self.all[i] = Part(self.all[i].piece, gone, stale=True)
            gone = ()


def _left_alone(before: Parts, after: Parts, edit: tuple[int, int]) -> tuple[int, int]:
    """How many pieces at the start and at the end of `before` stand in `after` as they were."""
    head, tail = edit
    shift = len(after.text) - len(before.text)
    old, new = before.pieces, after.pieces
    first = bisect_right(old, head, key=_END)
    if old[:first] != new[:first]:  # the cut moved a boundary before the edit
        first = next(i for i, (was, now) in enumerate(zip_longest(old, new)) if was != now)
    last = min(len(old) - bisect_left(old, len(before.text) - tail, key=_START), min(len(old), len(new)) - first)
    moved = [(p.start + shift, p.end + shift, p.role) for p in old[len(old) - last :]]
    if moved != new[len(new) - last :]:
        pairs = zip(reversed(moved), reversed(new), strict=False)
        last = next(i for i, (was, now) in enumerate(pairs) if was != now)
    return first, last
