"""Memory limit of a measurement, by its own control group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .question import Unable

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


@contextmanager
def confined(memory_bytes: int | None) -> Iterator[None]:
    """Moves this process into a group with a memory limit that includes the page cache."""
    if memory_bytes is None:
        yield
        return
    root, limit = (
        (_V1, "memory.limit_in_bytes")
        if (_V1 / "memory.limit_in_bytes").exists()
        else (_V2, "memory.max")
    )
    group = root / f"kubist-bench-{os.getpid()}"
    home = _home(root)
    try:
        group.mkdir()
        (group / limit).write_text(str(memory_bytes))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise Unable(f"no permission to limit memory by a control group ({error})") from None
    try:
        yield
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _home(root: Path) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (root == _V1 and "memory" in controllers.split(",")) or (
            root == _V2 and not controllers
        ):
            return root / path.lstrip("/")
    return root
