"""The workspace compiles nothing twice, and leaves out no test."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LINE = re.compile(r"^(\S+ v\S+).*?\[([^]]*)\](?: \(\*\))?$")


def features(edges: str, *members: str) -> dict[str, set[str]]:
    command = ["cargo", "tree", "--locked", *members, "--edges", edges]
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
    benchmarks = features("normal,build", "--workspace")
    twice = {name: benchmarks[name] for name in programs if programs[name] != benchmarks[name]}
    assert not twice, f"the benchmarks compile these anew: {twice}"


def test_no_file_of_tests_is_left_out() -> None:
    """A crate's integration tests are one program, which must name every file."""
    chosen = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["default-members"]
    built = {crate.name for pattern in chosen for crate in ROOT.glob(pattern)} | {"kubist-bench"}
    crates = {manifest.parent.name for manifest in ROOT.glob("crates/*/*/Cargo.toml")}
    assert crates <= built, f"no default members: {crates - built}"
    for manifest in ROOT.glob("crates/*/*/Cargo.toml"):
        tests = manifest.parent / "tests"
        if not (tests / "main.rs").exists():
            continue
        named = set(re.findall(r"^mod (\w+);", (tests / "main.rs").read_text(), re.M))
        named |= set(re.findall(r'^\[\[test\]\]\nname = "(\w+)"', manifest.read_text(), re.M))
        files = {file.stem for file in tests.glob("*.rs")} - {"main"}
        assert files <= named, f"{tests}: {files - named}"


def test_crates_are_compiled_for_the_tests_that_they_have() -> None:
    """rustdoc compiles a crate to find examples, and cargo a library for its unit tests."""
    for manifest in ROOT.glob("crates/*/*/Cargo.toml"):
        lines = [
            line.strip()
            for file in manifest.parent.glob("src/**/*.rs")
            for line in file.read_text().splitlines()
        ]
        library = tomllib.loads(manifest.read_text()).get("lib", {})
        fences = [line for line in lines if re.match(r"//[/!] *```", line)]
        # Every second fence ends a block.
        examples = any(re.match(r"//[/!] *```(rust)?$", fence) for fence in fences[::2])
        assert library.get("doctest", True) == examples, manifest
        tests = "#[test]" in lines or any(line.startswith("proptest!") for line in lines)
        assert library.get("test", True) == tests, manifest
