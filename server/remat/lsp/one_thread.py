"""A thread beside the editor's messages, in which work is done one after the other."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class OneThread:
    """The thread is made when it is first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    async def do(self, work: Callable[[], T]) -> T:
        self._pool = self._pool or ThreadPoolExecutor(1, self._name)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def end(self) -> None:
        """What waits is never done; what is being done goes on until it sees that nobody wants it."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
