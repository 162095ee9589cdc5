"""Estimates of a Kubist table compared with exact aggregates of Parquet files with the same rows.

Prints the table, and writes it to `docs/estimates-speed.md`.

    ROWS=100000000 PYTHONPATH=python bench/.venv/bin/python -m bench.estimates

DuckDB computes each aggregate exactly over Parquet files in the given order (row groups of 122,880
rows, its default, zstd). Kubist estimates it to 1 %, and as well as possible in half a second.
Times are medians of several warm runs, in turns. The table shows whether the interval contains the
exact result.

A second table measures the value of the manifest's counts and bounds: it repeats the queries with a
window slightly smaller than [0, 1), which the manifest does not support.
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
import numpy as np

import kubist

from .data import Dataset
from .run import machine

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


# The aggregates in boxes: aggregate, condition, groups.
PARTS: list[tuple[str, str | None, str | None]] = [
    ("sum(vx*vx)", None, None),
    ("sum(sqrt(vx*vx + vy*vy + vz*vz))", None, None),
    ("count()", "vx > 0", None),
    ("count()", "sqrt(vx*vx + vy*vy + vz*vz) < 1.8", None),
    ("sum(sqrt(vx*vx + vy*vy + vz*vz))", "vx > 0", None),
    ("count()", None, "vx > 0"),
]
BOXES = 9
ALONE = (0.0, 0.99999)

HEAD = (
    "| what | DuckDB ms | Kubist ms, to 1 % | times | rows read | of all | holds "
    "| half a second: s | ± |"
)
PARTS_HEAD = (
    "| in a box | sampled | alone | ratio | examined | alone | ratio | ms | alone | holds |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
)
PAGE = Path("docs/estimates-speed.md")


def page(rows: int, load: float, lines: list[str], parts: list[str]) -> str:
    on = machine()
    table, known = "\n".join(lines), "\n".join(parts)
    return f"""# Estimates compared with exact aggregates

`make bench-estimates ROWS={rows}` wrote this page. The data is {rows:,} rows of particles in
random order. DuckDB {duckdb.__version__} computes each aggregate over the same rows in Parquet (zstd, row
groups of its default size, footers cached). Kubist {kubist.__version__} estimates it, once until half
of the 95 % interval is 1 % of the value, and once within half a second. Medians of
{RUNS} warm runs in turns, on {time.strftime("%Y-%m-%d")}: {on["cpu"]}, {on["cores"]} cores,
{on["memory_gib"]} GiB; load {load:.1f} before. "Times" is the ratio of the exact aggregate's time to
the estimate's. "Holds" is whether the interval of 1 % contains the exact value; one in twenty need not,
and all samples of a table are correlated. The last columns are the longest time of an estimate
within half a second, and half of its interval.

{table}

## The value of the manifest

Sums and counts in {BOXES} boxes of 15 to 50 % of all rows, to 1 %: rows sampled, rows examined (also to
count the rows of the box), and milliseconds. Each is compared with a sample alone, without the manifest.
Medians over the boxes; "holds" counts the intervals that contain the exact value.

{known}
"""


def timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    answer = work()
    return time.perf_counter() - begin, answer


def prepare(data: Dataset, home: Path) -> tuple[kubist.Table, duckdb.DuckDBPyConnection]:
    table = home / f"{data.name}.kubist"
    parquet = home / f"{data.name}.parquet"
    if not table.exists() or not parquet.exists():
        data.make()
    if not table.exists():
        made = kubist.create(table, data.schema, dimensions=data.domain, identity=data.identity)
        with made.writer() as writer:
            for batch in data.batches():
                writer.append(batch)
            writer.commit()
    db = duckdb.connect(config={"threads": os.cpu_count() or 1})
    if not parquet.exists():
        source = data.table()  # noqa: F841 - DuckDB finds it by its name
        db.execute(f"COPY source TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
    db.execute("SET parquet_metadata_cache = true")
    db.execute(f"CREATE VIEW t AS FROM read_parquet('{parquet}')")
    return kubist.open(table), db


def boxes() -> list[dict[str, tuple[float, float]]]:
    """Boxes at random positions, with sides of 0.55 to 0.8."""
    random = np.random.default_rng(7)
    found = []
    for _ in range(BOXES):
        sides = random.uniform(0.55, 0.8, 3)
        low = random.uniform(0.0, 1.0 - sides)
        # As float32, like the columns.
        ends = np.float32([low, low + sides]).T.tolist()
        found.append({name: (ends[d][0], ends[d][1]) for d, name in enumerate("xyz")})
    return found


def what_it_is_worth(table: kubist.Table, db: duckdb.DuckDBPyConnection) -> list[str]:
    """A line for each of `PARTS`: with the manifest, and from the sample alone."""
    lines = []
    for aggregate, where, group_by in PARTS:
        columns, held, figures = [], 0, 0
        for box in boxes():
            ends = [f"{d} BETWEEN {low!r}::FLOAT AND {high!r}::FLOAT" for d, (low, high) in box.items()]
            query = f"SELECT {group_by or 'true'}, {aggregate.replace('()', '(*)')} FROM t"
            query += f" WHERE {' AND '.join([*ends, *([where] if where else [])])} GROUP BY 1"
            truths = dict(db.execute(query).fetchall())
            row: list[float] = []
            for window in (None, ALONE):
                ask = lambda w=window, b=box: table.estimate(  # noqa: E731
                    aggregate, box=b, where=where, group_by=group_by, error=0.01, window=w
                )
                ask()
                seconds, found = timed(ask)
                row += [found.stats.rows_returned, found.stats.rows_read, seconds * 1e3]
                if window is None:
                    told = found.to_arrow().to_pylist()
                    figures += len(told)
                    for line in told:
                        truth = truths[line[group_by] if group_by else True]
                        held += line["low"] <= truth <= line["high"]
            columns.append(row)
        drawn, read, ms, drawn_alone, read_alone, ms_alone = np.median(columns, axis=0)
        asked = aggregate + (f" where {where}" if where else "") + (f" by {group_by}" if group_by else "")
        line = (
            f"| {asked} | {drawn:,.0f} | {drawn_alone:,.0f} | {drawn / drawn_alone:.2f} "
            f"| {read:,.0f} | {read_alone:,.0f} | {read / read_alone:.2f} "
            f"| {ms:.2f} | {ms_alone:.2f} | {held} of {figures} |"
        )
        print(line, flush=True)
        lines.append(line)
    return lines


def main() -> None:
    rows = int(os.environ.get("ROWS") or 20_000_000)
    cache = os.environ.get("DATA") or "bench/data"
    home = Path(os.environ.get("STORES") or "bench/data/estimates")
    home.mkdir(parents=True, exist_ok=True)
    data = Dataset("zeldovich", rows, cache)
    table, db = prepare(data, home)
    total = len(table)
    lines = [HEAD, "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]
    print("\n".join(lines), flush=True)
    load = os.getloadavg()[0]
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
        line = (
            f"| {aggregate}{place} | {statistics.median(theirs) * 1e3:.1f} "
            f"| {statistics.median(mine) * 1e3:.2f} "
            f"| {statistics.median(theirs) / statistics.median(mine):.0f} | {read:,} "
            f"| {read / total:.3%} | {holds} | {max(half):.2f} at most | {width:.3%} |"
        )
        print(line, flush=True)
        lines.append(line)
    print(PARTS_HEAD, flush=True)
    parts = [PARTS_HEAD, *what_it_is_worth(table, db)]
    PAGE.write_text(page(total, load, lines, parts))
    table.close()
    db.close()
    if not os.environ.get("KEEP"):
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
