"""Kubist with its defaults."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

import kubist

from ..question import Answer, Question
from .base import System


class Kubist(System):
    name = "Kubist"
    package = "kubist"
    settings = (
        '`kubist.create` with the dimensions\' domains and `identity=["pid", "time"]`, all else '
        "by default"
    )
    sampling = "by priority, built in"
    durable = True
    optimize = False
    lookup: tuple[str, ...] = ()

    @classmethod
    def version(cls) -> str:
        return kubist.__version__

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.start_stream()
        for batch in batches:
            self._writer.append(batch)
        self._writer.commit()
        self._writer.close()

    def start_stream(self) -> None:
        # Only where secondary indexes are measured; other tables have the default.
        more = {"lookup": list(self.lookup)} if self.lookup else {}
        self._table = kubist.create(
            self.path,
            self.data.schema,
            dimensions=self.data.domain,
            identity=self.data.identity,
            **more,
        )
        self._writer = self._table.writer(optimize=self.optimize)

    def commit(self, batch: pa.RecordBatch) -> None:
        self._writer.append(batch)
        self._writer.commit()

    def end_stream(self) -> None:
        self._writer.close()
        self.close()

    def open(self) -> None:
        self._table = kubist.open(self.path)

    def _query(self, question: Question) -> kubist.Result:
        said = []
        if question.where is not None:
            column, operator, value = question.where
            said.append(f"{column} {operator} {value!r}")
        if question.particle is not None:
            said.append(f"pid = {question.particle}")
        return self._table.query(
            box=question.box or None,
            sample=question.share,
            limit=question.limit,
            where=" AND ".join(said) or None,
        )

    def ask(self, question: Question) -> Answer:
        result = self._query(question)
        table = result.to_arrow()
        return _answer(result, table)

    def scan(self) -> int:
        return sum(batch.num_rows for batch in self._table.query())

    def first(self, box: dict[str, tuple[float, float]]) -> Answer:
        result = next(self._table.refine(box=box or None))
        table = pa.Table.from_batches(list(islice(result, 1)), schema=result.schema)
        answer = _answer(result, table)
        result.close()
        return answer

    def close(self) -> None:
        self._table.close()


class KubistOptimizing(Kubist):
    """The same table, written with the optimizer in the background."""

    name = "Kubist, optimizing"
    settings = "as Kubist; `t.writer(optimize=True)` keeps the layout while it writes"
    optimize = True


class KubistLookup(Kubist):
    """The same table with a secondary index of particles."""

    name = "Kubist, lookup"
    settings = 'as Kubist, and `lookup=["pid"]`'
    lookup = ("pid",)


def _answer(result: kubist.Result, table: pa.Table) -> Answer:
    stats = result.stats
    return Answer(table, stats.rows_read, stats.bytes_read, stats.pages_read)
