"""Programs and tests are compiled with the same features, so that nothing is compiled twice."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# arrow-csv v60.1.0 [default,std] (*)
LINE = re.compile(r"^(\S+ v\S+).*?\[([^]]*)\](?: \(\*\))?$")


def features(edges: str) -> dict[str, set[str]]:
    """The features of each package of the workspace's dependencies, by package."""
    command = ["cargo", "tree", "--locked", "--workspace", "--edges", edges]
    command += ["--prefix", "none", "--format", "{p} [{f}]"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        if match := LINE.match(line):
            found.setdefault(match[1], set()).add(match[2])
    assert found
    return found


def test_tests_add_no_feature_to_what_programs_are_made_of() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    programs, tests = features("normal,build"), features("normal,build,dev")
    twice = {name: tests[name] for name in programs if programs[name] != tests[name]}
    assert not twice, f"name these features in Cargo.toml, or the tests compile them anew: {twice}"
