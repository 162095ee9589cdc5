"""A real solver: OpenFOAM writes its droplets into a table, compared with its own files.

`make test-openfoam` installs OpenFOAM, its headers, and the built adapter.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from libkubist import ROOT, install
from test_insitu_demo import shown

import kubist

sys.path.insert(0, str(ROOT / "examples/insitu"))
import airway  # noqa: E402

pytestmark = pytest.mark.release

ADAPTER = Path(os.environ.get("KUBIST_OPENFOAM", ROOT / "target/openfoam"))
ORDER = [(name, "ascending") for name in ("time", "origProcId", "origId")]
# Powers of two, so that a folder's name is exactly the time.
SMALL = {
    "across": 5,
    "along": 25,
    "timeStep": 2**-7,
    "endTime": 0.375,
    "parcels": 4000,
    "everySteps": 4,
    "fileSteps": 4,
}
SOLVER = "icoUncoupledKinematicParcelFoam"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    reason = airway.missing(ADAPTER)
    if reason is not None:
        pytest.skip(f"{reason}: make test-openfoam")
    return airway.environment(ADAPTER, install(tmp_path_factory.mktemp("installed")))


def flow(folder: Path, env: dict[str, str], ranks: int, choices: str = "") -> Path:
    case = airway.copied(folder, **SMALL)
    (case / "system/cloud").unlink()
    (case / "system/choices").write_text(choices)
    airway.run(case, "blockMesh", env)
    airway.run(case, "potentialFoam", env)
    if ranks > 1:
        airway.decompose(case, ranks, env)
    return case


def of_the_solvers_files(case: Path, path: Path) -> pa.Table:
    kubist.ingest(path, case)
    return kubist.open(path).query().to_arrow().sort_by(ORDER)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert set(found.column_names) == set(expected.column_names)
    assert len(found) == len(expected) > 1000
    for name in expected.column_names:
        assert found.schema.field(name).type == expected.schema.field(name).type
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize(
    ("ranks", "mode", "logs"), [(1, "auto", 1), (2, "rank", 2), (2, "node", 1), (3, "auto", 3)]
)
def test_a_table_equals_the_solvers_own_files(
    env: dict[str, str], tmp_path: Path, ranks: int, mode: str, logs: int
) -> None:
    case = flow(tmp_path / "case", env, ranks, f"mode {mode};")
    told = airway.run(case, SOLVER, env, ranks)
    table = kubist.open(case / "airway.kubist")
    assert list(table.snapshot().complete_steps()) == list(range(4, 49, 4))
    assert len(table.info().writers) == logs
    assert table.info().identity == ["origProcId", "origId", "time"]
    expected = of_the_solvers_files(case, tmp_path / "files.kubist")
    assert_same(table.query().to_arrow().sort_by(ORDER), expected)
    assert re.search(r"kubistCloud droplets: 12 steps to .*; the slowest rank waited", told)


def test_the_ends_of_droplets_are_those_that_the_solver_counts(
    env: dict[str, str], tmp_path: Path
) -> None:
    case = flow(tmp_path / "case", env, 2)
    told = airway.run(case, SOLVER, env, 2)
    table = kubist.open(case / "airway-ends.kubist")
    ends = table.query().to_arrow()
    patches = table.info().metadata["openfoam"]["patches"]
    assert patches == ["inlet", "upper", "lower", "walls"]
    fates = re.findall(
        r"patch (\w+) \(number, mass\)\s*- escape\s*= (\d+), (\S+)\s*- stick\s*= (\d+), (\S+)", told
    )
    last = {name: numbers for name, *numbers in fates}
    masses = 1000 * np.pi / 6 * np.asarray(ends["d"]) ** 3
    named, stuck = np.asarray(ends["patch"]), np.asarray(ends["deposited"])
    for number, patch in enumerate(patches):
        escaped, mass_escaped, deposited, mass_deposited = map(float, last[patch])
        counted = ((~stuck, escaped, mass_escaped), (stuck, deposited, mass_deposited))
        for one, count, mass in counted:
            rows = one & (named == number)
            assert rows.sum() == count, patch
            np.testing.assert_allclose(masses[rows].sum(), mass, rtol=1e-9)
    assert min(stuck.sum(), (~stuck).sum()) > 20
    # The solver's last file has stuck droplets at the positions of the events.
    files = of_the_solvers_files(case, tmp_path / "files.kubist")
    lying = files.filter(
        pc.and_(
            pc.equal(files["time"], SMALL["endTime"]), pa.compute.equal(files["active"], 0)
        )
    )
    order = [("origProcId", "ascending"), ("origId", "ascending")]
    found, expected = ends.filter(ends["deposited"]).sort_by(order), lying.sort_by(order)
    for name in ("origProcId", "origId", "d"):
        np.testing.assert_array_equal(found[name], expected[name])
    for axis in "xyz":
        np.testing.assert_allclose(found[axis], expected[axis], atol=1e-12)


def test_a_run_that_goes_on_from_a_checkpoint_has_each_step_once(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Nothing of an earlier run remains after the checkpoint."""
    case = flow(tmp_path / "case", env, 2)
    airway.run(case, SOLVER, env, 2)
    for rank in (0, 1):
        for folder in (case / f"processor{rank}").iterdir():
            if re.fullmatch(r"[\d.]+", folder.name) and float(folder.name) > 0.1875:
                shutil.rmtree(folder)
    airway.run(case, SOLVER, env, 2)
    table = kubist.open(case / "airway.kubist")
    assert list(table.snapshot().complete_steps()) == list(range(4, 49, 4))
    found = table.query().to_arrow().sort_by(ORDER)
    assert_same(found, of_the_solvers_files(case, tmp_path / "files.kubist"))


def test_a_budget_is_of_all_ranks(env: dict[str, str], tmp_path: Path) -> None:
    case = flow(tmp_path / "case", env, 2, "budget { budget_rows_per_step 500; }")
    airway.run(case, SOLVER, env, 2)
    table = kubist.open(case / "airway.kubist")
    expected = of_the_solvers_files(case, tmp_path / "files.kubist")
    found = table.query(columns=expected.column_names).to_arrow().sort_by(ORDER)
    names = [name for name, _ in ORDER]
    own, of_files = (set(zip(*(t[n].to_pylist() for n in names), strict=True)) for t in (found, expected))
    assert own < of_files
    records = Counter(expected["time"].to_pylist())
    for time, kept in Counter(found["time"].to_pylist()).items():
        assert kept == records[time] if records[time] <= 500 else 475 <= kept <= 500
    assert max(records.values()) > 500
    assert table.estimate("count()").value == len(expected)


def test_fields_and_what_a_sample_is_are_chosen(env: dict[str, str], tmp_path: Path) -> None:
    choices = 'fields (d "U.*"); sample paths; table "chosen.kubist"; options { capacity 512; }'
    case = flow(tmp_path / "case", env, 1, choices)
    airway.run(case, SOLVER, env)
    table = kubist.open(case / "chosen.kubist")
    names = {column.name for column in table.info().columns}
    velocities = {f"{field}_{axis}" for field in ("U", "UTurb") for axis in "xyz"}
    assert names == {"x", "y", "z", "time", "d", "origId", "origProcId"} | velocities
    assert table.info().identity == ["origProcId", "origId"]
    assert table.info().capacity == 512
    part = table.query(sample=0.2).to_arrow()
    kept = {*zip(part["origProcId"].to_pylist(), part["origId"].to_pylist(), strict=True)}
    whole = table.query().to_arrow()
    pairs = zip(whole["origProcId"].to_pylist(), whole["origId"].to_pylist(), strict=True)
    assert len(part) == sum(pair in kept for pair in pairs)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ("fields (temperature);", "has no field temperature; it has"),
        ("mode both;", "both is none of auto, rank, node"),
        ('writer { when_full "drop"; }', "unknown variant `drop`"),
        ("options { capacity (1 2); }", "capacity: a number, a word or a string is wanted"),
    ],
)
def test_a_wrong_choice_ends_the_run_and_says_why(
    env: dict[str, str], tmp_path: Path, choices: str, said: str
) -> None:
    case = flow(tmp_path / "case", env, 2, choices)
    with pytest.raises(RuntimeError, match=said):
        airway.run(case, SOLVER, env, 2)


def test_a_table_that_cannot_be_written_need_not_end_the_run(
    env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    case = flow(tmp_path / "case", env, 2, f'table "{file}/t.kubist"; onFailure warn;')
    told = airway.run(case, SOLVER, env, 2)
    assert "the run goes on, and nothing more is written to" in told
    assert len(list((case / "processor0").iterdir())) > 12


def test_the_demo_runs_with_openfoam(env: dict[str, str], tmp_path: Path) -> None:
    told = shown(tmp_path, OPENFOAM=str(ADAPTER))
    assert "OpenFOAM: a mesh, in two parts" in told
    table = kubist.open(tmp_path / "demo/case/airway.kubist")
    assert list(table.snapshot().complete_steps()) == list(range(5, 31, 5))
    assert f"{len(table):,} records in 6 steps, " in told
    assert (tmp_path / "demo/airway.png").read_bytes().startswith(b"\x89PNG")
