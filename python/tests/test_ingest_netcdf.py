"""netCDF (missing and valid values, scaling, record lengths, groups, text), compared with netCDF4.

KUBIST_FORMAT_SEEDS random files, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import need

import kubist

need("h5py")
netCDF4 = need("netCDF4")
pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))


def ingested(file: Path, **options: Any) -> tuple[dict[str, list[Any]], kubist.Report]:
    target = file.with_suffix(".kubist")
    report = kubist.ingest(target, file, **options)
    table = kubist.open(target)
    order = [d.column for d in table.info().dimensions]
    return table.query(order_by=order).to_arrow().to_pydict(), report


def test_groups_that_define_an_axis_again(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 3)
        file.createVariable("p", "f4", ("n",))[:] = [1, 2, 3]
        group = file.createGroup("g")
        group.createDimension("n", 5)
        group.createVariable("q", "f4", ("n",))[:] = np.arange(5.0)
    with pytest.raises(
        kubist.InvalidInput, match=r"a\.nc: its arrays lie on several grids.* p \(n\)"
    ):
        ingested(tmp_path / "a.nc")
    for name, many in (("p", 3), ("q", 5)):
        target = tmp_path / f"{name}.kubist"
        report = kubist.ingest(
            target, tmp_path / "a.nc", dimensions=[name], read={"columns": [name]}
        )
        assert report.rows == many
        assert kubist.open(target).metadata["left_out"] == ["g/q" if name == "p" else "p"]


def test_reference_dates_of_another_calendar(tmp_path: Path) -> None:
    """Their values stay numbers, and a column never has two reference dates."""
    for k, begin in enumerate(("2000-01-01", "2000-02-01")):
        with netCDF4.Dataset(tmp_path / f"{k}.nc", "w") as file:
            file.createDimension("time", 2)
            time = file.createVariable("time", "f8", ("time",))
            time.units, time.calendar = f"days since {begin}", "noleap"
            time[:] = [0, 1]
            file.createVariable("v", "f4", ("time",))[:] = [k, k + 0.5]
    with pytest.raises(kubist.InvalidInput, match=r'1\.nc: .*"time" is in "days since 2000-02-01"'):
        kubist.ingest(tmp_path / "t.kubist", [tmp_path / "0.nc", tmp_path / "1.nc"])


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records, width = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    file = tmp_path / "a.nc"
    classic = rng.choice(["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
    is_classic = rng.random() < 0.5
    with netCDF4.Dataset(file, "w", format=str(classic) if is_classic else "NETCDF4") as out:
        out.createDimension("record", None)
        out.createDimension("site", width)
        out.createDimension("letter", 4)
        out.createVariable("record", "i4", ("record",))[:] = np.arange(records)
        out.createVariable("site", "i4", ("site",))[:] = np.arange(width)
        out.createVariable("whole", "f4", ("record", "site"))[:] = rng.normal(size=(records, width))
        for i in range(rng.integers(1, 5)):
            kind = str(rng.choice(["i1", "i2", "i4", "f4", "f8"]))
            fill = int(rng.integers(-5, 5)) if rng.random() < 0.5 else None
            variable = out.createVariable(f"v{i}", kind, ("record", "site"), fill_value=fill)
            variable.set_auto_maskandscale(False)
            own = np.dtype(kind).type
            if rng.random() < 0.4:
                variable.missing_value = np.array(rng.integers(-5, 5, rng.integers(1, 3)), kind)
            choice = rng.random()
            if choice < 0.3:
                variable.valid_range = np.array([-3, 3], kind)
            elif choice < 0.5:
                variable.valid_min = own(-2)
            elif choice < 0.6:
                variable.valid_max = own(2)
            if kind[0] == "i" and rng.random() < 0.5:
                variable.scale_factor, variable.add_offset = -0.5, 3.0
            # A variable may end early. The library also treats -127 as missing in bytes.
            is_short = kind != "i1" and rng.random() < 0.5
            own_records = int(rng.integers(1, records + 1)) if is_short else records
            variable[:own_records] = rng.integers(-5, 5, (own_records, width)).astype(kind)
        names = np.array(
            ["".join(rng.choice(list("abc"), rng.integers(1, 5))) for _ in range(width)], "S4"
        )
        out.createVariable("name", "S1", ("site", "letter"))[:] = netCDF4.stringtochar(names)
        # A letter for each value, as flags of Argo.
        quality = rng.choice(list("149"), (records, width)).astype("S1")
        out.createVariable("quality", "S1", ("record", "site"))[:] = quality
        marks = np.array([f"f{i}" for i in range(records)], "S4")
        if is_classic:
            flags = out.createVariable("flag", "S1", ("record", "letter"))
            flags[:] = netCDF4.stringtochar(marks)
        else:
            flags = out.createVariable("flag", str, ("record",))
            for i in range(records):
                flags[i] = f"f{i}"
    found, _ = ingested(file)
    with netCDF4.Dataset(file) as theirs:
        for place, (record, site) in enumerate(zip(found["record"], found["site"], strict=True)):
            for name, variable in theirs.variables.items():
                if variable.dimensions != ("record", "site") or name == "quality":
                    continue
                value = variable[record, site]
                wanted = None if np.ma.is_masked(value) else pytest.approx(float(value), rel=1e-6)
                assert found[name][place] == wanted, name
            assert found["name"][place] == names[site].decode()
            assert found["flag"][place] == f"f{record}"
            assert found["quality"][place] == quality[record, site].decode()
        assert len(found["record"]) == records * width


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_64BIT_DATA"])
def test_limits_of_unsigned_and_of_large_integers(tmp_path: Path, form: Any) -> None:
    file = tmp_path / "a.nc"
    stored = np.array([5, -1, -100, 127, -3])
    large = np.array([5, 2**62 + 1, 2**62 + 2, 2**53 + 1, -3])
    with netCDF4.Dataset(file, "w", format=form) as opened:
        opened.createDimension("n", 5)
        opened.createVariable("k", "i4", ("n",))[:] = np.arange(5)
        for name, kind, fill in [
            ("b", "i1", -1),
            ("s", "i2", None),
            ("t", "i8", None),
            ("w", "i2", None),
        ]:
            variable = opened.createVariable(name, kind, ("n",), fill_value=fill)
            variable.set_auto_maskandscale(False)
            variable[:] = (large if name == "t" else stored).astype(kind)
        opened["b"].setncatts({"_Unsigned": "true", "valid_range": np.array([0, -6], "i1")})
        opened["s"].setncatts(
            {"_Unsigned": "true", "scale_factor": -2.0, "valid_max": np.int16(-6)}
        )
        opened["t"].valid_range = np.array([0, 2**62 + 1])
        # Limits that no stored number has are of no use, as in the library.
        opened["w"].setncatts({"valid_min": -2.5, "valid_max": 40.5, "scale_factor": 0.5})
        opened.createVariable("unwritten", "i8", ("n",))[:2] = [1, 2]
    rows, _ = ingested(file)
    with netCDF4.Dataset(file) as opened:
        for name in ("b", "s", "t", "w", "unwritten"):
            assert rows[name] == opened[name][:].tolist(), name


def test_groups_with_axes_of_one_name_and_length(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 3)
        file.createVariable("n", "f8", ("n",))[:] = [1, 2, 3]
        for number, name in enumerate("gh"):
            group = file.createGroup(name)
            group.createDimension("t", 3)
            group.createVariable("t", "f8", ("t",))[:] = np.arange(3.0) * (number + 1)
            group.createVariable("q", "f4", ("t",))[:] = number
            group.createVariable("r", "f4", ("n",))[:] = number
    with pytest.raises(kubist.InvalidInput, match=r"several grids.*g/q \(t\); h/q \(t\)"):
        ingested(tmp_path / "a.nc")
    rows, _ = ingested(tmp_path / "a.nc", read={"columns": ["h/q", "h/t"]})
    assert rows == {"h/t": [0, 2, 4], "h/q": [1, 1, 1]}
    # Both groups share the axis of the file.
    target = tmp_path / "r.kubist"
    kubist.ingest(target, tmp_path / "a.nc", read={"columns": ["g/r", "h/r", "n"]})
    rows = kubist.open(target).query(order_by=["n"]).to_arrow().to_pydict()
    assert rows == {"n": [1, 2, 3], "g/r": [0, 0, 0], "h/r": [1, 1, 1]}


def test_units_under_either_name(tmp_path: Path) -> None:
    import h5py

    target = tmp_path / "t.kubist"
    for number, (key, unit) in enumerate([("units", "m"), ("unit", "mm")]):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"], file["y"] = np.arange(2.0) + 10 * number, np.arange(2.0)
            for name in "xy":
                file[name].attrs[key] = unit
        kubist.ingest(target, tmp_path / f"{number}.h5", dimensions=["x"])
    rows = kubist.open(target).query(order_by=["x"]).to_arrow().to_pydict()
    assert rows["x"] == pytest.approx([0, 0.01, 0.011, 1])
    assert rows["y"] == pytest.approx([0, 0, 0.001, 1])


def test_links_out_of_a_file_are_reported(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        file["again"] = h5py.SoftLink("/x")
        file["g/gone"] = h5py.SoftLink("/nowhere")
        file["far"] = h5py.ExternalLink("other.h5", "/y")
    _, report = ingested(tmp_path / "a.h5", dimensions=["x"])
    assert report.left_out[str(tmp_path / "a.h5")] == {
        "far": "it is a link to /y in other.h5",
        "g/gone": "it is a link to /nowhere, which is not there",
    }
