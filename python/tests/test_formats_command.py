"""`kubist ingest` and `kubist query -o` of formats that the Python package handles.

LAMMPS dumps and OpenFOAM clouds need only pyarrow.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from servers import COMMAND

import kubist

DATA = Path(__file__).parent / "data"
MELT = DATA / "lammps" / "melt.dump.gz"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_reads_what_python_reads(path: Path) -> None:
    shown = run("ingest", path, MELT, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "format      lammps" in shown.stdout
    assert "steps       3, 0 of them in the table already" in shown.stdout
    assert not path.exists()
    done = run(
        *["ingest", path, MELT, "--json", "--dimensions", "x=-1:5,y,z,step"],
        *["--create", "units=x=sigma", "--create", "metadata=run=7"],
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["rows"], report["created"], report["skipped"]) == (96, True, 0)
    table = kubist.open(path)
    assert (table.units, table.metadata["run"]) == ({"x": "sigma"}, 7)
    dimensions = table.info().dimensions
    assert [d.column for d in dimensions] == ["x", "y", "z", "step"]
    assert (dimensions[0].low, dimensions[0].high) == (-1, 5)
    again = json.loads(run("ingest", path, MELT, "--json").stdout)
    assert (again["rows"], again["skipped"]) == (0, 3)


def test_commits_of_so_many_records_are_refused_where_a_step_is_one(path: Path) -> None:
    refused = run("ingest", path, MELT, "--commit-rows", 10)
    assert refused.returncode == 2
    assert "leave out --commit-rows" in refused.stderr and not path.exists()


def test_a_folder_through_the_command(path: Path) -> None:
    done = run("ingest", path, DATA / "openfoam" / "decomposed", "--follow=0.1")
    assert done.returncode == 0, done.stderr
    assert len(kubist.open(path)) == 62


def test_failures_have_the_exit_codes_of_the_command(path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.dump"
    broken.write_text("ITEM: TIMESTEP\nzero\n")
    failed = run("ingest", path, broken)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("kubist: error: ") and "broken.dump: byte" in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not path.exists()
    good = shutil.copy(MELT, tmp_path / "a.dump.gz")
    failed = run("ingest", path, broken, good, "--keep-going")
    assert failed.returncode == 2 and "broken.dump" in failed.stderr
    assert len(kubist.open(path)) == 96
    strange = tmp_path / "strange.bin"
    strange.write_bytes(b"nobody knows what this is")
    failed = run("ingest", path, strange)
    assert failed.returncode == 2 and "of no known format" in failed.stderr
    assert run("ingest", path, tmp_path / "no-such.csv").returncode == 3


@pytest.mark.filterwarnings("default")
def test_a_query_goes_to_a_file_of_others(path: Path, tmp_path: Path) -> None:
    plain = run("ingest", path, MELT)
    assert plain.returncode == 0, plain.stderr
    failed = run("query", path, "--columns", "x,y", "-o", tmp_path / "out.vtp")
    assert failed.returncode == 2 and "there is no column z" in failed.stderr
    laspy = pytest.importorskip("laspy", reason="laspy is not installed")
    done = run(
        "query", path, "--box", "step=10:10", "-o", tmp_path / "out.las", "--columns", "x,y,z,id"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(laspy.read(tmp_path / "out.las")["id"]) == list(range(1, 33))
