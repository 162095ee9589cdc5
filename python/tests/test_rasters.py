"""Rasters against NumPy: every aggregate, cells at their edges, intervals over seeds."""

from __future__ import annotations

import os
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist
from kubist import region
from kubist.rasters import _read
from kubist.rasters._cells import Rows, estimates
from kubist.rasters._values import aggregate

ROWS = 20_000
SEEDS = int(os.environ.get("KUBIST_RASTER_SEEDS", "60"))
AGGREGATES = {
    "count()": len,
    "count(z)": len,
    "sum(z)": np.sum,
    "mean(z)": np.mean,
    "min(z)": np.min,
    "max(z)": np.max,
    "var(z)": lambda v: np.var(v, ddof=1) if len(v) > 1 else np.nan,
    "std(z)": lambda v: np.std(v, ddof=1) if len(v) > 1 else np.nan,
    "median(z)": np.median,
    "p95(z)": lambda v: np.quantile(v, 0.95),
    "quantile(z, 0.1)": lambda v: np.quantile(v, 0.1),
}
Columns = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def columns() -> Columns:
    random = np.random.default_rng(1)
    columns = {
        # Many values are on edges of cells of 0.1.
        "x": np.round(random.uniform(-1, 1.5, ROWS), 2),
        "y": random.normal(0, 1, ROWS).astype("f4"),
        "z": 1e6 + random.normal(0, 1, ROWS),
        "pid": random.integers(0, 500, ROWS),
        "kept": random.random(ROWS) < 0.5,
    }
    columns["z"][::97] = np.nan
    return columns


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, columns: Columns) -> kubist.Table:
    location = tmp_path_factory.mktemp("rasters") / "t.kubist"
    units = {"x": "m", "y": "m", "z": "m"}
    table = kubist.create(
        location, columns, ["x", "y"], identity=["pid"], capacity=512, units=units
    )
    table.set_metadata({"las": {"crs": "EPSG:25832"}})
    return table


def brute(
    columns: Columns, edges: tuple[Any, Any], kept: Any, of: Any, missing: bool
) -> np.ndarray[Any, Any]:
    x_edges, y_edges = edges
    places = []
    for values, own in ((columns["x"], x_edges), (columns["y"].astype(float), y_edges)):
        place = np.searchsorted(own, values, side="right") - 1
        place[values == own[-1]] = len(own) - 2
        kept = kept & (values >= own[0]) & (values <= own[-1])
        places.append(place)
    if missing:
        kept = kept & ~np.isnan(columns["z"])
    found = np.full((len(y_edges) - 1, len(x_edges) - 1), np.nan)
    if of in (len, np.sum):
        found[:] = 0
    cells = places[1] * found.shape[1] + places[0]
    for cell in np.unique(cells[kept]):
        found.flat[cell] = of(columns["z"][kept & (cells == cell)])
    return found


@pytest.mark.parametrize("value", AGGREGATES)
def test_each_aggregate_is_that_of_numpy(
    table: kubist.Table, columns: Columns, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_read, "ROWS", 3_000)  # several strips
    of, missing = AGGREGATES[value], "z" in value
    everything = np.ones(ROWS, bool)
    r = table.raster("x", "y", cell=(0.1, 0.25), value=value)
    assert r.exact and not np.nansum(np.abs(r.error))
    expected = brute(columns, (r.x_edges, r.y_edges), everything, of, missing)
    # Differences to a cell's first value keep 1e-9 of values near a million.
    np.testing.assert_allclose(r.values, expected, rtol=1e-9, atol=1e-9)
    assert r.rows.sum() == (ROWS if not missing else (~np.isnan(columns["z"])).sum())

    inside = (columns["x"] >= -0.5) & (columns["x"] <= 0.75) & (columns["y"] >= 0)
    inside &= columns["kept"] & (np.hypot(columns["x"], columns["y"].astype(float)) <= 1)
    box = {"x": (-0.5, 0.75), "y": (0, None)}
    circle = region.sphere({"x": 0, "y": 0}, 1)
    r = table.raster("x", "y", cell=0.25, value=value, box=box, where="kept", region=circle)
    assert (r.x_edges[0], r.x_edges[-1], r.y_edges[0]) == (-0.5, 0.75, 0)
    expected = brute(columns, (r.x_edges, r.y_edges), inside, of, missing)
    np.testing.assert_allclose(r.values, expected, rtol=1e-9, atol=1e-9)


def test_rasters_of_expressions_and_units(table: kubist.Table, columns: Columns) -> None:
    r = table.raster("sqrt(x*x + y*y)", "x", cell=(0.5, "500 mm"), value="share(kept)")
    assert (
        r.units == {"x": "m", "y": "m"}
        and r.crs == "EPSG:25832"
        and r.y_edges[1] - r.y_edges[0] == 0.5
    )
    inner = (np.hypot(columns["x"], columns["y"].astype(float)) < 0.5) & (columns["x"] >= 0)
    inner &= columns["x"] < 0.5
    at = int(np.searchsorted(r.y_edges, 0))
    assert r.values[at, 0] == pytest.approx(columns["kept"][inner].mean())
    assert "share(kept)" in repr(r) and np.asarray(r).shape == r.values.shape


def test_rasters_become_arrays_of_other_libraries(table: kubist.Table, tmp_path: Path) -> None:
    r = table.raster("x", "y", cell=0.5, value="max(z)", sample=0.5)
    pytest.importorskip("xarray")
    d = r.to_xarray()
    assert d["value"].dims == ("y", "x") and d["value"].attrs["units"] == "m"
    assert d.attrs["crs"] == "EPSG:25832" and float(d["x"][0]) == -0.75
    rasterio = pytest.importorskip("rasterio")
    r.to_geotiff(tmp_path / "r.tif")
    with rasterio.open(tmp_path / "r.tif") as file:
        assert file.crs.to_epsg() == 25832 and file.count == 3
        np.testing.assert_array_equal(file.read(1), r.values[::-1])
        assert file.xy(0, 0) == (r.x_edges[0] + 0.25, r.y_edges[-1] - 0.25)
    with pytest.raises(kubist.InvalidInput, match="crs.*moon"):
        r.to_geotiff(tmp_path / "r.tif", crs="moon")


def test_a_sample_reads_whole_identities(table: kubist.Table, columns: Columns) -> None:
    r = table.raster("x", "y", cell=0.5, sample=0.2)
    whole = table.raster("x", "y", cell=0.5)
    assert np.array_equal(r.x_edges, whole.x_edges) and r.fraction == 0.2 and not r.exact
    assert r.rows.sum() == table.count(sample=0.2)
    assert (r.low <= r.values).all() and (r.values <= r.high).all()
    assert np.mean((r.low <= whole.values) & (whole.values <= r.high)) > 0.85
    extreme = table.raster("x", "y", cell=0.5, value="max(z)", sample=0.2)
    some = extreme.rows > 0
    assert np.isinf(extreme.error[some]).all()
    assert (
        extreme.low[some] <= table.raster("x", "y", cell=0.5, value="max(z)").values[some]
    ).all()


@pytest.mark.parametrize("per_identity", [1, 5])
@pytest.mark.parametrize("value", ["count()", "sum(z)", "mean(z)", "std(z)", "median(z)", "p95(z)"])
def test_intervals_hold_the_truth(value: str, per_identity: int) -> None:
    """Cells of 200 to 2,000 rows, samples of a tenth; KUBIST_RASTER_SEEDS=1000 for the campaign."""
    random = np.random.default_rng(7)
    sizes = np.array([200, 500, 1_000, 2_000])
    cell = np.repeat(np.arange(4), sizes)
    value_of = random.gamma(3, 1, len(cell)) + 10
    unit = np.arange(len(cell)) // per_identity
    # Rows of an identity resemble each other.
    value_of += np.random.default_rng(8).gamma(2, 1, unit.max() + 1)[unit]
    of = aggregate(value)
    known = {"std": lambda v: np.std(v, ddof=1), "sum": np.sum, "mean": np.mean, "count": len}
    exact = known.get(of.kind, lambda v: np.quantile(v, of.q))
    truth = np.array([exact(value_of[cell == one]) for one in range(4)])
    held = np.zeros(4)
    for _ in range(SEEDS):
        kept = (random.random(unit.max() + 1) < 0.1)[unit]
        rows = Rows(4, cell[kept], value_of[kept], unit[kept])
        found = estimates(rows, of, 0.1, 0.95)
        held += (found.low <= truth) & (truth <= found.high)
    print(f"{value}, {per_identity} rows per identity: {held / SEEDS}")
    # Four standard errors below 95 %; three hundredths less for skewed values in small samples.
    least = 0.95 - 0.03 - 4 * np.sqrt(0.05 * 0.95 / SEEDS)
    assert (held / SEEDS >= least).all(), held / SEEDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": 0}, "cell must be above 0"),
        ({"cell": -1}, "cell must be above 0"),
        ({"cell": float("nan")}, "cell"),
        ({"cell": (1, 2, 3)}, "cell: expected a width or two"),
        ({"cell": "1 s"}, "cell: '1 s'"),
        ({"cell": 1e-6}, "100,000,000"),
        ({"cell": 1e-300}, "100,000,000"),
        ({"cell": 1, "value": "largest(z)"}, "'largest' is not an aggregate"),
        ({"cell": 1, "value": "z"}, "expected an aggregate"),
        ({"cell": 1, "value": "max()"}, "needs a column"),
        ({"cell": 1, "value": "quantile(z, 2)"}, "q from 0 to 1"),
        ({"cell": 1, "value": "max(nothing)"}, "nothing"),
        ({"cell": 1e-320}, "100,000,000"),
        ({"cell": 1, "x": "name"}, "`name` of type Utf8 is not a number"),
        ({"cell": 1, "x": "name", "box": {"x": (0, 1)}}, "name"),
        ({"cell": 1, "x": "day"}, "day has no numbers"),
        ({"cell": 1, "value": "max(name)"}, "name has no numbers"),
        ({"cell": 1, "value": "max(day)"}, "day has no numbers"),
        ({"cell": 1, "where": "z > 1e9"}, "no row has a value"),
        ({"cell": 1, "confidence": 1.0}, "confidence"),
        ({"cell": 1, "box": {"x": (2, 1)}}, "lower end"),
        ({"cell": 1e-15, "box": {"x": (1e9, 1e9), "y": (0, 1e-15)}}, "too small|100,000,000"),
    ],
)
def test_bad_rasters_are_refused_by_name(path: Path, options: dict[str, Any], message: str) -> None:
    rows: dict[str, Any] = {
        "x": [0.0, 100.0],
        "y": [0.0, 100.0],
        "z": [1.0, 2.0],
        "name": ["a", "b"],
    }
    rows["day"] = np.array(["2020-01-01", "2021-01-01"], "datetime64[s]")
    t = kubist.create(path, rows, ["x", "y"], units={"x": "m", "y": "m"})
    with pytest.raises(kubist.InvalidInput, match=message):
        t.raster(**{"x": "x", "y": "y", **options})


def test_infinite_values_need_a_box(path: Path) -> None:
    t = kubist.create(path, {"x": [0.0, np.inf, np.nan], "y": [1.0, 1.0, 1.0]}, ["x", "y"])
    with pytest.raises(kubist.InvalidInput, match="x has values up to inf.*box"):
        t.raster("x", "y", cell=1)
    assert t.raster("x", "y", cell=1, box={"x": (0, 2)}).values.sum() == 1


def test_the_example_finds_ground_and_canopy(path: Path) -> None:
    root = Path(__file__).parents[2]
    example = runpy.run_path(str(root / "examples/lidar/canopy.py"))
    kubist.ingest(path, root / "python/tests/data/lidar/autzen.las")
    made = example["rasters"](kubist.open(path), 500.0)
    assert np.array_equal(made["ground"].x_edges, made["surface"].x_edges)
    ground = example["filled"](made["ground"].values)
    assert not np.isnan(ground).any() and np.isnan(made["ground"].values).any()
    both = made["ground"].rows > 0
    assert (made["surface"].values[both] >= ground[both]).all()
    assert made["surface"].rows.sum() == 106
    if find_spec("pyproj"):
        assert "2994" in made["surface"].crs
