"""Systems that load the rows of a Parquet file, and delete them at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import names

if TYPE_CHECKING:
    import pyarrow as pa

SEED = 1


class Loaded:
    """The rows of a Parquet file, and the columns that a system indexes.

    Attributes:
        positions: The position columns, found by name.
        times, objects: The column of the time and the column that identifies an object, if any.
    """

    def __init__(self, name: str, path: Path) -> None:
        from pyarrow import parquet

        self.name = name
        self.rows: pa.Table = parquet.read_table(path)
        columns = self.rows.column_names
        self.positions = names.positions(columns)
        self.times = [found] if (found := names.first(columns, names.TIMES)) else []
        self.objects = [found] if (found := names.first(columns, names.IDENTITIES)) else []
        self.table = f"kubist_workload_{os.getpid()}_{id(self):x}"

    def sample(self, rows: int) -> pa.Table:
        import numpy as np

        count = self.rows.num_rows
        chosen = np.random.default_rng(SEED).choice(count, min(rows, count), replace=False)
        return self.rows.take(np.sort(chosen))

    def types(self, known: dict[str, str], otherwise: str) -> dict[str, str]:
        """The column types in the system, by Arrow types without unit."""
        found: dict[str, Any] = {}
        for field in self.rows.schema:
            found[field.name] = known.get(str(field.type).partition("[")[0], otherwise)
        return found
