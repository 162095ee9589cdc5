"""Keeps the files of a snapshot while a loader reads it, and for a day afterwards."""

from __future__ import annotations

import os
import time
import warnings

from .. import _kubist
from .._errors import StorageError

SECONDS = 86_400.0
_RENEWED = SECONDS / 4


class Hold:
    """A hold of the snapshots since a time, in milliseconds since 1970.

    If this process cannot write to the table, there is no hold, and `Table.clean` deletes files
    after its retention time.
    """

    def __init__(self, pinned: _kubist.Snapshot, since: int) -> None:
        self.since, self._pinned = since, pinned
        self._name: str | None = None
        self._process = os.getpid()
        self.renew()

    def renew(self) -> None:
        """Replaces the hold by one with a later end."""
        self._renewed = time.monotonic()
        before = self._name
        try:
            self._name = self._pinned.hold(self.since, SECONDS)
            if before is not None:
                self._pinned.release(before)
        except StorageError as error:
            warnings.warn(
                f"the snapshot is not held, so `clean` may delete its files after the retention "
                f"time: {error}",
                stacklevel=2,
            )

    def renew_in_time(self) -> None:
        if time.monotonic() - self._renewed > _RENEWED:
            self.renew()

    def release(self) -> None:
        name, self._name = self._name, None
        if name is not None and os.getpid() == self._process:
            self._pinned.release(name)


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
