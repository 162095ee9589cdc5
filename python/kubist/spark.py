"""Tables as Spark DataFrames without a jar, through Spark's Python data sources.

>>> import kubist.spark
>>> kubist.spark.register(spark)
>>> droplets = spark.read.format("kubist").option("sample", 0.01).load("run.kubist")
>>> droplets.filter("diameter > 2e-6").groupBy("step").count().show()

It needs Spark 4.0 or newer, and this package on the executors, and passes Arrow batches. Options
select rows and columns: ``box``, ``window`` and ``steps`` (JSON, as ``{"x": [0, 1]}``), ``region``
(the same), ``where``, ``sample``, ``columns`` (names separated by commas), ``inclusion``, and
``partitions``. A DataFrame always reads the snapshot of its first read.

Select rows with these options, or use the Java connector: Spark does not push columns, samples,
limits or locations down to Python sources. This source accepts no filters either: Spark 4.1 keeps
them when a DataFrame is used a second time, so rows would be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ._asked import Part
from ._box import fraction
from ._create import open as open_table
from ._errors import InvalidInput
from ._libraries import need
from ._split import Split

need("pyspark", "kubist.spark")
need("pyarrow", "kubist.spark", "arrow")

import pyarrow as pa  # noqa: E402
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ._arguments import Box

__all__ = ["register"]

_OPTIONS = (*sorted(["box", *Part.__annotations__]), "partitions", "path")
# About so many rows suit a task.
_ROWS_OF_A_TASK = 500_000
_MOST_PARTITIONS = 2**16


def register(spark: SparkSession) -> None:
    """Registers the format of ``spark.read.format("kubist")``.

    Parameters
    ----------
    spark
        A session of Spark 4.0 or newer.

    Raises
    ------
    InvalidInput
        Spark is older.
    """
    if not hasattr(spark, "dataSource"):
        raise InvalidInput(f"sources in Python need Spark 4.0 or newer, not {spark.version}")
    spark.dataSource.register(_Source)


class _Asked(Part, total=False):
    box: Box


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kubist"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        location, asked, _ = _asked(self.options)
        nothing: _Asked = {**asked, "where": "FALSE"}
        empty = open_table(location).query(**nothing).to_arrow()
        return from_arrow_schema(_plain_schema(empty.schema))

    def reader(self, schema: StructType) -> _Reader:
        location, asked, partitions = _asked(self.options)
        return _Reader(location, asked, partitions)


class _Task(InputPartition):
    def __init__(self, split: Split | None) -> None:
        super().__init__(split and split.to_json())


class _Reader(DataSourceReader):
    def __init__(self, location: str, asked: _Asked, partitions: int) -> None:
        self._location = location
        self._asked = asked
        self._partitions = partitions

    def partitions(self) -> Sequence[_Task]:
        snapshot = open_table(self._location).snapshot()
        parts = self._partitions or max(1, math.ceil(snapshot.count() / _ROWS_OF_A_TASK))
        return [
            _Task(split) for split in snapshot.splits(min(parts, _MOST_PARTITIONS), **self._asked)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in Split.from_json(partition.value):
            yield _plain_batch(pa.record_batch(batch))


def _asked(options: dict[str, str]) -> tuple[str, _Asked, int]:
    """The location, the query, and the number of partitions; 0: from the number of rows."""
    said = {name.lower(): value for name, value in options.items()}
    unknown = [name for name in said if name not in _OPTIONS]
    if unknown:
        raise InvalidInput(f"unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
    if not said.get("path"):
        raise InvalidInput("the location is missing: use load(location)")
    asked: _Asked = {}
    if "sample" in said:
        asked["sample"] = fraction("option sample", said["sample"])
    try:
        if "box" in said:
            asked["box"] = json.loads(said["box"])
        if "region" in said:
            asked["region"] = json.loads(said["region"])
        if "window" in said:
            asked["window"] = json.loads(said["window"])
        if "steps" in said:
            asked["steps"] = json.loads(said["steps"])
        partitions = int(said.get("partitions", 0))
    except ValueError as error:
        raise InvalidInput(f"options box, region, window, steps or partitions: {error}") from error
    if not 0 <= partitions <= _MOST_PARTITIONS:
        raise InvalidInput(f"option partitions: {partitions} is not between 1 and 65,536")
    if "columns" in said:
        asked["columns"] = [name.strip() for name in said["columns"].split(",")]
    if "where" in said:
        asked["where"] = said["where"]
    if "inclusion" in said:
        asked["inclusion"] = said["inclusion"]
    return said["path"], asked, partitions


def _plain_type(name: str, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(name, kind.value_type)
    if pa.types.is_unsigned_integer(kind):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wider[kind.bit_width]
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if (
        pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    ):
        return pa.binary()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    spark_has = (
        pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or kind in (pa.string(), pa.binary())
        or (pa.types.is_decimal128(kind) and kind.scale >= 0)
    )
    if not spark_has:
        raise InvalidInput(
            f"column {name!r}: Spark has no type for {kind}; leave it out with option columns"
        )
    return kind


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    fields = [
        pa.field(field.name, _plain_type(field.name, field.type), field.nullable)
        for field in schema
    ]
    return pa.schema(fields)


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = _plain_schema(batch.schema)
    # Spark's timestamps have microseconds.
    columns = [
        column.cast(field.type, safe=False)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
