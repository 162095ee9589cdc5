"""Tables as sources of lazy frames: filters and projections of an engine become a query.

`Source` is a snapshot with the user's query, to which an engine can add columns and conditions.
`lazy_frame` is for Polars, `kubist._dataset` for pyarrow and DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Unpack

from . import _box
from ._errors import InvalidInput
from ._libraries import need
from ._polars import polars_frame
from ._pushdown import (
    NAN_GREATEST,
    All,
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    Kind,
    Moment,
    Not,
    OneOf,
    Some,
    Starts,
    Truth,
    both,
    kinds,
    superset,
)
from ._result import Result

if TYPE_CHECKING:
    import polars as pl

    from ._asked import Asked
    from ._pinned import Pinned
    from ._spec import QuerySpec

DAY = 86_400 * 10**9
UNITS = {"Nanoseconds": 1, "Microseconds": 10**3, "Milliseconds": 10**6}


class Source:
    """A query of a snapshot, to which engines add columns and conditions."""

    def __init__(
        self,
        snapshot: Pinned,
        question: Callable[..., QuerySpec],
        arguments: Asked,
        on_result: Callable[[Result], object] | None,
    ) -> None:
        if on_result is not None and not callable(on_result):
            raise InvalidInput(f"on_result must be called with each result, not {on_result!r}")
        self._snapshot = snapshot
        self._question = question
        self._arguments = arguments
        self._on_result = on_result
        self.inclusion = arguments.get("inclusion")
        # ``limit`` and ``per_cell`` come before the engine's conditions, so these stay there.
        chosen = (arguments.get("limit"), arguments.get("per_cell"))
        self.takes_conditions = chosen == (None, None)
        described = json.loads(snapshot.columns())
        stored = [column["name"] for column in described]
        asked = arguments.get("columns")
        texts = stored if asked is None else _box.names("columns", asked)
        if "*" not in stored:
            texts = [each for text in texts for each in (stored if text == "*" else [text])]
        # Checks names and values before an engine reads.
        names = snapshot.query(self._asked(limit=0)).names()
        # Columns or expressions by their names in the result.
        self.columns = dict(zip(names, texts, strict=False))
        # Computed or renamed columns cannot be pushed down.
        own = {name for name, text in self.columns.items() if name.lower() == text.lower()}
        self.kinds = {name: kind for name, kind in kinds(described).items() if name in own}
        nothing = both(arguments.get("where"), "FALSE")
        self.empty = self._result(self._asked(where=nothing))

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self._snapshot, self._question, self._arguments, self._on_result)

    def _asked(self, **changes: Unpack[Asked]) -> QuerySpec:
        asked: Asked = {**self._arguments, **changes}
        return self._question(**asked)

    def read(
        self, columns: Sequence[str] | None, where: str | None, exactly: str | None = None
    ) -> Result:
        """The result with ``columns`` for the rows that meet ``exactly``.

        ``where`` may remove further rows, which the engine would remove anyway. Both conditions
        need `takes_conditions`.
        """
        changes: Asked = {"where": both(self._arguments.get("where"), exactly)}
        if columns is not None:
            wanted = set(columns)
            changes["columns"] = [text for name, text in self.columns.items() if name in wanted]
            if self.inclusion not in wanted:
                changes["inclusion"] = None
        if where is None or not self.takes_conditions:
            result = self._result(self._asked(**changes))
        else:
            narrowed = both(changes["where"], where)
            try:
                narrower: Asked = {**changes, "where": narrowed}
                result = self._result(self._asked(**narrower))
            except InvalidInput:
                # For example, the parser refuses deep nesting. The engine evaluates it anyway.
                result = self._result(self._asked(**changes))
        if self._on_result is not None:
            self._on_result(result)
        return result

    def _result(self, question: QuerySpec) -> Result:
        snapshot = self._snapshot
        return Result(snapshot.query(question), lambda: snapshot.query(question), snapshot.metadata)

    def count(self) -> int:
        return self._snapshot.count(self._asked(columns=None, inclusion=None))


def lazy_frame(source: Source, wide: bool = False) -> pl.LazyFrame:
    """The source as a Polars lazy frame, with predicates, projections and slices pushed down.

    With ``wide``, sums of integers cannot overflow their type.
    """
    need("polars", "scan()")
    from polars.io.plugins import register_io_source

    empty = source.empty.to_polars()
    integers = {name: kind for name, kind in empty.schema.items() if wide and kind.is_integer()}
    wider = {name: _widened(kind) for name, kind in integers.items()}
    empty = empty.cast(wider)

    def batches(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = list(empty.columns) if with_columns is None else with_columns
        needed = list(wanted)
        where = None
        if predicate is not None:
            needed.extend(predicate.meta.root_names())
            # Polars slices before it filters, so the query must not exclude rows.
            if n_rows is None:
                where = superset(_condition(predicate, source.kinds), source.kinds, NAN_GREATEST)
        # Polars may need only the number of rows, but a frame without columns has no rows.
        needed = needed or empty.columns[:1]
        given = wanted or needed[:1]
        result = source.read(needed, where)
        left = n_rows
        stream = result._read()
        try:
            yield empty.select(given)
            while left is None or left > 0:
                batch = stream.next_batch()
                if batch is None:
                    break
                frame = polars_frame(batch, "scan()")
                frame = frame.cast({name: wider[name] for name in frame.columns if name in wider})
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                if predicate is not None:
                    frame = frame.filter(predicate)
                yield from frame.select(given).iter_slices(batch_size or max(frame.height, 1))
        finally:
            result.close()

    return register_io_source(batches, schema=empty.schema)


def _widened(integer: pl.DataType) -> pl.DataType:
    """An integer type that can store a sum over a whole table."""
    polars = need("polars", "scan()")
    is_long = integer in (polars.Int64, polars.UInt64, polars.Int128)
    wide: pl.DataType = polars.Int128() if is_long else polars.Int64()
    return wide


def _condition(expression: pl.Expr, kinds: Mapping[str, Kind]) -> Condition:
    try:
        return _Expression(kinds).read(json.loads(expression.meta.serialize(format="json")))
    except Exception:
        # An unknown form does not prune. Polars applies the expression anyway.
        return None


class _Expression:
    """The serialised form of expressions in Polars 1 and 2."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds

    def read(self, node: Any) -> Condition:
        match node:
            case {"Column": str(column)}:
                return Truth(column)
            case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
                return Constant(value)
            case {"Alias": [inner, _]}:
                return self.read(inner)
            case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
                return self._binary(left, op, right)
            case {"Function": {"input": inputs, "function": function}}:
                return self._function(inputs, function)
        return None

    def _binary(self, left: Any, op: str, right: Any) -> Condition:
        if op in ("And", "LogicalAnd"):
            return All(self._chain(left, right, op))
        if op in ("Or", "LogicalOr"):
            return Some(self._chain(left, right, op))
        sign = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}.get(op)
        if sign is None:
            return None
        column, value = self._column(left), self._value(right)
        if column is None:
            flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
            column, value, sign = self._column(right), self._value(left), flipped.get(sign, sign)
        return None if column is None or value is None else Compare(column, sign, value)

    def _chain(self, left: Any, right: Any, op: str) -> list[Condition]:
        """The terms of a chain, which nests to the left; without recursion, for long chains."""
        parts = [self.read(right)]
        while True:
            match left:
                case {"BinaryExpr": {"left": further, "op": same, "right": right}} if same == op:
                    parts.append(self.read(right))
                    left = further
                case _:
                    return [self.read(left), *reversed(parts)]

    def _function(self, inputs: list[Any], function: Any) -> Condition:
        column = self._column(inputs[0])
        match function:
            case {"Boolean": "Not"}:
                return Not(self.read(inputs[0]))
            case _ if column is None:
                return None
            case {"Boolean": "IsNull"}:
                return IsNull(column)
            case {"Boolean": "IsNotNull"}:
                return Not(IsNull(column))
            case {"Boolean": "IsNan"}:
                return IsNan(column)
            case {"Boolean": "IsNotNan"}:
                return Not(IsNan(column))
            case {"Boolean": {"IsBetween": {"closed": closed}}}:
                low, high = self._value(inputs[1]), self._value(inputs[2])
                above = ">=" if closed in ("Both", "Left") else ">"
                below = "<=" if closed in ("Both", "Right") else "<"
                ends = [(above, low), (below, high)]
                return All([None if v is None else Compare(column, op, v) for op, v in ends])
            case {"Boolean": {"IsIn": {"nulls_equal": False}}}:
                values = self._list(inputs[1])
                return None if values is None else OneOf(column, values)
            case {"StringExpr": "StartsWith"}:
                prefix = self._value(inputs[1])
                return Starts(column, prefix) if isinstance(prefix, str) else None
        return None

    def _column(self, node: Any) -> str | None:
        """The column, also within a cast that does not change the numbers."""
        match node:
            case {"Column": str(column)}:
                return column
            case {"Cast": {"expr": {"Column": str(column)}, "dtype": {"Literal": str(wide)}}}:
                kind = self._kinds.get(column)
                family = None if kind is None else kind.family
                keeps = {
                    "Int64": family == "int" and kind is not None and kind.long,
                    "Int128": family == "int",
                    # Rounding merges only integers beyond `EXACT_FLOATS`, where no literal is used.
                    "Float64": family in ("int", "float"),
                }
                return column if keeps.get(wide, False) else None
        return None

    def _value(self, node: Any) -> Any:
        match node:
            case {"Literal": {"Scalar": {"Decimal": [int(digits), _, int(scale)]}}}:
                from decimal import Decimal

                return Decimal(digits).scaleb(-scale) if abs(digits) < 10**28 else None
            case {"Literal": {"Scalar": {"Date": int(days)}}}:
                return Moment("instant", days, DAY)
            case {"Literal": {"Scalar": {"Datetime": [int(ticks), str(unit), _]}}}:
                return Moment("instant", ticks, UNITS[unit])
            case {"Literal": {"Scalar": {"Duration": [int(ticks), str(unit)]}}}:
                return Moment("span", ticks, UNITS[unit])
            case {"Literal": {"Scalar": {"Time": int(ticks)}}}:
                return Moment("clock", ticks, 1)
            case {"Literal": {"Scalar": {"Binary": list(values)}}}:
                return bytes(values)
            case {"Literal": {"Scalar": {"String": str(value)}}}:
                return value
            case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
                return value
            case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
                (kind, value), *_ = scalar.items()
                # Infinity and NaN are null in this form.
                if kind.startswith("Float") and isinstance(value, (int, float)):
                    return float(value)
                if kind.startswith(("Int", "UInt")) and isinstance(value, int):
                    return value
        return None

    def _list(self, node: Any) -> list[Any] | None:
        """The values of a list, which Polars unpacks."""
        pl = need("polars", "scan()")
        while isinstance(node, dict) and "Alias" in node:
            node = node["Alias"][0]
        literal = pl.Expr.deserialize(BytesIO(json.dumps(node).encode()), format="json")
        series = pl.select(literal).to_series()
        if isinstance(series.dtype, pl.List):
            series = series.explode()
        if series.dtype.is_temporal():
            return _moments(series)
        values: list[Any] = series.to_list()
        return values


def _moments(series: pl.Series) -> list[Any] | None:
    pl = need("polars", "scan()")
    ticks = series.to_physical().to_list()
    what, unit = {
        pl.Date: ("instant", DAY),
        pl.Time: ("clock", 1),
    }.get(series.dtype.base_type(), (None, 0))
    if what is None:
        kind: Any = series.dtype
        unit = {"ns": 1, "us": 10**3, "ms": 10**6}[kind.time_unit]
        what = "instant" if isinstance(kind, pl.Datetime) else "span"
    return [None if tick is None else Moment(what, tick, unit) for tick in ticks]
