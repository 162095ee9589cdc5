"""Regions on straight segments: where a segment crosses the surface of a region.

A segment is a + t (b - a) with t from 0 to 1. Each shape gives the candidates for t where a segment
can enter or leave: roots of linear and quadratic equations. The midpoint between two candidates
decides whether that piece is inside, so extra candidates do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import InvalidInput
from ..region import AXES, to_dict

Array = np.ndarray[Any, Any]
Points = Mapping[str, Array]
"""Coordinates by column."""


class Shape:
    """A set of points, and its candidates along segments."""

    def __init__(
        self,
        columns: Sequence[str],
        inside: Callable[[Points], Array],
        roots: Callable[[Points, Points], list[Array]],
    ) -> None:
        self.columns = list(dict.fromkeys(columns))
        self.inside, self.roots = inside, roots


def shape(region: Any) -> Shape:
    [(kind, value)] = to_dict(region).items()
    if kind in ("union", "intersection", "difference"):
        return _joined(kind, [shape(one) for one in value])
    if kind == "complement":
        inner = shape(value)
        return Shape(inner.columns, lambda at: ~inner.inside(at), inner.roots)
    if kind not in _KINDS:
        raise InvalidInput(
            f"region: a path cannot cross {kind!r}: choose among {', '.join(sorted(_KINDS))}, "
            "and their unions, intersections, differences and complements"
        )
    return _KINDS[kind](value)


def _joined(kind: str, parts: list[Shape]) -> Shape:
    columns = [name for part in parts for name in part.columns]

    def inside(at: Points) -> Array:
        first, *others = (part.inside(at) for part in parts)
        for other in others:
            if kind == "union":
                first = first | other
            else:
                first = first & (other if kind == "intersection" else ~other)
        return first

    def roots(a: Points, b: Points) -> list[Array]:
        return [root for part in parts for root in part.roots(a, b)]

    return Shape(columns, inside, roots)


def _numbers(what: str, values: Mapping[str, Any]) -> dict[str, float]:
    return {name: _number(f"{what} along {name}", one) for name, one in values.items()}


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(
            f"region: {what} is {value!r}: paths need numbers in the unit of the column"
        )
    return float(value)


def _positive(what: str, value: Any) -> float:
    number = _number(what, value)
    if not number > 0:
        raise InvalidInput(f"region: {what} must be above 0, not {number:g}")
    return number


def _level(linear: Callable[[Points], Array], level: float) -> Callable[[Points, Points], Array]:
    """Where a linear function of the position has a value."""

    def root(a: Points, b: Points) -> Array:
        at_a = linear(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Array = (level - at_a) / (linear(b) - at_a)
        return found

    return root


def _quadratic(c2: Array, c1: Array, c0: Array) -> list[Array]:
    """The roots of c2 t^2 + 2 c1 t + c0, without cancellation; NaN where there are none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        far = c1 + np.copysign(np.sqrt(c1 * c1 - c2 * c0), c1)
        return [-far / c2, -c0 / far]


def _box(value: Mapping[str, Sequence[Any]]) -> Shape:
    ends = {
        name: [None if end is None else _number(f"an end of {name}", end) for end in pair]
        for name, pair in value.items()
    }

    def inside(at: Points) -> Array:
        found = np.ones(at[next(iter(ends))].shape, bool)
        for name, (low, high) in ends.items():
            found &= ~np.isnan(at[name])
            if low is not None:
                found &= at[name] >= low
            if high is not None:
                found &= at[name] <= high
        return found

    levels = [
        _level(lambda at, name=name: at[name], end)  # type: ignore[misc]
        for name, pair in ends.items()
        for end in pair
        if end is not None
    ]
    return Shape(list(ends), inside, lambda a, b: [level(a, b) for level in levels])


def _ellipsoid(center: Mapping[str, float], radii: Mapping[str, float]) -> Shape:
    def scaled(at: Points) -> list[Array]:
        return [(at[name] - center[name]) / radii[name] for name in center]

    def inside(at: Points) -> Array:
        found: Array = sum(one * one for one in scaled(at)) <= 1  # type: ignore[assignment]
        return found

    def roots(a: Points, b: Points) -> list[Array]:
        start = scaled(a)
        along = [end - one for end, one in zip(scaled(b), start, strict=True)]
        c2 = np.add.reduce([one * one for one in along])
        c1 = np.add.reduce([one * d for one, d in zip(start, along, strict=True)])
        return _quadratic(c2, c1, np.add.reduce([one * one for one in start]) - 1)

    return Shape(list(center), inside, roots)


def _sphere(value: Mapping[str, Any]) -> Shape:
    center = _numbers("the center", value["center"])
    return _ellipsoid(center, dict.fromkeys(center, _positive("the radius", value["radius"])))


def _of_ellipsoid(value: Mapping[str, Any]) -> Shape:
    radii = {name: _positive(f"a radius along {name}", r) for name, r in value["radii"].items()}
    return _ellipsoid(_numbers("the center", value["center"]), radii)


def _slab(value: Mapping[str, Any]) -> Shape:
    normal = _numbers("the normal", value["normal"])
    levels = [_number(end, value[end]) for end in ("low", "high") if value.get(end) is not None]
    low, high = value.get("low"), value.get("high")
    return _between(
        normal, -np.inf if low is None else low, np.inf if high is None else high, levels
    )


def _between(normal: Mapping[str, float], low: float, high: float, levels: list[float]) -> Shape:
    if not any(normal.values()):
        raise InvalidInput("region: the normal of a plane is zero: it has no direction")

    def height(at: Points) -> Array:
        found: Array = np.add.reduce([at[name] * one for name, one in normal.items()])
        return found

    def inside(at: Points) -> Array:
        found: Array = (height(at) >= low) & (height(at) <= high)
        return found

    crossings = [_level(height, level) for level in levels]
    return Shape(list(normal), inside, lambda a, b: [one(a, b) for one in crossings])


def _half_space(value: Mapping[str, Any]) -> Shape:
    normal = _numbers("the normal", value["normal"])
    point = _numbers("the point", value["point"])
    level = sum(one * point.get(name, 0.0) for name, one in normal.items())
    return _between(normal, level, np.inf, [level])


def _frustum(value: Mapping[str, Any]) -> Shape:
    start, end = _numbers("the start", value["from"]), _numbers("the end", value["to"])
    if "radius" in value:
        first = last = _positive("the radius", value["radius"])
    else:
        first = _number("a radius", value["radius_from"])
        last = _number("a radius", value["radius_to"])
        if min(first, last) < 0 or max(first, last) == 0:
            raise InvalidInput("region: the radii of a frustum must be at least 0, and one above 0")
    axis = {name: end[name] - one for name, one in start.items()}
    length = sum(one * one for one in axis.values())
    if length == 0:
        raise InvalidInput("region: the start and the end of the axis are one point")

    def parts(at: Points) -> tuple[Array, list[Array]]:
        """The height from 0 to 1 along the axis, and the vector from the axis."""
        apart = {name: at[name] - one for name, one in start.items()}
        height: Array = np.add.reduce([apart[name] * one for name, one in axis.items()]) / length
        return height, [apart[name] - height * one for name, one in axis.items()]

    def inside(at: Points) -> Array:
        height, apart = parts(at)
        radius = first + (last - first) * height
        square = np.add.reduce([one * one for one in apart])
        found: Array = (height >= 0) & (height <= 1) & (square <= radius * radius)
        return found

    def roots(a: Points, b: Points) -> list[Array]:
        (h0, p0), (h1, p1) = parts(a), parts(b)
        r0 = first + (last - first) * h0
        slope = (last - first) * (h1 - h0)
        along = [end - one for end, one in zip(p1, p0, strict=True)]
        c2 = np.add.reduce([one * one for one in along]) - slope * slope
        c1 = np.add.reduce([one * d for one, d in zip(p0, along, strict=True)]) - r0 * slope
        c0 = np.add.reduce([one * one for one in p0]) - r0 * r0
        with np.errstate(divide="ignore", invalid="ignore"):
            caps = [-h0 / (h1 - h0), (1 - h0) / (h1 - h0)]
        return [*_quadratic(c2, c1, c0), *caps]

    return Shape(list(start), inside, roots)


def _polygon(value: Mapping[str, Any]) -> Shape:
    x, y = value.get("columns", list(AXES[:2]))
    rings = [np.asarray(ring, dtype=float) for ring in value["coordinates"]]
    for ring in rings:
        if ring.ndim != 2 or len(ring) < 3:
            raise InvalidInput("region: a ring of a polygon needs at least 3 corners")
    edges = [
        (corner, following)
        for ring in rings
        for corner, following in zip(ring, np.roll(ring, -1, axis=0), strict=True)
        if (corner != following).any()
    ]

    def inside(at: Points) -> Array:
        # The number of edges to the right of the point is odd (Shimrat 1962).
        found = np.zeros(at[x].shape, bool)
        for (x0, y0), (x1, y1) in edges:
            if y0 == y1:
                continue
            crosses = (y0 > at[y]) != (y1 > at[y])
            found ^= crosses & (at[x] < x0 + (at[y] - y0) * ((x1 - x0) / (y1 - y0)))
        return found

    def roots(a: Points, b: Points) -> list[Array]:
        return [
            _level(lambda at, nx=y1 - y0, ny=x0 - x1: nx * at[x] + ny * at[y], level)(a, b)  # type: ignore[misc]
            for (x0, y0), (x1, y1) in edges
            for level in [(y1 - y0) * x0 + (x0 - x1) * y0]
        ]

    return Shape([x, y], inside, roots)


_KINDS: dict[str, Callable[[Any], Shape]] = {
    "box": _box,
    "sphere": _sphere,
    "ellipsoid": _of_ellipsoid,
    "cylinder": _frustum,
    "frustum": _frustum,
    "slab": _slab,
    "half_space": _half_space,
    "polygon": _polygon,
}
