"""DuckDB: rows of a Parquet file in its memory, or read from the file by each query."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._libraries import need
from .answers import Answered
from .sql import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question

DIALECT = Dialect("DuckDB", aggregates={"mean(": "avg(", "std(": "stddev("}, percent=" PERCENT")


class DuckDB:
    def __init__(self, name: str, path: Path, *, in_memory: bool = True) -> None:
        self.name = name
        duckdb = need("duckdb", "a workload on Parquet")
        self._connection = duckdb.connect()
        kind = "TABLE" if in_memory else "VIEW"
        source = str(path).replace("'", "''")
        self._connection.execute(f"CREATE {kind} t AS SELECT * FROM read_parquet('{source}')")
        self._in_memory = in_memory
        self._own = threading.local()

    def ask(self, question: Question) -> Answered:
        text = DIALECT.sql(question)
        rows = self._cursor().sql(text).to_arrow_table().num_rows
        return Answered(1 if question.verb != "query" else rows)

    def _cursor(self) -> Any:
        """The cursor of this thread."""
        if not hasattr(self._own, "cursor"):
            self._own.cursor = self._connection.cursor()
        return self._own.cursor

    def append(self, rows: pa.Table) -> None:
        if not self._in_memory:
            raise InvalidInput(f"{self.name}: rows cannot be added to a Parquet file")
        cursor = self._cursor()
        cursor.register("added", rows)
        cursor.execute("INSERT INTO t BY NAME SELECT * FROM added")
        cursor.unregister("added")

    def sample(self, rows: int) -> pa.Table:
        return self._cursor().sql(f"FROM t USING SAMPLE {int(rows)} ROWS").to_arrow_table()

    def close(self) -> None:
        self._connection.close()
