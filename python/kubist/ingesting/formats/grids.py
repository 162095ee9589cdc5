"""Arrays of netCDF, HDF5 and NumPy as points: one row per grid point, with coordinates.

Values and coordinates follow the CF conventions and come from the engine's reader, as in
`kubist.index`. Times in the standard calendar are timestamps. A grid point where all variables are
missing gives no row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import _kubist
from ..._errors import InvalidInput
from .. import times
from ..source import ROWS_AT_ONCE, Options, Source, State, Step, cast, unit
from . import netcdf

if TYPE_CHECKING:
    import pyarrow as pa

    from ...indexing import FileIndex

MOST_DIMENSIONS = 8
"""The maximum number of dimensions of a table."""
MOST_ATTRIBUTES_BYTES = 1 << 18
"""The maximum size of a file's attributes as JSON."""
CLASSIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
"""The first bytes of netCDF's classic formats."""
POSITION = ("x", "y", "z")


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ... import indexing

    files = indexing.FileIndex([path], None, any=True)
    about = files.info()
    own = netcdf.look(path)
    axes, values, beside = _grid(path, about["variables"], options.columns, own)
    described = {v["name"]: v for v in about["variables"]}
    lengths = _longest([described[name]["shape"] for name in values])
    short = [name for name in values if described[name]["shape"] != lengths]
    texts = {
        name: found
        for name, found in ((n, t.on(axes, lengths)) for n, t in own.texts.items())
        if netcdf.are_beside(found, axes, lengths) and _is_wanted(name, options.columns)
    }
    taken = {*values, *beside, *texts}
    others = [v["name"] for v in about["variables"] if v["name"] not in taken]
    columns = [*_placed(axes, beside), *values]
    # If the user names a column with its group, the column has this name.
    names = _short([*columns, *texts]) | {name: name for name in options.columns or () if name in taken}
    nothing = {
        f.name: f.type
        for some in ([c for c in columns if c not in short], *([name] for name in short))
        for f in files.query(columns=some, isel={axes[0]: slice(0, 0)}).to_arrow().schema
    }
    moments, notes = _moments(
        files, [described[c] for c in columns if c in described], names, options
    )
    left_out = dict.fromkeys(others, "its dimensions are not those of the rows")
    for said in about["left_out"]:
        name, _, why = _kubist.printable(said).partition(": ")
        if name not in texts:
            left_out[name] = why
    left_out |= own.links
    metadata: dict[str, Any] = {"left_out": others} if others else {}
    if about_values := _attributes(own, taken, left_out):
        metadata["arrays"] = about_values
    fields = []
    for name in columns:
        if name in moments:
            fields.append(pa.field(names[name], pa.timestamp(moments[name].tick)))
        else:
            field = pa.field(names[name], _kind(nothing[name]))
            fields.append(unit(field, described.get(name, {}).get("unit")))
    schema = pa.schema([*fields, *(pa.field(names[name], pa.string()) for name in texts)])

    def read(state: State) -> Iterator[pa.Table]:
        known = {name: (found.axes, found.values()) for name, found in texts.items()}
        rows_of = _Rows(files, axes, values, columns, short, known, own.valid)
        # An existing table may store the times of this file as numbers.
        numbers = [f.name for f in state.schema or () if not pa.types.is_timestamp(f.type)]
        for part in _parts(axes, lengths):
            found = rows_of.read(part, {name: described[name]["shape"] for name in short})
            arrays = {}
            for name, field in zip([*columns, *texts], schema, strict=True):
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
        metadata=metadata,
        notes=notes,
        left_out=left_out,
    )


def _attributes(
    own: netcdf.Beside, taken: set[str], left_out: dict[str, str]
) -> dict[str, Any] | None:
    said = {n: found for n, found in own.attributes.items() if found and n not in left_out}
    of_file = said.pop("", {})
    groups = {n: found for n, found in said.items() if n not in taken}
    variables = {n: found for n, found in said.items() if n in taken}
    found = {"attributes": of_file, "groups": groups, "variables": variables}
    found = {name: part for name, part in found.items() if part}
    if len(json.dumps(found)) > MOST_ATTRIBUTES_BYTES:
        left_out["attributes"] = "they are too long for the metadata of a table"
        return None
    return found


@dataclass(frozen=True)
class _Rows:
    """Reads the rows of a part of the grid; the engine reads numbers.

    Attributes:
        short: Variables that are shorter than others along an unlimited axis.
    """

    files: FileIndex
    axes: Sequence[str]
    values: Sequence[str]
    columns: Sequence[str]
    short: Sequence[str]
    texts: Mapping[str, tuple[Sequence[str], Any]]
    valid: Mapping[str, netcdf.Valid]

    def read(self, part: Mapping[str, slice], shapes: Mapping[str, Sequence[int]]) -> pa.Table:
        """The rows where at least one variable has a value."""
        import functools
        import operator

        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        full = [name for name in self.columns if name not in self.short]
        places = [f"{axis}_index" for axis in self.axes] if self.short or self.texts else []
        wanted = list(dict.fromkeys([*full, *places]))
        there = " OR ".join(f"{_quoted(name)} IS NOT NULL" for name in self.values)
        found = self.files.query(
            where=None if self.short else there, columns=wanted, isel=dict(part)
        ).to_arrow()
        index = {axis: found[f"{axis}_index"].to_numpy() for axis in self.axes} if places else {}
        for name in self.short:
            column = self._ended(name, part, shapes[name], index)
            found = found.append_column(name, column)
        for name, valid in self.valid.items():
            if name in found.column_names:
                values, missing = _numbers(found[name].combine_chunks())
                wrong = valid.mask(values) & ~missing
                if wrong.any():
                    column = pc.if_else(pa.array(wrong), None, found[name].combine_chunks())
                    found = found.set_column(found.column_names.index(name), name, column)
        for name, (axes, texts) in self.texts.items():
            column = pa.array(netcdf.of_rows(axes, texts, index), pa.string())
            found = found.append_column(name, column)
        if self.short or any(name in self.values for name in self.valid):
            known = [~np.asarray(pc.is_null(found[n], nan_is_null=True)) for n in self.values]
            found = found.filter(pa.array(functools.reduce(operator.or_, known)))
        return found

    def _ended(
        self, name: str, part: Mapping[str, slice], shape: Sequence[int], index: Mapping[str, Any]
    ) -> pa.Array:
        """The values of a shorter variable, with null in the rows beyond its end."""
        import numpy as np
        import pyarrow as pa

        lengths = dict(zip(self.axes, shape, strict=True))
        clipped = {
            a: slice(min(s.start, lengths[a]), min(s.stop, lengths[a])) for a, s in part.items()
        }
        columns = [name, *(f"{axis}_index" for axis in self.axes)]
        found = self.files.query(columns=columns, isel=clipped).to_arrow()
        sizes = [int(index[axis].max(initial=0)) + 1 for axis in self.axes]
        inside = np.ones(len(found), bool)
        own = [found[f"{axis}_index"].to_numpy() for axis in self.axes]
        places = np.ravel_multi_index(own, sizes) if len(found) else np.empty(0, int)
        rows = np.ravel_multi_index([index[axis] for axis in self.axes], sizes)
        order = np.argsort(places)
        at = np.minimum(np.searchsorted(places[order], rows), max(len(order) - 1, 0))
        inside = places[order][at] == rows if len(order) else np.zeros(len(rows), bool)
        take = pa.array(order[at] if len(order) else np.zeros(len(rows), int), mask=~inside)
        return found[name].combine_chunks().take(take)


def _longest(shapes: Sequence[Sequence[int]]) -> list[int]:
    return [max(lengths) for lengths in zip(*shapes, strict=True)]


def _is_wanted(name: str, columns: Sequence[str] | None) -> bool:
    return columns is None or name in columns or name.rsplit("/", 1)[-1] in columns


@dataclass(frozen=True)
class _Moments:
    """A variable of timestamps, in ticks of ``us`` or ``ns``."""

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
    """Returns the variables with timestamps, and notes about times."""
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
    """Returns the coarsest unit that stores all numbers of the variable, or None."""
    name, ticks = variable["name"], ["us", "ns"]
    for part in _parts(variable["dimensions"], variable["shape"]):
        column = files.query(columns=[name], isel=part).to_arrow()[name]
        for chunk in column.chunks:
            values, _ = _numbers(chunk)
            ticks = [tick for tick in ticks if known.ticks(values, tick) is not None]
        if not ticks:
            return None
    return ticks[0]


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _kind(found: pa.DataType) -> pa.DataType:
    """Widens half-precision floats."""
    import pyarrow as pa

    return pa.float32() if found == pa.float16() else found


def _grid(
    path: Path,
    variables: Sequence[Mapping[str, Any]],
    wanted: Sequence[str] | None,
    own: netcdf.Beside,
) -> tuple[list[str], list[str], list[str]]:
    """Returns the axes of a grid, its variables, and the variables with fewer axes.

    Raises:
        InvalidInput: Several grids have equally many axes, and none was chosen.
    """
    data = [v for v in variables if not v["is_bounds"]] or list(variables)
    chosen = [v for v in variables if wanted is not None and _is_named(v, wanted)] or data
    grids = _grids([v for v in chosen if not _is_coordinate(v)], own) or _grids(chosen, own)
    if not grids:
        raise InvalidInput(f"{path}: it has no arrays of numbers")
    axes = max((grid for grid, _ in grids), key=len)
    if [len(grid) for grid, _ in grids].count(len(axes)) > 1:
        coordinates = {v["name"] for v in variables if _is_coordinate(v)}
        choices = [
            ",".join([*(a if a in coordinates else f"{a}_index" for a in grid), *names])
            for grid, names in grids
        ]
        raise InvalidInput(
            f"{path}: its arrays lie on several grids, and a table has one: choose the columns "
            f"of one by --read columns={' or --read columns='.join(choices)}"
        )
    values = next(names for grid, names in grids if grid == axes)
    lengths = dict(
        zip(axes, _longest([v["shape"] for v in chosen if v["name"] in values]), strict=True)
    )
    beside = [
        v["name"]
        for v in variables
        if v["name"] not in values
        and _is_beside(v, axes)
        and all(lengths[a] == n for a, n in zip(v["dimensions"], v["shape"], strict=True))
        and _has_scales(own.scales.get(v["name"]), own.scales.get(values[0]))
        and (wanted is None or _is_named(v, wanted) or _is_coordinate(v))
    ]
    return list(axes), values, beside


def _has_scales(some: Sequence[str] | None, of_grid: Sequence[str] | None) -> bool:
    """Whether the axes belong to the grid; an axis of the same name may be in another group."""
    return some is None or of_grid is None or set(some) <= set(of_grid)


def _grids(
    variables: Sequence[Mapping[str, Any]], own: netcdf.Beside
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Groups of variables with the same axes. A shorter variable belongs to a group only along
    an unlimited axis, because HDF5 groups may have different axes of the same name.
    """
    by_axes: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for variable in variables:
        by_axes.setdefault(tuple(variable["dimensions"]), []).append(variable)
    grids: list[tuple[tuple[str, ...], list[str]]] = []
    for axes, several in by_axes.items():
        longest = _longest([v["shape"] for v in several])
        apart: dict[tuple[Any, ...], list[str]] = {}
        for variable in several:
            grows = own.grows.get(variable["name"], ())
            is_short = len(grows) == len(axes) and all(
                length == most or may_grow
                for length, most, may_grow in zip(variable["shape"], longest, grows, strict=True)
            )
            shape = tuple(longest) if is_short else tuple(variable["shape"])
            name = variable["name"]
            apart.setdefault((shape, own.scales.get(name)), []).append(name)
        grids += [(axes, names) for names in apart.values()]
    return grids


def _is_named(variable: Mapping[str, Any], wanted: Sequence[str]) -> bool:
    return variable["name"] in wanted or variable["name"].rsplit("/", 1)[-1] in wanted


def _is_coordinate(variable: Mapping[str, Any]) -> bool:
    name = variable["name"].rsplit("/", 1)[-1]
    return bool(variable["dimensions"] == [name])


def _is_beside(variable: Mapping[str, Any], axes: Sequence[str]) -> bool:
    """Whether a variable has fewer axes than the grid, in the same order."""
    places = [axes.index(axis) for axis in variable["dimensions"] if axis in axes]
    return len(places) == len(variable["dimensions"]) and places == sorted(places)


def _placed(axes: Sequence[str], beside: Sequence[str]) -> list[str]:
    """The columns of positions: coordinates, or indices along axes without coordinates."""
    own = {name.rsplit("/", 1)[-1]: name for name in beside}
    first = [own.get(axis, f"{axis}_index") for axis in axes]
    return [*first, *(name for name in beside if name not in first)]


def _short(columns: Sequence[str]) -> dict[str, str]:
    """Names without their groups, if the short names are unique."""
    last = {name: name.rsplit("/", 1)[-1] for name in columns}
    often = list(last.values())
    return {name: short if often.count(short) == 1 else name for name, short in last.items()}


def _dimensions(axes: Sequence[str], columns: Sequence[str]) -> list[str]:
    # Arrays of equal length with positions are particles.
    by_place = [name for name in POSITION if name in columns]
    if len(axes) == 1 and len(by_place) > 1:
        return by_place
    return list(columns[: min(len(axes), MOST_DIMENSIONS)])


def _parts(axes: Sequence[str], lengths: Sequence[int]) -> Iterator[dict[str, slice]]:
    """Slices along the first axes, with a limited number of points."""
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
