"""Rows exported to other formats, read back by the libraries of their communities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import kubist

pytestmark = pytest.mark.filterwarnings("default")
RNG = np.random.default_rng(8)


def need(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def points(path: Path, **more: Any) -> kubist.Table:
    columns = {
        **{name: RNG.normal(size=500).astype(np.float32) for name in "xyz"},
        "id": np.arange(500),
        **more,
    }
    return kubist.create(
        path, columns, dimensions=["x", "y", "z"], units={"x": "m", "y": "m", "z": "m"}
    )


@pytest.mark.parametrize("ending", ["las", "laz"])
def test_las_there_and_back(tmp_path: Path, ending: str) -> None:
    laspy = need("laspy")
    if ending == "laz":
        need("lazrs")
    header = laspy.LasHeader(point_format=7, version="1.4")
    header.scales, header.offsets = [0.01, 0.001, 0.0005], [5e5, 4e6, 0]
    header.add_extra_dim(laspy.ExtraBytesParams("amplitude", "float32"))
    las = laspy.LasData(header)
    las.X, las.Y, las.Z = RNG.integers(-(2**31), 2**31, (3, 900)).astype(np.int32)
    las.gps_time = np.arange(900.0)
    las.red = las.intensity = np.arange(900)
    las.withheld = np.arange(900) % 2
    las.amplitude = RNG.normal(size=900).astype(np.float32)
    header.vlrs.append(laspy.VLR("LASF_Projection", 2112, record_data=b'LOCAL_CS["site"]\0'))
    las.write(tmp_path / "in.las")
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "in.las")
    table = kubist.open(tmp_path / "t.kubist")
    out = tmp_path / f"out.{ending}"
    table.query().write(out)
    back = laspy.read(out)
    order = np.argsort(back.gps_time)
    assert back.header.point_format.id == 7
    [site] = back.header.vlrs.get_by_id("LASF_Projection", (2112,))
    assert "site" in site.string and back.header.global_encoding.wkt
    for name in ("X", "Y", "Z", "gps_time", "red", "intensity", "withheld", "amplitude"):
        np.testing.assert_array_equal(np.asarray(back[name])[order], np.asarray(las[name]), name)


def test_las_of_other_points(tmp_path: Path) -> None:
    laspy = need("laspy")
    table = points(tmp_path / "t.kubist")
    table.query().write(tmp_path / "out.las")
    back, ours = laspy.read(tmp_path / "out.las"), table.query().to_numpy()
    order, theirs = np.argsort(ours["id"]), np.argsort(back["id"])
    # 2**30 steps over the extent, in powers of ten.
    np.testing.assert_allclose(np.asarray(back.x)[theirs], ours["x"][order], atol=1e-8 * 8)
    texts = points(tmp_path / "u.kubist", name=[f"p{i}" for i in range(500)])
    with pytest.raises(kubist.InvalidInput, match="column name: LAS has no place for string"):
        texts.query().write(tmp_path / "texts.las")
    assert not (tmp_path / "texts.las").exists()
    assert sorted(p.name for p in tmp_path.glob("*.las")) == ["out.las"]


@pytest.mark.parametrize("off", [0.0, -0.5, 100.7, 4.5e6])
@pytest.mark.parametrize("extent", [0.0, 1e-6, 0.003, 0.1, 1.0, 7e4])
def test_las_of_any_extent(tmp_path: Path, off: float, extent: float) -> None:
    laspy = need("laspy")
    place = off + extent * RNG.random((3, 100))
    rows = {"x": place[0], "y": place[1], "z": place[2], "id": np.arange(100)}
    table = kubist.create(tmp_path / "t.kubist", pa.table(rows), ["x", "y", "z"])
    table.query().write(tmp_path / "out.las")
    back = laspy.read(tmp_path / "out.las")
    error = np.asarray(back.x)[np.argsort(back["id"])] - place[0]
    assert np.abs(error).max() <= max(extent, 1e-9) * 1e-7 + abs(off) * 1e-15


def test_vtp(tmp_path: Path) -> None:
    pyvista = need("pyvista")
    table = points(tmp_path / "t.kubist", age=RNG.normal(size=500))
    table.query().write(tmp_path / "out.vtp")
    mesh, ours = pyvista.read(tmp_path / "out.vtp"), table.query().to_numpy()
    order, theirs = np.argsort(ours["id"]), np.argsort(mesh.point_data["id"])
    np.testing.assert_array_equal(mesh.points[theirs][:, 1], ours["y"][order])
    np.testing.assert_array_equal(mesh.point_data["age"][theirs], ours["age"][order])


def test_fits(tmp_path: Path) -> None:
    need("astropy")
    from astropy.table import Table

    hits = pa.array([None if i % 5 == 0 else i for i in range(500)], pa.int16())
    table = points(tmp_path / "t.kubist", hits=hits, name=[f"star {i}" for i in range(500)])
    table.query().write(tmp_path / "out.fits")
    back, ours = Table.read(tmp_path / "out.fits"), table.query().to_arrow().sort_by("id")
    back.sort("id")
    assert (str(back["x"].unit), back["x"].dtype.kind) == ("m", "f")
    np.testing.assert_array_equal(back["z"], ours["z"].to_numpy())
    assert back["hits"].mask.tolist() == [i % 5 == 0 for i in range(500)]
    assert [str(name) for name in back["name"]] == ours["name"].to_pylist()


@pytest.mark.parametrize("ending", ["h5", "bp"])
def test_openpmd_there_and_back(tmp_path: Path, ending: str) -> None:
    io = need("openpmd_api")
    if ending not in io.file_extensions:
        pytest.skip(f"this openpmd-api writes no .{ending}")
    count = 600
    columns = {
        "species": [["electrons", "ions"][i % 2] for i in range(count)],
        **{name: RNG.normal(size=count) for name in "xyz"},
        **{f"momentum_{name}": RNG.normal(size=count).astype(np.float32) for name in "xyz"},
        "id": np.arange(count, dtype=np.uint64),
        "iteration": np.repeat([0, 40], count // 2),
        "time": np.repeat([0.0, 4e-14], count // 2),
    }
    units = {"x": "m", "y": "m", "z": "m", **{f"momentum_{n}": "1e-22 m kg s^-1" for n in "xyz"}}
    table = kubist.create(tmp_path / "t.kubist", columns, dimensions=["x", "y", "z"], units=units)
    out = tmp_path / f"out.{ending}"
    table.query().write(out)
    series = io.Series(str(out), io.Access.read_only)
    ions = series.iterations[40].particles["ions"]
    loaded = ions["momentum"]["y"].load_chunk()
    series.flush()
    assert (len(loaded), ions["momentum"]["y"].unit_SI) == (count // 4, 1e-22)
    series.close()
    kubist.ingest(tmp_path / "back.kubist", out)
    back = kubist.open(tmp_path / "back.kubist")
    ours, theirs = (t.query().to_arrow().sort_by("id") for t in (back, table))
    assert back.units["momentum_x"] == "1e-22 m kg s^-1"
    for name in columns:
        assert ours[name].to_pylist() == theirs[name].to_pylist(), name


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_tables_there_and_back(tmp_path: Path, ending: str) -> None:
    """All rows, with or without positions, and with units if the format has them."""
    table = points(tmp_path / "t.kubist")
    columns = [name for name in table.schema.names if name != "z"]
    file = tmp_path / f"out.{ending}"
    result = table.query(columns=columns)
    result.write(file)
    back = {
        "parquet": lambda: pyarrow.parquet.read_table(file),
        "arrow": lambda: pa.ipc.open_file(file).read_all(),
        "csv": lambda: pyarrow.csv.read_csv(file),
    }[ending]()
    ours = result.to_arrow()
    assert back.num_rows == len(table) and back.column_names == columns
    if ending == "csv":
        back = back.cast(ours.schema)
    assert back.equals(ours, check_metadata=ending != "csv")


@pytest.mark.parametrize("ending", ["vtp", "ecsv"])
def test_units_there_and_back(tmp_path: Path, ending: str) -> None:
    need("pyvista" if ending == "vtp" else "astropy")
    table = points(tmp_path / "t.kubist", v=RNG.normal(size=500), label=["a b", "c"] * 250)
    table.set_unit("v", "km.s-1")
    out, again = tmp_path / f"out.{ending}", tmp_path / "u.kubist"
    table.query().write(out)
    kubist.ingest(again, out, dimensions=["x", "y", "z"])
    back = kubist.open(again)
    assert back.units == {"x": "m", "y": "m", "z": "m", "v": "km.s-1"}
    ours, theirs = (t.query(order_by="id").to_arrow() for t in (table, back))
    for name in ours.column_names:
        assert theirs.column(name).to_pylist() == ours.column(name).to_pylist(), name


def test_ecsv_of_every_type(tmp_path: Path) -> None:
    ascii = need("astropy.io.ascii")
    columns = {
        "x": pa.array([0.1, float("nan"), float("inf")]),
        "f": pa.array([0.1, None, -2.5], pa.float32()),
        "i": pa.array([2**62 + 1, None, -1]),
        "u": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "b": pa.array([True, None, False]),
        "s": pa.array(['a, "b"', None, "é\nf"]),
        "d": pa.array(["p", "q", "p"]).dictionary_encode(),
    }
    path = tmp_path / "t.kubist"
    with pytest.warns(UserWarning, match="is not known"):
        table = kubist.create(
            path, pa.table(columns), dimensions={"x": (0, 1)}, units={"f": 'odd "1"'}
        )
    table.query().write(tmp_path / "out.ecsv")
    back, ours = ascii.read(tmp_path / "out.ecsv"), table.query().to_arrow()
    assert str(back["f"].unit) == 'odd "1"'
    for name, kind in (("f", "f4"), ("i", "i8"), ("u", "u8"), ("b", "?")):
        assert back[name].dtype == kind
    for name in columns:
        found = back[name].tolist()
        assert [str(v) for v in found] == [str(v) for v in ours.column(name).to_pylist()], name
    table.add_column("half", pa.float16(), default=0.5)
    table.query().write(tmp_path / "out.ecsv")
    assert ascii.read(tmp_path / "out.ecsv")["half"].tolist() == [0.5] * 3
    table.add_column("odd", pa.duration("s"))
    for ending in ("csv", "ecsv"):
        with pytest.raises(kubist.InvalidInput, match="column odd: E?CSV has no place for dura"):
            table.query().write(tmp_path / f"out.{ending}")


def test_vtp_has_one_unit_for_all_axes(tmp_path: Path) -> None:
    need("pyvista")
    table = points(tmp_path / "t.kubist")
    table.set_unit("z", "mm")
    with pytest.raises(kubist.InvalidInput, match="x in m, y in m, z in mm: VTP has one unit"):
        table.query().write(tmp_path / "out.vtp")


def test_an_ending_that_names_no_format(tmp_path: Path) -> None:
    table = points(tmp_path / "t.kubist")
    with pytest.raises(kubist.InvalidInput, match=r"out\.xls: the ending must be one of \.parquet"):
        table.query().write(tmp_path / "out.xls")
    with pytest.raises(kubist.InvalidInput, match="there is no column z"):
        table.query(columns=["x", "y"]).write(tmp_path / "out.vtp")


def test_openpmd_keeps_units_and_times(tmp_path: Path) -> None:
    io = need("openpmd_api")
    rows = {name: np.arange(3.0) for name in ("x", "y", "z", "e", "time")}
    units = {"x": "mm", "y": "mm", "z": "mm", "e": "keV", "time": "ms"}
    table = kubist.create(tmp_path / "t.kubist", rows, dimensions=["x", "y", "z"], units=units)
    table.query().write(tmp_path / "a.h5")
    series = io.Series(str(tmp_path / "a.h5"), io.Access.read_only)
    # Without numbers, each time is an iteration.
    times = [series.iterations[i].time * series.iterations[i].time_unit_SI for i in series.iterations]
    assert times == [0, 0.001, 0.002]
    particles = series.iterations[0].particles["particles"]
    assert particles["position"]["x"].unit_SI == 0.001
    assert list(particles["e"].unit_dimension)[:3] == [2, 1, -2]
    series.close()
    kubist.ingest(tmp_path / "back.kubist", tmp_path / "a.h5")
    back = kubist.open(tmp_path / "back.kubist")
    assert back.query(order_by="x").to_numpy()["x"].tolist() == [0, 0.001, 0.002]
    table.set_unit("e", "furlong")
    with pytest.raises(kubist.InvalidInput, match="column e: openPMD has no place for the unit 'furlong'"):
        table.query().write(tmp_path / "b.h5")
    mixed = {**rows, "iteration": np.zeros(3, "i8")}
    other = kubist.create(tmp_path / "u.kubist", mixed, dimensions=["x", "y", "z"])
    with pytest.raises(kubist.InvalidInput, match="iteration 0 has 3 times"):
        other.query().write(tmp_path / "c.h5")


def test_openpmd_has_one_mark_for_null_and_nan(tmp_path: Path) -> None:
    pytest.importorskip("openpmd_api", reason="openpmd-api is not installed")
    rows = {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [1.0, 2.0]}
    for name, values, message in (
        ("both", pa.array([None, float("nan")], pa.float64()), "NaN beside nulls"),
        ("half", pa.array(np.array([1, 2], "f2")), "no place for halffloat"),
    ):
        table = kubist.create(tmp_path / name, pa.table({**rows, "f": values}), dimensions=["x"])
        with pytest.raises(kubist.InvalidInput, match=f"column f: .*{message}"):
            table.query().write(tmp_path / f"{name}.h5")
