"""Arrays of netCDF, HDF5 and NumPy as points: a record a place, with its coordinates.

Values and coordinates are those of `kubist.index`: by the CF conventions, through the engine's own
reader. A place where all variables are missing is no record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import ROWS_AT_ONCE, Options, Source, State, Step, cast, unit

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DIMENSIONS = 8
"""Of a table."""
CLASSIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
"""How netCDF's classic formats begin."""
POSITION = ("x", "y", "z")


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ... import indexing

    files = indexing.FileIndex([path], None, any=True)
    about = files.about()
    axes, values, beside = _grid(path, about["variables"], options.columns)
    taken = {*values, *beside}
    others = [v["name"] for v in about["variables"] if v["name"] not in taken]
    lengths = next(v["shape"] for v in about["variables"] if v["name"] == values[0])
    units = {v["name"]: v["unit"] for v in about["variables"]}
    columns = [*_placed(axes, beside), *values]
    there = " OR ".join(f"{_quoted(name)} IS NOT NULL" for name in values)
    names = _short(columns)
    nothing = files.query(there, columns=columns, isel={axes[0]: slice(0, 0)}).to_arrow().schema
    fields = [nothing.field(name) for name in columns]
    schema = pa.schema(
        [
            unit(pa.field(names[field.name], _kind(field.type)), units.get(field.name))
            for field in fields
        ]
    )

    def read(_: State) -> Iterator[pa.Table]:
        for part in _parts(axes, lengths):
            found = files.query(there, columns=columns, isel=part).to_arrow()
            arrays = [
                cast(found[name], field, f"{path}: ")
                for name, field in zip(columns, schema, strict=True)
            ]
            yield pa.table(arrays, schema=schema)

    return Source(
        path=path,
        format="arrays",
        schema=schema,
        steps=lambda _: [Step("rows", read, part=path.name)],
        dimensions=_dimensions(axes, [names[name] for name in columns]),
        metadata={"left_out": others} if others else {},
    )


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
    chosen = [v for v in variables if wanted is None or _is_named(v, wanted)] or list(variables)
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
            f"{path}: its arrays lie on several grids, of which one makes a table: name its columns "
            f"(--columns), those of its positions too (AXIS_index): {described}"
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
