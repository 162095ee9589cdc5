"""`Table.info` warns when the use of a table does not fit its design."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kubist
from kubist.workloads.recorded import constrained

pa = pytest.importorskip("pyarrow")
COMMAND = Path(sys.executable).parent / "kubist"


def rows(count: int = 6_000) -> pa.Table:
    random = np.random.default_rng(4)
    columns = {name: random.random(count) for name in ("x", "y", "v")}
    return pa.table(columns | {"name": [f"star {n}" for n in range(count)]})


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, rows(), dimensions=["x", "y"])


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty record of queries that `info` reads."""
    file = tmp_path / "questions of today.jsonl"
    monkeypatch.setenv("KUBIST_RECORD", str(file))
    return file


def note(file: Path, table: str, count: int, **question: object) -> None:
    """Adds queries to a record, as a process with ``KUBIST_RECORD`` does."""
    line = {"at": 1.0, "table": table, "verb": "query", "question": question}
    with file.open("a") as out:
        out.write(f"{json.dumps(line)}\n" * count)


def run(advice: str) -> None:
    """Runs the command in an advice."""
    program, *arguments = shlex.split(advice.partition("Run: ")[2])
    assert program == "kubist"
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True)


def test_a_table_whose_use_fits_has_no_advice(table: kubist.Table, record: Path) -> None:
    assert table.info().advice == []
    note(record, table.location, 30, box={"x": [0, 0.1], "y": [0, 0.1]}, where="v > 0.5")
    note(record, table.location, 40, box={"y": [0, 0.1]})
    note(record, "another", 500, box={"v": [0, 0.1]})
    assert table.info().advice == []


def test_questions_of_this_process_are_advised_about(table: kubist.Table, tmp_path: Path) -> None:
    program = f"""
import os, kubist
t = kubist.open({table.location!r})
for i in range(25):
    t.query(box={{"v": (0.1, 0.2)}}).to_arrow()
print(t.info().advice[-1])
"""
    environment = os.environ | {"KUBIST_RECORD": str(tmp_path / "record.jsonl")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "kubist regrid" in done.stdout


def test_a_filtered_column_and_an_idle_dimension_are_mended(
    table: kubist.Table, record: Path
) -> None:
    note(record, table.location, 30, box={"y": [0, 0.1], "v": [0.1, 0.2]})
    filtered, idle = table.info().advice
    assert "100 % of 30 recorded questions limit v, which is no dimension" in filtered
    assert "limits x" in idle and "--dimensions y,v" in idle
    assert idle in str(table.info())
    printed = subprocess.run([COMMAND, "info", table.location], capture_output=True, text=True)
    assert filtered in printed.stdout and idle in printed.stdout
    run(idle)
    with kubist.open(table.location) as mended:
        assert [dimension.column for dimension in mended.info().dimensions] == ["y", "v"]
        assert mended.info().advice == []


def test_a_region_may_be_about_any_dimension(table: kubist.Table, record: Path) -> None:
    note(record, table.location, 30, region={"sphere": {}}, where="v < 0.1")
    (filtered,) = table.info().advice
    assert "--dimensions x,y,v" in filtered


def test_a_column_with_one_value_needs_a_secondary_index(table: kubist.Table, record: Path) -> None:
    note(record, table.location, 15, where="name = 'star 7'")
    assert table.info().advice == []
    note(record, table.location, 15, where="\"name\" IN ('star 7', 'star 8')", box={"x": [0, 1]})
    advice = table.info().advice
    assert "name, which is no dimension and has no secondary index" in advice[0]
    assert f"--queries {shlex.quote(str(record))}" in advice[-1]
    assert "kubist advise" in advice[-1]


def test_a_record_with_parts_of_lines_is_read(table: kubist.Table, record: Path) -> None:
    record.write_text('ble": "x"}\n[1]\n{"table": 3, "question": {}}\n')
    note(record, table.location, 30, where="v between 1 and 2", box={"x": 1, "y": [1, 2]})
    with record.open("a") as out:
        out.write('{"at": 1, "ta')
    (advice,) = table.info().advice
    assert "limit v" in advice


def test_small_commits_need_an_optimizer(table: kubist.Table) -> None:
    for start in range(0, 3_000, 100):
        table.append(rows().slice(start, 100))
    (advice,) = table.info().advice
    assert "31 commits have 290 records on average" in advice
    assert "3,000 of 9,000 records wait" in advice
    run(advice)
    assert table.info().advice == []


def test_the_columns_of_conditions_are_found() -> None:
    where = '"a" = 3 and b <> 4 and c <= 2 and d between 1 and 2 and e in (1, 2) and f != 2'
    assert constrained({"where": where}) == ({"c", "d"}, {"a", "e"})
    assert constrained({"box": {"x": [1, 1], "y": [1, 2], "z": 3}}) == ({"y"}, {"x", "z"})
