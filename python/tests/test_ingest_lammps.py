"""Dumps of LAMMPS as users have them: words, counts that disagree, styles of units, ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import kubist


def step(number: object, columns: str, *atoms: str, count: object = None, before: str = "") -> str:
    many = len(atoms) if count is None else count
    return (
        f"{before}ITEM: TIMESTEP\n{number}\nITEM: NUMBER OF ATOMS\n{many}\nITEM: BOX BOUNDS pp pp pp\n"
        f"0 1\n0 1\n0 1\nITEM: ATOMS {columns}\n" + "".join(f"{atom}\n" for atom in atoms)
    )


def test_columns_of_words(tmp_path: Path) -> None:
    file, table = tmp_path / "run.dump", tmp_path / "t.kubist"
    columns = "id type x y z resname i_big"
    file.write_text(
        step(0, columns, "1 C 1 2 3 ALA 9007199254740993", "2 H2O 4 5 6 GLY 5")
        + step(2**53 + 1, columns, "1 C 1 2 3 7 1")
    )
    kubist.ingest(table, file)
    rows = kubist.open(table).query(order_by=["step", "id"]).to_arrow().to_pydict()
    assert rows["type"] == ["C", "H2O", "C"]
    assert rows["resname"] == ["ALA", "GLY", "7"]
    assert rows["i_big"] == [2**53 + 1, 5, 1]
    assert rows["step"] == [0, 0, 2**53 + 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (step(0, "id x y z", "1 1 2 3", "2 1 2 3", count=1), "step 0 has more than the 1 atoms"),
        (
            step(0, "id x y z", "1 1 2 3", count=2) + step(1, "id x y z"),
            "row 1 of 2.*ITEM: TIMESTEP",
        ),
        (step(0, "id x y z", "1 1 2 3", count="1.7"), r"1\.7.*no integer"),
        (step("0.5", "id x y z", "1 1 2 3"), r"0\.5.*no integer"),
        (step(0, "id x y z x", "1 1 2 3 4"), "two columns are named x"),
        (step(0, "id x y z", "1 1 2 3", "2 1 oops 3"), "row 1: y is 'oops', no number"),
        (step(0, "id x y z", "1 1 2 3")[:40], "ends in the header"),
    ],
)
def test_dumps_that_disagree_leave_nothing(tmp_path: Path, text: str, message: str) -> None:
    file, table = tmp_path / "run.dump", tmp_path / "t.kubist"
    file.write_text(text)
    with pytest.raises(kubist.InvalidInput, match=message):
        kubist.ingest(table, file)
    assert not table.exists()


def test_a_last_line_without_end_is_reported(tmp_path: Path) -> None:
    file, table = tmp_path / "run.dump", tmp_path / "t.kubist"
    file.write_text(step(0, "id x y z", "1 1 2 3.125")[:-3])
    report = kubist.ingest(table, file)
    assert any("run.dump: its last line has no end" in note for note in report.notes)


def test_styles_of_units_are_not_mixed(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"

    def dump(name: str, number: int, style: str, columns: str = "") -> Path:
        file = tmp_path / f"{name}.dump"
        values = " 1" * len(columns.split())
        file.write_text(
            step(
                number,
                f"id x y z {columns}",
                f"1 .5 .5 .5{values}",
                before=f"ITEM: UNITS\n{style}\n",
            )
        )
        return file

    kubist.ingest(table, dump("metal", 0, "metal", "fx"))
    kubist.ingest(table, dump("nano", 1, "nano"))
    rows = kubist.open(table).query(order_by=["step"]).to_arrow().to_pydict()
    assert rows["x"] == pytest.approx([0.5, 5])
    for style, columns, what in (("real", "fx", "fx"), ("lj", "", "x, y, z")):
        with pytest.raises(kubist.InvalidInput, match=rf"style {style}, .*metal.*{what}"):
            kubist.ingest(table, dump(style, 2, style, columns))
    assert kubist.open(table).count() == 2


def test_steps_that_the_table_has_are_reported(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    for name, numbers in {"a": (10, 20), "b": (20, 15, 30)}.items():
        (tmp_path / f"{name}.dump").write_text(
            "".join(step(n, "id x y z", "1 1 2 3") for n in numbers)
        )
        report = kubist.ingest(table, tmp_path / f"{name}.dump")
    [note] = report.notes
    assert note.startswith("2 steps are repeated or late, from step 20 on")
    assert kubist.open(table).snapshot().complete_steps() == [10, 20, 30]


def test_numbers_beyond_the_range_are_not_infinite(tmp_path: Path) -> None:
    file, table = tmp_path / "run.dump", tmp_path / "t.kubist"
    file.write_text(step(0, "id x y z q", "1 .1 .1 .1 -inf", "2 .1 .1 .1 1e400"))
    with pytest.raises(kubist.InvalidInput, match="row 1: q is 1e400, beyond the range of float64"):
        kubist.ingest(table, file)
    file.write_text(step(0, "id x y z q", "1 .1 .1 .1 -inf"))
    kubist.ingest(table, file)
    assert kubist.open(table).query().to_arrow()["q"].to_pylist() == [float("-inf")]
