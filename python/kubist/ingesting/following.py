"""Follows a running simulation: examines its files repeatedly."""

from __future__ import annotations

import os
import time as clock

from .._errors import InvalidInput
from .driver import Ingestion

LOOK_SECONDS = 1.0
"""The time between two looks at the files."""
SETTLED_SECONDS = 30.0
"""A file that cannot be read and has not changed for this time is no longer being written."""


def follow(ingestion: Ingestion, patience: float | None) -> None:
    """Ingests until nothing was added for ``patience`` seconds.

    A file that cannot be read may still be growing. It is tried again until it has not changed for
    that time, or for half a minute.
    """
    last_news = clock.monotonic()
    # Size and time of each unreadable file, and since when they are the same.
    states: dict[str, tuple[tuple[int, int], float]] = {}
    while True:
        ingestion.report.failed.clear()
        going_on, ingestion.keep_going = ingestion.keep_going, True
        try:
            sources = ingestion.look()
            if ingestion.take(sources):
                last_news = clock.monotonic()
        except InvalidInput:
            if not ingestion.report.failed and states:
                raise
        finally:
            ingestion.keep_going = going_on
        now = clock.monotonic()
        for name, message in list(ingestion.report.failed.items()):
            stat = os.stat(name)
            state = (stat.st_size, stat.st_mtime_ns)
            before, since = states.get(name, (None, now))
            if state != before:
                since = last_news = now
            states[name] = (state, since)
            if now - since > SETTLED_SECONDS and not going_on:
                raise InvalidInput(message)
        if patience is not None and now - last_news > patience:
            for message in ingestion.report.failed.values():
                if not going_on:
                    raise InvalidInput(message)
            return
        clock.sleep(LOOK_SECONDS)
