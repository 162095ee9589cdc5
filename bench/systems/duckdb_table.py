"""DuckDB with its own table, in Morton order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import duckdb
import pyarrow as pa

from ..keys import keyed_schema, with_keys
from ..question import Answer, Question, Unable
from .base import CORES, System


class DuckTable(System):
    name = "DuckDB table"
    package = "duckdb"
    settings = (
        "its own table in Morton order, so that its zone maps prune, as its guide on indexing "
        "advises; all cores"
    )
    durable = True
    order: ClassVar[str] = "m"
    index: ClassVar[str | None] = None

    def _connect(self, read_only: bool = False) -> None:
        file = self.path / "table.duckdb"
        self._db = duckdb.connect(str(file), read_only=read_only, config={"threads": CORES})
        # Table order is not needed, and limits parallelism.
        self._db.execute("SET preserve_insertion_order = false")

    def _source(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
        keyed = (with_keys(batch, self.data.domain) for batch in batches)
        return pa.RecordBatchReader.from_batches(keyed_schema(self.data.schema), keyed)

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.path.mkdir()
        self._connect()
        self._db.execute("SET preserve_insertion_order = true")
        source = self._source(batches)
        self._db.register("source", source)
        self._db.execute(
            f"CREATE TABLE t AS SELECT * EXCLUDE (m) FROM source ORDER BY {self.order}"
        )
        if self.index:
            self._db.execute(f"CREATE INDEX by_{self.index} ON t ({self.index})")
        self._db.execute("CHECKPOINT")
        self._db.close()

    def start_stream(self) -> None:
        self.path.mkdir()
        self._connect()
        self._db.register("source", keyed_schema(self.data.schema).empty_table())
        self._db.execute("CREATE TABLE t AS SELECT * EXCLUDE (m) FROM source")
        self._db.unregister("source")

    def commit(self, batch: pa.RecordBatch) -> None:
        self._db.register("source", with_keys(batch, self.data.domain).drop_columns(["m"]))
        self._db.execute("INSERT INTO t FROM source")
        self._db.unregister("source")

    def open(self) -> None:
        self._connect(read_only=True)

    def ask(self, question: Question) -> Answer:
        sql = question.sql(self.data.columns, "t", question.conditions(literal=_float))
        return Answer(self._db.sql(sql).to_arrow_table())

    def scan(self) -> int:
        reader = self._db.execute(f"SELECT {', '.join(self.data.columns)} FROM t").to_arrow_reader(
            1 << 16
        )
        return sum(batch.num_rows for batch in reader)

    def close(self) -> None:
        self._db.close()


def _float(value: float) -> str:
    return f"{value!r}::FLOAT"


class DuckLayers(DuckTable):
    """A manual approximation of sampling in layers, which no other system has built in."""

    name = "DuckDB table, layered by hand"
    settings = (
        "as DuckDB table, but ordered by the decade of `r` first, then Morton: zone maps of `r` "
        "then prune samples"
    )
    product = False
    order = (
        "CASE WHEN r < 0.0001 THEN 0 WHEN r < 0.001 THEN 1 WHEN r < 0.01 THEN 2 "
        "WHEN r < 0.1 THEN 3 ELSE 4 END, m"
    )

    def start_stream(self) -> None:
        raise Unable("commits come in order of time, so the layers exist only after a bulk build")


class DuckIndex(DuckTable):
    name = "DuckDB table, index on pid"
    settings = "as DuckDB table, with its ART index on pid"
    index = "pid"
