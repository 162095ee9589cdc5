"""Many runs as one table:

the time to open them, and queries compared with pandas over Parquet files.

    python -m bench.runs [RUNS] [ROWS]

pandas reads the columns of the query from each file; for many runs, the time is extrapolated from a
part of the files, as the table notes.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import kubist
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FILES_OF_PANDAS = 20
REPEATS = 3
QUESTION = "share(deposited)"


def make(folder: Path, run: int, rows: int) -> None:
    """Writes a run as a table, and as a Parquet file for the first runs."""
    random = np.random.default_rng(1)  # The same particles in every run.
    speed = 1.0 + run % 4
    x, y, v = random.random(rows), random.random(rows), random.normal(speed, 0.3, rows)
    reach = 0.1 * speed + 0.2 * np.random.default_rng(run).random(rows)
    columns = {"pid": np.arange(rows), "x": x, "y": y, "v": v, "deposited": x < reach}
    table = kubist.create(
        folder / f"run-{run:04}.kubist",
        columns,
        ["x", "y"],
        identity=["pid"],
        metadata={"speed": speed},
    )
    table.close()
    if run < FILES_OF_PANDAS:
        pq.write_table(pa.table(columns), folder / f"run-{run:04}.parquet")


def timed(work: Callable[[], object]) -> float:
    """Seconds, after one uncounted call."""
    work()
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    given = [int(each) for each in sys.argv[1:]]
    runs, rows = [*given, *[100, 1_000_000][len(given) :]]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in range(runs):
            make(folder, run, rows)
        load = os.getloadavg()[0]
        print(
            f"{runs} runs of {rows:,} rows, {os.cpu_count()} cores, load {load:.1f}, warm\n"
        )
        print("| | seconds |\n|---|---:|")
        print(f"| open | {timed(lambda: kubist.open_many(folder / '*.kubist')):.2f} |")
        many = kubist.open_many(folder / "*.kubist")
        where = "x > 0.1"
        questions = {
            "by run, to 1 %": {"group_by": "run", "error": 0.01},
            "by run, sample 0.005": {"group_by": "run", "sample": 0.005},
            "by metadata.speed, sample 0.002": {
                "group_by": "metadata.speed",
                "sample": 0.002,
            },
            "differences of runs, sample 0.002": {
                "group_by": "run",
                "contrast": "run",
                "sample": 0.002,
            },
        }
        for title, asked in questions.items():
            seconds = timed(
                lambda asked=asked: many.estimate(QUESTION, where=where, **asked)
            )
            print(f"| {title} | {seconds:.2f} |", flush=True)
        files = sorted(folder.glob("*.parquet"))

        def by_pandas() -> None:
            for file in files:
                frame = pd.read_parquet(file, columns=["x", "deposited"])
                frame[frame["x"] > 0.1]["deposited"].mean()

        seconds = timed(by_pandas) * runs / len(files)
        note = "" if len(files) == runs else f", extrapolated from {len(files)} files"
        print(f"| pandas over Parquet, all rows{note} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
