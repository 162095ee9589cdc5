"""A value is stored as an equal one or refused, for every input and output."""

from __future__ import annotations

import decimal
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from servers import Server

import kubist
from kubist.exporting import write

pytestmark = pytest.mark.filterwarnings("default")
CASES = int(os.environ.get("VALUES", "40"))
"""Random tables; a campaign has 5000."""
FIRST = int(os.environ.get("SEED", "0"))

TYPES: list[pa.DataType] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(3)),
    *(pa.dictionary(pa.int32(), pa.string()), pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.decimal128(9, 2), pa.decimal128(38, 10), pa.decimal256(50, 4)),
]
TEXTS = [
    "",
    " ",
    "a",
    "b c",
    " 42",
    "42",
    "x ",
    "null",
    "NaN",
    "Grün",
    'q"t',
    "a,b",
    "l\nm",
    "-0",
    "1e5",
    "NULL",
    "true",
]
UNITS = [None, "m", "deg", "km/s", "degC", "mag", "µm"]


def values(rng: np.random.Generator, kind: pa.DataType, count: int) -> pa.Array:
    if pa.types.is_boolean(kind):
        found: list[Any] = rng.integers(0, 2, count).astype(bool).tolist()
    elif pa.types.is_dictionary(kind) or "string" in str(kind):
        found = [TEXTS[i] for i in rng.integers(0, len(TEXTS), count)]
    elif "binary" in str(kind):
        width = getattr(kind, "byte_width", None) if "fixed" in str(kind) else None
        found = [rng.bytes(width or int(rng.integers(0, 4))) for _ in range(count)]
    elif pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        whole = [0, 1, -1, most, -most, *map(int, rng.integers(-(10**8), 10**8, 9))]
        picked = [whole[i] for i in rng.integers(0, len(whole), count)]
        found = [decimal.Decimal(v).scaleb(-kind.scale, decimal.Context(80)) for v in picked]
    elif pa.types.is_floating(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        limits = np.finfo(dtype)
        some = [
            0.0,
            -0.0,
            1.5,
            -0.1,
            limits.max,
            limits.min,
            limits.tiny,
            limits.smallest_subnormal,
        ]
        if rng.integers(2):
            some += [np.nan, np.inf, -np.inf]
        odd = np.array([*some, 2.0**53], np.float64).clip(-np.inf, np.inf)
        drawn = np.where(
            rng.integers(2, size=count), rng.choice(odd, count), rng.normal(size=count)
        )
        with np.errstate(over="ignore"):
            return pa.array(drawn.astype(dtype))
    else:
        width = kind.bit_width
        signed = not str(kind).startswith("uint")
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
        some = [low, high, 0, 1, high // 2 + 1, 2**53 + 1 if width == 64 else 7]
        if str(kind).startswith("time") and "stamp" not in str(kind):
            day = 86400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
            some = [0, 1, day - 1, int(rng.integers(day))]
        elif str(kind).startswith("date"):
            days = [0, 1, -1, 19_000, -700_000, int(rng.integers(-(10**5), 10**5))]
            some = [day if width == 32 else day * 86_400_000 for day in days]
        elif not str(kind).startswith(("int", "uint")):
            # The smallest value is NaT in NumPy and pandas.
            some = [low + 1, *some[1:], int(rng.integers(-(2**40), 2**40)), 1_700_000_000]
        if rng.integers(2):
            some = [v for v in some if v not in (low, low + 1, high, high // 2 + 1)] or [0]
        stored = np.array(some, f"{'i' if signed else 'u'}{width // 8}")
        plain = pa.array(stored[rng.integers(0, len(some), count)])
        return plain.cast(kind)
    return pa.array(found, kind)


def table(rng: np.random.Generator) -> pa.Table:
    count = int(rng.integers(1, 30))
    columns: dict[str, pa.Array] = {
        axis: pa.array(rng.integers(0, 99, count) / 4) for axis in "xyz"
    }
    columns["id"] = pa.array(rng.permutation(count), pa.int32())
    fields = [pa.field(axis, pa.float64(), metadata={"unit": "m"}) for axis in "xyz"]
    fields.append(pa.field("id", pa.int32()))
    for place in range(int(rng.integers(1, 3))):
        kind = TYPES[rng.integers(len(TYPES))]
        column = values(rng, kind, count)
        if rng.integers(2):
            mask = rng.integers(0, 3, count) == 0
            nothing = pa.nulls(count, kind)
            column = pa.concat_arrays(
                [(nothing if gone else column)[i : i + 1] for i, gone in enumerate(mask)]
            )
        unit = UNITS[rng.integers(len(UNITS))]
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        about = {"unit": unit} if unit is not None and is_number else None
        fields.append(pa.field(f"c{place}", kind, metadata=about))
        columns[f"c{place}"] = column
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def bits(column: pa.ChunkedArray) -> list[Any]:
    """Values are equal only if they are identical: zeros have signs, all NaN are one."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    elif pa.types.is_floating(kind):
        return [None if v is None else str(v) for v in column.cast(pa.float64()).to_pylist()]
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    found: list[Any] = column.to_pylist()
    return found


def plain(given: pa.Table) -> pa.Table:
    for place, field in enumerate(given.schema):
        if field.type == pa.string_view():
            given = given.set_column(place, field.name, given.column(place).cast(pa.string()))
    return given.sort_by("id")


def same(given: pa.Table, found: pa.Table) -> None:
    given, found = plain(given), plain(found)
    for name in given.column_names:
        assert bits(given[name]) == bits(found[name]), (name, given.schema.field(name).type)


Door = Callable[[Path, kubist.Table, kubist.Table], None]


def arrow(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    target.append(source.query().to_arrow())


def numpy(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    target.append(source.query().to_numpy())


def pandas(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    pytest.importorskip("pandas")
    target.append(source.query().to_pandas())


def polars(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    target.append(pytest.importorskip("polars").DataFrame(source.query().to_polars()))


def lists(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    if pa.time64("ns") in source.schema.types:
        raise NotImplementedError("Python's times have no nanoseconds")
    target.append(source.query().to_arrow().to_pydict())


def http(_: Path, source: kubist.Table, target: kubist.Table) -> None:
    with Server(source.location) as server:
        target.append(kubist.connect(server.url).query().to_arrow())


def through(ending: str, library: str | None = None) -> Door:
    def door(folder: Path, source: kubist.Table, target: kubist.Table) -> None:
        if library is not None:
            pytest.importorskip(library)
        # LAS positions are multiples of a scale.
        steps = {"las": {"scales": [0.25] * 3, "offsets": [0.0] * 3}}
        source.query().write(folder / f"out.{ending}", steps)
        columns = source.columns if ending == "las" else None
        kubist.ingest(
            target.location, folder / f"out.{ending}", read={"columns": columns} if columns else {}
        )

    return door


DOORS: dict[str, Door] = {
    "Arrow": arrow,
    "NumPy": numpy,
    "pandas": pandas,
    "Polars": polars,
    "Python": lists,
    "HTTP": http,
    "a Parquet file": through("parquet"),
    "an Arrow file": through("arrow"),
    "CSV": through("csv"),
    "FITS": through("fits", "astropy"),
    "LAS": through("las", "laspy"),
    "VTP": through("vtp", "pyvista"),
}


@pytest.mark.parametrize("name", DOORS)
def test_tables_come_back_as_they_were_or_are_refused(tmp_path: Path, name: str) -> None:
    taken, refusals = 0, []
    few = max(CASES // 10, 4) if name == "HTTP" else CASES
    for seed in range(FIRST, FIRST + few):
        rng = np.random.default_rng(seed)
        given = table(rng)
        folder = tmp_path / str(seed)
        folder.mkdir()
        source = kubist.create(folder / "a.kubist", given, ["x", "y", "z"])
        same(given, source.query().to_arrow())
        target = kubist.create(folder / "b.kubist", source.schema, ["x", "y", "z"])
        try:
            DOORS[name](folder, source, target)
        except (
            kubist.InvalidInput,
            TypeError,
            ValueError,
            OverflowError,
            NotImplementedError,
            pa.ArrowException,
        ) as error:
            refusals.append(f"{seed}: {error}")
            assert target.count() == 0
            continue
        except BaseException as error:
            error.add_note(f"seed {seed}")
            # Polars' exception for an unsupported operation.
            if type(error).__name__ != "PanicException":
                raise
            continue
        try:
            found = target.query().to_arrow()
            if name in ("FITS", "NumPy", "pandas"):
                given, found = missing_is_null(given), missing_is_null(found)
            elif name == "CSV":
                given, found = empty_is_null(given), empty_is_null(found)
            same(given, found)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {given.schema}")
            raise
        taken += 1
    if os.environ.get("SHOW"):
        print(name, taken, *refusals, sep="\n")
    assert taken >= few // 16, refusals


def empty_is_null(given: pa.Table) -> pa.Table:
    """CSV has one kind of empty field."""
    for place, field in enumerate(given.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = (
            pa.string() if "string" in str(kind) else pa.binary() if "binary" in str(kind) else None
        )
        if plain:
            values = [value or None for value in given.column(place).cast(plain).to_pylist()]
            given = given.set_column(place, field.name, pa.array(values, plain))
    return given


def missing_is_null(given: pa.Table) -> pa.Table:
    """FITS, NumPy and pandas use NaN for missing floats, unless a column has both."""
    for place, field in enumerate(given.schema):
        if pa.types.is_floating(field.type):
            column = given.column(place).cast(pa.float64())
            plain = column.to_numpy()
            given = given.set_column(place, field.name, pa.array(plain, mask=np.isnan(plain)))
    return given


def test_another_unit_is_converted_or_refused(tmp_path: Path) -> None:
    def of(data: list[float] | pa.Array, unit: str | None) -> pa.Table:
        field = pa.field("x", pa.float64(), metadata=None if unit is None else {"unit": unit})
        return pa.table([pa.array(data, pa.float64())], schema=pa.schema([field]))

    t = kubist.create(tmp_path / "t.kubist", of([180.0], "deg"), ["x"])
    t.append(of([np.pi], "rad"))
    t.append(of([3600.0, np.nan], "arcsec"))
    t.append({"x": [2.0]})
    assert sorted(t.query(where="x > 0").to_numpy()["x"]) == [1.0, 2.0, 180.0, 180.0]
    with pytest.raises(
        kubist.InvalidInput, match=r't\.kubist: .*"x" is in "m" in the data and in "deg"'
    ):
        t.append(of([1.0], "m"))
    kelvin = kubist.create(tmp_path / "k.kubist", of([], None), ["x"], units={"x": "K"})
    kelvin.append(of([20.0], "degree_Celsius"))
    assert kelvin.query().to_numpy()["x"].tolist() == [293.15]
    bare = kubist.create(tmp_path / "b.kubist", of([1.0], None), ["x"])
    with pytest.raises(kubist.InvalidInput, match="has no unit in the table"):
        bare.append(of([1.0], "m"))
    assert (t.count(), bare.count()) == (5, 1)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "fits"])
def test_files_of_another_unit_are_converted(tmp_path: Path, ending: str) -> None:
    if ending == "fits":
        pytest.importorskip("astropy")
    for name, unit, value in (("a", "deg", 180.0), ("b", "rad", np.pi)):
        rows = pa.table({"ra": [value], "dec": [value / 4]})
        made = kubist.create(
            tmp_path / f"{name}.kubist", rows, ["ra", "dec"], units={"ra": unit, "dec": unit}
        )
        made.query().write(tmp_path / f"{name}.{ending}")
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    kubist.ingest(tmp_path / "t.kubist", files, dimensions=["ra", "dec"])
    t = kubist.open(tmp_path / "t.kubist")
    assert t.query().to_numpy()["ra"].tolist() == [180.0, 180.0] and t.units["ra"] == "deg"
    # The user's settings override those of the file.
    kubist.ingest(
        tmp_path / "t.kubist", files[1], create={"units": {"ra": "deg", "dec": "deg"}}, again=True
    )
    assert t.query(where="ra < 4").to_numpy()["ra"].tolist() == [np.pi]


def test_numbers_beyond_the_type_are_refused(tmp_path: Path) -> None:
    t = kubist.create(
        tmp_path / "t.kubist", {"x": np.zeros(1, "f4"), "n": np.zeros(1, "i1")}, ["x"]
    )
    for x, n, wrong in (
        ([0.5, 1e60], [1, 2], '"x", row 1 of the batch: 1e60'),
        (np.array([1e60]), [1], '"x", row 0 of the batch: 1e60'),
        ([0.5], [300], '"n", row 0 of the batch: 300'),
        ([0.5], [1.5], '"n", row 0 of the batch: 1.5'),
        (pa.array([0.5, 0.1]), [1, 2], '"x", row 1 of the batch: 0.1.*round the data to float32'),
        ([0.1, 2460000.123], [1, 2], '"x", row 1 of the batch: 2460000.123'),
        (pa.array([0.5]), pa.array([None, 1.0])[1:], None),
        (pa.array([0.25]), pa.array([7], pa.uint64()), None),
    ):
        if wrong is None:
            t.append(pa.table({"x": x, "n": n}))
            continue
        with pytest.raises(kubist.InvalidInput, match=wrong):
            t.append({"x": x, "n": n})
    t.append({"x": [0.1, None], "n": [9, 9]})
    assert t.query(where="n = 9").to_numpy()["x"][0] == np.float32(0.1)
    (tmp_path / "wide.csv").write_text("x,n\n0.5,1\n1e60,2\n")
    with pytest.raises(
        kubist.InvalidInput, match=r'row 2, column "x": 1e60 is outside the range of Float32'
    ):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "wide.csv")
    assert sorted(t.query().to_arrow()["n"].to_pylist()) == [0, 1, 7, 9, 9]


def test_integers_beside_a_null_keep_every_digit(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rows = pa.table(
        {
            "x": [1.0, 2.0, 3.0],
            "id": pa.array([2**62 + 1, None, -1]),
            "b": pa.array([None, True, False]),
            "f": pa.array([0.5, None, 1.0]),
            "both": pa.array([float("nan"), None, 1.0]),
        }
    )
    t = kubist.create(tmp_path / "t.kubist", rows, ["x"])
    r = t.query(order_by="x").materialize()
    frame = r.to_pandas()
    assert [str(kind) for kind in frame.dtypes] == [
        *("float64", "Int64", "boolean", "float64", "double[pyarrow]")
    ]
    assert int(frame["id"].max()) == 2**62 + 1
    arrays = r.to_numpy()
    assert arrays["id"].dtype == np.int64 and arrays["id"].tolist() == [2**62 + 1, None, -1]
    assert arrays["b"].dtype == np.bool_ and arrays["b"].tolist() == [None, True, False]
    assert not isinstance(arrays["f"], np.ma.MaskedArray) and np.isnan(arrays["f"][1])
    assert arrays["both"].mask.tolist() == [False, True, False] and np.isnan(arrays["both"].data[0])


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s")])
def test_polars_refuses_seconds_that_its_milliseconds_cannot_hold(
    tmp_path: Path, kind: pa.DataType
) -> None:
    pl = pytest.importorskip("polars")
    most = (2**63 - 1) // 1000
    rows = pa.table({"x": [1.0, 2.0, 3.0], "t": pa.array([most, None, -most]).cast(kind)})
    t = kubist.create(tmp_path / "t.kubist", rows, ["x"])
    assert t.query(order_by="x").to_polars()["t"].to_physical().to_list() == [
        most * 1000,
        None,
        -most * 1000,
    ]
    t.append({"x": [4.0], "t": pa.array([most + 1]).cast(kind)})
    for read in (
        lambda: t.query(order_by="x").to_polars(),
        lambda: t.scan().filter(pl.col("x") > 0).collect(),
    ):
        with pytest.raises(kubist.InvalidInput, match=rf"column t, row \d+: {most + 1} s"):
            read()
    assert t.query(order_by="x", columns=["x"]).to_polars()["x"].to_list() == [1, 2, 3, 4]
    assert t.scan().select(pl.col("x").sum()).collect().item() == 10


def test_fits_of_every_integer_beside_nulls(tmp_path: Path) -> None:
    pytest.importorskip("astropy")
    from astropy.table import Table

    rows = {
        "x": [1.0, 2, 3],
        "b": [True, None, False],
        "i4": pa.array([999999, None, 5], pa.int32()),
    }
    for kind in ("int8", "uint8", "int16", "uint16", "uint32", "uint64", "int64"):
        limits = np.iinfo(kind)
        ends = (limits.min, limits.max if kind != "uint64" else 2**63 - 1)
        rows[kind] = pa.array([ends[0], ends[1], 63], kind)
        rows[f"{kind}_null"] = pa.array([ends[0], None, ends[1]], kind)
    t = kubist.create(tmp_path / "t.kubist", pa.table(rows), ["x"])
    t.query(order_by="x").write(tmp_path / "out.fits")
    given, theirs = t.query(order_by="x").to_arrow(), Table.read(tmp_path / "out.fits")
    for name in given.column_names:
        assert theirs[name].tolist() == given[name].to_pylist(), name
    every = pa.array([*range(256), None], pa.uint8())
    full = kubist.create(
        tmp_path / "f.kubist", pa.table({"x": np.arange(257.0), "n": every}), ["x"]
    )
    full.query(order_by="x").write(tmp_path / "full.fits")
    assert Table.read(tmp_path / "full.fits")["n"].tolist() == every.to_pylist()


def test_h5md_has_null_where_a_frame_has_no_value(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        particles = file.create_group("particles/a")
        for name, steps, data in (
            ("position", [0, 1, 2], np.arange(18.0).reshape(3, 2, 3)),
            ("id", [0, 1, 2], [[7, 8], [8, 7], [7, 8]]),
            ("velocity", [0, 2], [[[7.0, 0, 0], [8.0, 0, 0]], [[9.0, 0, 0], [10.0, 0, 0]]]),
        ):
            particles[f"{name}/value"], particles[f"{name}/step"] = np.asarray(data), steps
            particles[f"{name}/time"] = np.asarray(steps, float)
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5")
    found = kubist.open(tmp_path / "t.kubist").query(order_by=["step", "id"]).to_arrow()
    assert found["vx"].to_pylist() == [7, 8, None, None, 9, 10]


@pytest.mark.parametrize("times", ["STANDARD", "WEEK_TIME"])
def test_las_keeps_what_its_numbers_mean(tmp_path: Path, times: str) -> None:
    laspy = pytest.importorskip("laspy")

    def tile(name: str, source: int, kind: str, system: bytes, scale: float = 0.01) -> Path:
        header = laspy.LasHeader(point_format=6, version="1.4")
        header.global_encoding.gps_time_type = laspy.header.GpsTimeType[kind]
        header.file_source_id, header.scales = source, [scale] * 3
        header.vlrs.append(laspy.VLR("LASF_Projection", 2112, record_data=system))
        header.global_encoding.wkt = True
        points = laspy.LasData(header)
        points.x = points.y = points.z = np.arange(9.0) + scale
        points.gps_time, points.point_source_id = np.arange(9.0), np.full(9, source)
        points.write(tmp_path / name)
        return tmp_path / name

    system = b'LOCAL_CS["site"]\0'
    other = {"STANDARD": "WEEK_TIME", "WEEK_TIME": "STANDARD"}[times]
    table, out = tmp_path / "t.kubist", tmp_path / "out.las"
    kubist.ingest(table, tile("a.las", 12, times, system))
    kubist.open(table).query().write(out)
    header = laspy.read(out).header
    assert (header.global_encoding.gps_time_type.name, header.file_source_id) == (times, 12)
    for wrong, why in (
        (tile("b.las", 13, other, system), "its GPS times are of the type"),
        (
            tile("c.las", 13, times, b'LOCAL_CS["yard"]\0'),
            "its coordinate system is yard, that of .* site",
        ),
    ):
        with pytest.raises(kubist.InvalidInput, match=why):
            kubist.ingest(table, wrong)
    with pytest.raises(kubist.InvalidInput, match="its coordinate system is yard"):
        kubist.ingest(tmp_path / "new.kubist", [tmp_path / "a.las", tmp_path / "c.las"])
    assert not (tmp_path / "new.kubist").exists()
    kubist.ingest(table, tile("d.las", 13, times, system, 0.001))
    kubist.open(table).query().write(out)
    back = laspy.read(out)
    assert back.header.file_source_id == 0 and sorted(set(back.point_source_id)) == [12, 13]
    np.testing.assert_allclose(
        np.sort(back.x), np.sort([*np.arange(9) + 0.01, *np.arange(9) + 0.001])
    )
    found = kubist.open(table)
    rows = found.query().to_arrow()
    rows = rows.set_column(rows.column_names.index("x"), "x", pa.array(rows["x"].to_numpy() + 5e-4))
    with pytest.raises(kubist.InvalidInput, match=r"column x, row 0: .* is no multiple of 0\.001"):
        write(rows, out, found.metadata)


def test_units_in_arrow_metadata_under_either_name(tmp_path: Path) -> None:
    def data(key: str, unit: str) -> pa.Table:
        field = pa.field("x", pa.float64(), metadata={key: unit})
        return pa.table([[1.0]], schema=pa.schema([field]))

    kubist.create(tmp_path / "t", data("units", "m"), dimensions=["x"])
    table = kubist.open(tmp_path / "t")
    with table.writer() as writer:
        writer.append(data("units", "km"))
        writer.append(data("unit", "mm"))
    assert sorted(table.query().to_arrow()["x"].to_pylist()) == [0.001, 1, 1000]
    with (
        pytest.raises(kubist.InvalidInput, match=r'"s" in the data.*different kinds'),
        table.writer() as writer,
    ):
        writer.append(data("units", "s"))


def test_a_year_is_that_of_astronomy(tmp_path: Path) -> None:
    def data(unit: str, value: float) -> pa.Table:
        field = pa.field("x", pa.float64(), metadata={"unit": unit})
        return pa.table([[value]], schema=pa.schema([field]))

    table = kubist.create(tmp_path / "t", data("d", 1.0), dimensions=["x"])
    with table.writer() as writer:
        writer.append(data("yr", 2.0))
    assert sorted(table.query().to_arrow()["x"].to_pylist()) == [1, 730.5]
