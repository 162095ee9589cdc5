"""The distance of a search and its points, in the engine's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from .. import _box, _kubist
from .._data import Data
from .._errors import InvalidInput
from .._libraries import is_a, need
from .._numpy import from_numpy

if TYPE_CHECKING:
    from .._spec import QuerySpec


class Space(TypedDict, total=False):
    """The distance between positions, as for `kubist.Table.nearest`."""

    on: Sequence[str] | None
    period: Mapping[str, float] | None
    sphere: tuple[str, str] | None
    tile_rows: int | None


class Asked(TypedDict, total=False):
    query: QuerySpec
    on: list[str]
    period: dict[str, float]
    sphere: list[str]
    tile_rows: int


def asked(query: QuerySpec, space: Space) -> Asked:
    found: Asked = {"query": query}
    on, period, sphere = space.get("on"), space.get("period"), space.get("sphere")
    if on is not None:
        found["on"] = _box.names("on", on)
    if period is not None:
        if not isinstance(period, Mapping):
            raise InvalidInput(f"period: expected a dict of columns and lengths, not {period!r}")
        found["period"] = {
            str(column): _box.finite(f"period of {column}", length)
            for column, length in period.items()
        }
    if sphere is not None:
        names = _box.names("sphere", sphere)
        if len(names) != 2:
            raise InvalidInput(
                f"sphere: expected the columns of longitude and latitude, not {sphere!r}"
            )
        found["sphere"] = names
    if (rows := space.get("tile_rows")) is not None:
        found["tile_rows"] = _box.count("tile_rows", rows, least=1, most=2**31)
    return found


def radius(what: str, value: Any) -> float | str:
    """A length: a number, text with a unit, or a quantity of astropy or pint."""
    if isinstance(value, str):
        return value
    for number, unit in (("value", "unit"), ("magnitude", "units")):
        if hasattr(value, number) and hasattr(value, unit):
            return f"{float(getattr(value, number))!r} {getattr(value, unit)}"
    return _box.finite(what, value)


def points(value: Any, names: Callable[[], Sequence[str]]) -> list[_kubist.Incoming]:
    """Points as Arrow columns.

    ``names`` returns the columns of positions, in the order of an array's axes.
    """
    if hasattr(value, "spherical") and hasattr(value, "icrs"):
        value = _of_sky(value, names())
    elif isinstance(value, Mapping) and not hasattr(value, "__arrow_c_stream__"):
        numpy = need("numpy", "points")
        value = {name: _at_least_one(numpy, column) for name, column in value.items()}
    elif _is_of_numbers(value):
        return [_of_numbers(value, names())]
    return list(Data(value))


def _is_of_numbers(value: Any) -> bool:
    if is_a(value, "numpy", "ndarray"):
        return value.dtype.names is None
    if isinstance(value, (list, tuple)):
        first = next(iter(value), 0.0)
        return isinstance(first, (int, float, list, tuple)) or is_a(first, "numpy", "ndarray")
    return is_a(value, "torch", "Tensor")


def _of_numbers(value: Any, names: Sequence[str]) -> _kubist.Incoming:
    numpy = need("numpy", "points")
    try:
        array = numpy.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"points: no array of numbers: {error}") from None
    if array.ndim == 1 and array.size == 0:
        array = array.reshape(0, len(names))
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InvalidInput(
            f"points: expected an array of shape (points, {len(names)}) for {', '.join(names)}, "
            f"not {array.shape}"
        )
    columns = [from_numpy(name, array[:, place]) for place, name in enumerate(names)]
    return _kubist.numpy_columns(list(names), columns)


def _of_sky(value: Any, names: Sequence[str]) -> dict[str, Any]:
    """The longitude and latitude of astropy coordinates in their own frame, in degrees."""
    numpy = need("numpy", "points")
    if len(names) != 2:
        raise InvalidInput("points: positions on the sky need `sphere`, the columns of both angles")
    angles = value.spherical.lon.deg, value.spherical.lat.deg
    return {name: numpy.atleast_1d(angle) for name, angle in zip(names, angles, strict=True)}


def _at_least_one(numpy: Any, column: Any) -> Any:
    is_one = isinstance(column, (int, float)) or getattr(column, "shape", None) == ()
    return numpy.atleast_1d(column) if is_one else column
