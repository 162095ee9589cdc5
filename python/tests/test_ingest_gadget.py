"""GADGET snapshots: binary formats compared with pynbody, inconsistent headers, units and times.

KUBIST_FORMAT_SEEDS random files, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import need

import kubist

h5py = need("h5py")
pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))


def snapshot(
    path: Path, counts: list[int], parameters: dict[str, Any] | None = None, **header: Any
) -> Path:
    with h5py.File(path, "w") as file:
        head = file.create_group("Header")
        head.attrs["NumPart_ThisFile"] = np.array(counts, "i4")
        for name, value in {"Time": 0.5, "Redshift": 1.0, **header}.items():
            head.attrs[name] = value
        if parameters is not None:
            file.create_group("Parameters").attrs.update(parameters)
        first = 0
        for kind, count in enumerate(counts):
            if count:
                group = file.create_group(f"PartType{kind}")
                group["Coordinates"] = np.arange(3.0 * count).reshape(count, 3)
                group["ParticleIDs"] = np.arange(first, first + count)
                first += count
    return path


def ingested(path: Path, file: Path, **options: Any) -> tuple[kubist.Table, kubist.Report]:
    target = path / f"{file.name}.kubist"
    report = kubist.ingest(target, file, **options)
    return kubist.open(target), report


def test_types_without_positions(tmp_path: Path) -> None:
    file = snapshot(tmp_path / "s.hdf5", [3, 2])
    with h5py.File(file, "r+") as changed:
        del changed["PartType1/Coordinates"]
        changed["PartType0/Odd"] = np.zeros(7)
        changed["Tree/Nodes"] = np.zeros(7)
    table, report = ingested(tmp_path, file)
    assert len(table) == 3
    (left_out,) = report.left_out.values()
    for name in ("PartType1", "PartType0/Odd", "Tree"):
        assert name in left_out


def test_types_that_are_chosen(tmp_path: Path) -> None:
    file = snapshot(tmp_path / "s.hdf5", [3, 2, 4])
    with h5py.File(file, "r+") as changed:
        changed["PartType1/OfOneType"] = np.zeros(2)
    table, report = ingested(tmp_path, file, read={"particles": [0, "PartType2"]})
    assert (len(table), report.left_out) == (7, {})
    assert table.count(where="type = 2") == 4 and "OfOneType" not in table.columns
    with pytest.raises(kubist.InvalidInput, match="'stars' is none of its types"):
        kubist.ingest(tmp_path / "u.kubist", file, read={"particles": ["stars"]})


def test_headers_that_disagree(tmp_path: Path) -> None:
    file = snapshot(tmp_path / "s.hdf5", [5])
    with h5py.File(file, "r+") as changed:
        changed["Header"].attrs["NumPart_ThisFile"] = [10]
    with pytest.raises(
        kubist.InvalidInput, match=r"s\.hdf5: the header counts 10 of PartType0, there are 5"
    ):
        ingested(tmp_path, file)
    with h5py.File(file, "r+") as changed:
        changed["Header"].attrs["NumPart_ThisFile"] = [5, 4]
    with pytest.raises(kubist.InvalidInput, match="counts 4 of PartType1, which is not there"):
        ingested(tmp_path, file)


def test_missing_files_of_a_snapshot(tmp_path: Path) -> None:
    two = {"NumFilesPerSnapshot": 2, "NumPart_Total": np.array([9], "u4")}
    first = snapshot(tmp_path / "s_001.0.hdf5", [5], **two)
    _, report = ingested(tmp_path, first)
    missing = "file s_001.1.hdf5"
    assert report.left_out[str(first)] == {
        missing: "the snapshot has 2 files, and it is not beside the others"
    }
    second = snapshot(tmp_path / "s_001.1.hdf5", [4], **two)
    with pytest.raises(kubist.InvalidInput, match=r"s_001\.1\.hdf5 would be left out: .* not given"):
        kubist.ingest(tmp_path / "u.kubist", first, read={"strict": True})
    # The table already has the first file, so nothing is missing.
    report = kubist.ingest(tmp_path / f"{first.name}.kubist", second)
    assert (report.rows, report.left_out) == (4, {})
    assert not kubist.ingest(tmp_path / "v.kubist", [first, second]).left_out
    # Names without numbers.
    alone = snapshot(tmp_path / "part.hdf5", [5], **two)
    _, report = ingested(tmp_path, alone)
    assert report.left_out[str(alone)] == {"files of the snapshot": "it has 2, 1 are given"}


def test_a_header_that_counts_other_particles_in_all(tmp_path: Path) -> None:
    file = snapshot(tmp_path / "s.hdf5", [5], NumPart_Total=np.array([5, 5], "u4"))
    _, report = ingested(tmp_path, file)
    assert list(report.left_out[str(file)]) == ["particles of the snapshot"]
    high = {"NumPart_Total": np.array([5], "u4"), "NumPart_Total_HighWord": np.array([1], "u4")}
    _, report = ingested(tmp_path, snapshot(tmp_path / "t.hdf5", [5], **high))
    assert "counts 4,294,967,301," in str(report.left_out)


def test_values_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    snapshot(tmp_path / "s.0.hdf5", [5])
    file = snapshot(tmp_path / "s.hdf5", [5])
    with h5py.File(file, "r+") as changed:
        del changed["PartType0/Coordinates"]
        layout = h5py.VirtualLayout((5, 3), "f8")
        layout[:] = h5py.VirtualSource("s.0.hdf5", "PartType0/Coordinates", (5, 3))
        changed.create_virtual_dataset("PartType0/Coordinates", layout)
    assert ingested(tmp_path, file)[1].rows == 5
    (tmp_path / "s.0.hdf5").unlink()
    with pytest.raises(kubist.InvalidInput, match=r"Coordinates has values in s\.0\.hdf5"):
        kubist.ingest(tmp_path / "u.kubist", file)


def test_one_file_of_a_catalogue(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "fof.0.hdf5", "w") as file:
        head = file.create_group("Header")
        head.attrs.update({"Ngroups_ThisFile": 3, "Ngroups_Total": 5, "NumFiles": 2, "Time": 1.0})
        file["Group/GroupPos"] = np.arange(9.0).reshape(3, 3)
    _, report = ingested(tmp_path, tmp_path / "fof.0.hdf5")
    assert list(report.left_out.values()) == [
        {"file fof.1.hdf5": "the snapshot has 2 files, and it is not beside the others"}
    ]


def test_units_and_times(tmp_path: Path) -> None:
    units = {
        "UnitLength_in_cm": 3.085678e21,
        "UnitVelocity_in_cm_per_s": 1e5,
        "UnitMass_in_g": 1.989e43,
    }
    still = snapshot(tmp_path / "a.hdf5", [5], units, HubbleParam=1.0)
    table, _ = ingested(tmp_path, still)
    assert table.units["x"] == "kpc" and "redshift" not in table.columns
    assert table.count(box={"x": ("0 Mpc", "0.005 Mpc")}) == 2
    growing = {"ComovingIntegrationOn": 1, **units}
    table, _ = ingested(tmp_path, snapshot(tmp_path / "b.hdf5", [5], growing, HubbleParam=0.7))
    rows = table.query().to_arrow().to_pydict()
    assert rows["redshift"] == [1.0] * 5 and rows["scale_factor"] == [0.5] * 5
    # Lengths divided by h have a separate unit, which does not convert to lengths.
    assert table.units["x"] == "ckpc h^-1"
    with pytest.raises(kubist.InvalidInput, match="a unit that is not known"):
        table.count(box={"x": ("0 Mpc", "0.005 Mpc")})


def test_catalogues_of_groups(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "fof.hdf5", "w") as file:
        head = file.create_group("Header")
        head.attrs.update({"Ngroups_ThisFile": 3, "Nsubgroups_ThisFile": 2, "Time": 1.0})
        file["Group/GroupPos"] = np.arange(9.0).reshape(3, 3)
        file["Group/GroupMass"] = [5.0, 6, 7]
        file["Subhalo/SubhaloPos"] = np.arange(6.0).reshape(2, 3)
        file["Subhalo/SubhaloGrNr"] = [0, 2]
    table, _ = ingested(tmp_path, tmp_path / "fof.hdf5")
    rows = table.query(order_by=["catalogue", "number"]).to_arrow().to_pydict()
    assert rows["x"] == [0, 3, 6, 0, 3] and rows["GroupMass"] == [5, 6, 7, None, None]
    assert rows["SubhaloGrNr"] == [None, None, None, 0, 2]
    assert table.count(where="catalogue = 'Subhalo'") == 2




def record(order: str, data: bytes, name: str | None = None) -> bytes:
    mark = struct.pack(f"{order}i", len(data))
    block = mark + data + mark
    if name is None:
        return block
    head = name.ljust(4).encode() + struct.pack(f"{order}i", len(block))
    return struct.pack(f"{order}i", 8) + head + struct.pack(f"{order}i", 8) + block


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_binary_files(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, named, wide = rng.choice(["<", ">"]), rng.random() < 0.5, rng.random() < 0.5
    counts = [int(n) for n in rng.integers(0, 5, 6)]
    counts[1] += 1
    masses = [float(m) for m in rng.choice([0.0, 2.5], 6)]
    total, kind = sum(counts), f"{order}f8" if wide else f"{order}f4"
    own = sum(n for n, mass in zip(counts, masses, strict=True) if not mass)
    blocks = {
        "POS": rng.normal(size=(total, 3)).astype(kind),
        "VEL": rng.normal(size=(total, 3)).astype(kind),
        "ID": rng.permutation(total).astype(f"{order}u8" if wide else f"{order}u4"),
        "MASS": rng.uniform(1, 2, own).astype(kind),
        "U": rng.uniform(1, 2, counts[0]).astype(kind),
        "RHO": rng.uniform(1, 2, counts[0]).astype(kind),
    }
    head = struct.pack(
        f"{order}6i6ddd2i6I2i4d2i6I2i", *counts, *masses, 0.25, 0.0, 0, 0, *counts, 0, 1, 10.0, 0.3, 0.7,
        0.7, 0, 0, *[0] * 6, 0, 0,
    ).ljust(256, b"\0")  # fmt: skip
    data = record(order, head, "HEAD" if named else None)
    for name, values in blocks.items():
        if values.size:
            data += record(order, values.tobytes(), name if named else None)
    if named:
        data += record(order, bytes(4 * total), "ODD")
    file = tmp_path / "snapshot_001"
    file.write_bytes(data)
    table, report = ingested(tmp_path, file)
    assert any("block ODD" in reasons for reasons in report.left_out.values()) == named
    rows = table.query(order_by="ParticleIDs").to_arrow()
    place = np.argsort(blocks["ID"])
    for axis in range(3):
        np.testing.assert_array_equal(rows["xyz"[axis]], blocks["POS"][place, axis])
        np.testing.assert_array_equal(rows[f"v{'xyz'[axis]}"], blocks["VEL"][place, axis])
    kinds = np.repeat(np.arange(6), counts)
    np.testing.assert_array_equal(rows["type"], kinds[place])
    every, at = np.empty(total), 0
    for k, count in enumerate(counts):
        here = kinds == k
        if masses[k]:
            every[here] = masses[k]
        else:
            every[here] = blocks["MASS"][at : at + count]
            at += count
    np.testing.assert_array_equal(rows["Masses"], every[place])
    if counts[0]:
        dense = np.full(total, np.nan)
        dense[kinds == 0] = blocks["RHO"]
        np.testing.assert_array_equal(rows["Density"].to_numpy(), dense[place])
    chosen = kubist.ingest(tmp_path / "chosen.kubist", file, read={"particles": [1]})
    assert chosen.rows == counts[1]
    file.write_bytes(data[:-2])
    with pytest.raises(
        kubist.InvalidInput, match=r"snapshot_001: the record from byte .* is cut off"
    ):
        kubist.ingest(tmp_path / "u.kubist", file)


def test_binary_files_of_pynbody(tmp_path: Path) -> None:
    pynbody = need("pynbody")
    made = pynbody.new(gas=20, dm=30)
    rng = np.random.default_rng(5)
    made["pos"], made["vel"] = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    made["mass"], made["iord"] = rng.uniform(1, 2, 50), np.arange(50)
    made["pos"].units, made["vel"].units, made["mass"].units = "kpc", "km s**-1", "Msol"
    made.gas["rho"] = rng.uniform(1, 2, 20)
    made.properties.update(
        a=0.5, z=1.0, h=0.7, omegaM0=0.3, omegaL0=0.7, boxsize=pynbody.units.Unit("10 kpc")
    )
    made.write(filename=str(tmp_path / "snap"), fmt=pynbody.snapshot.gadget.GadgetSnap)
    theirs = pynbody.load(str(tmp_path / "snap"))
    table, _ = ingested(tmp_path, tmp_path / "snap")
    rows = table.query(order_by=["type", "x"]).to_arrow()
    for kind, family in ((0, theirs.gas), (1, theirs.dm)):
        own = rows.filter(rows["type"].to_numpy() == kind)
        place = np.argsort(family["pos"][:, 0])
        np.testing.assert_array_equal(own["z"], np.asarray(family["pos"])[place, 2])
        np.testing.assert_array_equal(own["vx"], np.asarray(family["vel"])[place, 0])
        np.testing.assert_array_equal(own["ParticleIDs"], np.asarray(family["iord"])[place])
