"""Predicted and measured times of 200 mixed queries of a table.

    python -m bench.predicting FILE.parquet [QUERIES]

The file has the columns of the droplets: x, y, z, time, pid, diameter. A query runs once, so that
its pages are in memory, and is then explained with ``predict=True``; `explain` calibrates the
constants with other queries. The table has the error of a single run, and of the fastest of five
runs, which other processes disturb less.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib

import kubist
import numpy as np
from kubist.workloads import Draws, parse

QUERIES = 200
RUNS = 5
MIXED = """
[queries."region of 2 % in x, y, z"]
box = { x = "2 %", y = "2 %", z = "2 %" }
[queries."region of 15 % in x, y, z"]
box = { x = "15 %", y = "15 %", z = "15 %" }
[queries."5 % of x and 10 % of time, 3 columns"]
box = { x = "5 %", time = "10 %" }
columns = ["x", "pid", "diameter"]
[queries."1 % of time"]
box = { time = "1 %" }
[queries."sample of 1 %"]
sample = 0.01
[queries."5 % in x, y, z with a condition"]
box = { x = "5 %", y = "5 %", z = "5 %" }
where = "diameter > {diameter}"
values = { diameter = "uniform" }
[queries."one droplet"]
where = "pid = {pid}"
values = { pid = "rows" }
[queries."10 % of x, y, first 500 rows"]
box = { x = "10 %", y = "10 %" }
limit = 500
"""


def main(file: str, queries: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kubist.ingest(
            f"{folder}/t",
            file,
            dimensions=["x", "y", "z", "time"],
            create={"lookup": ["pid"]},
            progress=lambda _: None,
        )
        with kubist.open(f"{folder}/t") as table:
            measure(table, queries)


def measure(table: kubist.Table, queries: int) -> None:
    workload = parse(tomllib.loads(MIXED), "mixed")
    draws = Draws(workload, table.query(limit=20_000).to_arrow(), seed=11)
    found: dict[str, list[tuple[float, float, float]]] = {}
    inside = 0
    before = os.getloadavg()[0]
    for number in range(queries):
        question = draws.of(workload.queries[number % len(workload.queries)])
        table.query(**question.asked).to_arrow()
        explained = table.explain(**question.asked, predict=True)
        expected, took = explained.expected, explained.stats.seconds
        assert expected is not None
        inside += expected.low <= took <= expected.high
        again = [table.explain(**question.asked).stats.seconds for _ in range(RUNS - 1)]
        found.setdefault(question.name, []).append(
            (expected.seconds, took, min(took, *again))
        )
    print(
        f"{len(table):,} rows, {os.cpu_count()} cores, load {before:.0f} to {os.getloadavg()[0]:.0f}\n"
    )
    print(
        "| query | queries | predicted | one run | fastest | error of one run | of the fastest |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    found["all"] = [pair for pairs in found.values() for pair in pairs]
    for name, pairs in found.items():
        times = np.array(pairs).T
        errors = np.exp(np.median(np.abs(np.log(times[1:] / times[0])), axis=1)) - 1
        cells = [f"{1e3 * time:.2f} ms" for time in np.median(times, axis=1)]
        cells += [f"{100 * error:.0f} %" for error in errors]
        print(f"| {name} | {len(pairs)} | {' | '.join(cells)} |")
    print(f"\n{100 * inside / queries:.0f} % of the times are in the interval of 95 %")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else QUERIES)
