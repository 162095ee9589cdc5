"""Data in all accepted forms."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kubist

COLUMNS = {
    "id": np.arange(100, dtype=np.int64),
    "x": np.linspace(0, 1, 100, dtype=np.float32),
    "name": np.array([f"n{number % 7}" for number in range(100)]),
}


class Stream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Array:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


def structured() -> np.ndarray:
    rows = np.zeros(100, dtype=[("id", "<i8"), ("x", "<f4"), ("name", "U4")])
    for name, values in COLUMNS.items():
        rows[name] = values
    return rows


ARROW = pa.table(COLUMNS)
SHAPES: dict[str, Any] = {
    "dict of numpy": lambda: COLUMNS,
    "dict of lists": lambda: {name: values.tolist() for name, values in COLUMNS.items()},
    "dict of arrow arrays": lambda: {name: ARROW[name] for name in COLUMNS},
    "dict of big-endian numpy": lambda: {**COLUMNS, "x": COLUMNS["x"].astype(">f4")},
    "structured array": structured,
    "pyarrow.Table": lambda: ARROW,
    "pyarrow.Table of many chunks": lambda: pa.concat_tables(
        [ARROW.slice(first, 7) for first in range(0, 100, 7)]
    ),
    "pyarrow.RecordBatch": lambda: ARROW.to_batches()[0],
    "pyarrow.RecordBatchReader": lambda: ARROW.to_reader(max_chunksize=9),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, filtered": lambda: pd.DataFrame(COLUMNS)[lambda frame: frame.id >= 0],
    "pandas, named index": lambda: pd.DataFrame(COLUMNS).set_index("id"),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "columns in another order": lambda: ARROW.select(["name", "id", "x"]),
    "__arrow_c_stream__": lambda: Stream(ARROW),
    "__arrow_c_array__": lambda: Array(ARROW.to_batches()[0]),
    "dictionary text": lambda: ARROW.set_column(2, "name", ARROW["name"].dictionary_encode()),
    "large text": lambda: ARROW.set_column(2, "name", ARROW["name"].cast(pa.large_string())),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_append_takes_any_columns(shape: str, path: Path) -> None:
    t = kubist.create(path, ARROW.schema, ["x"], identity=["id"])
    info = t.append(SHAPES[shape]())
    assert (info.rows, info.sequence) == (100, 1)
    assert info.writer and info.bytes_written > 0 and info.seconds > 0
    assert t.query().to_arrow().sort_by("id").equals(ARROW)


@pytest.mark.parametrize("shape", SHAPES)
def test_create_takes_any_columns(shape: str, path: Path) -> None:
    t = kubist.create(path, SHAPES[shape](), {"x": (0, 1)}, identity=["id"])
    assert len(t) == 100
    found = t.query(columns=["id", "x", "name"]).to_pandas().sort_values("id")
    assert found.id.tolist() == COLUMNS["id"].tolist()
    assert found.x.tolist() == COLUMNS["x"].tolist()
    assert found.name.tolist() == COLUMNS["name"].tolist()


def test_results_come_in_any_shape(path: Path) -> None:
    t = kubist.create(path, ARROW, ["x"], identity=["id"])
    assert t.query().schema == t.schema == ARROW.schema
    assert isinstance(t.query().to_pandas(), pd.DataFrame)
    frame = t.query().to_polars()
    assert isinstance(frame, pl.DataFrame) and frame.shape == (100, 3)
    batches = list(t.query(columns=["x", "id"]))
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert pa.Table.from_batches(batches).column_names == ["x", "id"]
    assert pa.table(t.query()).num_rows == 100
    assert pl.DataFrame(t.query()).height == 100
    assert pa.RecordBatchReader.from_stream(t.query()).read_all().num_rows == 100
    nothing = t.query(where="x > 5").to_arrow()
    assert nothing.num_rows == 0 and nothing.schema == ARROW.schema
    assert sum(batch.num_rows for batch in t.query(columns=[])) == 100
    assert t.query(where="x > 5").to_polars().height == 0


def test_a_table_takes_the_results_of_another(path: Path, tmp_path: Path) -> None:
    t = kubist.create(path, ARROW, ["x"], identity=["id"])
    copy = kubist.create(tmp_path / "copy", t.query(sample=0.5), ["x"], identity=["id"])
    assert 0 < len(copy) == t.count(sample=0.5)
    copy.append(t.query(window=(0.5, 1)))
    assert copy.query().to_arrow().sort_by("id").equals(ARROW)


def test_lists_take_the_types_of_the_table(path: Path) -> None:
    schema = pa.schema(
        {
            "id": pa.int16(),
            "x": pa.float32(),
            "when": pa.timestamp("ms"),
            "price": pa.decimal128(9, 2),
            "tag": pa.large_string(),
        }
    )
    t = kubist.create(path, schema, ["x"])
    t.append(
        {
            "id": [1, 2],
            "x": [0.5, None],
            "when": [dt.datetime(2020, 1, 1), None],
            "price": [decimal.Decimal("1.25"), decimal.Decimal("2")],
            "tag": ["a", None],
        }
    )
    assert t.query().schema == schema
    assert t.query(box={"x": (None, None)}).to_arrow().num_rows == 2
    assert t.query(where="tag IS NULL").to_arrow()["price"].to_pylist() == [decimal.Decimal("2.00")]


def test_integers_widen_and_no_value_changes(path: Path) -> None:
    t = kubist.create(path, pa.schema({"id": pa.int64(), "x": pa.float64()}), ["x"])
    t.append({"id": np.arange(3, dtype=np.int8), "x": np.arange(3, dtype=np.float32)})
    assert t.query().to_arrow()["id"].to_pylist() == [0, 1, 2]
    t.append({"id": np.arange(3.0), "x": np.arange(3.0)})
    with pytest.raises(kubist.InvalidInput, match=r'"id", row 1 .*1\.5.*Int64'):
        t.append({"id": np.array([1.0, 1.5]), "x": np.arange(2.0)})
    assert len(t) == 6


def test_readers_are_taken_batch_by_batch(path: Path) -> None:
    """All batches make one commit."""

    def batches() -> Any:
        for step in range(200):
            rows = np.arange(step * 1000, (step + 1) * 1000)
            yield pa.record_batch({"id": rows, "x": rows / 200_000})

    schema = pa.schema({"id": pa.int64(), "x": pa.float64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    t = kubist.create(path, reader, {"x": (0, 1)})
    assert len(t) == 200_000
    assert t.info().writers[0].commits == 1
    assert t.count(box={"x": (0.25, 0.5)}) == 50_001


def test_more_rows_than_the_writer_may_hold(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = 300_000
    data = {"id": np.arange(rows), "x": rng.random(rows), "y": rng.random(rows)}
    t = kubist.create(path, pa.table(data).schema, ["x", "y"], identity=["id"])
    with t.writer(memory_bytes=1 << 20) as w:
        for first in range(0, rows, 20_000):
            w.append({name: values[first : first + 20_000] for name, values in data.items()})
    assert len(t) == rows and t.info().writers[0].commits == 1
    assert t.verify(deep=True).ok
    expected = ((data["x"] >= 0.3) & (data["x"] <= 0.4) & (data["y"] > 0.5)).sum()
    assert t.count(box={"x": (0.3, 0.4)}, where="y > 0.5") == expected


def test_empty_data_is_no_commit(path: Path) -> None:
    """A rank may have no particles in a step."""
    t = kubist.create(path, ARROW.slice(0, 0), {"x": None}, identity=["id"])
    assert len(t) == 0 and t.query().to_arrow().num_rows == 0
    assert t.query(box={"x": (0, 1)}, sample=0.5, limit=3).to_arrow().num_rows == 0
    assert t.count(where="x > 0") == 0
    assert sum(r.to_arrow().num_rows for r in t.refine()) == 0
    assert t.info().dimensions[0].low is None and "not yet" in repr(t.info())
    assert t.verify(deep=True).ok
    for nothing in (
        ARROW.slice(0, 0),
        {name: [] for name in COLUMNS},
        ARROW.slice(0, 0).to_reader(),
    ):
        assert t.append(nothing).rows == 0
    assert t.append(ARROW).rows == 100
    assert t.append(pa.concat_tables([ARROW.slice(0, 0), ARROW, ARROW.slice(5, 0)])).rows == 100
    assert len(t) == 200 and t.info().writers[0].commits == 2
    with pytest.raises(kubist.InvalidInput, match="x"):
        t.append(ARROW.slice(0, 0).drop_columns(["x"]))


@pytest.mark.parametrize(
    ("kind", "values", "low", "high", "rows"),
    [
        (pa.int32(), [1, 2, 3], np.int64(2), 2.5, 1),
        (pa.int32(), [1, 2, 3], np.float32(1.5), np.uint8(3), 2),
        (pa.float32(), [0.1, 0.2, 0.3], 0.1, 0.2, 2),
        (pa.float32(), [0.1, 0.2, 0.3], np.float32(0.1), np.array(0.2), 2),
        (pa.float64(), [0.1, 0.2, 0.3], None, decimal.Decimal("0.2"), 2),
        (pa.float64(), [-np.inf, 0.0, np.inf, np.nan], -np.inf, np.inf, 3),
        (pa.float64(), [-np.inf, 0.0, np.inf, np.nan], None, None, 4),
        (pa.bool_(), [True, False, True], True, np.True_, 2),
        (pa.string(), ["a", "b", "c"], "b", None, 2),
        (pa.string(), ["a", "b", "c"], np.str_("a"), "bb", 2),
        (pa.binary(), [b"a", b"b", b"c"], b"b", bytearray(b"z"), 2),
        (pa.decimal128(9, 3), ["0.100", "0.200", "0.300"], decimal.Decimal("0.2"), 0.3, 2),
        (pa.date32(), [0, 1, 2], dt.date(1970, 1, 2), np.datetime64("1970-01-03"), 2),
        (pa.date32(), [0, 1, 2], "1970-01-02", pd.Timestamp("1970-01-02"), 1),
        (pa.timestamp("ns"), [0, 1, 2], np.datetime64(1, "ns"), pd.Timestamp(2), 2),
        (pa.timestamp("us"), [0, 10**6], dt.datetime(1970, 1, 1, 0, 0, 1), None, 1),
        (pa.timestamp("s"), [0, 7200], np.datetime64("1970-01-01T02"), None, 1),
        (pa.timestamp("s"), [0, 86400 * 40], None, np.datetime64("1970-02"), 1),
        (pa.timestamp("ms", "UTC"), [0, 3600_000],
         dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), None, 1),
        (pa.time64("us"), [0, 10**6], dt.time(0, 0, 1), dt.time(23), 1),
        (pa.duration("ms"), [5, 1500, 2500], dt.timedelta(seconds=1), np.timedelta64(2, "s"), 1),
        (pa.duration("s"), [1, 2, 3], dt.timedelta(milliseconds=1500), pd.Timedelta("2.5s"), 1),
    ],
)  # fmt: skip
def test_box_ends(
    path: Path, kind: pa.DataType, values: list[Any], low: Any, high: Any, rows: int
) -> None:
    if pa.types.is_decimal(kind):
        values = [decimal.Decimal(value) for value in values]
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        column = pa.array(values, width).cast(kind)
    else:
        column = pa.array(values, kind)
    t = kubist.create(path, pa.table({"v": column, "x": range(len(values))}), ["x"])
    assert t.count(box={"v": (low, high)}) == rows
    assert t.count(box={"v": [low, high], "x": (0, None)}) == rows
    assert t.query(box={"v": (low, high)}).to_arrow().num_rows == rows


def test_paths_may_be_pathlike(tmp_path: Path) -> None:
    assert len(kubist.create(tmp_path / "a", ARROW, ["x"])) == 100
    assert len(kubist.create(str(tmp_path / "b"), ARROW, ["x"])) == 100
    assert len(kubist.open(tmp_path / "a")) == len(kubist.open(str(tmp_path / "b"))) == 100


def test_an_answer_as_arrow_loads_no_pandas(path: Path, run_python: Any) -> None:
    """Importing it would take longer than most queries."""
    kubist.create(path, ARROW, ["x"], identity=["id"])
    script = """
        import sys
        import kubist
        t = kubist.open(sys.argv[1])
        whole, none = t.query().to_arrow(), t.query(where="x > 1e9").to_arrow()
        assert "pandas" not in sys.modules
        assert (whole.num_rows, none.num_rows, none.schema) == (100, 0, whole.schema)
        print("fine")
    """
    done = run_python(script, path)
    assert done.stdout == "fine\n", done.stderr


def test_pyarrow_is_optional(path: Path, run_python: Any) -> None:
    """The package loads, writes and reads through PyCapsules alone."""
    kubist.create(path, ARROW, ["x"], identity=["id"])
    script = """
        import sys
        sys.modules["pyarrow"] = None  # as if it were not installed
        import kubist, polars as pl
        t = kubist.open(sys.argv[1])
        frame = t.query(sample=0.5).to_polars()
        t.append(frame)
        assert len(t) == 100 + frame.height == 100 + t.count(sample=0.5) / 2
        for call in (lambda: t.schema, lambda: t.query().to_arrow(), lambda: t.append({"x": [1]})):
            try:
                call()
            except ImportError as error:
                assert "pyarrow" in str(error)
            else:
                raise AssertionError
        print("fine")
    """
    done = run_python(script, path)
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("M8[Y]", "M8[D]"),
        ("M8[M]", "M8[D]"),
        (">M8[W]", "M8[D]"),
        ("M8[h]", "M8[s]"),
        ("M8[m]", "M8[s]"),
        ("M8[10ms]", "M8[ms]"),
        ("m8[W]", "m8[s]"),
        ("m8[D]", "m8[s]"),
        ("m8[h]", "m8[s]"),
    ],
)
def test_times_of_coarse_units_are_stored_exactly(path: Path, given: str, stored: str) -> None:
    times = np.array([17, -3, 0, "NaT"], given)
    t = kubist.create(path, {"x": np.arange(4.0), "when": times}, dimensions=["x"])
    found = t.query(order_by="x").to_numpy()["when"]
    assert found.dtype == stored
    assert np.array_equal(found[:3], times[:3]) and np.isnat(found[3])


def test_times_that_no_unit_holds_are_refused(path: Path) -> None:
    for times, words in (
        (np.array([1, 2**62], "M8[h]"), "row 1: .* exceeds 64 bits of s"),
        (np.array([1], "m8[M]"), "no column type has the unit"),
        (np.array([1], "M8[ps]"), "no column type has the unit"),
    ):
        with pytest.raises(kubist.InvalidInput, match=words):
            kubist.create(
                path, {"x": np.arange(float(len(times))), "when": times}, dimensions=["x"]
            )
