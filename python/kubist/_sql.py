"""SQL over one or several tables: queries that end at Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import polars as pl
    from polars.lazyframe.in_process import InProcessQuery


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """The result of a query of Polars.

    The query runs in Polars' own threads: in the main thread Polars answers Ctrl-C late, and
    twice.
    """
    query = frame.collect(background=True)
    pause = 0.0001
    try:
        while (found := query.fetch()) is None:
            sleep(pause)
            pause = min(2 * pause, 0.02)
    except BaseException:
        query.cancel()
        # Polars ends the process if nobody can receive the result.
        Thread(target=_received, args=(query,), daemon=True).start()
        raise
    return found


def _received(query: InProcessQuery) -> None:
    with suppress(Exception):
        query.fetch_blocking()


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
