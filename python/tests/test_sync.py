"""`kubist.sync`: copies of a table at two sites, and the exchange of their changes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kubist
from servers import COMMAND


def rows(first: int, count: int) -> dict[str, np.ndarray]:
    n = np.arange(first, first + count)
    return {"x": (n % 97) / 97, "n": n}


def numbers(table: kubist.Table) -> list[int]:
    return sorted(table.query(columns=["n"]).to_numpy()["n"].tolist())


def test_two_sites_exchange_their_changes(path: Path) -> None:
    home = kubist.create(path, rows(0, 1_000), ["x"], identity=["n"])
    away = path.with_name("away.kubist")
    first = kubist.sync(path, away)
    assert first.created == str(away) and first.went.rows == 1_000 and first.came.rows == 0
    copy = kubist.open(away)
    assert numbers(copy) == numbers(home)

    home.append(rows(1_000, 50), step=1)
    copy.append(rows(2_000, 70), step=1)
    copy.set_metadata({"place": "laptop"})
    one_way = kubist.sync(path, away, pull=False)
    assert (one_way.came.rows, one_way.went.rows) == (0, 50) and one_way.went.commits == 1
    both = home.sync(away)
    assert (both.came.rows, both.went.rows) == (70, 0) and both.conflicts == []
    expected = [*range(1_050), *range(2_000, 2_070)]
    assert numbers(home) == numbers(copy) == expected
    assert home.metadata["place"] == "laptop"

    copy.retract(step_after=0)
    assert kubist.sync(path, away).came.retracted == 120
    assert numbers(home) == numbers(copy) == list(range(1_000))
    nothing = kubist.sync(path, away)
    assert nothing.came == nothing.went == kubist.Moved(0, 0, 0, [], [])


def test_an_interrupted_sync_can_be_repeated(path: Path) -> None:
    home = kubist.create(path, rows(0, 100), ["x"], identity=["n"])
    away = path.with_name("away.kubist")
    kubist.sync(path, away)
    # Enough commits that the exchange lasts several progress reports.
    for first in range(100, 20_100, 100):
        home.append(rows(first, 100))

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kubist.sync(path, away, progress=stop)
    there = len(kubist.open(away))
    assert there % 100 == 0 and 100 <= there <= len(home)
    kubist.sync(path, away)
    assert numbers(kubist.open(away)) == numbers(home)


def test_a_watching_sync_brings_later_changes_until_it_is_interrupted(path: Path) -> None:
    home = kubist.create(path, rows(0, 100), ["x"], identity=["n"])
    away = path.with_name("away.kubist")
    command = [COMMAND, "sync", path, away]
    watching = subprocess.Popen(
        [*command, "--watch", "--every", "200ms"], stderr=subprocess.PIPE, text=True
    )
    assert watching.stderr is not None
    try:
        assert "a copy with 100 records" in watching.stderr.readline()
        home.append(rows(100, 50))
        assert watching.stderr.readline().endswith("nothing new\n")
        assert "1 commit came with 50 records" in watching.stderr.readline()
        kubist.open(away).append(rows(200, 30))
        assert "1 commit came with 30 records" in watching.stderr.readline()
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert numbers(home) == numbers(kubist.open(away)) == [*range(150), *range(200, 230)]


def test_mistakes_are_refused(path: Path) -> None:
    kubist.create(path, rows(0, 100), ["x"])
    other = path.with_name("other.kubist")
    kubist.create(other, rows(0, 100), ["x"])
    with pytest.raises(kubist.InvalidInput, match="nothing to do"):
        kubist.sync(path, other, push=False, pull=False)
    with pytest.raises(kubist.Error, match="cop"):
        kubist.sync(path, other)
    with pytest.raises(kubist.Error):
        kubist.sync(path, path)
    with pytest.raises(kubist.NotATable):
        kubist.sync(path.with_name("no"), path.with_name("none"))
    assert len(kubist.open(path)) == len(kubist.open(other)) == 100
