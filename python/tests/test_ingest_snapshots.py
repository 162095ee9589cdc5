"""Snapshots of GADGET, AREPO and SWIFT, compared with their communities' libraries.

GADGET-2 wrote the files in data/gadget. swiftsimio, by SWIFT's authors, writes and reads SWIFT
files, and pynbody reads both.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import DATA, RNG, assert_same, need, rows

import kubist

pytestmark = pytest.mark.filterwarnings("default")
SNAPSHOTS = DATA / "gadget"


def test_what_gadget_2_wrote_is_what_pynbody_reads(tmp_path: Path) -> None:
    """Two snapshots of two ranks each, with the masses of gas and stars in the header."""
    pynbody = need("pynbody")
    table = tmp_path / "t.kubist"
    report = kubist.ingest(table, str(SNAPSHOTS / "snapshot_*.hdf5"))
    assert (report.rows, len(report.files)) == (540, 4)
    info = kubist.open(table).info()
    assert [d.column for d in info.dimensions] == ["x", "y", "z", "time"]
    assert info.identity == ["ParticleIDs", "time"]
    names = {"mass": "Masses", "phi": "Potential", "iord": "ParticleIDs"}
    of_gas = {"rho": "Density", "u": "InternalEnergy", "smooth": "SmoothingLength"}
    for number, time in ((1, 0.25), (2, 0.5)):
        theirs = pynbody.load(str(SNAPSHOTS / f"snapshot_00{number}"))
        for kind, family in ((0, theirs.gas), (1, theirs.dm), (4, theirs.star)):
            ours = rows(table, "ParticleIDs", box={"time": (time, time)}, where=f"type = {kind}")
            order = np.argsort(family["iord"])
            for axis, (x, v) in enumerate((("x", "vx"), ("y", "vy"), ("z", "vz"))):
                assert_same(ours[x], np.asarray(family["pos"])[order, axis], x)
                assert_same(ours[v], np.asarray(family["vel"])[order, axis], v)
            for name, column in (names | of_gas if kind == 0 else names).items():
                assert_same(ours[column], np.asarray(family[name])[order], column)
    rest = rows(table, "ParticleIDs", where="type = 1")
    assert all(np.isnan(rest[column]).all() for column in of_gas.values())
    again = kubist.ingest(table, str(SNAPSHOTS / "snapshot_*.hdf5"))
    assert (again.rows, again.skipped) == (0, 4)


def test_types_of_particles_that_come_later(tmp_path: Path) -> None:
    """The first rank has only dark matter, but the table has the columns of gas."""
    h5py = need("h5py")
    for rank in (0, 1):
        shutil.copy(SNAPSHOTS / f"snapshot_001.{rank}.hdf5", tmp_path)
    with h5py.File(tmp_path / "snapshot_001.0.hdf5", "r+") as file:
        for kind in (0, 4):
            del file[f"PartType{kind}"]
        counts = file["Header"].attrs["NumPart_ThisFile"]
        counts[[0, 4]] = 0
        file["Header"].attrs["NumPart_ThisFile"] = counts
    table = tmp_path / "t.kubist"
    plan = kubist.ingest(table, str(tmp_path / "*.hdf5"), dry_run=True)
    assert {"Density", "Masses"} <= {name for name, _, _ in plan.columns}
    kubist.ingest(table, str(tmp_path / "*.hdf5"))
    gas = rows(table, "ParticleIDs", where="type = 0")
    with h5py.File(tmp_path / "snapshot_001.1.hdf5") as file:
        theirs, order = file["PartType0"], np.argsort(file["PartType0/ParticleIDs"][:])
        assert_same(gas["Density"], theirs["Density"][:][order])
        mass = file["Header"].attrs["MassTable"][0]
    assert set(gas["Masses"]) == {np.float32(mass)}
    # A table gets missing columns, which are null in earlier rows.
    dark = tmp_path / "dark.kubist"
    kubist.ingest(dark, tmp_path / "snapshot_001.0.hdf5")
    report = kubist.ingest(dark, tmp_path / "snapshot_001.1.hdf5")
    assert "Density" in report.columns_added
    found = kubist.open(dark)
    assert found.count(where="Density IS NOT NULL") == len(gas["Density"])
    assert len(found) == len(kubist.open(table)) > counts[1]


def test_a_snapshot_of_swifts_own_library(tmp_path: Path) -> None:
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
    dated = kubist.ingest(tmp_path / "dated.kubist", file, read={"time": 0.5}, dry_run=True)
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


def test_a_snapshot_gives_the_period_of_its_box(tmp_path: Path) -> None:
    h5py = need("h5py")

    def snapshot(name: str, side: float, periodic: int) -> Path:
        file: Path = tmp_path / name
        with h5py.File(file, "w") as out:
            header = out.create_group("Header")
            header.attrs["NumPart_ThisFile"] = [3]
            header.attrs["BoxSize"] = [side, side, 2 * side]
            out.create_group("RuntimePars").attrs["PeriodicBoundariesOn"] = [periodic]
            group = out.create_group("PartType0")
            group["Coordinates"] = np.array([[0.1, 5, 5], [side - 0.1, 5, 5], [2, 5, 5]])
            group["ParticleIDs"] = np.arange(3, dtype=np.uint64)
        return file

    ten = snapshot("a.hdf5", 10.0, 1)
    kubist.ingest(tmp_path / "t", ten)
    with kubist.open(tmp_path / "t") as table:
        assert table.period == {"x": 10.0, "y": 10.0, "z": 20.0}
        assert table.count(box={"x": (9.5, 10.5)}) == 2
    twelve = snapshot("b.hdf5", 12.0, 1)
    with pytest.raises(kubist.InvalidInput, match="repeats along x after 12.0, and the table after 10"):
        kubist.ingest(tmp_path / "t", twelve)
    with pytest.raises(kubist.InvalidInput, match="repeats along x after 1.*, and that of"):
        kubist.ingest(tmp_path / "u", [ten, twelve])
    kubist.ingest(tmp_path / "u", [ten, twelve], create={"period": {}})
    kubist.ingest(tmp_path / "v", [ten, twelve], create={"period": {"x": 24}})
    kubist.ingest(tmp_path / "w", snapshot("c.hdf5", 10.0, 0))
    periods = [kubist.open(tmp_path / name).period for name in "uvw"]
    assert periods == [{}, {"x": 24.0}, {}]
