"""chDB: ClickHouse in this process, a MergeTree with a sampling key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from chdb import session

from ..keys import with_keys
from ..question import Answer, Question
from .base import CORES, System

CELLS = 12
"""Bits of the Morton key in the sorting key; rows of a cell are sorted by their hash."""
_TYPES = {"int64": "Int64", "float": "Float32", "bool": "Bool"}


class ChDB(System):
    name = "chDB"
    package = "chdb"
    settings = (
        f"MergeTree, `ORDER BY` ({CELLS} bits of the Morton key, hash), minmax skip indexes on the "
        "dimensions, granules of 2,048 rows, LZ4, merged by `OPTIMIZE ... FINAL` after the bulk "
        "build; all cores"
    )
    sampling = "`SAMPLE BY` hash and `SAMPLE p`; for a limit, the lowest hash"
    readers = "threads"
    skip_indexes: tuple[str, ...] = ()

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.start_stream()
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            # A few large parts, as its guide recommends for inserts.
            if len(held) == 8:
                self._insert(pa.Table.from_batches(held))
                held = []
        if held:
            self._insert(pa.Table.from_batches(held))
        self._session.query("OPTIMIZE TABLE t FINAL")
        self.close()

    def start_stream(self) -> None:
        self.path.mkdir()
        self.open()
        columns = [f"{field.name} {_TYPES[str(field.type)]}" for field in self.data.schema]
        indexes = [f"INDEX i{name} {name} TYPE minmax GRANULARITY 1" for name in self.data.domain]
        columns += ["h UInt32", "c UInt16", *indexes, *self.skip_indexes]
        self._session.query(
            f"CREATE TABLE t ({', '.join(columns)}) ENGINE = MergeTree ORDER BY (c, h) "
            "SAMPLE BY h SETTINGS index_granularity = 2048"
        )

    def commit(self, batch: pa.RecordBatch) -> None:
        self._insert(pa.Table.from_batches([batch]))

    def _insert(self, rows: pa.Table) -> None:
        bits = 63 if len(self.data.domain) == 3 else 60
        batches = [with_keys(batch, self.data.domain) for batch in rows.to_batches()]
        keyed = pa.Table.from_batches(batches)  # noqa: F841
        names = ", ".join(self.data.columns)
        # It finds `keyed` by its name in this frame.
        self._session.query(
            f"INSERT INTO t SELECT {names}, toUInt32(r * 4294967296.), "
            f"toUInt16(bitShiftRight(m, {bits - CELLS})) FROM Python(keyed)"
        )

    def open(self) -> None:
        self._session = session.Session(str(self.path))
        self._session.query(f"SET max_threads = {CORES}")

    def ask(self, question: Question) -> Answer:
        source = "t"
        if question.share is not None:
            source = f"t SAMPLE {question.share:.6f}"
        said = question.conditions(literal=_float, sample=lambda _: "1")
        sql = question.sql(self.data.columns, source, said, order="h")
        return Answer(self._session.query(sql, "ArrowTable"))

    def close(self) -> None:
        self._session.close()


class ChDBIndex(ChDB):
    name = "chDB, bloom filter on pid"
    settings = "as chDB, with a bloom filter skip index on pid"
    skip_indexes = ("INDEX ipid pid TYPE bloom_filter GRANULARITY 1",)


def _float(value: float) -> str:
    return f"toFloat32({value!r})"
