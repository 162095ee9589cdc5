"""Arrays on grids become tables with one row per grid point with a value."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrays import Variable, netcdf3
from servers import COMMAND

import kubist

pytest.importorskip("pyarrow")


def sea(path: Path) -> np.ndarray:
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
    found = table.query(box={"LAT": (0, 60), "TIME": "1990-01-31"}, where="TEMP > 20").to_arrow()
    assert found.num_rows == ((values[1, 15:] > 20) & there[1, 15:]).sum()
    rows = found.to_pylist()
    for row in rows[:20]:
        at = round((row["LAT"] + 60) / 120 * 29)
        assert values[1, at, row["LON_index"]] == row["TEMP"] and row["DEPTH"] >= 0
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
    with pytest.raises(kubist.InvalidInput, match="several grids") as raised:
        kubist.ingest(str(tmp_path / "t"), path)
    choices = re.findall("--read columns=([^ ]+)", str(raised.value))
    assert choices == ["y_index,x_index,a", "v_index,u_index,b"]
    kubist.ingest(str(tmp_path / "t"), path, read={"columns": choices[1].split(",")})
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


def series(path: Path, unit: str, values: np.ndarray, **attributes: str) -> None:
    time = Variable(values, ("time",), {"units": unit, **attributes})
    level = Variable(np.arange(len(values), dtype="f4"), ("time",), {"units": "m"})
    netcdf3(path, {"level": level, "time": time}, None, 2)


def moments(path: Path, **options: Any) -> np.ndarray:
    table = str(path.with_suffix(".kubist"))
    kubist.ingest(table, path, **options)
    return kubist.open(table).query(order_by="level").to_numpy()["time"]


@pytest.mark.parametrize(
    ("unit", "calendar", "values", "expected"),
    [
        ("hours since 1970-01-01", "standard", [0, 6.5, -1], ["1970", "1970-01-01T06:30", "1969-12-31T23"]),
        ("days since 1990-1-1 12:00:0.0", None, [0, 0.1, 1 / 3], ["1990-01-01T12", "1990-01-01T14:24", "1990-01-01T20"]),
        ("minutes since 2000-01-01 00:00 -6:30", "gregorian", [0, 1], ["2000-01-01T06:30", "2000-01-01T06:31"]),
        ("Seconds Since 2020-02-29T23:59:59Z", "PROLEPTIC_GREGORIAN", [1], ["2020-03-01"]),
        # Dates of the standard calendar before 1582-10-15 are Julian.
        ("days since 1-1-1", "standard", [735_600], ["2015-01-01"]),
        ("days since 1-1-1", "proleptic_gregorian", [735_600], ["2015-01-03"]),
        ("days since 1582-10-04", "standard", [0, 1], ["1582-10-14", "1582-10-15"]),
    ],
)  # fmt: skip
def test_times_since_a_date_are_timestamps(
    tmp_path: Path, unit: str, calendar: str | None, values: list[float], expected: list[str]
) -> None:
    path = tmp_path / "a.nc"
    said = {} if calendar is None else {"calendar": calendar}
    series(path, unit, np.array(values, "f8"), **said)
    plan = kubist.ingest(str(tmp_path / "a.kubist"), path, dry_run=True)
    assert dict((n, k) for n, k, _ in plan.columns)["time"] == "timestamp[us]"
    assert "note        column 'time' becomes timestamps in UTC, from" in str(plan)
    assert moments(path).tolist() == np.array(expected, "M8[us]").tolist()


def test_a_table_of_times_is_asked_by_dates(tmp_path: Path) -> None:
    series(tmp_path / "a.nc", "days since 2001-03-01", np.arange(100, dtype="i4"))
    kubist.ingest(str(tmp_path / "t"), tmp_path / "a.nc")
    table = kubist.open(str(tmp_path / "t"))
    april = table.query(box={"time": ("2001-04-01", "2001-04-30")}).to_numpy()
    assert sorted(april["level"]) == list(range(31, 61))
    assert table.count(where="time >= '2001-04-01' AND time < '2001-05-01'") == 30
    series(tmp_path / "b.nc", "hours since 2002-01-01", np.array([1.5]), calendar="standard")
    kubist.ingest(str(tmp_path / "t"), tmp_path / "b.nc")
    assert table.count(where="time = '2002-01-01T01:30:00'") == 1


@pytest.mark.parametrize(
    ("unit", "calendar", "why"),
    [
        ("days since 2000-01-01", "360_day", "its calendar is 360_day"),
        ("days since 2000-01-01", "noleap", "its calendar is noleap"),
        ("months since 2000-01-01", "standard", "'months' is not a fixed length of time"),
        ("hours since 0000-01-01", "standard", "'0000-01-01' is no date of its calendar"),
        ("days since 1582-10-10", "gregorian", "'1582-10-10' is no date of its calendar"),
    ],
)
def test_other_times_stay_numbers_and_that_is_said(
    tmp_path: Path, unit: str, calendar: str, why: str
) -> None:
    series(tmp_path / "a.nc", unit, np.array([0.0, 31.5]), calendar=calendar)
    command = [str(COMMAND), "ingest", str(tmp_path / "t"), str(tmp_path / "a.nc")]
    done = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, timeout=120)
    assert f"note        column 'time' stays a number in '{unit}': {why}" in done.stdout, (
        done.stderr
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and f"stays a number in '{unit}': {why}" in done.stderr
    table = kubist.open(str(tmp_path / "t"))
    assert table.units["time"] == unit
    assert sorted(table.query().to_numpy()["time"]) == [0.0, 31.5]


def test_numbers_finer_than_a_microsecond_are_nanoseconds(tmp_path: Path) -> None:
    series(tmp_path / "a.nc", "seconds since 2020-01-01", np.array([0, 1.5e-9, 2e-9]))
    found = moments(tmp_path / "a.nc")
    assert found.dtype == "M8[ns]"
    assert (found - found[0]).astype(int).tolist() == [0, 2, 2]
    # Dates beyond the range of timestamps stay numbers.
    series(tmp_path / "b.nc", "days since 1000-01-01", np.array([0.123456789123, 1]))
    assert moments(tmp_path / "b.nc").dtype == "f8"


def test_single_values_are_left_out_and_named(tmp_path: Path) -> None:
    variables = {"a": Variable(np.arange(3.0), ("x",)), "height": Variable(np.array(2.0), ())}
    netcdf3(tmp_path / "a.nc", variables, None, 1)
    plan = kubist.ingest(str(tmp_path / "t"), tmp_path / "a.nc", dry_run=True)
    assert plan.left_out == {str(tmp_path / "a.nc"): {"height": "it is a single value"}}


def test_times_stay_numbers_where_that_is_asked(tmp_path: Path) -> None:
    series(tmp_path / "a.nc", "days since 2000-01-01", np.array([0.0, 31.5]))
    assert moments(tmp_path / "a.nc", read={"types": {"time": "float64"}}).tolist() == [0.0, 31.5]
    table = kubist.open(str(tmp_path / "a.kubist"))
    assert table.units["time"] == "days since 2000-01-01"
    # The next file follows the table.
    series(tmp_path / "b.nc", "days since 2000-01-01", np.array([7.0]))
    kubist.ingest(str(tmp_path / "a.kubist"), tmp_path / "b.nc")
    assert table.count(where="time = 7") == 1


def test_calendars_of_hdf5_and_of_an_index(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["time"] = np.array([0, 59], "i8")
        # netCDF-4 text of variable length.
        file["time"].attrs["units"] = np.array(["days since 2001-01-01"], h5py.string_dtype())
        file["time"].attrs["calendar"] = "noleap"
        file["time"].make_scale("time")
        file["level"] = np.array([0.0, 1.0])
        file["level"].dims[0].attach_scale(file["time"])
    variables = kubist.index(path).info()["variables"]
    assert {v["name"]: v["calendar"] for v in variables} == {"level": None, "time": "noleap"}
    assert moments(path).tolist() == [0, 59]
    with h5py.File(path, "a") as file:
        file["time"].attrs["calendar"] = np.bytes_("standard")
    kubist.index(path, refresh=True)
    expected = np.array(["2001-01-01", "2001-03-01"], "M8[us]")
    assert moments(path.rename(tmp_path / "b.h5")).tolist() == expected.tolist()


def ocean(path: Path, kind: str) -> np.ndarray:
    """A surface as NEMO writes it: curvilinear coordinates, and the corners of each cell."""
    rng = np.random.default_rng(5)
    height = rng.normal(size=(4, 6, 5)).astype("f4")
    lat, lon = np.indices((6, 5)).astype("f4")
    edges = np.array([[0, 31], [31, 59], [59, 90], [90, 120]], "f8")
    corners = np.zeros((6, 5, 4), "f4")
    surface = ("time_counter", "y", "x")
    variables = {
        "nav_lat": Variable(lat, ("y", "x"), {"units": "degrees_north", "bounds": "bounds_lat"}),
        "nav_lon": Variable(lon, ("y", "x"), {"units": "degrees_east", "bounds": "bounds_lon"}),
        "bounds_lat": Variable(corners, ("y", "x", "nvertex")),
        "bounds_lon": Variable(corners, ("y", "x", "nvertex")),
        "time_counter": Variable(
            edges.mean(axis=1),
            ("time_counter",),
            {"units": "days since 2001-01-01", "climatology": "time_counter_bounds"},
        ),
        "time_counter_bounds": Variable(edges, ("time_counter", "axis_nbounds")),
        "sossheig": Variable(height, surface, {"units": "m"}),
    }
    if kind == "classic":
        netcdf3(path, variables, None, 2)
        return height
    h5py = pytest.importorskip("h5py")
    lengths = {"y": 6, "x": 5, "nvertex": 4, "axis_nbounds": 2, "time_counter": 4}
    with h5py.File(path, "w") as file:
        for axis, length in lengths.items():
            if axis not in variables:
                file[f"run/{axis}"] = np.arange(length, dtype="f4")
                file[f"run/{axis}"].make_scale(
                    "This is a netCDF dimension but not a netCDF variable"
                )
        for name, variable in variables.items():
            file[f"run/{name}"] = variable.stored
            file[f"run/{name}"].attrs.update(variable.attributes)
        file["run/time_counter"].make_scale("time_counter")
        for name, variable in variables.items():
            for place, axis in enumerate(variable.axes):
                if name != axis:
                    file[f"run/{name}"].dims[place].attach_scale(file[f"run/{axis}"])
    return height


@pytest.mark.parametrize("kind", ["classic", "hdf5"])
def test_bounds_of_cells_are_no_data(tmp_path: Path, kind: str) -> None:
    """By default, variables that are bounds of others are not ingested."""
    path = tmp_path / "surface.nc"
    height = ocean(path, kind)
    kubist.ingest(str(tmp_path / "t"), path)
    table = kubist.open(str(tmp_path / "t"))
    assert {"time_counter", "y_index", "x_index", "nav_lat", "sossheig"} <= set(table.schema.names)
    assert table.count() == height.size and table.units["sossheig"] == "m"
    assert table.count(where="sossheig > 1 AND nav_lat >= 3") == (height[:, 3:] > 1).sum()
    left_out = [name.rsplit("/", 1)[-1] for name in table.metadata["left_out"]]
    assert sorted(left_out) == ["bounds_lat", "bounds_lon", "time_counter_bounds"]
    # If named, they are ordinary data.
    corner = "bounds_lat" if kind == "classic" else "run/bounds_lat"
    columns = [corner.rsplit("/", 1)[-1], "y_index", "x_index", "nvertex_index"]
    kubist.ingest(str(tmp_path / "b"), path, read={"columns": columns})
    assert kubist.open(str(tmp_path / "b")).count() == 120
    done = command(["ingest", "c", path.name], tmp_path)
    assert (done.returncode, done.stderr.count("120 records")) == (0, 1), done.stderr
    # Indexing keeps this.
    assert command(["index", path.name], tmp_path).returncode == 0
    done = command(["ingest", "d", path.name], tmp_path)
    assert (done.returncode, done.stderr.count("120 records")) == (0, 1), done.stderr


def test_a_file_with_bounds_and_one_variable_need_not_be_told_which(tmp_path: Path) -> None:
    rain = np.arange(12, dtype="f4").reshape(3, 4)
    lat = Variable(np.arange(3.0), ("lat",), {"bounds": "lat_bnds"})
    variables = {
        "rain": Variable(rain, ("lat", "lon")),
        "lat": lat,
        "lat_bnds": Variable(np.zeros((3, 2)), ("lat", "bnds")),
    }
    netcdf3(tmp_path / "rain.nc", variables, None, 2)
    found = kubist.index(tmp_path / "rain.nc").query(isel={"lat": 1}).to_arrow()
    assert found["rain"].to_pylist() == rain[1].tolist()
    done = command(["query", "rain.nc", "--limit", "3"], tmp_path)
    assert done.returncode == 0 and done.stdout.splitlines()[0].endswith("rain"), done


def command(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    run = [str(COMMAND), *arguments]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=120)
