"""The delay of Ctrl-C: from the signal until Python raises `KeyboardInterrupt`.

    python -m bench.interrupts [ROWS] [TIMES]

Each task repeats in a process of its own, which gets the signal at a random time.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kubist
import numpy as np

TASKS = {
    "estimate of medians by 50 groups": "t.estimate('median(v)', group_by='g', max_rows=10**9)",
    "estimate, two aggregates": "t.estimate(['median(v)', 'mean(x)'], group_by='g', error=1e-4)",
    "sorted query": "t.query(order_by='v', limit=10**7).to_arrow()",
    "exact quantiles": "t.estimate('p95(v)', max_rows=10**9)",
    "plot": "t.plot('x', 'y', 'v')",
    "SQL of Polars": "t.sql('SELECT g, median(v) FROM self GROUP BY g')",
    "SQL of DuckDB": "t.sql('SELECT g, median(v) FROM self GROUP BY g', engine='duckdb')",
}
PROGRAM = """
import sys, time
import kubist
t = kubist.open(sys.argv[1])
{task}
print("ready", flush=True)
try:
    while True:
        {task}
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


def delay(table: Path, task: str) -> float:
    """Seconds from the signal to the exception."""
    program = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        PROGRAM.format(task=task),
        str(table),
    ]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0.05, 0.8))
        sent = time.time()
        running.send_signal(signal.SIGINT)
        return float(running.stdout.readline()) - sent


def main() -> None:
    given = [int(each) for each in sys.argv[1:]]
    rows, times = [*given, *[4_000_000, 12][len(given) :]]
    values = np.random.default_rng(1)
    columns = {name: values.random(rows) for name in "xyz"}
    columns |= {"v": values.normal(size=rows), "g": values.integers(0, 50, rows)}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "t.kubist"
        kubist.create(table, columns, ["x", "y", "z"]).close()
        cores, load = os.cpu_count(), os.getloadavg()[0]
        print(
            f"{rows:,} rows, {times} interrupts each, {cores} cores, load {load:.1f}\n"
        )
        print("| task | median | worst |\n|---|---:|---:|")
        for name, task in TASKS.items():
            delays = sorted(delay(table, task) for _ in range(times))
            print(
                f"| {name} | {1e3 * delays[times // 2]:.0f} ms | {1e3 * delays[-1]:.0f} ms |",
                flush=True,
            )


if __name__ == "__main__":
    main()
