"""Estimates beside exact aggregates: the same rows in a Kubist table and in Parquet.

    ROWS=100000000 PYTHONPATH=python bench/.venv/bin/python -m bench.estimates

DuckDB computes each aggregate exactly over Parquet files of the rows as they come (row groups
of 122,880 rows, its default, zstd); Kubist estimates it to 1 %, and as well as it can
in half a second. Everything is warm: medians of several runs, in turns. The exact answer says
whether the interval held.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb

import kubist

from .data import Dataset

T = TypeVar("T")

RUNS = 7
BOX = {"x": (0.2, 0.5), "y": (0.1, 0.6), "z": (0.0, 0.7)}
QUESTIONS: list[tuple[str, str, dict[str, tuple[float, float]]]] = [
    ("mean(x)", "avg(x)", {}),
    ("mean(sqrt(vx*vx + vy*vy + vz*vz))", "avg(sqrt(vx*vx + vy*vy + vz*vz))", {}),
    ("std(vx)", "stddev_samp(vx)", {}),
    ("p95(vx)", "quantile_cont(vx, 0.95)", {}),
    ("sum(vx*vx)", "sum(vx*vx)", {}),
    ("count()", "count(*)", BOX),
    ("mean(sqrt(vx*vx + vy*vy + vz*vz))", "avg(sqrt(vx*vx + vy*vy + vz*vz))", BOX),
]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    answer = work()
    return time.perf_counter() - begin, answer


def prepare(data: Dataset, home: Path) -> tuple[kubist.Table, duckdb.DuckDBPyConnection]:
    table = home / f"{data.name}.kubist"
    if not table.exists():
        made = kubist.create(table, data.schema, dimensions=data.domain, identity=data.identity)
        with made.writer() as writer:
            for batch in data.batches():
                writer.append(batch)
            writer.commit()
    parquet = home / f"{data.name}.parquet"
    db = duckdb.connect(config={"threads": os.cpu_count() or 1})
    if not parquet.exists():
        source = data.table()  # noqa: F841 - DuckDB finds it by its name
        db.execute(f"COPY source TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
    db.execute("SET parquet_metadata_cache = true")
    db.execute(f"CREATE VIEW t AS FROM read_parquet('{parquet}')")
    return kubist.open(table), db


def main() -> None:
    rows = int(os.environ.get("ROWS") or 20_000_000)
    cache = os.environ.get("DATA") or "bench/data"
    home = Path(os.environ.get("STORES") or "bench/data/estimates")
    home.mkdir(parents=True, exist_ok=True)
    data = Dataset("zeldovich", rows, cache)
    data.make()
    table, db = prepare(data, home)
    total = len(table)
    print(f"{total:,} rows; load {os.getloadavg()[0]:.1f}; medians of {RUNS} warm runs, in turns\n")
    print(
        "| what | DuckDB ms | Kubist ms, to 1 % | times | rows read | of all | holds | half a second: s | ± |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for aggregate, sql, box in QUESTIONS:
        ends = [
            f"{name} BETWEEN {low}::FLOAT AND {high}::FLOAT" for name, (low, high) in box.items()
        ]
        query = f"SELECT {sql} FROM t" + (f" WHERE {' AND '.join(ends)}" if ends else "")
        theirs, mine, half, truth = [], [], [], 0.0
        for _ in range(RUNS):
            seconds, (truth,) = timed(lambda query=query: db.execute(query).fetchone())
            theirs.append(seconds)
            seconds, estimate = timed(
                lambda a=aggregate, b=box: table.estimate(a, box=b, error=0.01)
            )
            mine.append(seconds)
            seconds, bounded = timed(
                lambda a=aggregate, b=box: table.estimate(a, box=b, within=0.5)
            )
            half.append(seconds)
        holds = "yes" if estimate.low <= truth <= estimate.high else "**no**"
        place = " in a box" if box else ""
        width = (bounded.high - bounded.low) / 2 / abs(bounded.value)
        read = estimate.stats.rows_read
        print(
            f"| {aggregate}{place} | {statistics.median(theirs) * 1e3:.1f} "
            f"| {statistics.median(mine) * 1e3:.2f} "
            f"| {statistics.median(theirs) / statistics.median(mine):.0f} | {read:,} "
            f"| {read / total:.3%} | {holds} | {max(half):.2f} at most | {width:.3%} |",
            flush=True,
        )
    table.close()
    db.close()
    if not os.environ.get("KEEP"):
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
