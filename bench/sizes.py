"""Bytes per row by compression, compared with Parquet in Morton order.

    make bench-sizes DATA=airway.parquet

Prints a table for docs/storage.md: the droplets of a file, the same with 64-bit columns, and
synthetic sets. Parquet uses byte-stream split and zstd, with rows in Morton order of x, y and z.
Kubist's size includes zone maps, checksums and all metadata; the tables were not optimized.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kubist

from . import parquet
from .data import Dataset
from .keys import morton

COMPRESSIONS = ["fast", "balanced", "small"]
ROWS = 2_000_000
DROPLETS = Dataset("droplets", 0, "")
WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}


@dataclass(frozen=True)
class Rows:
    name: str
    table: pa.Table
    domain: dict[str, tuple[float, float]]


def widened(rows: pa.Table) -> pa.Table:
    fields = [field.with_type(WIDER.get(field.type, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def by_place(rows: Rows) -> pa.Table:
    domain = {name: rows.domain[name] for name in ["x", "y", "z"]}
    whole = rows.table.combine_chunks()
    return whole.take(np.argsort(morton(whole.to_batches()[0], domain), kind="stable"))


def stored(rows: Rows, compression: str, scratch: Path) -> float:
    at = scratch / "table.kubist"
    dimensions, identity = list(rows.domain), ["pid", "time"]
    table = kubist.create(at, rows.table, dimensions, identity=identity, storage={"compression": compression})
    with table:
        taken = table.info().bytes_per_row
    kubist.drop(at)
    return taken


def sets(file: str, scratch: str) -> Iterator[Rows]:
    droplets = pq.read_table(file)
    yield Rows("droplets", droplets, DROPLETS.domain)
    yield Rows("droplets, 64 bits", widened(droplets), DROPLETS.domain)
    for kind in ["zeldovich", "clusters", "walks"]:
        data = Dataset(kind, ROWS, scratch)
        data.make()
        yield Rows(kind, data.table(), data.domain)


def main(file: str) -> None:
    print(f"Kubist {kubist.__version__}, pyarrow {pa.__version__}\n")
    print("| rows | Parquet | fast | balanced | small | balanced / Parquet | small / Parquet |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for rows in sets(file, folder):
            beside = parquet.size(by_place(rows), scratch) / rows.table.num_rows
            taken = [stored(rows, compression, scratch) for compression in COMPRESSIONS]
            bytes_of = " | ".join(f"{one:.1f}" for one in [beside, *taken])
            ratios = " | ".join(f"{one / beside:.3f}" for one in taken[1:])
            print(f"| {rows.name} | {bytes_of} | {ratios} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
