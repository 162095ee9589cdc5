"""The demo of a running simulation: `make demo-insitu`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from libkubist import ROOT, install, need, run
from servers import COMMAND

import kubist

pytestmark = pytest.mark.release


def shown(folder: Path, **environment: str) -> str:
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), *sys.path])}
    command = [sys.executable, ROOT / "examples/insitu/demo.py", install(folder / "installed")]
    options = ["--kubist", COMMAND, "--no-browser", "--short", "--output", folder / "demo"]
    return run(*command, *options, env=os.environ | paths | environment)


def test_the_demo_shows_a_run_and_ends_with_its_figures(tmp_path: Path) -> None:
    need("mpicc.openmpi", "mpirun.openmpi")
    told = shown(tmp_path, OPENFOAM=str(tmp_path / "nowhere"))
    assert "Without OpenFOAM, for " in told
    assert re.search(r"View it while it runs: http://127\.0\.0\.1:\d+/", told)
    table = kubist.open(tmp_path / "demo/airway.kubist")
    assert list(table.snapshot().complete_steps()) == list(range(1, 7))
    assert f"{len(table):,} records in 6 steps, " in told
    assert re.search(r"the solver waited [\d.]+ ms a step, .* % of its time", told)
    assert (tmp_path / "demo/airway.png").read_bytes().startswith(b"\x89PNG")
    # Droplets stay where a wall stopped them.
    lying = table.query(where="active = 0").to_arrow()
    assert len(lying) > 0 and set(lying["U_x"].to_pylist()) == {0.0}
