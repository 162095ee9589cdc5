"""Parts of a query for other processes, and whole trajectories."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import worlds

import kubist


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(repr, row)) for row in zip(*table.to_pydict().values(), strict=True))


@pytest.mark.parametrize("seed", range(10))
def test_parts_are_disjoint_and_together_everything(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = worlds.world(rng, 3000, dimensions=1 + seed % 4, payload=2)
    replication = ["none", "full", "outlook(1)"][seed % 3]
    t = kubist.create(
        path,
        world.arrow.schema,
        world.dimensions,
        identity=["id"],
        capacity=64,
        storage={"replication": replication},
    )
    for first in range(0, world.rows, 500):
        t.append(world.take(range(first, first + 500)))
    t.optimize()
    for n in (1, 2, 3, 7, 30):
        box, _ = worlds.box(rng, world)
        condition = worlds.condition(rng, world)
        question: dict[str, Any] = [
            {},
            {"box": box},
            {"where": condition.sql, "sample": 0.7},
            {"box": box, "where": condition.sql, "window": (0.1, 0.9), "columns": ["id"]},
        ][rng.integers(4)]
        parts = t.splits(n, **question)
        assert len(parts) == n
        tables = [part.to_arrow() for part in parts]
        assert all(table.schema == tables[0].schema for table in tables)
        assert rows_of(pa.concat_tables(tables)) == rows_of(t.query(**question).to_arrow())


def cloud(path: Path, rows: int = 100_000) -> kubist.Table:
    rng = np.random.default_rng(2)
    p = np.concatenate([rng.random((rows // 2, 3)), rng.normal(0.3, 0.03, (rows - rows // 2, 3))])
    data = {"x": p[:, 0], "y": p[:, 1], "z": p[:, 2], "n": np.arange(rows)}
    return kubist.create(path, data, ["x", "y", "z"], identity=["n"])


def test_parts_are_compact_and_of_about_equal_rows(path: Path) -> None:
    t = cloud(path)
    parts = t.splits(16)
    tables = [part.to_arrow() for part in parts]
    assert sum(table.num_rows for table in tables) == 100_000
    for part, table in zip(parts, tables, strict=True):
        assert abs(table.num_rows / 6250 - 1) < 0.25
        assert abs(part.rows / table.num_rows - 1) < 0.25
        assert part.preferred_hosts == []
    # Their boxes do not overlap, so the volumes add up to at most the total.
    volume = 0.0
    for table in tables:
        sides = [np.ptp(table[name].to_numpy()) for name in "xyz"]
        volume += float(np.prod(sides))
    whole = float(np.prod([np.ptp(t.query().to_arrow()[name].to_numpy()) for name in "xyz"]))
    assert volume <= whole
    # Together they read little more than one query.
    read = 0
    for part in parts:
        answer = part.query()
        answer.to_arrow()
        read += answer.stats.rows_read
    assert read < 2 * 100_000


def test_a_part_is_of_its_moment_in_any_process(path: Path) -> None:
    t = cloud(path, 20_000)
    expected = rows_of(t.query(sample=0.5).to_arrow())
    parts = t.splits(4, sample=0.5)
    t.append({"x": [0.5] * 100, "y": [0.5] * 100, "z": [0.5] * 100, "n": range(100)})
    t.optimize()
    t.clean()  # with a checkpoint newer than the parts
    t.add_column("late", "int32", default=7)
    assert (
        parts[0]
        == pickle.loads(pickle.dumps(parts[0]))
        == kubist.Split.from_json(parts[0].to_json())
    )
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        tables = pool.map(kubist.Split.to_arrow, parts)
    assert rows_of(pa.concat_tables(tables)) == expected
    assert len(t.splits(1)[0].to_arrow()) == 20_100
    assert "about" in repr(parts[0])


def test_a_step_is_part_of_the_moment(path: Path) -> None:
    t = kubist.create(path, pa.schema({"x": pa.float64(), "n": pa.int64()}), {"x": (0, 1)})
    for step in range(4):
        t.append({"x": np.random.default_rng(step).random(100), "n": [step] * 100}, step=step)
    with t.snapshot(step=2) as s:
        parts = s.splits(3)
    t.append({"x": [0.1], "n": [4]}, step=4)
    found = pa.concat_tables([part.to_arrow() for part in parts])
    assert sorted(set(found["n"].to_pylist())) == [0, 1, 2] and found.num_rows == 300
    by_steps = pa.concat_tables([part.to_arrow() for part in t.splits(2, steps=(1, 3))])
    assert sorted(set(by_steps["n"].to_pylist())) == [1, 2, 3]


def test_a_part_whose_rows_were_cleaned_away_says_so(path: Path) -> None:
    t = cloud(path, 5_000)
    parts = t.splits(2)
    for commit in range(20):
        t.append(
            {
                "x": [0.5] * 50,
                "y": [0.5] * 50,
                "z": [0.5] * 50,
                "n": range(50 * commit, 50 * commit + 50),
            }
        )
    t.close()
    t = kubist.open(path)
    t.optimize(debt_share=0.0)
    t.clean(retention=0)
    t.clean(retention=0)
    for part in parts:
        with pytest.raises(kubist.SnapshotExpired, match="fresh snapshot"):
            part.to_arrow()
    other = path.with_name("other.kubist")
    cloud(other, 100)
    moved = parts[0].to_json().replace(str(path), str(other))
    with pytest.raises(kubist.TableReplaced, match="replaced by another"):
        kubist.Split.from_json(moved).to_arrow()


def test_points_in_one_place_are_cut_by_priority(path: Path) -> None:
    t = kubist.create(path, {"x": [0.5] * 1000, "n": range(1000)}, {"x": (0, 1)}, identity=["n"])
    sizes = [part.to_arrow().num_rows for part in t.splits(4)]
    assert sum(sizes) == 1000 and min(sizes) > 150
    empty = kubist.create(path.with_name("e.kubist"), pa.schema({"x": pa.float64()}), {"x": (0, 1)})
    assert [part.to_arrow().num_rows for part in empty.splits(3)] == [0, 0, 0]


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", 2**20])
def test_a_query_is_cut_into_some_parts(path: Path, n: Any) -> None:
    t = cloud(path, 100)
    with pytest.raises(kubist.InvalidInput, match="parts:"):
        t.splits(n)
    with pytest.raises(kubist.InvalidInput, match="not a split"):
        kubist.Split.from_json("{}")
    with pytest.raises(kubist.InvalidInput, match="character"):
        t.splits(2, where="x >")


KINDS = ["int32", "uint64", "string", "dictionary", "timestamp_us", "decimal128", "binary", "bool"]


@pytest.mark.parametrize("lookup", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_trajectories_are_all_records_of_what_passed(path: Path, name: str, lookup: bool) -> None:
    rng = np.random.default_rng(len(name))
    rows, kind = 4000, worlds.KINDS[name]
    keys = list(kind.draw(rng, rows))
    keys = [None if none else key for none, key in zip(rng.random(rows) < 0.05, keys, strict=True)]
    table = pa.table(
        {
            "x": rng.random(rows),
            "y": rng.random(rows),
            "who": kind.array(keys, kind.type),
            "n": range(rows),
        }
    )
    t = kubist.create(
        path,
        table.schema,
        ["x", "y"],
        identity=["n"],
        capacity=64,
        lookup=["who"] if lookup else None,
    )
    for first in range(0, rows, 1000):
        t.append(table.slice(first, 1000))
    x = table["x"].to_numpy()
    for low, high in [(0.1, 0.101), (0.5, 0.52), (2, 3)]:
        passed = {key for key, value in zip(keys, x, strict=True) if low <= value <= high} - {None}
        expected = [row for row, key in enumerate(keys) if key is not None and key in passed]
        answer = t.trajectories(box={"x": (low, high)}, by="who", columns=["n"])
        assert sorted(answer.to_arrow()["n"].to_pylist()) == expected
    half = t.trajectories(
        box={"x": (0.1, 0.2)}, where="y < 0.5", by="who", sample=0.5, columns=["n"]
    )
    passed = {
        key
        for key, a, b in zip(keys, x, table["y"].to_pylist(), strict=True)
        if 0.1 <= a <= 0.2 and b < 0.5
    }
    drawn = set(t.query(sample=0.5, columns=["n"]).to_arrow()["n"].to_pylist())
    expected = [
        row for row, key in enumerate(keys) if key is not None and key in passed and row in drawn
    ]
    assert sorted(half.to_arrow()["n"].to_pylist()) == expected


def test_whose_trajectories_is_known_or_asked(path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = {
        "x": rng.random(3000),
        "pid": np.repeat(np.arange(300), 10),
        "t": np.tile(np.arange(10.0), 300),
    }
    t = kubist.create(path, rows, ["x", "t"], identity=["pid"])
    passed = np.unique(rows["pid"][rows["x"] < 0.01])
    assert len(t.trajectories(box={"x": (None, 0.01)}).to_arrow()) == 10 * len(passed)
    with t.snapshot() as s:
        t.append({"x": [0.001], "pid": [299], "t": [11.0]})
        assert len(s.trajectories(box={"x": (None, 0.01)}).to_arrow()) == 10 * len(passed)
    by_row = kubist.create(path.with_name("r.kubist"), rows, ["x"], identity=["pid", "t"])
    with pytest.raises(kubist.InvalidInput, match="by: name the column"):
        by_row.trajectories(box={"x": (0, 1)})
    with pytest.raises(kubist.InvalidInput, match="nope"):
        by_row.trajectories(box={"x": (0, 1)}, by="nope")
    assert by_row.trajectories(box={"x": (2, 3)}, by="pid").to_arrow().num_rows == 0


def test_a_million_trajectories_fit_into_a_question(path: Path) -> None:
    n = 1_000_000
    rng = np.random.default_rng(6)
    rows = {"x": rng.random(n), "pid": rng.permutation(n)}
    t = kubist.create(path, rows, {"x": (0, 1)})
    answer = t.trajectories(box={"x": (0.25, None)}, by="pid", columns=["pid"])
    found = answer.to_arrow()["pid"].to_numpy()
    assert np.array_equal(np.sort(found), np.sort(rows["pid"][rows["x"] >= 0.25]))


def test_without_a_cluster_parts_by_hosts_are_parts_of_space(path: Path) -> None:
    t = cloud(path, 20_000)
    assert t.splits(4, by="hosts") == t.splits(4)
    assert all(part.preferred_hosts == [] for part in t.splits(4))
    with pytest.raises(kubist.InvalidInput, match="by: expected 'space' or 'hosts', not 'rows'"):
        t.splits(4, by="rows")  # type: ignore[arg-type]


def test_a_query_says_where_its_time_went(path: Path, tmp_path: Path) -> None:
    t = cloud(path)
    explained = t.explain(box={"x": (0.2, 0.4)}, sample=0.5, columns=["x"])
    rows = len(t.query(box={"x": (0.2, 0.4)}, sample=0.5).to_arrow())
    assert explained.stats.rows_returned == rows
    assert explained.stages.requests == len(explained.requests) > 0
    assert explained.stages.bytes == explained.stats.bytes_read
    assert explained.stages.hosts == {} and explained.predicted is None
    for request in explained.requests:
        moments = [request[stage] for stage in ("asked", "sent", "answered", "decoded")]
        assert moments == sorted(moments) and moments[-1] <= explained.stats.seconds
    assert f"{rows:,} records in" in repr(explained)
    no_fit = tmp_path / "fit.json"
    no_fit.write_text("{}")
    with pytest.raises(kubist.InvalidInput, match="fit: not a file of `kubist model fit`"):
        t.explain(fit=no_fit)
    # Memory has no latency; a cluster as slow as the papers' has.
    line = {"ms": 1.163, "ms_per_element": 0.0387}
    model = {
        "request": {"line": line, "beyond": None},
        "speedup": {"at_one_element": 12.562, "per_ln_element": -1.084, "least": 1.0},
        "send_ms": 0.019,
        "fetch": {"ms": 0.0, "ms_per_element": 0.0},
    }
    fit = {"model": model, "nodes": 1, "requests": [], "levels": [], "client": []}
    about = {"location": "t", "hosts": [], "table": None, "decode_ms_per_byte": 0.0}
    no_fit.write_text(json.dumps({**about, **fit, "measured": []}))
    predicted = t.explain(fit=no_fit).predicted
    assert predicted is not None
    assert predicted["seconds"] > 1 and predicted["error"] < 0
