"""Bytes of columns with error bounds, compared with zfp and SZ3.

    PYTHONPATH=python bench/.venv/bin/python -m bench.accuracy airway.parquet

Prints bytes per row by error bound for docs/storage.md. Kubist stores the columns in pages that are
read separately. zfp and SZ3 compress each column as one array, in the given order and in the
table's order; the smaller result counts. Parquet has the values that Kubist stores, in the table's
order, with byte-stream split and zstd. The errors of all systems are verified.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kubist

DIMENSIONS = ["x", "y", "z", "time"]
IDENTITY = ["pid", "time"]
POSITIONS, VELOCITIES = ["x", "y", "z"], ["ux", "uy", "uz"]

ABSOLUTE = [
    (POSITIONS, [1e-7, 1e-6, 1e-5, 1e-4]),
    (VELOCITIES, [1e-5, 1e-4, 1e-3, 1e-2]),
    (["diameter"], [1e-9, 1e-8, 1e-7]),
]
RELATIVE = [(VELOCITIES, [1e-5, 1e-4, 1e-3, 1e-2]), (["diameter"], [1e-4, 1e-3, 1e-2])]


def stored(rows: pa.Table, accuracy: dict[str, float | str], scratch: Path) -> tuple[dict[str, float], pa.Table]:
    """Bytes per row by column in a table, and the rows as stored."""
    at = scratch / "table.kubist"
    kubist.create(at, rows, DIMENSIONS, identity=IDENTITY, accuracy=accuracy or None).close()
    said = subprocess.run(
        ["kubist", "info", str(at), "--columns", "--json"], capture_output=True, check=True
    ).stdout
    bytes_of = {column["name"]: column["bytes_per_row"] for column in json.loads(said)["columns"]}
    with kubist.open(at) as table:
        found = table.query().to_arrow()
    kubist.drop(at)
    return bytes_of, found


def parquet(table: pa.Table, scratch: Path) -> float:
    file = scratch / "columns.parquet"
    split = table.column_names
    pq.write_table(table, file, compression="zstd", use_dictionary=False, use_byte_stream_split=split)
    return file.stat().st_size / len(table)


def zfp(values: np.ndarray, bound: float) -> float:
    import zfpy

    packed = zfpy.compress_numpy(values, tolerance=bound)
    check("zfp", values, zfpy.decompress_numpy(packed), bound)
    return len(packed) / len(values)


def sz3(values: np.ndarray, bound: float) -> float:
    from pysz import sz, szConfig, szErrorBoundMode

    config = szConfig(values.shape)
    config.errorBoundMode, config.absErrorBound = szErrorBoundMode.ABS, bound
    packed, _ = sz.compress(values, config)
    unpacked, _ = sz.decompress(packed, values.dtype, values.shape)
    check("SZ3", values, unpacked, bound)
    return packed.nbytes / len(values)


def check(who: str, given: np.ndarray, found: np.ndarray, bound: float) -> None:
    furthest = np.abs(found.astype(np.float64) - given.astype(np.float64)).max()
    if furthest > bound:
        print(f"{who}: {furthest:.3g} from the given values, with a bound of {bound:g}", file=sys.stderr)


def agree(rows: pa.Table, found: pa.Table, columns: list[str], accuracy: float | str) -> None:
    def sorted_(table: pa.Table) -> pa.Table:
        return table.sort_by([(name, "ascending") for name in IDENTITY])

    rows, found = sorted_(rows), sorted_(found)
    for name in columns:
        given, kept = (table[name].to_numpy().astype(np.float64) for table in (rows, found))
        allowed = float(accuracy) if isinstance(accuracy, float) else float(accuracy.split()[0]) * np.abs(given)
        assert (np.abs(kept - given) <= allowed).all(), f"{name} is not within {accuracy}"


def smaller(pack: Callable[[np.ndarray, float], float], tables: list[pa.Table], columns: list[str], bound: float) -> str:
    """Bytes per row of all columns, each in the order that is smaller."""
    total = 0.0
    for name in columns:
        total += min(pack(np.ascontiguousarray(table[name].to_numpy()), bound) for table in tables)
    return f"{total:.2f}"


def main(file: str) -> None:
    rows = pq.read_table(file)
    print(f"{file}: {len(rows):,} records; Kubist {kubist.__version__}, balanced\n")
    print("| columns | bound | Kubist | Parquet, same values | zfp | SZ3 |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        exact, ordered = stored(rows, {}, scratch)
        for columns, bounds in ABSOLUTE:
            plain = sum(exact[name] for name in columns)
            print(f"| {', '.join(columns)} | none | {plain:.2f} | {parquet(ordered.select(columns), scratch):.2f} | | |")
            for bound in bounds:
                taken, found = stored(rows, dict.fromkeys(columns, bound), scratch)
                agree(rows, found, columns, bound)
                kept = sum(taken[name] for name in columns)
                beside = [smaller(pack, [rows, ordered], columns, bound) for pack in (zfp, sz3)]
                same = parquet(found.select(columns), scratch)
                print(f"| | {bound:g} | {kept:.2f} | {same:.2f} | {' | '.join(beside)} |", flush=True)
        for columns, bounds in RELATIVE:
            print(f"| {', '.join(columns)} | | | | | |")
            for bound in bounds:
                taken, found = stored(rows, dict.fromkeys(columns, f"{bound:g} rel"), scratch)
                agree(rows, found, columns, f"{bound:g} rel")
                kept = sum(taken[name] for name in columns)
                print(f"| | {bound:g} rel | {kept:.2f} | {parquet(found.select(columns), scratch):.2f} | | |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
