"""Lance: a sorted data set with zone maps."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import numpy as np
import pyarrow as pa

from ..keys import column, sorted_by_key, with_keys
from ..question import Answer, Question
from .base import System


class Lance(System):
    name = "Lance"
    package = "pylance"
    settings = (
        "rows in Morton order, `ZONEMAP` scalar indexes on the dimensions (its guide: for values "
        "clustered in the file)"
    )
    btrees: tuple[str, ...] = ()

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        rows = sorted_by_key(batches, self.data.domain)
        lance.write_dataset(rows, str(self.path))
        self._index()

    def _index(self) -> None:
        data = lance.dataset(str(self.path))
        for name in self.data.domain:
            data.create_scalar_index(name, index_type="ZONEMAP")
        for name in self.btrees:
            data.create_scalar_index(name, index_type="BTREE")

    def start_stream(self) -> None:
        self._commits = 0

    def commit(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([with_keys(batch, self.data.domain)]).sort_by("m")
        mode = "append" if self._commits else "create"
        lance.write_dataset(rows.drop_columns(["m"]), str(self.path), mode=mode)
        self._commits += 1

    def end_stream(self) -> None:
        self._index()

    def open(self) -> None:
        self._data = lance.dataset(str(self.path))

    def ask(self, question: Question) -> Answer:
        said = question.conditions(literal=_float)
        filter = " AND ".join(said) or None
        columns = self.data.columns
        if question.limit is None or question.any_rows:
            return Answer(self._data.to_table(columns=columns, filter=filter, limit=question.limit))
        # Its own `order_by` fails with a scalar index, so the lowest rows are selected here.
        found = self._data.to_table(columns=[*columns, "r"], filter=filter)
        if found.num_rows > question.limit:
            lowest = np.argpartition(column(found, "r"), question.limit)
            found = found.take(lowest[: question.limit])
        return Answer(found.drop_columns(["r"]))

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self._data.to_batches(columns=self.data.columns))

    def close(self) -> None:
        del self._data


class LanceIndex(Lance):
    name = "Lance, B-tree on pid"
    settings = "as Lance, with a `BTREE` index on pid"
    btrees = ("pid",)


def _float(value: float) -> str:
    return f"CAST({value!r} AS FLOAT)"
