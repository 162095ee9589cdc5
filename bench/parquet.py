"""Size of the same rows as Parquet, for comparison."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .data import Dataset
from .keys import sorted_by_key


def size(rows: pa.Table, scratch: Path) -> int:
    file = scratch / "rows.parquet"
    floats = [field.name for field in rows.schema if pa.types.is_floating(field.type)]
    pq.write_table(
        rows, file, compression="zstd", use_dictionary=False, use_byte_stream_split=floats
    )
    taken = file.stat().st_size
    file.unlink()
    return taken


def sizes(data: Dataset, scratch: Path) -> dict[str, int]:
    """In the given order, and in Morton order."""
    orders = {"given": data.table, "morton": lambda: sorted_by_key(data.batches(), data.domain)}
    return {order: size(rows().select(data.columns), scratch) for order, rows in orders.items()}
