"""Queries by value of files: an index of HDF5 files compared with other systems.

    make bench-files    ROWS=100000000, STORES=folder on the disk to measure

All systems get the same queries of the same numbers. h5py reads whole datasets, PyTables uses its
own index in its own file, and DuckDB reads Parquet with row-group statistics. ADIOS2 finds boxes in
BP4 with the statistics of blocks as large as Kubist's. Kubist also indexes DuckDB's Parquet file.
Bytes count the process's reads from the kernel (/proc/self/io, rchar). A cold query runs after the
file was dropped from the page cache. The report lists missing libraries, and PyTables if its index
takes longer than ``PEER_SECONDS``.

Then it compares builds of indexes with one pass (`bench.building`), plots the I/O model and the
measurements, simulates reading with 1 to 16 workers (`bench.means`), and reports which targets are
met.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import building, means
from bench.building import drop

SELECTIVITIES = (1e-3, 1e-4, 1e-6)
DATA = ("smooth", "shuffled", "energy", "mass")
BLOCK = 16_384
"""Values per block, of Kubist and of ADIOS2's statistics."""
GROUP = 122_880
"""Rows per row group of DuckDB."""
PEER_SECONDS = float(os.environ.get("PEER_SECONDS") or 120)
"""Maximum seconds for another system's index of one column."""
INDEX_SHARE, SORTED_SHARE, BUILDING, OPENING = 0.015, 0.08, 1.3, 0.2
"""Targets: index size by data size, without and with sorted copies; build time by one pass; seconds
to open 1,000 files.
"""


def smooth(rows: int) -> np.ndarray:
    """A field along a path through waves of several lengths."""
    at = np.arange(rows, dtype="f8") / rows
    out = np.zeros(rows)
    for cycles, height in ((3, 1.0), (41, 0.5), (997, 0.1)):
        out += height * np.sin(2 * np.pi * cycles * at + cycles)
    return out.astype("f4")


def made(rows: int, name: str) -> np.ndarray:
    """One of the columns.

    These are a smooth field, the same shuffled, and for clustered particles an energy that
    correlates with the position and a mass that does not.
    """
    rng = np.random.default_rng(20)
    if name == "smooth":
        return smooth(rows)
    if name == "shuffled":
        return rng.permutation(smooth(rows))
    # Particles are stored cluster by cluster.
    sizes = rng.pareto(1.2, 4000) + 0.05
    counts = np.diff(np.concatenate([[0], np.cumsum(sizes) / sizes.sum() * rows]).astype(int))
    if name == "mass":
        return rng.lognormal(0, 1, rows).astype("f4")
    means = rng.normal(0, 3, len(counts)).repeat(counts)
    return np.pad(means + rng.normal(0, 0.3, len(means)), (0, rows - len(means))).astype("f4")


def of_h5py(folder: Path, bound: float) -> int:
    import h5py

    with h5py.File(folder / "data.h5") as file:
        values = file["v"]
        step = 1 << 24
        return sum(
            int((values[at : at + step] > bound).sum()) for at in range(0, len(values), step)
        )


def of_kubist(folder: Path, bound: float) -> int:
    import kubist

    # A new index, as in a process without earlier queries; it returns rows, not only their number.
    files = kubist.indexing.FileIndex([folder / "data.h5"], None)
    return len(files.query(where=f"v > {bound!r}").to_numpy()["v"])


def of_kubist_sorted(folder: Path, bound: float) -> int:
    import kubist

    files = kubist.indexing.FileIndex([folder / "data.h5"], folder / "sorted")
    return len(files.query(where=f"v > {bound!r}").to_numpy()["v"])


def of_kubist_parquet(folder: Path, bound: float) -> int:
    import kubist

    files = kubist.indexing.FileIndex([folder / "data.parquet"], None)
    return len(files.query(where=f"v > {bound!r}", columns=["row_index", "v"]).to_numpy()["v"])


def of_adios2(folder: Path, bound: float) -> int:
    import adios2.bindings as adios2

    # ADIOS2 reads the condition from a file.
    config = folder / "query.xml"
    config.write_text(
        '<adios-query><io name="read"><var name="v"><op value="AND">'
        f'<range compare="GT" value="{bound!r}"/></op></var></io></adios-query>'
    )
    # It must outlive the objects that it creates.
    system = adios2.ADIOS()
    io = system.DeclareIO("read")
    io.SetEngine("BP4")
    engine = io.Open(str(folder / "data.bp"), adios2.Mode.Read)
    engine.BeginStep()
    boxes = adios2.Query(str(config), engine).GetResult()
    variable, found = io.InquireVariable("v"), []
    for start, count in boxes:
        variable.SetSelection((start, count))
        found.append((start[0], np.empty(count, "f4")))
        engine.Get(variable, found[-1][1], adios2.Mode.Deferred)
    engine.PerformGets()
    rows = sum(int(np.flatnonzero(values > np.float32(bound)).size) for _, values in found)
    engine.EndStep()
    engine.Close()
    return rows


def of_tables(folder: Path, bound: float) -> int:
    import tables

    with tables.open_file(str(folder / "tables.h5")) as file:
        return len(file.root.t.read_where(f"v > {bound!r}"))


def of_duckdb(folder: Path, bound: float) -> int:
    import duckdb

    path = folder / "data.parquet"
    return (
        duckdb.sql(f"SELECT row, v FROM '{path}' WHERE v > {bound!r}::FLOAT")
        .arrow()
        .read_all()
        .num_rows
    )


SYSTEMS: dict[str, tuple[Callable[[Path, float], int], str, str]] = {
    "h5py, all of it": (of_h5py, "h5py", "data.h5"),
    "PyTables, its index": (of_tables, "tables", "tables.h5"),
    "DuckDB, Parquet": (of_duckdb, "duckdb", "data.parquet"),
    "ADIOS2, BP4 + query": (of_adios2, "adios2", "data.bp"),
    "Kubist, index": (of_kubist, "kubist", "data.h5"),
    "Kubist, 5 % sorted": (of_kubist_sorted, "kubist", "data.h5"),
    "Kubist, Parquet": (of_kubist_parquet, "duckdb", "data.parquet"),
}


INDEX_OF_TABLES = """
import sys, tables
with tables.open_file(sys.argv[1], "a") as file:
    file.root.t.cols.v.create_index()
"""


def write(folder: Path, values: np.ndarray) -> dict[str, Any]:
    import h5py

    import kubist

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.rglob("*.kubix"):
        old.unlink()
    with h5py.File(folder / "data.h5", "w") as file:
        file["v"] = values
    drop(folder / "data.h5")
    begin = time.perf_counter()
    with (folder / "data.h5").open("rb", buffering=0) as file:
        while file.read(1 << 23):
            pass
    read = time.perf_counter() - begin
    figures: dict[str, Any] = {"pass_seconds": read}
    for share, into in ((0.0, None), (0.05, folder / "sorted")):
        if into is not None:
            into.mkdir(exist_ok=True)
        drop(folder / "data.h5")
        begin = time.perf_counter()
        index = kubist.index(folder / "data.h5", sorted=share, into=into).info()
        label = "sorted" if share else "plain"
        figures[f"{label}_seconds"] = time.perf_counter() - begin
        figures[f"{label}_share"] = index["index_bytes"] / index["bytes"]
    if has("tables"):
        import tables

        with tables.open_file(str(folder / "tables.h5"), "w") as file:
            rows = np.rec.fromarrays([values], names="v")
            file.create_table("/", "t", rows, expectedrows=len(values))
        begin = time.perf_counter()
        try:
            subprocess.run(
                [sys.executable, "-c", INDEX_OF_TABLES, str(folder / "tables.h5")],
                check=True,
                timeout=PEER_SECONDS,
            )
            figures["PyTables_seconds"] = time.perf_counter() - begin
        except subprocess.TimeoutExpired:
            # A partial index is useless.
            (folder / "tables.h5").unlink()
            print(f"PyTables' index took more than {PEER_SECONDS:g} s: skipped", file=sys.stderr)
    if has("duckdb"):
        import duckdb
        import pyarrow as pa

        data = pa.table({"row": np.arange(len(values)), "v": values})  # noqa: F841
        path = folder / "data.parquet"
        duckdb.sql(f"COPY data TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP})")
        kubist.index(path)
    if has("adios2"):
        import adios2.bindings as adios2

        system = adios2.ADIOS()
        io = system.DeclareIO("write")
        io.SetEngine("BP4")
        io.SetParameter("StatsBlockSize", str(BLOCK))
        variable = io.DefineVariable("v", values, [len(values)], [0], [len(values)], True)
        engine = io.Open(str(folder / "data.bp"), adios2.Mode.Write)
        engine.BeginStep()
        engine.Put(variable, values, adios2.Mode.Sync)
        engine.EndStep()
        engine.Close()
    return figures


def has(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def asked(system: str, folder: Path, bound: float) -> dict[str, float]:
    """In its own process, with the library loaded before the measurement."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.files", "--ask", system, str(folder), repr(bound)],
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def ask(system: str, folder: Path, bound: float) -> dict[str, float]:
    function, module, _ = SYSTEMS[system]
    for each in (module, "kubist", "pyarrow"):
        importlib.import_module(each)

    def read() -> int:
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["rchar"])

    before, begin = read(), time.perf_counter()
    rows = function(folder, bound)
    return {"rows": rows, "seconds": time.perf_counter() - begin, "bytes": read() - before}


def tell(what: str, target: str, failures: list[str]) -> None:
    print(f"| {what} | {target} | {'; '.join(failures) or 'met'} |")


def targets(
    cells: dict[tuple[str, float], dict[str, dict[str, float]]],
    built: list[tuple[str, dict[str, Any]]],
    ratios: dict[str, float],
    opened: float,
) -> None:
    print("\n| | target | |\n|---|---|---|")
    for measure, what in (("bytes", "bytes"), ("cold", "cold time")):
        behind = []
        for (data, share), by_system in cells.items():
            own = min(by_system[name][measure] for name in ("Kubist, index", "Kubist, 5 % sorted"))
            for system, answer in by_system.items():
                if not system.startswith("Kubist") and answer[measure] <= own:
                    by = (
                        "as little"
                        if answer[measure] == own
                        else f"{own / answer[measure]:.2f} times"
                    )
                    behind.append(f"{data} {share:g}: {by} compared with {system}")
        tell(what, "less than each other system in each cell", behind)
    for label, share in (("plain", INDEX_SHARE), ("sorted", SORTED_SHARE)):
        over = [
            f"{data}: {figures[f'{label}_share']:.2%}"
            for data, figures in built
            if figures[f"{label}_share"] > share
        ]
        tell(f"size of an index, {label}", f"{share:.1%} of the data", over)
    for kind in ("cold", "warm", "processor"):
        slow = [
            f"{name}: {ratio:.2f}"
            for name, ratio in ratios.items()
            if kind in name and ratio > BUILDING
        ]
        tell(f"building an index, {kind}", f"{BUILDING:g} times a pass", slow)
    tell("opening 1,000 files", f"{OPENING:g} s", [f"{opened:.2f} s"] if opened > OPENING else [])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=int(os.environ.get("ROWS") or 100_000_000))
    parser.add_argument(
        "--folder", type=Path, default=Path(os.environ.get("STORES") or "bench/data/files")
    )
    parser.add_argument("--ask", nargs=3, metavar=("SYSTEM", "FOLDER", "BOUND"))
    given = parser.parse_args()
    if given.ask:
        system, folder, bound = given.ask
        print(json.dumps(ask(system, Path(folder), float(bound))))
        return
    print(
        f"{given.rows:,} float32; {platform.processor() or platform.machine()}, {os.cpu_count()} cores\n"
    )
    absent = sorted({module for _, module, _ in SYSTEMS.values() if not has(module)})
    if absent:
        print(f"not installed, skipped: {', '.join(absent)}\n")
    print(
        "| data | share | system | cold ms | warm ms | MB read | records |\n|---|---|---|---|---|---|---|"
    )
    built = []
    cells: dict[tuple[str, float], dict[str, dict[str, float]]] = {}
    for name in DATA:
        values = made(given.rows, name)
        folder = given.folder / name
        figures = write(folder, values)
        built.append((name, figures))
        for share in SELECTIVITIES:
            place = len(values) - max(int(share * len(values)), 1) - 1
            bound = float(np.partition(values, place)[place])
            expected = int((values > np.float32(bound)).sum())
            for system, (_, module, path) in SYSTEMS.items():
                if not has(module) or not (folder / path).exists():
                    continue
                drop(folder / path)
                drop(folder)
                cold = asked(system, folder, bound)
                warm = min(
                    (asked(system, folder, bound) for _ in range(3)), key=lambda one: one["seconds"]
                )
                assert cold["rows"] == warm["rows"] == expected, (system, cold, expected)
                cells.setdefault((name, share), {})[system] = {
                    "bytes": warm["bytes"],
                    "cold": cold["seconds"],
                }
                print(
                    f"| {name} | {share:g} | {system} | {1e3 * cold['seconds']:.1f} | "
                    f"{1e3 * warm['seconds']:.1f} | {warm['bytes'] / 1e6:.2f} | {expected:,} |",
                    flush=True,
                )
        # Later steps need only Kubist's files.
        for path in ("tables.h5", "data.parquet", "data.parquet.kubix"):
            (folder / path).unlink(missing_ok=True)
        shutil.rmtree(folder / "data.bp", ignore_errors=True)
    print(
        "\n| data | one pass s | index s | of the data | with 5 % sorted s | of the data | PyTables s |\n|---|---|---|---|---|---|---|"
    )
    for name, figures in built:
        print(
            f"| {name} | {figures['pass_seconds']:.2f} | {figures['plain_seconds']:.2f} | "
            f"{100 * figures['plain_share']:.3f} % | {figures['sorted_seconds']:.2f} | "
            f"{100 * figures['sorted_share']:.2f} % | {figures.get('PyTables_seconds', float('nan')):.2f} |"
        )
    print()
    ratios, opened = building.main(given.folder / "building", made(given.rows, "energy"))
    print()
    means.main(given.folder)
    targets(cells, built, ratios, opened)


if __name__ == "__main__":
    main()
