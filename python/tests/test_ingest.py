"""Ingest of instrument files and trajectories, compared with their communities' libraries.

Each test needs such a library, and a file that the library writes or publishes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingested import DATA, RNG, assert_same, need, rows

import kubist

pytestmark = pytest.mark.filterwarnings("default")




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
        # Scale and offset restore the integers of the file.
        back = np.rint((values - metadata["offsets"][axis]) / metadata["scales"][axis])
        np.testing.assert_array_equal(back.astype(np.int64), stored)
    assert kubist.open(table).units == {"gps_time": "s", "scan_angle": "deg"}


@pytest.mark.parametrize("name", ["simple.copc.laz", "simple_with_page.copc.laz", "autzen.las"])
def test_real_scans_come_back_as_they_are_stored(tmp_path: Path, name: str) -> None:
    """COPC with one and two octree pages, and LAS, from an airborne survey of Oregon."""
    laspy = need("laspy")
    need("lazrs")
    table = tmp_path / "scan.kubist"
    kubist.ingest(table, DATA / "lidar" / name)
    theirs = laspy.read(DATA / "lidar" / name)
    order = ("gps_time", "return_number", "x", "y", "z")
    sequence = np.lexsort([np.asarray(theirs[key]) for key in reversed(order)])
    ours = rows(table, *order)
    dimensions = set(theirs.point_format.dimension_names) - {"X", "Y", "Z"}
    # In degrees, for both units of the point formats.
    angle, step = ("scan_angle", 0.006) if "scan_angle" in dimensions else ("scan_angle_rank", 1)
    assert set(ours) == {*"xyz", "scan_angle", *dimensions - {angle}}
    for column in ours:
        if column == "scan_angle":
            values = (np.asarray(theirs[angle])[sequence] * step).astype(np.float32)
        else:
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
    with pytest.raises(kubist.InvalidInput, match=r"scan\.las.* points"):
        kubist.ingest(tmp_path / "t.kubist", file)
    assert not (tmp_path / "t.kubist").exists()
    whole = bytearray(file.read_bytes())
    for wrong, at, byte in [
        ("points of format 35, and known are 0 to 10", 104, 35),
        ("its header cannot be read", 0, 0),
    ]:
        (tmp_path / "wrong.las").write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        with pytest.raises(kubist.InvalidInput, match=rf"wrong\.las: {wrong}"):
            kubist.ingest(tmp_path / "t.kubist", tmp_path / "wrong.las", read={"format": "las"})




@pytest.mark.parametrize(
    "names",
    [
        ("RA", "DE"),
        ("RAJ2000", "DEJ2000"),
        ("_RAJ2000", "_DEJ2000"),
        ("RArad", "DErad"),
        ("ra_deg", "dec_deg"),
    ],
)
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


def test_extended_xyz_keeps_cell_periodicity_text_and_results(tmp_path: Path) -> None:
    need("ase")
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.io import write

    images = []
    for number in range(3):
        atoms = Atoms("SiO", positions=[[0, 0, 0], [1, 1, number]], cell=[5 + number, 5, 6])
        atoms.pbc = (True, True, False)
        atoms.set_array("site", np.array(["bulk", "surface"]))
        atoms.info["stage"] = "relax"
        forces = np.full((2, 3), float(number))
        charges = np.array([0.5, -0.5 - number])
        atoms.calc = SinglePointCalculator(
            atoms, energy=-3.5 - number, forces=forces, charges=charges
        )
        images.append(atoms)
    write(tmp_path / "run.xyz", images, format="extxyz")
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.xyz")
    table = kubist.open(tmp_path / "t.kubist")
    found = table.query(order_by=["frame", "atom"]).to_arrow()
    assert found["site"].to_pylist() == ["bulk", "surface"] * 3
    assert found["stage"].to_pylist() == ["relax"] * 6
    assert found["cell_ax"].to_pylist() == [5, 5, 6, 6, 7, 7]
    assert found["pbc_b"].to_pylist() == [True] * 6 and found["pbc_c"].to_pylist() == [False] * 6
    assert found["energy"].to_pylist() == [-3.5, -3.5, -4.5, -4.5, -5.5, -5.5]
    assert found["forces_y"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert found["charges"].to_pylist() == [0.5, -0.5, 0.5, -1.5, 0.5, -2.5]
    assert table.units["energy"] == "eV" and table.units["cell_bz"] == "Angstrom"


def test_plain_xyz_may_have_any_labels(tmp_path: Path) -> None:
    """LAMMPS writes types instead of elements."""
    need("ase")
    file = tmp_path / "dump.xyz"
    frame = "2\nAtoms. Timestep: {0}\n1 0 0 {0}.5\nbead 1 1 1\n"
    file.write_text(frame.format(0) + "\n" + frame.format(10))
    kubist.ingest(tmp_path / "t.kubist", file)
    found = kubist.open(tmp_path / "t.kubist").query(order_by=["frame", "atom"]).to_arrow()
    assert found["label"].to_pylist() == ["1", "bead"] * 2
    assert found["z"].to_pylist() == [0.5, 1, 10.5, 1]
    # DFTB+ writes charges after the positions.
    charged = tmp_path / "geo_end.xyz"
    charged.write_text("2\nMD iter: 0\nO 0 0 0 -0.5\nH 1 0 0 0.5\n")
    report = kubist.ingest(tmp_path / "q.kubist", charged)
    found = kubist.open(tmp_path / "q.kubist").query(order_by="atom").to_arrow()
    assert found["element"].to_pylist() == ["O", "H"]
    assert found["column_4"].to_pylist() == [-0.5, 0.5]
    assert [*report.left_out[str(charged)]] == ["comments"]
    for cut, message in (("2\n\n1 0 0 0\n", "1 of 2 atoms"), ("1\n\n1 0 x 0\n", "y is 'x'")):
        file.write_text(cut)
        with pytest.raises(kubist.InvalidInput, match=rf"dump\.xyz: frame 0: .*{message}"):
            kubist.ingest(tmp_path / "cut.kubist", file)




@pytest.mark.parametrize("ending", ["vtp", "vtu", "vtk"])
def test_vtk_in_order_of_time(tmp_path: Path, ending: str) -> None:
    pyvista = need("pyvista")
    folder = tmp_path / "steps"
    folder.mkdir()
    # The order of names differs from the order of time.
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
    # Ingested files are skipped, and an incomplete file does not affect the others.
    whole = (folder / f"p_0.{ending}").read_bytes()
    (folder / f"p_9.{ending}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(kubist.InvalidInput, match="p_9"):
        kubist.ingest(table, folder)
    report = kubist.ingest(table, folder, keep_going=True)
    assert (report.rows, report.skipped, len(report.failed)) == (0, 3, 1)
    assert len(kubist.open(table)) == 600


@pytest.mark.parametrize("ending", ["vtp", "vtu", "vtk"])
def test_vtk_takes_or_lists_every_array(tmp_path: Path, ending: str) -> None:
    pyvista = need("pyvista")
    mesh = pyvista.Sphere(theta_resolution=4, phi_resolution=4)
    points = np.arange(float(mesh.n_points))
    # By default, the reader of the legacy format takes one array of scalars.
    mesh.point_data.clear()
    mesh.point_data.update({"e": points, "f": points + 1, "x": points + 2})
    mesh.point_data["name"] = [f"p{i}" for i in range(mesh.n_points)]
    mesh.cell_data["area"] = np.ones(mesh.n_cells)
    mesh.field_data["cycle"], mesh.field_data["box"] = [7], [1.0, 2.0]
    mesh = mesh if ending == "vtp" else mesh.cast_to_unstructured_grid()
    file = tmp_path / f"a.{ending}"
    mesh.save(file)
    report = kubist.ingest(tmp_path / "t.kubist", file)
    assert report.left_out[str(file)].keys() == {"field data box", "cells", "cell data area"}
    ours = rows(tmp_path / "t.kubist", "e")
    assert_same(ours["x_2"], points + 2)
    assert_same(ours["f"], points + 1)
    assert ours["name"][3] == "p3" and set(ours["cycle"]) == {7}


def test_a_piece_of_parallel_vtk_that_is_not_there(tmp_path: Path) -> None:
    pyvista = need("pyvista")
    for piece in range(2):
        mesh = pyvista.PolyData(RNG.normal(size=(5, 3)))
        mesh.save(tmp_path / f"p_{piece}.vtp")
    (tmp_path / "p.pvtp").write_text(
        '<VTKFile type="PPolyData" version="0.1"><PPolyData><PPoints><PDataArray type="Float64" '
        'Name="Points" NumberOfComponents="3"/></PPoints><Piece Source="p_0.vtp"/>'
        '<Piece Source="p_1.vtp"/></PPolyData></VTKFile>'
    )
    assert kubist.ingest(tmp_path / "t.kubist", tmp_path / "p.pvtp").rows == 10
    (tmp_path / "p_1.vtp").unlink()
    with pytest.raises(kubist.InvalidInput, match=r"p\.pvtp: File for piece 1 cannot be read"):
        kubist.ingest(tmp_path / "u.kubist", tmp_path / "p.pvtp")


def test_two_files_of_the_same_time(tmp_path: Path) -> None:
    pyvista = need("pyvista")
    for name in ("a_1", "a_2"):
        mesh = pyvista.PolyData(RNG.normal(size=(20, 3)))
        mesh.field_data["TimeValue"] = [0.5]
        mesh.save(tmp_path / f"{name}.vtp")
    with pytest.raises(kubist.InvalidInput, match="a_2.*a_1.vtp both are of time 0.5"):
        kubist.ingest(tmp_path / "t.kubist", str(tmp_path / "a_*.vtp"))
    assert len(kubist.open(tmp_path / "t.kubist")) == 20




def test_a_trajectory_with_its_topology(tmp_path: Path) -> None:
    mda = need("MDAnalysis")
    data = need("MDAnalysisTests.datafiles")
    table = tmp_path / "run.kubist"
    report = kubist.ingest(table, data.XTC, read={"topology": data.GRO})
    theirs = mda.Universe(data.GRO, data.XTC, to_guess=())
    assert report.rows == theirs.atoms.n_atoms * len(theirs.trajectory)
    importlib.import_module("kubist.mdanalysis")
    ours = mda.Universe(str(table), to_guess=())
    assert ours.atoms.names.tolist() == theirs.atoms.names.tolist()
    for a, b in zip(ours.trajectory, theirs.trajectory, strict=True):
        assert a.positions.tobytes() == b.positions.tobytes()
        assert (a.time, a.data["step"]) == (b.time, b.data["step"])
        np.testing.assert_array_equal(a.dimensions, b.dimensions)
    assert kubist.ingest(table, data.XTC, read={"topology": data.GRO}).rows == 0
    with pytest.raises(kubist.InvalidInput, match="same number of atoms"):
        kubist.ingest(tmp_path / "other.kubist", data.XTC, read={"topology": data.PSF})


def test_a_trajectory_that_grows(tmp_path: Path) -> None:
    mda = need("MDAnalysis")
    data = need("MDAnalysisTests.datafiles")
    universe = mda.Universe(data.PSF, data.DCD, to_guess=())
    file, table = tmp_path / "run.xtc", tmp_path / "run.kubist"
    for frames in (3, 3, 7):
        universe.atoms.write(str(file), frames=universe.trajectory[:frames])
        kubist.ingest(table, file, read={"topology": data.PSF})
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
        kubist.ingest(tmp_path / "run.kubist", file, read={"topology": data.GRO})




def test_a_folder_is_followed(tmp_path: Path) -> None:
    """Two complete steps, a third that is completed later, and then a fourth."""
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
        seen.append(text)
        commits = sum("points" in line for line in seen)
        if commits >= 4:
            (folder / "p_2.vtp").write_bytes(pieces[2])
        if any("p_2" in line for line in seen):
            (folder / "p_3.vtp").write_bytes(pieces[3])

    report = kubist.ingest(table, folder, follow=2.5, progress=happens)
    assert report.rows == 4 * 30
    assert np.unique(rows(table, "time")["time"]).tolist() == pytest.approx([0, 0.1, 0.2, 0.3])


def test_what_the_format_says_can_be_overridden(tmp_path: Path) -> None:
    plyfile = need("plyfile")
    vertices = np.zeros(10, [("x", "f4"), ("y", "f4"), ("z", "f4"), ("q", "i4")])
    file = tmp_path / "cloud.ply"
    plyfile.PlyData([plyfile.PlyElement.describe(vertices, "vertex")]).write(file)
    kubist.ingest(
        tmp_path / "t.kubist",
        file,
        dimensions={"x": (0, 1), "time": None},
        identity=["q"],
        create={"units": {"x": "m"}, "metadata": {"site": "here"}},
        read={"types": {"q": "int64"}, "columns": ["q", "x", "time"], "time": 2.5},
    )
    table = kubist.open(tmp_path / "t.kubist")
    info = table.info()
    assert [d.column for d in info.dimensions] == ["x", "time"]
    assert (info.dimensions[0].low, info.dimensions[0].high) == (0, 1)
    assert (info.identity, table.units, table.metadata["site"]) == (["q"], {"x": "m"}, "here")
    assert table.schema.field("q").type == pa.int64()
    assert table.query().to_numpy()["time"].tolist() == [2.5] * 10
    with pytest.raises(kubist.InvalidInput, match="no column 'w'; the columns are x, y, z, q"):
        kubist.ingest(tmp_path / "u.kubist", file, read={"columns": ["w"]})


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
    with pytest.raises(
        kubist.InvalidInput, match="format: 'word' is none of parquet, arrow, npz, las"
    ):
        kubist.ingest(tmp_path / "t.kubist", strange, read={"format": "word"})
    (tmp_path / "empty.las").touch()
    with pytest.raises(kubist.InvalidInput, match="the file is empty"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "empty.las")
