"""Several processes ingest different files into one table at the same time."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import DATA, need, rows
from servers import COMMAND

import kubist


@contextmanager
def begun(table: Path, file: Any, **options: Any) -> Iterator[None]:
    """An ingest that has read rows, and commits only after the block."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(_: str) -> None:
        reached.set()
        go_on.wait(120)

    def run() -> None:
        reports.append(kubist.ingest(table, file, progress=wait, **options))

    reports: list[Any] = []
    first = threading.Thread(target=run)
    first.start()
    try:
        assert reached.wait(120)
        yield
    finally:
        go_on.set()
        first.join()
    assert reports and reports[0].rows > 0


def test_other_files_are_taken_side_by_side(tmp_path: Path) -> None:
    need("laspy")
    need("lazrs")
    source, table = DATA / "lidar" / "simple.copc.laz", tmp_path / "t.kubist"
    for name in ("a", "b", "c"):
        shutil.copy(source, tmp_path / f"{name}.laz")
    with begun(table, tmp_path / "a.laz"):
        assert kubist.ingest(table, tmp_path / "b.laz").rows == 1_065
        command = [str(COMMAND), "ingest", str(table), str(tmp_path / "c.laz")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "1,065 records" in done.stderr, done.stderr
        with pytest.raises(kubist.Busy, match=r'a\.laz: writer "writer-1" is at work on it'):
            kubist.ingest(table, tmp_path / "a.laz")
    assert len(kubist.open(table)) == 3 * 1_065


def test_processes_that_begin_together(tmp_path: Path) -> None:
    """They also create the table together."""
    need("laspy")
    need("lazrs")
    running = []
    for name in "abcd":
        shutil.copy(DATA / "lidar" / "simple.copc.laz", tmp_path / f"{name}.laz")
        command = [str(COMMAND), "ingest", "t.kubist", f"{name}.laz"]
        running.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
    for process in running:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert len(kubist.open(tmp_path / "t.kubist")) == 4 * 1_065


def test_frames_are_numbered_by_one_ingestion_at_a_time(tmp_path: Path) -> None:
    """Concurrent numbering would give two frames the same number."""
    need("MDAnalysis")
    need("MDAnalysisTests")
    import MDAnalysisTests.datafiles as data

    table = tmp_path / "t.kubist"
    topology = {"read": {"topology": data.PSF}}
    shutil.copy(data.DCD, tmp_path / "a.dcd")
    shutil.copy(data.DCD, tmp_path / "b.dcd")
    with begun(table, tmp_path / "a.dcd", **topology):
        told = r"b\.dcd: the frames of .*t\.kubist are being numbered by another ingestion: wait"
        for again in (False, True):
            with pytest.raises(kubist.Busy, match=told):
                kubist.ingest(table, tmp_path / "b.dcd", writer={"name": "mine"}, again=again, **topology)
    kubist.ingest(table, tmp_path / "b.dcd", **topology)
    frames = np.unique(rows(table, "frame", where="atom = 0")["frame"])
    assert frames.tolist() == list(range(2 * 98))
