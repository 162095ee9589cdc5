"""A table as a `pyarrow.dataset.Dataset`, which DuckDB and other engines scan.

An engine requests a scanner for some columns and a filter. It gets pyarrow's scanner over a query
that reads only these columns, and only rows that can match the filter. pyarrow then applies the
filter, so results are the same as in pyarrow. Filters that only compare numbers are exact, and
pyarrow need not apply them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from . import _kubist
from ._errors import InvalidInput
from ._pushdown import (
    FLIPPED,
    IEEE,
    NAN_GREATEST,
    All,
    Compare,
    Condition,
    Constant,
    IsNan,
    IsNull,
    Moment,
    Not,
    OneOf,
    Some,
    Starts,
    Truth,
    both,
    is_exact,
    superset,
)
from ._scan import Source

DAY = 86_400 * 10**9
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
OPERATORS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


class Dataset(ds.FileSystemDataset):  # type: ignore[misc]
    """The rows of a query as a dataset; from `Table.to_dataset`.

    Each scan runs the query on the snapshot at the dataset's creation, streams the result, and uses
    all cores. Methods that need fragments raise `InvalidInput`, because none exist.
    """

    def __init__(
        self, source: Source, where: str | None = None, exactly: str | None = None
    ) -> None:
        self._source = source
        self._where = where
        self._exactly = exactly
        self._schema = source.empty.schema
        # A reader inside Arrow that bypasses the scanner then reports a missing file, instead of
        # returning no rows.
        nowhere = ds.IpcFileFormat().make_fragment(
            "/kubist: use the dataset's scanner", fs.LocalFileSystem()
        )
        super().__init__([nowhere], self._schema, ds.IpcFileFormat(), fs.LocalFileSystem())

    def narrowed(self, condition: Condition) -> Dataset:
        """The dataset without rows that cannot match; in conditions, NaN is above all numbers."""
        where = superset(condition, self._source.kinds, NAN_GREATEST)
        if where is None:
            return self
        return Dataset(self._source, both(self._where, where), self._exactly)

    def restricted(self, condition: Condition) -> Dataset | None:
        """The rows that match, if Kubist alone can decide; NaN is above all numbers."""
        kinds = self._source.kinds
        if not self._source.takes_conditions or not is_exact(condition, kinds, NAN_GREATEST):
            return None
        exactly = superset(condition, kinds, NAN_GREATEST)
        return Dataset(self._source, self._where, both(self._exactly, exactly))

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def partition_expression(self) -> pc.Expression:
        """The condition that all rows match: true."""
        return pc.scalar(True)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """Returns a scanner, which can be read once.

        Parameters
        ----------
        columns
            Names, or expressions by name; None: all.
        filter
            A pyarrow expression; the parts that Kubist understands prune the query.
        options
            As for `pyarrow.dataset.Scanner.from_batches`.
        """
        tree = None if filter is None else _Tree(filter)
        names, kinds = self._schema.names, self._source.kinds
        condition = None if tree is None else tree.condition()
        where, exactly = superset(condition, kinds, IEEE), self._exactly
        if where and self._source.takes_conditions and is_exact(condition, kinds, IEEE):
            # The query applies the filter: pyarrow needs neither the filter nor its columns.
            exactly, where, tree, filter = both(exactly, where), None, None, None
        needed: set[str] | None = None
        if columns is not None:
            expressions = columns.values() if isinstance(columns, Mapping) else ()
            trees = [tree, *map(_Tree, expressions)]
            plain = () if isinstance(columns, Mapping) else columns
            if all(part is None or part.is_known for part in trees):
                fields = [part.fields for part in trees if part is not None]
                needed = set(plain).union(*fields) & set(names)
                needed = needed or {names[0]}
        read = [name for name in names if needed is None or name in needed]
        result = self._source.read(read, both(self._where, where), exactly)
        schema = pa.schema([self._schema.field(name) for name in read], self._schema.metadata)
        return ds.Scanner.from_batches(
            iter(result), schema=schema, columns=columns, filter=filter, **options
        )

    def to_batches(
        self, columns: Any = None, filter: Any = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.scanner(columns, filter, **options).to_batches()
        return batches

    def to_table(self, columns: Any = None, filter: Any = None, **options: Any) -> pa.Table:
        return self.scanner(columns, filter, **options).to_table()

    def head(
        self, num_rows: int, columns: Any = None, filter: Any = None, **options: Any
    ) -> pa.Table:
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        if filter is None and self._where is None and self._exactly is None:
            return self._source.count()
        return sum(batch.num_rows for batch in self.to_batches([], filter, **options))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise InvalidInput(
            "a Kubist dataset supports scans only: call to_table() first, or use t.query()"
        )

    take = filter = replace_schema = sort_by = join = join_asof = _refuse
    get_fragments = _get_fragments = _refuse

    @property
    def files(self) -> list[str]:
        """Empty, because no other reader can read the table's files."""
        return []

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a Kubist dataset cannot be pickled: send t.splits() to other processes")

    def __repr__(self) -> str:
        return f"<kubist dataset: {', '.join(map(_kubist.printable, self._schema.names))}>"


class _Tree:
    """A parsed expression: Arrow's serialised calls, fields and literals.

    pyarrow gives no other access to the values of ``isin``. The form is internal to Arrow; an
    unexpected form gives no condition.
    """

    def __init__(self, expression: pc.Expression) -> None:
        self.is_known = False
        self.fields: set[str] = set()
        self._root: Any = None
        try:
            _, (buffer, *_) = expression.__reduce__()
            batch = pa.ipc.open_file(buffer).get_batch(0)
            parts = _pairs(batch.schema)
            self._root = self._read(parts, batch)
            self.is_known = not parts
        except (pa.ArrowException, LookupError, ValueError, TypeError, RecursionError):
            self._root = None

    def _read(self, parts: list[tuple[str, str]], batch: pa.RecordBatch) -> Any:
        what, value = parts.pop(0)
        if what == "field_ref":
            self.fields.add(value)
            return ("field", value)
        if what == "literal":
            return ("literal", batch.column(int(value))[0])
        if what != "call":
            raise ValueError(what)
        arguments, options = [], None
        while parts[0][0] != "end":
            if parts[0][0] == "options":
                options = batch.column(int(parts.pop(0)[1]))[0]
            else:
                arguments.append(self._read(parts, batch))
        parts.pop(0)
        return ("call", value, arguments, options)

    def condition(self) -> Condition:
        try:
            return _condition(self._root) if self.is_known else None
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
            return None


def _condition(node: Any) -> Condition:
    match node:
        case ("field", column):
            return Truth(column)
        case ("literal", value) if pa.types.is_boolean(value.type) or pa.types.is_null(value.type):
            return Constant(value.as_py())
        case ("call", "and_kleene" | "and", parts, _):
            return All([_condition(part) for part in parts])
        case ("call", "or_kleene" | "or", parts, _):
            return Some([_condition(part) for part in parts])
        case ("call", "invert", [part], _):
            return Not(_condition(part))
        case ("call", "if_else", [_, part, ("literal", other)], _) if not other.is_valid:
            # The call is null where ``part`` is not true or false.
            return _condition(part)
        case ("call", "is_valid", [("field", column)], _):
            return Not(IsNull(column))
        case ("call", "is_null", [("field", column)], options):
            nan = options is not None and options["nan_is_null"].as_py()
            return Some([IsNull(column), IsNan(column)]) if nan else IsNull(column)
        case ("call", "is_nan", [("field", column)], _):
            return IsNan(column)
        case ("call", name, [("field", column), ("literal", value)], _) if name in OPERATORS:
            return _compare(column, OPERATORS[name], value)
        case ("call", name, [("literal", value), ("field", column)], _) if name in OPERATORS:
            return _compare(column, FLIPPED[OPERATORS[name]], value)
        case ("call", "is_in", [("field", column)], options):
            values = [_plain(value) for value in options["value_set"].values]
            listed = OneOf(column, [value for value in values if value is not None])
            # A null in the list matches nulls.
            return listed if len(listed.values) == len(values) else Some([listed, IsNull(column)])
        case ("call", "starts_with", [("field", column)], options):
            if options["ignore_case"].as_py():
                return None
            prefix = options["pattern"].as_py()
            return Starts(column, prefix.decode() if isinstance(prefix, bytes) else prefix)
    return None


def _compare(column: str, op: str, value: pa.Scalar) -> Condition:
    if not value.is_valid:
        return Constant(None)
    return Compare(column, op, _plain(value))


def _plain(value: pa.Scalar) -> Any:
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        return Moment("instant", value.value, UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return Moment("instant", value.value, DAY)
    if pa.types.is_date64(kind):
        return Moment("instant", value.value, UNITS["ms"])
    if pa.types.is_time(kind):
        return Moment("clock", value.value, UNITS[kind.unit])
    if pa.types.is_duration(kind):
        return Moment("span", value.value, UNITS[kind.unit])
    return value.as_py()


class _CSchema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 48),
    )


def _pairs(schema: pa.Schema) -> list[tuple[str, str]]:
    """All metadata entries of a schema, in order; pyarrow returns only one per key."""
    exported = _CSchema()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)
    try:
        place = exported.metadata or 0

        def take() -> bytes:
            nonlocal place
            (length,) = struct.unpack("=i", ctypes.string_at(place, 4))
            place += 4 + length
            return ctypes.string_at(place - length, length)

        (count,) = struct.unpack("=i", ctypes.string_at(place, 4))
        place += 4
        return [(take().decode(), take().decode()) for _ in range(count)]
    finally:
        pa.Schema._import_from_c(address)  # and releases it


Dataset.__module__ = "kubist"
