"""One box on 1 to all cores: the engine, each result of Python, and other systems.

    python -m bench.cores [--rows 20000000] [--repeats 7]

The box has a twentieth of the rows. For each number of cores, a process is bound to these cores,
because the systems count them at the start. The engine's time is for all batches, in memory. DuckDB
and Polars have the same rows in memory, sorted by x. The kinds of result take turns, so that other
load affects all kinds; times are medians in milliseconds. The last column is the number of small
queries a second from one thread per core.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLUMNS = ["pid", "x", "y", "z", "ux"]
SIDE = 0.05 ** (1 / 3)
SMALL = 0.01
SECONDS = 1.0
"""How long the small queries of several threads are counted."""


def columns(rows: int) -> dict[str, Any]:
    """Uniform positions and a velocity."""
    import numpy as np

    random = np.random.default_rng(5)
    found: dict[str, Any] = {"pid": np.arange(rows)}
    found |= {axis: random.random(rows) for axis in "xyz"}
    found["ux"] = random.random(rows, dtype=np.float32)
    return found


def build(at: Path, rows: int) -> None:
    import numpy as np

    import kubist

    data = columns(rows)
    table = kubist.create(str(at / "table"), data, dimensions=["x", "y", "z"], identity=["pid"])
    table.optimize()
    order = np.argsort(data["x"])
    np.savez(at / "sorted.npz", **{name: values[order] for name, values in data.items()})


def kinds(at: Path, cores: int) -> dict[str, Callable[[], object]]:
    import duckdb
    import numpy as np
    import polars as pl
    import pyarrow as pa

    import kubist

    table = kubist.open(str(at / "table"))
    low, high = 0.5 - SIDE / 2, 0.5 + SIDE / 2
    box = {axis: (low, high) for axis in "xyz"}
    rows = {name: values for name, values in np.load(at / "sorted.npz").items()}
    frame = pl.DataFrame(rows)
    database = duckdb.connect(config={"threads": cores})
    database.execute("SET enable_progress_bar = false")
    database.register("given", pa.table(rows))
    database.execute("CREATE TABLE t AS SELECT * FROM given")
    inside = " AND ".join(f"{axis} BETWEEN {low!r} AND {high!r}" for axis in "xyz")
    chosen = pl.all_horizontal(pl.col(axis).is_between(low, high) for axis in "xyz")

    def query() -> Any:
        return table.query(box=box, columns=COLUMNS)

    return {
        "engine": lambda: list(query()._batches()),
        "numpy": lambda: query().to_numpy(),
        "arrow": lambda: query().to_arrow(),
        "polars": lambda: query().to_polars(),
        "pandas": lambda: query().to_pandas(),
        "aquery": lambda: asyncio.run(table.aquery(box=box, columns=COLUMNS)),
        "DuckDB numpy": lambda: database.execute(f"SELECT * FROM t WHERE {inside}").fetchnumpy(),
        "DuckDB arrow": lambda: database.sql(f"SELECT * FROM t WHERE {inside}").to_arrow_table(),
        "Polars": lambda: frame.lazy().filter(chosen).collect(),
    }


def small(at: Path, threads: int) -> float:
    """Queries of a small box a second, from this many threads."""
    import kubist

    table = kubist.open(str(at / "table"))
    box = {axis: (0.5, 0.5 + SMALL) for axis in "xyz"}
    table.query(box=box).to_numpy()
    end = time.perf_counter() + SECONDS

    def ask() -> int:
        count = 0
        while time.perf_counter() < end:
            table.query(box=box).to_numpy()
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        counts = [asked.result() for asked in [pool.submit(ask) for _ in range(threads)]]
    return sum(counts) / SECONDS


def measure(at: Path, cores: int, repeats: int) -> dict[str, float]:
    """Median milliseconds on this process's cores."""
    calls = kinds(at, cores)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 2):
        for name, call in calls.items():
            begin = time.perf_counter()
            result = call()
            spent = time.perf_counter() - begin
            del result
            if turn >= 2:
                taken[name].append(1e3 * spent)
    found = {name: statistics.median(times) for name, times in taken.items()}
    return found | {"small/s": small(at, cores)}


def numbers_of_cores() -> list[int]:
    most = len(os.sched_getaffinity(0))
    return sorted(
        {
            most,
            *(1 << power for power in range(most.bit_length()) if 1 << power <= most),
        }
    )


def child(at: Path, cores: int, repeats: int) -> dict[str, float]:
    """Measures in a process that is bound to the first cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    command = [
        sys.executable,
        "-m",
        "bench.cores",
        "--measure",
        str(at),
        "--repeats",
        str(repeats),
    ]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(cores)}
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        cores = len(os.sched_getaffinity(0))
        print(json.dumps(measure(asked.measure, cores, asked.repeats)))
        return
    most = len(os.sched_getaffinity(0))
    print(f"{asked.rows:,} rows, a box of a twentieth; {platform.machine()}, {most} cores; ms")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        build(at, asked.rows)
        heads: list[str] = []
        for cores in numbers_of_cores():
            found = child(at, cores, asked.repeats)
            if not heads:
                heads = list(found)
                print("| cores | " + " | ".join(heads) + " |")
                print("|---" * (len(heads) + 1) + "|")
            print(f"| {cores} | " + " | ".join(f"{found[name]:.1f}" for name in heads) + " |")


if __name__ == "__main__":
    main()
