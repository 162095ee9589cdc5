"""Periodic space: `period=` of a table, and queries across its seams, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist
from kubist import region

ROWS = 30_000
SIDE = 25.0
COMMAND = Path(sys.executable).parent / "kubist"
Columns = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, Columns]:
    random = np.random.default_rng(5)
    columns = {
        "x": random.random(ROWS) * SIDE,
        "y": random.random(ROWS) * SIDE - SIDE / 2,
        "z": random.random(ROWS) * SIDE,
        "mass": random.random(ROWS).astype("f4"),
    }
    # Both ends of an interval are the same position.
    columns["x"][:2] = [0, SIDE]
    columns["y"][2:4] = [-SIDE / 2, SIDE / 2]
    location = tmp_path_factory.mktemp("periods") / "box.kubist"
    period = {"x": SIDE, "y": (-SIDE / 2, SIDE / 2)}
    made = kubist.create(location, columns, ["x", "y", "z"], capacity=256, period=period)
    return made, columns


def images(values: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """The values with an image in the range."""
    found = [(values >= low + k * SIDE) & (values <= high + k * SIDE) for k in range(-8, 9)]
    return np.logical_or.reduce(found)


def test_a_table_keeps_its_periods(box: tuple[kubist.Table, Columns], tmp_path: Path) -> None:
    table, _ = box
    period = {"x": SIDE, "y": (-SIDE / 2, SIDE / 2)}
    assert table.period == table.snapshot().period == period
    assert table.info().period == {"x": "25", "y": "-12.5:12.5"}
    assert "x=25, y=-12.5:12.5" in repr(table.info())
    assert table.copy_to(tmp_path / "same").period == period
    other = table.copy_to(tmp_path / "other", period={"x": None, "z": SIDE})
    assert other.period == {"y": period["y"], "z": SIDE}
    assert other.count(box={"z": (24, 26)}) == table.count(where="z >= 24 OR z <= 1")
    kubist.create(tmp_path / "by_schema", table.schema, ["x"]).close()
    assert kubist.open(tmp_path / "by_schema").period == period


def test_boxes_across_a_seam(box: tuple[kubist.Table, Columns]) -> None:
    table, at = box
    random = np.random.default_rng(6)
    cases = [(24.0, 26.0), (-1.0, 1.0), (0.0, 12.5), (-5.0, 30.0), (49.5, 50.5), (-100.0, -99.0)]
    cases += [
        (low, low + wide)
        for low, wide in zip(random.uniform(-60, 60, 60), random.uniform(0, 27, 60), strict=True)
    ]
    for low, high in cases:
        for name, first in (("x", 0.0), ("y", -SIDE / 2)):
            plain = (at[name] >= low) & (at[name] <= high)
            is_inside = first <= low and high <= first + SIDE
            expected = plain if is_inside else images(at[name], low, high)
            asked = {name: (low, high)}
            assert table.count(box=asked) == expected.sum(), (name, low, high)
            assert table.count(region=region.box(**asked)) == expected.sum()
    both = images(at["x"], 24, 26) & images(at["y"], 12, 14) & (at["z"] <= 10)
    asked = {"x": (24, 26), "y": (12, 14), "z": (None, 10)}
    heavy = table.query(box=asked, where="mass > 0.5", order_by="mass").to_arrow()
    assert heavy.num_rows == (both & (at["mass"] > 0.5)).sum()
    explained = table.explain(box=asked)
    assert explained.stats.rows_returned == both.sum() and explained.examined_per_row < 12
    share = table.query(box=asked, sample=0.5).to_arrow().num_rows
    assert 0.3 * both.sum() < share < 0.7 * both.sum()
    estimate = table.estimate("count()", box=asked, error=0.05)
    assert estimate.low * 0.9 <= both.sum() <= estimate.high * 1.1


def test_regions_across_a_seam(box: tuple[kubist.Table, Columns]) -> None:
    table, at = box

    def far(name: str, center: float) -> np.ndarray[Any, Any]:
        apart = np.abs(at[name] - center) % SIDE
        return np.minimum(apart, SIDE - apart)

    for center in ((0.5, 12, 12), (24, -12, 3), (12, 0, 12), (-3, 40, 8)):
        for radius in (1.0, 6.0, 12.5):
            squares = (
                far("x", center[0]) ** 2 + far("y", center[1]) ** 2 + (at["z"] - center[2]) ** 2
            )
            inside = int((squares <= radius**2).sum())
            assert table.count(region=region.sphere(center, radius)) == inside, (center, radius)
    with pytest.raises(kubist.InvalidInput, match="above half of the period 25 of x"):
        table.count(region=region.sphere((0, 0, 0), 13))
    pipe = np.hypot(far("x", 24), far("y", 12)) <= 3
    cylinder = region.cylinder((24, 12, 0), (24, 12, 25), 3)
    assert table.count(region=cylinder) == pipe.sum()
    corners = [(20, -5), (30, -5), (30, 5), (20, 5)]
    square = images(at["x"], 20, 30) & (np.abs(at["y"]) <= 5)
    assert table.count(region=region.polygon(corners)) == square.sum()
    with pytest.raises(kubist.InvalidInput, match="at most 64 periods large"):
        table.count(region=region.polygon([(-5e3, 0), (5e3, 0), (0, 5)]))


def test_a_plot_across_a_seam_shows_the_images(tmp_path: Path) -> None:
    at = {"x": [24.2, 0.7, 3.0, 24.9, 0.1], "z": [1.0, 2.0, 3.0, 4.0, 5.0]}
    moved = {**at, "x": [x + SIDE if x < 1 else x for x in at["x"]]}
    box = {"x": (24, 26)}
    with (
        kubist.create(tmp_path / "t", at, ["x"], identity=["z"], period={"x": SIDE}) as periodic,
        kubist.create(tmp_path / "u", moved, ["x"], identity=["z"]) as plain,
    ):
        pictures = [table.plot("x", "z", box=box) for table in (periodic, plain)]
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.svg")
    assert (tmp_path / "0.svg").read_text() == (tmp_path / "1.svg").read_text()


def test_values_outside_are_refused(box: tuple[kubist.Table, Columns], tmp_path: Path) -> None:
    table = kubist.create(tmp_path / "t", {"x": [0.0, 30.0], "n": [1, 2]}, ["x"])
    with pytest.raises(kubist.InvalidInput, match='column "x" of 1 rows is outside of 0 to 25'):
        table.regrid(period={"x": 25})
    table.regrid({"x": (0, 40)}, period={"x": 40})
    assert table.period == {"x": 40.0}
    with pytest.raises(
        kubist.InvalidInput, match='column "x" repeats from 0 to 40, and is 41 in row 1'
    ):
        table.append({"x": [1.0, 41.0], "n": [1, 2]})
    table.append({"x": [float("nan"), 40.0], "n": [1, 2]})
    table.regrid(period={"x": None})
    assert table.period == {}
    table.append({"x": [41.0], "n": [1]})
    for period, said in (
        ({"x": 0}, "0 to 0 is no interval"),
        ({"x": (5, 1)}, "5 to 1 is no interval"),
        ({"x": "1 furlong"}, "x"),
        ({"w": 1}, "w"),
        ({"x": True}, "x"),
        (3, "a dict of column: period"),
    ):
        with pytest.raises(kubist.InvalidInput, match=said):
            kubist.create(tmp_path / "u", {"x": [0.0]}, ["x"], period=period)  # type: ignore[arg-type]
    with pytest.raises(kubist.InvalidInput, match="regrid the period of a column"):
        table.set_metadata({"period": "3"}, column="x")
    sky = kubist.create(
        tmp_path / "s", {"ra": [0.5, 359.5]}, ["ra"], units={"ra": "deg"}, period={"ra": "360 deg"}
    )
    assert sky.count(box={"ra": ("359 deg", "361 deg")}) == 2


def test_the_command_has_periods(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = subprocess.run([COMMAND, *words], cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "a.csv").write_text("x,n\n0.5,1\n3,2\n9.5,3\n")
    run("ingest", "t", "a.csv", "--dimensions", "x", "--create", "period=x=10")
    assert run("query", "t", "--box", "x=9:11", "--columns", "n").split() == ["n", "1", "3"]
    assert "period      x=10" in run("info", "t")
    run("copy", "t", "u", "--period", "x=-0:20")
    assert kubist.open(tmp_path / "u").period == {"x": 20.0}
    run("regrid", "t", "--period", "x=0:12")
    assert kubist.open(tmp_path / "t").period == {"x": 12.0}
