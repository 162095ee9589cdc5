"""Benchmarks of file indexes: building, opening, and queries.

A build is compared with one pass over the file, and a query with the same query of a table.

A pass reads contiguous files in pieces of 8 MiB; the library that wrote chunks and pages decodes
them. Passes and builds take turns. A row has medians of ``ROUNDS``: cold times, after the file was
dropped from the page cache, and processor times of warm runs, which other programs affect less.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS = 3
CHUNK = 1 << 18
"""Values per chunk."""
MEMBERS = 1000
MEMBER_ROWS = 25_000


def drop(path: Path) -> None:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 23):
            pass


def by_h5py(path: Path) -> None:
    import h5py

    with h5py.File(path) as file:
        values = file["v"]
        for at in range(0, len(values), 16 * CHUNK):
            values[at : at + 16 * CHUNK]


def by_pyarrow(path: Path) -> None:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        file.read_row_group(group)


def written(folder: Path, values: np.ndarray) -> dict[str, tuple[Path, Callable[[Path], None]]]:
    """The same numbers in files of several kinds, each with a function that reads it once."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save(folder / "v.npy", values)
    with h5py.File(folder / "contiguous.h5", "w") as file:
        file["v"] = values
    with h5py.File(folder / "deflate.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(CHUNK,), compression=4, shuffle=True)
    pq.write_table(pa.table({"v": values}), folder / "v.parquet")
    return {
        ".npy": (folder / "v.npy", plain),
        "HDF5, contiguous": (folder / "contiguous.h5", plain),
        "HDF5, deflate and shuffle": (folder / "deflate.h5", by_h5py),
        "Parquet, Snappy": (folder / "v.parquet", by_pyarrow),
    }


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def processor_seconds(work: Callable[[], object]) -> float:
    def now() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    begin = now()
    work()
    return now() - begin


def builds(folder: Path, values: np.ndarray) -> dict[str, float]:
    """The ratio of building an index to one pass, without and with sorted copies."""
    import kubist

    ratios: dict[str, float] = {}

    def build(path: Path, share: float) -> None:
        (path.parent / f"{path.name}.kubix").unlink(missing_ok=True)
        kubist.index(path, sorted=share)

    print(
        "| file | cold pass s | index | with 5 % sorted | warm pass s | index | with 5 % sorted | "
        "processor's pass s | index | with 5 % sorted |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (path, one_pass) in written(folder, values).items():
        one_pass(path)
        build(path, 0.0)
        cells = []
        for kind in ("cold", "warm", "processor"):
            works = (
                lambda: one_pass(path),
                lambda: build(path, 0.0),
                lambda: build(path, 0.05),
            )
            rounds = []
            for _ in range(ROUNDS):
                times = []
                for work in works:
                    if kind == "cold":
                        drop(path)
                    clock = processor_seconds if kind == "processor" else seconds
                    times.append(clock(work))
                rounds.append(times)
            whole, *others = (statistics.median(each) for each in zip(*rounds, strict=True))
            cells += [f"{whole:.2f}", *(f"{each:.2f} ({each / whole:.1f}x)" for each in others)]
            for label, each in zip(("", ", 5 % sorted"), others, strict=True):
                ratios[f"{name}, {kind}{label}"] = each / max(whole, 1e-9)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        path.unlink()
        (path.parent / f"{path.name}.kubix").unlink()
    return ratios


def ensemble(folder: Path) -> float:
    """Queries 1,000 files for rare rows; returns the seconds to open their indexes, cold."""
    import kubist

    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    paths = [folder / f"{member:04}.npy" for member in range(MEMBERS)]
    for path in paths:
        np.save(path, rng.random(MEMBER_ROWS, "f4"))
    np.save(paths[617], np.append(rng.random(MEMBER_ROWS - 1, "f4"), np.float32(2)))
    built = seconds(lambda: kubist.index(paths, refresh=True))
    rows = []
    for _ in range(ROUNDS):
        drop(folder)
        begin = time.perf_counter()
        files = kubist.indexing.FileIndex(paths, None)
        opened = time.perf_counter() - begin
        result = files.query("value > 1")
        found = len(result.to_numpy()["value"])
        assert (found, result.costs.files_read) == (1, 1), result.costs
        rows.append((opened, time.perf_counter() - begin - opened, result.costs.bytes))
    opened, asked, read = (statistics.median(each) for each in zip(*rows, strict=True))
    print(
        f"\n{MEMBERS:,} files, indexed in {built:.2f} s: opened cold in {1e3 * opened:.0f} ms; a query "
        f"with one matching row took {1e3 * asked:.0f} ms and read {read / 1e3:.0f} kB of one file"
    )
    shutil.rmtree(folder)
    return opened


def beside_table(folder: Path, values: np.ndarray) -> None:
    """The same cold queries of a file's index and of a table, in this process."""
    import kubist

    file, table = folder / "v.npy", folder / "v.kubist"
    shutil.rmtree(table, ignore_errors=True)
    np.save(file, values)
    rows = np.arange(len(values))
    index_seconds = seconds(lambda: kubist.index(file, refresh=True))
    table_seconds = seconds(
        lambda: kubist.create(table, {"row": rows, "v": values}, ["v"], identity=["row"]).close()
    )
    index_bytes = (folder / "v.npy.kubix").stat().st_size
    table_bytes = sum(each.stat().st_size for each in table.rglob("*") if each.is_file())

    def of_file(**question: Any) -> int:
        return len(kubist.indexing.FileIndex([file], None).query(**question).to_numpy()["v"])

    def of_table(**question: Any) -> int:
        with kubist.open(table) as opened:
            return len(opened.query(**question).to_numpy()["v"])

    def median_ms(
        work: Callable[..., int], path: Path, question: dict[str, Any]
    ) -> tuple[float, int]:
        times, found = [], 0
        for _ in range(ROUNDS):
            drop(path)
            begin = time.perf_counter()
            found = work(**question)
            times.append(time.perf_counter() - begin)
        return 1e3 * statistics.median(times), found

    print("\n| | index beside the file | table |\n|---|---|---|")
    print(f"| made in s | {index_seconds:.2f} | {table_seconds:.1f} |")
    print(
        f"| bytes beside the file, of the data | {index_bytes / values.nbytes:.2%} | {table_bytes / values.nbytes:.0%} |"
    )
    questions: list[tuple[str, dict[str, Any]]] = []
    for share in (1e-3, 1e-6):
        place = len(values) - max(int(share * len(values)), 1) - 1
        bound = float(np.partition(values, place)[place])
        questions.append((f"the largest {share:g}", {"where": f"v > {bound!r}"}))
    median = float(np.median(values))
    questions += [
        ("a sample of 1e-4", {"sample": 1e-4, "columns": ["v"]}),
        ("a sample of 1e-4 of the upper half", {"sample": 1e-4, "where": f"v > {median!r}"}),
    ]
    for name, question in questions:
        one, other = median_ms(of_file, file, question), median_ms(of_table, table, question)
        print(
            f"| {name}, cold ms (records) | {one[0]:.0f} ({one[1]:,}) | {other[0]:.0f} ({other[1]:,}) |"
        )
    shutil.rmtree(table)


def main(folder: Path, values: np.ndarray) -> tuple[dict[str, float], float]:
    folder.mkdir(parents=True, exist_ok=True)
    ratios = builds(folder, values)
    opened = ensemble(folder / "ensemble")
    beside_table(folder, values)
    return ratios, opened
