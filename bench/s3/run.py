"""Tables in a bucket compared with Lance and pyarrow datasets: `make bench-s3`.

    ROWS=20000000 SYSTEMS="kubist lance parquet" RUNS=3 python -m bench.s3.run

Queries go through a proxy of the server of `make s3-up`, which adds 30 ms per request and limits
the bandwidth to 100 MB/s. Each query runs in a new process; with the cache, after another process
with the same query. Commits to the server without the proxy, and to directories, follow. CELLS and
COMMITS=0 select parts, TRACES=file stores all requests, KEEP=1 keeps the tables, and FOLDER=name
uses kept ones.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..data import Dataset
from ..question import Question
from ..run import machine
from ..work import Boxes
from .systems import BUCKET, SYSTEMS, files

ROOT = Path(__file__).resolve().parent.parent.parent
SERVER = int(os.environ.get("PORT") or 7070)
ROWS = int(float(os.environ.get("ROWS") or 20_000_000))
RUNS = int(os.environ.get("RUNS") or 3)
FOLDER = os.environ.get("FOLDER") or f"bench-s3-{os.getpid()}"
COLUMN = "vx"
TIMEOUT = 1200.0
LABELS = {
    "box": "a box of 1,000 rows",
    "box-share": "1 % of a box",
    "share": "1 % of all",
    "estimate": "a mean to 1 %",
}

Figures = dict[str, Any]


def child(task: Figures, environment: dict[str, str] | None = None) -> Figures:
    process = subprocess.run(
        [sys.executable, "-m", "bench.s3.child"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **(environment or {})},
        input=json.dumps(task),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if process.returncode != 0:
        raise SystemExit(f"{task}\n{process.stderr}")
    found: Figures = json.loads(process.stdout)
    return found


@contextmanager
def proxied() -> Iterator[int]:
    command = [sys.executable, "-m", "bench.s3.proxy", str(SERVER)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def questions(data: Dataset) -> dict[str, list[Question]]:
    large = min(1_000_000, data.rows // 20)
    boxes = Boxes(data, RUNS)
    boxes.find([1000, large])
    return {
        "box": [Question(box=box) for box in boxes.found[1000]],
        "box-share": [Question(box=box, share=0.01) for box in boxes.found[large]],
        "share": [Question(share=0.01)] * RUNS,
        "estimate": [Question()] * RUNS,
    }


def median(runs: list[Figures], part: str, figure: str) -> float:
    return statistics.median(run[part][figure] for run in runs)


def line(label: str, runs: list[Figures], part: str) -> str:
    seconds, trips, requests, moved = (
        median(runs, part, figure) for figure in ("seconds", "trips", "requests", "bytes")
    )
    return f"| {label} | {seconds * 1e3:.0f} | {trips:.0f} | {requests:.0f} | {moved / 1e6:.2f} |"


def answers(data: Dataset, systems: list[str]) -> None:
    asked = questions(data)
    cells = os.environ.get("CELLS", "").split() or list(asked)
    place = {"kind": data.kind, "rows": data.rows, "cache": data.cache}
    found: dict[tuple[str, str], list[Figures]] = {}
    share = 0.01
    with proxied() as port, tempfile.TemporaryDirectory() as cache:
        ways = [
            (f"{SYSTEMS[key].name}{said}", key, {"KUBIST_CACHE": cache} if said else {})
            for key in systems
            for said in (["", ", cached"] if key == "kubist" else [""])
        ]
        for cell in cells:
            for number, question in enumerate(asked[cell]):
                for name, key, environment in ways:
                    task = {"work": "ask", "system": key, "data": place, "port": port}
                    task |= {"folder": FOLDER, "cell": cell, "column": COLUMN, "share": share}
                    task["question"] = question.as_json()
                    if environment:
                        child(task, environment)
                    run = child(task, environment)
                    found.setdefault((cell, name), []).append(run)
                    if cell == "estimate" and key == "kubist":
                        share = run["rows"] / data.rows
                    print(
                        f"  {cell} {number} {name}: {run['ask']['seconds'] * 1e3:.0f} ms, "
                        f"{run['rows']} rows",
                        file=sys.stderr,
                        flush=True,
                    )
    head = "| | ms | round trips | requests | MB |\n|---|---:|---:|---:|---:|"
    print(f"\nopening\n\n{head}")
    for name, _, _ in ways:
        print(line(name, [run for cell in cells for run in found[cell, name]], "open"))
    for cell in cells:
        print(f"\n{LABELS[cell]}\n\n{head}")
        for name, _, _ in ways:
            print(line(name, found[cell, name], "ask"))
        counts = {name: [run["rows"] for run in found[cell, name]] for name, _, _ in ways}
        print(f"\nrows: {counts}")
    if path := os.environ.get("TRACES"):
        traces = [[*key, runs] for key, runs in found.items()]
        Path(path).write_text(json.dumps(traces, indent=1))


def commits() -> None:
    """Small and large commits: to the bucket, and to directories on one disk."""
    stores = Path(tempfile.mkdtemp(dir=os.environ.get("STORES") or None))
    bucket = f"s3://kubist-tests/{FOLDER}/commits-{os.getpid()}"
    at = f"?endpoint=http://127.0.0.1:{SERVER}"
    large = (64 << 20) // 36

    def task(location: str, rows: int, count: int, seed: int = 0, **more: Any) -> Figures:
        of = {"work": "commit", "location": location, "rows": rows, "commits": count}
        return {**of, "seed": seed, "name": f"w{seed}", **more}

    print("\n| commits | of 1,000 rows, a second | of 64 MiB, MB a second |\n|---|---:|---:|")
    small = child(task(f"{bucket}-small{at}", 1000, 200))
    big = child(task(f"{bucket}-large{at}", large, 8))
    print(f"| one writer, in the bucket | {rate(small, 200):.0f} | {speed(big):.0f} |")
    together = side_by_side([task(f"{bucket}-four{at}", 1000, 100, seed) for seed in range(4)])
    slowest = min(rate(each, 100) for each in together)
    print(f"| each of four writers, in the bucket | {slowest:.0f} | |")
    rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(RUNS):
        for shared in (False, True):
            place = stores / f"{turn}-{shared}"
            small = child(task(f"{place}-small", 1000, 400, shared=shared))
            big = child(task(f"{place}-large", large, 8, shared=shared))
            rates[shared].append((rate(small, 400), speed(big)))
            for each in stores.iterdir():
                shutil.rmtree(each)
    for shared, name in ((False, "a directory"), (True, "the same, shared")):
        of_small, of_large = zip(*rates[shared], strict=True)
        print(f"| {name} | {statistics.median(of_small):.0f} | {statistics.median(of_large):.0f} |")
    shutil.rmtree(stores)


def rate(run: Figures, count: int) -> float:
    return count / run["seconds"]


def speed(run: Figures) -> float:
    return run["bytes"] / run["seconds"] / 1e6


def side_by_side(tasks: list[Figures]) -> list[Figures]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(tasks)) as threads:
        return list(threads.map(child, tasks))


def remove() -> None:
    """Deletes the objects; a gateway over a file system removes their folders itself."""
    from pyarrow import fs

    store = files(SERVER)
    for found in store.get_file_info(fs.FileSelector(f"{BUCKET}/{FOLDER}", recursive=True)):
        if found.type == fs.FileType.File:
            store.delete_file(found.path)


def main() -> None:
    systems = os.environ.get("SYSTEMS", "").split() or list(SYSTEMS)
    data = Dataset("clusters", ROWS, os.environ.get("DATA") or str(ROOT / "bench" / "data"))
    data.make()
    on = machine()
    print(
        f"{ROWS:,} rows of {data.row_bytes} bytes; {on['cores']} cores, {on['cpu']}; load "
        f"{os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}",
        flush=True,
    )
    place = {"kind": data.kind, "rows": data.rows, "cache": data.cache}
    for key in systems:
        task = {"work": "build", "system": key, "data": place, "port": SERVER, "folder": FOLDER}
        if "FOLDER" not in os.environ:
            taken = child(task)["seconds"]
            print(f"{SYSTEMS[key].name} stored in {taken:.0f} s", flush=True)
    answers(data, systems)
    if os.environ.get("COMMITS", "1") != "0":
        commits()
    if os.environ.get("KEEP") or "FOLDER" in os.environ:
        print(f"\nkept in FOLDER={FOLDER}")
    else:
        remove()


if __name__ == "__main__":
    main()
