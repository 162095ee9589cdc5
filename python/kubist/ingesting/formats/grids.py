"""Arrays of netCDF, HDF5 and NumPy as points: a record a place, with its coordinates.

Values and coordinates are those of `kubist.index`: by the CF conventions, through the engine's own
reader. Times since a date are timestamps where the calendar is everybody's. A place where all
variables are missing is no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import _kubist
from ..._errors import InvalidInput
from .. import times
from ..source import ROWS_AT_ONCE, Options, Source, State, Step, cast, unit

if TYPE_CHECKING:
    import pyarrow as pa

    from ...indexing import FileIndex

FEW = 5
"""Things that a message names."""
MOST_DIMENSIONS = 8
"""Of a table."""
CLASSIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
"""How netCDF's classic formats begin."""
POSITION = ("x", "y", "z")


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ... import indexing

    files = indexing.FileIndex([path], None, any=True)
    about = files.info()
    axes, values, beside = _grid(path, about["variables"], options.columns)
    taken = {*values, *beside}
    others = [v["name"] for v in about["variables"] if v["name"] not in taken]
    lengths = next(v["shape"] for v in about["variables"] if v["name"] == values[0])
    described = {v["name"]: v for v in about["variables"]}
    columns = [*_placed(axes, beside), *values]
    there = " OR ".join(f"{_quoted(name)} IS NOT NULL" for name in values)
    names = _short(columns)
    nothing = files.query(where=there, columns=columns, isel={axes[0]: slice(0, 0)}).to_arrow().schema
    moments, notes = _moments(
        files, [described[c] for c in columns if c in described], names, options
    )
    if about["left_out"]:
        notes.append(_kubist.printable(f"left out: {_few(about['left_out'])}"))
    fields = []
    for name in columns:
        if name in moments:
            fields.append(pa.field(names[name], pa.timestamp(moments[name].tick)))
        else:
            own = pa.field(names[name], _kind(nothing.field(name).type))
            fields.append(unit(own, described.get(name, {}).get("unit")))
    schema = pa.schema(fields)

    def read(state: State) -> Iterator[pa.Table]:
        # A table may have numbers where this file has times.
        numbers = [f.name for f in state.schema or () if not pa.types.is_timestamp(f.type)]
        for part in _parts(axes, lengths):
            found = files.query(where=there, columns=columns, isel=part).to_arrow()
            arrays = {}
            for name, field in zip(columns, schema, strict=True):
                if name not in moments:
                    arrays[field.name] = cast(found[name], field, f"{path}: ")
                elif field.name in numbers:
                    arrays[field.name] = found[name]
                else:
                    arrays[field.name] = moments[name].of(found[name])
            yield pa.table(arrays)

    return Source(
        path=path,
        format="arrays",
        schema=schema,
        steps=lambda _: [Step("rows", read, part=path.name)],
        dimensions=_dimensions(axes, [names[name] for name in columns]),
        metadata={"left_out": others} if others else {},
        notes=notes,
    )


@dataclass(frozen=True)
class _Moments:
    """A variable whose numbers are read as moments, in ticks of ``us`` or ``ns``."""

    times: times.Times
    tick: str

    def of(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        import pyarrow as pa

        kind = pa.timestamp(self.tick)
        chunks = []
        for chunk in column.chunks:
            values, missing = _numbers(chunk)
            ticks = self.times.ticks(values, self.tick)
            if ticks is None:
                raise ValueError("a time changed while the file was read")
            chunks.append(pa.array(ticks, pa.int64(), mask=missing).cast(kind))
        return pa.chunked_array(chunks, kind)


def _numbers(chunk: pa.Array) -> tuple[Any, Any]:
    """The values of an array, and which of them are not there."""
    import numpy as np
    import pyarrow.compute as pc

    missing = np.asarray(pc.is_null(chunk, nan_is_null=True))
    values = chunk.fill_null(0) if chunk.null_count else chunk
    return values.to_numpy(zero_copy_only=False), missing


def _moments(
    files: FileIndex,
    variables: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    options: Options,
) -> tuple[dict[str, _Moments], list[str]]:
    """Those of the variables that are moments, and what is to be said of times."""
    found: dict[str, _Moments] = {}
    notes = []
    for variable in variables:
        name, unit_, calendar = variable["name"], variable["unit"] or "", variable["calendar"]
        asked = options.types.get(names[name])
        if " since " not in unit_.lower() or (asked and not asked.startswith("timestamp")):
            continue
        column = f"column {names[name]!r}"
        known: times.Times | str
        if calendar is None:
            known = "its index was made before calendars were kept: kubist index --refresh"
        else:
            known = times.times(unit_, calendar)
        tick = None if isinstance(known, str) else _tick(files, variable, known)
        if isinstance(known, times.Times) and tick is not None:
            found[name] = _Moments(known, tick)
            notes.append(
                f"{column} becomes timestamps in UTC, from {unit_!r} ({calendar} calendar)"
            )
        else:
            why = known if isinstance(known, str) else "some are out of the range of timestamps"
            notes.append(f"{column} stays a number in {unit_!r}: {why}")
    return found, notes


def _tick(files: FileIndex, variable: Mapping[str, Any], known: times.Times) -> str | None:
    """The coarsest ticks that the numbers of the variable have a place among; None if none are."""
    name, ticks = variable["name"], ["us", "ns"]
    for part in _parts(variable["dimensions"], variable["shape"]):
        column = files.query(columns=[name], isel=part).to_arrow()[name]
        for chunk in column.chunks:
            values, _ = _numbers(chunk)
            ticks = [tick for tick in ticks if known.ticks(values, tick) is not None]
        if not ticks:
            return None
    return ticks[0]


def _few(items: Sequence[str]) -> str:
    """Some of many, and how many more there are."""
    more = len(items) - FEW
    return "; ".join([*items[:FEW], *([f"{more} more"] if more > 0 else [])])


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _kind(found: pa.DataType) -> pa.DataType:
    """Halves are stored as floats."""
    import pyarrow as pa

    return pa.float32() if found == pa.float16() else found


def _grid(
    path: Path, variables: Sequence[Mapping[str, Any]], wanted: Sequence[str] | None
) -> tuple[list[str], list[str], list[str]]:
    """The axes of a grid, its variables, and those with fewer of the axes.

    Raises:
        InvalidInput: Several have as many axes, and none was chosen.
    """
    data = [v for v in variables if not v["is_bounds"]] or list(variables)
    chosen = [v for v in variables if wanted is not None and _is_named(v, wanted)] or data
    grids: dict[tuple[str, ...], list[str]] = {}
    for variable in chosen:
        if not _is_coordinate(variable):
            grids.setdefault(tuple(variable["dimensions"]), []).append(variable["name"])
    if not grids:
        for variable in chosen:
            grids.setdefault(tuple(variable["dimensions"]), []).append(variable["name"])
    if not grids:
        raise InvalidInput(f"{path}: it has no arrays of numbers")
    axes = max(grids, key=len)
    if [len(grid) for grid in grids].count(len(axes)) > 1:
        described = "; ".join(
            f"{', '.join(names)} ({' x '.join(grid)})" for grid, names in grids.items()
        )
        raise InvalidInput(
            f"{path}: its arrays lie on several grids, of which one makes a table: name its "
            f"columns (--columns), those of its positions too (AXIS_index): {described}"
        )
    beside = [
        v["name"]
        for v in variables
        if v["name"] not in grids[axes]
        and _is_beside(v, axes)
        and (wanted is None or _is_named(v, wanted) or _is_coordinate(v))
    ]
    return list(axes), grids[axes], beside


def _is_named(variable: Mapping[str, Any], wanted: Sequence[str]) -> bool:
    return variable["name"] in wanted or variable["name"].rsplit("/", 1)[-1] in wanted


def _is_coordinate(variable: Mapping[str, Any]) -> bool:
    name = variable["name"].rsplit("/", 1)[-1]
    return bool(variable["dimensions"] == [name])


def _is_beside(variable: Mapping[str, Any], axes: Sequence[str]) -> bool:
    """Whether it has a value at each place: fewer axes, in their order."""
    places = [axes.index(axis) for axis in variable["dimensions"] if axis in axes]
    return len(places) == len(variable["dimensions"]) and places == sorted(places)


def _placed(axes: Sequence[str], beside: Sequence[str]) -> list[str]:
    """Columns that say where a record is: coordinates, or positions along axes that have none."""
    own = {name.rsplit("/", 1)[-1]: name for name in beside}
    first = [own.get(axis, f"{axis}_index") for axis in axes]
    return [*first, *(name for name in beside if name not in first)]


def _short(columns: Sequence[str]) -> dict[str, str]:
    """Names without the groups that they stand in, where that leaves them apart."""
    last = {name: name.rsplit("/", 1)[-1] for name in columns}
    often = list(last.values())
    return {name: short if often.count(short) == 1 else name for name, short in last.items()}


def _dimensions(axes: Sequence[str], columns: Sequence[str]) -> list[str]:
    # Arrays of one length are particles, if they say where.
    by_place = [name for name in POSITION if name in columns]
    if len(axes) == 1 and len(by_place) > 1:
        return by_place
    return list(columns[: min(len(axes), MOST_DIMENSIONS)])


def _parts(axes: Sequence[str], lengths: Sequence[int]) -> Iterator[dict[str, slice]]:
    """Slices along the first axes with a bounded number of places each."""
    below = 1
    for length in lengths[1:]:
        below *= length
    step = max(1, ROWS_AT_ONCE // max(below, 1))
    for at in range(0, lengths[0], step):
        part = {axes[0]: slice(at, min(at + step, lengths[0]))}
        if below <= ROWS_AT_ONCE:
            yield part
            continue
        for rest in _parts(axes[1:], lengths[1:]):
            yield {**part, **rest}
