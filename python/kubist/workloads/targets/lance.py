"""Lance: a dataset with B-trees of columns of positions, times and objects."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..._libraries import need
from .answers import Answered
from .loaded import Loaded
from .sql import Dialect, fraction

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question

DIALECT = Dialect(
    "Lance",
    "dataset",
    aggregates={"mean(": "avg(", "std(": "stddev("},
    lacks=("sample",),
    quote="`",
)


class Lance(Loaded):
    def __init__(self, name: str, path: Path) -> None:
        lance = need("lance", "a workload on Lance", "lance")
        super().__init__(name, path)
        self._folder = tempfile.TemporaryDirectory(prefix="kubist-lance-")
        self._dataset = lance.write_dataset(self.rows, Path(self._folder.name) / "rows.lance")
        for column in (*self.positions, *self.times, *self.objects):
            self._dataset.create_scalar_index(column, "BTREE")

    def ask(self, question: Question) -> Answered:
        asked = question.asked
        if question.verb == "query" and set(asked) == {"sample"}:
            count = round(fraction(asked["sample"]) * self._dataset.count_rows())
            return Answered(self._dataset.sample(count).num_rows)
        if question.verb != "query" or "order_by" in asked:
            text = DIALECT.sql(question)
            batches = self._dataset.sql(text).build().to_batch_records()
            return Answered(
                1 if question.verb != "query" else sum(batch.num_rows for batch in batches)
            )
        known = ("box", "where", "columns", "limit")
        DIALECT.check(question, [name for name in asked if name not in known])
        condition = " AND ".join(DIALECT.conditions(question)) or None
        found = self._dataset.to_table(asked.get("columns"), condition, asked.get("limit"))
        return Answered(found.num_rows)

    def append(self, rows: pa.Table) -> None:
        self._dataset.insert(rows, mode="append")

    def close(self) -> None:
        self._folder.cleanup()
