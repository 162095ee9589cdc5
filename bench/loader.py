"""Loaders of random batches: rows per second, variance of batch means, rows examined, memory.

    python -m bench.loader [ROWS]

The rows are points in a cube with eight float32 columns; half of a column's variance depends on the
position. Each loader has its own process and yields one epoch to warm up before the measured epoch.
The variance is of means of 1,024 rows, relative to a true shuffle, averaged over columns. Shards
are .npy files of 10,000 rows in spatial order, read in random order into a shuffle buffer, as in
WebDataset, but by whole arrays. Lance is measured if installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

BATCH = 1024
SHARD = 10_000
NAMES = [*"xyz", *(f"v{number}" for number in range(5))]

Batches = Iterator[dict[str, np.ndarray]]


def points(rows: int) -> dict[str, np.ndarray]:
    """In spatial order."""
    rng = np.random.default_rng(4)
    columns = {axis: rng.random(rows, np.float32) for axis in "xyz"}
    wave = np.sin(5 * columns["x"]) + np.cos(4 * columns["y"]) + columns["z"]
    for name in NAMES[3:]:
        columns[name] = (wave + rng.normal(scale=wave.std(), size=rows)).astype(
            np.float32
        )
    cells = [(16 * columns[axis]).astype(np.int64) for axis in "xyz"]
    order = np.lexsort(cells)
    return {name: column[order] for name, column in columns.items()}


def build(folder: Path, rows: int) -> None:
    import kubist

    columns = points(rows)
    domain = {axis: (0, 1) for axis in "xyz"}
    for strata in ("windows", "halvings"):
        data = {**columns, "id": np.arange(rows)}
        kubist.create(
            folder / strata, data, domain, identity=["id"], storage={"strata": strata}
        ).close()
    (folder / "shards").mkdir()
    whole = np.stack([columns[name] for name in NAMES], axis=1)
    for number, first in enumerate(range(0, rows, SHARD)):
        np.save(folder / "shards" / f"{number:06}.npy", whole[first : first + SHARD])
    try:
        import lance
        import pyarrow as pa
    except ImportError:
        return
    lance.write_dataset(pa.table(columns), folder / "lance")


def kubist_loader(layout: str, order: str, pool: str) -> Callable[[Path], Batches]:
    """A loader, whose cost is printed at the end."""

    def batches(folder: Path) -> Batches:
        import kubist

        table = kubist.open(folder / layout)
        with kubist.Loader(
            table, NAMES, batch=BATCH, order=order, pool=pool, epochs=2
        ) as loader:
            yield from loader
            COST["examined"] = loader.examined_per_row

    return batches


def scan(folder: Path) -> Batches:
    """Two plain scans, in no random order."""
    import kubist

    table = kubist.open(folder / "windows")
    for _ in range(2):
        yield from table.query(columns=NAMES)._numpy_batches(np)
    COST["examined"] = 1.0


def shards(buffer: int) -> Callable[[Path], Batches]:
    def batches(folder: Path) -> Batches:
        rng = np.random.default_rng(1)
        files = sorted((folder / "shards").iterdir())
        for _ in range(2):
            held, count = np.empty((buffer, len(NAMES)), np.float32), 0
            ready: list[np.ndarray] = []
            for place in rng.permutation(len(files)):
                shard = np.load(files[place])
                taken = min(buffer - count, len(shard))
                held[count : count + taken] = shard[:taken]
                count += taken
                for first in range(taken, len(shard), BATCH):
                    fresh = shard[first : first + BATCH]
                    places = rng.choice(buffer, len(fresh), replace=False)
                    ready.append(held[places])
                    held[places] = fresh
                yield from _full(ready)
            ready.append(held[:count][rng.permutation(count)])
            yield from _full(ready)
            if ready and len(ready[0]):
                yield _columns(ready[0])

    return batches


def _full(ready: list[np.ndarray]) -> Batches:
    """Takes the full batches out of a list of arrays; the rest stays as one array."""
    rows = np.concatenate(ready) if ready else np.empty((0, len(NAMES)), np.float32)
    full = len(rows) // BATCH * BATCH
    for first in range(0, full, BATCH):
        yield _columns(rows[first : first + BATCH])
    ready[:] = [rows[full:]]


def _columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {
        name: np.ascontiguousarray(rows[:, place]) for place, name in enumerate(NAMES)
    }


def lance_take(folder: Path) -> Batches:
    """Random rows by number, a true shuffle."""
    import lance

    dataset = lance.dataset(folder / "lance")
    for epoch in range(2):
        order = np.random.default_rng(epoch).permutation(dataset.count_rows())
        for first in range(0, len(order), BATCH):
            taken = dataset.take(order[first : first + BATCH], columns=NAMES)
            yield {name: taken[name].to_numpy() for name in NAMES}


def lance_pages(folder: Path) -> Batches:
    """Batches of consecutive rows in random order, as in Lance's sharded sampler."""
    import lance

    dataset = lance.dataset(folder / "lance")
    rows = dataset.count_rows()
    for epoch in range(2):
        for place in np.random.default_rng(epoch).permutation(-(-rows // BATCH)):
            found = dataset.take(
                np.arange(place * BATCH, min((place + 1) * BATCH, rows)), columns=NAMES
            )
            yield {name: found[name].to_numpy() for name in NAMES}


COST: dict[str, float] = {}

LOADERS: dict[str, Callable[[Path], Batches]] = {
    "plain scan, no random order": scan,
    "kubist, uniform, windows, pool 64 MiB": kubist_loader(
        "windows", "uniform", "64 MiB"
    ),
    "kubist, growing, windows, pool 64 MiB": kubist_loader(
        "windows", "growing", "64 MiB"
    ),
    "kubist, uniform, windows, pool 1 GiB": kubist_loader(
        "windows", "uniform", "1 GiB"
    ),
    "kubist, uniform, halvings, pool 64 MiB": kubist_loader(
        "halvings", "uniform", "64 MiB"
    ),
    "kubist, pooled, halvings, pool 64 MiB": kubist_loader(
        "halvings", "pooled", "64 MiB"
    ),
    "shards, buffer of 10,000": shards(10_000),
    "shards, buffer of 100,000": shards(100_000),
    "Lance, consecutive rows": lance_pages,
    "Lance, random rows": lance_take,
}


def measure(name: str, folder: Path, rows: int) -> dict[str, float]:
    means: list[list[float]] = []
    seen, begin = 0, time.perf_counter()
    timed = 0.0
    for batch in LOADERS[name](folder):
        if seen < rows <= seen + len(batch["x"]):
            begin = time.perf_counter()
        elif seen >= rows and len(batch["x"]) == BATCH:
            stop = time.perf_counter()
            means.append([float(column.mean(dtype=float)) for column in batch.values()])
            timed += time.perf_counter() - stop  # the mean is not the loader's work
        seen += len(batch["x"])
    seconds = time.perf_counter() - begin - timed
    # The peak of getrusage includes the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    found = {"rows_per_second": rows / seconds, "peak_mib": peak, **COST}
    if len(means) > 100:
        columns = points(rows)
        true = [
            columns[one].var(dtype=float) / BATCH * (1 - BATCH / rows) for one in NAMES
        ]
        found["variance_ratio"] = float(np.mean(np.var(means, axis=0) / true))
    return found


def main() -> None:
    if len(sys.argv) > 3:
        name, folder, rows = sys.argv[1:]
        print(json.dumps(measure(name, Path(folder), int(rows))))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    with tempfile.TemporaryDirectory() as scratch:
        build(Path(scratch), rows)
        print(f"{rows:,} rows of {len(NAMES)} float32 columns, batches of {BATCH:,}")
        print(
            "| loader | million rows/s | variance ratio | examined for each | peak MiB |"
        )
        print("|---|---|---|---|---|")
        for name in LOADERS:
            if name.startswith("Lance") and not (Path(scratch) / "lance").exists():
                continue
            command = [sys.executable, "-m", "bench.loader", name, scratch, str(rows)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(done.stdout)
            ratio, examined = found.get("variance_ratio"), found.get("examined")
            print(
                f"| {name} | {found['rows_per_second'] / 1e6:.2f} "
                f"| {'-' if ratio is None else f'{ratio:.2f}'} "
                f"| {'-' if examined is None else f'{examined:.2f}'} "
                f"| {found['peak_mib']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
