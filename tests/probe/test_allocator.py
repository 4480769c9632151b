"""The model of CUDA's caching allocator, each rule by itself."""

from __future__ import annotations

from remat.probe.simulated.allocator import GIB, MIB, CachingAllocator


def test_large_segments_lie_one_below_the_other_as_a_published_snapshot_has_them() -> None:
    """Two tensors of 5 MiB, then 512 MiB and 1 GiB: `torch.cuda.memory_snapshot()`, CUDA 11.8, RTX 3090."""
    allocator = CachingAllocator()
    for name, size in enumerate((5 * MIB, 5 * MIB, 512 * MIB, GIB)):
        allocator.allocate(name, size)
    first, second, half, whole = (allocator.address(name) or 0 for name in range(4))
    assert whole < half < first < second
    assert allocator.reserved == (20 + 512 + 1024) * MIB


def test_of_two_large_blocks_of_one_size_the_later_one_is_taken() -> None:
    allocator = CachingAllocator()
    for name in (1, 2):
        allocator.allocate(name, 288 * MIB)
    later = allocator.address(2)
    for name in (1, 2):
        allocator.free(name)
    allocator.allocate(3, 288 * MIB)
    assert allocator.address(3) == later


def test_of_two_blocks_in_shared_segments_the_earlier_one_is_taken() -> None:
    for size in (9 * MIB, MIB):
        allocator = CachingAllocator()
        for name in range(4):
            allocator.allocate(name, size)
        allocator.free(0)
        allocator.free(2)
        allocator.allocate(9, size)
        assert allocator.address(9) == 0


def test_what_is_emptied_is_given_back_wherever_it_lies() -> None:
    allocator = CachingAllocator()
    for name, size in enumerate((5 * MIB, 300 * MIB, 400 * MIB)):
        allocator.allocate(name, size)
    allocator.free(1)
    allocator.empty_cache()
    assert allocator.reserved == 420 * MIB
