"""Arrays on grids become tables: a record for each place with a value."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from arrays import Variable, netcdf3
from servers import COMMAND

import kubist

pytest.importorskip("pyarrow")


def sea(path: Path) -> np.ndarray:
    """A field with land in it, and a depth of each place."""
    rng = np.random.default_rng(1)
    values = rng.normal(15, 5, (4, 30, 50)).astype("f4")
    values[:, :10, :20] = -999
    netcdf3(
        path,
        {
            "TEMP": Variable(
                values, ("TIME", "LAT", "LON"), {"_FillValue": np.float32(-999), "units": "degC"}
            ),
            "TIME": Variable(
                np.arange(4, dtype="f8") * 30, ("TIME",), {"units": "days since 1990-01-01"}
            ),
            "LAT": Variable(np.linspace(-60, 60, 30), ("LAT",), {"units": "degrees_north"}),
            "DEPTH": Variable(rng.uniform(0, 5000, (30, 50)).astype("f4"), ("LAT", "LON")),
            "bounds": Variable(np.zeros((2, 3)), ("pair", "other")),
        },
        "TIME",
        2,
    )
    return values


def test_a_place_of_a_grid_is_a_record(tmp_path: Path) -> None:
    values = sea(tmp_path / "sea.nc")
    kubist.ingest(str(tmp_path / "t"), tmp_path / "sea.nc")
    table = kubist.open(str(tmp_path / "t"))
    there = values != -999
    assert table.count() == there.sum()
    assert [dimension.column for dimension in table.info().dimensions] == [
        "TIME",
        "LAT",
        "LON_index",
    ]
    assert table.units["TEMP"] == "degC"
    assert table.metadata["left_out"] == ["bounds"]
    found = table.query(box={"LAT": (0, 60), "TIME": 30}, where="TEMP > 20").to_arrow()
    assert found.num_rows == ((values[1, 15:] > 20) & there[1, 15:]).sum()
    rows = found.to_pylist()
    for row in rows[:20]:
        at = round((row["LAT"] + 60) / 120 * 29)
        assert values[1, at, row["LON_index"]] == row["TEMP"] and row["DEPTH"] >= 0
    # What was ingested is known.
    kubist.ingest(str(tmp_path / "t"), tmp_path / "sea.nc")
    assert table.count() == there.sum()


def test_numpys_arrays_and_the_command(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(60, 70))
    np.save(tmp_path / "field.npy", values)
    subprocess.run(
        [str(COMMAND), "ingest", str(tmp_path / "t"), str(tmp_path / "field.npy")],
        check=True,
        capture_output=True,
        timeout=120,
    )
    table = kubist.open(str(tmp_path / "t"))
    assert table.count(where="field > 1") == (values > 1).sum()


def test_several_grids_are_named(tmp_path: Path) -> None:
    path = tmp_path / "two.nc"
    netcdf3(
        path,
        {"a": Variable(np.ones((3, 4)), ("y", "x")), "b": Variable(np.ones((5, 6)), ("v", "u"))},
        None,
        1,
    )
    with pytest.raises(kubist.InvalidInput, match="several grids"):
        kubist.ingest(str(tmp_path / "t"), path)
    kubist.ingest(str(tmp_path / "t"), path, columns=["b", "v_index", "u_index"])
    assert kubist.open(str(tmp_path / "t")).count() == 30


def test_hdf5_with_scales_and_arrays_of_one_length(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(3)
    with h5py.File(tmp_path / "grid.h5", "w") as file:
        file["lat"] = np.linspace(-90, 90, 20)
        file["lat"].make_scale("lat")
        file["field"] = rng.normal(size=(20, 30)).astype("f2")
        file["field"].dims[0].attach_scale(file["lat"])
    kubist.ingest(str(tmp_path / "g"), tmp_path / "grid.h5")
    grid = kubist.open(str(tmp_path / "g"))
    assert grid.count() == 600 and grid.count(box={"lat": (0, 90)}) == 300
    with h5py.File(tmp_path / "particles.h5", "w") as file:
        for name in ("x", "y", "z", "mass"):
            file[f"run/{name}"] = rng.random(5000)
    kubist.ingest(str(tmp_path / "p"), tmp_path / "particles.h5")
    particles = kubist.open(str(tmp_path / "p"))
    assert particles.count() == 5000
    names = [dimension.column for dimension in particles.info().dimensions]
    assert names == ["x", "y", "z"], names
