"""Droplets in a dictionary: written by key, found by filters of Python, and shared by tasks.

    python examples/dictionaries/droplets.py [DROPLETS]

It prints the seconds of each step, and how much of a filter the index evaluates.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from random import random as chance

from kubist.hecuba import FilteredPart, StorageDict, config

config.write_buffer_size = 100_000


class Droplets(StorageDict):
    """
    @TypeSpec dict<<pid:int, time:double>, x:double, y:double, z:double>
    @Index_on x, y, z
    """


@contextmanager
def timed(step: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{step:<44}{time.perf_counter() - start:9.4f} s", flush=True)


def mean_height(part: FilteredPart) -> tuple[float, int]:
    """A task: it gets the identity of its part, and reads that part only."""
    heights = [item.value.z for item in part]
    return sum(heights), len(heights)


def main(droplets: int) -> None:
    rng = random.Random(1)
    d = Droplets("airway.droplets")
    with timed(f"write {droplets:,} items"):
        for pid in range(droplets):
            d[pid, 0.0] = [rng.random(), rng.random(), rng.random()]
        d.sync()
    with timed("write 1,000 of them again"):
        for pid in range(1_000):
            d[pid, 0.0] = [rng.random(), rng.random(), rng.random()]
        d.sync()
    with timed("count the keys"):
        assert len(d) == droplets
    with timed("read 100 keys, each"):
        for pid in range(0, droplets, droplets // 100):
            assert (pid, 0.0) in d

    def near(p):
        return 0.2 <= p.x < 0.25 and (p.y - 0.5) ** 2 + (p.z - 0.5) ** 2 < 0.01

    with timed("a filter that the index evaluates"):
        found = len(list(d.filter(near)))
    with timed("the same in plain Python, over all items"):
        scanned = [
            value
            for _, value in d.items()
            if 0.2 <= value.x < 0.25
            and (value.y - 0.5) ** 2 + (value.z - 0.5) ** 2 < 0.01
        ]
    assert found == len(scanned)
    with timed("a sample of 1 %"):
        few = len(list(d.filter(lambda p: p.x < 0.5 and chance() < 0.01)))
    print(f"{found:,} droplets are near, {few:,} in the sample; {d.explain(near)}")
    with timed("8 tasks in 2 processes"), ProcessPoolExecutor(2) as pool:
        parts = list(d.filter(lambda p: p.x < 0.1).split(8))
        sums = list(pool.map(mean_height, parts))
    print(f"mean height {sum(s for s, _ in sums) / sum(n for _, n in sums):.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        config.location = folder
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
