"""Tables as MDAnalysis trajectories, by its own tests (MDAnalysisTests) and ours."""

from __future__ import annotations

import importlib.util
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed: kubist[md]")
pytest.importorskip("MDAnalysisTests", reason="MDAnalysisTests is not installed")

import MDAnalysisTests.datafiles as data  # noqa: E402
from MDAnalysis.analysis.rms import RMSF  # noqa: E402
from MDAnalysisTests.coordinates.base import (  # noqa: E402
    BaseReference,
    BaseWriterTest,
    MultiframeReaderTest,
)

import kubist  # noqa: E402
from kubist.mdanalysis import KubistReader, KubistWriter  # noqa: E402

pytestmark = [
    # MDAnalysis warns of fields that its formats lack, and of future changes.
    pytest.mark.filterwarnings("default"),
]


class Reference(BaseReference):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.trajectory = str(folder / "reference.kubist")
        self.topology = data.COORDINATES_TOPOLOGY
        self.reader, self.writer, self.ext = KubistReader, KubistWriter, "kubist"
        self.changing_dimensions = True
        for i, ts in enumerate(
            (self.first_frame, self.second_frame, self.last_frame, self.jump_to_frame)
        ):
            ts.velocities = ts.positions / 10
            ts.forces = ts.positions / 100
            ts.dimensions = self.dimensions if i != 1 else self.dimensions_second_frame
        frames = [self.iter_ts(i) for i in range(self.n_frames)]
        universe = mda.Universe(self.topology)
        universe.load_new(
            np.array([ts.positions for ts in frames]),
            velocities=np.array([ts.velocities for ts in frames]),
            forces=np.array([ts.forces for ts in frames]),
            dimensions=np.array([ts.dimensions for ts in frames]),
            dt=self.dt,
        )
        universe.atoms.write(self.trajectory, frames="all")

    def iter_ts(self, i: int) -> Any:
        ts = super().iter_ts(i)
        ts.velocities = ts.positions / 10
        ts.forces = ts.positions / 100
        ts.dimensions = self.dimensions if i != 1 else self.dimensions_second_frame
        return ts


@pytest.fixture(scope="module")
def ref(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("reference"))


class TestReader(MultiframeReaderTest):
    """MDAnalysis' tests of multi-frame readers."""


class TestWriter(BaseWriterTest):
    """MDAnalysis' tests of writers."""


def prolif(name: str) -> str:
    package = importlib.util.find_spec("prolif")
    if package is None or package.origin is None:
        pytest.skip("prolif's trajectories are not installed")
    return str(Path(package.origin).parent / "data" / name)


REAL = {
    "protein, 250 frames": lambda: (prolif("top.pdb"), prolif("traj.xtc")),
    "water, 52,323 atoms": lambda: (prolif("water_m2.pdb"), prolif("water_m2.xtc")),
    "with velocities": lambda: (data.GRO, data.TRR),
    "H5MD with forces": lambda: (data.TPR_xvf, data.H5MD_xvf),
    "DCD": lambda: (data.PSF, data.DCD),
}


@pytest.mark.parametrize("which", REAL)
def test_real_trajectories_come_back_bit_by_bit(path: Path, which: str) -> None:
    source = mda.Universe(*REAL[which](), to_guess=())
    source.atoms.write(str(path), frames="all")
    back = mda.Universe(str(path), to_guess=())
    assert len(back.trajectory) == len(source.trajectory)
    for ours, theirs in zip(back.trajectory, source.trajectory, strict=True):
        assert ours.positions.tobytes() == theirs.positions.tobytes()
        assert ours.time == theirs.time
        assert ours.has_velocities == theirs.has_velocities
        assert ours.has_forces == theirs.has_forces
        if theirs.has_velocities:
            assert ours.velocities.tobytes() == theirs.velocities.tobytes()
        if theirs.has_forces:
            assert ours.forces.tobytes() == theirs.forces.tobytes()
        np.testing.assert_array_equal(ours.dimensions, theirs.dimensions)
        assert ours.data.get("step") == theirs.data.get("step")
    assert_same_topology(back, source)


def assert_same_topology(ours: Any, theirs: Any) -> None:
    assert (ours.atoms.resindices == theirs.atoms.resindices).all()
    assert (ours.residues.segindices == theirs.residues.segindices).all()
    for attribute in theirs._topology.attrs:
        if attribute.attrname in ("indices", "resindices", "segindices"):
            continue
        if not len(attribute.values):
            continue
        here = getattr(ours._topology, attribute.attrname)
        if attribute.attrname in ("bonds", "angles", "dihedrals", "impropers"):
            assert sorted(here.values) == sorted(attribute.values), attribute.attrname
        else:
            np.testing.assert_array_equal(here.values, attribute.values, attribute.attrname)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    path = str(tmp_path_factory.mktemp("written") / "run.kubist")
    universe = mda.Universe(data.PSF, data.DCD)
    universe.atoms.write(path, frames="all")
    return path, universe


def test_what_is_asked_is_what_is_read(written: tuple[str, Any]) -> None:
    path, source = written
    u = mda.Universe(path)
    every = source.trajectory.timeseries(order="fac")
    shuffled = u.atoms[[900, 3, 3, 700]]
    np.testing.assert_array_equal(
        u.trajectory.timeseries(atomgroup=shuffled, start=5, stop=90, step=7, order="fac"),
        every[5:90:7][:, [900, 3, 3, 700]],
    )
    np.testing.assert_array_equal(u.trajectory.timeseries(order="caf"), every.transpose(2, 1, 0))
    assert u.trajectory.timeseries(start=3, stop=3).shape == (0, len(u.atoms), 3)
    for ts in u.trajectory[70:10:-13]:
        np.testing.assert_array_equal(ts.positions, every[ts.frame])
    for ts in u.trajectory[[9, 2, 40, 2]]:
        np.testing.assert_array_equal(ts.positions, every[ts.frame])
    with mda.Writer(str(Path(path).parent / "again.kubist"), len(u.atoms)) as writer:
        for _ in u.trajectory[::10]:
            writer.write(u.atoms)
    again = mda.Universe(str(Path(path).parent / "again.kubist"))
    np.testing.assert_array_equal(again.trajectory.timeseries(order="fac"), every[::10])


def test_some_atoms(written: tuple[str, Any]) -> None:
    path, source = written
    every = source.trajectory.timeseries(order="fac")
    some = mda.Universe(path, atoms="name CA and resid 10:30")
    theirs = source.select_atoms("name CA and resid 10:30")
    assert_same_group(some, theirs)
    np.testing.assert_array_equal(some.trajectory.timeseries(order="fac"), every[:, theirs.indices])
    some = mda.Universe(path, atoms=[40, 41, 42, 7])
    np.testing.assert_array_equal(some.trajectory[50].positions, every[50, [7, 40, 41, 42]])
    bonds = {tuple(sorted(b.indices)) for b in source.atoms[[7, 40, 41, 42]].bonds}
    inside = {(7, 40), (7, 41), (7, 42), (40, 41), (40, 42), (41, 42)} & bonds
    assert {tuple(sorted(b)) for b in some.bonds.indices.tolist()} == {
        tuple([7, 40, 41, 42].index(atom) for atom in bond) for bond in inside
    }
    # A topology file of the same atoms works too.
    part = str(Path(path).parent / "part.pdb")
    theirs.write(part)
    other = mda.Universe(part, path, atoms="name CA and resid 10:30")
    np.testing.assert_array_equal(other.trajectory[9].positions, every[9, theirs.indices])


def assert_same_group(ours: Any, theirs: Any) -> None:
    assert ours.atoms.names.tolist() == theirs.names.tolist()
    assert ours.atoms.resids.tolist() == theirs.resids.tolist()
    assert ours.atoms.segids.tolist() == theirs.segids.tolist()
    assert ours.atoms.charges.tolist() == theirs.charges.tolist()


def test_a_region_and_a_sample(written: tuple[str, Any]) -> None:
    path, source = written
    every = source.trajectory.timeseries(order="fac")
    box = {"x": (0.0, 4.0), "y": (-3.0, 3.0)}
    inside = (
        (every[..., 0] >= 0) & (every[..., 0] <= 4) & (every[..., 1] >= -3) & (every[..., 1] <= 3)
    )
    u = mda.Universe(path)
    found = u.trajectory.region(box, step=3)
    frames, atoms = np.nonzero(inside[::3])
    np.testing.assert_array_equal(found["frame"], frames * 3)
    np.testing.assert_array_equal(found["atom"], atoms)
    np.testing.assert_array_equal(found["z"], every[::3][frames, atoms, 2])
    passing = mda.Universe(path, box=box)
    np.testing.assert_array_equal(passing.trajectory[4].positions, every[4, inside.any(axis=0)])
    sampled = mda.Universe(path, sample=0.1)
    chosen = np.unique(kubist.open(path).query(sample=0.1, columns=["atom"]).to_numpy()["atom"])
    assert 0 < len(chosen) < 0.2 * len(source.atoms)
    np.testing.assert_array_equal(sampled.trajectory.timeseries(order="fac"), every[:, chosen])
    assert sampled.atoms.names.tolist() == source.atoms.names[chosen].tolist()


def test_in_memory_pickled_and_in_parallel(written: tuple[str, Any]) -> None:
    path, source = written
    memory = mda.Universe(path, in_memory=True)
    np.testing.assert_array_equal(
        memory.trajectory.timeseries(order="fac"), source.trajectory.timeseries(order="fac")
    )
    u = mda.Universe(path, atoms="name CA")
    u.trajectory[31]
    v = pickle.loads(pickle.dumps(u))
    assert v.trajectory.frame == 31
    np.testing.assert_array_equal(v.trajectory[32].positions, u.trajectory[32].positions)
    serial = RMSF(source.select_atoms("name CA")).run().results.rmsf
    # A fork would copy the state of running threads.
    multiprocessing.set_start_method("spawn", force=True)
    try:
        from MDAnalysis.analysis.rms import RMSD

        ours = RMSD(u.atoms, u.atoms).run(backend="multiprocessing", n_workers=2).results.rmsd
    finally:
        multiprocessing.set_start_method(None, force=True)
    theirs = source.select_atoms("name CA")
    np.testing.assert_allclose(ours, RMSD(theirs, theirs).run().results.rmsd)
    np.testing.assert_allclose(RMSF(u.atoms).run().results.rmsf, serial)


def test_a_running_simulation_is_followed(path: Path) -> None:
    source = mda.Universe(data.PSF, data.DCD)
    with mda.Writer(str(path), len(source.atoms), commit_frames=1) as writer:
        source.trajectory[0]
        writer.write(source.atoms)
        u = mda.Universe(str(path))
        assert len(u.trajectory) == 1
        following = u.trajectory.follow(timeout=20)
        for i in range(1, 6):
            source.trajectory[i]
            writer.write(source.atoms)
            ts = next(following)
            assert ts.frame == i
            np.testing.assert_array_equal(ts.positions, source.trajectory.ts.positions)
        following.close()
    v = mda.Universe(str(path))
    with mda.Writer(str(path), len(source.atoms), append=True) as writer:
        for _ in source.trajectory[6:9]:
            writer.write(source.atoms)
    assert len(v.trajectory) == 6
    assert v.trajectory.refresh() == 9
    np.testing.assert_array_equal(
        v.trajectory.timeseries(order="fac"), source.trajectory.timeseries(stop=9, order="fac")
    )


def test_units_are_those_of_the_columns(path: Path) -> None:
    source = mda.Universe(data.GRO, data.TRR)
    source.trajectory[3]
    source.atoms[:50].write(str(path))
    table = kubist.open(path)
    assert (table.units["x"], table.units["vx"], table.units["time"]) == ("Angstrom", "Angstrom/ps", "ps")
    for column, unit in {"x": "nm", "vx": "nm/ps", "time": "ns"}.items():
        table.set_unit(column, unit)
    u = mda.Universe(str(path))
    np.testing.assert_allclose(u.atoms.positions, source.atoms[:50].positions * 10, rtol=1e-6)
    np.testing.assert_allclose(u.atoms.velocities, source.atoms[:50].velocities * 10, rtol=1e-6)
    assert u.trajectory.time == pytest.approx(source.trajectory.time * 1000)
    table.set_unit("x", "furlong")
    with pytest.raises(ValueError, match="column x is in 'furlong'"):
        mda.Universe(str(path))
    plain = mda.Universe(str(path), convert_units=False)
    np.testing.assert_array_equal(plain.atoms.positions, source.atoms[:50].positions)


def test_what_does_not_fit_is_refused(path: Path, written: tuple[str, Any]) -> None:
    trajectory, source = written
    source.atoms[:9].write(str(path))
    with pytest.raises(kubist.TableExists, match=r"t\.kubist exists already"):
        source.atoms[:9].write(str(path))
    with pytest.raises(ValueError, match="don't have the same number of atoms"):
        mda.Universe(data.GRO, trajectory)
    with (
        pytest.raises(ValueError, match="the writer expects 3 atoms, but the group has 9"),
        mda.Writer(str(path) + "2.kubist", 3) as writer,
    ):
        writer.write(source.atoms[:9])
    with pytest.raises(kubist.InvalidInput, match="holds frames of 9 atoms; frames of 8"):
        KubistWriter(str(path), 8, append=True)
    with pytest.raises(ValueError, match="there is no atom 5000"):
        mda.Universe(trajectory, atoms=[1, 5000])
    with pytest.raises(ValueError, match="atoms='nonsense 1'"):
        mda.Universe(trajectory, atoms="nonsense 1")
    with pytest.raises(IndexError):
        mda.Universe(trajectory).trajectory[98]
    with pytest.raises(OSError, match="no-such"):
        mda.Universe("no-such.kubist")


def test_points_that_are_no_frames_are_refused(path: Path) -> None:
    universe = mda.Universe(data.PSF, data.DCD)
    universe.atoms[:4].write(str(path), frames="all")
    table = kubist.open(path)
    table.append(table.query(where="frame = 0 AND atom = 1").to_arrow())
    with pytest.raises(ValueError, match="393 records cannot be 98 frames"):
        mda.Universe(str(path))
    assert table.count(box={"frame": (0, 0)}) == 5
    table.append(table.query(where="frame = 0 AND atom = 0").to_arrow())
    with pytest.raises(ValueError, match="frame 0 of atom 0 is twice"):
        mda.Universe(str(path))


def test_a_frame_of_other_atoms_is_named(path: Path) -> None:
    import pyarrow as pa

    universe = mda.Universe(data.PSF, data.DCD)
    universe.atoms[:4].write(str(path), frames=universe.trajectory[:3])
    table = kubist.open(path)
    row = table.query(box={"frame": (1, 1)}, where="atom = 2").to_arrow()
    copied = path.with_name("copied.kubist")
    rows = table.query(where="NOT (frame = 1 AND atom = 3)").to_arrow()
    kubist.create(
        copied,
        pa.concat_tables([rows, row]),
        dimensions=["frame", "x", "y", "z"],
        identity=["atom"],
    )
    u = mda.Universe(str(copied))
    np.testing.assert_array_equal(
        u.trajectory[2].positions, universe.trajectory.timeseries(order="fac")[2, :4]
    )
    with pytest.raises(kubist.InvalidInput, match="frame 1 has 2 records of atom 2"):
        u.trajectory[1]


def test_a_damaged_topology_is_told(written: tuple[str, Any], tmp_path: Path) -> None:
    path, _ = written
    copy = kubist.open(path).copy_to(tmp_path / "copy.kubist")
    stored = copy.metadata["topology"]
    for change, message in {
        "names": "names has 10 bytes instead of",
        "resids": "the metadata 'topology' is damaged",
    }.items():
        attributes = {**stored["attributes"]}
        attributes[change] = {**attributes[change], "deflated": "eNpjYGBg"}
        if change == "names":
            import base64
            import zlib

            attributes[change]["deflated"] = base64.b64encode(zlib.compress(bytes(10))).decode()
        copy.set_metadata({"topology": {**stored, "attributes": attributes}})
        with pytest.raises(ValueError, match=message):
            mda.Universe(copy.location)


def test_frames_of_a_slice_are_read_many_at_a_time(
    written: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any direction, from the middle, interrupted, and with jumps; each frame is read once."""
    path, reference = written
    u = mda.Universe(path)
    expected = reference.trajectory.timeseries(order="fac")
    count, read = len(expected), []
    frames = u.trajectory._frames
    plain = frames.read
    monkeypatch.setattr(
        frames, "read", lambda numbers, *what: read.append(list(numbers)) or plain(numbers, *what)
    )
    for part in (slice(None), slice(None, None, 3), slice(count - 2, 1, -2), slice(4, 5)):
        read.clear()
        for number, ts in zip(range(count)[part], u.trajectory[part], strict=True):
            np.testing.assert_array_equal(ts.positions, expected[number])
            assert ts.frame == number
        asked = range(count)[part]
        # The last read is the first frame, to which MDAnalysis returns.
        assert [n for numbers in read[: len(read) - 1] for n in numbers][: len(asked)] == list(asked)
        assert len(read) <= 2 + len(asked) // 4
    for ts in u.trajectory:
        if ts.frame == 2:
            break
    read.clear()
    for number in (7, 1, 5, 3):
        np.testing.assert_array_equal(u.trajectory[number].positions, expected[number])
    assert [numbers for numbers in read if len(numbers) > 1] == []
