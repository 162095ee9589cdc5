"""Runs the code blocks of the documentation, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
COMMANDS = Path(sys.executable).parent


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["frames.md", "publishing.md", "tutorial.md"])
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(DOCS / page)
    assert found
    names: dict[str, Any] = {"__name__": page}
    environment = os.environ | {"PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    for language, block in found:
        if language == "sh":
            subprocess.run(["sh", "-e", "-c", block], env=environment, check=True)
        else:
            exec(compile(block, f"{page}: {block[:40]!r}", "exec"), names)


def test_the_first_steps_need_numpy_alone(
    tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """The steps of README, in a Python without optional libraries."""
    (first,) = [block for language, block in blocks(ROOT / "README.md") if language == "python"]
    absent = ["pyarrow", "pandas", "polars", "matplotlib"]
    without = f"import os, sys; sys.modules.update(dict.fromkeys({absent}))\n"
    done = run_python(f"{without}os.chdir({str(tmp_path)!r})\n{first}")
    assert done.returncode == 0, done.stderr
    assert "diameter [m]" in done.stdout and " ± " in done.stdout and done.stdout.count("e-5") > 1
    assert (tmp_path / "drops.png").read_bytes().startswith(b"\x89PNG")


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = {page.name for page in PAGES} - {"README.md"}
    assert not {page for page in pages if f"]({page})" not in index}


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page.name}" for page in PAGES)])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [link for link in links if "://" not in link]
    assert not [link for link in local if not ((ROOT / page).parent / link).exists()]


def test_the_site_builds_and_has_no_broken_link() -> None:
    command = [sys.executable, ROOT / "scripts" / "site.py", "build"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_drawings_are_those_of_their_script() -> None:
    command = [sys.executable, ROOT / "scripts" / "drawings.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
