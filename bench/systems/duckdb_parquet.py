"""DuckDB over Parquet, in Morton order."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ..keys import with_keys
from .base import CORES
from .duckdb_table import DuckTable


class DuckParquet(DuckTable):
    name = "DuckDB on Parquet"
    package = "duckdb"
    settings = (
        "one file in Morton order, row groups of 16,384 rows, so that small boxes prune, "
        "zstd; footers cached; all cores"
    )
    durable = False
    group_rows = 16_384

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.path.mkdir()
        db = duckdb.connect(config={"threads": CORES, "temp_directory": str(self.path / "tmp")})
        db.register("source", self._source(batches))
        db.execute(
            f"COPY (SELECT * EXCLUDE (m) FROM source ORDER BY {self.order}) "
            f"TO '{self.path}/part-0.parquet' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {self.group_rows})"
        )
        db.close()

    def start_stream(self) -> None:
        self.path.mkdir()
        self._parts = 0

    def commit(self, batch: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([with_keys(batch, self.data.domain)])
        table = table.sort_by("m").drop_columns(["m"])
        pq.write_table(
            table,
            self.path / f"part-{self._parts}.parquet",
            row_group_size=self.group_rows,
            compression="zstd",
        )
        self._parts += 1

    def end_stream(self) -> None:
        pass

    def open(self) -> None:
        self._db = duckdb.connect(config={"threads": CORES})
        self._db.execute("SET preserve_insertion_order = false")
        # Caches footers between queries, as its guide recommends for many queries.
        self._db.execute("SET parquet_metadata_cache = true")
        self._db.execute(f"CREATE VIEW t AS FROM read_parquet('{self.path}/*.parquet')")
