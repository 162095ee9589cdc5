"""Checks the arguments of queries and calls, and converts them to JSON.

Python and NumPy values become the types of the engine: bool, int, float, str (dates and times in
ISO 8601, decimals as digits) and bytes. The engine checks them against column types.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from . import _kubist
from ._asked import KINDS
from ._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from ._asked import Asked
    from ._spec import End, PerCell, QuerySpec, Range

Plain = bool | int | float | str | bytes | None


def spec(schema: Callable[[], pa.Schema], asked: Asked) -> QuerySpec:
    """The query as a `QuerySpec`, the JSON form of the engine and the server.

    Only durations need ``schema``, which has the unit of their column.
    """
    question: dict[str, Any] = {}
    for name, value in asked.items():
        if value is None:
            continue
        if name == "box":
            question["box"] = ranges(value, schema)
        else:
            check = _OWN_SHAPES.get(name) or _SHAPES[KINDS[name]]
            question[name] = check(name, value)
    return cast("QuerySpec", question)


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{what}: expected the name of a column, not {value!r}")
    return value


def _sql(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be an SQL expression as a string, not {_kind(value)}")
    return value


def _region(what: str, value: Any) -> dict[str, Any]:
    from .region import to_dict

    return to_dict(value)


def _window(what: str, value: Any) -> tuple[float, float]:
    low, high = pair(what, value)
    return fraction(what, low), fraction(what, high)


def _order(what: str, value: Any) -> list[str]:
    return _terms(value) if isinstance(value, str) else names(what, value)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be a string, not {_kind(value)}")
    return value


def _flag(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{what} must be True or False, not {value!r}")
    return value


def _terms(text: str) -> list[str]:
    """The terms of an order, split at commas outside of quotes and parentheses."""
    terms = _kubist.terms(text)
    if terms is None:
        raise InvalidInput(f"order_by: expected columns between commas, not {text!r}")
    return terms


def _steps(what: str, steps: Any) -> tuple[int | None, int | None]:
    low, high = (steps, steps) if isinstance(steps, int) else pair(what, steps)
    ends = [None if end is None else step(what, end) for end in (low, high)]
    return ends[0], ends[1]


def ranges(box: Any, schema: Callable[[], pa.Schema]) -> dict[str, Range]:
    """The ranges of a box, ``{"x": (0.1, None)}``, in JSON."""
    if not isinstance(box, Mapping):
        raise InvalidInput(f"box must be a dict of column: (low, high), not {_kind(box)}")
    return {_column("box", column): _ends(column, ends, schema) for column, ends in box.items()}


def _column(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: {value!r} is not a column name")
    return value


def _ends(column: str, ends: Any, schema: Callable[[], pa.Schema]) -> Range:
    """Both bounds of a range; a single value is both."""
    if type(ends) is tuple and len(ends) == 2:
        low, high = ends
        # Finite floats, the usual case, need no conversion.
        if type(low) is float and type(high) is float and -math.inf < low <= high < math.inf:
            return ends
    ends = _scalar(ends)
    single = isinstance(ends, (str, bytes)) or not isinstance(ends, Iterable)
    low, high = (ends, ends) if single else map(_scalar, pair(f"box: {column}", ends))
    if _is_above(low, high):
        message = f"box: {column}: the lower end {low} is above the upper end {high}"
        raise InvalidInput(message)
    first = _end(column, low, schema, upper=False)
    return in_json(column, first), in_json(column, _end(column, high, schema, upper=True))


def in_json(column: str, end: Plain) -> End:
    if isinstance(end, bytes):
        return {"binary": list(end)}
    if isinstance(end, float) and not math.isfinite(end):
        return {"float": "inf" if end > 0 else "-inf"}
    if isinstance(end, int) and not -(2**63) <= end < 2**64:
        if not -(2**127) <= end < 2**127:
            raise InvalidInput(f"box: {column}: a bound is outside of every column's range")
        return {"int": str(end)}
    return end


def _is_above(low: Any, high: Any) -> bool:
    """Whether the lower bound is above the upper one.

    The engine checks strings, which may be dates, and bounds of different kinds.
    """
    if low is None or high is None or isinstance(low, str) or isinstance(high, str):
        return False
    try:
        return bool(low > high)
    except (TypeError, ArithmeticError):
        return False


def _end(column: str, value: Any, schema: Callable[[], pa.Schema], *, upper: bool) -> Plain:
    if isinstance(value, dt.timedelta) or _numpy_kind(value) == "m":
        return _in_unit_of(column, value, schema(), upper=upper)
    end = plain(f"box: {column}", value)
    if isinstance(end, float) and math.isnan(end):
        raise InvalidInput(f"box: {column}: a bound cannot be NaN; None leaves it open")
    return end


def plain(what: str, value: Any) -> Plain:
    """The value as a type of the engine."""
    value = _scalar(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if _numpy_kind(value) == "M":
        coarse = str(value.dtype).endswith(("[Y]", "[M]", "[W]", "[h]"))
        return str(value.astype("datetime64[s]") if coarse else value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise InvalidInput(f"{what}: {value!r} ({_kind(value)}) cannot be compared with a column")


def _decimal(value: decimal.Decimal) -> Plain:
    """The exact number, as a float if its shortest decimal form is the same."""
    if not value.is_finite():
        return float(value)
    if value == value.to_integral_value():
        return int(value)
    nearest = float(value)
    return nearest if decimal.Decimal(repr(nearest)) == value else format(value, "f")


def _scalar(value: Any) -> Any:
    """The Python value of scalars (and 0-dimensional arrays) of NumPy and pyarrow."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        if value.dtype.kind in "mM":
            # Python's dates have no nanoseconds, so NumPy's dates stay.
            value = value[()]
        else:
            value = value.item()
            value = float(value) if hasattr(value, "dtype") else value  # long double
    if not isinstance(value, str) and str(value) in ("NaT", "<NA>"):
        raise InvalidInput(f"{value} is not a valid bound; None leaves a bound open")
    return value


def _numpy_kind(value: Any) -> str | None:
    return getattr(getattr(value, "dtype", None), "kind", None)


_UNIT_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _in_unit_of(column: str, value: Any, schema: pa.Schema, *, upper: bool) -> int:
    if isinstance(value, dt.timedelta):
        nanoseconds = getattr(value, "value", None)  # pandas.Timedelta has nanoseconds
        if not isinstance(nanoseconds, int):
            nanoseconds = (value // dt.timedelta(microseconds=1)) * 1000
    else:
        nanoseconds = int(value.astype("timedelta64[ns]").astype("int64"))
    index = schema.get_field_index(column)
    unit = getattr(schema.field(index).type, "unit", None) if index >= 0 else None
    if index >= 0 and not str(schema.field(index).type).startswith("duration"):
        kind = schema.field(index).type
        message = f"box: {column} is {kind}, it cannot be compared with the duration {value}"
        raise InvalidInput(message)
    divisor = _UNIT_NANOSECONDS.get(unit or "ns", 1)
    return nanoseconds // divisor if upper else -(-nanoseconds // divisor)


def _per_cell(what: str, per_cell: Any) -> PerCell:
    rows, widths = pair(what, per_cell, "rows, {column: width}")
    if not isinstance(widths, Mapping):
        raise InvalidInput(f"{what}: widths must be a dict of column: width, not {_kind(widths)}")
    each = {str(column): _width(column, width) for column, width in widths.items()}
    return {"rows": count(what, rows), "widths": each}


def _width(column: Any, width: Any) -> float | str:
    return width if isinstance(width, str) else finite(f"per_cell: {column}", width)


def pair(what: str, value: Any, shape: str = "low, high") -> tuple[Any, Any]:
    """A pair of values; a string is not a pair."""
    if not isinstance(value, (str, bytes, Mapping, set, frozenset)) and isinstance(value, Iterable):
        parts = tuple(value)
        if len(parts) == 2:
            return parts
    raise InvalidInput(f"{what}: expected a pair ({shape}), not {value!r}")


def number(what: str, value: Any, *, low: float = -math.inf) -> float:
    """A number that is at least ``low``; it may be infinite, but not NaN or text."""
    value = _scalar(value)
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise InvalidInput(f"{what}: expected a number, not {value!r}")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what}: expected a number, not {value!r}") from None
    if math.isnan(found):
        raise InvalidInput(f"{what}: expected a number, not NaN")
    if found < low:
        raise InvalidInput(f"{what}: {found:g} is below {low:g}")
    return found


def seconds(what: str, value: Any, *, low: float = 0.0) -> float:
    """Seconds from a number, text such as ``"500 ms"``, or a duration of Python or NumPy."""
    if isinstance(value, str):
        try:
            value = _kubist.seconds(value)
        except InvalidInput as error:
            raise InvalidInput(f"{what}: {error}") from None
    elif isinstance(value, dt.timedelta):
        value = value.total_seconds()
    elif _numpy_kind(value) == "m":
        value = value / value.dtype.type(1, "s")
    return number(what, value, low=low)


def finite(what: str, value: Any, *, low: float = -math.inf) -> float:
    found = number(what, value, low=low)
    if math.isinf(found):
        raise InvalidInput(f"{what}: expected a finite number, not {found}")
    return found


def fraction(what: str, value: Any) -> float:
    """A finite number, or a percentage: ``"1%"`` is 0.01."""
    if not isinstance(value, str):
        return finite(what, value)
    digits = value.strip().removesuffix("%")
    try:
        found = float(digits) / (100 if value.strip() != digits else 1)
    except ValueError:
        raise InvalidInput(
            f"{what}: expected a fraction such as 0.01 or '1%', not {value!r}"
        ) from None
    return finite(what, found)


def step(what: str, value: Any) -> int:
    return count(what, value, least=-(2**63), most=2**63 - 1)


def count(what: str, value: Any, *, least: int = 0, most: int = 2**64 - 1) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{what}: expected an integer, not {value!r}") from None
    if not least <= number <= most:
        raise InvalidInput(f"{what}: {number} is not between {least} and {most}")
    return number


def names(what: str, value: Any) -> list[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidInput(f"{what} must be a list of column names, not {value!r}")
    return [_column(what, name) for name in value]


def token(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"token: expected the token of a snapshot, not {value!r}")
    return value


def dimensions(value: Any) -> list[tuple[str, str, Plain, Plain]]:
    """``{"x": None, "t": (0, 1), "z": "quantile"}`` as tuples: column, kind of domain, bounds."""
    if not isinstance(value, Mapping):
        return [(name, "learned", None, None) for name in names("dimensions", value)]
    return [_dimension(column, domain) for column, domain in value.items()]


def _dimension(column: Any, domain: Any) -> tuple[str, str, Plain, Plain]:
    column = _column("dimensions", column)
    if domain is None:
        return column, "learned", None, None
    if isinstance(domain, str):
        if domain == "quantile":
            return column, "quantile", None, None
        what = 'None, (low, high) or "quantile"'
        raise InvalidInput(f"dimensions: {column}: expected {what}, not {domain!r}")
    what = f"dimensions: {column}"
    low, high = (plain(what, end) for end in pair(what, domain))
    if low is None or high is None:
        raise InvalidInput(f"{what}: a domain needs both ends, not ({low!r}, {high!r})")
    return column, "linear", low, high


def units(value: Any) -> list[tuple[str, str]]:
    """``{"x": "m"}`` as pairs of column and unit; warns of unknown units."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise InvalidInput(f"units must be a dict of column: unit, not {_kind(value)}")
    for column, unit in value.items():
        if not isinstance(column, str) or not isinstance(unit, str):
            raise InvalidInput(f"units: expected a column and its unit, not {column!r}: {unit!r}")
    pairs = list(value.items())
    for note in _kubist.unit_notes(pairs):
        warnings.warn(_kubist.printable(note), UserWarning, stacklevel=4)
    return pairs


def error_bounds(value: Any) -> list[tuple[str, float | str]]:
    """``{"x": 1e-6, "ux": "1e-4 rel"}`` as pairs of column and error bound."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise InvalidInput(f"accuracy must be a dict of column: bound, not {_kind(value)}")
    return [(_column("accuracy", column), bound(column, of)) for column, of in value.items()]


def bound(column: str, value: Any) -> float | str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise InvalidInput(f"accuracy: {column}: expected a number or text, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"accuracy: {column}: expected a number or text, not {value!r}"
        ) from None


def periods(value: Any) -> list[tuple[str, float | str | None]]:
    """``{"x": 25, "y": (-12.5, 12.5)}`` as pairs of column and number, or text of an interval."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise InvalidInput(f"period must be a dict of column: period, not {_kind(value)}")
    return [(_column("period", column), _period(column, of)) for column, of in value.items()]


def _period(column: str, value: Any) -> float | str | None:
    if isinstance(value, tuple | list):
        low, high = (_period(column, end) for end in pair(f"period: {column}", value))
        return f"{low}:{high}"
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "unit") and hasattr(value, "value"):
        return f"{finite(f'period: {column}', value.value)!r} {value.unit}"
    return finite(f"period: {column}", value)


def sphere(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    found = names("sphere", value)
    if len(found) != 2:
        raise InvalidInput(f"sphere: expected the columns of longitude and latitude, not {value!r}")
    return found[0], found[1]


def of_periods(texts: Mapping[str, str]) -> dict[str, float | tuple[float, float]]:
    found: dict[str, float | tuple[float, float]] = {}
    for name, text in texts.items():
        low, _, high = text.rpartition(":")
        found[name] = (float(low), float(high)) if low else float(high)
    return found


def metadata(value: Any) -> str:
    if value is None:
        return "{}"
    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata must be a dict of key: value, not {_kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InvalidInput(f"metadata: a key must be text, not {key!r}")
    try:
        return json.dumps(dict(value), allow_nan=False, default=_scalar_or_refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"metadata: values must be JSON: {error}") from None


def _scalar_or_refuse(value: Any) -> Any:
    """NumPy numbers and dates as JSON; raises for other objects."""
    made = plain("metadata", value)
    if isinstance(made, bytes):
        raise TypeError("bytes are not text")
    return made


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


_SHAPES: dict[str, Callable[[str, Any], object]] = {
    "number": finite,
    "integer": count,
    "text": _text,
    "boolean": _flag,
    "names": names,
}
"""The checks of query parameters, by their type in JSON."""

_OWN_SHAPES: dict[str, Callable[[str, Any], object]] = {
    "where": _sql,
    "region": _region,
    "sample": fraction,
    "window": _window,
    "steps": _steps,
    "per_cell": _per_cell,
    "order_by": _order,
    "inclusion": _name,
}
"""The checks of parameters that accept more types in Python than in JSON."""
