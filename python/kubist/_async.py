"""Queries for programs with an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import Result


async def materialized(ask: Callable[[], Result]) -> Result:
    """Awaits a result, which a thread reads into memory; cancelling the task stops it."""
    # Imported here to spare programs without an event loop.
    import asyncio

    reading = _Reading(ask)
    try:
        return await asyncio.to_thread(reading.run)
    except asyncio.CancelledError:
        # Closing waits for the reading thread, so do it outside the event loop.
        threading.Thread(target=reading.stop, daemon=True).start()
        raise


class _Reading:
    """A result that one thread reads and another may stop."""

    def __init__(self, ask: Callable[[], Result]) -> None:
        self._ask = ask
        self._result: Result | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self) -> Result:
        result = self._ask()
        with self._lock:
            self._result = result
            if self._is_stopped:
                result.close()
                return result
        return result.materialize()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._result is not None:
                self._result.close()
