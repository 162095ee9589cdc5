"""SQL with DuckDB over one or several tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import polars as pl


def by_duckdb(query: str, tables: Mapping[str, Any]) -> pl.DataFrame:
    """The result of a query of datasets by name. DuckDB pushes columns and filters into them.

    Raises
    ------
    InvalidInput
        The query is not one SELECT, or DuckDB refuses it, with its message.
    """
    duckdb, polars = need("duckdb", "sql(engine='duckdb')"), need("polars", "sql()")
    with duckdb.connect() as connection:
        # Without this, a name in the query could be a variable of the caller.
        connection.execute("SET python_enable_replacements = false")
        for name, dataset in tables.items():
            connection.register(name, dataset)
        try:
            kinds = [one.type for one in connection.extract_statements(query)]
            # Other statements could write files.
            if kinds != [duckdb.StatementType.SELECT]:
                raise InvalidInput("sql: expected one SELECT")
            found = _interruptible(connection, lambda: connection.sql(query).to_arrow_table())
        except duckdb.Error as error:
            names = ", ".join(tables)
            raise InvalidInput(f"sql: {error}; the tables are called {names}") from error
    frame: pl.DataFrame = polars.from_arrow(found)
    return frame


def _interruptible(connection: Any, work: Callable[[], Any]) -> Any:
    """The result of work in another thread, because DuckDB may miss Ctrl-C in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            while not wait([future], timeout=0.05).done:
                pass
        except BaseException:
            # Repeated, because the query may not have begun.
            while not wait([future], timeout=0.01).done:
                connection.interrupt()
            raise
        return future.result()
