"""Neighbours: nearest rows, pairs and friends of friends, compared with SciPy's k-d tree.

    python -m bench.neighbours [ROWS]

Half of the rows in a cube are in clusters. SciPy builds a tree of all rows in memory, which counts
as time, and searches it on all cores; Kubist reads a table. The numbers of results must agree. The
last columns are the examined rows per table row, and the growth of the peak resident memory.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubist
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

POINTS = 100_000
NEAREST = 16


def cube(rows: int) -> np.ndarray:
    """Half of the rows in 200 clusters, the others uniform."""
    rng = np.random.default_rng(7)
    centres = rng.random((200, 3))
    near = centres[rng.integers(0, 200, rows // 2)]
    clustered = (near + rng.normal(size=near.shape) * 0.01) % 1
    return np.concatenate([clustered, rng.random((rows - len(clustered), 3))])


def peak() -> float:
    """In MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def read(result: kubist.Result) -> tuple[int, kubist.Stats]:
    return sum(batch.num_rows for batch in result), result.stats


def report(
    name: str, rows: int, search: Callable[[], kubist.Result], peer: Callable[[], int]
) -> None:
    """Prints a line of the table; Kubist is measured before the peer, which takes memory."""
    before = peak()
    seconds, (found, stats) = timed(lambda: read(search()))
    memory, examined = peak() - before, stats.rows_read / rows
    theirs, expected = timed(peer)
    assert found == expected, (name, found, expected)
    print(
        f"| {name} | {found:,} | {seconds:.2f} | {theirs:.2f} | {examined:.2f} | {memory:.0f} |",
        flush=True,
    )


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        at = cube(rows)
        columns = {**dict(zip("xyz", at.T, strict=True)), "id": np.arange(rows)}
        table = kubist.create(
            Path(folder) / "cube", columns, dict.fromkeys("xyz", (0, 1))
        )
        points = np.random.default_rng(8).random((POINTS, 3))
        print(f"{rows:,} rows, {os.cpu_count()} cores")
        print(
            "| search | results | Kubist, s | SciPy, s | examined per row | memory, MB |"
        )
        print("|---|---|---|---|---|---|")
        report(
            f"nearest {NEAREST} of {POINTS:,} points",
            rows,
            lambda: table.nearest(points, NEAREST, columns=["id"]),
            lambda: cKDTree(at).query(points, NEAREST, workers=-1)[1].size,
        )
        report(
            f"within 0.01 of {POINTS:,} points",
            rows,
            lambda: table.within(points, 0.01, columns=["id"]),
            lambda: int(
                cKDTree(at)
                .query_ball_point(points, 0.01, workers=-1, return_length=True)
                .sum()
            ),
        )
        length = 0.1 / rows ** (1 / 3)
        report(
            "pairs within 0.1 mean separations",
            rows,
            lambda: table.pairs(length, columns=["id"]),
            lambda: len(cKDTree(at).query_pairs(length, output_type="ndarray")),
        )
        report(
            "friends of friends, b = 0.2",
            rows,
            lambda: table.friends(0.2, volume=1.0, columns=["id"]),
            lambda: components(at, 0.2 / rows ** (1 / 3)),
        )


def components(at: np.ndarray, length: float) -> int:
    """Number of rows in components of connected pairs."""
    pairs = cKDTree(at).query_pairs(length, output_type="ndarray")
    matrix = coo_array(
        (np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), (len(at), len(at))
    )
    return len(connected_components(matrix, directed=False)[1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000)
