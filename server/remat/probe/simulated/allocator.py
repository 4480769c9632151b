"""A model of torch's caching allocator for CUDA: what it hands out and what it takes from the driver.

Source: c10/cuda/CUDACachingAllocator.cpp (the constants and `get_free_block`, `should_split`, `try_merge_blocks`);
the same from torch 1.x to 2.13 with the default settings. Nothing is given back to the driver unless asked.

Of free blocks of one size the one with the lowest address is taken (`BlockComparatorSize`), so it matters where the
driver puts segments. On Linux those of 2 and 20 MiB go up, each larger one below all before. Two published outputs of
`torch.cuda.memory_snapshot()` (CUDA 11.8, RTX 3090: two tensors of 5 MiB, then larger ones) show it: 1 GiB at
0x7fcf48000000, the 20 MiB taken before directly above at 0x7fcf88000000, 2 MiB at 0x7fcf89800000; in the other 20 at
0x7f8294000000, 512 MiB at 0x7f8274000000, 1 GiB at 0x7f8234000000. How larger ones below 32 MiB lie is not known.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

MIB, GIB = 2**20, 2**30
_ROUND = 512
_SMALL = MIB
"""larger requests come from the large pool"""
_SMALL_SEGMENT = 2 * MIB
_MIDDLE = 10 * MIB
_MIDDLE_SEGMENT = 20 * MIB
_LARGE_MULTIPLE = 2 * MIB
_LOWEST = -(2**62)
"""below every address"""


def rounded(size: int) -> int:
    """Bytes handed out for a request of `size` bytes."""
    return max(_ROUND, (size + _ROUND - 1) // _ROUND * _ROUND)


@dataclass(slots=True, eq=False)
class _Block:
    size: int
    address: int
    small: bool
    pool: list[tuple[int, int]]
    """(size, address) of the free blocks it may join, sorted: the best fit is the first that is large enough"""
    before: _Block | None = None
    after: _Block | None = None
    is_free: bool = True


@dataclass(slots=True)
class CachingAllocator:
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    segments: list[tuple[int, int]] = field(default_factory=list)
    """(address, size) of all that was ever taken from the driver, in order"""
    _end: int = 0
    """of the segments that go up"""
    _start: int = 0
    """of those that go down"""
    _taken: dict[int, _Block] = field(default_factory=dict)
    _pools: dict[tuple[int, bool], list[tuple[int, int]]] = field(default_factory=dict)
    """of each stream one for small blocks and one for large ones"""
    _at: dict[int, _Block] = field(default_factory=dict)

    def allocate(self, name: int, size: int, stream: int = 0) -> None:
        """Takes a block for the request called `name`; empty requests take none. A block stays its stream's."""
        if size == 0:
            return
        size = rounded(size)
        pool = self._pools.setdefault((stream, size <= _SMALL), [])
        block = self._best_fit(pool, size) or self._segment(pool, size)
        self._split(block, size)
        block.is_free = False
        self._taken[name] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, name: int) -> None:
        block = self._taken.pop(name, None)
        if block is None:
            return
        self.allocated -= block.size
        block.is_free = True
        self._insert(self._merge_neighbours(block))

    def address(self, name: int) -> int | None:
        """Where the block of a request stands; None where there is none."""
        block = self._taken.get(name)
        return None if block is None else block.address

    def layout(self) -> list[tuple[int, int, int | None]]:
        """(address, size, name or None where it is free) of each block, in the order of addresses."""
        taken = ((block.address, block.size, name) for name, block in self._taken.items())
        free = ((block.address, block.size, None) for block in self._at.values())
        return sorted([*taken, *free], key=lambda block: block[0])

    def empty_cache(self) -> None:
        """Gives segments without a taken block back to the driver, as `torch.cuda.empty_cache` does."""
        whole = [b for b in self._at.values() if b.is_free and b.before is None and b.after is None]
        for block in whole:
            self._remove(block)
            self.reserved -= block.size

    def reset_peaks(self) -> None:
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def _best_fit(self, pool: list[tuple[int, int]], size: int) -> _Block | None:
        index = bisect_left(pool, (size, _LOWEST))
        if index == len(pool):
            return None
        _, address = pool.pop(index)
        return self._at.pop(address)

    def _segment(self, pool: list[tuple[int, int]], size: int) -> _Block:
        if size <= _SMALL:
            total = _SMALL_SEGMENT
        elif size < _MIDDLE:
            total = _MIDDLE_SEGMENT
        else:
            total = (size + _LARGE_MULTIPLE - 1) // _LARGE_MULTIPLE * _LARGE_MULTIPLE
        block = _Block(total, self._place(total), size <= _SMALL, pool)
        self.segments.append((block.address, total))
        self.reserved += total
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _place(self, total: int) -> int:
        """Where the driver puts a segment, with a gap, so that blocks of two segments never look adjacent."""
        if total > _MIDDLE_SEGMENT:
            self._start -= total + _LARGE_MULTIPLE
            return self._start
        self._end += total + _LARGE_MULTIPLE
        return self._end - total - _LARGE_MULTIPLE

    def _split(self, block: _Block, size: int) -> None:
        left = block.size - size
        if left < _ROUND if block.small else left <= _SMALL:
            return
        rest = _Block(left, block.address + size, block.small, block.pool, block, block.after)
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        block.size = size
        self._insert(rest)

    def _merge_neighbours(self, block: _Block) -> _Block:
        if block.after is not None and block.after.is_free:
            self._remove(block.after)
            self._join(block, block.after)
        if block.before is not None and block.before.is_free:
            self._remove(block.before)
            first = block.before
            self._join(first, block)
            return first
        return block

    @staticmethod
    def _join(block: _Block, after: _Block) -> None:
        block.size += after.size
        block.after = after.after
        if after.after is not None:
            after.after.before = block

    def _insert(self, block: _Block) -> None:
        insort(block.pool, (block.size, block.address))
        self._at[block.address] = block

    def _remove(self, block: _Block) -> None:
        block.pool.pop(bisect_left(block.pool, (block.size, block.address)))
        del self._at[block.address]
