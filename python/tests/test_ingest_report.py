"""What an ingestion adds, marks and reports, whatever the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kubist


def dump(path: Path, steps: dict[int, str]) -> Path:
    """A LAMMPS dump of two atoms; the text of a step names more columns."""
    frames = []
    for step, more in steps.items():
        values = " 5" * len(more.split())
        frames.append(
            f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 1\n0 1\n0 1\n"
            f"ITEM: ATOMS id x y z {more}\n1 .1 .1 .1{values}\n2 .2 .2 .2{values}\n"
        )
    path.write_text("".join(frames))
    return path


def test_queries_find_the_steps_of_a_file(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    kubist.ingest(table, dump(tmp_path / "a.lammpstrj", {0: "", 10: "", 20: ""}))
    found = kubist.open(table)
    assert found.snapshot().complete_steps() == [0, 10, 20]
    assert set(found.query(steps=10).to_numpy()["step"]) == {10}
    # A run that was continued writes its last step again: the first rows are those of the step.
    report = kubist.ingest(table, dump(tmp_path / "b.lammpstrj", {20: "", 30: ""}), again=True)
    assert report.rows == 4
    assert found.snapshot().complete_steps() == [0, 10, 20, 30]
    assert (found.count(steps=20), found.count(where="step = 20")) == (2, 4)


@pytest.mark.parametrize("groups", [1, 2])
def test_h5md_has_the_steps_of_one_group(tmp_path: Path, groups: int) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        for name in "ab"[:groups]:
            position = file.create_group(f"particles/{name}/position")
            position["value"], position["step"] = np.arange(12.0).reshape(2, 2, 3), [5, 7]
            position["time"] = [0.5, 0.7]
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5")
    found = kubist.open(tmp_path / "t.kubist")
    # Rows of a step that are in several commits have no mark: a part of a step would be found.
    assert found.snapshot().complete_steps() == ([5, 7] if groups == 1 else [])


def test_a_column_that_a_later_step_brings(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    report = kubist.ingest(table, dump(tmp_path / "a.lammpstrj", {0: "", 1: "vx", 2: ""}))
    assert report.columns_added == ["vx"]
    found = kubist.open(table).query(order_by=["step", "id"]).to_numpy()
    assert found["vx"].tolist() == pytest.approx([np.nan] * 2 + [5, 5] + [np.nan] * 2, nan_ok=True)


def test_what_is_left_out_is_reported_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n3 0 0 0\n"
    )
    pytest.importorskip("plyfile")
    table, path = tmp_path / "t.kubist", str(tmp_path / "a.ply")
    with pytest.raises(kubist.InvalidInput, match=r"a\.ply: element face .* would be left out.*strict"):
        kubist.ingest(table, path, read={"strict": True})
    assert not table.exists()
    for again in (False, True):
        # Also of a file that goes into a table that is there.
        report = kubist.ingest(table, path, again=again)
        assert list(report.left_out) == [path]
        assert [name.split()[:2] for name in report.left_out[path]] == [["element", "face"]]
    assert "left out    element face" in str(kubist.ingest(tmp_path / "u", path, dry_run=True))


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_file_that_fails_leaves_no_table(tmp_path: Path, keep_going: bool) -> None:
    table = tmp_path / "t.kubist"
    path = dump(tmp_path / "a.lammpstrj", {0: ""})
    path.write_text(path.read_text().replace(".2 .2 .2", ".2 nan .2"))
    if keep_going:
        assert list(kubist.ingest(table, path, keep_going=True).failed) == [str(path)]
    else:
        with pytest.raises(kubist.InvalidInput, match="y is nan"):
            kubist.ingest(table, path)
    assert not table.exists()
    # What is there stays.
    kubist.ingest(table, dump(tmp_path / "b.lammpstrj", {0: ""}))
    with pytest.raises(kubist.InvalidInput):
        kubist.ingest(table, path)
    assert len(kubist.open(table)) == 2


def test_a_table_whose_writers_are_declared_gets_no_steps_of_others(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    kubist.ingest(table, dump(tmp_path / "a.lammpstrj", {0: ""}))
    with kubist.open(table) as opened:
        opened.declare_writers(["rank 0"])
    kubist.ingest(table, dump(tmp_path / "b.lammpstrj", {5: ""}))
    found = kubist.open(table)
    assert 5 not in found.snapshot().complete_steps() and found.count(where="step = 5") == 2
