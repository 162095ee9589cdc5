"""One measurement in its own process, from a task to figures, both as JSON.

python -m bench.s3.child < task.json
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from typing import Any

import numpy as np
import pyarrow as pa

from ..data import Dataset
from ..question import Question
from .systems import KEY, SECRET, SYSTEMS

Figures = dict[str, Any]


def main() -> None:
    task = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    json.dump(WORK[task["work"]](task), out)
    out.flush()
    # Some libraries hang or crash at exit.
    os._exit(0)


def build(task: Figures) -> Figures:
    system = SYSTEMS[task["system"]](Dataset(**task["data"]), task["port"], task["folder"])
    began = time.perf_counter()
    system.build()
    return {"seconds": time.perf_counter() - began}


def ask(task: Figures) -> Figures:
    """Opens the store and runs one query: returns times and requests."""
    system = SYSTEMS[task["system"]](Dataset(**task["data"]), task["port"], task["folder"])
    _import(task["system"])
    trace(task["port"])
    began = time.perf_counter()
    system.open()
    opened = time.perf_counter()
    requests = trace(task["port"])
    asked = time.perf_counter()
    if task["cell"] == "estimate":
        value, rows = system.mean(task["column"], task["share"])
    else:
        value, rows = None, system.ask(Question.from_json(task["question"]))
    answered = time.perf_counter()
    return {
        "open": {"seconds": opened - began, **counted(requests)},
        "ask": {"seconds": answered - asked, **counted(trace(task["port"]))},
        "rows": rows,
        "value": value,
    }


def _import(system: str) -> None:
    if system == "kubist":
        import kubist  # noqa: F401
    elif system == "lance":
        import lance  # noqa: F401
    else:
        import pyarrow.dataset
        import pyarrow.fs
        import pyarrow.parquet  # noqa: F401


def trace(port: int) -> list[Figures]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/.trace") as answer:
        found: list[Figures] = json.load(answer)
    return found


def counted(requests: list[Figures]) -> Figures:
    """Summarizes requests.

    Round trips are the longest chain of requests, each sent after the previous response.
    """
    trips, last = 0, None
    for request in sorted(requests, key=lambda each: each["answered"]):
        if last is None or request["sent"] >= last:
            trips, last = trips + 1, request["answered"]
    moved = sum(request["came"] for request in requests)
    return {"trips": trips, "requests": len(requests), "bytes": moved, "trace": requests}


def commit(task: Figures) -> Figures:
    """Commits in sequence, each durable before the next."""
    import kubist

    os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    rows, commits = task["rows"], task["commits"]
    rng = np.random.default_rng(task["seed"])
    batches = [_rows(rng, rows) for _ in range(min(commits, 8))]
    table = kubist.create(
        task["location"],
        batches[0].schema,
        dimensions={name: (0, 1) for name in "xyz"},
        exist_ok=True,
        storage={"shared": bool(task.get("shared"))},
    )
    with table.writer(name=task["name"]) as writer:
        # The first commit creates the segment and the grid.
        writer.append(batches[0])
        writer.commit()
        began = time.perf_counter()
        for number in range(commits):
            writer.append(batches[number % len(batches)])
            writer.commit()
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": commits * batches[0].nbytes}


def _rows(rng: np.random.Generator, rows: int) -> pa.RecordBatch:
    arrays = {"pid": pa.array(rng.integers(0, 1 << 40, rows))}
    for name in ("x", "y", "z", "vx", "vy", "vz", "time"):
        arrays[name] = pa.array(rng.random(rows, np.float32))
    return pa.record_batch(arrays)


WORK = {"build": build, "ask": ask, "commit": commit}


if __name__ == "__main__":
    main()
