"""Saved results: written, listed, recomputed and compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import COMMAND

import kubist

ROWS = 5000


def data(seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "pid": np.arange(rows) + 10_000 * seed,
        "x": rng.uniform(0, 1, rows),
        "v": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)).astype("float32"),
        "kind": rng.choice(["drop", "dust"], rows).astype(object),
        "hit": rng.random(rows) < 0.2,
        "when": np.datetime64("2026-01-01", "us") + rng.integers(0, 10**9, rows),
    }


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, data(), ["x"], identity=["pid"])


def answers(t: Any) -> dict[str, Any]:
    return {
        "rows": t.query({"x": (0.1, 0.6)}, where="kind = 'drop'", sample=0.5),
        "some": t.query(columns=["when", "hit"], order_by="when desc", limit=7),
        "none": t.query(where="x > 2"),
        "estimate": t.estimate(["mean(v)", "median(x)"], group_by="kind", sample=0.2),
        "times": t.estimate("max(when)", within="1 s"),
    }


def test_an_answer_stays_the_same_while_rows_arrive(table: kubist.Table, tmp_path: Path) -> None:
    paths = table.trajectories({"x": (0, 0.01)}, by="pid")
    for name, answer in {**answers(table), "paths": paths}.items():
        file = tmp_path / f"{name}-answer.kubist"
        answer.save(file)
        table.append(data(seed=1 + len(name), rows=100))
        again = kubist.recompute(file)
        assert again.same and again.found == again.saved, again
        table.optimize()
        assert kubist.recompute(file).same


def test_the_newest_snapshot_differs_and_says_where(table: kubist.Table, tmp_path: Path) -> None:
    for name, answer in answers(table).items():
        answer.save(tmp_path / f"{name}-answer.kubist")
    table.append({**data(seed=3), "x": np.full(ROWS, 0.5), "hit": np.ones(ROWS, bool)})
    for name in ("rows", "estimate"):
        again = kubist.recompute(tmp_path / f"{name}-answer.kubist", newest=True)
        assert not again.same
        assert "was saved" in repr(again)
    assert kubist.recompute(tmp_path / "none-answer.kubist", newest=True).same


def test_a_changed_value_is_found(table: kubist.Table, tmp_path: Path) -> None:
    """The digest does not depend on the order of rows, but on every value."""
    rows = data()
    turned = {name: values[::-1].copy() for name, values in rows.items()}
    other = {name: values.copy() for name, values in rows.items()}
    other["v"][17] += 1e-6
    digests = []
    for at, values in enumerate((rows, turned, other)):
        t = kubist.create(tmp_path / f"{at}.kubist", values, ["x"], identity=["pid"])
        t.query().save(tmp_path / "answer.kubist")
        digests.append(json.loads((tmp_path / "answer.kubist").read_text())["answer"]["digest"])
    assert digests[0] == digests[1] != digests[2]


def test_an_answer_of_many_runs(tmp_path: Path) -> None:
    for run in range(3):
        kubist.create(
            tmp_path / f"r{run}.kubist", data(run), ["x"], identity=["pid"], metadata={"a": run}
        ).close()
    named = {f"case {run}": tmp_path / f"r{run}.kubist" for run in range(3)}
    many = kubist.open_many(named, run="case")
    many.estimate("mean(v)", group_by="case", contrast="case").save(tmp_path / "answer.kubist")
    many.query(where="metadata.a > 0 AND x > 0.9").save(tmp_path / "rows.kubist")
    kubist.open(tmp_path / "r1.kubist").append(data(5))
    assert kubist.recompute(tmp_path / "answer.kubist").same
    assert kubist.recompute(tmp_path / "rows.kubist").same
    assert not kubist.recompute(tmp_path / "rows.kubist", newest=True).same
    (one, two) = kubist.history(tmp_path / "r0.kubist").answers
    assert {Path(one.path).name, Path(two.path).name} == {"answer.kubist", "rows.kubist"}


def test_history_lists_commits_and_answers(table: kubist.Table, tmp_path: Path) -> None:
    assert "no saved answers" in repr(kubist.history(table.location))
    table.estimate("share(hit)", where="x > 0.5").save(tmp_path / "old.kubist")
    table.append(data(seed=2))
    table.query(where="hit").save(tmp_path / "new.kubist")
    (tmp_path / "other.kubist").write_text("no answer")
    found = kubist.history(table.location)
    assert found.rows == 2 * ROWS and found.writers[0].commits == 2
    newest = {Path(answer.path).name: answer.is_newest for answer in found.answers}
    assert newest == {"old.kubist": False, "new.kubist": True}
    assert "share(hit) where='x > 0.5'" in repr(found) and "2 commits" in repr(found)
    os.mkdir(tmp_path / "empty")
    assert not kubist.history(table.location, folder=tmp_path / "empty").answers


def test_wrong_files_are_refused(table: kubist.Table, tmp_path: Path) -> None:
    file = tmp_path / "answer.kubist"
    table.query().save(file)
    good = json.loads(file.read_text())
    for change in (
        {"kubist": "x"},
        {"format": 99},
        {"question": 1},
        {"source": {}},
        {"call": "drop"},
        {"question": {"where": "nothing > 1"}},
    ):
        file.write_text(json.dumps(good | change))
        with pytest.raises(kubist.InvalidInput):
            kubist.recompute(file)
    for text in ("", "[" * 100_000, "\0"):
        file.write_text(text)
        with pytest.raises(kubist.InvalidInput, match="not a saved answer"):
            kubist.recompute(file)
    with pytest.raises(kubist.InvalidInput, match="a directory"):
        table.query().save(table.location)
    with pytest.raises(kubist.InvalidInput, match="a directory"):
        kubist.recompute(table.location)
    (step,) = table.refine(start=1.0)
    with pytest.raises(kubist.Refused, match="can be saved"):
        step.save(file)


def test_another_table_at_the_location_is_no_answer(path: Path, tmp_path: Path) -> None:
    table = kubist.create(path, data(), ["x"])
    table.query().save(tmp_path / "answer.kubist")
    table.close()
    kubist.drop(path)
    with pytest.raises(kubist.NotATable):
        kubist.recompute(tmp_path / "answer.kubist")
    kubist.create(path, data(), ["x"]).close()
    with pytest.raises(kubist.TableReplaced):
        kubist.recompute(tmp_path / "answer.kubist")


@pytest.mark.parametrize("command", [[COMMAND], [sys.executable, "-m", "kubist.recomputing"]])
def test_the_commands(table: kubist.Table, tmp_path: Path, command: list[Any]) -> None:
    table.estimate("share(hit)").save(tmp_path / "answer.kubist")

    def run(name: str, *arguments: str, **asked: Any) -> subprocess.CompletedProcess[str]:
        own = [name, *arguments]
        if len(command) > 1:
            own = [json.dumps({"folder": None, "newest": False, "json": False} | asked)]
        return subprocess.run(
            [*command, *own], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = run("recompute", "answer.kubist", file="answer.kubist")
    assert done.returncode == 0 and "answer.kubist: the same" in done.stdout, done.stderr
    table.append({**data(seed=2), "hit": np.ones(ROWS, bool)})
    done = run(
        "recompute", "answer.kubist", "--newest", "--json",
        file="answer.kubist", newest=True, json=True,
    )  # fmt: skip
    assert done.returncode == 1 and json.loads(done.stdout)["differences"]
    done = run("history", table.location, table=table.location)
    assert done.returncode == 0 and "share(hit)" in done.stdout
    done = run("recompute", "none.kubist", file="none.kubist")
    assert done.returncode == 3 and done.stderr.startswith("kubist: error: ")
