"""Systems that answer the questions of a workload: Kubist tables and servers, DuckDB, Parquet."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .. import _create
from .._errors import InvalidInput
from .._libraries import need
from .._remote import RemoteTable, connect
from .draws import Question

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Answered:
    """The rows of an answer and the cost, as far as the system tells them.

    Attributes:
        rows: Returned rows; 1 for a count and an estimate.
        read: Rows that were decoded; None: unknown.
        cubes: Cubes of the index that were visited.
        bytes: Read from the store and from caches.
        trips: Requests for bytes.
    """

    rows: int
    read: int | None = None
    cubes: int = 0
    bytes: int = 0
    trips: int = 0


class Target(Protocol):
    """A system that several threads ask at once."""

    name: str

    def ask(self, question: Question) -> Answered: ...

    def append(self, rows: pa.Table) -> None: ...

    def sample(self, rows: int) -> pa.Table: ...

    def close(self) -> None: ...


def opened(location: str) -> Target:
    """The system at a location.

    Parameters
    ----------
    location
        A table; the address of a server (``http://``); a Parquet file, which DuckDB reads; or
        ``duckdb:FILE.parquet``, a table that DuckDB loads into its memory.
    """
    if location.startswith(("http://", "https://")):
        return Kubist(location, connect(location))
    if location.startswith("duckdb:"):
        return DuckDB(location, Path(location.removeprefix("duckdb:")), in_memory=True)
    if Path(location).suffix == ".parquet":
        return DuckDB(location, Path(location), in_memory=False)
    return Kubist(location, _create.open(location))


class Kubist:
    """A table, opened here or on a server."""

    def __init__(self, name: str, table: Any) -> None:
        self.name = name
        self._table = table

    def ask(self, question: Question) -> Answered:
        table, asked = self._table, question.asked
        if question.verb == "count":
            table.count(**asked)
            return Answered(1)
        if question.verb == "estimate":
            stats = table.estimate(**asked).stats
            read = stats.bytes_read + stats.bytes_cached
            return Answered(1, stats.rows_read, stats.cubes_visited, read, stats.round_trips)
        result = table.query(**asked)
        rows = result.to_arrow().num_rows
        if isinstance(table, RemoteTable):
            # A server does not report the cost of its results.
            return Answered(rows)
        stats = result.stats
        bytes_ = stats.bytes_read + stats.bytes_cached
        return Answered(rows, stats.rows_read, stats.cubes_visited, bytes_, stats.round_trips)

    def append(self, rows: pa.Table) -> None:
        if not hasattr(self._table, "append"):
            raise InvalidInput(
                f"{self.name}: a server takes no rows: give the location of the table"
            )
        self._table.append(rows)

    def sample(self, rows: int) -> pa.Table:
        return self._table.query(limit=rows).to_arrow()

    def close(self) -> None:
        self._table.close()


class DuckDB:
    """Rows of a Parquet file, in the memory of DuckDB or read from the file by each question."""

    def __init__(self, name: str, path: Path, *, in_memory: bool) -> None:
        self.name = name
        duckdb = need("duckdb", "a workload on Parquet")
        if not path.exists():
            raise InvalidInput(f"{path}: there is no such file")
        self._connection = duckdb.connect()
        kind = "TABLE" if in_memory else "VIEW"
        source = str(path).replace("'", "''")
        self._connection.execute(f"CREATE {kind} t AS SELECT * FROM read_parquet('{source}')")
        self._in_memory = in_memory
        self._own = threading.local()

    def ask(self, question: Question) -> Answered:
        text = sql(question)
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


def sql(question: Question) -> str:
    """The question as SQL of DuckDB, about the table ``t``.

    Raises
    ------
    InvalidInput
        The question has a parameter that has no SQL.
    """
    asked = dict(question.asked)
    chosen: Any = asked.pop("columns", None)
    conditions = [_between(name, ends) for name, ends in asked.pop("box", {}).items()]
    if (where := asked.pop("where", None)) is not None:
        conditions.append(f"({where})")
    asked.pop("error", None)
    asked.pop("within", None)
    if question.verb == "count":
        what = "count(*)"
    elif question.verb == "estimate":
        aggregates = asked.pop("aggregates")
        listed = [aggregates] if isinstance(aggregates, str) else list(aggregates)
        # The aggregates of DuckDB have the same names, apart from these.
        what = ", ".join(
            text.replace("mean(", "avg(").replace("std(", "stddev(") for text in listed
        )
    else:
        what = ", ".join(chosen) if chosen else "*"
    text = f"SELECT {what} FROM t"
    if (sample := asked.pop("sample", None)) is not None:
        share = _fraction(sample)
        text += f" TABLESAMPLE BERNOULLI({100 * share!r} PERCENT)"
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if (groups := asked.pop("group_by", None)) is not None:
        listed = [groups] if isinstance(groups, str) else list(groups)
        text += f" GROUP BY {', '.join(listed)}"
    if (order := asked.pop("order_by", None)) is not None:
        text += f" ORDER BY {order if isinstance(order, str) else ', '.join(order)}"
    if (limit := asked.pop("limit", None)) is not None:
        text += f" LIMIT {int(limit)}"
    if asked:
        raise InvalidInput(f"the query {question.name!r}: DuckDB has no {', '.join(asked)}")
    return text


def _between(name: str, ends: tuple[Any, Any]) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    low, high = (_literal(end) for end in ends)
    return f"{quoted} BETWEEN {low} AND {high}"


def _literal(value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return repr(value).upper() if isinstance(value, bool) else repr(value)
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'"


def _fraction(sample: float | str) -> float:
    if isinstance(sample, str):
        return float(sample.rstrip("% ")) / (100 if "%" in sample else 1)
    return float(sample)
