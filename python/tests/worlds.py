"""Random tables and queries, and their results by a plain Python loop.

Conditions are evaluated row by row in Python, in the documented three-valued logic.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

Truth = bool | None  # None: unknown

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass
class Kind:
    """A column type: how to generate, compare and write values."""

    type: pa.DataType
    draw: Callable[[np.random.Generator, int], Sequence[Any]]
    """Values in the form of ``key``, or None."""
    sql: Callable[[Any], str]
    """A key as an SQL literal."""
    bound: Callable[[Any], Any]
    """A key as a bound of a box."""
    array: Callable[[Sequence[Any], pa.DataType], pa.Array] = field(
        default=lambda keys, kind: pa.array(keys, kind)
    )
    """The column from its keys."""
    dimension: bool = True
    ordered: bool = True


def _ints(bits: int, signed: bool) -> Kind:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        near = rng.integers(max(low, -40), min(high, 60), rows, endpoint=True).tolist()
        far = [low, low + 1, high - 1, high, 0]
        return [far[rng.integers(5)] if rng.random() < 0.05 else value for value in near]

    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    numpy = getattr(np, str(kind))
    return Kind(kind, draw, str, lambda key: [key, numpy(key), float(key)][key % 3]
                if abs(key) < 2**24 else key)  # fmt: skip


def _floats(bits: int) -> Kind:
    numpy = {16: np.float16, 32: np.float32, 64: np.float64}[bits]
    info = np.finfo(numpy)
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, float(info.max), float(info.min)]
    special += [float(info.smallest_subnormal), -float(info.smallest_subnormal)]

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        values = rng.normal(0.5, 0.3, rows).astype(numpy)
        values = np.where(rng.random(rows) < 0.2, np.round(values, 1), values)
        listed = values.astype(numpy).tolist()
        odd = rng.random(rows) < 0.06
        return [
            special[rng.integers(len(special))] if o else v
            for o, v in zip(odd, listed, strict=True)
        ]

    def sql(key: float) -> str:
        if math.isinf(key):
            return "inf" if key > 0 else "-inf"
        return repr(key)

    def array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
        values = np.array([0 if key is None else key for key in keys], dtype=numpy)
        return pa.array(values, kind, mask=np.array([key is None for key in keys], dtype=bool))

    return Kind(getattr(pa, f"float{bits}")(), draw, sql, lambda key: key, array)


def _text(kind: pa.DataType) -> Kind:
    words = ["", "a", "ab", "b", "ba", "x%y", "x_y", "it's", "é", "日本", "zz" * 20]

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        return [words[place] for place in rng.integers(0, len(words), rows)]

    def array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
        if pa.types.is_dictionary(kind):
            return pa.array(keys, kind.value_type).dictionary_encode().cast(kind)
        return pa.array(keys, kind)

    def sql(key: str) -> str:
        return "'" + key.replace("'", "''") + "'"

    return Kind(kind, draw, sql, lambda key: key, array, dimension=False)


def _bytes(kind: pa.DataType) -> Kind:
    fixed = kind.byte_width if pa.types.is_fixed_size_binary(kind) else None

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        lengths = [fixed] * rows if fixed else rng.integers(0, 5, rows).tolist()
        return [bytes(rng.integers(97, 100, length).tolist()) for length in lengths]

    return Kind(kind, draw, lambda key: f"X'{key.hex()}'", lambda key: key, dimension=False)


def _bool() -> Kind:
    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        return (rng.random(rows) < 0.5).tolist()

    return Kind(pa.bool_(), draw, lambda key: str(key).upper(), lambda key: key, dimension=False)


def _decimal(kind: pa.DataType) -> Kind:
    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        with decimal.localcontext(prec=100):
            shift = decimal.Decimal(1).scaleb(-kind.scale)
            values = rng.integers(-2000, 2000, rows).tolist()
            most = 10**kind.precision - 1
            return [
                decimal.Decimal(most if rng.random() < 0.02 else value) * shift for value in values
            ]

    def bound(key: decimal.Decimal) -> Any:
        return key

    return Kind(kind, draw, lambda key: format(key, "f"), bound, dimension=False)


def _instants(kind: pa.DataType) -> Kind:
    """Keys count the column's unit since the epoch."""
    days = pa.types.is_date32(kind)
    unit = 86400 * 10**9 if days else UNIT["ms"] if pa.types.is_date64(kind) else UNIT[kind.unit]
    millisecond_day = 86_400_000

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        if days:
            return rng.integers(-400, 20_000, rows).tolist()
        if pa.types.is_date64(kind):
            return (rng.integers(-400, 20_000, rows) * millisecond_day).tolist()
        seconds = rng.integers(-(10**8), 10**9, rows)
        return (seconds * (10**9 // unit) + rng.integers(0, 10**9 // unit, rows)).tolist()

    def text(key: int) -> str:
        seconds, rest = divmod(key * unit, 10**9)
        stamp = (EPOCH + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        return stamp if rest == 0 else f"{stamp}.{rest:09d}"

    def bound(key: int) -> Any:
        if days:
            return (EPOCH + dt.timedelta(days=key)).date()
        if key % 3 == 0 and unit != 1:
            return EPOCH + dt.timedelta(microseconds=key * (unit // 1000))
        return np.datetime64(key * unit, "ns") if key % 3 == 1 else text(key)

    def array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
        storage = pa.int32() if days else pa.int64()
        return pa.array(keys, storage).cast(kind)

    return Kind(kind, draw, lambda key: f"'{text(key)}'", bound, array)


def _times(kind: pa.DataType) -> Kind:
    """Keys count the column's unit since midnight."""
    unit = UNIT[kind.unit]

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        return rng.integers(0, 86400 * 10**9 // unit, rows).tolist()

    def text(key: int) -> str:
        seconds, rest = divmod(key * unit, 10**9)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return clock if rest == 0 else f"{clock}.{rest:09d}"

    def bound(key: int) -> Any:
        if key % 2 and unit != 1:
            return (dt.datetime.min + dt.timedelta(microseconds=key * (unit // 1000))).time()
        return text(key)

    def array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(keys, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)

    return Kind(kind, draw, lambda key: f"'{text(key)}'", bound, array)


def _durations(kind: pa.DataType) -> Kind:
    """Keys count the column's unit."""
    unit = UNIT[kind.unit]

    def draw(rng: np.random.Generator, rows: int) -> list[Any]:
        return rng.integers(-(10**6), 10**6, rows).tolist()

    def bound(key: int) -> Any:
        if key % 2 and unit != 1:
            return dt.timedelta(microseconds=key * (unit // 1000))
        return np.timedelta64(key, kind.unit)

    def array(keys: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(keys, pa.int64()).cast(kind)

    return Kind(kind, draw, str, bound, array, dimension=False)


KINDS: dict[str, Kind] = {
    **{f"int{bits}": _ints(bits, True) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _ints(bits, False) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": _floats(bits) for bits in (16, 32, 64)},
    "bool": _bool(),
    "string": _text(pa.string()),
    "large_string": _text(pa.large_string()),
    "string_view": _text(pa.string_view()),
    "dictionary": _text(pa.dictionary(pa.int32(), pa.string())),
    "binary": _bytes(pa.binary()),
    "large_binary": _bytes(pa.large_binary()),
    "binary_view": _bytes(pa.binary_view()),
    "fixed_binary": _bytes(pa.binary(3)),
    "decimal32": _decimal(pa.decimal32(7, 2)),
    "decimal64": _decimal(pa.decimal64(16, 4)),
    "decimal128": _decimal(pa.decimal128(30, 3)),
    "decimal256": _decimal(pa.decimal256(60, 10)),
    "date32": _instants(pa.date32()),
    "date64": _instants(pa.date64()),
    **{f"timestamp_{unit}": _instants(pa.timestamp(unit)) for unit in UNIT},
    "timestamp_tz": _instants(pa.timestamp("us", "Europe/Madrid")),
    "time32_s": _times(pa.time32("s")),
    "time32_ms": _times(pa.time32("ms")),
    "time64_us": _times(pa.time64("us")),
    "time64_ns": _times(pa.time64("ns")),
    **{f"duration_{unit}": _durations(pa.duration(unit)) for unit in UNIT},
}

DIMENSION_KINDS = [name for name, kind in KINDS.items() if kind.dimension]


@dataclass
class Column:
    name: str
    kind: Kind
    keys: list[Any]
    """Python values that compare like the column's; None for null."""

    def adopt(self, literal: Any) -> Any:
        if pa.types.is_floating(self.kind.type) and isinstance(literal, (int, float)):
            numpy = self.kind.type.to_pandas_dtype()
            with np.errstate(over="ignore"):
                near = float(numpy(literal))
            # A value beyond the largest finite one stays below infinity.
            return literal if math.isinf(near) and not math.isinf(literal) else near
        return literal


@dataclass
class World:
    columns: dict[str, Column]
    dimensions: list[str]
    arrow: pa.Table

    @property
    def rows(self) -> int:
        return self.arrow.num_rows

    def take(self, rows: Sequence[int]) -> pa.Table:
        places = pa.array(rows, pa.int64())

        def of(column: pa.ChunkedArray) -> pa.Array:
            if str(column.type).endswith("_view"):  # pyarrow has no take for them
                return pa.array([column[row].as_py() for row in rows], column.type)
            return column.take(places).combine_chunks()

        columns = [of(column) for column in self.arrow.columns]
        return pa.Table.from_arrays(columns, schema=self.arrow.schema)


def world(rng: np.random.Generator, rows: int, dimensions: int, payload: int) -> World:
    """Random columns; ``id`` numbers the rows and is never null."""
    names = list(rng.choice(DIMENSION_KINDS, dimensions)) + list(rng.choice(list(KINDS), payload))
    columns = {"id": Column("id", KINDS["int64"], list(range(rows)))}
    for place, kind_name in enumerate(names):
        kind = KINDS[kind_name]
        name = f"c{place}_{kind_name}"
        keys = list(kind.draw(rng, rows))
        if rng.random() < 0.5:
            empty = rng.random(rows) < 0.1
            keys = [None if none else key for none, key in zip(empty, keys, strict=True)]
        columns[name] = Column(name, kind, keys)
    arrays = {
        name: column.kind.array(column.keys, column.kind.type) for name, column in columns.items()
    }
    return World(columns, list(columns)[1 : dimensions + 1], pa.table(arrays))


@dataclass
class Condition:
    sql: str
    holds: list[Truth]


def _is_nan(key: Any) -> bool:
    return isinstance(key, float) and math.isnan(key)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compare(column: Column, operator: str, literal: Any) -> list[Truth]:
    holds = COMPARISONS[operator]
    literal = column.adopt(literal)
    return [None if key is None or _is_nan(key) else holds(key, literal) for key in column.keys]


def both(left: list[Truth], right: list[Truth]) -> list[Truth]:
    return [
        False if a is False or b is False else None if a is None or b is None else True
        for a, b in zip(left, right, strict=True)
    ]


def negated(holds: list[Truth]) -> list[Truth]:
    return [None if truth is None else not truth for truth in holds]


def either(left: list[Truth], right: list[Truth]) -> list[Truth]:
    return negated(both(negated(left), negated(right)))


def literal_of(rng: np.random.Generator, column: Column) -> Any:
    """Usually a value of the column, to have ties."""
    known = [key for key in column.keys if key is not None and not _is_nan(key)]
    return known[rng.integers(len(known))] if known else column.kind.draw(rng, 50)[7]


def leaf(rng: np.random.Generator, world: World) -> Condition:
    column = list(world.columns.values())[rng.integers(len(world.columns))]
    name, sql = f'"{column.name}"', column.kind.sql
    literal = literal_of(rng, column)
    if _is_nan(literal):
        literal = 0.5
    choice = rng.integers(10)
    if choice == 0:
        holds: list[Truth] = [key is None for key in column.keys]
        if rng.random() < 0.5:
            return Condition(f"{name} IS NULL", holds)
        return Condition(f"{name} IS NOT NULL", negated(holds))
    if choice == 1:
        other = literal_of(rng, column)
        if _is_nan(other):
            other = literal
        text = f"{name} BETWEEN {sql(literal)} AND {sql(other)}"
        holds = both(compare(column, ">=", literal), compare(column, "<=", other))
        if rng.random() < 0.3:
            return Condition(text.replace("BETWEEN", "NOT BETWEEN"), negated(holds))
        return Condition(text, holds)
    if choice == 2:
        literals = [literal, *(literal_of(rng, column) for _ in range(rng.integers(0, 4)))]
        literals = [each for each in literals if not _is_nan(each)]
        holds = [False] * world.rows
        for each in literals:
            holds = either(holds, compare(column, "=", each))
        text = f"{name} IN ({', '.join(map(sql, literals))})"
        if rng.random() < 0.3:
            return Condition(text.replace("IN", "NOT IN", 1), negated(holds))
        return Condition(text, holds)
    if choice == 3 and isinstance(literal, str):
        pattern = literal[:1] + ["%", "_", "_%", ""][rng.integers(4)]
        expression = "".join(
            {"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern
        )
        holds = [
            None if key is None else re.fullmatch(expression, key, re.DOTALL) is not None
            for key in column.keys
        ]
        return Condition(f"{name} LIKE {sql(pattern)}", holds)
    if choice == 4 and pa.types.is_boolean(column.kind.type):
        return Condition(name, list(column.keys))
    if choice == 5 and pa.types.is_integer(column.kind.type) and abs(literal) < 2**40:
        shift = int(rng.integers(1, 9))
        holds = [None if key is None else key * 2 + shift > literal for key in column.keys]
        return Condition(f"{name} * 2 + {shift} > {literal}", holds)
    operator = list(COMPARISONS)[rng.integers(6)]
    if pa.types.is_integer(column.kind.type) and choice == 6 and abs(literal) < 2**40:
        literal = literal + 0.5
        return Condition(f"{name} {operator} {literal}", compare(column, operator, literal))
    if choice == 7:
        flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
        text = f"{sql(literal)} {flipped} {name}"
        return Condition(text, compare(column, operator, literal))
    return Condition(f"{name} {operator} {sql(literal)}", compare(column, operator, literal))


def condition(rng: np.random.Generator, world: World, depth: int = 2) -> Condition:
    if depth == 0 or rng.random() < 0.35:
        return leaf(rng, world)
    left = condition(rng, world, depth - 1)
    if rng.random() < 0.3:
        return Condition(f"NOT ({left.sql})", negated(left.holds))
    right = condition(rng, world, depth - 1)
    if rng.random() < 0.5:
        return Condition(f"({left.sql}) AND ({right.sql})", both(left.holds, right.holds))
    return Condition(f"({left.sql}) OR ({right.sql})", either(left.holds, right.holds))


def box(rng: np.random.Generator, world: World) -> tuple[dict[str, tuple[Any, Any]], list[Truth]]:
    inside: list[Truth] = [True] * world.rows
    ends: dict[str, tuple[Any, Any]] = {}
    candidates = list(world.columns.values())
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.7:
            column = world.columns[world.dimensions[rng.integers(len(world.dimensions))]]
        else:
            column = candidates[rng.integers(len(candidates))]
        low, high = literal_of(rng, column), literal_of(rng, column)
        if column.name in ends or _is_nan(low) or _is_nan(high):
            continue
        if low > high:
            low, high = high, low
        if rng.random() < 0.2:
            low = None
        if rng.random() < 0.2:
            high = None
        bound = column.kind.bound
        ends[column.name] = (
            None if low is None else bound(low),
            None if high is None else bound(high),
        )
        if low is not None:
            inside = both(inside, compare(column, ">=", low))
        if high is not None:
            inside = both(inside, compare(column, "<=", high))
    return ends, inside
