"""Results as xarray, GeoPandas, astropy, PyVista and gridded NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist

pytestmark = pytest.mark.filterwarnings("default")
FRAMES, ATOMS = 7, 5
RNG = np.random.default_rng(2)


@pytest.fixture
def table(path: Path) -> kubist.Table:
    count = FRAMES * ATOMS
    order = RNG.permutation(count)
    columns = {
        "time": pa.array(np.repeat(np.arange(FRAMES) * 0.5, ATOMS)[order]),
        "pid": pa.array(np.tile(np.arange(ATOMS, dtype=np.int32) * 10, FRAMES)[order]),
        **{name: pa.array(RNG.normal(size=count).astype(np.float32)) for name in "xyz"},
        "hits": pa.array([None if i % 4 == 0 else i for i in range(count)], pa.int16()),
        "name": pa.array([None if i == 3 else f"p{i}" for i in range(count)]),
    }
    return kubist.create(
        path,
        pa.table(columns),
        dimensions=["x", "y", "z", "time"],
        identity=["pid"],
        units={"x": "m", "time": "s", "z": "furlong"},
    )


def sorted_rows(table: kubist.Table) -> pa.Table:
    return table.query().to_arrow().sort_by([("time", "ascending"), ("pid", "ascending")])


def test_numpy_by_frame_and_atom(table: kubist.Table) -> None:
    found = table.query(columns=["time", "pid", "x", "name"]).to_numpy(frames="time", atoms="pid")
    assert found["x"].shape == found["name"].shape == (FRAMES, ATOMS)
    assert found["time"].tolist() == [0.5 * i for i in range(FRAMES)]
    assert found["pid"].tolist() == [0, 10, 20, 30, 40]
    expected = sorted_rows(table).column("x").to_numpy().reshape(FRAMES, ATOMS)
    np.testing.assert_array_equal(found["x"], expected)
    with pytest.raises(
        kubist.InvalidInput, match="time 1.5, pid 20 has 0 records, and 1 of 35 combinations"
    ):
        table.query(where="NOT (time = 1.5 AND pid = 20)").to_numpy(frames="time", atoms="pid")
    with pytest.raises(kubist.InvalidInput, match="there is no column 'atom'; there are x"):
        table.query(columns=["x"]).to_numpy(frames="x", atoms="atom")
    with pytest.raises(kubist.InvalidInput, match="both frames and atoms"):
        table.query().to_numpy(frames="time")
    empty = table.query(where="FALSE", columns=["time", "pid", "x"])
    assert empty.to_numpy(frames="time", atoms="pid")["x"].shape == (0, 0)


def test_xarray(table: kubist.Table) -> None:
    pytest.importorskip("xarray", reason="xarray is not installed")
    flat = table.query().to_xarray()
    assert (flat.sizes, flat["x"].attrs) == ({"row": FRAMES * ATOMS}, {"units": "m"})
    gridded = table.query().to_xarray("time", "pid")
    assert dict(gridded.sizes) == {"time": FRAMES, "pid": ATOMS}
    assert gridded["time"].attrs == {"units": "s"}
    rows = sorted_rows(table)
    np.testing.assert_array_equal(gridded["y"].values.ravel(), rows.column("y").to_numpy())
    one = gridded.sel(time=1.0, pid=30)
    assert one["x"] == rows.column("x").to_numpy().reshape(FRAMES, ATOMS)[2, 3]


def test_geopandas(table: kubist.Table) -> None:
    pytest.importorskip("geopandas", reason="geopandas is not installed")
    frame = table.query().to_geopandas("x", "y", crs="EPSG:25833")
    assert (frame.crs.to_epsg(), len(frame)) == (25833, FRAMES * ATOMS)
    np.testing.assert_array_equal(frame.geometry.x.to_numpy(np.float32), frame["x"])
    with pytest.raises(kubist.InvalidInput, match="no column 'lon'"):
        table.query().to_geopandas("lon", "y")


def test_astropy(table: kubist.Table) -> None:
    pytest.importorskip("astropy", reason="astropy is not installed")
    from astropy import units

    found = table.query().to_astropy()
    rows = table.query().to_arrow()
    assert (found["x"].unit, found["time"].unit) == (units.m, units.s)
    assert str(found["z"].unit) == "furlong"
    assert found["hits"].dtype == np.int16
    assert found["hits"].mask.sum() == rows.column("hits").null_count
    hits = {
        (p, t): h
        for p, t, h in zip(
            *(rows.column(n).to_pylist() for n in ("pid", "time", "hits")), strict=True
        )
    }
    for row in found:
        value: Any = hits[int(row["pid"]), float(row["time"])]
        assert np.ma.is_masked(row["hits"]) if value is None else row["hits"] == value
    assert found["name"].mask.sum() == 1


def test_pyvista(table: kubist.Table) -> None:
    pytest.importorskip("pyvista", reason="pyvista is not installed")
    mesh = table.query().to_pyvista()
    rows = {
        tuple(point): pid
        for *point, pid in zip(
            *(table.query().to_numpy()[n].tolist() for n in ("x", "y", "z", "pid")), strict=True
        )
    }
    assert mesh.n_points == FRAMES * ATOMS
    for point, pid in zip(mesh.points.tolist(), mesh.point_data["pid"], strict=True):
        assert rows[tuple(point)] == pid
    flat = table.query(columns=["x", "y"]).to_pyvista(z=None)
    assert (flat.points[:, 2] == 0).all()
