"""Trajectories with changing frames, truncated ones, and contents that other libraries skip."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingested import need

import kubist

mda = need("MDAnalysis")
data = need("MDAnalysisTests.datafiles")
pytestmark = pytest.mark.filterwarnings("default")


def table(path: Path, file: Path, **options: Any) -> tuple[Any, kubist.Report]:
    shutil.rmtree(path, ignore_errors=True)
    report = kubist.ingest(path, file, **options)
    return kubist.open(path).query(order_by=["frame", "atom"]).to_arrow(), report


def test_velocities_of_every_second_frame(tmp_path: Path) -> None:
    from MDAnalysis.lib.formats.libmdaxdr import TRRFile

    zeros, box = np.zeros((12, 3), "f4"), np.eye(3, dtype="f4") * 3
    for first in (0, 1):
        with TRRFile(str(tmp_path / "run.trr"), "w") as file:
            for i in range(4):
                velocities = zeros + 0.5 + i if i % 2 == first else None
                file.write(zeros + i, velocities, None, box * (i + 1), i, float(i), 0.0, 12)
        rows, _ = table(tmp_path / "t.kubist", tmp_path / "run.trr")
        speeds = [rows["vx"][12 * i].as_py() for i in range(4)]
        assert speeds == [10 * (0.5 + i) if i % 2 == first else None for i in range(4)]
        # The cells by frame.
        assert [rows["cell_a"][12 * i].as_py() for i in range(4)] == [30.0, 60.0, 90.0, 120.0]
    with TRRFile(str(tmp_path / "run.trr"), "w") as file:
        file.write(zeros, None, None, box, 0, 0.0, 0.0, 12)
        file.write(None, zeros, None, box, 1, 1.0, 0.0, 12)
    with pytest.raises(
        kubist.InvalidInput, match=r"run\.trr: frame 1 has velocities and no positions"
    ):
        table(tmp_path / "t.kubist", tmp_path / "run.trr")


@pytest.mark.parametrize("name", ["XTC", "TRR"])
def test_files_that_are_cut_off(tmp_path: Path, name: str) -> None:
    whole = Path(getattr(data, name))
    file = tmp_path / f"run.{name.lower()}"
    file.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(kubist.InvalidInput, match=rf"run\.{name.lower()}: frame 9, .* is cut off"):
        table(tmp_path / "t.kubist", file)
    rows, report = table(tmp_path / "t.kubist", file, keep_going=True)
    theirs = mda.Universe(data.GRO, whole).trajectory
    assert len(rows) == 9 * theirs.n_atoms and not report.failed
    np.testing.assert_array_equal(
        rows["x"].to_numpy()[-theirs.n_atoms :], theirs[8].positions[:, 0]
    )
    ((name, why),) = report.left_out[str(file)].items()
    assert name == "the end after 9 frames" and "is cut off" in why


def test_gro_of_several_frames(tmp_path: Path) -> None:
    universe = mda.Universe(data.GRO, data.TRR)
    atoms = universe.atoms[:50]
    texts = []
    for ts in universe.trajectory[:3]:
        atoms.write(tmp_path / "one.gro")
        _, rest = (tmp_path / "one.gro").read_text().split("\n", 1)
        texts.append(f"made up t= {ts.time:.1f} step= {ts.frame * 5}\n{rest}")
        if ts.frame == 1:
            theirs = mda.Universe(tmp_path / "one.gro")
    (tmp_path / "run.gro").write_text("".join(texts))
    rows, report = table(tmp_path / "t.kubist", tmp_path / "run.gro")
    assert report.rows == 150
    second = rows.slice(50, 50)
    for axis, name in enumerate("xyz"):
        np.testing.assert_allclose(second[name], theirs.atoms.positions[:, axis], rtol=1e-6)
        np.testing.assert_allclose(second[f"v{name}"], theirs.atoms.velocities[:, axis], rtol=1e-5)
    assert (second["time"][0].as_py(), second["step"][0].as_py()) == (100.0, 5)
    cell = [second[f"cell_{edge}"][0].as_py() for edge in ("a", "b", "c", "alpha", "beta", "gamma")]
    np.testing.assert_allclose(cell, theirs.dimensions, rtol=1e-5)
    assert second["name"].to_pylist() == theirs.atoms.names.tolist()
    (tmp_path / "run.gro").write_text("".join(texts)[:-900])
    with pytest.raises(kubist.InvalidInput, match=r"run\.gro: frame 2 is cut off"):
        table(tmp_path / "t.kubist", tmp_path / "run.gro")


def test_what_an_atom_is(tmp_path: Path) -> None:
    read = {"topology": data.PSF}
    rows, _ = table(tmp_path / "t.kubist", Path(data.DCD), read=read)
    universe = mda.Universe(data.PSF, data.DCD)
    first = rows.slice(0, len(universe.atoms))
    assert first["name"].to_pylist() == universe.atoms.names.tolist()
    assert first["resname"].to_pylist() == universe.atoms.resnames.tolist()
    assert first["resid"].to_pylist() == universe.atoms.resids.tolist()
    found = kubist.open(tmp_path / "t.kubist").query(where="name = 'CA' AND frame = 3").to_arrow()
    assert len(found) == len(universe.select_atoms("name CA"))
    # Frames that MDAnalysis appends have the same columns.
    with mda.Writer(
        str(tmp_path / "t.kubist"), n_atoms=len(universe.atoms), append=True, format="KUBIST"
    ) as out:
        out.write(universe.atoms)
    last = kubist.open(tmp_path / "t.kubist").query(where="name = 'CA' AND frame = 98").to_arrow()
    assert len(last) == len(found)


def test_frames_that_a_header_counts(tmp_path: Path) -> None:
    raw = bytearray(Path(data.DCD).read_bytes())
    raw[8:12] = (120).to_bytes(4, "little")
    (tmp_path / "run.dcd").write_bytes(raw)
    _, report = table(tmp_path / "t.kubist", tmp_path / "run.dcd", read={"topology": data.PSF})
    assert "run.dcd: its header says 120 frames, there are 98" in report.notes


def xtc(file: Path, *times: float) -> Path:
    from MDAnalysis.lib.formats.libmdaxdr import XTCFile

    positions, box = np.ones((12, 3), "f4"), np.eye(3, dtype="f4") * 3
    with XTCFile(str(file), "w") as opened:
        for number, time in enumerate(times):
            opened.write(positions + number, box, number, time, 1000.0)
    return file


def test_frames_that_come_again_are_reported(tmp_path: Path) -> None:
    target = tmp_path / "t.kubist"
    report = kubist.ingest(target, xtc(tmp_path / "a.xtc", 0, 1, 1, 2))
    assert report.rows == 48
    [note] = report.notes
    assert note.startswith("1 frames are repeated or late, from frame 2 on: its time is 1 ps")
    later = xtc(tmp_path / "b.xtc", 2, 3)
    [note] = kubist.ingest(target, later).notes
    assert note.startswith("b.xtc: its frames begin at 2 ps, and frames up to 2 ps")
    # What the table has is not new.
    assert not kubist.ingest(target, later).notes
    assert not kubist.ingest(target, xtc(tmp_path / "c.xtc", 4, 5)).notes
    [note] = kubist.ingest(
        tmp_path / "u.kubist", [xtc(tmp_path / "d.xtc", 0, 5), xtc(tmp_path / "e.xtc", 3, 8)]
    ).notes
    assert note.startswith("e.xtc: its frames begin at 3 ps, and frames up to 5 ps")


@pytest.mark.parametrize("counted", [True, False])
def test_dcd_that_is_cut_off(tmp_path: Path, counted: bool) -> None:
    universe = mda.Universe(data.PSF, data.DCD)
    file, target = tmp_path / "run.dcd", tmp_path / "t.kubist"
    with mda.Writer(str(file), 12) as writer:
        for _ in universe.trajectory[:4]:
            writer.write(universe.atoms[:12])
    whole = file.read_bytes()
    kubist.ingest(target, file)
    assert kubist.open(target).count() == 48
    cut = bytearray(whole[:-100])
    if not counted:
        # As the header of a run that was ended.
        cut[8:12] = bytes(4)
    file.write_bytes(cut)
    with pytest.raises(
        kubist.InvalidInput, match=r"run\.dcd: frame 3, which begins at byte .* is cut off"
    ):
        table(target, file)
    _, report = table(target, file, keep_going=True)
    assert report.rows == 36
    assert list(report.left_out[str(file)]) == ["the end after 3 frames"]


def test_gro_of_other_atoms_later(tmp_path: Path) -> None:
    frame = (
        "w t= {}\n    2\n    1WAT     OW    1   0.100   0.200   0.300\n"
        "    1WAT    {}    2   0.400   0.500   0.600\n   1 1 1\n"
    )
    (tmp_path / "a.gro").write_text(frame.format(0, "HW1") + frame.format(1, "HW9"))
    with pytest.raises(kubist.InvalidInput, match="frame 1: atom 1 is 1WAT HW9, and was 1WAT HW1"):
        table(tmp_path / "t.kubist", tmp_path / "a.gro")


def test_xyz_whose_last_line_has_no_end(tmp_path: Path) -> None:
    for name, text in {"a": "1\n\nH 0.5 0.5 0.1", "b": "1\n\nbead 0.5 0.5 0.1"}.items():
        (tmp_path / f"{name}.xyz").write_text(text)
        _, report = table(tmp_path / "t.kubist", tmp_path / f"{name}.xyz")
        assert report.notes == [
            f"{name}.xyz: its last line has no end: the last value may be cut off"
        ]


def test_values_of_comments_that_become_fractions(tmp_path: Path) -> None:
    frame = '1\nProperties=species:S:1:pos:R:3 energy={} n=3 field="{} 0 1"\nH 0 0 0\n'
    (tmp_path / "a.extxyz").write_text(frame.format(0, 1) + frame.format(-1.25, 0.5))
    rows, _ = table(tmp_path / "t.kubist", tmp_path / "a.extxyz")
    assert rows["energy"].to_pylist() == [0, -1.25]
    assert rows["field_x"].to_pylist() == [1, 0.5]
    assert rows["n"].type == pa.int64()


def test_a_table_without_the_times_of_its_frames(tmp_path: Path) -> None:
    target = tmp_path / "t.kubist"
    kubist.ingest(
        target,
        xtc(tmp_path / "a.xtc", 0, 1),
        read={"columns": ["frame", "atom", "x", "y", "z"]},
    )
    report = kubist.ingest(
        target, xtc(tmp_path / "b.xtc", 0, 1), read={"columns": ["frame", "atom", "x", "y", "z"]}
    )
    assert report.rows == 24


def test_xyz_beyond_the_range(tmp_path: Path) -> None:
    for name, label in {"a": "C", "b": "bead"}.items():
        (tmp_path / f"{name}.xyz").write_text(f"1\n\n{label} 1e400 0 0\n")
        with pytest.raises(kubist.InvalidInput, match=rf"{name}\.xyz: frame 0: .*x is .*beyond the range"):
            table(tmp_path / "t.kubist", tmp_path / f"{name}.xyz")
