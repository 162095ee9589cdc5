"""PostGIS: a table with a spatial index of the positions, and B-trees of times and objects.

PostgreSQL's environment variables (``PGHOST``, ``PGDATABASE``, ``PGUSER``, ``PGPASSWORD``) define
the database.
"""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._libraries import need
from .answers import Answered
from .loaded import Loaded
from .sql import Dialect, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question

TYPES = {
    "int8": "smallint", "uint8": "smallint", "int16": "smallint", "uint16": "integer",
    "int32": "integer", "uint32": "bigint", "int64": "bigint", "uint64": "numeric",
    "float": "real", "double": "double precision", "bool": "boolean", "timestamp": "timestamp",
    "date32": "date",
}  # fmt: skip
ALL = 1e30
"""A bound of the box along an axis that a query does not limit."""


class PostGIS(Loaded):
    def __init__(self, name: str, path: Path) -> None:
        self._driver = need("psycopg", "a workload on PostGIS")
        super().__init__(name, path)
        self._own = threading.local()
        self._connections: list[Any] = []
        columns = ", ".join(map(quoted, self.rows.column_names))
        self._dialect = Dialect(
            "PostGIS", self.table, columns, {"mean(": "avg(", "std(": "stddev_samp("}
        )
        try:
            self._load()
        except self._driver.Error as error:
            self.close()
            raise InvalidInput(f"{name}: {' '.join(str(error).split())}") from None

    def _load(self) -> None:
        run = self._cursor().execute
        run("CREATE EXTENSION IF NOT EXISTS postgis")
        listed = [f"{quoted(c)} {kind}" for c, kind in self.types(TYPES, "text").items()]
        if self.positions:
            point = ", ".join(f"{quoted(name)}::float8" for name in self.positions)
            # No column of the file has this name.
            listed.append(
                f"kubist_point geometry GENERATED ALWAYS AS (ST_MakePoint({point})) STORED"
            )
        run(f"CREATE UNLOGGED TABLE {self.table} ({', '.join(listed)})")
        self.append(self.rows)
        if self.positions:
            run(f"CREATE INDEX ON {self.table} USING gist (kubist_point gist_geometry_ops_nd)")
        for column in (*self.times, *self.objects):
            run(f"CREATE INDEX ON {self.table} ({quoted(column)})")
        run(f"VACUUM ANALYZE {self.table}")

    def _cursor(self) -> Any:
        """The cursor of this thread, on a separate connection."""
        if not hasattr(self._own, "cursor"):
            connection = self._driver.connect(autocommit=True)
            self._connections.append(connection)
            self._own.cursor = connection.cursor(binary=True)
        return self._own.cursor

    def ask(self, question: Question) -> Answered:
        box = question.asked.get("box", {})
        near = []
        if any(name in box for name in self.positions):
            ends = [box.get(name, (-ALL, ALL)) for name in self.positions]
            low, high = (", ".join(repr(float(end[at])) for end in ends) for at in (0, 1))
            line = f"ST_MakeLine(ST_MakePoint({low}), ST_MakePoint({high}))"
            # The operator compares bounding boxes, and the box of the line is the query's.
            near = [f"kubist_point &&& {line}"]
        cursor = self._cursor().execute(self._dialect.sql(question, near))
        rows = len(cursor.fetchall())
        return Answered(1 if question.verb != "query" else rows)

    def append(self, rows: pa.Table) -> None:
        from pyarrow import csv

        text = io.BytesIO()
        csv.write_csv(rows, text, csv.WriteOptions(include_header=False))
        columns = ", ".join(map(quoted, rows.column_names))
        into = f"COPY {self.table} ({columns}) FROM STDIN (FORMAT csv)"
        with self._cursor().copy(into) as copy:
            copy.write(text.getvalue())

    def close(self) -> None:
        if self._connections:
            self._cursor().execute(f"DROP TABLE IF EXISTS {self.table}")
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._own = threading.local()
