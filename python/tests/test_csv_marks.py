"""Missing values, decimal marks and type previews of CSV, from Python and the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from servers import COMMAND

import kubist

TEXT = "id;x;name;when\n1;0,5;NA;2020-01-01\n-999;1,5;b,5;2020-01-02\n3;-999;;2020-01-03\n"
EXPECTED = [
    {"id": 1, "x": 0.5, "name": None},
    {"id": None, "x": 1.5, "name": "b,5"},
    {"id": 3, "x": None, "name": None},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "ingest", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


READ = ("--read", "decimal=,", "--read", "null=NA,-999")


def rows(table: kubist.Table) -> list[dict[str, object]]:
    found = table.query(columns=["id", "x", "name"], order_by='"when"').to_arrow()
    return found.to_pylist()


def test_python_and_the_command_read_the_same(file: Path, tmp_path: Path) -> None:
    read = {"decimal": ",", "null": ["NA", "-999"]}
    kubist.ingest(tmp_path / "p", file, dimensions=["when"], read=read)
    done = run(tmp_path / "c", file, "--dimensions", "when", *READ)
    assert done.returncode == 0, done.stderr
    assert rows(kubist.open(tmp_path / "p")) == rows(kubist.open(tmp_path / "c")) == EXPECTED


@pytest.mark.parametrize("null", ["NA,-999", "NA, -999", ["NA", -999], ("NA", "-999")])
def test_words_for_null_have_several_forms(file: Path, tmp_path: Path, null: object) -> None:
    read = {"decimal": ",", "null": null}
    kubist.ingest(tmp_path / "t", file, dimensions=["when"], read=read)
    assert rows(kubist.open(tmp_path / "t")) == EXPECTED


@pytest.mark.parametrize("null", [True, [None], [["NA"]], object()])
def test_other_words_for_null_are_refused(file: Path, tmp_path: Path, null: object) -> None:
    with pytest.raises(kubist.InvalidInput, match="null: "):
        kubist.ingest(tmp_path / "t", file, dimensions=["when"], read={"null": null})


def test_a_dry_run_previews_the_types(file: Path, tmp_path: Path) -> None:
    plain = run(tmp_path / "t", file, "--dimensions", "when", "--dry-run").stdout
    done = run(tmp_path / "t", file, "--dimensions", "when", "--dry-run", *READ).stdout
    types = [
        dict(line.split() for line in one.partition("columns\n")[2].splitlines())
        for one in (plain, done)
    ]
    assert [one["x"] for one in types] == ["string", "double"]
    assert types[1] == {"id": "int64", "x": "double", "name": "string", "when": "date32[day]"}
    assert not (tmp_path / "t").exists()


def test_other_decimal_marks_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(kubist.InvalidInput, match="decimal: a decimal mark is"):
        kubist.ingest(tmp_path / "t", file, dimensions=["when"], read={"decimal": ";"})
    done = run(tmp_path / "t", file, "--dimensions", "when", "--read", "decimal=;")
    assert done.returncode == 2 and "a decimal mark is . or ," in done.stderr
