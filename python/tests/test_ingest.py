"""Files of particle codes and instruments, against what their own libraries read.

Each test writes a file with the library that its community keeps, or takes one that this library
publishes; where the library is not installed, the test is skipped and says so.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist

pytestmark = pytest.mark.filterwarnings("default")
DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(11)


def need(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def rows(path: Path, *order: str, **asked: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What a table holds, in the order of some columns."""
    found = kubist.open(path).query(**asked).to_arrow()
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(
            found.column_names,
            found.sort_by([(name, "ascending") for name in order]).columns,
            strict=True,
        )
    }


def assert_same(ours: np.ndarray[Any, Any], theirs: Any, what: str = "") -> None:
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype.newbyteorder("="), what
    np.testing.assert_array_equal(ours, theirs, what)


# LAS and LAZ


@pytest.mark.parametrize("ending", ["las", "laz"])
def test_las(tmp_path: Path, ending: str) -> None:
    laspy = need("laspy")
    if ending == "laz":
        need("lazrs")
    header = laspy.LasHeader(point_format=7, version="1.4")
    header.scales, header.offsets = [0.001, 0.002, 0.0005], [1e5, -2e6, 10]
    header.add_extra_dim(laspy.ExtraBytesParams("amplitude", "float32"))
    header.add_extra_dim(laspy.ExtraBytesParams("echo", "uint8"))
    las = laspy.LasData(header)
    count = 5000
    las.X, las.Y, las.Z = RNG.integers(-(2**31), 2**31, (3, count)).astype(np.int32)
    las.intensity = RNG.integers(0, 2**16, count)
    las.return_number = RNG.integers(1, 5, count)
    las.classification = RNG.integers(0, 255, count)
    las.gps_time = np.sort(RNG.uniform(0, 1e9, count))
    las.red, las.green, las.blue = RNG.integers(0, 2**16, (3, count))
    las.withheld = RNG.integers(0, 2, count)
    las.amplitude = RNG.normal(size=count).astype(np.float32)
    las.echo = RNG.integers(0, 255, count)
    file = tmp_path / f"scan.{ending}"
    las.write(file)
    table = tmp_path / "scan.kubist"
    report = kubist.ingest(table, file)
    assert (report.rows, report.created) == (count, True)
    ours, theirs = rows(table, "gps_time"), laspy.read(file)
    for name in ("intensity", "classification", "gps_time", "red", "blue", "amplitude", "echo"):
        assert_same(ours[name], theirs[name], name)
    assert_same(ours["withheld"], np.asarray(theirs.withheld).astype(bool))
    metadata = kubist.open(table).metadata["las"]
    for axis, stored in enumerate((theirs.X, theirs.Y, theirs.Z)):
        values = ours["xyz"[axis]]
        np.testing.assert_array_equal(values, np.asarray(theirs["xyz"[axis]]))
        # Scale and offset lead back to the integers of the file.
        back = np.rint((values - metadata["offsets"][axis]) / metadata["scales"][axis])
        np.testing.assert_array_equal(back.astype(np.int64), stored)
    assert kubist.open(table).units == {"gps_time": "s"}


@pytest.mark.parametrize("name", ["simple.copc.laz", "simple_with_page.copc.laz", "autzen.las"])
def test_real_scans_come_back_as_they_are_stored(tmp_path: Path, name: str) -> None:
    """COPC with one page of its octree and with two, and LAS, of an aeroplane over Oregon."""
    laspy = need("laspy")
    need("lazrs")
    table = tmp_path / "scan.kubist"
    kubist.ingest(table, DATA / "lidar" / name)
    theirs = laspy.read(DATA / "lidar" / name)
    order = ("gps_time", "return_number", "x", "y", "z")
    sequence = np.lexsort([np.asarray(theirs[key]) for key in reversed(order)])
    ours = rows(table, *order)
    dimensions = set(theirs.point_format.dimension_names) - {"X", "Y", "Z"}
    assert set(ours) == {*"xyz", *dimensions}
    for column in ours:
        values = np.asarray(theirs[column])[sequence]
        np.testing.assert_array_equal(ours[column], values, column)
    opened = kubist.open(table)
    opened.query().write(str(tmp_path / "back.laz"), opened.metadata)
    back = laspy.read(tmp_path / "back.laz")
    again = np.lexsort([np.asarray(back[key]) for key in reversed(order)])
    for column in ("X", "Y", "Z", *dimensions):
        stored, written = np.asarray(theirs[column])[sequence], np.asarray(back[column])[again]
        assert_same(written, stored, column)
    np.testing.assert_array_equal(back.header.scales, theirs.header.scales)
    np.testing.assert_array_equal(back.header.offsets, theirs.header.offsets)


def test_a_las_file_that_ends_early(tmp_path: Path) -> None:
    laspy = need("laspy")
    las = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
    las.x = las.y = las.z = np.arange(1000.0)
    file = tmp_path / "scan.las"
    las.write(file)
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(kubist.InvalidInput, match=r"scan\.las"):
        kubist.ingest(tmp_path / "t.kubist", file)
    assert len(kubist.open(tmp_path / "t.kubist")) == 0


# FITS


@pytest.mark.parametrize("names", [("RA", "DE"), ("RAJ2000", "DEJ2000"), ("_RAJ2000", "_DEJ2000")])
def test_fits_as_archives_call_positions(tmp_path: Path, names: tuple[str, str]) -> None:
    need("astropy")
    from astropy.table import Table

    ra, dec = RNG.uniform(0, 360, 50), RNG.uniform(-90, 90, 50)
    Table({"mag": ra, names[0]: ra, names[1]: dec}).write(tmp_path / "stars.fits")
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "stars.fits")
    info = kubist.open(tmp_path / "t.kubist").info()
    assert [dimension.column for dimension in info.dimensions] == list(names)
    Table({"mag": ra}).write(tmp_path / "none.fits")
    with pytest.raises(kubist.InvalidInput, match="name the dimensions; the columns are mag$"):
        kubist.ingest(tmp_path / "u.kubist", tmp_path / "none.fits")


def test_fits(tmp_path: Path) -> None:
    need("astropy")
    from astropy import units
    from astropy.io import fits
    from astropy.table import MaskedColumn, Table

    count = 3000
    table = Table()
    table["source_id"] = np.arange(count, dtype=np.int64) + 2**60
    table["ra"] = RNG.uniform(0, 360, count) * units.deg
    table["dec"] = RNG.uniform(-90, 90, count) * units.deg
    table["mag"] = RNG.normal(15, 2, count).astype(np.float32) * units.mag
    table["hits"] = MaskedColumn(
        RNG.integers(0, 99, count).astype(np.int16), mask=np.arange(count) % 7 == 0
    )
    table["name"] = [f"star {i}" for i in range(count)]
    table["pm"] = RNG.normal(size=(count, 2)) * units.mas / units.yr
    table["variable"] = np.arange(count) % 2 == 0
    table.meta["SURVEY"] = "made up"
    file = tmp_path / "sky.fits"
    table.write(file)
    target = tmp_path / "sky.kubist"
    plan = kubist.ingest(target, file, dry_run=True)
    assert (plan.dimensions, plan.identity, plan.rows) == (["ra", "dec"], ["source_id"], count)
    assert ("ra", "double", "deg") in plan.columns
    assert not target.exists()
    kubist.ingest(target, file)
    ours, theirs = rows(target, "source_id"), fits.getdata(file)
    for name in ("source_id", "ra", "dec", "mag", "variable"):
        assert_same(ours[name], theirs[name], name)
    np.testing.assert_array_equal(np.isnan(ours["hits"]), np.arange(count) % 7 == 0)
    assert ours["name"].tolist() == theirs["name"].tolist()
    np.testing.assert_array_equal(np.stack([ours["pm_0"], ours["pm_1"]], axis=1), theirs["pm"])
    assert kubist.open(target).units["pm_0"] == "mas yr-1"
    assert kubist.open(target).metadata["fits"]["SURVEY"] == "made up"


# PLY and XYZ


@pytest.mark.parametrize("text", [True, False])
def test_ply(tmp_path: Path, text: bool) -> None:
    plyfile = need("plyfile")
    vertices = np.zeros(
        400, [("x", "f4"), ("y", "f4"), ("z", "f4"), ("red", "u1"), ("quality", "f8")]
    )
    for name in ("x", "y", "z", "quality"):
        vertices[name] = RNG.normal(size=400)
    vertices["red"] = RNG.integers(0, 255, 400)
    file = tmp_path / "cloud.ply"
    plyfile.PlyData([plyfile.PlyElement.describe(vertices, "vertex")], text=text).write(file)
    kubist.ingest(tmp_path / "t.kubist", file)
    theirs = np.sort(plyfile.PlyData.read(file)["vertex"].data, order="quality")
    ours = rows(tmp_path / "t.kubist", "quality")
    for name in vertices.dtype.names:
        assert_same(ours[name], theirs[name], name)


def test_xyz_whose_atoms_change(tmp_path: Path) -> None:
    need("ase")
    from ase import Atoms
    from ase.io import iread, write

    images = []
    for number in range(4):
        atoms = Atoms("H" * (5 + number), positions=RNG.normal(size=(5 + number, 3)))
        atoms.info["time"] = number * 0.5
        atoms.set_array("weight", RNG.normal(size=5 + number))
        images.append(atoms)
    file = tmp_path / "run.xyz"
    write(file, images, format="extxyz")
    kubist.ingest(tmp_path / "t.kubist", file)
    ours = rows(tmp_path / "t.kubist", "frame", "atom")
    theirs = list(iread(str(file), index=":", format="extxyz"))
    assert_same(ours["y"], np.concatenate([a.positions[:, 1] for a in theirs]))
    assert_same(ours["weight"], np.concatenate([a.arrays["weight"] for a in theirs]))
    assert_same(ours["time"], np.concatenate([[a.info["time"]] * len(a) for a in theirs]))
    assert kubist.open(tmp_path / "t.kubist").units == dict.fromkeys("xyz", "Angstrom")


# VTK


@pytest.mark.parametrize("ending", ["vtp", "vtu", "vtk"])
def test_vtk_in_order_of_time(tmp_path: Path, ending: str) -> None:
    pyvista = need("pyvista")
    folder = tmp_path / "steps"
    folder.mkdir()
    # Names in an order that is not that of time.
    for number, time in enumerate([0.3, 0.1, 0.2]):
        mesh = pyvista.PolyData(RNG.normal(size=(200, 3)).astype(np.float32))
        mesh.point_data["id"] = np.arange(200)
        mesh.point_data["U"] = RNG.normal(size=(200, 3))
        mesh.point_data["age"] = RNG.normal(size=200).astype(np.float32)
        if ending == "vtu":
            mesh = mesh.cast_to_unstructured_grid()
        mesh.field_data["TimeValue"] = [time]
        mesh.save(folder / f"p_{number}.{ending}")
    table = tmp_path / "t.kubist"
    report = kubist.ingest(table, folder)
    assert [Path(f).name for f in report.files] == [f"p_{n}.{ending}" for n in (1, 2, 0)]
    assert [c.column for c in kubist.open(table).info().dimensions] == ["x", "y", "z", "time"]
    for number, time in enumerate([0.3, 0.1, 0.2]):
        mesh = pyvista.read(folder / f"p_{number}.{ending}")
        ours = rows(table, "id", box={"time": (time, time)})
        assert_same(ours["x"], mesh.points[:, 0])
        assert_same(ours["U_2"], mesh.point_data["U"][:, 2])
        assert_same(ours["age"], mesh.point_data["age"])
    # What is there already is known, and a file that is half written keeps the others.
    whole = (folder / f"p_0.{ending}").read_bytes()
    (folder / f"p_9.{ending}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(kubist.InvalidInput, match="p_9"):
        kubist.ingest(table, folder)
    report = kubist.ingest(table, folder, keep_going=True)
    assert (report.rows, report.skipped, len(report.failed)) == (0, 3, 1)
    assert len(kubist.open(table)) == 600


def test_two_files_of_the_same_time(tmp_path: Path) -> None:
    pyvista = need("pyvista")
    for name in ("a_1", "a_2"):
        mesh = pyvista.PolyData(RNG.normal(size=(20, 3)))
        mesh.field_data["TimeValue"] = [0.5]
        mesh.save(tmp_path / f"{name}.vtp")
    with pytest.raises(kubist.InvalidInput, match="a_2.*a_1.vtp both are of time 0.5"):
        kubist.ingest(tmp_path / "t.kubist", str(tmp_path / "a_*.vtp"))
    assert len(kubist.open(tmp_path / "t.kubist")) == 20


# HDF5


def test_a_snapshot_of_swifts_own_library(tmp_path: Path) -> None:
    """Written and read by swiftsimio, of the authors of SWIFT."""
    swiftsimio = need("swiftsimio")
    import unyt

    def array(values: Any, unit: Any, exponent: int) -> Any:
        return swiftsimio.cosmo_array(
            values, unit, comoving=True, scale_factor=1.0, scale_exponent=exponent
        )

    count = 2000
    system = unyt.UnitSystem("test", "Mpc", 1e10 * unyt.Msun, "Gyr")
    writer = swiftsimio.Writer(unit_system=system, boxsize=array([10.0] * 3, unyt.Mpc, 1))
    for kind, offset in (("gas", 1), ("dark_matter", count + 1)):
        group = getattr(writer, kind)
        group.coordinates = array(RNG.uniform(0, 10, (count, 3)), unyt.Mpc, 1)
        group.velocities = array(RNG.normal(size=(count, 3)), unyt.Mpc / unyt.Gyr, 1)
        group.masses = array(RNG.uniform(1, 2, count), 1e10 * unyt.Msun, 0)
        group.particle_ids = np.arange(count, dtype=np.uint64) + offset
    writer.gas.internal_energy = array(RNG.uniform(1, 2, count), (unyt.Mpc / unyt.Gyr) ** 2, -2)
    writer.gas.smoothing_lengths = array(RNG.uniform(0.1, 1, count), unyt.Mpc, 1)
    file = tmp_path / "snapshot_0000.hdf5"
    writer.write(str(file))
    table = tmp_path / "t.kubist"
    report = kubist.ingest(table, file)
    assert report.rows == 2 * count
    info = kubist.open(table).info()
    assert [d.column for d in info.dimensions] == ["x", "y", "z"], "they say no time"
    assert info.identity == ["ParticleIDs"]
    dated = kubist.ingest(tmp_path / "dated.kubist", file, time=0.5, dry_run=True)
    assert (dated.dimensions, dated.identity) == (["x", "y", "z", "time"], ["ParticleIDs", "time"])
    assert kubist.open(table).metadata["gadget"]["header"]["NumPart_ThisFile"][:2] == [count, count]
    snapshot = swiftsimio.load(str(file))
    for kind, theirs in ((0, snapshot.gas), (1, snapshot.dark_matter)):
        ours = rows(table, "ParticleIDs", where=f"type = {kind}")
        order = np.argsort(np.asarray(theirs.particle_ids))
        assert_same(ours["ParticleIDs"], np.asarray(theirs.particle_ids)[order])
        for axis, (x, v) in enumerate((("x", "vx"), ("y", "vy"), ("z", "vz"))):
            assert_same(ours[x], np.asarray(theirs.coordinates)[order, axis], x)
            assert_same(ours[v], np.asarray(theirs.velocities)[order, axis], v)
        assert_same(ours["Masses"], np.asarray(theirs.masses)[order], "Masses")
    assert_same(
        rows(table, "ParticleIDs", where="type = 0")["SmoothingLength"],
        np.asarray(snapshot.gas.smoothing_lengths)[np.argsort(snapshot.gas.particle_ids.value)],
    )


def test_gadget_and_swift(tmp_path: Path) -> None:
    h5py = need("h5py")
    snapshots = {}
    for number in (0, 1):
        file = tmp_path / f"snapshot_{number:03}.hdf5"
        with h5py.File(file, "w") as out:
            header = out.create_group("Header")
            header.attrs["NumPart_ThisFile"] = [300, 500, 0, 0, 40, 0]
            header.attrs["Time"] = 0.5 + number
            header.attrs["BoxSize"] = [10.0, 10.0, 10.0]
            header.attrs["NumFilesPerSnapshot"] = [1]
            for kind, count in ((0, 300), (1, 500), (4, 40)):
                group = out.create_group(f"PartType{kind}")
                group["Coordinates"] = RNG.uniform(0, 10, (count, 3))
                group["Coordinates"].attrs["Expression for physical CGS units"] = b"a U_L [ cm ]"
                group["Velocities"] = RNG.normal(size=(count, 3)).astype(np.float32)
                group["ParticleIDs"] = np.arange(count, dtype=np.uint64) + 1000 * kind
                if kind == 0:
                    group["Densities"] = RNG.uniform(size=count).astype(np.float32)
        snapshots[0.5 + number] = file
    table = tmp_path / "t.kubist"
    kubist.ingest(table, str(tmp_path / "snapshot_*.hdf5"))
    assert kubist.open(table).info().identity == ["ParticleIDs", "time"]
    assert kubist.open(table).units["x"] == "a U_L [ cm ]"
    for time, file in snapshots.items():
        with h5py.File(file) as theirs:
            for kind in (0, 1, 4):
                group = theirs[f"PartType{kind}"]
                ours = rows(
                    table, "ParticleIDs", box={"time": (time, time)}, where=f"type = {kind}"
                )
                assert_same(ours["z"], group["Coordinates"][:, 2])
                assert_same(ours["vx"], group["Velocities"][:, 0])
                assert_same(ours["ParticleIDs"], group["ParticleIDs"][:])
                if kind == 0:
                    assert_same(ours["Densities"], group["Densities"][:])
                else:
                    assert np.isnan(ours["Densities"]).all()
    report = kubist.ingest(table, str(tmp_path / "snapshot_*.hdf5"))
    assert (report.rows, report.skipped) == (0, 2)


def test_h5part(tmp_path: Path) -> None:
    h5py = need("h5py")
    file = tmp_path / "beam.h5part"
    with h5py.File(file, "w") as out:
        out.attrs["xUnit"] = "m"
        for step in (0, 9, 10):
            group = out.create_group(f"Step#{step}")
            group.attrs["TimeValue"] = [step * 0.25]
            for name in ("x", "y", "z"):
                group[name] = RNG.normal(size=100)
            group["id"] = np.arange(100)
    kubist.ingest(tmp_path / "t.kubist", file)
    ours = rows(tmp_path / "t.kubist", "time", "id")
    with h5py.File(file) as theirs:
        assert_same(ours["x"], np.concatenate([theirs[f"Step#{s}/x"] for s in (0, 9, 10)]))
    assert_same(ours["time"], np.repeat([0, 2.25, 2.5], 100))
    assert kubist.open(tmp_path / "t.kubist").units == {"x": "m"}


def test_h5md(tmp_path: Path) -> None:
    h5py = need("h5py")
    data = need("MDAnalysisTests.datafiles")
    mda = need("MDAnalysis")
    kubist.ingest(tmp_path / "t.kubist", data.H5MD_xvf)
    theirs = mda.Universe(data.TPR_xvf, data.H5MD_xvf, convert_units=False, to_guess=())
    ours = rows(tmp_path / "t.kubist", "time", "id")
    frames = len(theirs.trajectory)
    for axis, name in enumerate("xyz"):
        found = ours[name].reshape(frames, -1)
        for ts in theirs.trajectory:
            assert_same(found[ts.frame], ts.positions[:, axis])
    times = ours["time"].reshape(frames, -1)[:, 0]
    np.testing.assert_allclose(times, [ts.time for ts in theirs.trajectory])
    with h5py.File(data.H5MD_xvf) as file:
        said = file["particles/trajectory/position/value"].attrs["unit"]
    assert kubist.open(tmp_path / "t.kubist").units["x"] == (
        said.decode() if isinstance(said, bytes) else said
    )


def test_h5md_of_a_fixed_interval(tmp_path: Path) -> None:
    """Written by pyh5md, the reference library: steps and times as an interval and an offset."""
    pyh5md = need("pyh5md")
    frames, atoms = 4, 50
    positions = RNG.normal(size=(frames, atoms, 3))
    charges = RNG.normal(size=(2, atoms))
    with pyh5md.File(str(tmp_path / "run.h5md"), "w", creator="kubist", author="tests") as file:
        group = file.particles_group("atoms")
        group.create_box(dimension=3, boundary=["none"] * 3)
        every = {"store": "linear", "step": 10, "step_offset": 100, "time": 0.5, "time_offset": 2.0}
        element = pyh5md.element(group, "position", data=positions[0], **every)
        # They change less often: each counts until the next.
        seldom = {**every, "step": 20, "time": 1.0}
        charge = pyh5md.element(group, "charge", data=charges[0], **seldom)
        for values in positions:
            element.append(values)
        for values in charges:
            charge.append(values)
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5md")
    ours = rows(tmp_path / "t.kubist", "step", "id")
    for axis, name in enumerate("xyz"):
        assert_same(ours[name].reshape(frames, atoms), positions[:, :, axis])
    assert_same(ours["charge"].reshape(frames, atoms), charges[[0, 0, 1, 1]])
    assert ours["step"].reshape(frames, atoms)[:, 0].tolist() == [100, 110, 120, 130]
    assert ours["time"].reshape(frames, atoms)[:, 0].tolist() == [2.0, 2.5, 3.0, 3.5]


def test_h5md_with_steps_of_another_number(tmp_path: Path) -> None:
    h5py = need("h5py")
    with h5py.File(tmp_path / "run.h5md", "w") as out:
        out.create_group("h5md/author")
        position = out.create_group("particles/atoms/position")
        position["value"], position["step"] = RNG.normal(size=(4, 5, 3)), np.arange(3)
    with pytest.raises(kubist.InvalidInput, match=r"run\.h5md.*position: 4 values, but step of 3"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5md")
    assert not (tmp_path / "t.kubist").exists()


def test_hdf5_that_is_cut_off(tmp_path: Path) -> None:
    h5py = need("h5py")
    file = tmp_path / "beam.h5part"
    with h5py.File(file, "w") as out:
        out["Step#0/x"] = RNG.normal(size=10_000)
    file.write_bytes(file.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"beam\.h5part.*truncated"):
        kubist.ingest(tmp_path / "t.kubist", file)


# openPMD


@pytest.mark.parametrize("ending", ["h5", "bp", "json"])
def test_openpmd(tmp_path: Path, ending: str) -> None:
    io = need("openpmd_api")
    if ending not in io.file_extensions:
        pytest.skip(f"this openpmd-api writes no .{ending}")
    file = tmp_path / f"beam.{ending}"
    series = io.Series(str(file), io.Access.create)
    for number in (0, 50):
        iteration = series.iterations[number]
        iteration.time, iteration.time_unit_SI = number * 1.0, 1e-15
        for species, count in (("electrons", 300), ("ions", 80)):
            particles = iteration.particles[species]
            for axis in ("x", "y", "z"):
                write(
                    io,
                    series,
                    particles["position"],
                    axis,
                    RNG.normal(size=count).astype(np.float32),
                    1e-6,
                )
                write(io, series, particles["positionOffset"], axis, np.full(count, 3.0), 1e-3)
                write(io, series, particles["momentum"], axis, RNG.normal(size=count), 1e-22)
            ids = np.arange(count, dtype=np.uint64)
            write(io, series, particles["id"], io.Record_Component.SCALAR, ids, 1.0)
        for record, powers in (
            ("position", {io.Unit_Dimension.L: 1}),
            ("momentum", {io.Unit_Dimension.L: 1, io.Unit_Dimension.M: 1, io.Unit_Dimension.T: -1}),
        ):
            for species in ("electrons", "ions"):
                iteration.particles[species][record].unit_dimension = powers
        iteration.close()
    series.close()
    table = tmp_path / "t.kubist"
    kubist.ingest(table, file)
    units = kubist.open(table).units
    assert (units["x"], units["momentum_x"], units["time"]) == ("m", "1e-22 m kg s^-1", "s")
    theirs = io.Series(str(file), io.Access.read_only)
    for number in (0, 50):
        for species in ("electrons", "ions"):
            ours = rows(table, "id", where=f"species = '{species}' AND iteration = {number}")
            particles = theirs.iterations[number].particles[species]
            position = particles["position"]["y"].load_chunk()
            offset = particles["positionOffset"]["y"].load_chunk()
            momentum = particles["momentum"]["z"].load_chunk()
            theirs.flush()
            assert_same(ours["y"], position.astype(float) * 1e-6 + offset * 1e-3)
            assert_same(ours["momentum_z"], momentum)
            np.testing.assert_allclose(ours["time"], number * 1e-15)
    theirs.close()


def write(io: Any, series: Any, record: Any, component: Any, values: Any, unit: float) -> None:
    place = record[component]
    place.reset_dataset(io.Dataset(values.dtype, values.shape))
    place.store_chunk(values)
    place.unit_SI = unit
    series.flush()


# OpenFOAM


@pytest.mark.parametrize("how", ["ascii", "binary", "decomposed", "collated"])
def test_openfoam_is_what_its_own_converter_makes_of_it(tmp_path: Path, how: str) -> None:
    pyvista = need("pyvista")
    kubist.ingest(tmp_path / "t.kubist", DATA / "openfoam" / how)
    table = kubist.open(tmp_path / "t.kubist")
    assert table.info().identity == ["origProcId", "origId", "time"]
    assert (table.units["d"], table.units["U_x"], table.units["time"]) == ("m", "m/s", "s")
    ours = rows(tmp_path / "t.kubist", "origProcId", "origId")
    theirs = pyvista.read(DATA / "openfoam" / f"{how}.vtp")
    order = np.lexsort([theirs.point_data["origId"], theirs.point_data["origProcId"]])
    assert len(order) == len(ours["x"]) > 0
    # The converter writes single precision.
    for axis, name in enumerate("xyz"):
        np.testing.assert_array_equal(ours[name].astype(np.float32), theirs.points[order, axis])
        velocities = theirs.point_data["U"][order, axis]
        np.testing.assert_array_equal(ours[f"U_{name}"].astype(np.float32), velocities)
    np.testing.assert_array_equal(ours["d"].astype(np.float32), theirs.point_data["d"][order])
    np.testing.assert_array_equal(ours["active"], theirs.point_data["active"][order])
    assert set(ours["time"]) == {0.04 if how == "collated" else 0.12}


@pytest.mark.parametrize(
    ("how", "cut"), [("binary", "d"), ("ascii", "U"), ("collated", "positions")]
)
def test_an_openfoam_file_that_ends_early(tmp_path: Path, how: str, cut: str) -> None:
    case = shutil.copytree(DATA / "openfoam" / how, tmp_path / "case")
    file = next(case.rglob(cut))
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(kubist.InvalidInput, match=f"kinematicCloud/{cut}: byte [0-9]+: "):
        kubist.ingest(tmp_path / "t.kubist", case)


# LAMMPS


TEXTS = ["LAMMPSDUMP", "LAMMPSDUMP_image_vf", "LAMMPSDUMP_triclinic"]


@pytest.mark.parametrize("which", TEXTS)
def test_lammps_text(tmp_path: Path, which: str) -> None:
    data = need("MDAnalysisTests.datafiles")
    mda = need("MDAnalysis")
    file = getattr(data, which)
    kubist.ingest(tmp_path / "t.kubist", file)
    ours = rows(tmp_path / "t.kubist", "step", "id")
    theirs = mda.coordinates.LAMMPS.DumpReader(file)
    assert len(ours["id"]) == theirs.n_atoms * theirs.n_frames
    # MDAnalysis moves the box to the origin.
    low = [bounds[0] for bounds in kubist.open(tmp_path / "t.kubist").metadata["lammps"]["box"]]
    names = next(
        n for n in (("x", "y", "z"), ("xu", "yu", "zu"), ("xs", "ys", "zs")) if n[0] in ours
    )
    for axis, name in enumerate(names):
        found = ours[name].reshape(theirs.n_frames, -1)
        steps = ours["step"].reshape(theirs.n_frames, -1)[:, 0]
        for ts in theirs:
            assert steps[ts.frame] == ts.data["step"]
            if names[0] == "xs":
                continue
            np.testing.assert_allclose(
                found[ts.frame] - low[axis], ts.positions[:, axis], atol=1e-5
            )


def test_lammps_binary_is_what_lammps_wrote_as_text(tmp_path: Path) -> None:
    """Both of one run (data/lammps/in.lj), the text with all digits."""
    found = []
    for name in ("melt.bin", "melt.dump.gz"):
        kubist.ingest(tmp_path / f"{name}.kubist", DATA / "lammps" / name)
        found.append(rows(tmp_path / f"{name}.kubist", "step", "id"))
    assert found[0].keys() == found[1].keys()
    assert found[0]["step"].tolist() == [step for step in (0, 10, 20) for _ in range(32)]
    assert found[0]["time"].tolist() == [time for time in (0, 0.05, 0.1) for _ in range(32)]
    for name in ("id", "x", "y", "z", "vx", "ix", "c_pe"):
        assert_same(found[0][name], found[1][name], name)
    cut = tmp_path / "cut.bin"
    cut.write_bytes((DATA / "lammps" / "melt.bin").read_bytes()[:-100])
    with pytest.raises(kubist.InvalidInput, match=r"cut\.bin: byte \d+: a part of 256 values"):
        kubist.ingest(tmp_path / "cut.kubist", cut)
    assert len(kubist.open(tmp_path / "cut.kubist")) == 64


def test_a_lammps_dump_that_lies(tmp_path: Path) -> None:
    text = (
        "ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{atoms}\nITEM: BOX BOUNDS pp pp pp\n"
        "0 1\n0 1\n0 1\nITEM: ATOMS id type x y z\n1 1 0.5 0.5 0.5\n2 1 {last}\n"
    )
    good = text.format(step=0, atoms=2, last="0.1 0.2 0.3")
    file = tmp_path / "run.dump"
    for last, atoms, message in (
        ("0.1 0.2 abc", 2, "step 5.*abc"),
        ("0.1 0.2 nan", 2, "row 1: z is nan"),
        ("0.1 0.2 0.3", 3, "step 5"),
        ("0.1 0.2 0.3", 10**15, "1000000000000000 atoms"),
    ):
        file.write_text(good + text.format(step=5, atoms=atoms, last=last))
        table = tmp_path / f"{atoms}{last}.kubist"
        with pytest.raises(kubist.InvalidInput, match=message):
            kubist.ingest(table, file)
        # The step before is there, of the bad one nothing.
        assert rows(table, "id")["step"].tolist() == [0, 0]
    file.write_text(good + text.format(step=5, atoms=2, last="0.1 0.2 0.3"))
    report = kubist.ingest(table, file)
    assert (report.rows, report.skipped) == (2, 1)


def test_a_folder_is_followed(tmp_path: Path) -> None:
    """Two steps are there, a third is half written, then whole, then comes a fourth."""
    pyvista = need("pyvista")
    folder, table = tmp_path / "steps", tmp_path / "t.kubist"
    folder.mkdir()

    def written(number: int) -> bytes:
        mesh = pyvista.PolyData(RNG.normal(size=(30, 3)))
        mesh.field_data["TimeValue"] = [number * 0.1]
        mesh.save(tmp_path / "last.vtp")
        return (tmp_path / "last.vtp").read_bytes()

    pieces = [written(number) for number in range(4)]
    for number in (0, 1):
        (folder / f"p_{number}.vtp").write_bytes(pieces[number])
    (folder / "p_2.vtp").write_bytes(pieces[2][:500])
    seen = []

    def happens(text: str) -> None:
        """What the simulation does, each time that something was taken."""
        seen.append(text)
        commits = sum("points" in line for line in seen)
        if commits >= 4:
            (folder / "p_2.vtp").write_bytes(pieces[2])
        if any("p_2" in line for line in seen):
            (folder / "p_3.vtp").write_bytes(pieces[3])

    report = kubist.ingest(table, folder, follow=True, patience=2.5, progress=happens)
    assert report.rows == 4 * 30
    assert np.unique(rows(table, "time")["time"]).tolist() == pytest.approx([0, 0.1, 0.2, 0.3])


# Trajectories


def test_a_trajectory_with_its_topology(tmp_path: Path) -> None:
    mda = need("MDAnalysis")
    data = need("MDAnalysisTests.datafiles")
    table = tmp_path / "run.kubist"
    report = kubist.ingest(table, data.XTC, topology=data.GRO)
    theirs = mda.Universe(data.GRO, data.XTC, to_guess=())
    assert report.rows == theirs.atoms.n_atoms * len(theirs.trajectory)
    importlib.import_module("kubist.mdanalysis")
    ours = mda.Universe(str(table), to_guess=())
    assert ours.atoms.names.tolist() == theirs.atoms.names.tolist()
    for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
        assert a.positions.tobytes() == b.positions.tobytes()
        assert (a.time, a.data["step"]) == (b.time, b.data["step"])
        np.testing.assert_array_equal(a.dimensions, b.dimensions)
    assert kubist.ingest(table, data.XTC, topology=data.GRO).rows == 0
    with pytest.raises(kubist.InvalidInput, match="same number of atoms"):
        kubist.ingest(tmp_path / "other.kubist", data.XTC, topology=data.PSF)


def test_a_trajectory_that_grows(tmp_path: Path) -> None:
    mda = need("MDAnalysis")
    data = need("MDAnalysisTests.datafiles")
    universe = mda.Universe(data.PSF, data.DCD, to_guess=())
    file, table = tmp_path / "run.xtc", tmp_path / "run.kubist"
    for frames in (3, 3, 7):
        universe.atoms.write(str(file), frames=universe.trajectory[:frames])
        kubist.ingest(table, file, topology=data.PSF)
        assert len(kubist.open(table)) == frames * len(universe.atoms)
    importlib.import_module("kubist.mdanalysis")
    ours, theirs = (
        mda.Universe(*files, to_guess=()) for files in ((str(table),), (data.PSF, str(file)))
    )
    np.testing.assert_array_equal(
        ours.trajectory.timeseries(order="fac"), theirs.trajectory.timeseries(order="fac")
    )


def test_a_trajectory_that_is_cut_off(tmp_path: Path) -> None:
    data = need("MDAnalysisTests.datafiles")
    need("MDAnalysis")
    file = tmp_path / "run.trr"
    file.write_bytes(Path(data.TRR).read_bytes()[:-100_000])
    with pytest.raises(kubist.InvalidInput, match=r"run\.trr|frame 9"):
        kubist.ingest(tmp_path / "run.kubist", file, topology=data.GRO)


# What is said otherwise, and what is missing


def test_what_the_format_says_can_be_overridden(tmp_path: Path) -> None:
    plyfile = need("plyfile")
    vertices = np.zeros(10, [("x", "f4"), ("y", "f4"), ("z", "f4"), ("q", "i4")])
    file = tmp_path / "cloud.ply"
    plyfile.PlyData([plyfile.PlyElement.describe(vertices, "vertex")]).write(file)
    kubist.ingest(
        tmp_path / "t.kubist",
        file,
        dimensions=["x", "time"],
        identity=["q"],
        domains={"x": (0, 1)},
        units={"x": "m"},
        types={"q": "int64"},
        columns=["q", "x", "time"],
        time=2.5,
        metadata={"site": "here"},
    )
    table = kubist.open(tmp_path / "t.kubist")
    info = table.info()
    assert [d.column for d in info.dimensions] == ["x", "time"]
    assert (info.identity, table.units, table.metadata["site"]) == (["q"], {"x": "m"}, "here")
    assert table.schema.field("q").type == pa.int64()
    assert table.query().to_numpy()["time"].tolist() == [2.5] * 10
    with pytest.raises(kubist.InvalidInput, match="no column 'w'; the columns are x, y, z, q"):
        kubist.ingest(tmp_path / "u.kubist", file, columns=["w"])


def test_a_missing_library_is_named(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    file = tmp_path / "scan.las"
    file.write_bytes(b"LASF" + bytes(400))
    done = run_python(
        """
        import sys
        sys.path.insert(0, sys.argv[2])
        sys.modules["laspy"] = None
        import kubist
        try:
            kubist.ingest("no.kubist", sys.argv[1])
        except ImportError as error:
            print(error)
        """,
        file,
        Path(kubist.__file__).parents[1],
    )
    assert done.stdout == f"{file}: LAS is read with laspy: pip install 'kubist[lidar]'\n", (
        done.stderr
    )


def test_what_is_of_no_known_format(tmp_path: Path) -> None:
    strange = tmp_path / "strange.bin"
    strange.write_bytes(b"nobody knows")
    with pytest.raises(kubist.InvalidInput, match=r"strange\.bin: of no known format"):
        kubist.ingest(tmp_path / "t.kubist", strange)
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "nothing-here.las")
    with pytest.raises(kubist.InvalidInput, match="format: 'word' is none of las"):
        kubist.ingest(tmp_path / "t.kubist", strange, format="word")
    (tmp_path / "empty.las").touch()
    with pytest.raises(kubist.InvalidInput, match="the file is empty"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "empty.las")
