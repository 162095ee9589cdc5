"""Cost of a piece of work: time, processor, memory, bytes."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """The cost of a piece of work.

    System calls read ``rchar`` bytes, and the device ``read_bytes``.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rchar: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    peak_bytes: int = 0
    """Peak resident memory of the process during the work; mapped files count."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@contextmanager
def measured(server: int | None = None) -> Iterator[Cost]:
    """Measures the block in this process, its children, and a server that works for it."""
    cost = Cost()
    _forget_peak()
    io, cpu = _io(server), _cpu(server)
    began = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - began
        cost.cpu_seconds = _cpu(server) - cpu
        after = _io(server)
        cost.rchar, cost.read_bytes, cost.write_bytes = (
            after[name] - io[name] for name in ("rchar", "read_bytes", "write_bytes")
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        cost.peak_bytes = max(ended, *(_peak(pid) for pid in ["self", *_tree(server)]))


def drop_caches(path: Path) -> str:
    """Makes the next read of ``path`` cold; returns the method."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return drop_files(path)
    return "/proc/sys/vm/drop_caches"


def drop_files(path: Path) -> str:
    """Drops only the files at ``path`` from the page cache; returns the method."""
    os.sync()
    for file in path.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)
    return "posix_fadvise(DONTNEED) on its files"


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # then the peak is that of the process's lifetime, an upper bound


def _peak(pid: int | str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024


def _tree(root: int | None) -> list[int]:
    if root is None:
        return []
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except OSError:
        children = []
    return [root, *map(int, children)]


def _io(server: int | None) -> dict[str, int]:
    total = {"rchar": 0, "read_bytes": 0, "write_bytes": 0}
    for pid in ["self", *_tree(server)]:
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        values = dict(line.split(": ") for line in lines)
        for name in total:
            total[name] += int(values[name])
    return total


def _cpu(server: int | None) -> float:
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    for pid in _tree(server):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        # utime, stime, and those of finished children.
        seconds += sum(map(int, fields[11:15])) / _TICK
    return seconds
