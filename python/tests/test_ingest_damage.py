"""Damaged files, and files that are no trajectory: one error line with the location, and no partial
rows.
"""

from __future__ import annotations

import gzip
import importlib
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import DATA, RNG, need, rows
from servers import COMMAND

import kubist

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_laz_whose_chunks_are_broken(tmp_path: Path, damage: str) -> None:
    """Nothing of the damaged file is written; `keep_going` writes the next scan."""
    need("laspy")
    need("lazrs")
    whole = (DATA / "lidar" / "simple.copc.laz").read_bytes()
    half = len(whole) // 2
    broken = whole[:half]
    if damage == "flipped":
        broken += bytes(255 - byte for byte in whole[half : half + 200]) + whole[half + 200 :]
    (tmp_path / "a.laz").write_bytes(broken)
    (tmp_path / "b.laz").write_bytes(whole)
    table = tmp_path / "t.kubist"
    first = {
        "cut": r"0 of 1,065: the table",
        "flipped": r"540 of 1,065: the chunk from byte 16,480 ",
    }
    told = rf"a\.laz: no points can be read after the first {first[damage]}"
    with pytest.raises(kubist.InvalidInput, match=told):
        kubist.ingest(table, str(tmp_path / "*.laz"))
    assert not table.exists()
    report = kubist.ingest(table, str(tmp_path / "*.laz"), keep_going=True)
    assert [Path(name).name for name in report.failed] == ["a.laz"]
    assert report.rows == len(kubist.open(table)) > 1000


def damaged_laz(whole: bytes, rng: random.Random, begin: int) -> tuple[str, bytearray]:
    how, out = rng.choice(["bit", "bytes", "zeros", "ones", "cut", "table"]), bytearray(whole)
    at = rng.randrange(begin, len(out))
    end = min(len(out), at + rng.randrange(1, 400))
    if how == "bit":
        out[at] ^= 1 << rng.randrange(8)
    elif how == "bytes":
        for _ in range(20):
            out[rng.randrange(begin, len(out))] = rng.randrange(256)
    elif how in ("zeros", "ones"):
        out[at:end] = (b"\0" if how == "zeros" else b"\xff") * (end - at)
    elif how == "cut":
        del out[at:]
    else:
        points = int.from_bytes(out[96:100], "little")
        table = int.from_bytes(out[points : points + 8], "little")
        out[rng.choice([points + rng.randrange(8), table + rng.randrange(24)])] = rng.randrange(256)
    return how, out


@pytest.mark.release
@pytest.mark.parametrize("begin", ["header", "points"])
def test_random_damages_of_laz_end_with_an_error(tmp_path: Path, begin: str) -> None:
    """A sixth of the damages crash lazrs; DAMAGES=n runs n per kind."""
    need("laspy")
    need("lazrs")
    whole = (DATA / "lidar" / "simple.copc.laz").read_bytes()
    tries = int(os.environ.get("DAMAGES", "30"))
    first = 0 if begin == "header" else int.from_bytes(whole[96:100], "little")
    seed = int(os.environ.get("SEED", "1"))
    ends: dict[str, int] = {}
    for number in range(seed, seed + tries):
        how, damaged = damaged_laz(whole, random.Random(number), first)
        file, table = tmp_path / f"{number}.laz", tmp_path / f"{number}.kubist"
        file.write_bytes(damaged)
        try:
            found = kubist.ingest(table, file, dimensions=["x", "y", "z"]).rows
            # Points have no checksum, so some may have changed.
            assert found <= 1_065 or begin == "header", (number, how, found)
            end = "read"
        except kubist.InvalidInput as error:
            assert f"{number}.laz" in str(error), (number, how, error)
            place = re.search(r"byte \d[\d,]*|its header cannot be read", str(error))
            assert begin == "header" or place, (number, how, error)
            assert not table.exists(), (number, how)
            end = "refused"
        ends[end] = ends.get(end, 0) + 1
    assert ends["refused"] > tries / 4, ends


def test_laz_that_ends_its_decompressor(tmp_path: Path) -> None:
    """Although lazrs crashes, Python and the command report a damaged file and name the bytes."""
    need("laspy")
    need("lazrs")
    whole = (DATA / "lidar" / "simple.copc.laz").read_bytes()
    points = int.from_bytes(whole[96:100], "little")
    table = int.from_bytes(whole[points : points + 8], "little")
    huge = bytearray(whole)
    huge[table + 4 : table + 8] = b"\xff\xff\xff\x7f"
    lost = bytearray(whole)
    lost[points : points + 8] = (1 << 40).to_bytes(8, "little")
    chunk = bytearray(whole)
    chunk[points + 8 + 60 : points + 8 + 120] = b"\xff" * 60
    told = {
        "huge": f"the table of its chunks, which byte {points:,} points to, is damaged",
        "lost": f"the table of its chunks, which byte {points:,} points to, is damaged",
        "chunk": rf"the chunk from byte {points + 8:,} to [\d,]+ is damaged or cut off",
    }
    for name, damaged in {"huge": huge, "lost": lost, "chunk": chunk}.items():
        file = tmp_path / f"{name}.laz"
        file.write_bytes(damaged)
        what = rf"{name}\.laz: no points can be read after the first 0 of 1,065: {told[name]}"
        with pytest.raises(kubist.InvalidInput, match=what):
            kubist.ingest(tmp_path / "t.kubist", file)
        run = [str(COMMAND), "ingest", str(tmp_path / "c.kubist"), str(file)]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and re.search(what, done.stderr), done.stderr
    # Intact files still work.
    assert kubist.ingest(tmp_path / "t.kubist", DATA / "lidar" / "simple.copc.laz").rows == 1_065


def test_a_compressed_dump_that_is_broken(tmp_path: Path) -> None:
    """Only the time steps before the damage are stored."""
    whole = (DATA / "lammps" / "melt.dump.gz").read_bytes()
    # The second time step starts at the second time.
    second = gzip.decompress(whole).index(b"ITEM: TIME\n", 30)
    file = tmp_path / "melt.dump.gz"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(kubist.InvalidInput, match=rf"melt\.dump\.gz: behind byte {second} of"):
        kubist.ingest(tmp_path / "t.kubist", file)
    assert set(rows(tmp_path / "t.kubist", "id")["step"]) == {0}
    file.write_bytes(whole)
    report = kubist.ingest(tmp_path / "t.kubist", file)
    assert (report.rows, report.skipped) == (64, 1)


def test_a_unit_that_is_none(tmp_path: Path) -> None:
    """An invalid unit stays as text, is shown by a dry run, and can be overridden."""
    need("astropy")
    from astropy.io import fits

    columns = [
        fits.Column(name, "D", unit=said, array=RNG.uniform(0, 90, 50))
        for name, said in {"ra": "degz", "dec": "deg", "v": "m//s"}.items()
    ]
    fits.BinTableHDU.from_columns(columns).writeto(tmp_path / "sky.fits")
    plan = kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", dry_run=True)
    assert {name: said for name, _, said in plan.columns} == {
        "ra": "degz",
        "dec": "deg",
        "v": "m//s",
    }
    right = {"ra": "deg", "v": "m/s"}
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", create={"units": right})
    assert kubist.open(tmp_path / "t.kubist").units == {"dec": "deg", **right}
    with pytest.raises(kubist.InvalidInput, match=r"sky\.fits: there is no column 'w'"):
        kubist.ingest(tmp_path / "u.kubist", tmp_path / "sky.fits", create={"units": {"w": "m"}})
    # An existing table also refuses wrong units before any row is written.
    refused = {"w": "there is no column 'w'", "v": "column v is in m/s, not in m: set_unit"}
    for asked, told in refused.items():
        for dry_run in (True, False):
            with pytest.raises(kubist.InvalidInput, match=rf"(t\.kubist|sky\.fits): {told}"):
                kubist.ingest(
                    tmp_path / "t.kubist",
                    tmp_path / "sky.fits",
                    create={"units": {asked: "m"}},
                    dry_run=dry_run,
                )
    assert len(kubist.open(tmp_path / "t.kubist")) == 50
    assert kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", create={"units": right}).skipped == 1


def test_frames_of_other_numbers_of_atoms_are_points_and_no_universe(tmp_path: Path) -> None:
    ase = need("ase")
    mda = need("MDAnalysis")
    from ase.io import write

    images = [ase.Atoms("H" * (5 + n), positions=RNG.normal(size=(5 + n, 3))) for n in range(4)]
    write(tmp_path / "run.xyz", images, format="extxyz")
    table = tmp_path / "run.kubist"
    kubist.ingest(table, tmp_path / "run.xyz")
    counts = np.bincount(rows(table, "frame", "atom")["frame"])
    assert counts.tolist() == [5, 6, 7, 8]
    importlib.import_module("kubist.mdanalysis")
    with pytest.raises(ValueError, match="26 records cannot be 4 frames of equally many atoms"):
        mda.Universe(str(table))


def test_a_header_that_lies_about_its_records(tmp_path: Path) -> None:
    """laspy would search for the records for hours."""
    need("laspy")
    scan = bytearray((DATA / "lidar" / "autzen.las").read_bytes())
    scan[100:104] = (2**31).to_bytes(4, "little")
    (tmp_path / "a.las").write_bytes(scan)
    with pytest.raises(kubist.InvalidInput, match=r"a\.las: byte 100: .* 2,147,483,648 variable"):
        kubist.ingest(tmp_path / "t.kubist", tmp_path / "a.las")
    assert not (tmp_path / "t.kubist").exists()


def test_a_snapshot_that_is_cut_off_and_those_beside_it(tmp_path: Path) -> None:
    """A file that fails on opening can be skipped too."""
    need("h5py")
    whole = (DATA / "gadget" / "snapshot_001.0.hdf5").read_bytes()
    (tmp_path / "a.hdf5").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.hdf5").write_bytes(whole)
    files = str(tmp_path / "*.hdf5")
    with pytest.raises(kubist.InvalidInput, match=r"a\.hdf5: it is damaged or still being written"):
        kubist.ingest(tmp_path / "t.kubist", files)
    report = kubist.ingest(tmp_path / "t.kubist", files, keep_going=True)
    assert [Path(name).name for name in report.failed] == ["a.hdf5"] and report.rows > 0


def test_a_library_in_rust_that_panics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception is not an `Exception`, but the error still names the file."""

    class Panic(BaseException):
        pass

    need("laspy")
    import laspy

    def panicking(*_: object, **__: object) -> None:
        raise Panic("capacity overflow")

    monkeypatch.setattr(laspy, "open", panicking)
    with pytest.raises(kubist.InvalidInput, match=r"autzen\.las: its header cannot be read"):
        kubist.ingest(tmp_path / "t.kubist", DATA / "lidar" / "autzen.las")


def test_trajectories_that_break_off(tmp_path: Path) -> None:
    """The error names the frame, its first byte, and atoms without a position."""
    need("MDAnalysis")
    need("MDAnalysisTests")
    import MDAnalysis as mda
    import MDAnalysisTests.datafiles as data

    whole = Path(data.XTC).read_bytes()
    half = len(whole) // 2
    table = tmp_path / "t.kubist"
    for name, damaged, told in [
        ("cut", whole[:half], r"frame 4, which begins at byte 660,\d+ of 825,\d+, is cut off"),
        ("zeros", whole[:half] + bytes(300) + whole[half + 300 :], r"frame 5, which begins at"),
        ("empty", b"", "the file is empty"),
    ]:
        file = tmp_path / f"{name}.xtc"
        file.write_bytes(damaged)
        with pytest.raises(kubist.InvalidInput, match=rf"{name}\.xtc: {told}"):
            kubist.ingest(table, file, read={"topology": data.GRO})
        assert not table.exists()
    universe = mda.Universe(data.PSF, data.DCD)
    with mda.Writer(str(tmp_path / "nan.dcd"), universe.atoms.n_atoms) as writer:
        for ts in universe.trajectory[:6]:
            if ts.frame == 4:
                ts.positions[7, 1] = np.nan
            writer.write(universe.atoms)
    with pytest.raises(kubist.InvalidInput, match=r"nan\.dcd: .*\(frame 4, atom 7\): y is nan"):
        kubist.ingest(table, tmp_path / "nan.dcd", read={"topology": data.PSF})
    assert not table.exists()


def test_what_a_table_has_of_a_trajectory_is_counted(tmp_path: Path) -> None:
    need("MDAnalysis")
    need("MDAnalysisTests")
    import MDAnalysisTests.datafiles as data

    table = tmp_path / "t.kubist"
    assert kubist.ingest(table, data.XTC, read={"topology": data.GRO}).skipped == 0
    plan = kubist.ingest(table, data.XTC, read={"topology": data.GRO}, dry_run=True)
    assert isinstance(plan, kubist.ingesting.Plan)
    assert (plan.steps, plan.known) == (1, 1)
    report = kubist.ingest(table, data.XTC, read={"topology": data.GRO})
    assert (report.skipped, report.rows) == (1, 0)


def test_a_trajectory_whose_last_frame_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits for the rest of an incomplete frame, and counts earlier frames once."""
    need("MDAnalysis")
    need("MDAnalysisTests")
    import MDAnalysisTests.datafiles as data

    from kubist.ingesting.opening import Files, Opened

    whole, table, file = Path(data.XTC).read_bytes(), tmp_path / "t.kubist", tmp_path / "g.xtc"
    # Four frames; then, for two checks, a part of a fifth; then all ten.
    states = [whole[:660_708], whole[:700_000], whole[:700_000], whole]
    look = Files.look

    def growing(files: Files, keep_going: bool, takes_parts: bool) -> list[Opened]:
        if states:
            file.write_bytes(states.pop(0))
        return look(files, keep_going, takes_parts)

    monkeypatch.setattr(Files, "look", growing)
    read = {"topology": data.GRO}
    report = kubist.ingest(table, file, read=read, follow=2.5)
    assert (report.rows, report.skipped, report.failed) == (476_810, 0, {})
    states.append(whole[:-9])
    with pytest.raises(kubist.InvalidInput, match=r"g\.xtc: frame 9, .* is cut off"):
        kubist.ingest(table, file, read=read, follow=0.5)


def test_xyz_of_atoms_that_are_no_elements(tmp_path: Path) -> None:
    need("ase")
    file = tmp_path / "beads.xyz"
    file.write_text("1\nProperties=species:S:1:pos:R:3 time=3\nH 0 0 0\n1\n\nQq 0 0 0\n")
    with pytest.raises(kubist.InvalidInput, match=r"beads\.xyz: frame 1: 'Qq' is no element"):
        kubist.ingest(tmp_path / "t.kubist", file)
    # Integer times are valid.
    assert rows(tmp_path / "t.kubist", "atom")["time"].tolist() == [3.0]
