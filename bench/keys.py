"""Sort keys for systems without a multidimensional index."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(values: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: a bijective mix of 64 bits."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def uniform(batch: pa.RecordBatch | pa.Table) -> np.ndarray:
    """A float32 in [0, 1) for each (pid, time), as a column for the samples of other systems."""
    pid = column(batch, "pid").astype(np.uint64)
    time = column(batch, "time").view(np.uint32).astype(np.uint64)
    return ((mix(pid ^ (time << np.uint64(32))) >> np.uint64(40)) / np.float32(1 << 24)).astype(
        np.float32
    )


def column(batch: pa.RecordBatch | pa.Table, name: str) -> np.ndarray:
    values = batch.column(name)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    return values.to_numpy(zero_copy_only=False)


def morton(batch: pa.RecordBatch, domain: dict[str, tuple[float, float]]) -> np.ndarray:
    """Interleaved bits of the dimensions, as uint64: 21 bits each for three, 15 for four."""
    bits = 21 if len(domain) <= 3 else 15
    key = np.zeros(batch.num_rows, np.uint64)
    for place, (name, (low, high)) in enumerate(domain.items()):
        scale = float(1 << bits) / (high - low)
        cells = (column(batch, name).astype(np.float64) - low) * scale
        cells = np.clip(cells, 0, (1 << bits) - 1).astype(np.uint64)
        spread = _spread3 if len(domain) <= 3 else _spread4
        key |= spread(cells) << np.uint64(len(domain) - 1 - place)
    return key


def _spread3(cells: np.ndarray) -> np.ndarray:
    """Inserts two zero bits between any two of 21 bits."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        cells = (cells | (cells << np.uint64(shift))) & np.uint64(mask)
    return cells


def _spread4(cells: np.ndarray) -> np.ndarray:
    """Inserts three zero bits between any two of 16 bits."""
    for shift, mask in (
        (24, 0x000000FF000000FF),
        (12, 0x000F000F000F000F),
        (6, 0x0303030303030303),
        (3, 0x1111111111111111),
    ):
        cells = (cells | (cells << np.uint64(shift))) & np.uint64(mask)
    return cells


def with_keys(batch: pa.RecordBatch, domain: dict[str, tuple[float, float]]) -> pa.RecordBatch:
    keys = [pa.array(uniform(batch)), pa.array(morton(batch, domain))]
    return pa.record_batch([*batch.columns, *keys], schema=keyed_schema(batch.schema))


def sorted_by_key(
    batches: Iterable[pa.RecordBatch], domain: dict[str, tuple[float, float]]
) -> pa.Table:
    rows = pa.Table.from_batches([with_keys(batch, domain) for batch in batches])
    order = pa.array(np.argsort(column(rows, "m")))
    return rows.drop_columns(["m"]).take(order)


def keyed_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("r", pa.float32())).append(pa.field("m", pa.uint64()))


def row_hashes(table: pa.Table) -> np.ndarray:
    parts = []
    for batch in table.to_batches(max_chunksize=1 << 20):
        row = np.zeros(batch.num_rows, np.uint64)
        for name in sorted(batch.schema.names):
            values = column(batch, name)
            if values.dtype == np.float32:
                values = values.view(np.uint32)
            row = mix(row ^ values.astype(np.uint64))
        parts.append(row)
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def checksum(table: pa.Table) -> int:
    """Does not depend on the order of rows."""
    return int(row_hashes(table).sum(dtype=np.uint64))
