"""Shared tables without permission or space: the error is reported, and nothing is lost.

It needs the right to mount in new namespaces.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kubist

IN_A_NAMESPACE = ["unshare", "--mount", "sh", "-ec"]
ROWS = 20_000


def can_mount() -> bool:
    with suppress(OSError):
        tried = subprocess.run([*IN_A_NAMESPACE, "mount -t tmpfs none /mnt"], check=False)
        return tried.returncode == 0
    return False


works_here = pytest.mark.skipif(not can_mount(), reason="nothing can be mounted here")
pytestmark = [pytest.mark.release, works_here]


def rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "x": np.random.default_rng(first).random(count)})


def shared(path: Path) -> kubist.Table:
    table = kubist.create(path, rows(0, 1).schema, ["x"], identity=["id"], storage={"shared": True})
    table.append(rows(0, ROWS))
    return table


def told(path: Path, mounts: str, script: str, *runner: str) -> str:
    common = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import kubist
from test_bad_places import ROWS, rows
location = {str(path)!r}
"""
    command = 'eval "$1"; shift; exec "$@"'
    python = [*runner, sys.executable, "-c", common + script]
    whole = [*IN_A_NAMESPACE, command, "sh", mounts, *python]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK_AND_CHANGE = """
table = kubist.open(location)
assert len(table) == ROWS and len(table.query(box={"x": (0.2, 0.4)}).to_arrow()) > 0
assert table.estimate("mean(x)").value > 0 and table.verify(deep=True).ok
for change in [
    lambda: table.append(rows(ROWS, 10)),
    lambda: table.optimize(),
    lambda: table.set_metadata({"a": 1}),
    lambda: table.add_column("z", "int64"),
    lambda: kubist.drop(location),
    lambda: kubist.create(location + "-other", rows(0, 1).schema, ["x"], storage={"shared": True}),
]:
    try:
        change()
    except kubist.NotPermitted as error:
        print(error)
"""


def test_a_read_only_mount_answers_and_refuses_changes(path: Path) -> None:
    shared(path)
    folder = path.parent
    read_only = f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}"
    said = told(path, read_only, ASK_AND_CHANGE)
    assert said.count("Read-only file system") >= 5, said
    assert len(kubist.open(path)) == ROWS and kubist.open(path).verify(deep=True).ok


# Root without the right to bypass permissions.
LIKE_A_USER = ["setpriv", "--inh-caps=-dac_override,-dac_read_search"]
LIKE_A_USER += ["--bounding-set=-dac_override,-dac_read_search"]


def test_without_permission_it_answers_and_refuses_changes_or_says_so(path: Path) -> None:
    shared(path)
    folders = [path.parent, path, *(each for each in path.rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    said = told(path, "", ASK_AND_CHANGE, *LIKE_A_USER)
    assert said.count("Permission denied") >= 5, said
    path.chmod(0)
    script = """
def create(location):
    kubist.create(location, rows(0, 1).schema, ["x"], storage={"shared": True})

for call in [kubist.open, kubist.drop, create]:
    try:
        call(location)
    except kubist.NotPermitted as error:
        print(error)
"""
    said = told(path, "", script, *LIKE_A_USER)
    assert said.count("Permission denied") == 3 and said.count(str(path)) >= 3, said
    for folder in folders:
        folder.chmod(0o755)
    assert len(kubist.open(path)) == ROWS


def test_a_full_file_system_loses_nothing_and_goes_on_with_room(path: Path) -> None:
    folder = path.parent
    script = """
import os
table = kubist.create(location, rows(0, 1).schema, ["x"], identity=["id"], storage={"shared": True})
table.append(rows(0, ROWS))
committed, failed = ROWS, 0
while failed < 3:
    try:
        with table.writer("w") as writer:
            while True:
                writer.append(rows(committed, ROWS))
                writer.commit()
                committed += ROWS
    except kubist.NoSpace as error:
        failed += 1
        assert location in str(error), error
assert len(kubist.open(location)) == committed > ROWS
os.system(f"mount -o remount,size=64m {os.path.dirname(location)}")
with table.writer("w") as writer:
    writer.append(rows(committed, ROWS))
    writer.commit()
table = kubist.open(location)
assert len(table) == committed + ROWS and table.verify(deep=True).ok
assert sorted(table.query().to_arrow()["id"].to_pylist()) == list(range(committed + ROWS))
print("room")
"""
    assert told(path, f"mount -t tmpfs -o size=2m none {folder}", script) == "room\n"


def test_cleaning_makes_room_on_a_full_disk_in_the_process_that_wrote(path: Path) -> None:
    script = """
import os
folder = os.path.dirname(location)
table = kubist.create(location, rows(0, 1).schema, ["x"], identity=["id"])
for first in range(0, 5 * ROWS, ROWS):
    table.append(rows(first, ROWS))
table.optimize(debt_share=0.0)
with open(folder + "/rest", "wb", buffering=0) as rest:
    try:
        while True:
            rest.write(bytes(4096))
    except OSError:
        pass
cleaned = table.clean(0)
assert cleaned.bytes_deleted + cleaned.bytes_released > ROWS * 8, cleaned
table.append(rows(5 * ROWS, 10))
assert table.count() == 5 * ROWS + 10 and table.verify(deep=True).ok
print("room")
"""
    assert told(path, f"mount -t tmpfs -o size=16m none {path.parent}", script) == "room\n"
