"""Ingest of particle codes, compared with their own libraries.

H5MD, H5Part, openPMD, OpenFOAM, LAMMPS; test_ingest_snapshots.py has GADGET and SWIFT.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import DATA, RNG, assert_same, need, rows

import kubist

pytestmark = pytest.mark.filterwarnings("default")




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
    """From the reference library pyh5md: steps and times are an interval and an offset."""
    pyh5md = need("pyh5md")
    frames, atoms = 4, 50
    positions = RNG.normal(size=(frames, atoms, 3))
    charges = RNG.normal(size=(2, atoms))
    with pyh5md.File(str(tmp_path / "run.h5md"), "w", creator="kubist", author="tests") as file:
        group = file.particles_group("atoms")
        group.create_box(dimension=3, boundary=["none"] * 3)
        every = {"store": "linear", "step": 10, "step_offset": 100, "time": 0.5, "time_offset": 2.0}
        element = pyh5md.element(group, "position", data=positions[0], **every)
        # Null at the other steps.
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
    charge = ours["charge"].reshape(frames, atoms)
    assert_same(charge[::2], charges)
    assert np.isnan(charge[1::2]).all()
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


def foam(file: Path, kind: str, body: str, packed: bool = False) -> None:
    head = f"FoamFile {{ version 2.0; format ascii; class {kind}; object {file.name}; }}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    if packed:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress((head + body).encode()))
    else:
        file.write_text(head + body)


def foam_cloud(
    case: Path, time: str, positions: str, fields: dict[str, str], **how: Any
) -> None:
    cloud = case / time / "lagrangian" / "cloud"
    name = how.pop("name", "positions")
    count = len(positions.splitlines())
    foam(cloud / name, "Cloud<basicKinematicParcel>", f"{count}\n(\n{positions}\n)\n", **how)
    for field, values in fields.items():
        kind = "labelField" if field.startswith("orig") else "scalarField"
        foam(cloud / field, kind, f"{count}\n(\n{values}\n)\n", **how)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("origId", "99999999999", "99999999999 is no label of 32 bits"),
        ("origId", "1.5", "1.5 is no label of 32 bits"),
        ("d", "1e400", "the value is 1e400, beyond the range of float64"),
    ],
)
def test_numbers_of_openfoam_that_have_no_place(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    case, table = tmp_path / "case", tmp_path / "t.kubist"
    foam_cloud(case, "0.1", "(0 0 0) 0\n(1 1 1) 0", {field: f"3\n{value}"})
    with pytest.raises(kubist.InvalidInput, match=rf"cloud/{field}: byte .*row 1: {message}"):
        kubist.ingest(table, case)
    assert not table.exists()


@pytest.mark.parametrize(("value", "is_there"), [("1e60", False), ("-inf", True)])
def test_numbers_of_ply_beyond_the_range(tmp_path: Path, value: str, is_there: bool) -> None:
    need("plyfile")
    names = "".join(f"property float {name}\n" for name in "xyzq")
    text = f"ply\nformat ascii 1.0\nelement vertex 1\n{names}end_header\n1 2 3 {value}\n"
    (tmp_path / "a.ply").write_text(text)
    if is_there:
        assert kubist.ingest(tmp_path / "t.kubist", tmp_path / "a.ply").rows == 1
        return
    with pytest.raises(kubist.InvalidInput, match=r"a\.ply: row 0: q is beyond the range of float32"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "a.ply")


@pytest.mark.parametrize("name", ["positions", "coordinates"])
def test_barycentric_positions_of_openfoam_need_the_mesh(tmp_path: Path, name: str) -> None:
    """Two cells: a tetrahedron, and a pyramid on one of its faces."""
    case = tmp_path / "case"
    mesh = case / "constant" / "polyMesh"
    ids = {"origId": "0\n1\n2", "origProcId": "0\n0\n0"}
    weights = ["(1 0 0 0) 0 0 1", "(0 1 0 0) 0 1 1", "(0.25 0.25 0.25 0.25) 1 0 1"]
    foam_cloud(case, "0.1", "\n".join(weights), ids, name=name)
    with pytest.raises(kubist.InvalidInput, match=r"polyMesh/points: .*no such file"):
        kubist.ingest(tmp_path / "t.kubist", case)
    corners = "(0 0 0) (1 0 0) (0 1 0) (0 0 1) (1 1 1)"
    # Face 0 is between both cells; its normal points out of cell 0.
    faces = ["3(1 2 3)", "3(0 2 1)", "3(0 1 3)", "3(0 3 2)", "3(1 2 4)", "3(2 3 4)", "3(3 1 4)"]
    foam(mesh / "points", "vectorField", f"5\n(\n{corners}\n)\n")
    foam(mesh / "faces", "faceList", f"{len(faces)}\n(\n" + "\n".join(faces) + "\n)\n")
    foam(mesh / "owner", "labelList", "7\n(\n0 0 0 0 1 1 1\n)\n", packed=True)
    foam(mesh / "neighbour", "labelList", "1\n(\n1\n)\n")
    kubist.ingest(tmp_path / "t.kubist", case)
    ours = rows(tmp_path / "t.kubist", "origId")
    found = np.stack([ours[axis] for axis in "xyz"], axis=1)
    centre = np.full(3, 0.25)
    other = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]).mean(axis=0)
    third = (other + [1, 0, 0] + [0, 1, 0] + [0, 0, 1]) / 4
    np.testing.assert_allclose(found, [centre, [0, 0, 0], third], atol=1e-12)

    foam_cloud(case, "0.2", "(1 0 0 0) 7 0 1", {"origId": "0", "origProcId": "0"}, name=name)
    with pytest.raises(kubist.InvalidInput, match="parcel 0 is in cell 7, the mesh has 2"):
        kubist.ingest(tmp_path / "t.kubist", case)


def test_packed_clouds_and_fields_that_come_later(tmp_path: Path) -> None:
    case = tmp_path / "case"
    ids = {"origId": "0", "origProcId": "0"}
    foam_cloud(case, "0.1", "(1 2 3) 0", ids, packed=True)
    foam_cloud(case, "0.2", "(2 3 4) 0", ids | {"d": "1e-5"}, packed=True)
    foam_cloud(case, "0.3", "(3 4 5) 0", ids, packed=True)
    kubist.ingest(tmp_path / "t.kubist", case)
    table = kubist.open(tmp_path / "t.kubist")
    found = table.query(order_by="time").to_arrow()
    assert found["x"].to_pylist() == [1, 2, 3]
    assert found["d"].to_pylist() == [None, 1e-5, None]


def test_the_domain_has_the_parcels_of_the_last_time_of_openfoam(tmp_path: Path) -> None:
    case = tmp_path / "case"
    two = {"origId": "0\n1", "origProcId": "0\n0"}
    foam_cloud(case, "0.1", "(0 0 0) 0\n(1 1 1) 0", two)
    foam_cloud(case, "0.2", "(0 0 0) 0\n(90 1 1) 0", two)
    foam_cloud(case, "0.4", "(0 0 0) 0\n(100 1 2) 0", two)
    kubist.ingest(tmp_path / "t.kubist", case)
    with kubist.open(tmp_path / "t.kubist") as table:
        domains = {each.column: (each.low, each.high) for each in table.info().dimensions}
        assert domains == {"x": (-50, 150), "y": (-0.5, 1.5), "z": (-1, 3), "time": (0.1, 0.4)}
        assert table.info().rows_outside == 0


@pytest.mark.parametrize(
    ("how", "cut"), [("binary", "d"), ("ascii", "U"), ("collated", "positions")]
)
def test_an_openfoam_file_that_ends_early(tmp_path: Path, how: str, cut: str) -> None:
    case = shutil.copytree(DATA / "openfoam" / how, tmp_path / "case")
    file = next(case.rglob(cut))
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(kubist.InvalidInput, match=f"kinematicCloud/{cut}: byte [0-9]+: "):
        kubist.ingest(tmp_path / "t.kubist", case)




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
    # MDAnalysis moves the box to the origin, twice for scaled positions, which start there.
    moves = 2 if which == "LAMMPSDUMP" else 1
    names = next(n for n in (("x", "y", "z"), ("xu", "yu", "zu")) if n[0] in ours)
    for axis, name in enumerate(names):
        found = ours[name].reshape(theirs.n_frames, -1)
        low = ours[f"box_{'xyz'[axis]}lo"].reshape(theirs.n_frames, -1)
        steps = ours["step"].reshape(theirs.n_frames, -1)[:, 0]
        for ts in theirs:
            assert steps[ts.frame] == ts.data["step"]
            if which == "LAMMPSDUMP_triclinic":
                continue
            moved = found[ts.frame] - moves * low[ts.frame]
            np.testing.assert_allclose(moved, ts.positions[:, axis], atol=1e-5)


def lammps_step(step: int, box: str, columns: str, *atoms: str, before: str = "") -> str:
    return (
        f"{before}ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{len(atoms)}\n"
        f"ITEM: BOX BOUNDS {box}\nITEM: ATOMS {columns}\n" + "".join(f"{a}\n" for a in atoms)
    )


def test_scaled_positions_have_the_box_of_their_own_step(tmp_path: Path) -> None:
    """A changing box: 0.5 is 5, then 15. A general box has any three edges."""
    file = tmp_path / "npt.dump"
    cube = "pp pp pp\n0 {0}\n0 {0}\n0 {0}"
    tilted = "xy xz yz pp pp fs\n-1 14 2\n-2 10 -1\n0 10 0.5"
    general = "abc origin pp pp pp\n10 1 0 -3\n0 10 2 -2\n1 0 10 -1"
    file.write_text(
        lammps_step(0, cube.format(10), "id xs ys zs", "1 0.5 0.5 0.5")
        + lammps_step(10, cube.format(30), "id xs ys zs", "1 0.5 0.5 0.5")
    )
    kubist.ingest(tmp_path / "npt.kubist", file)
    ours = rows(tmp_path / "npt.kubist", "step")
    assert [ours[name].tolist() for name in "xyz"] == [[5, 15]] * 3
    assert ours["box_xhi"].tolist() == [10, 30] and "xs" not in ours

    # The bounds of a tilted box are those of its bounding box.
    file.write_text(lammps_step(0, tilted, "id xs ys zs", "1 0 0 0", "2 1 1 1"))
    kubist.ingest(tmp_path / "tilted.kubist", file)
    ours = rows(tmp_path / "tilted.kubist", "id")
    lows, lengths = (0.0, -2.0, 0.0), (12.0, 11.5, 10.0)
    assert [ours[name][0] for name in "xyz"] == list(lows)
    far = (lows[0] + lengths[0] + 2 - 1, lows[1] + lengths[1] + 0.5, lengths[2])
    assert [ours[name][1] for name in "xyz"] == list(far)
    assert kubist.open(tmp_path / "tilted.kubist").metadata["lammps"]["boundary"] == "pp pp fs"

    file.write_text(lammps_step(0, general, "id xs ys zs", "1 0.5 0 0", "2 0 0 0.5"))
    kubist.ingest(tmp_path / "general.kubist", file)
    ours = rows(tmp_path / "general.kubist", "id")
    assert [ours[name].tolist() for name in "xyz"] == [[2, -2.5], [-1.5, -2], [-1, 4]]
    assert ours["box_cx"].tolist() == [1, 1] and ours["box_ox"].tolist() == [-3, -3]


def test_lammps_time_comes_first_and_units_are_those_of_the_style(tmp_path: Path) -> None:
    """`dump_modify time yes units yes`, compressed with Zstandard."""
    pa = need("pyarrow")
    text = lammps_step(
        100, "pp pp pp\n0 9\n0 9\n0 9", "id x y z vx", "1 1 2 3 4",
        before="ITEM: UNITS\nmetal\nITEM: TIME\n0.5\n",
    )
    for dump, name in ((text, "a"), (text.removeprefix("ITEM: UNITS\nmetal\n"), "b")):
        file = tmp_path / f"{name}.dump.zst"
        with pa.CompressedOutputStream(str(file), "zstd") as out:
            out.write(dump.encode())
        kubist.ingest(tmp_path / f"{name}.kubist", file)
        assert rows(tmp_path / f"{name}.kubist", "id")["time"].tolist() == [0.5]
    units = kubist.open(tmp_path / "a.kubist").units
    assert units["x"] == "angstrom" and units["vx"] == "angstrom/ps" and units["time"] == "ps"
    assert not kubist.open(tmp_path / "b.kubist").units


def test_a_step_that_comes_twice_is_reported(tmp_path: Path) -> None:
    """As after a restart: in another file, or in the same file."""
    box = "pp pp pp\n0 9\n0 9\n0 9"
    one, other = tmp_path / "one.dump", tmp_path / "other.dump"
    one.write_text(lammps_step(10, box, "id x y z", "1 1 2 3"))
    again = lammps_step(20, box, "id x y z", "1 1 2 3")
    one.write_text(one.read_text() + again + again)
    other.write_text(lammps_step(10, box, "id x y z", "1 2 2 3"))
    report = kubist.ingest(tmp_path / "t.kubist", [one, other])
    assert report.rows == 4
    twice = [note for note in report.notes if "twice" in note]
    assert len(twice) == 2
    assert "step 20" in twice[0] and "one.dump" in twice[0]
    assert "step 10" in twice[1] and "one.dump" in twice[1] and "other.dump" in twice[1]


def test_lammps_binary_is_what_lammps_wrote_as_text(tmp_path: Path) -> None:
    """Both files are from one run (data/lammps/in.lj); the text has all digits."""
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
        # The step before the invalid one is stored.
        assert rows(table, "id")["step"].tolist() == [0, 0]
    file.write_text(good + text.format(step=5, atoms=2, last="0.1 0.2 0.3"))
    report = kubist.ingest(table, file)
    assert (report.rows, report.skipped) == (2, 1)
