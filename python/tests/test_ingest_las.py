"""LAS and LAZ, compared with laspy: fields of all point formats, extra bytes, headers, and export.

KUBIST_FORMAT_SEEDS random files, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingested import need

import kubist

laspy = need("laspy")
need("lazrs")
pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))
KINDS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


def points(kind: int, count: int = 4, extra: Any = (), **fields: Any) -> Any:
    header = laspy.LasHeader(point_format=kind, version="1.4" if kind > 5 else "1.2")
    for parameters in extra:
        header.add_extra_dim(parameters)
    made = laspy.LasData(header)
    made.x = made.y = made.z = np.arange(float(count)) + kind
    for name, values in fields.items():
        made[name] = values
    return made


def table_of(folder: Path, *files: Path) -> tuple[kubist.Table, kubist.Report]:
    target = folder / "t.kubist"
    shutil.rmtree(target, ignore_errors=True)
    report = kubist.ingest(target, list(files))
    return kubist.open(target), report


def marks(header: Any) -> dict[str, Any]:
    structs = [s for vlr in header.vlrs for s in getattr(vlr, "extra_bytes_structs", ())]
    return {s.format_name(): s.no_data for s in structs}


def tile(path: Path, code: int | None, x: float, y: float, scale: float = 0.01) -> Path:
    """Three points from (x, y) on in a coordinate system of EPSG."""
    pyproj = need("pyproj")
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales, header.offsets = [scale, scale, 0.01], [round(x), round(y), 0]
    if code is not None:
        header.add_crs(pyproj.CRS.from_epsg(code))
    made = laspy.LasData(header)
    made.x, made.y = x + 1000 * scale * np.arange(3), np.full(3, y)
    made.z = np.arange(3.0)
    made.write(path)
    return path


def test_tiles_are_transformed_on_request(tmp_path: Path) -> None:
    pyproj = need("pyproj")
    here = tile(tmp_path / "a.laz", 25832, 700_000, 5_800_000)
    there = tile(tmp_path / "b.laz", 25833, 300_000, 5_800_000)
    globe = tile(tmp_path / "c.las", 4326, 12.0, 52.3, 1e-7)
    table = tmp_path / "t.kubist"
    with pytest.raises(kubist.InvalidInput, match="its coordinate system is .*read option crs"):
        kubist.ingest(table, [here, there])
    report = kubist.ingest(table, [here, there, globe], read={"crs": "EPSG:25832"})
    assert report.rows == 9
    assert report.notes == ["positions are transformed into ETRS89 / UTM zone 32N"]
    found = kubist.open(table).query(order_by=["x", "y"]).to_arrow()
    for code, file, most in ((25833, there, 0.0051), (4326, globe, 0.00051)):
        las = laspy.read(file)
        way = pyproj.Transformer.from_crs(code, 25832, always_xy=True)
        x, y = way.transform(np.asarray(las.x), np.asarray(las.y))
        for one, other in zip(x, y, strict=True):
            near = np.hypot(found["x"].to_numpy() - one, found["y"].to_numpy() - other).min()
            assert near <= 2**0.5 * most
    kubist.open(table).query().write(tmp_path / "out.laz")
    with laspy.open(tmp_path / "out.laz") as reader:
        assert reader.header.parse_crs() == pyproj.CRS.from_epsg(25832)
    # Transform into degrees; refuse a file without a coordinate system.
    degrees = tmp_path / "u.kubist"
    report = kubist.ingest(degrees, there, read={"crs": "EPSG:4326"})
    assert report.notes == ["positions are transformed into WGS 84"]
    kubist.open(degrees).query().write(tmp_path / "degrees.laz")
    assert 11 < laspy.read(tmp_path / "degrees.laz").x[0] < 13
    nowhere = tile(tmp_path / "d.las", None, 1, 1)
    with pytest.raises(kubist.InvalidInput, match="does not say its coordinate system"):
        kubist.ingest(tmp_path / "v.kubist", nowhere, read={"crs": "EPSG:4326"})
    with pytest.raises(kubist.InvalidInput, match="'EPSG:1' is no coordinate system"):
        kubist.ingest(tmp_path / "v.kubist", here, read={"crs": "EPSG:1"})


def test_marks_for_no_data(tmp_path: Path) -> None:
    """`no_data` is a stored value, before scale and offset."""
    height = laspy.ExtraBytesParams("hag", "i2", scales=[0.01], offsets=[1.0], no_data=[-9999])
    las = points(6, 4, [height])
    las.points.array["hag"] = [0, 100, 200, -9999]
    las.write(tmp_path / "a.las")
    table, _ = table_of(tmp_path, tmp_path / "a.las")
    assert table.query(order_by="x").to_arrow()["hag"].to_pylist() == [1.0, 2.0, 3.0, None]
    table.query(order_by="x").write(tmp_path / "b.laz")
    back = laspy.read(tmp_path / "b.laz")
    assert back.points.array["hag"].tolist() == [0, 100, 200, -9999]
    [dimension] = back.point_format.extra_dimensions
    assert (dimension.dtype, *dimension.scales, *dimension.offsets) == (np.dtype("i2"), 0.01, 1.0)
    assert marks(back.header) == {"hag": [-9999]}


def test_point_formats_together(tmp_path: Path) -> None:
    files = []
    for kind, fields in (
        (1, {"scan_angle_rank": -7}),
        (7, {"red": 5, "scan_angle": 1500}),
        (8, {"nir": 9}),
    ):
        las = points(kind, **{name: np.full(4, value) for name, value in fields.items()})
        las.write(tmp_path / f"{kind}.laz")
        files.append(tmp_path / f"{kind}.laz")
    table, report = table_of(tmp_path, *files)
    assert report.rows == 12
    rows = table.query(order_by="x").to_arrow()
    by_file = {k: rows.slice(at, 1).to_pylist()[0] for k, at in ((1, 0), (8, 11))}
    assert (by_file[1]["scan_angle"], by_file[1]["red"], by_file[1]["nir"]) == (-7.0, None, None)
    assert (by_file[8]["nir"], by_file[8]["red"]) == (9, 0)
    assert rows["scan_angle"].to_pylist().count(9.0) == 4 and table.units["scan_angle"] == "deg"
    with pytest.raises(kubist.InvalidInput, match="column overlap: LAS has no place for null"):
        table.query().write(tmp_path / "out.las")
    names = [
        n
        for n in table.columns
        if n not in ("red", "green", "blue", "nir", "overlap", "scanner_channel")
    ]
    table.query(columns=names, order_by="x").write(tmp_path / "out.las")
    back = laspy.read(tmp_path / "out.las")
    assert sorted(np.asarray(back["scan_angle_rank"])) == [-7] * 4 + [0] * 4 + [9] * 4


def test_the_domain_is_that_of_all_headers(tmp_path: Path) -> None:
    for number in range(3):
        points = laspy.LasData(laspy.LasHeader(point_format=6, version="1.4"))
        points.x = points.y = points.z = np.arange(100.0) + 1000 * number
        points.write(tmp_path / f"tile_{number}.las")
    kubist.ingest(tmp_path / "t.kubist", str(tmp_path / "*.las"))
    info = kubist.open(tmp_path / "t.kubist").info()
    assert [(d.low, d.high) for d in info.dimensions] == [(0, 2099)] * 3
    assert info.rows_outside == 0


def test_headers(tmp_path: Path) -> None:
    for name, system in (("a", "ALS60"), ("b", "VQ780")):
        las = points(6)
        las.header.system_identifier, las.header.file_source_id = system, 12
        las.header.global_encoding.synthetic_return_numbers = True
        las.header.vlrs.append(laspy.VLR("site", 7, "a note", b"by hand"))
        las.header.vlrs.append(laspy.VLR("site", 8, "a photograph", bytes(60_000)))
        las.write(tmp_path / f"{name}.las")
    table, report = table_of(tmp_path, tmp_path / "a.las")
    (left_out,) = report.left_out.values()
    assert left_out == {
        "record site 8 (a photograph)": "its 60,000 bytes are too many for metadata"
    }
    table.query().write(tmp_path / "out.las")
    header = laspy.read(tmp_path / "out.las").header
    assert (header.system_identifier, header.file_source_id) == ("ALS60", 12)
    assert header.global_encoding.synthetic_return_numbers
    [note] = header.vlrs.get_by_id("site")
    assert note.record_data_bytes() == b"by hand"
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "b.las")
    kubist.open(tmp_path / "t.kubist").query().write(tmp_path / "out.las")
    assert laspy.read(tmp_path / "out.las").header.system_identifier == "MERGE"


@pytest.mark.parametrize("scale", [float("nan"), 0.0, -0.01, float("inf")])
def test_scales_that_are_none(tmp_path: Path, scale: float) -> None:
    points(6).write(tmp_path / "a.las")
    raw = bytearray((tmp_path / "a.las").read_bytes())
    struct.pack_into("<d", raw, 131, scale)
    (tmp_path / "a.las").write_bytes(raw)
    with pytest.raises(kubist.InvalidInput, match=r"a\.las: its header has the scales"):
        table_of(tmp_path, tmp_path / "a.las")


@pytest.mark.parametrize("count", [0, 1, 120_000])
def test_copc(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(count)
    header = laspy.LasHeader(point_format=7, version="1.4")
    header.scales = [0.001] * 3
    header.add_extra_dim(laspy.ExtraBytesParams("hag", "f4"))
    made = laspy.LasData(header)
    for axis, extent in (("x", 100), ("y", 50), ("z", 3)):
        made[axis] = rng.uniform(0, extent, count)
    # Many points at one position.
    made.x[: count // 2] = made.y[: count // 2] = made.z[: count // 2] = 1.0
    made.gps_time, made.hag = np.arange(float(count)), rng.normal(size=count)
    made.red = rng.integers(0, 65_535, count)
    made.write(tmp_path / "in.laz")
    table, _ = table_of(tmp_path, tmp_path / "in.laz")
    table.query().write(tmp_path / "out.copc.laz")
    ours = laspy.read(tmp_path / "out.copc.laz")
    order = np.argsort(np.asarray(ours.gps_time))
    for name in ("X", "Y", "Z", "gps_time", "hag", "red"):
        np.testing.assert_array_equal(np.asarray(ours[name])[order], np.asarray(made[name]), name)
    assert ours.header.global_encoding.wkt
    if not count:
        return
    with laspy.CopcReader.open(tmp_path / "out.copc.laz") as reader:
        assert len(reader.query()) == count
        near = laspy.copc.Bounds(np.array([20.0, 20.0]), np.array([40.0, 40.0]))
        x, y = np.asarray(made.x), np.asarray(made.y)
        inside = (x >= 20) & (x <= 40) & (y >= 20) & (y <= 40)
        assert len(reader.query(near)) == inside.sum()
        # A node with too many points has nodes below it.
        assert (len(reader.query(level=0)) < count) == (count > 50_000)


def test_copc_takes_old_points_and_refuses_waveforms(tmp_path: Path) -> None:
    points(1, 4, gps_time=np.arange(4.0)).write(tmp_path / "a.las")
    table, _ = table_of(tmp_path, tmp_path / "a.las")
    table.query().write(tmp_path / "out.copc.laz")
    with laspy.open(tmp_path / "out.copc.laz") as reader:
        assert (reader.header.point_format.id, str(reader.header.version)) == (6, "1.4")
    points(9).write(tmp_path / "b.las")
    table, _ = table_of(tmp_path, tmp_path / "b.las")
    with pytest.raises(kubist.InvalidInput, match="COPC has points of the formats 6, 7 and 8"):
        table.query().write(tmp_path / "waves.copc.laz")
    assert not list(tmp_path.glob("*waves*"))



def random_file(rng: np.random.Generator, path: Path) -> Any:
    kind = int(rng.choice([0, 1, 2, 3, 6, 7, 8]))
    extra = []
    for i in range(rng.integers(0, 4)):
        dtype, width = str(rng.choice(KINDS)), int(rng.choice([1, 1, 2, 3]))
        more: dict[str, Any] = {}
        if dtype[0] != "f" and int(dtype[1]) <= 4 and rng.random() < 0.4:
            more |= {"scales": [0.25] * width, "offsets": [float(rng.integers(-5, 5))] * width}
        if rng.random() < 0.6:
            more["no_data"] = [int(rng.integers(0, 100))] * width
        extra.append(
            laspy.ExtraBytesParams(f"e{i}", f"{width}{dtype}" if width > 1 else dtype, **more)
        )
    count = int(rng.integers(1, 200))
    las = points(kind, count, extra)
    las.X, las.Y, las.Z = rng.integers(-(2**31), 2**31, (3, count)).astype("i4")
    las.X[:] = np.arange(count)
    for name in las.point_format.standard_dimension_names:
        if name in ("X", "Y", "Z"):
            continue
        dimension = las.point_format.dimension_by_name(name)
        if name == "scan_angle":
            las[name] = rng.integers(-30_000, 30_001, count)
        elif name == "scan_angle_rank":
            las[name] = rng.integers(-90, 91, count)
        elif dimension.dtype is not None and dimension.dtype.kind == "f":
            las[name] = rng.normal(size=count)
        else:
            las[name] = rng.integers(0, 2**dimension.num_bits, count).astype(
                f"u{max(1, dimension.num_bits // 8)}"
            )
    for parameters in extra:
        stored = las.points.array[parameters.name]
        stored[...] = rng.integers(0, 100, stored.shape)
    las.write(path)
    return laspy.read(path)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    file = tmp_path / str(rng.choice(["a.las", "a.laz"]))
    theirs = random_file(rng, file)
    table, report = table_of(tmp_path, file)
    assert report.notes == [] and report.left_out == {}
    found = table.query(order_by="x").to_arrow()
    no_data = marks(theirs.header)
    for dimension in theirs.point_format.dimensions:
        name = dimension.name
        if name in ("X", "Y", "Z"):
            wanted = np.asarray(theirs[name.lower()])
            assert found[name.lower()].to_pylist() == wanted.tolist()
        elif name in ("scan_angle", "scan_angle_rank"):
            step = 0.006 if name == "scan_angle" else 1
            np.testing.assert_allclose(
                found["scan_angle"], np.asarray(theirs[name]) * step, rtol=1e-6
            )
        elif dimension.is_standard:
            assert found[name].to_pylist() == np.asarray(theirs[name]).tolist(), name
        else:
            raw = theirs.points.array[name].reshape(len(theirs.x), -1)
            values = np.asarray(theirs[name]).reshape(raw.shape)
            for i in range(raw.shape[1]):
                mark = None if no_data[name] is None else no_data[name][i]
                wanted = [
                    None if r == mark else v
                    for r, v in zip(raw[:, i], values[:, i].tolist(), strict=True)
                ]
                column = name if raw.shape[1] == 1 else f"{name}_{i}"
                assert found[column].to_pylist() == wanted, column
    table.query(order_by="x").write(tmp_path / "back.laz")
    back = laspy.read(tmp_path / "back.laz")
    assert back.header.point_format.id == theirs.header.point_format.id
    for name in theirs.point_format.standard_dimension_names:
        assert np.asarray(back[name]).tolist() == np.asarray(theirs[name]).tolist(), name
    for name in theirs.point_format.extra_dimension_names:
        raw = theirs.points.array[name].reshape(len(theirs.x), -1)
        for i in range(raw.shape[1]):
            column = name if raw.shape[1] == 1 else f"{name}_{i}"
            assert back.points.array[column].tolist() == raw[:, i].tolist(), name


@pytest.mark.parametrize(("kind", "ending"), [(3, "las"), (6, "las"), (6, "laz")])
def test_a_header_that_counts_fewer_points(tmp_path: Path, kind: int, ending: str) -> None:
    file = tmp_path / f"a.{ending}"
    points(kind, 100).write(file)
    raw = bytearray(file.read_bytes())
    places = [slice(107, 111)] + ([slice(247, 255)] if kind > 5 else [])
    for place in places:
        raw[place] = (60).to_bytes(place.stop - place.start, "little")
    file.write_bytes(raw)
    _, report = table_of(tmp_path, file)
    assert report.rows == 60
    [said] = report.left_out.values()
    assert said["points"].startswith("the header counts 60, and the file has 100")
    with pytest.raises(kubist.InvalidInput, match="points would be left out"):
        kubist.ingest(tmp_path / "s.kubist", file, read={"strict": True})


def test_points_by_return_that_are_more_than_the_header_counts(tmp_path: Path) -> None:
    file = tmp_path / "a.laz"
    points(3, 100, return_number=np.ones(100, "u1")).write(file)
    raw = bytearray(file.read_bytes())
    raw[107:111] = (60).to_bytes(4, "little")
    file.write_bytes(raw)
    _, report = table_of(tmp_path, file)
    assert list(report.left_out[str(file)]) == ["points"]
