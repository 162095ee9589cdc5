"""Translates conditions of other engines into conditions of Kubist that match at least their rows.

Polars, DuckDB and pyarrow differ in their treatment of NaN, null and literals. So `superset`
returns a condition that matches every row that the engine's condition matches, and possibly more,
because it drops parts that cannot be translated. The engine applies its own condition to these
rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

MOST_VALUES = 4096
"""A longer list is replaced by its minimum and maximum."""

MOST_EXACT = 16
"""Maximum number of conditions in a conjunction, which Kubist's parser accepts."""

EXACT_FLOATS = 2**53
"""Integers below this are exact as 64-bit floats."""

EXACT_DIGITS = 15
"""Decimal numbers of this many digits become the same 64-bit float in all engines."""

EXACT_SCALE = -22
"""The least exponent of ten for this, because floats have powers of ten up to 10^22 exactly."""

DAY = 86_400 * 10**9
UNITS = {"s": 10**9, "ms": 10**6, "µs": 10**3, "us": 10**3, "ns": 1}

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
COMPLEMENT = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}

IEEE = frozenset({"<>"})
"""The comparisons that are true for NaN in IEEE 754: NaN is unequal to everything."""

NAN_GREATEST = frozenset({">", ">=", "<>"})
"""The comparisons that are true for NaN in engines where NaN is above all numbers."""


@dataclass(frozen=True)
class Moment:
    """A time of ``ticks`` times ``nanoseconds``; ``what`` is instant, clock or span."""

    what: str
    ticks: int
    nanoseconds: int


@dataclass(frozen=True)
class Compare:
    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class OneOf:
    """Whether the value is in the list; false for null."""

    column: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Starts:
    column: str
    prefix: str


@dataclass(frozen=True)
class Truth:
    column: str


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class IsNan:
    column: str


@dataclass(frozen=True)
class Constant:
    value: bool | None


@dataclass(frozen=True)
class Not:
    part: Condition


@dataclass(frozen=True)
class All:
    parts: Sequence[Condition]


@dataclass(frozen=True)
class Some:
    parts: Sequence[Condition]


Condition = Compare | OneOf | Starts | Truth | IsNull | IsNan | Constant | Not | All | Some | None
"""None: an unknown condition, which may be true for any row."""


@dataclass(frozen=True)
class Kind:
    """How an engine compares the values of a column."""

    family: str
    unit: int = 1
    """Unit of times, in nanoseconds."""
    ordered: bool = True
    long: bool = True
    """Whether all values of an integer column fit into a signed 64-bit integer."""
    double: bool = False
    """Whether a floating-point column has 64 bits, as literals have."""


def kinds(columns: Iterable[Mapping[str, Any]]) -> dict[str, Kind]:
    found = {column["name"]: _kind(column["data_type"]) for column in columns}
    return {name: kind for name, kind in found.items() if kind is not None}


def _kind(data_type: str) -> Kind | None:
    if labels := re.fullmatch(r"Dictionary\(\w+, (.*)\)", data_type):
        values = _kind(labels[1])
        # Other engines may order labels by dictionary code.
        return None if values is None else Kind(values.family, values.unit, ordered=False)
    name, _, arguments = data_type.partition("(")
    unit = UNITS.get(re.split(r"[,)]", arguments)[0].strip(), 1)
    if name.startswith(("Int", "UInt")) and not name.startswith("Interval"):
        return Kind("int", long=name != "UInt64")
    families = {
        "Float16": "float",
        "Float32": "float",
        "Float64": "float",
        "Boolean": "bool",
        "Utf8": "text",
        "LargeUtf8": "text",
        "Utf8View": "text",
        "Binary": "bytes",
        "LargeBinary": "bytes",
        "BinaryView": "bytes",
        "FixedSizeBinary": "bytes",
        "Timestamp": "instant",
        "Time32": "clock",
        "Time64": "clock",
        "Duration": "span",
    }
    if name in families:
        return Kind(families[name], unit, double=name == "Float64")
    if name.startswith("Decimal"):
        return Kind("decimal")
    return {"Date32": Kind("instant", DAY), "Date64": Kind("instant", UNITS["ms"])}.get(name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def both(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return f"({one}) AND ({other})"


def superset(
    condition: Condition, columns: Mapping[str, Kind], nan_true: frozenset[str]
) -> str | None:
    """A condition in Kubist's SQL that holds wherever ``condition`` does; None if it cannot prune.

    ``nan_true`` has the comparisons that are true for NaN in the other engine.
    """
    try:
        found = _Enclosing(columns, nan_true).where(condition, True)
    except RecursionError:
        return None
    return None if found is None else _text(found)


def is_exact(
    condition: Condition, columns: Mapping[str, Kind], nan_true: frozenset[str]
) -> bool:
    """Whether `superset` returns the condition itself: comparisons of numbers, joined by AND.

    Null meets no comparison in any engine. Where NaN meets some comparisons of the other engine,
    a column of floating-point numbers also needs a comparison that NaN does not meet.
    """
    comparisons = list(_comparisons(condition))
    if not 0 < len(comparisons) <= MOST_EXACT:
        return False
    without_nan = {one.column for one in comparisons if one is not None and one.op not in nan_true}
    return all(one is not None and _is_exact(one, columns, without_nan) for one in comparisons)


def _comparisons(condition: Condition) -> Iterator[Compare | None]:
    """Yields the comparisons of a conjunction, and None for every other part."""
    match condition:
        case All(parts):
            for part in parts:
                yield from _comparisons(part)
        case Compare(_, "<" | "<=" | ">" | ">=" | "="):
            yield condition
        case _:
            yield None


def _is_exact(one: Compare, columns: Mapping[str, Kind], without_nan: set[str]) -> bool:
    kind, value = columns.get(one.column), one.value
    if kind is None or not kind.ordered:
        return False
    if kind.family == "int":
        return _is_int(value) and abs(value) < EXACT_FLOATS
    if kind.family != "float" or not kind.double or one.column not in without_nan:
        return False
    if isinstance(value, Decimal):
        # With more digits, or a larger power of ten, an engine may round to a neighbouring float.
        _, digits, exponent = value.as_tuple()
        return isinstance(exponent, int) and len(digits) <= EXACT_DIGITS and exponent >= EXACT_SCALE
    return _is_int(value) and abs(value) < EXACT_FLOATS or isinstance(value, float)


@dataclass(frozen=True)
class _Range:
    """Conditions on a column, joined by AND; with ``nan``, NaN matches too."""

    column: str
    ends: tuple[str, ...]
    nan: bool


@dataclass(frozen=True)
class _Joined:
    word: str
    parts: tuple[_Part, ...]


_Part = _Range | _Joined | str


def _text(part: _Part) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, _Joined):
        return part.word.join(
            f"({_text(inner)})" if isinstance(inner, _Joined) else _text(inner)
            for inner in part.parts
        )
    ends = " AND ".join(part.ends)
    return f"({ends} OR isnan({quoted(part.column)}))" if part.nan else f"({ends})"


class _Enclosing:
    def __init__(self, columns: Mapping[str, Kind], nan_true: frozenset[str]) -> None:
        self._columns = columns
        self._nan_true = nan_true

    def where(self, node: Condition, want: bool) -> _Part | None:
        """A condition that holds wherever ``node`` evaluates to ``want``."""
        match node:
            case Not(part):
                return self.where(part, not want)
            case All(parts) | Some(parts):
                found = [self.where(part, want) for part in parts]
                return _all(found) if isinstance(node, All) == want else _some(found)
            case Constant(value):
                return None if value is want else "FALSE"
            case Truth(column) if self._family(column) == "bool":
                return quoted(column) if want else f"NOT {quoted(column)}"
            case IsNull(column):
                return f"{quoted(column)} IS {'' if want else 'NOT '}NULL"
            case IsNan(column) if self._family(column) == "float":
                return f"{'' if want else 'NOT '}isnan({quoted(column)})"
            case Compare(column, op, value):
                return self._compare(column, op if want else COMPLEMENT[op], value, op, want)
            case OneOf(column, values) if want:
                return self._one_of(column, values)
            case Starts(column, prefix) if want and self._family(column) == "text":
                return f"starts_with({quoted(column)}, {_literal_text(prefix)})"
        return None

    def _family(self, column: str) -> str | None:
        kind = self._columns.get(column)
        return None if kind is None else kind.family

    def _compare(self, column: str, op: str, value: Any, asked: str, want: bool) -> _Part | None:
        kind = self._columns.get(column)
        if kind is None or (not kind.ordered and op not in ("=", "<>")):
            return None
        nan = kind.family == "float" and (asked in self._nan_true) == want
        ends = _ends(kind, op, value)
        if ends is None:
            return None
        name = quoted(column)
        return _Range(column, tuple(f"{name} {end}" for end in ends), nan)

    def _one_of(self, column: str, values: Sequence[Any]) -> _Part | None:
        kind = self._columns.get(column)
        if kind is None:
            return None
        nan = any(isinstance(value, float) and math.isnan(value) for value in values)
        listed = [value for value in values if value is not None and value == value]
        if any(_ends(kind, "=", value) is None for value in listed):
            return None
        name = quoted(column)
        if not listed:
            ends: tuple[str, ...] = ("FALSE",)
        elif len(listed) <= MOST_VALUES:
            exact = [_ends(kind, "=", value) for value in listed]
            literals = [end[0].removeprefix("= ") for end in exact if end is not None]
            ends = (f"{name} IN ({', '.join(literals)})",)
        elif kind.ordered and kind.family in ("int", "float", "decimal", "text", "bytes"):
            first, last = _ends(kind, ">=", min(listed)), _ends(kind, "<=", max(listed))
            ends = tuple(f"{name} {end}" for end in (*(first or ()), *(last or ())))
        else:
            return None
        return _Range(column, ends, nan and kind.family == "float")


def _all(parts: Iterable[_Part | None]) -> _Part | None:
    flat: list[_Part] = []
    for part in parts:
        if isinstance(part, _Joined) and part.word == " AND ":
            flat.extend(part.parts)
        elif part is not None:
            flat.append(part)
    # NaN matches only if every condition of its column allows it.
    ranges: dict[str, _Range] = {}
    for part in flat:
        if isinstance(part, _Range):
            known = ranges.get(part.column)
            ends, nan = (known.ends, known.nan) if known else ((), True)
            ranges[part.column] = _Range(part.column, ends + part.ends, nan and part.nan)
    rest = [part for part in flat if not isinstance(part, _Range)]
    return _join(" AND ", [*ranges.values(), *rest])


def _some(parts: Iterable[_Part | None]) -> _Part | None:
    flat: list[_Part] = []
    for part in parts:
        if part is None:
            return None
        if isinstance(part, _Joined) and part.word == " OR ":
            flat.extend(part.parts)
        else:
            flat.append(part)
    return _join(" OR ", flat)


def _join(word: str, parts: list[_Part]) -> _Part | None:
    if len(parts) <= 1:
        return parts[0] if parts else None
    return _Joined(word, tuple(parts))


def _ends(kind: Kind, op: str, value: Any) -> tuple[str, ...] | None:
    """Comparisons (operator and literal) that together match whenever ``column op value`` does."""
    match kind.family:
        case "int" if _is_int(value):
            return (f"{op} {value}",)
        case "int" if isinstance(value, float) and abs(value) < EXACT_FLOATS:
            # Beyond this, an engine may compare with a rounded value.
            return _whole(op, math.floor(value), value - math.floor(value))
        case "int" | "decimal" if isinstance(value, Decimal) and value.is_finite():
            return (f"{op} {value:f}",)
        case "decimal" if _is_int(value):
            return (f"{op} {value}",)
        case "float" if _is_int(value) or isinstance(value, (float, Decimal)):
            return _around_float(kind, op, value)
        case "bool" if isinstance(value, bool) and op in ("=", "<>"):
            return (f"{op} {str(value).upper()}",)
        case "text" if isinstance(value, str):
            return (f"{op} {_literal_text(value)}",)
        case "bytes" if isinstance(value, bytes):
            return (f"{op} X'{value.hex()}'",)
        case family if isinstance(value, Moment) and value.what == family:
            return _whole(op, *divmod(value.ticks * value.nanoseconds, kind.unit))
    return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(op: str, floor: Any, rest: Any) -> tuple[str, ...] | None:
    """A comparison of integers with a number that may be between two integers."""
    if rest == 0:
        return (f"{op} {int(floor)}",)
    if op in ("<", "<="):
        return (f"<= {int(floor)}",)
    if op in (">", ">="):
        return (f">= {int(floor) + 1}",)
    # The number differs from every integer.
    return ("= NULL",) if op == "=" else None


def _around_float(kind: Kind, op: str, value: Any) -> tuple[str, ...] | None:
    """Closed bounds, unless the literal and the column have the same width and rounding."""
    exactly = _is_exact(Compare("", op, value), {"": kind}, {""})
    try:
        value = float(value)
    except OverflowError:
        return None
    if math.isnan(value) or op == "<>":
        return None
    literal = repr(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    return (f"{op if exactly or op == '=' else op[0] + '='} {literal}",)


def _literal_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
