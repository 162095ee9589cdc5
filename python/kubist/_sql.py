"""SQL over one or several tables: queries that Ctrl-C stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Thread
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import _duckdb
from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import polars as pl
    from polars.lazyframe.in_process import InProcessQuery

    from ._dataset import Dataset


class SqlSource(NamedTuple):
    source: Callable[[], Any]
    """Its rows for Polars: a source of `lazy_frame`."""
    dataset: Callable[[], Dataset]
    """Its rows for DuckDB."""


class SqlTable(Protocol):
    def _sql_source(self, asked: Any) -> SqlSource: ...


def _others(tables: Mapping[str, SqlTable] | None) -> dict[str, SqlSource]:
    if tables is None:
        return {}
    if not isinstance(tables, Mapping) or not all(
        isinstance(name, str) and hasattr(table, "_sql_source") for name, table in tables.items()
    ):
        raise InvalidInput(
            f"tables: expected tables by name, as {{'m': materials}}, not {tables!r}"
        )
    if "self" in tables:
        raise InvalidInput("tables: self is the table of this call: use another name")
    return {name: table._sql_source({}) for name, table in tables.items()}


def run(
    query: str, engine: str, own: SqlSource, tables: Mapping[str, SqlTable] | None
) -> pl.DataFrame:
    """Runs a single SELECT over ``own``, which is called ``self``, and other tables.

    Raises
    ------
    InvalidInput
        The query, the engine or a table is not possible.
    """
    polars = need("polars", "sql()")
    if not isinstance(query, str):
        raise InvalidInput(f"sql: expected text like 'SELECT x FROM self', not {query!r}")
    if engine not in ("polars", "duckdb"):
        raise InvalidInput(f"engine: expected 'polars' or 'duckdb', not {engine!r}")
    relations = {"self": own, **_others(tables)}
    if engine == "duckdb":
        return _duckdb.answer(query, {name: one.dataset() for name, one in relations.items()})
    try:
        return by_polars(query, {name: one.source() for name, one in relations.items()})
    except polars.exceptions.PolarsError as error:
        raise InvalidInput(f"sql: {_message(error)}") from error


def by_polars(query: str, sources: Mapping[str, Any]) -> pl.DataFrame:
    """The result of a query of sources by name, without integer overflow."""
    from ._scan import lazy_frame

    polars = need("polars", "sql()")
    if not _MAY_WRAP.search(query):
        context = polars.SQLContext({name: lazy_frame(one) for name, one in sources.items()})
        return collected(context.execute(query))
    for one in sources.values():
        _refuse_long_sums(query, lazy_frame(one))
    # Polars adds in the type of the column, which can overflow, so the query runs on wider
    # integers.
    empty = {name: one.empty.to_polars().lazy() for name, one in sources.items()}
    types = polars.SQLContext(empty).execute(query).collect_schema()
    frames = {name: lazy_frame(one, wide=True) for name, one in sources.items()}
    frame = collected(polars.SQLContext(frames).execute(query))
    return frame.with_columns(
        frame[name].cast(kind)
        for name, kind in types.items()
        if kind.is_integer() and kind != frame[name].dtype and _fits(frame[name], kind)
    )


def _refuse_long_sums(query: str, frame: pl.LazyFrame) -> None:
    """Raises `InvalidInput` if a sum of durations may exceed Polars' 64 bits."""
    polars = need("polars", "sql()")
    for name, kind in frame.collect_schema().items():
        if kind != polars.Duration or name.lower() not in query.lower():
            continue
        ticks = polars.col(name).to_physical().cast(polars.Int128).abs().sum()
        if collected(frame.select(ticks)).item() >= 2**63:
            raise InvalidInput(
                f"sql: a sum of {name} may exceed a duration of 64 bits: sum its ticks with "
                f"CAST({name} AS HUGEINT)"
            )


_MAY_WRAP = re.compile(
    r"""\b(?:sum|pow|power)\s*\(|[\w)"'`.]\s*(?:[-+]|\*(?!\s*from\b))\s*[\w("'`]""", re.IGNORECASE
)
"""Sums, powers and arithmetic."""


def _fits(values: pl.Series, kind: pl.DataType) -> bool:
    return bool(values.cast(kind, strict=False).null_count() == values.null_count())


def _message(error: Exception) -> str:
    """The first line of a Polars error, without its plan."""
    text = str(error).partition("\n\nResolved plan")[0]
    line = " ".join(text.split())
    return f"{line}; the table is called self" if _NO_RELATION.search(line) else line


_NO_RELATION = re.compile(r"relation '.*' was not found")


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """The result of a Polars query.

    It runs in Polars' own threads, because in the main thread Polars answers Ctrl-C late, and
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
        # Polars ends the process if the result has no receiver.
        Thread(target=_received, args=(query,), daemon=True).start()
        raise
    return found


def _received(query: InProcessQuery) -> None:
    # Its panic is no `Exception`.
    with suppress(BaseException):
        query.fetch_blocking()
