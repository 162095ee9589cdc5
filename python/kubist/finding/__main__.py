"""The program of `kubist nearest`, `within`, `crossmatch`, `pairs`, `cluster` and `friends`.

The verbs and options have the names of the methods of `kubist.Table` and of their parameters.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _box, _create
from .._command import fail
from .._errors import Error, InvalidInput, NotATable
from .._libraries import need
from .._result import Result
from .._table import Table
from ..ingesting import formats
from ..ingesting.source import Options, State, next_item
from . import arguments
from .output import Output, Progress

if TYPE_CHECKING:
    import pyarrow as pa


def main(words: Sequence[str]) -> int:
    try:
        asked = arguments.parser().parse_args(words)
        output = Output(asked.output, asked.format, asked.json)
        with _create.open(asked.table) as table, Progress() as progress:
            try:
                output.write(table, _found(table, asked), progress)
            except InvalidInput as error:
                raise InvalidInput(_with_tables(str(error), asked)) from None
    except BrokenPipeError:
        # The reader has closed our output, which is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, Error, OSError, ImportError) as error:
        return fail(error)
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _with_tables(message: str, asked: argparse.Namespace) -> str:
    """The message with the names of the tables, unless it begins with an option or a path."""
    other, points = getattr(asked, "other", None), getattr(asked, "points", None)
    if message.startswith(("--", *(f"{path}:" for path in (asked.output, other, points) if path))):
        return message
    return f"{asked.table}{f' and {other}' if other else ''}: {message}"


def _found(table: Table, asked: argparse.Namespace) -> Result:
    options = _options(table, asked)
    match asked.verb:
        case "nearest":
            radius = arguments.length(asked.radius)
            return table.nearest(_points(table, asked, options), asked.k, radius=radius, **options)
        case "within":
            points = _points(table, asked, options)
            return table.within(points, arguments.length(asked.radius), **options)
        case "crossmatch":
            options |= {
                "other_on": arguments.names("other-on", asked.other_on),
                "other_sphere": arguments.pair("other-sphere", asked.other_sphere),
                "other_where": asked.other_where,
                "other_columns": arguments.names("other-columns", asked.other_columns),
            }
            other, radius = _data(asked.other), arguments.length(asked.radius)
            return table.crossmatch(other, radius, arguments.best(asked.best), **options)
        case "pairs":
            return table.pairs(arguments.length(asked.radius), **options)
        case "cluster":
            return table.cluster(arguments.length(asked.eps), asked.min_samples, **options)
    if asked.b is not None and asked.length is not None:
        raise InvalidInput("--b: --length replaces it; give one of both")
    return table.friends(
        0.2 if asked.b is None else asked.b,
        length=arguments.length(asked.length),
        volume=asked.volume,
        min_members=asked.min_members,
        **options,
    )


def _options(table: Table, asked: argparse.Namespace) -> dict[str, Any]:
    return {
        "on": arguments.names("on", asked.on),
        "period": arguments.periods(asked.period),
        "sphere": arguments.pair("sphere", asked.sphere),
        "tile_rows": asked.tile_rows,
        "box": arguments.box(asked.box, table.schema),
        "where": asked.where,
        "region": arguments.region(asked.region),
        "sample": None if asked.sample is None else _box.fraction("--sample", asked.sample),
        "steps": arguments.steps(asked.steps),
        "columns": arguments.names("columns", asked.columns),
    }


def _points(table: Table, asked: argparse.Namespace, options: Mapping[str, Any]) -> Any:
    axes = options["sphere"] or options["on"] or table.sphere or table._dimensions()
    if (asked.at is None) == (asked.points is None):
        raise InvalidInput(
            f"--at: give positions of {', '.join(axes)}, by --at or by --points, and not by both"
        )
    if asked.at is not None:
        return arguments.positions(asked.at, axes)
    data = _data(asked.points)
    if not isinstance(data, Table):
        return data
    with data:
        return data.query(columns=axes).to_arrow()


def _data(location: str) -> Table | pa.Table:
    try:
        return _create.open(location)
    except NotATable:
        path = Path(location)
        if not path.is_file():
            raise
    pa = need("pyarrow", location)
    return pa.concat_tables(_rows(path), promote_options="permissive")


def _rows(path: Path) -> Iterator[pa.Table]:
    kind = formats.of(path, None, False)
    assert kind is not None, "only a folder has no format"
    kind.need(path)
    source = kind.open(path, Options())
    yield source.schema.empty_table()
    for step in source.steps(lambda _label: None):
        rows = step.read(State(schema=source.schema))
        while (part := next_item(rows, path)) is not None:
            yield part


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(sys.argv[1:]))
