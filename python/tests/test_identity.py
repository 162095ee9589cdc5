"""A table that is replaced under its handles, and a process that changes its directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Server

import kubist


def test_a_table_made_anew_is_not_the_old_one(path: Path) -> None:
    kubist.create(path, {"x": [1.0]}, ["x"]).close()
    handle = kubist.open(path)
    assert handle.count() == 1
    with Server(path) as server:
        remote = kubist.connect(server.url)
        pinned = remote.snapshot()
        assert remote.count() == 1
        kubist.drop(path)
        kubist.create(path, {"x": [1.0, 2.0]}, ["x"]).close()
        assert kubist.open(path).count() == 2
        assert remote.count() == 2
        with pytest.raises(kubist.TableReplaced, match="was replaced by another"):
            remote.at(pinned.token)
    with pytest.raises(kubist.TableReplaced, match="open it again"):
        handle.count()


def test_a_token_of_a_state_before_a_restore(path: Path) -> None:
    backup = path.with_name("backup")
    kubist.create(path, {"x": [1.0]}, ["x"]).close()
    shutil.copytree(path, backup)
    with kubist.open(path) as table:
        table.append({"x": [2.0]})
        token = table.snapshot().token
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    with kubist.open(path) as table:
        table.append({"x": [3.0]})
        with pytest.raises(kubist.TableReplaced, match="another history"):
            table.at(token)
        assert table.query().to_numpy()["x"].tolist() == [1.0, 3.0]


def test_a_handle_of_a_relative_path_stays_where_it_is(path: Path) -> None:
    # The working directory belongs to the whole process.
    script = f"""
import os, kubist
os.chdir({str(path.parent)!r})
t = kubist.create({path.name!r}, {{"x": [1.0, 2.0]}}, ["x"])
w = t.writer("w")
w.append({{"x": [3.0]}})
os.chdir("/")
w.commit()
t.append({{"x": [4.0]}})
assert t.count() == 4 and len(t.query().to_numpy()["x"]) == 4
assert os.path.isabs(t.location) and kubist.open(t.location).count() == 4
"""
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)
