"""Exact boxes compared with a DuckDB table, and a full scan compared with a numpy copy; all warm.

Prints the tables, and writes them to `docs/boxes.md`.

    PYTHONPATH=python bench/.venv/bin/python -m bench.boxes

DuckDB's table is sorted by Morton key, and DuckDB uses all cores. Each result is an Arrow table
with all columns. The systems take turns in one process, with one uncounted query per box before
`REPEATS` measured ones.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from .data import Dataset
from .question import Question
from .run import machine, said
from .suites import number
from .systems import load
from .systems.base import System
from .work import Boxes

SIZES = [1_000_000, 100_000, 10_000, 1_000]
AIRWAY_ROWS = 1_377_737
SYSTEMS = ["kubist", "duckdb_table", "arrow_scan"]
PAGE = Path("docs/boxes.md")
HEAD = "| warm, median ms | rows | Kubist | other system | times as fast |\n| --- | ---: | ---: | ---: | ---: |"

Work = Callable[[], pa.Table]
Times = tuple[float, float, int]
"""Seconds of Kubist and of the other system, and the rows of the result."""


def page(load_before: float, repeats: int, tables: list[str]) -> str:
    on, locations = machine(), number("PLACES", 20)
    kubist, duckdb = load("kubist"), load("duckdb_table")
    body = "\n\n".join(tables)
    return f"""# Exact boxes and full scans

`make bench-boxes` wrote this page. It compares Kubist {kubist.version()} with DuckDB {duckdb.version()}
({duckdb.settings}). All runs are warm, and each result is an Arrow table of all columns. Boxes are cubes
around {locations} locations. The systems take turns, {repeats} times per box. A time is the median of the
boxes' medians, "times as fast" the median of their ratios. A numpy copy writes each column to fresh
memory. {time.strftime("%Y-%m-%d")}: {on["cpu"]}, {on["cores"]} cores, {on["memory_gib"]} GiB;
load {load_before:.1f} before.

{body}
"""


def timed(work: Work) -> tuple[float, int]:
    begin = time.perf_counter()
    table = work()
    seconds = time.perf_counter() - begin
    return seconds, table.num_rows


def in_turns(mine: Work, peer: Work, repeats: int) -> Times:
    seconds: tuple[list[float], list[float]] = ([], [])
    rows = set()
    for turn in range(1 + repeats):
        for work, taken in zip((mine, peer), seconds, strict=True):
            one, found = timed(work)
            rows.add(found)
            if turn > 0:
                taken.append(one)
    if len(rows) != 1:
        raise SystemExit(f"results with {rows} rows: the times are invalid until they are equal")
    return statistics.median(seconds[0]), statistics.median(seconds[1]), rows.pop()


def line(label: str, found: list[Times]) -> str:
    mine, peer = (statistics.median(each[place] for each in found) * 1e3 for place in (0, 1))
    times = statistics.median(each[1] / each[0] for each in found)
    rows = statistics.median_low(each[2] for each in found)
    return f"| {label} | {rows:,} | {mine:.2f} | {peer:.2f} | {times:.2f} |"


def measure(data: Dataset, stores: Path, repeats: int) -> str:
    """Builds missing data first."""
    data.make()
    data.warm()
    systems: list[System] = []
    for key in SYSTEMS:
        system = load(key)(data, stores / f"{data.name}.{key}")
        if not system.path.exists():
            system.build(data.batches())
        system.open()
        systems.append(system)
    kubist, duckdb, copy = systems
    lines = [f"## {data.rows:,} rows of {data.row_bytes} bytes ({data.kind})\n\n{HEAD}"]
    said(f"\n{lines[0]}")

    def add(text: str) -> None:
        said(text)
        lines.append(text)

    def asks(system: System, question: Question) -> Work:
        return lambda: system.ask(question).table

    def beside(peer: System, questions: list[Question]) -> list[Times]:
        return [in_turns(asks(kubist, each), asks(peer, each), repeats) for each in questions]

    boxes = Boxes(data, number("PLACES", 20))
    boxes.find([size for size in SIZES if size < data.rows])
    for size, found in boxes.found.items():
        add(line(f"boxes of {size:,}, DuckDB", beside(duckdb, [Question(box=box) for box in found])))
    add(line("full scan, DuckDB", beside(duckdb, [Question()])))
    add(line("full scan, a numpy copy", beside(copy, [Question()])))
    for share in (0.01, 0.1):
        alone = [timed(asks(kubist, Question(share=share))) for _ in range(2 + repeats)][2:]
        seconds = statistics.median(seconds for seconds, _ in alone)
        add(f"| {share:.0%} of everything | {alone[0][1]:,} | {seconds * 1e3:.2f} | | |")
    for system in systems:
        system.close()
    return "\n".join(lines)


def main() -> None:
    cache = os.environ.get("DATA") or "bench/data"
    stores = Path(os.environ.get("STORES") or tempfile.mkdtemp(prefix="kubist-boxes-"))
    stores.mkdir(parents=True, exist_ok=True)
    load_before, repeats = os.getloadavg()[0], number("REPEATS", 5)
    sets = [
        Dataset("zeldovich", number("ROWS", 20_000_000), cache),
        Dataset("droplets", number("DROPLET_ROWS", AIRWAY_ROWS), cache),
    ]
    tables = [measure(data, stores, repeats) for data in sets]
    PAGE.write_text(page(load_before, repeats, tables))
    if not os.environ.get("STORES"):
        shutil.rmtree(stores)


if __name__ == "__main__":
    main()
