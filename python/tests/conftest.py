"""Fixtures of all tests: paths of tables, and fresh Python processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from libkubist import Library, built


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.kubist"


@pytest.fixture
def lib() -> Library:
    return Library(built() / "libkubist_capi.so")


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a fresh Python process for at most a minute."""

    def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "script.py"
        file.write_text(textwrap.dedent(script))
        command = [sys.executable, str(file), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run
