"""Without an index: Arrow columns by memory map, scanned with numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..keys import column, uniform
from ..question import Answer, Question
from .base import System

_COMPARE = {">": np.greater, "<": np.less}


class ArrowScan(System):
    name = "numpy scan"
    package = "numpy"
    settings = (
        "one uncompressed Arrow file by memory map; numpy comparisons chunk by chunk (the box's "
        "columns in sequence, each on the remaining rows), then `take`"
    )
    indexes = False

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.start_stream()
        for batch in batches:
            self._write(batch)
        self.end_stream()

    def _write(self, batch: pa.RecordBatch) -> None:
        self._file.write_batch(batch.append_column("r", pa.array(uniform(batch))))

    def start_stream(self) -> None:
        self.path.mkdir()
        self._parts = 0
        schema = self.data.schema.append(pa.field("r", pa.float32()))
        self._file = pa.ipc.new_file(str(self.path / "bulk.arrow"), schema)

    def commit(self, batch: pa.RecordBatch) -> None:
        batch = batch.append_column("r", pa.array(uniform(batch)))
        with pa.ipc.new_file(str(self.path / f"{self._parts}.arrow"), batch.schema) as file:
            file.write_batch(batch)
        self._parts += 1

    def end_stream(self) -> None:
        self._file.close()

    def open(self) -> None:
        files = sorted(self.path.glob("*.arrow"))
        self._batches = [
            batch
            for file in files
            for batch in _batches(pa.ipc.open_file(pa.memory_map(str(file))))
        ]

    def ask(self, question: Question) -> Answer:
        if question == Question():
            return self._copy()
        schema = self._batches[0].schema
        found = [self._matching(batch, question) for batch in self._batches]
        table = pa.Table.from_batches(found, schema=schema)
        if question.limit is not None and table.num_rows > question.limit:
            if question.any_rows:
                table = table.slice(0, question.limit)
            else:
                lowest = np.argpartition(column(table, "r"), question.limit)
                table = table.take(lowest[: question.limit])
        return Answer(table.select(self.data.columns), rows_read=_rows(self._batches))

    def _copy(self) -> Answer:
        schema, total, copies = self.data.schema, _rows(self._batches), []
        for name in schema.names:
            copy, place = np.empty(total, _raw(self._batches[0], name).dtype), 0
            for batch in self._batches:
                values = _raw(batch, name)
                np.copyto(copy[place : place + len(values)], values)
                place += len(values)
            copies.append(pa.array(copy))
        return Answer(pa.table(copies, schema=schema), rows_read=total)

    def _matching(self, batch: pa.RecordBatch, question: Question) -> pa.RecordBatch:
        left: np.ndarray | None = None
        for name, test in _tests(question):
            values = column(batch, name)
            if left is None:
                left = np.flatnonzero(test(values))
            else:
                left = left[test(values[left])]
            if not len(left):
                return batch.slice(0, 0)
        return batch if left is None else batch.take(pa.array(left))

    def scan(self) -> int:
        """Copies all columns repeatedly into the same memory: a warm numpy copy."""
        warm: dict[str, np.ndarray] = {}
        for batch in self._batches:
            for name in self.data.columns:
                values = _raw(batch, name)
                if name not in warm or len(warm[name]) < len(values):
                    warm[name] = np.empty_like(values)
                np.copyto(warm[name][: len(values)], values)
        return _rows(self._batches)

    def close(self) -> None:
        # Mapped pages would stay in memory when the caches are dropped.
        self._batches = []


def _raw(batch: pa.RecordBatch, name: str) -> np.ndarray:
    """The stored bytes, also of booleans, which numpy cannot map."""
    values = batch.column(name)
    if pa.types.is_boolean(values.type):
        return values.to_numpy(zero_copy_only=False)
    return values.to_numpy()


def _tests(question: Question):
    for name, (low, high) in question.box.items():
        low, high = np.float32(low), np.float32(high)
        yield name, lambda v, low=low, high=high: (v >= low) & (v <= high)
    if question.share is not None:
        yield "r", lambda v: v < np.float32(question.share)
    if question.where is not None:
        name, operator, value = question.where
        yield name, lambda v: _COMPARE[operator](v, np.float32(value))
    if question.particle is not None:
        yield "pid", lambda v: v == question.particle


def _batches(file: pa.ipc.RecordBatchFileReader) -> list[pa.RecordBatch]:
    return [file.get_batch(place) for place in range(file.num_record_batches)]


def _rows(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)
