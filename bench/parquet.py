"""How small the same rows are as Parquet: a yardstick, not a system that is asked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .data import Dataset
from .keys import sorted_by_key


def sizes(data: Dataset, scratch: Path) -> dict[str, int]:
    """Bytes with byte-stream-split floats and zstd: rows as they come, and in Morton order."""
    floats = [field.name for field in data.schema if pa.types.is_floating(field.type)]
    orders = {"given": data.table, "morton": lambda: sorted_by_key(data.batches(), data.domain)}
    found = {}
    for order, rows in orders.items():
        file = scratch / f"{order}.parquet"
        table = rows().select(data.columns)
        pq.write_table(
            table, file, compression="zstd", use_dictionary=False, use_byte_stream_split=floats
        )
        found[order] = file.stat().st_size
        file.unlink()
    return found
