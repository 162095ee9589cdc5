"""Ordered results, compared with pandas' sort; boxes with single values and units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from servers import Server

import kubist

ROWS = 30_000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    speed = rng.normal(size=ROWS).round(1)
    speed[::17] = np.nan
    return pd.DataFrame({
        "HIP": rng.permutation(ROWS),
        "pid": rng.integers(0, 300, ROWS),
        "time": rng.integers(0, 1000, ROWS) / 8,
        "x": rng.random(ROWS),
        "speed": speed,
        "kind": rng.choice(["oil", "water", "Ä"], ROWS),
    })  # fmt: skip


@pytest.fixture(scope="module")
def table(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    path = tmp_path_factory.mktemp("order") / "t.kubist"
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    units = {"x": "m", "time": "s", "speed": "m/s"}
    return kubist.create(path, rows, ["x", "time"], identity=["HIP"], units=units)


@pytest.fixture(scope="module", params=["local", "remote"])
def asked(request: pytest.FixtureRequest, table: kubist.Table) -> Iterator[object]:
    if request.param == "local":
        yield table
        return
    with Server(table.location) as server:
        yield kubist.connect(server.url)


def test_the_order_is_that_of_pandas(asked: kubist.Table, frame: pd.DataFrame) -> None:
    found = asked.query(order_by=["kind desc", "speed", "HIP"]).to_pandas()
    # pandas sorts text by code points, like UTF-8 bytes; NaN comes last.
    expected = frame.sort_values(["kind", "speed", "HIP"], ascending=[False, True, True])
    pd.testing.assert_frame_equal(found, expected.reset_index(drop=True))
    falling = asked.query(order_by="speed desc", columns=["speed"]).to_numpy()["speed"]
    numbers = np.sort(frame["speed"].dropna())[::-1]
    assert np.array_equal(falling[: len(numbers)], numbers)
    assert np.isnan(falling[len(numbers) :]).all()
    in_one_text = asked.query(order_by='kind desc, "speed",HIP').to_pandas()
    pd.testing.assert_frame_equal(in_one_text, found)
    with pytest.raises(kubist.InvalidInput, match="columns between commas"):
        asked.query(order_by="kind,")
    largest = asked.query(order_by=["x desc"], limit=10).to_numpy()["x"]
    assert np.array_equal(largest, np.sort(frame["x"])[::-1][:10])


def test_a_limit_is_a_sample_or_the_first_of_an_order(asked: kubist.Table) -> None:
    by_priority = asked.query(order_by="priority").to_pandas()
    sample = asked.query(limit=500).to_pandas()
    pd.testing.assert_frame_equal(by_priority.head(500), sample)
    by_name = asked.query(order_by="HIP").to_pandas()
    first = asked.query(limit=500, order_by="HIP").to_pandas()
    pd.testing.assert_frame_equal(by_name.head(500), first)
    cells = {"per_cell": (3, {"x": 0.1}), "order_by": "HIP"}
    in_order = asked.query(**cells).to_pandas()
    pd.testing.assert_frame_equal(in_order.head(20), asked.query(**cells, limit=20).to_pandas())


def test_paths_one_after_the_other(asked: kubist.Table, frame: pd.DataFrame) -> None:
    paths = asked.trajectories(box={"x": (0.999, None)}, by="PID", order_by=["pid", "time", "HIP"])
    found = paths.to_pandas()
    through = frame.loc[frame["x"] >= 0.999, "pid"].unique()
    expected = frame[frame["pid"].isin(through)].sort_values(["pid", "time", "HIP"])
    assert 0 < len(through) < 300
    pd.testing.assert_frame_equal(found, expected.reset_index(drop=True))


def test_trajectories_come_in_time_order(asked: kubist.Table, frame: pd.DataFrame) -> None:
    through = frame.loc[frame["x"] >= 0.999, "pid"].unique()
    chosen = frame[frame["pid"].isin(through)]
    # By trajectory and time; the identity is a single row.
    expected = chosen.sort_values(["pid", "time", "HIP"])["HIP"].tolist()
    paths = asked.trajectories(box={"x": (0.999, None)}, by="pid")
    assert paths.to_numpy()["HIP"].tolist() == expected
    few = {"box": {"x": (0.999, None)}, "by": "pid", "limit": 10, "columns": ["HIP"]}
    first = asked.trajectories(**few, order_by=["pid", "time", "HIP"])
    assert first.to_numpy()["HIP"].tolist() == expected[:10]
    # Without an order: a sample, path after path.
    drawn = asked.trajectories(**few).to_numpy()["HIP"].tolist()
    assert len(drawn) == 10 and drawn == [name for name in expected if name in drawn] != expected[:10]
    sample = asked.trajectories(box={"x": (0.999, None)}, by="pid", order_by="priority")
    assert sample.to_numpy()["HIP"].tolist() != expected


def test_what_else_identifies_a_path_keeps_it_whole(tmp_path: Path) -> None:
    rows = np.random.default_rng(9).permutation(6000)
    data = {"x": rows / 6000, "pid": rows % 20, "run": rows // 20 % 3, "time": rows // 60}
    t = kubist.create(tmp_path / "t.kubist", data, ["x"], identity=["pid", "run"])
    found = t.trajectories(box={"x": (0, 1)}, by="pid").to_numpy()
    order = np.lexsort([data["time"], data["run"], data["pid"]])
    for name in ("pid", "run", "time"):
        assert found[name].tolist() == data[name][order].tolist()


def test_paths_of_one_identity_are_in_order_of_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = rng.permutation(20_000)
    data = {"x": rng.random(20_000), "pid": rows % 200, "Time": rows // 200}
    t = kubist.create(tmp_path / "t.kubist", data, ["x"], identity=["pid"])
    found = t.trajectories(box={"x": (0.99, None)}).to_numpy()
    through = np.unique(data["pid"][data["x"] >= 0.99])
    assert found["pid"].tolist() == np.repeat(through, 100).tolist()
    assert found["Time"].tolist() == list(range(100)) * len(through)


def test_single_values_and_any_letter_case(asked: kubist.Table, frame: pd.DataFrame) -> None:
    assert asked.query(box={"hip": 11767}, columns=["Hip"]).to_numpy()["HIP"].tolist() == [11767]
    assert asked.count(box={"kind": "oil"}) == (frame["kind"] == "oil").sum()
    assert (
        asked.count(box={"pid": np.int32(7), "KIND": ("oil", "oil")})
        == ((frame["pid"] == 7) & (frame["kind"] == "oil")).sum()
    )
    grouped = asked.estimate("count()", group_by="Kind", sample=1).to_pandas()
    assert set(grouped["kind"]) == {"oil", "water", "Ä"}


def test_units(asked: kubist.Table, frame: pd.DataFrame) -> None:
    expected = frame["x"].between(0.25, 0.5).sum()
    assert asked.count(box={"x": ("25 cm", "500mm")}) == expected
    assert asked.count(where="x BETWEEN 25cm AND 0.5") == expected
    assert asked.count(where="speed > '3.6 km/h'") == (frame["speed"] > 1).sum()
    assert asked.count(where="time < 2min") == (frame["time"] < 120).sum()
    with pytest.raises(kubist.InvalidInput, match="is in m, and cannot be compared with 20 s"):
        asked.count(where="x > 20s")
    with pytest.raises(kubist.InvalidInput, match="the unit `foo` of 1 foo is not known"):
        asked.count(box={"x": ("1 foo", None)})
    with pytest.raises(kubist.InvalidInput, match="column `HIP` has no unit"):
        asked.count(box={"HIP": "1 m"})


def test_units_in_what_is_computed(asked: kubist.Table, frame: pd.DataFrame) -> None:
    x, speed, time = frame["x"], frame["speed"], frame["time"]
    for where, expected in {
        "x * 2 > 30cm": x * 2 > 0.3,
        "x + 1cm > 2cm": x + 0.01 > 0.02,
        "speed * time > '1 km'": speed * time > 1000,
        "x / time < '1 mm/s'": x / time < 0.001,
        "sqrt(x * x + x * x) < 100cm": np.sqrt(2 * x * x) < 1,
        "CASE WHEN kind = 'oil' THEN x ELSE 25cm END > 0.2m": x.where(frame["kind"] == "oil", 0.25)
        > 0.2,
        "bin(x, 5cm) = 0.5": np.floor(x * 20) == 10,
        "least(x, 30cm) >= 30cm": x >= 0.3,
    }.items():
        assert asked.count(where=where) == int(expected.sum()), where
    for where, message in {
        "x + time > 1": "column `x` is in m, and column `time` in s: these are of different kinds",
        "x > speed": "column `x` is in m, and column `speed` in m/s",
        "x * x > 1cm": "what is computed is in m.2, and cannot be compared with 1 cm",
        "HIP + 1 > 1cm": "what is computed has no unit",
        "x * 2foo > 1": "the unit `foo` of 2 foo is not known",
    }.items():
        with pytest.raises(kubist.InvalidInput, match=message):
            asked.count(where=where)
    by_length = [
        asked.estimate("count()", group_by=f"bin(x, {width})", sample=1).to_pandas()["value"]
        for width in ("10cm", "0.1")
    ]
    assert by_length[0].tolist() == by_length[1].tolist()
    edges = asked.estimate("histogram(x, 250mm, 0cm, 1m)", sample=1).to_numpy()[1]
    assert edges[1:-1].tolist() == [0.25, 0.5, 0.75]
    assert " m^2" in repr(asked.estimate("mean(x * x)", sample=0.1))
    assert " km" not in repr(asked.estimate("mean(speed) / 2", sample=0.1))


def test_an_error_has_a_unit(asked: kubist.Table) -> None:
    coarse, fine = (asked.estimate("mean(x)", error=error) for error in ("5 cm", "5mm"))
    for estimate, half in ((coarse, 0.05), (fine, 0.005)):
        assert estimate.high - estimate.low <= 2 * half
    assert coarse.stats.rows_read < fine.stats.rows_read
    plain = asked.estimate("mean(x)", error="0.005 abs")
    assert (plain.value, plain.low, plain.high) == (fine.value, fine.low, fine.high)
    both = asked.estimate("mean(x), mean(x * x)", error="0.02 abs")
    assert all(row["high"] - row["low"] <= 0.04 for row in both.to_dicts())
    for aggregate, error, message in (
        ("mean(x)", "1 s", r"mean\(x\) is in m, and 1 s is no error of it: s is of another kind"),
        ("mean(x * x)", "1 cm", r"mean\(x \* x\) is in m\^2, and 1 cm is no error of it"),
        ("count()", "1 cm", r"the goal 1 cm has a unit but count\(\) has none"),
        ("mean(x)", "1 foo", "the unit `foo` of 1 foo is not known"),
        ("mean(x)", "0 mm", "absolute must be above 0, found 0 mm"),
        ("mean(x)", "1..2 m", r'the goal "1..2 m" is neither a number'),
        ("mean(x)", "five cm", "error: expected a fraction"),
    ):
        with pytest.raises(kubist.InvalidInput, match=message):
            asked.estimate(aggregate, error=error)


def test_more_bins_than_there_can_be_are_told(asked: kubist.Table) -> None:
    assert asked.estimate("histogram(x, 1mm)", sample=1).warnings == []
    narrow = asked.estimate("histogram(x, 1um)", sample=1)
    (warning,) = narrow.warnings
    assert "a histogram has at most 65,536 bins; the last one has all values above" in warning
    counts, _ = narrow.to_numpy()
    assert counts[-1] > 0.9 * ROWS and "65,536 bins" in repr(narrow)


def test_widths_of_cells_of_time(tmp_path: Path) -> None:
    seconds = np.arange(600)
    data = {
        "t": (np.datetime64("2020-01-01", "ms") + 1000 * seconds),
        "day": np.datetime64("2020-01-01", "D") + seconds,
    }
    table = kubist.create(tmp_path / "t.kubist", data, ["t", "day"])
    for name, width, number, cells in (("t", "1 min", 60_000, 10), ("day", "10 day", 10, 60)):
        found, plain = (
            table.query(per_cell=(1, {name: asked})).to_numpy()[name].tolist()
            for asked in (width, number)
        )
        assert found == plain and len(found) in (cells, cells + 1)
    with pytest.raises(kubist.InvalidInput, match="column `t` is in ms, and 1 m is no width of it"):
        table.query(per_cell=(1, {"t": "1 m"}))


def test_cells_and_domains_have_units(
    asked: kubist.Table, frame: pd.DataFrame, tmp_path: Path
) -> None:
    def cells(width: float | str) -> list[int]:
        return asked.query(per_cell=(1, {"x": width})).to_numpy()["HIP"].tolist()

    assert cells("25 cm") == cells(0.25) and 4 <= len(cells("25 cm")) <= 5
    with pytest.raises(kubist.InvalidInput, match="column `x` is in m, and 1 s is no width of it"):
        cells("1 s")
    with pytest.raises(kubist.InvalidInput, match="neither a number nor one with a unit"):
        cells("wide")
    data, units = {"x": frame["x"].to_numpy(), "n": np.arange(ROWS)}, {"x": "m"}
    made = [
        kubist.create(tmp_path / name, data, {"x": domain}, units=units).info().dimensions
        for name, domain in {"a": ("0 cm", "100cm"), "b": (0, 1)}.items()
    ]
    assert made[0] == made[1]
    for domain, message in {("0 s", "1 s"): "is in m, and cannot be compared with 0 s"}.items():
        with pytest.raises(kubist.InvalidInput, match=message):
            kubist.create(tmp_path / "c", data, {"x": domain}, units=units)
    with pytest.raises(kubist.InvalidInput, match="column `n` has no unit"):
        kubist.create(tmp_path / "d", data, {"n": ("0 m", "1 m")}, units=units)


def test_orders_stay_where_they_are_pushed_down(table: kubist.Table, frame: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    slow = table.scan(order_by="x", limit=100)
    found = slow.filter(polars.col("kind") == "oil").collect()
    lowest = frame.sort_values("x").head(100)
    assert found["HIP"].to_list() == lowest.loc[lowest["kind"] == "oil", "HIP"].tolist()
    named = table.scan(columns=["hip", "X"]).filter(polars.col("HIP") == 7).collect()
    assert named.columns == ["HIP", "x"] and len(named) == 1


def test_integers_go_into_float_columns_where_exact(tmp_path: Path) -> None:
    table = kubist.create(tmp_path / "t", {"x": np.array([0.5, 2.0])}, ["x"])
    table.append({"x": np.array([1, 2**53], dtype=np.int64)})
    assert table.query(order_by="x").to_numpy()["x"].tolist() == [0.5, 1, 2, 2**53]
    with pytest.raises(kubist.InvalidInput, match='"x", row 1 .*9007199254740993.*Float64'):
        table.append({"x": np.array([1, 2**53 + 1], dtype=np.int64)})


def test_steps_say_what_they_wait_for(tmp_path: Path) -> None:
    table = kubist.create(tmp_path / "t", {"x": np.array([0.5])}, ["x"])
    ranks = [f"rank-{rank}" for rank in range(4)]
    table.declare_writers(ranks)
    for rank in ranks:
        if rank != "rank-2":
            with table.writer(name=rank) as writer:
                writer.append({"x": np.array([1.0])})
                writer.commit(step=4)
    expected = r"step 4 is not complete: waiting for writer rank-2 \(3 of 4 have finished\)"
    with pytest.raises(kubist.InvalidInput, match=expected):
        table.snapshot(4)


def test_what_is_not_there(tmp_path: Path) -> None:
    kubist.create(tmp_path / "airway.kubist", {"x": np.array([0.5])}, ["x"])
    with pytest.raises(kubist.NotATable, match=r"nope\.kubist does not exist$"):
        kubist.open(tmp_path / "nope.kubist")
    with pytest.raises(kubist.NotATable, match=r"did you mean .*/airway\.kubist\?"):
        kubist.open(tmp_path / "airwya.kubist")
