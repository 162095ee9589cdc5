"""Tables as frames: Polars, its SQL, pyarrow datasets and DuckDB.

The oracle is the other engine over all rows in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
import worlds

import kubist

POLARS_KINDS = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 bool string dictionary "
    "binary decimal128 date32 date64 timestamp_s timestamp_ms timestamp_us timestamp_ns "
    "timestamp_tz time64_us time32_s duration_ms duration_ns"
).split()


def table_of(path: Path, world: worlds.World) -> kubist.Table:
    t = kubist.create(path, world.arrow.schema, world.dimensions, identity=["id"], capacity=64)
    for first in range(0, world.rows, 700):
        t.append(world.take(range(first, min(first + 700, world.rows))))
    t.optimize()
    return t


def world_of(rng: np.random.Generator, kinds: list[str], rows: int = 2000) -> worlds.World:
    columns = {"id": worlds.Column("id", worlds.KINDS["int64"], list(range(rows)))}
    for name in kinds:
        kind = worlds.KINDS[name]
        empty = rng.random(rows) < 0.1
        keys = [None if e else k for e, k in zip(empty, kind.draw(rng, rows), strict=True)]
        columns[name] = worlds.Column(name, kind, keys)
    arrays = {
        name: column.kind.array(column.keys, column.kind.type) for name, column in columns.items()
    }
    dimensions = [name for name in kinds if worlds.KINDS[name].dimension][:3]
    return worlds.World(columns, dimensions, pa.table(arrays))


def polars_test(rng: np.random.Generator, frame: pl.DataFrame, depth: int = 2) -> pl.Expr:
    if depth and rng.random() < 0.6:
        left, right = polars_test(rng, frame, depth - 1), polars_test(rng, frame, depth - 1)
        return [left & right, left | right, ~left, left.xor(right)][
            rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])
        ]
    name = frame.columns[rng.integers(len(frame.columns))]
    column, series = pl.col(name), frame[name]
    one, other = (series[int(place)] for place in rng.integers(0, len(series), 2))
    if series.dtype == pl.Boolean and rng.random() < 0.5:
        return column
    choice = rng.integers(10)
    if choice == 0 or one is None or other is None:
        return column.is_null() if rng.random() < 0.5 else column.is_not_null()
    if choice == 1 and series.dtype.is_float():
        return column.is_nan() if rng.random() < 0.5 else column.is_not_nan()
    if choice == 2 and series.dtype == pl.String:
        return column.str.starts_with(one[:1])
    # Polars treats plain bytes as a sequence.
    same = series == pl.Series([one], dtype=series.dtype)
    a, b = pl.lit(series.filter(same).head(1)).first(), pl.lit(other, series.dtype)
    b = b if series.dtype.is_numeric() else pl.lit(other)
    if series.dtype in (pl.Boolean, pl.Categorical):
        return column == pl.lit(one) if rng.random() < 0.5 else column != pl.lit(other)
    if choice == 3:
        closed = ["both", "left", "right", "none"][rng.integers(4)]
        return column.is_between(b, pl.lit(one), closed=closed)
    if choice == 4:
        return column.is_in([one, other])
    if choice == 5 and series.dtype.is_integer():
        return column > float(one) + 0.5 if abs(one) < 2**50 else column >= one
    if choice == 6 and series.dtype.is_float():
        return column <= pl.lit(float(one), pl.Float64)
    operators = [column.lt, column.le, column.gt, column.ge, column.eq, column.ne]
    operator = operators[rng.integers(6)]
    return operator(pl.lit(one) if rng.random() < 0.7 else a)


@pytest.mark.parametrize("seed", range(12))
def test_polars_conditions_mean_what_they_mean_in_polars(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = list(rng.choice(POLARS_KINDS, 5, replace=False)) + ["float32"] * (seed % 2)
    world = world_of(rng, list(dict.fromkeys(kinds)))
    t = table_of(path, world)
    frame = t.query().to_polars()
    lazy = t.scan()
    assert lazy.collect_schema() == frame.schema
    for _ in range(60):
        condition = polars_test(rng, frame)
        expected = frame.filter(condition)["id"].sort()
        found = lazy.filter(condition).collect()["id"].sort()
        assert found.equals(expected), str(condition)


NUMBERS = ["int8", "int64", "uint64", "float32", "float64", "decimal128"]
ARROW_KINDS = [
    *NUMBERS,
    "bool",
    "string",
    "binary",
    "date32",
    "timestamp_s",
    "timestamp_us",
    "time64_us",
    "duration_ns",
]


def arrow_test(rng: np.random.Generator, world: worlds.World, depth: int = 2) -> pc.Expression:
    if depth and rng.random() < 0.6:
        left, right = arrow_test(rng, world, depth - 1), arrow_test(rng, world, depth - 1)
        return [left & right, left | right, ~left][rng.integers(3)]
    name = list(world.columns)[rng.integers(len(world.columns))]
    column, array = pc.field(name), world.arrow[name]
    one, other = (array[int(place)] for place in rng.integers(0, len(array), 2))
    if pa.types.is_boolean(array.type):
        return column if rng.random() < 0.5 else column == one
    choice = rng.integers(8)
    if choice == 0:
        return (
            column.is_null(nan_is_null=bool(rng.integers(2)))
            if pa.types.is_floating(array.type)
            else column.is_null()
        )
    if choice == 1:
        return column.is_valid()
    if choice == 2 and not pa.types.is_decimal(array.type):
        return column.isin(pa.array([one.as_py(), other.as_py()], array.type))
    if choice == 3 and pa.types.is_floating(array.type):
        return column.is_nan()
    if choice == 4 and pa.types.is_string(array.type):
        return pc.starts_with(column, one.as_py()[:1] if one.is_valid else "a")
    if choice == 5:
        kleene = pc.if_else(column.is_valid(), column == one, pa.scalar(None, pa.bool_()))
        return kleene
    operators: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b,
        lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b,
    ]  # fmt: skip
    operator = operators[rng.integers(6)]
    return operator(column, one) if rng.random() < 0.7 else operator(one, column)


@pytest.mark.parametrize("seed", range(8))
def test_arrow_filters_mean_what_they_mean_in_arrow(path: Path, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    world = world_of(rng, list(rng.choice(ARROW_KINDS, 6, replace=False)))
    dataset = table_of(path, world).to_dataset()
    assert dataset.schema.names == world.arrow.schema.names
    whole = ds.dataset(world.arrow)
    for _ in range(40):
        condition = arrow_test(rng, world)
        expected = sorted(whole.to_table(columns=["id"], filter=condition)["id"].to_pylist())
        found = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
        assert sorted(found) == expected, str(condition)
        assert dataset.count_rows(condition) == len(expected)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    rng = np.random.default_rng(7)
    n = 400_000
    x = rng.normal(0.5, 0.15, n)
    rows = pa.table(
        {
            "x": x,
            "y": pa.array(rng.random(n), pa.float32()),
            "k": pa.array(rng.integers(-500, 500, n), pa.int32()),
            "moment": pa.array(rng.integers(0, 86_400 * 365, n)).cast(pa.timestamp("s")),
            "day": pa.array(rng.integers(0, 20_000, n), pa.int32()).cast(pa.date32()),
            "pid": rng.integers(0, 4000, n),
            "v": rng.random(n) + x,
        }
    )
    path = tmp_path_factory.mktemp("cloud") / "t.kubist"
    dimensions = {"x": (0, 1), "y": (0, 1), "k": None, "moment": None, "day": None}
    return kubist.create(path, rows, dimensions, identity=["pid", "x"], lookup=["pid"])


SQL_BOXES = {
    "float64": ({"x": (0.2, 0.3)}, "x BETWEEN 0.2 AND 0.3"),
    "float32": ({"y": (0.1, 0.12)}, "y >= 0.1 AND y <= 0.12"),
    "open": ({"x": (0.2, None), "y": (None, 0.2)}, "x >= 0.2 AND y <= 0.2"),
    "int32": ({"k": (10, 20)}, "k >= 10 AND k < 21"),
    "timestamp": (
        {"moment": ("1970-03-01", "1970-03-10")},
        "moment >= '1970-03-01' AND moment <= '1970-03-10'",
    ),
    "date": (
        {"day": ("2000-01-01", "2001-01-01")},
        "day BETWEEN DATE '2000-01-01' AND DATE '2001-01-01'",
    ),
    "all": (
        {"x": (0.3, 0.6), "y": (0.2, 0.5), "k": (-200, 100), "moment": ("1970-02-01", None)},
        "x BETWEEN 0.3 AND 0.6 AND y BETWEEN 0.2 AND 0.5 "
        "AND k BETWEEN -200 AND 100 AND moment >= '1970-02-01'",
    ),
}


@pytest.mark.parametrize("name", SQL_BOXES)
def test_a_box_in_sql_reads_what_a_box_reads(cloud: kubist.Table, name: str) -> None:
    box, sql = SQL_BOXES[name]
    native = cloud.query(box=box)
    expected = native.to_polars().sort("pid", "x")
    asked: list[kubist.Result] = []
    context = pl.SQLContext(t=cloud.scan(on_result=asked.append))
    found = context.execute(f"SELECT * FROM t WHERE {sql}").collect()
    assert found.sort("pid", "x").equals(expected) and found.height > 0
    read = sum(result.stats.rows_read for result in asked)
    assert read <= 1.1 * native.stats.rows_read < 0.9 * len(cloud)


@pytest.mark.parametrize(
    "name", [name for name in SQL_BOXES if name not in ("float64", "float32", "open")]
)
def test_a_box_in_duckdb_reads_what_a_box_reads(cloud: kubist.Table, name: str) -> None:
    box, sql = SQL_BOXES[name]
    # DuckDB does not push down lower bounds of floats, so give them as a box.
    floats = {column: ends for column, ends in box.items() if column in ("x", "y")}
    native = cloud.query(box=box)
    expected = native.to_arrow().sort_by([("pid", "ascending"), ("x", "ascending")])
    asked: list[kubist.Result] = []
    droplets = cloud.to_dataset(box=floats, on_result=asked.append)
    with duckdb.connect() as connection:
        connection.register("droplets", droplets)
        found = connection.execute(f"SELECT * FROM droplets WHERE {sql} ORDER BY pid, x").fetchall()
    assert found == [tuple(row.values()) for row in expected.to_pylist()] and found
    read = sum(result.stats.rows_read for result in asked)
    assert read <= 1.1 * native.stats.rows_read < 0.9 * len(cloud)


def test_duckdb_hands_over_columns_upper_ends_and_lists(cloud: kubist.Table) -> None:
    asked: list[kubist.Result] = []
    droplets = cloud.to_dataset(on_result=asked.append)
    with duckdb.connect() as connection:
        connection.register("droplets", droplets)

        def ask(sql: str) -> Any:
            asked.clear()
            return connection.execute(sql).fetchone()

        assert ask("SELECT count(*) FROM droplets") == (400_000,)
        assert asked[0].schema.names == ["x"]
        whole = asked[0].stats.bytes_read
        expected = cloud.query(where="x < 0.05", columns=["v"]).to_pandas()["v"].sum()
        assert ask("SELECT sum(v) FROM droplets WHERE x < 0.05") == pytest.approx((expected,))
        assert asked[0].stats.rows_read < 20_000 and asked[0].stats.bytes_read < whole / 4
        assert ask("SELECT count(*) FROM droplets WHERE pid IN (17, 18)") == (
            cloud.count(where="pid IN (17, 18)"),
        )
        assert asked[0].stats.rows_read < 40_000
        # NaN is above all numbers in DuckDB, which filters again.
        assert ask("SELECT count(*) FROM droplets WHERE x > 0.95") == (
            cloud.count(where="x > 0.95"),
        )


def test_only_what_is_needed_is_read(cloud: kubist.Table) -> None:
    asked: list[kubist.Result] = []
    lazy = cloud.scan(on_result=asked.append)
    assert lazy.select("v").head(5).collect().shape == (5, 1)
    assert asked.pop().stats.rows_read < 100_000
    assert lazy.select(pl.len()).collect().item() == 400_000
    assert len(asked.pop().schema.names) == 1
    first = lazy.select("x").head(1000).collect()
    assert (
        lazy.head(1000)
        .filter(pl.col("x") < 0.5)
        .select("x")
        .collect()
        .equals(first.filter(pl.col("x") < 0.5))
    )
    assert lazy.filter(pl.col("x") < 0.5).head(7).collect().height == 7
    # After a filter, a slice need not read to the end, and never all columns.
    asked.clear()
    mean = (
        lazy.filter(pl.col("x") < 0.5).select(pl.col("v").mean()).collect(engine="streaming").item()
    )
    assert mean == pytest.approx(cloud.query(where="x < 0.5").to_pandas()["v"].mean())
    assert set(asked.pop().schema.names) == {"x", "v"}


def test_a_frame_is_of_one_moment(path: Path) -> None:
    t = kubist.create(path, {"x": [1.0, 2.0], "n": [1, 2]}, ["x"])
    lazy, dataset = t.scan(), t.to_dataset()
    t.append({"x": [3.0], "n": [3]})
    assert lazy.collect().height == dataset.count_rows() == dataset.to_table().num_rows == 2
    assert lazy.join(lazy, on="n").collect().height == 2
    assert t.scan().collect().height == t.to_dataset().count_rows() == 3
    with t.snapshot() as s:
        t.append({"x": [4.0], "n": [4]})
        assert s.scan().collect().height == 3
    empty = t.scan(where="x > 9").filter(pl.col("n") > 1).collect()
    assert empty.is_empty() and empty.schema == t.scan().collect_schema()


def test_a_choice_comes_before_conditions(cloud: kubist.Table) -> None:
    chosen = cloud.query(limit=1000).to_polars()
    assert (
        cloud.scan(limit=1000)
        .filter(pl.col("x") < 0.5)
        .collect()
        .equals(chosen.filter(pl.col("x") < 0.5))
    )
    even = {"per_cell": (2, {"x": 0.05, "y": 0.1})}
    expected = cloud.query(**even).to_arrow().filter(pc.field("k") > 0).num_rows
    assert cloud.to_dataset(**even).count_rows(pc.field("k") > 0) == expected


def test_a_sample_then_a_filter_is_a_filter_then_a_sample(cloud: kubist.Table) -> None:
    condition = pl.col("k") > 100
    after = cloud.scan(sample=0.05).filter(condition).collect().sort("pid", "x")
    before = cloud.query(sample=0.05, where="k > 100").to_polars().sort("pid", "x")
    assert after.equals(before) and after.height > 0
    seeds = [cloud.scan(window=(seed / 4, (seed + 1) / 4)) for seed in range(4)]
    sizes = [frame.select(pl.len()).collect().item() for frame in seeds]
    assert sum(sizes) == len(cloud)
    assert all(abs(size - 100_000) < 2000 for size in sizes)
    assert pl.concat(seeds).collect().unique().height == len(cloud)
    with pytest.raises(kubist.InvalidInput, match="window"):
        cloud.scan(window=(4 / 4, 5 / 4))


BAD = [
    ("box", {"z": (0, 1)}, "z"),
    ("where", "x >", "character"),
    ("sample", 2, "sample"),
    ("columns", ["x", "nope"], "nope"),
    ("inclusion", "x", "already"),
    ("inclusion", 3, "name of a column"),
    ("on_result", 3, "on_result"),
]


@pytest.mark.parametrize(("argument", "value", "said"), BAD)
def test_bad_input_is_refused_where_it_is_given(
    cloud: kubist.Table, argument: str, value: Any, said: str
) -> None:
    for make in (cloud.scan, cloud.to_dataset):
        with pytest.raises(kubist.InvalidInput, match=said):
            make(**{argument: value})


def test_a_dataset_does_nothing_behind_our_back(cloud: kubist.Table) -> None:
    dataset = cloud.to_dataset()
    own = set(vars(type(dataset)))
    # Methods about files and pyarrow's scanning, which read no rows.
    harmless = {
        "from_paths",
        "format",
        "filesystem",
        "_scan_options",
        "_scanner_options",
        "partitioning",
    }
    inherited = {name for name in dir(ds.FileSystemDataset) if not name.startswith("__")}
    assert inherited - own <= harmless
    for name in ("take", "filter", "sort_by", "join", "get_fragments", "replace_schema"):
        with pytest.raises(kubist.InvalidInput, match="scans only"):
            getattr(dataset, name)()
    with pytest.raises(FileNotFoundError):
        ds.Scanner.from_dataset(dataset).to_table()
    assert dataset.head(3, columns=["x"]).num_rows == 3
    assert "x" in repr(dataset)
    doubled = dataset.to_table({"d": pc.field("x") * 2}, filter=pc.field("k") == 7)
    assert doubled.column_names == ["d"]
    assert doubled.num_rows == cloud.count(where="k = 7")


def test_inclusion_is_the_share_that_was_drawn(cloud: kubist.Table) -> None:
    def of(**arguments: Any) -> set[float | None]:
        answer = cloud.query(columns=["x"], inclusion="p", **arguments)
        assert answer.schema.names == ["x", "p"]
        return set(answer.to_arrow()["p"].to_pylist())

    assert of() == {1.0}
    assert of(sample=0.01) == {0.01}
    assert of(sample=0.25, box={"x": (0.4, 0.5)}) == {0.25}
    assert of(window=(0.25, 0.75)) == {0.5}
    assert of(window=(0.25, 0.75), sample=0.5) == {0.25}
    limited = cloud.query(limit=1000, inclusion="p")
    assert set(limited.to_arrow()["p"].to_pylist()) == {limited.fraction}
    assert of(limit=10**9) == {1.0}
    # A single particle keeps its sampling probability.
    assert of(where="pid = 17", sample=0.5) == {0.5}


def test_inclusion_of_each_cell_is_its_own(cloud: kubist.Table) -> None:
    cells = {"x": 0.25, "y": 0.5}
    answer = cloud.query(per_cell=(50, cells), inclusion="p").to_pandas()
    plain = cloud.query(per_cell=(50, cells)).to_pandas()
    assert plain.equals(answer.drop(columns="p"))
    everything = cloud.query().to_pandas()
    # Weighted rows estimate cell counts within four standard errors.
    sides = [np.floor(answer.x / 0.25), answer.y > 0.5]
    for name, cell in answer.groupby(sides):
        held = everything[
            (np.floor(everything.x / 0.25) == name[0]) & ((everything.y > 0.5) == name[1])
        ]
        assert cell.p.nunique() == 1
        if len(held) <= 50:
            assert len(cell) == len(held) and cell.p.iloc[0] == 1
        else:
            assert len(cell) == 50
            assert abs((1 / cell.p).sum() / len(held) - 1) < 4 / np.sqrt(49)
    both = cloud.query(per_cell=(50, cells), limit=100, inclusion="p")
    rows = both.to_arrow()["p"].to_pylist()
    assert len(rows) == 100 and max(rows) == both.fraction


WORLDS = 150


@pytest.fixture(scope="module")
def same_worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, float]:
    """Independently sampled copies of rows, and their sum of v, which correlates with density."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.random(1500), rng.normal(0.5, 0.02, 1500)])
    v = 1 + 10 * np.exp(-((x - 0.5) ** 2) / 0.01)
    everywhere = (x + np.arange(WORLDS)[:, None]).ravel()
    rows = {"x": everywhere, "v": np.tile(v, WORLDS), "n": np.arange(len(everywhere))}
    path = tmp_path_factory.mktemp("worlds") / "t.kubist"
    return kubist.create(path, rows, {"x": (0, WORLDS)}, identity=["n"]), float(v.sum())


CHOICES: dict[str, dict[str, Any]] = {
    "limit": {"limit": 100},
    "per_cell": {"per_cell": (10, {"x": 0.1})},
    "both": {"per_cell": (10, {"x": 0.1}), "limit": 60},
    "sample": {"sample": 0.05},
    "window": {"window": (0.5, 0.6)},
}


@pytest.mark.parametrize("how", CHOICES)
def test_inverse_inclusion_estimates_without_bias(
    same_worlds: tuple[kubist.Table, float], how: str
) -> None:
    t, truth = same_worlds
    found = []
    for world in range(WORLDS):
        box = {"x": (world, world + 0.999999)}
        answer = t.query(box=box, inclusion="p", **CHOICES[how]).to_numpy()
        found.append((answer["v"] / answer["p"]).sum())
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 4 * error


def test_a_limit_through_a_trajectory_leaves_its_rows_without_weight(path: Path) -> None:
    rows = {"x": np.random.default_rng(5).random(6000), "pid": np.repeat(np.arange(60), 100)}
    t = kubist.create(path, rows, ["x"], identity=["pid"])
    answer = t.query(limit=2050, inclusion="p").to_pandas()
    assert answer.p.isna().sum() == 50 and answer[answer.p.isna()].pid.nunique() == 1
    assert answer.dropna().groupby("pid").size().eq(100).all()
    assert answer.p.dropna().nunique() == 1
    with pytest.raises(kubist.InvalidInput, match="already"):
        t.query(inclusion="pid")


def test_the_inclusion_goes_through_every_door(cloud: kubist.Table) -> None:
    expected = cloud.count(box={"x": (0.4, 0.5)})
    lazy = cloud.scan(sample=0.2, inclusion="p")
    context = pl.SQLContext(t=lazy)
    sql = "SELECT sum(1 / p) AS n FROM t WHERE x BETWEEN 0.4 AND 0.5"
    by_polars = context.execute(sql).collect().item()
    droplets = cloud.to_dataset(sample=0.2, inclusion="p", box={"x": (0.4, 0.5)})
    with duckdb.connect() as connection:
        connection.register("droplets", droplets)
        by_duckdb = connection.execute("SELECT sum(1 / p) FROM droplets").fetchall()[0][0]
    assert by_polars == pytest.approx(by_duckdb)
    assert abs(by_polars / expected - 1) < 0.05
    assert lazy.select("p").unique().collect()["p"].to_list() == [0.2]
    assert "p" not in lazy.select("x").collect().columns
    assert lazy.filter(pl.col("p") < 0.1).collect().is_empty()
    assert cloud.to_dataset(inclusion="p").schema.field("p") == pa.field(
        "p", pa.float64(), nullable=False
    )
    part = cloud.splits(3, sample=0.2, inclusion="p")[0].to_arrow()
    assert set(part["p"].to_pylist()) == {0.2}


def test_unused_types_do_not_stand_in_the_way(path: Path) -> None:
    rows = pa.table(
        {"x": [0.5, 1.5], "c": pa.array(["a", "b"]).dictionary_encode(), "b": [b"x", None]}
    )
    t = kubist.create(path, rows, ["x"])
    assert t.scan().filter(pl.col("c") == "b").collect().height == 1
    assert t.to_dataset().to_table(filter=pc.field("c") == "b").num_rows == 1
    assert t.scan().filter(pl.col("b") == b"x").collect().height == 1
    deep = pl.col("x") > 0
    for _ in range(200):
        deep = (deep | (pl.col("x") > 2)) & (pl.col("x") > -1)
    assert t.scan().filter(deep).collect().height == 2
