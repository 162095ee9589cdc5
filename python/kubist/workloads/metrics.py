"""Metrics of this process during a run: CPU time, memory, bytes read and written."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

EVERY = 0.25
"""Seconds between two samples."""
NAMES = ("at", "cores", "memory", "read_bytes", "written_bytes")
"""Seconds from the start; CPU time as cores since the last sample; resident bytes; bytes read from
and written to storage since the start."""


class Sampler:
    """Samples in a thread, from `start` to `stop`."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, int, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._begin = time.perf_counter()
        self._first = _storage()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last, used = self._begin, time.process_time()
        while not self._stop.wait(EVERY):
            now, spent = time.perf_counter(), time.process_time()
            read, written = (new - old for new, old in zip(_storage(), self._first, strict=True))
            cores = (spent - used) / (now - last)
            self.samples.append((now - self._begin, cores, resident(), read, written))
            last, used = now, spent


def resident() -> int:
    """Resident bytes of this process; 0 on systems without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _storage() -> tuple[int, int]:
    """Bytes that this process read from and wrote to storage; 0 without /proc."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    known = dict(line.split(": ") for line in lines)
    return int(known.get("read_bytes", 0)), int(known.get("write_bytes", 0))
