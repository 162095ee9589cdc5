"""Regions of space and of the sky, for ``region=`` of every query.

``|`` is the union, ``&`` the intersection, ``-`` the difference and ``~`` the complement. Lengths
are in the column's unit, or text with a unit such as ``"1 mm"``; angles are in degrees.

>>> from kubist import region
>>> shell = region.sphere((0, 0, 0), 2) - region.sphere((0, 0, 0), 1)
>>> t.count(region=shell & region.half_space({"z": 1}, (0, 0, 0)))
>>> t.query(region=region.cone("05:34:31.94", "+22:00:52.2", "10 arcmin"))
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput

if TYPE_CHECKING:
    AnyRegion = "Region | Mapping[str, Any] | str"
    """A region, or its JSON as a dict or text."""

    Position = Mapping[str, Any] | Sequence[Any]
    """Coordinates by column, or in the order x, y, z."""

__all__ = [
    "Region",
    "band",
    "box",
    "cone",
    "cylinder",
    "ellipsoid",
    "frustum",
    "half_space",
    "healpix",
    "moc",
    "periodic",
    "polygon",
    "sky_polygon",
    "slab",
    "sphere",
    "where",
]

AXES = ("x", "y", "z")
_ANGLES = {
    "": 1.0,
    "d": 1.0,
    "deg": 1.0,
    "°": 1.0,
    "arcmin": 1 / 60,
    "'": 1 / 60,
    "arcsec": 1 / 3600,
    '"': 1 / 3600,
    "mas": 1 / 3.6e6,
    "h": 15.0,
    "hour": 15.0,
    "hourangle": 15.0,
    "rad": 180 / math.pi,
}


class Region:
    """A region; ``|``, ``&``, ``-`` and ``~`` combine regions."""

    __slots__ = ("_kind", "_value")

    def __init__(self, kind: str, value: Any) -> None:
        self._kind, self._value = kind, value

    def __or__(self, other: AnyRegion) -> Region:
        return self._joined("union", other)

    def __and__(self, other: AnyRegion) -> Region:
        return self._joined("intersection", other)

    def __sub__(self, other: AnyRegion) -> Region:
        return Region("difference", [self.to_dict(), to_dict(other)])

    def __invert__(self) -> Region:
        return Region("complement", self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Region({self.to_json()})"

    def _joined(self, kind: str, other: AnyRegion) -> Region:
        own = self._value if self._kind == kind else [self.to_dict()]
        return Region(kind, [*own, to_dict(other)])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the kind and its values."""
        return {self._kind: self._value}

    def to_json(self) -> str:
        """The JSON form as text, for the command line and HTTP."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def periodic(self, **period: float) -> Region:
        """The region in periodic space; see the function `periodic`."""
        return periodic(self, **period)


def to_dict(region: AnyRegion) -> dict[str, Any]:
    """The JSON form of a region, a dict or JSON text."""
    found: Any = region
    if isinstance(region, Region):
        found = region.to_dict()
    elif isinstance(region, str):
        try:
            found = json.loads(region)
        except ValueError as error:
            raise InvalidInput(f"region: {region[:80]!r} is no JSON: {error}") from None
    if not isinstance(found, Mapping) or len(found) != 1:
        raise InvalidInput(f"region: expected a kubist.region or its JSON, not {region!r}")
    try:
        # A copy with plain numbers instead of arrays and quantities.
        found = _with_cones(found)
        made: dict[str, Any] = json.loads(json.dumps(dict(found), allow_nan=False, default=_plain))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"region: {error}") from None
    return made


def _with_cones(value: Any) -> Any:
    """The JSON form, in which positions and radii of cones become numbers in degrees."""
    if isinstance(value, Region):
        return value
    if isinstance(value, list | tuple):
        return [_with_cones(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    found = {str(key): _with_cones(one) for key, one in value.items() if key != "cone"}
    if isinstance(given := value.get("cone"), Mapping) and {"center", "radius"} <= given.keys():
        made = cone(given["center"], given["radius"])._value
        found["cone"] = {**given, "center": made["center"], "radius": made["radius"]}
    elif "cone" in value:
        found["cone"] = given
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Region):
        return value.to_dict()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def _number(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"region: {what} is {value!r}, which is no number") from None
    if not math.isfinite(number):
        raise InvalidInput(f"region: {what} is {number}, which is no position or length")
    return number


def _length(what: str, value: Any) -> float | str:
    """A number, or text with a unit, also from quantities of astropy and pint."""
    if isinstance(value, str):
        return value
    if hasattr(value, "unit") and hasattr(value, "value"):
        return f"{_number(what, value.value)!r} {value.unit}"
    return _number(what, value)


def _position(what: str, value: Position) -> dict[str, float | str]:
    if isinstance(value, Mapping):
        return {name: _length(f"{what} along {name}", one) for name, one in value.items()}
    values = list(value)
    if not 1 <= len(values) <= len(AXES):
        raise InvalidInput(f"region: {what} has {len(values)} numbers: name the columns in a dict")
    return {
        name: _length(f"{what} along {name}", one) for name, one in zip(AXES, values, strict=False)
    }


def box(**ranges: Any) -> Region:
    """Closed ranges by column, as for ``box=`` of a query: ``box(x=(0, 1), z=(None, 3))``."""
    found = {}
    for name, ends in ranges.items():
        low, high = ends if isinstance(ends, tuple | list) else (ends, ends)
        found[name] = [_end(low), _end(high)]
    return Region("box", found)


def _end(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    number = _number("an end of a range", value)
    return int(value) if number.is_integer() and not isinstance(value, float) else number


def sphere(center: Position, radius: Any) -> Region:
    """The points within a distance, in any number of columns: ``sphere({"x": 0, "y": 1}, 2)``."""
    return Region(
        "sphere",
        {"center": _position("the center", center), "radius": _length("the radius", radius)},
    )


def ellipsoid(center: Position, radii: Position) -> Region:
    """An ellipsoid whose axes are the columns."""
    return Region(
        "ellipsoid",
        {"center": _position("the center", center), "radii": _position("a radius", radii)},
    )


def cylinder(start: Position, end: Position, radius: Any) -> Region:
    """The points around the axis from one point to another, between the planes at its ends."""
    return Region(
        "cylinder",
        {
            "from": _position("the start", start),
            "to": _position("the end", end),
            "radius": _length("the radius", radius),
        },
    )


def frustum(start: Position, end: Position, radius_start: Any, radius_end: Any) -> Region:
    """A cylinder whose radius changes linearly; with a radius of 0 it is a cone."""
    return Region(
        "frustum",
        {
            "from": _position("the start", start),
            "to": _position("the end", end),
            "radius_from": _length("a radius", radius_start),
            "radius_to": _length("a radius", radius_end),
        },
    )


def slab(normal: Position, low: float | None = None, high: float | None = None) -> Region:
    """The points whose scalar product with ``normal`` is from ``low`` to ``high``."""
    value: dict[str, Any] = {"normal": _position("the normal", normal)}
    for name, end in (("low", low), ("high", high)):
        if end is not None:
            value[name] = _number(name, end)
    return Region("slab", value)


def half_space(normal: Position, point: Position) -> Region:
    """The side of the plane through ``point`` that ``normal`` points to."""
    columns = list(normal) if isinstance(normal, Mapping) else list(AXES)
    if not isinstance(point, Mapping) and isinstance(normal, Mapping):
        at = _position("the point", point)
        point = {name: at.get(name, 0) for name in columns}
    return Region(
        "half_space",
        {"normal": _position("the normal", normal), "point": _position("the point", point)},
    )


def polygon(
    border: Any,
    *,
    holes: Iterable[Any] = (),
    columns: tuple[str, str] = ("x", "y"),
    **ranges: Any,
) -> Region:
    """A polygon in two columns, with ranges of other columns: ``polygon(corners, z=(0, 1))``.

    Parameters
    ----------
    border
        Corners ``[(x, y), ...]``, a geometry of shapely, or a GeoJSON dict: a Polygon, a
        MultiPolygon, or a Feature with such a geometry. The last corner may repeat the first.
    holes
        The holes' corners.
    columns
        The columns of the corners.
    ranges
        Closed ranges of other columns, as for `box`.
    """
    made = []
    for rings in _polygons(border, holes):
        coordinates = [[_corner(corner) for corner in ring] for ring in rings]
        made.append({"polygon": {"columns": list(columns), "coordinates": coordinates}})
    if not made:
        raise InvalidInput("region: the polygon is empty")
    kind, value = next(iter(made[0].items())) if len(made) == 1 else ("union", made)
    found = Region(kind, value)
    return found & box(**ranges) if ranges else found


def _polygons(border: Any, holes: Iterable[Any]) -> list[list[Any]]:
    geometry = getattr(border, "__geo_interface__", border)
    if isinstance(geometry, Mapping):
        geometry = geometry.get("geometry", geometry)
        kind = geometry.get("type")
        if kind == "Polygon":
            return [[*geometry["coordinates"], *holes]]
        if kind == "MultiPolygon":
            return [list(rings) for rings in geometry["coordinates"]]
        raise InvalidInput(f"region: a polygon is needed, not a {kind}")
    return [[border, *holes]]


def _corner(corner: Any) -> list[float]:
    values = [_number("a corner of the polygon", one) for one in corner]
    if len(values) not in (2, 3):
        raise InvalidInput(f"region: a corner of the polygon has {len(values)} numbers")
    return values[:2]


def _angle(what: str, value: Any) -> float:
    """An angle in degrees, from a number, text with a unit, or a quantity of astropy."""
    if hasattr(value, "to_value"):
        return _number(what, value.to_value("deg"))
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([^\d\s]*)\s*", value)
        if not found or found[2] not in _ANGLES:
            known = ", ".join(unit for unit in _ANGLES if unit)
            raise InvalidInput(f"region: {what} is {value!r}: write a number and one of {known}")
        return _number(what, found[1]) * _ANGLES[found[2]]
    return _number(what, value)


def _coordinate(what: str, value: Any, hours: bool) -> float:
    """A coordinate in degrees; with ``hours``, sexagesimal text is in hours."""
    if isinstance(value, str):
        text = value.strip()
        parts = re.fullmatch(
            r"([-+\u2212]?)(\d+)(?:\s*[h:d\u00b0]\s*|\s+)(\d+)(?:\s*[m:'\u2032]\s*|\s+)"
            r"(\d+(?:\.\d*)?)\s*[s\"\u2033]?",
            text,
        )
        if parts:
            whole, minutes, seconds = int(parts[2]), int(parts[3]), float(parts[4])
            if minutes >= 60 or seconds >= 60:
                raise InvalidInput(f"region: {what} {value!r} has 60 minutes or seconds, or more")
            size = whole + minutes / 60 + seconds / 3600
            in_hours = "h" in text or (hours and "d" not in text and "\u00b0" not in text)
            sign = -1.0 if parts[1] in ("-", "\u2212") else 1.0
            if in_hours:
                return _hours(what, value, sign * size)
            return sign * size
        found = re.fullmatch(r"([-+\u2212]?[\d.]+)\s*(?:h|hour|hourangle)", text)
        if found:
            return _hours(what, value, _number(what, found[1].replace("\u2212", "-")))
    return _angle(what, value)


def _hours(what: str, value: Any, hours: float) -> float:
    """Hours as degrees; more than 24 hours are an error, although degrees may exceed 360."""
    if not -24 <= hours <= 24:
        raise InvalidInput(f"region: {what} {value!r} has {hours:g} hours, not -24 to 24")
    return 15.0 * hours


def _direction(position: Any) -> list[float]:
    """Longitude and latitude in degrees, from a pair or a SkyCoord of astropy."""
    if hasattr(position, "icrs"):
        position = position.icrs
        return [_angle("the right ascension", position.ra), _angle("the declination", position.dec)]
    longitude, latitude = position
    return [
        _coordinate("the right ascension", longitude, hours=True),
        _coordinate("the declination", latitude, hours=False),
    ]


def cone(*center_and_radius: Any, columns: tuple[str, str] = ("ra", "dec")) -> Region:
    """The positions on the sky within an angle: ``cone(ra, dec, radius)``.

    Parameters
    ----------
    center_and_radius
        ``ra, dec, radius``, or a position and a radius: ``cone(SkyCoord(...), "5 arcmin")``.
        Coordinates are degrees, quantities of astropy, or text: ``"83.6d"``, ``"5.5h"``,
        ``"05:34:31.94"`` (hours for a right ascension), ``"-5d23m28s"``. A radius is in degrees,
        or text such as ``"5 arcmin"``.
    columns
        The columns of right ascension and declination.
    """
    match center_and_radius:
        case (longitude, latitude, radius):
            center = _direction((longitude, latitude))
        case (position, radius):
            center = _direction(position)
        case _:
            raise InvalidInput("region: cone takes ra, dec and radius, or a position and a radius")
    value = {"columns": list(columns), "center": center, "radius": _angle("the radius", radius)}
    return Region("cone", value)


def sky_polygon(
    corners: Any, *, holes: Iterable[Any] = (), columns: tuple[str, str] = ("ra", "dec")
) -> Region:
    """A polygon on the sky; arcs of great circles join its corners."""
    coordinates = [[_direction(corner) for corner in ring] for ring in (corners, *holes)]
    return Region("sky_polygon", {"columns": list(columns), "coordinates": coordinates})


def band(
    pole: Any, low: Any = -5, high: Any = 5, *, columns: tuple[str, str] = ("ra", "dec")
) -> Region:
    """The latitudes from ``low`` to ``high`` relative to a pole, a band around a great circle."""
    value = {
        "columns": list(columns),
        "pole": _direction(pole),
        "low": _angle("low", low),
        "high": _angle("high", high),
    }
    return Region("band", value)


def moc(cells: Any, *, columns: tuple[str, str] = ("ra", "dec")) -> Region:
    """HEALPix cells of several orders: text ``"5/8-10,42"``, lists by order, or a MOC of mocpy."""
    if hasattr(cells, "serialize"):
        cells = cells.serialize("json")
    if isinstance(cells, Mapping):
        cells = {str(order): [int(cell) for cell in of] for order, of in cells.items()}
    return Region("moc", {"columns": list(columns), "cells": cells})


def healpix(
    nside: int, cells: Iterable[int], *, columns: tuple[str, str] = ("ra", "dec")
) -> Region:
    """HEALPix cells with the same ``nside``, in nested order."""
    if nside < 1 or nside & (nside - 1):
        raise InvalidInput(f"region: nside is {nside}, and must be a power of two")
    return moc({nside.bit_length() - 1: cells}, columns=columns)


def where(condition: str) -> Region:
    """The rows that satisfy an SQL condition, for combinations with shapes."""
    return Region("where", condition)


def periodic(region: AnyRegion, **period: float) -> Region:
    """Boxes, spheres and ellipsoids in space that repeats: ``periodic(box(x=(9, 11)), x=10)``."""
    periods = {name: _number(f"the period of {name}", one) for name, one in period.items()}
    return Region("periodic", {"period": periods, "region": to_dict(region)})


cone.__module__ = "kubist"
