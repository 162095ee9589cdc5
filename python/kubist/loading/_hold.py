"""Keeps the files of a snapshot while a loader reads it, and a day longer."""

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

    A table that this process can only read is not held; `Table.clean` deletes files after its
    retention time then.
    """

    def __init__(self, pinned: _kubist.Snapshot, since: int) -> None:
        self.since, self._pinned = since, pinned
        self._name: str | None = None
        self._process = os.getpid()
        self.renew()

    def renew(self) -> None:
        """Puts the hold again, with a later end."""
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
        """Renews it after a quarter of its time."""
        if time.monotonic() - self._renewed > _RENEWED:
            self.renew()

    def release(self) -> None:
        """Ends it."""
        name, self._name = self._name, None
        if name is not None and os.getpid() == self._process:
            self._pinned.release(name)


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
