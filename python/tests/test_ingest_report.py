"""The rows, marks and reports of an ingestion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kubist


def dump(path: Path, steps: dict[int, str]) -> Path:
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
    # A continued run writes its last step again; the first rows stay.
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
    # Rows of a step in several commits have no mark, because a query could find a part.
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


# Parts that are left out, by format


def left_out(tmp_path: Path, file: Path) -> dict[str, str]:
    """The parts of a file that an ingestion lists; `strict` refuses the first."""
    report = kubist.ingest(tmp_path / "listed.kubist", file)
    found = report.left_out.get(str(file), {})
    if found:
        with pytest.raises(kubist.InvalidInput, match="would be left out"):
            kubist.ingest(tmp_path / "strict.kubist", file, read={"strict": True})
    return found


def test_lammps_items_that_are_not_known(tmp_path: Path) -> None:
    path = dump(tmp_path / "a.lammpstrj", {0: "", 1: ""})
    first, middle, second = path.read_text().rpartition("ITEM: TIMESTEP")
    second = second.replace("ITEM: NUMBER", "ITEM: MAGIC\n7\nITEM: NUMBER").replace("pp pp", "ff pp")
    path.write_text(first + middle + second)
    assert set(left_out(tmp_path, path)) == {"item MAGIC", "boundaries of later steps"}
    # The first step was in the table before the item was known.
    assert len(kubist.open(tmp_path / "strict.kubist")) == 2


def test_xyz_values_that_are_not_of_atoms(tmp_path: Path) -> None:
    pytest.importorskip("ase")
    file = tmp_path / "a.xyz"
    # A vector with the number of atoms is per frame.
    file.write_text(
        '3\nProperties=species:S:1:pos:R:3:move_mask:L:1 dipole="1 2 3" odd="_JSON {\\"a\\": 1}"\n'
        "H 0 0 0 T\nH 1 0 0 F\nO 2 0 0 T\n"
    )
    found = left_out(tmp_path, file)
    assert set(found) == {"value odd", "constraints"}
    rows = kubist.open(tmp_path / "listed.kubist").query(order_by="atom").to_numpy()
    assert rows["dipole_y"].tolist() == [2, 2, 2]
    plain = tmp_path / "b.xyz"
    plain.write_text("1\nstep 5 of run\nbead 0 0 0\n")
    assert list(kubist.ingest(tmp_path / "t.kubist", plain).left_out[str(plain)]) == ["comments"]


def test_h5part_with_columns_that_come_later(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    file = tmp_path / "a.h5part"
    with h5py.File(file, "w") as out:
        for step in range(2):
            group = out.create_group(f"Step#{step}")
            group.attrs["TimeValue"] = [0.5 * step]
            group.attrs["current"] = 3.0
            for name in ("x", "y", "z", *["late"] * step):
                group[name] = np.arange(4.0)
            group["vectors"] = np.zeros((4, 3))
            group["names"] = np.array([b"a"] * 4)
        out["Block/E"] = np.zeros(3)
    assert set(left_out(tmp_path, file)) == {"Block", "attribute current", "vectors", "names"}
    rows = kubist.open(tmp_path / "listed.kubist").query(order_by=["time", "x"]).to_arrow()
    assert rows["late"].to_pylist() == [None] * 4 + [0, 1, 2, 3]


def test_openpmd_takes_or_lists_every_record(tmp_path: Path) -> None:
    io = pytest.importorskip("openpmd_api")
    file = tmp_path / "a.h5"
    series = io.Series(str(file), io.Access.create)
    series.author = "A. Person"

    def store(record: object, values: np.ndarray) -> None:
        record.reset_dataset(io.Dataset(values.dtype, values.shape))
        record[:] = values

    for number in (0, 10):
        iteration = series.iterations[number]
        iteration.time = number * 0.1
        iteration.set_attribute("laser", 3.0)
        iteration.set_attribute("window", [1.0, 2.0])
        electrons = iteration.particles["e"]
        for axis in "xy":
            store(electrons["position"][axis], np.arange(5.0))
        store(electrons["wave"][io.Record_Component.SCALAR], np.zeros(5, "c16"))
        if number:
            store(electrons["late"][io.Record_Component.SCALAR], np.arange(5.0))
        store(iteration.meshes["E"]["x"], np.zeros(3))
    series.flush()
    series.close()
    assert set(left_out(tmp_path, file)) == {"mesh E", "e/wave", "attribute window"}
    table = kubist.open(tmp_path / "listed.kubist")
    rows = table.query(order_by=["time", "x"]).to_arrow()
    assert rows["late"].to_pylist() == [None] * 5 + [0, 1, 2, 3, 4]
    assert set(rows["laser"].to_pylist()) == {3}
    assert table.metadata["openpmd"]["attributes"]["author"] == "A. Person"


HEADER = "FoamFile {{ version 2.0; format ascii; class {}; object a; }}\n"


def test_openfoam_lists_what_is_not_of_parcels(tmp_path: Path) -> None:
    case = tmp_path / "case"
    for rank in (0, 2):
        for time in ("0.1", "0.2"):
            cloud = case / f"processor{rank}" / time / "lagrangian" / "c"
            cloud.mkdir(parents=True)
            (cloud / "positions").write_text(HEADER.format("Cloud") + "1\n(\n(1 2 3) 0\n)\n")
            (cloud / "d").write_text(HEADER.format("scalarField") + "1\n(\n0.5\n)\n")
            (cloud / "kind").write_text(HEADER.format("wordField") + "1\n(\nwater\n)\n")
            (cloud.parents[1] / "U.gz").write_bytes(b"")
    (case / "processor0/0.1/uniform").mkdir()
    for name in ("U.gz", "lagrangian/c/kind", "lagrangian/c/d", "lagrangian/c/positions"):
        (case / "processor2/0.2" / name).unlink()
    (case / "processor2/0.2/lagrangian/c").rmdir()
    (case / "processor2/0.2/lagrangian").rmdir()
    (case / "processor2/0.2").rmdir()
    assert set(left_out(tmp_path, case)) == {
        "field U", "folder uniform", "c/kind", "processor1", "processor2 at time 0.2",
    }  # fmt: skip
    assert len(kubist.open(tmp_path / "listed.kubist")) == 3


# Headers that differ between files


def test_headers_of_all_files_are_in_the_metadata(tmp_path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    files = []
    for name, cards in {
        "a": {"EXPTIME": 30.0, "FILTER": "R"},
        "b": {"EXPTIME": 60.0, "FILTER": "R", "SEEING": 0.8},
        "c": {"FILTER": "R"},
    }.items():
        columns = [fits.Column(axis, "D", array=np.arange(3.0)) for axis in ("RA", "DEC")]
        hdu = fits.BinTableHDU.from_columns(columns)
        hdu.header.update(cards)
        files.append(tmp_path / f"{name}.fits")
        hdu.writeto(files[-1])
    table = tmp_path / "t.kubist"
    kubist.ingest(table, files[:2])
    # One change for all, because each reader of a table reads all changes.
    assert len(list((table / "alterations").iterdir())) == 1
    kubist.ingest(table, files[2])
    metadata = kubist.open(table).metadata
    assert metadata["fits"]["EXPTIME"] == 30
    assert metadata[f"fits of {files[1]}"] == {"EXPTIME": 60, "SEEING": 0.8}
    assert metadata[f"fits of {files[2]}"] == {"EXPTIME": None}
    assert not kubist.ingest(table, files).rows
    assert kubist.open(table).metadata == metadata


def test_attributes_of_arrays_are_in_the_metadata(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as out:
        out.attrs["title"], out.attrs["levels"] = "sea", [b"low", b"high"]
        out["T"] = np.arange(4.0)
        out["T"].attrs["long_name"], out["T"].attrs["limit"] = "temperature", np.nan
        out.create_group("notes").attrs["by"] = "me"
    kubist.ingest(tmp_path / "t.kubist", file)
    assert kubist.open(tmp_path / "t.kubist").metadata["arrays"] == {
        "attributes": {"title": "sea", "levels": ["low", "high"]},
        "groups": {"notes": {"by": "me"}},
        "variables": {"T": {"long_name": "temperature", "limit": "nan"}},
    }


# Columns of an existing table


def test_dates_of_any_format_keep_their_digits(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for name in ("fits", "csv"):
        table = tmp_path / f"{name}.kubist"
        start = {"x": np.zeros(1, "f4"), "JD": np.zeros(1, "f4")}
        kubist.create(table, start, dimensions=["x"])
        file = tmp_path / f"a.{name}"
        if name == "csv":
            file.write_text("x,JD\n1,2460000.123\n")
        else:
            file = tmp_path / "a.h5"
            with h5py.File(file, "w") as out:
                out["x"], out["JD"] = [1.0], [2460000.123]
        with pytest.raises(kubist.InvalidInput, match="JD.*2460000.123 is a date"):
            kubist.ingest(table, file)
        assert len(kubist.open(table)) == 1


@pytest.mark.parametrize(
    ("kind", "values", "wrong"),
    [("u4", [2**33], 2**33), ("u8", [3, -1], -1), ("i8", [2**64 - 1], 2**64 - 1), ("u4", [7], None)],
)
def test_integers_of_a_wider_type(
    tmp_path: Path, kind: str, values: list[int], wrong: int | None
) -> None:
    table = tmp_path / "t.kubist"
    kubist.create(table, {"x": np.zeros(1), "id": np.zeros(1, kind)}, dimensions=["x"])
    file = tmp_path / "a.npz"
    np.savez(file, x=np.zeros(len(values)), id=np.array(values))
    if wrong is None:
        assert kubist.ingest(table, file).rows == 1
        return
    with pytest.raises(kubist.InvalidInput, match=f"id, row .: {wrong} does not fit .* types=id="):
        kubist.ingest(table, file)


def test_a_file_that_fails_adds_no_columns(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    kubist.ingest(table, dump(tmp_path / "a.lammpstrj", {0: ""}))
    wrong = dump(tmp_path / "b.lammpstrj", {5: "vx"})
    wrong.write_text(wrong.read_text().replace(".2 .2 .2", ".2 nan .2"))
    with pytest.raises(kubist.InvalidInput, match="y is nan"):
        kubist.ingest(table, wrong)
    (tmp_path / "c.csv").write_text("id,x,y,z,step,new\n7,.1,.1,.1,9,1\n7,.1,.1,one,9,1\n")
    with pytest.raises(kubist.InvalidInput, match="cannot read"):
        kubist.ingest(table, tmp_path / "c.csv")
    assert not {"vx", "new"} & set(kubist.open(table).columns)
