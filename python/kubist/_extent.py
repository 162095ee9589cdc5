"""Objects with an extent: rows with a bounding box around their position.

The table stores bounding boxes in columns that its metadata names. A box or region of a query
becomes a condition on these columns. Runs and zones store column minima and maxima, so a query
reads few objects that it does not return.

The conditions for regions rely on two facts: a bounding box is convex, and a linear function has
its extremes in corners of the box.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from . import _box
from ._data import _parts_of
from ._errors import InvalidInput
from ._libraries import is_a, need

if TYPE_CHECKING:
    from ._arguments import Relation

RELATIONS = ("touches", "inside", "centre")

Extent = dict[str, tuple[str, str]]
"""The columns with the lower and upper bounds, by the column of the position."""

KEY = "extent"
"""The key in the metadata of a table."""

_CONVEX = ("box", "sphere", "ellipsoid", "cylinder", "frustum", "slab", "half_space")
_CORNERS = 1_000
"""The maximum number of corners of a polygon, because each edge is a separate condition."""


def declared(given: Any, columns: Sequence[str], indexed: Sequence[str]) -> Extent:
    found = pairs(given)
    for name, (low, high) in found.items():
        for column in (name, low, high):
            if column not in columns:
                raise InvalidInput(f"extent: there is no column {column!r}")
        if len({name, low, high}) < 3:
            raise InvalidInput(f"extent: {name} needs two other columns, not {low!r} and {high!r}")
        if name not in indexed:
            raise InvalidInput(f"extent: {name} is no dimension: index it, so that boxes are quick")
    return found


def pairs(given: Any) -> Extent:
    """The columns with bounds, not yet checked against a table."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(
            f"extent: expected a dict of column: (low column, high column), not {given!r}"
        )
    return {
        name: _box.pair(f"extent: {name}", ends, "low column, high column")
        for name, ends in given.items()
    }


def stored(metadata: Mapping[str, Any]) -> Extent:
    return {name: (low, high) for name, (low, high) in metadata.get(KEY, {}).items()}


def relation(given: Any, extent: Extent) -> Relation:
    if given is None:
        return "touches"
    if given not in RELATIONS:
        raise InvalidInput(f"relation: expected {', '.join(RELATIONS)}, not {given!r}")
    if not extent:
        raise InvalidInput("relation: the table has no extent: see kubist.create")
    known: Relation = given
    return known


def related(asked: dict[str, Any], extent: Extent, relation: Relation) -> dict[str, Any]:
    """The parameters of a query whose box and region select objects with an extent."""
    if relation == "centre":
        return asked
    box, region = asked.get("box"), asked.get("region")
    found = dict(asked)
    if isinstance(box, Mapping):
        found["box"] = _of_box(box, extent, relation)
    if region is not None:
        from .region import to_dict

        found["region"] = _of_region(to_dict(region), extent, relation)
    return found


def _of_box(box: Mapping[str, Any], extent: Extent, relation: Relation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, ends in box.items():
        for column, one in _ranges(name, ends, extent, relation).items():
            if column in found or (column != name and column in box):
                raise InvalidInput(f"box: {column} is an end of {name}: give it in where=")
            found[column] = one
    return found


def _ranges(name: str, ends: Any, extent: Extent, relation: Relation) -> dict[str, Any]:
    own = next((one for one in extent if one.lower() == str(name).lower()), None)
    if own is None:
        return {name: ends}
    low_column, high_column = extent[own]
    low, high = ends if isinstance(ends, tuple | list) and len(ends) == 2 else (ends, ends)
    if _box._is_above(low, high):
        raise InvalidInput(f"box: {name}: the lower end {low} is above the upper end {high}")
    if relation == "inside":
        # The position is between the bounds, so the index can exclude cubes too.
        return {name: (low, high), low_column: (low, None), high_column: (None, high)}
    return {high_column: (low, None), low_column: (None, high)}


def _of_region(region: dict[str, Any], extent: Extent, relation: Relation) -> dict[str, Any]:
    [(kind, value)] = region.items()
    other: Relation = "inside" if relation == "touches" else "touches"
    if kind == "complement":
        return {kind: _of_region(value, extent, other)}
    # A union touches if one part touches; an intersection contains if all parts contain.
    if kind in ("union", "intersection"):
        exact = kind == ("union" if relation == "touches" else "intersection")
        if not exact and not _apart(value):
            raise _unsupported(kind, relation)
        return {kind: [_of_region(one, extent, relation) for one in value]}
    if kind == "difference" and relation == "inside":
        first, *others = value
        return {
            kind: [
                _of_region(first, extent, "inside"),
                *(_of_region(one, extent, "touches") for one in others),
            ]
        }
    if kind == "where":
        return region
    if kind == "polygon":
        return _of_polygon(value, extent, relation)
    if kind == "box":
        return {kind: _box_in_json(value, extent, relation)}
    if relation == "inside" and kind in _CONVEX:
        return {"intersection": [_renamed(region, names) for names in _corners(extent)]}
    if kind == "half_space":
        return {"union": [_renamed(region, names) for names in _corners(extent)]}
    if kind == "slab":
        # The object has points on both sides.
        below = {"slab": {name: one for name, one in value.items() if name != "low"}}
        above = {"slab": {name: one for name, one in value.items() if name != "high"}}
        return {
            "intersection": [
                {"union": [_renamed(side, names) for names in _corners(extent)]}
                for side in (below, above)
                if len(side["slab"]) > 1
            ]
        }
    if kind in ("sphere", "ellipsoid"):
        return _near(kind, value, extent)
    raise _unsupported(kind, relation)


def _unsupported(kind: str, relation: str) -> InvalidInput:
    return InvalidInput(
        f"region: no rule decides which objects are related to {kind!r} by {relation!r}: "
        "use relation='centre', or another region"
    )


def _apart(regions: Sequence[dict[str, Any]]) -> bool:
    """Whether the regions have no common column, so that each applies to its own axes."""
    seen: set[str] = set()
    for region in regions:
        columns = _columns(region)
        if columns is None or columns & seen:
            return False
        seen |= columns
    return True


def _columns(region: dict[str, Any]) -> set[str] | None:
    [(kind, value)] = region.items()
    if kind == "box":
        return set(value)
    if kind == "polygon":
        return set(value.get("columns", ("x", "y")))
    if kind in ("sphere", "ellipsoid"):
        return set(value["center"])
    if kind in ("slab", "half_space"):
        return set(value["normal"])
    return None


def _box_in_json(value: Mapping[str, Any], extent: Extent, relation: Relation) -> dict[str, Any]:
    ranges = _of_box({name: tuple(ends) for name, ends in value.items()}, extent, relation)
    return {name: list(ends) for name, ends in ranges.items()}


def _corners(extent: Extent) -> Iterator[dict[str, str]]:
    for ends in product(*extent.values()):
        yield dict(zip(extent, ends, strict=True))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {names.get(name, name): _renamed(one, names) for name, one in value.items()}
    return value


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput(
            f"region: {what} is {value!r}: objects need numbers in the unit of the column"
        )
    return float(value)


def _near(kind: str, value: Mapping[str, Any], extent: Extent) -> dict[str, Any]:
    """The condition that the box point nearest to the centre is inside the ellipsoid."""
    terms = []
    for name, at in value["center"].items():
        center = _number("the center", at)
        radius = _number(
            "the radius", value["radius"] if kind == "sphere" else value["radii"][name]
        )
        if radius <= 0:
            raise InvalidInput(f"region: the radius must be above 0, not {radius:g}")
        low, high = (quoted(one) for one in extent.get(name, (name, name)))
        terms.append(
            f"power(greatest({low}::float64 - ({center!r}), ({center!r}) - {high}::float64, 0.0) "
            f"/ {radius!r}, 2)"
        )
    return {"where": f"{' + '.join(terms)} <= 1"}


def _of_polygon(value: Mapping[str, Any], extent: Extent, relation: Relation) -> dict[str, Any]:
    """The conditions that edges of a polygon meet a rectangle, and that one corner is inside.

    If no edge meets the rectangle, it is completely inside or outside. An edge meets the rectangle
    if their ranges overlap along x and y, and corners are on both sides of the edge.
    """
    x, y = value.get("columns", ("x", "y"))
    ends = [extent.get(name, (name, name)) for name in (x, y)]
    (x_low, x_high), (y_low, y_high) = ([quoted(one) for one in pair] for pair in ends)
    strictly = relation == "inside"
    above, below = (">", "<") if strictly else (">=", "<=")
    meets = []
    for ring in value["coordinates"]:
        closed = [*ring, ring[0]]
        for (x0, y0), (x1, y1) in pairwise(closed):
            if (x0, y0) == (x1, y1):
                continue
            a, b = y1 - y0, x0 - x1
            level = a * x0 + b * y0
            least = (
                f"({a!r}) * {x_low if a >= 0 else x_high} + ({b!r}) * {y_low if b >= 0 else y_high}"
            )
            most = (
                f"({a!r}) * {x_high if a >= 0 else x_low} + ({b!r}) * {y_high if b >= 0 else y_low}"
            )
            meets.append(
                f"({x_high} {above} {min(x0, x1)!r} AND {x_low} {below} {max(x0, x1)!r} "
                f"AND {y_high} {above} {min(y0, y1)!r} AND {y_low} {below} {max(y0, y1)!r} "
                f"AND {most} {above} {level!r} AND {least} {below} {level!r})"
            )
    if len(meets) > _CORNERS:
        raise InvalidInput(f"region: a polygon around objects has at most {_CORNERS:,} corners")
    corner = {"polygon": {**value, "columns": [ends[0][0], ends[1][0]]}}
    edges = {"where": " OR ".join(meets)}
    if not strictly:
        return {"union": [corner, edges]}
    # A corner on the border is ambiguous, so the middle is tested.
    middle = {"polygon": {**value, "columns": [x, y]}}
    return {"difference": [middle, edges]}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def border(tiles: Any, width: Any, extent: Extent, ends: Mapping[str, tuple[Any, Any]]) -> str:
    """The condition that an object is within a width of an inner border of a tiling."""
    if not isinstance(tiles, Mapping) or not tiles:
        raise InvalidInput(f"border: expected a dict of column: width or edges, not {tiles!r}")
    distance = _box.finite("border: width", width)
    if distance < 0:
        raise InvalidInput(f"border: width must not be negative, but is {distance:g}")
    terms = []
    for name, tile in tiles.items():
        if name not in extent:
            raise InvalidInput(f"border: {name!r} has no extent: axes are {list(extent)}")
        low, high = (quoted(one) for one in extent[name])
        for edge in _edges(name, tile, *ends[name]):
            terms.append(f"({high} >= {edge - distance!r} AND {low} <= {edge + distance!r})")
    return " OR ".join(terms) or "FALSE"


_EDGES = 100_000


def _edges(name: str, tile: Any, low: Any, high: Any) -> list[float]:
    if isinstance(tile, int | float) and not isinstance(tile, bool):
        size = _box.finite(f"border: {name}", tile)
        if not size > 0:
            raise InvalidInput(f"border: {name}: a tile must be larger than 0, not {size:g}")
        if low is None:
            return []
        first, last = math.floor(low / size) + 1, math.ceil(high / size) - 1
        if last - first > _EDGES:
            raise InvalidInput(f"border: {name}: {last - first:,} borders, at most {_EDGES:,}")
        return [size * place for place in range(first, last + 1)]
    edges = [_box.finite(f"border: {name}", one) for one in tile]
    if any(one >= other for one, other in pairwise(edges)):
        raise InvalidInput(f"border: {name}: edges must ascend")
    return edges[1:-1]


def checked(source: Any, extent: Extent) -> Any:
    """The data of an append, after checking that positions are between their bounds."""
    if not extent:
        return source
    if (parts := _parts_of(source)) is not None:
        return (checked(part, extent) for part in parts)
    if isinstance(source, Mapping) or is_a(source, "numpy", "ndarray") or _is_frame(source):
        _check(lambda name: source[name], extent)
        return source
    if isinstance(source, list | tuple):
        _check(lambda name: [row.get(name) for row in source], extent)
        return source
    pa = need("pyarrow", "data of objects with an extent")
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        schema = reader.schema

        def batches() -> Iterator[Any]:
            for batch in reader:
                _check(batch.column, extent)
                yield batch

        return pa.RecordBatchReader.from_batches(schema, batches())
    if hasattr(source, "__arrow_c_array__"):
        source = pa.record_batch(source)
        _check(source.column, extent)
    return source


def _is_frame(source: Any) -> bool:
    return is_a(source, "pandas", "DataFrame") or is_a(source, "polars", "DataFrame")


def _check(column: Any, extent: Extent) -> None:
    np = need("numpy", "data of objects with an extent")
    for name, (low_name, high_name) in extent.items():
        try:
            low, at, high = (
                np.ma.filled(np.ma.asarray(column(one), dtype=float), np.nan)
                if isinstance(column(one), np.ma.MaskedArray)
                else np.asarray(column(one), dtype=float)
                for one in (low_name, name, high_name)
            )
        except (KeyError, TypeError, ValueError):
            # The append reports missing columns and values that are not numbers.
            return
        bad = ~((low <= at) & (at <= high))
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInput(
                f"extent: row {row}: {low_name} = {low[row]:g}, {name} = {at[row]:g}, "
                f"{high_name} = {high[row]:g}, but {low_name} <= {name} <= {high_name} is needed"
            )
