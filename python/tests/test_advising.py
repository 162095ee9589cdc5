"""`kubist.advise`: designs that suit a workload."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import kubist
from kubist import workloads
from kubist.advising.designs import Design, first_round, uses
from kubist.advising.measuring import Asked, Trial
from kubist.advising.predicting import fitted, predict
from kubist.workloads import Answered

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
COMMAND = Path(sys.executable).parent / "kubist"

SLABS = """
[queries.slab]
weight = 3
box = { x = "1 %" }
[queries.one]
where = "name = {name}"
values = { name = "rows" }
"""


def rows(count: int = 20_000) -> pa.Table:
    random = np.random.default_rng(2)
    columns = {name: random.random(count) for name in ("x", "y", "z")}
    return pa.table(columns | {"name": [f"star {n}" for n in range(count)]})


def parsed(text: str) -> workloads.Workload:
    return workloads.parse(tomllib.loads(text), "test")


def quiet(_: str) -> None: ...


@pytest.fixture
def file(tmp_path: Path) -> Path:
    parquet.write_table(rows(), tmp_path / "stars.parquet", row_group_size=5_000)
    return tmp_path / "stars.parquet"


def test_the_columns_of_the_queries_become_dimensions_and_indexes(file: Path) -> None:
    advice = kubist.advise(file, parsed(SLABS), progress=quiet)
    assert "x" in advice.best.dimensions
    assert advice.best.lookup == ("name",)
    assert advice.rows == 20_000 and not advice.errors
    one = advice.designs[0]
    assert one.low <= one.seconds <= one.high and one.bytes > 0
    assert sorted(one.queries) == ["one", "slab"]
    without = [other for other in advice.designs if not other.design.lookup]
    assert min(other.queries["one"].read for other in without) > one.queries["one"].read


def test_a_newcomer_gets_a_table_by_the_printed_command(file: Path, tmp_path: Path) -> None:
    told = tmp_path / "three.toml"
    told.write_text(SLABS)
    done = subprocess.run(
        [COMMAND, "advise", file, "--queries", told, "--seconds", "20"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("command"))
    program, *arguments = shlex.split(line.removeprefix("command"))
    assert program == "kubist"
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True, cwd=tmp_path)
    with kubist.open(tmp_path / "new.kubist") as table:
        assert len(table) == 20_000
        # The design depends on measured times, so compare the two calls with each other.
        design = [dimension.column for dimension in table.info().dimensions], table.info().lookup
        assert design[0]
    python = next(line for line in done.stdout.splitlines() if line.startswith("Python"))
    text = (
        python.removeprefix("Python").strip().replace("new.kubist", str(tmp_path / "other.kubist"))
    )
    eval(text, {"kubist": kubist})
    with kubist.open(tmp_path / "other.kubist") as table:
        assert len(table) == 20_000
        info = table.info()
        assert ([dimension.column for dimension in info.dimensions], info.lookup) == design


def test_a_workload_is_proposed_from_the_columns(file: Path, tmp_path: Path) -> None:
    advice = kubist.advise(file, seconds=15, progress=quiet)
    assert advice.is_proposed
    names = [query.name for query in advice.workload.queries]
    assert "region" in names and "one object" in names
    text = str(advice).split("--queries:")[1]
    again = tmp_path / "again.toml"
    again.write_text(text)
    assert [query.name for query in workloads.load(again).queries] == names


def test_a_table_is_advised_by_a_record_of_its_questions(file: Path, tmp_path: Path) -> None:
    table = kubist.create(tmp_path / "t.kubist", rows(), dimensions=["z"])
    log = tmp_path / "asked.jsonl"
    lines = [
        {
            "verb": "query",
            "table": "t",
            "at": n,
            "question": {"box": {"x": [n / 10, n / 10 + 0.01]}},
        }
        for n in range(9)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    advice = kubist.advise(table.location, log, seconds=10, progress=quiet)
    assert advice.best.dimensions == ("x",)
    assert advice.command.startswith("kubist copy ")
    arguments = shlex.split(advice.command)[1:]
    subprocess.run([COMMAND, *arguments], check=True, capture_output=True, cwd=tmp_path)
    with kubist.open(tmp_path / "new.kubist") as copy:
        assert [dimension.column for dimension in copy.info().dimensions] == ["x"]
        assert len(copy) == len(table)


def test_the_best_so_far_is_returned_when_the_time_is_over(file: Path) -> None:
    advice = kubist.advise(file, parsed(SLABS), seconds=1, progress=quiet)
    assert advice.designs
    assert all("the time was over" in text for text in advice.errors)


@pytest.mark.parametrize("name", ["stars.csv", "folder"])
def test_other_files_are_sampled(tmp_path: Path, name: str) -> None:
    from pyarrow import csv

    place = tmp_path / name
    parts = [place] if name == "stars.csv" else [place / f"{n}.csv" for n in range(3)]
    parts[0].parent.mkdir(exist_ok=True)
    for part in parts:
        csv.write_csv(rows(3_000), part)
    given = place if name == "stars.csv" else f"{place}/*.csv"
    advice = kubist.advise(given, parsed(SLABS), seconds=5, progress=quiet)
    assert advice.rows == 3_000 * len(parts)


def test_bad_input_is_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(kubist.InvalidInput, match=r"'q'.*x, y, z"):
        kubist.advise(file, parsed("[queries.a]\nbox = { q = '1 %' }"), progress=quiet)
    empty = tmp_path / "empty.parquet"
    parquet.write_table(rows(0), empty)
    with pytest.raises(kubist.InvalidInput, match=r"empty\.parquet"):
        kubist.advise(empty, progress=quiet)
    done = subprocess.run([COMMAND, "advise", tmp_path / "no.csv"], capture_output=True, text=True)
    assert done.returncode != 0 and "no.csv" in done.stderr and "Traceback" not in done.stderr


def test_designs_are_the_sets_of_the_columns_that_queries_limit() -> None:
    text = """
[queries.a]
box = { x = "1 %", z = "2 %" }
[queries.b]
where = "y > {y}"
values = { y = "rows" }
"""
    workload = parsed(text)
    assert uses(workload).ranges == {"x": 0.5, "z": 0.5, "y": 0.5}
    found = {design.dimensions for design in first_round(workload, rows(10), ["x", "y"])}
    singles = {("x",), ("y",), ("z",)}
    assert found == singles | {("x", "y"), ("x", "z"), ("y", "z"), ("x", "y", "z")}


# Predictions


def asked(cost: Answered, factor: float = 1.0) -> Asked:
    seconds = 3e-4 + 2e-6 * cost.cubes + 1e-8 * (cost.read or 0) + 4e-8 * cost.rows
    return Asked("a", factor * seconds, cost)


def costs(seed: int) -> list[Answered]:
    random = np.random.default_rng(seed)
    return [
        Answered(int(rows), int(rows * (1 + more)), int(cubes))
        for rows, more, cubes in zip(
            random.integers(1, 1e6, 200),
            random.exponential(2, 200),
            random.integers(1, 5_000, 200),
            strict=True,
        )
    ]


def test_the_constants_of_a_machine_are_found() -> None:
    speed = fitted([asked(cost) for cost in costs(1)])
    np.testing.assert_allclose(speed.seconds, [3e-4, 2e-6, 1e-8, 4e-8, 0], rtol=1e-6, atol=1e-15)
    random = np.random.default_rng(3)
    noisy = fitted([asked(cost, random.lognormal(0, 0.2)) for cost in costs(2)])
    assert (noisy.seconds >= 0).all()
    assert noisy.time([1, 100, 2e5, 1e5, 0]) == pytest.approx(6.5e-3, rel=0.2)
    assert 0.1 < noisy.spread < 0.3


def test_a_slow_query_does_not_shift_the_constants() -> None:
    measured = [asked(cost) for cost in costs(1)]
    slow = [asked(cost, 30.0) for cost in costs(4)[:3]]
    assert fitted([*measured, *slow]).time([1, 100, 2e5, 1e5, 0]) == pytest.approx(6.5e-3, rel=0.1)


def test_explain_predicts_the_time_on_this_machine(path: Path) -> None:
    random = np.random.default_rng(5)
    data = {name: random.random(50_000) for name in ("x", "y", "v")}
    table = kubist.create(path, data | {"pid": np.arange(50_000)}, dimensions=["x", "y"])
    assert table.explain(sample=0.1).expected is None
    small = [table.explain(box={"x": (a, a + 0.05)}, predict=True) for a in (0.1, 0.3, 0.5)]
    large = table.explain(predict=True, columns=["x", "v"])
    for found in (*small, large):
        expected = found.expected
        assert expected is not None and expected.low <= expected.seconds <= expected.high
        ratio = found.stats.seconds / expected.seconds
        assert expected.error == pytest.approx(ratio - 1)
        # Tests share the machine.
        assert 1 / 50 < ratio < 50
        assert "predicted on this machine" in repr(found)
    assert large.expected.seconds > small[0].expected.seconds
    command = [COMMAND, "explain", table.location, "--box", "x=0.1:0.15", "--predict"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "expected" in printed and "it took" in printed
    report = subprocess.run([*command, "--json"], check=True, capture_output=True).stdout
    assert json.loads(report)["expected"]["seconds"] > 0
    odd = kubist.create(path.with_name("odd"), {"x": np.array([1.5])}, dimensions=["x"])
    assert odd.explain(predict=True, order_by="x").expected.seconds > 0


def test_costs_grow_by_the_power_that_two_samples_show() -> None:
    speed = fitted([asked(cost) for cost in costs(1)])

    def trial(count: int) -> Trial:
        # In two dimensions, excess rows grow with the square root of all rows.
        returned = count // 100
        cost = Answered(returned, returned + int(20 * count**0.5), int(count**0.5))
        return Trial(Design(("x",)), count, 1.0, 1, 1, [asked(cost)] * 8)

    found = predict("a", trial(10_000), trial(90_000), 9_000_000, speed)
    expected = trial(9_000_000).asked[0]
    assert found.read == pytest.approx(expected.cost.read, rel=0.02)
    assert found.seconds == pytest.approx(expected.seconds, rel=0.05)
    assert found.low < expected.seconds < found.high
    same = predict("a", None, trial(90_000), 90_000, speed)
    assert same.seconds == trial(90_000).asked[0].seconds
