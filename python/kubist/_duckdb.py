"""SQL queries that DuckDB runs over datasets of Kubist.

DuckDB pushes filters into a dataset only where pyarrow's comparison has the same meaning. It keeps
lower bounds of floating-point columns, because its NaN is above all numbers. So this module first
prunes the dataset by the conditions in DuckDB's syntax tree, which DuckDB applies again,
unless Kubist gives them the same meaning: these are removed from the tree.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import InvalidInput
from ._libraries import need
from ._pushdown import All, Compare, Condition, IsNull, Not, OneOf, Some, Truth

if TYPE_CHECKING:
    import polars as pl

    from ._dataset import Dataset

OPERATORS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}

_databases: dict[int, Any] = {}
"""A database in memory by process, because opening takes as long as many queries."""


def _connection() -> Any:
    process = os.getpid()
    if process not in _databases:
        database = need("duckdb", "sql(engine='duckdb')").connect()
        # Otherwise a name in the query could be a variable of the caller.
        database.execute("SET GLOBAL python_enable_replacements = false")
        _databases[process] = database
    return _databases[process].cursor()


def answer(query: str, tables: Mapping[str, Dataset]) -> pl.DataFrame:
    """Runs a single SELECT over datasets by name.

    Raises
    ------
    InvalidInput
        The query is not one SELECT, or DuckDB refuses it, with its message.
    """
    duckdb, polars = need("duckdb", "sql(engine='duckdb')"), need("polars", "sql()")
    with _connection() as connection:
        try:
            kinds = [one.type for one in connection.extract_statements(query)]
            # Other statements could write files.
            if kinds != [duckdb.StatementType.SELECT]:
                raise InvalidInput("sql: expected one SELECT")
            text = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
            tree, is_shorter = json.loads(text[0][0]), False
            for name, dataset in tables.items():
                uses = _uses(tree, name, dataset.schema.names)
                only = dataset.restricted(uses[0].condition) if len(uses) == 1 else None
                if only is not None:
                    uses[0].node["where_clause"], is_shorter = None, True
                connection.register(
                    name, only or dataset.narrowed(Some([use.condition for use in uses]))
                )
            found = _interruptible(connection, lambda: _rows(connection, query, tree, is_shorter))
        except duckdb.Error as error:
            names = ", ".join(tables)
            raise InvalidInput(f"sql: {error}; the tables are called {names}") from error
    frame: pl.DataFrame = polars.from_arrow(found)
    return frame


def _interruptible(connection: Any, work: Callable[[], Any]) -> Any:
    """Runs work in another thread, because DuckDB may miss Ctrl-C in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            while not wait([future], timeout=0.05).done:
                pass
        except BaseException:
            # Repeated, because the query may not have started.
            while not wait([future], timeout=0.01).done:
                connection.interrupt()
            raise
        return future.result()


def _rows(connection: Any, query: str, tree: Any, is_shorter: bool) -> Any:
    if is_shorter:
        # If the shorter query fails, the original query fails too, and its error names the right
        # position.
        with suppress(need("duckdb", "sql(engine='duckdb')").Error):
            text = "SELECT json_deserialize_sql(?::JSON)"
            ((shorter,),) = connection.execute(text, [json.dumps(tree)]).fetchall()
            return connection.sql(shorter).to_arrow_table()
    return connection.sql(query).to_arrow_table()


class _Use(NamedTuple):
    """A SELECT of a table in a query's tree, with its condition."""

    node: dict[str, Any]
    condition: Condition


def _uses(tree: Any, table: str, columns: list[str]) -> list[_Use]:
    """All uses of a table in a query, from DuckDB's ``json_serialize_sql``.

    The list is empty if the query uses the table in any other way than a SELECT from it alone.
    """
    count, uses = 0, []
    for node in _nodes(tree):
        if node.get("type") == "BASE_TABLE" and _same(node.get("table_name"), table):
            count += 1
        elif _same(node.get("key"), table):
            # A common table expression hides the table.
            return []
        elif node.get("type") == "SELECT_NODE":
            place = node.get("from_table") or {}
            if (
                place.get("type") == "BASE_TABLE"
                and _same(place.get("table_name"), table)
                and place.get("sample") is None
                # DuckDB samples before it applies the condition.
                and node.get("sample") is None
                and not place.get("column_name_alias")
            ):
                names = {name.lower(): name for name in columns}
                if len(names) == len(columns):
                    reader = _Reader(names, str(place.get("alias") or table).lower())
                    uses.append(_Use(node, reader.condition(node.get("where_clause"))))
    return uses if len(uses) == count else []


def _same(name: Any, other: str) -> bool:
    return isinstance(name, str) and name.lower() == other.lower()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


class _Reader:
    def __init__(self, columns: Mapping[str, str], alias: str) -> None:
        self._columns = columns
        self._alias = alias

    def condition(self, node: Any) -> Condition:
        if not isinstance(node, dict):
            return None
        kind = node.get("type")
        children = node.get("children", [])
        if kind == "CONJUNCTION_AND":
            return All([self.condition(part) for part in children])
        if kind == "CONJUNCTION_OR":
            return Some([self.condition(part) for part in children])
        if kind == "OPERATOR_NOT" and len(children) == 1:
            return Not(self.condition(children[0]))
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL") and len(children) == 1:
            column = self._column(children[0])
            found = None if column is None else IsNull(column)
            return found if kind == "OPERATOR_IS_NULL" or found is None else Not(found)
        if kind == "COMPARE_BETWEEN":
            column = self._column(node.get("input"))
            ends = (_literal(node.get("lower")), _literal(node.get("upper")))
            if column is None or None in ends:
                return None
            return All([Compare(column, ">=", ends[0]), Compare(column, "<=", ends[1])])
        if kind == "COMPARE_IN" and children:
            column, values = self._column(children[0]), [_literal(each) for each in children[1:]]
            return None if column is None or None in values else OneOf(column, values)
        if kind == "COLUMN_REF":
            column = self._column(node)
            return None if column is None else Truth(column)
        if kind in OPERATORS:
            return self._compare(OPERATORS[kind], node.get("left"), node.get("right"))
        return None

    def _compare(self, op: str, left: Any, right: Any) -> Condition:
        column, value = self._column(left), _literal(right)
        if column is None:
            column, value, op = self._column(right), _literal(left), FLIPPED[op]
        return None if column is None or value is None else Compare(column, op, value)

    def _column(self, node: Any) -> str | None:
        if not isinstance(node, dict) or node.get("type") != "COLUMN_REF":
            return None
        match [str(part).lower() for part in node.get("column_names", [])]:
            case [name]:
                return self._columns.get(name)
            case [table, name] if table == self._alias and table not in self._columns:
                return self._columns.get(name)
        return None


def _literal(node: Any) -> int | float | Decimal | str | None:
    if not isinstance(node, dict):
        return None
    if node.get("type") == "OPERATOR_CAST":
        name, value = (node.get("type_expr") or {}).get("type_name"), _literal(node.get("child"))
        is_number = isinstance(value, (int, Decimal))
        return float(value) if is_number and name == "DOUBLE" else None
    match node.get("literal"):
        case {"kind": "INTEGER", "text": str(text)} if text.lstrip("-").isdigit():
            return int(text)
        case {"kind": "NUMERIC", "text": str(text)}:
            try:
                return Decimal(text)
            except InvalidOperation:
                return None
        case {"kind": "STRING", "text": str(text)}:
            return text
    return None
