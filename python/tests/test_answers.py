"""Every result equals that of a plain loop over the rows.

A query with a limit of all rows gives the order of the priorities, which are not public. A fraction
must be its prefix, a window a range, and a limit the first matches.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from worlds import Truth, World, both, box, condition, world

import kubist

# The engine's oracle runs many more; a few cover the binding.
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.release) for seed in range(6, 80))]
QUESTIONS = 30


def fill(rng: np.random.Generator, path: Path, w: World) -> kubist.Table:
    dimensions: dict[str, object] = {}
    for name in w.dimensions:
        kind = w.columns[name].kind
        if pa.types.is_floating(kind.type) and rng.random() < 0.5:
            dimensions[name] = (0.25, 0.75)
        else:
            dimensions[name] = [None, "quantile"][rng.integers(2)]
    t = kubist.create(
        path,
        w.arrow.schema,
        dimensions,
        identity=[None, ["id"], ["id", w.dimensions[0]]][rng.integers(3)],
        capacity=[None, 20, 100, 1000][rng.integers(4)],
        seed=int(rng.integers(2**63)),
    )
    order = rng.permutation(w.rows)
    while len(order):
        size = int(rng.choice([1, 3, 40, 300, 5000]))
        t.append(w.take(order[:size].tolist()))
        order = order[size:]
    return t


def same_values(found: pa.Table, expected: pa.Table) -> bool:
    """Bitwise equality: NaN equals NaN, and -0.0 differs from 0.0."""

    def bits(column: pa.ChunkedArray) -> pa.Array:
        array = column.combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if pa.types.is_floating(array.type):
            valid = pc.is_valid(array)
            array = array.view(f"int{array.type.bit_width}")
            array = pc.if_else(valid, array, pa.scalar(None, array.type))
        return array

    return found.schema.equals(expected.schema) and all(
        bits(found[name]).equals(bits(expected[name])) for name in expected.column_names
    )


def ids(answer: pa.Table) -> list[int]:
    return answer["id"].to_pylist()


class Asked:
    def __init__(self, rng: np.random.Generator, path: Path, w: World) -> None:
        self.rng, self.world = rng, w
        self.table = fill(rng, path, w)
        ranked = self.table.query(limit=w.rows + 1)
        self.order = ids(ranked.to_arrow())
        assert sorted(self.order) == list(range(w.rows))
        assert ranked.fraction == 1

    def chosen(self, **arguments: object) -> set[int]:
        return set(ids(self.table.query(columns=["id"], **arguments).to_arrow()))

    def prefix(self, fraction: float) -> set[int]:
        sample = self.chosen(sample=fraction)
        assert sample == set(self.order[: len(sample)])
        return sample

    def question(self) -> None:
        rng, w = self.rng, self.world
        arguments: dict[str, object] = {}
        holds: list[Truth] = [True] * w.rows
        if rng.random() < 0.6:
            arguments["box"], inside = box(rng, w)
            holds = both(holds, inside)
        if rng.random() < 0.6:
            asked = condition(rng, w)
            arguments["where"] = asked.sql
            holds = both(holds, asked.holds)
        allowed = set(range(w.rows))
        fraction = window = None
        if rng.random() < 0.4:
            fraction = float(rng.choice([rng.random(), 0.01, 0.5, 1.0]))
            arguments["sample"] = fraction
            allowed &= self.prefix(fraction)
        if rng.random() < 0.3:
            window = tuple(sorted([float(rng.choice([0.0, rng.random()])), 1 - rng.random() / 2]))
            arguments["window"] = window
            below = self.prefix(window[0]) if window[0] > 0 else set()
            allowed &= self.prefix(window[1]) - below
        expected = [row for row in self.order if holds[row] is True and row in allowed]
        assert self.table.count(**arguments) == len(expected), arguments

        limit = None
        if rng.random() < 0.4:
            limit = int(rng.choice([1, 2, 10, 100, w.rows]))
            arguments["limit"] = limit
            matches, expected = expected, expected[:limit]
        others = [name for name in w.columns if name != "id"]
        columns = None
        if rng.random() < 0.5:
            columns = ["id", *rng.permutation(others)[: rng.integers(0, len(others) + 1)].tolist()]
            columns = rng.permutation(columns).tolist()
            arguments["columns"] = columns

        result = self.table.query(**arguments)
        answer = result.to_arrow()
        found = ids(answer)
        if limit is not None:
            assert found == expected, arguments
            if len(matches) > limit:
                again = {**arguments, "limit": None, "sample": result.fraction}
                # A priority is finer than a float, so the last row may be on either side.
                tied = set(matches[limit - 1 : limit + 1])
                assert set(ids(self.table.query(**again).to_arrow())) ^ set(expected) <= tied
        else:
            assert sorted(found) == sorted(expected), arguments
        rows = w.take(found).select(columns or w.arrow.column_names)
        assert same_values(answer, rows), arguments
        assert answer.schema == result.schema
        assert result.stats.rows_returned == len(found)
        assert result.stats.rows_read >= len(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_question_on_any_table(seed: int, path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1, 2, 17, 200, 700, 1500]))
    w = world(rng, rows, dimensions=seed % 8 + 1, payload=int(rng.integers(0, 6)))
    asked = Asked(rng, path, w)
    for _ in range(QUESTIONS):
        asked.question()
    assert asked.table.verify(deep=True).ok


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_lowest_in_each_cell(seed: int, path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = 3000
    x = np.where(rng.random(rows) < 0.5, rng.random(rows), rng.normal(0.3, 0.05, rows))
    y = rng.normal(0.0, 1.0, rows)
    data = {"id": np.arange(rows), "x": x, "y": y, "kind": rng.integers(0, 3, rows)}
    t = kubist.create(path, data, {"x": (0, 1), "y": (-1, 1)}, identity=["id"], capacity=100)
    order = ids(t.query(limit=rows).to_arrow())

    def lowest(count: int, widths: dict[str, float], matches: np.ndarray) -> list[int]:
        taken: dict[tuple[int, ...], int] = {}
        chosen = []
        for row in order:
            cell = tuple(
                int(np.floor((data[name][row] - {"x": 0, "y": -1}[name]) / width))
                for name, width in widths.items()
            )
            if matches[row] and taken.get(cell, 0) < count:
                taken[cell] = taken.get(cell, 0) + 1
                chosen.append(row)
        return chosen

    everything = np.ones(rows, dtype=bool)
    for _ in range(12):
        widths = {"x": float(rng.choice([0.03, 0.1, 0.5])), "y": float(rng.choice([0.2, 1.0]))}
        if rng.random() < 0.3:
            del widths["y"]
        count = int(rng.choice([1, 3, 20]))
        expected = lowest(count, widths, everything)
        assert sorted(ids(t.query(per_cell=(count, widths)).to_arrow())) == sorted(expected)
        limited = ids(t.query(per_cell=(count, widths), limit=10).to_arrow())
        assert limited == expected[:10]
        expected = lowest(count, widths, data["kind"] == 1)
        found = ids(t.query(per_cell=(count, widths), where="kind = 1").to_arrow())
        assert sorted(found) == sorted(expected)


@pytest.mark.release
def test_cells_do_not_flicker_while_panning(path: Path) -> None:
    rng = np.random.default_rng(5)
    data = {"id": np.arange(20_000), "x": rng.random(20_000), "y": rng.random(20_000)}
    t = kubist.create(path, data, {"x": (0, 1), "y": (0, 1)}, identity=["id"])
    width = 1 / 16  # exact in binary, like the bounds below
    views = [(shift / 16, (shift + 6) / 16) for shift in range(11)]
    shown = {}
    for view in views:
        r = t.query(box={"x": view, "y": (0.25, 0.5)}, per_cell=(4, {"x": width, "y": width}))
        shown[view] = r.to_pandas()
    for left, right in itertools.pairwise(views):
        # Cells that are completely in both views have the same rows.
        low, high = right[0], left[1]
        in_both = [
            set(frame[(frame.x > low) & (frame.x < high) & (frame.y < 0.5)].id)
            for frame in (shown[left], shown[right])
        ]
        assert in_both[0] == in_both[1]
        assert len(in_both[0]) == 5 * 4 * 4


@pytest.mark.release
def test_a_million_records_on_one_point(path: Path) -> None:
    rows = 1_000_000
    data = {
        "id": np.arange(rows),
        "x": np.full(rows, 0.5, dtype=np.float32),
        "y": np.full(rows, -1.0, dtype=np.float32),
        "z": np.zeros(rows, dtype=np.float32),
    }
    t = kubist.create(path, data, ["x", "y", "z"], identity=["id"])
    assert len(t) == t.count(box={"x": (0.5, 0.5), "y": (-1, -1)}) == rows
    assert t.count(box={"x": (0.6, None)}) == 0
    sample = t.query(sample=0.01).to_arrow()
    assert abs(sample.num_rows - rows * 0.01) < 5 * np.sqrt(rows * 0.01)
    assert ids(t.query(sample=" 1% ").to_arrow()) == ids(sample)
    assert ids(t.query(sample="0.01").to_arrow()) == ids(sample)
    first = ids(t.query(limit=100).to_arrow())
    assert set(first) < set(ids(sample))
    assert first == ids(t.query(limit=1000).to_arrow())[:100]
    assert len(set(ids(t.query(columns=["id"]).to_arrow()))) == rows


def test_equal_identities_are_records_of_their_own(path: Path) -> None:
    data = {"pid": np.zeros(500, dtype=np.int64), "x": np.arange(500.0)}
    t = kubist.create(path, data, ["x"], identity=["pid"])
    assert len(t) == t.query().to_arrow().num_rows == 500
    # All rows have one priority, so a limit must cut the tie at the same row each time.
    ten = t.query(limit=10).to_pandas().x.tolist()
    assert t.query(limit=20).to_pandas().x.tolist()[:10] == ten
    assert t.query(limit=10, where="x >= 0").to_pandas().x.tolist() == ten


def test_refine_brings_each_record_once(path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = 5000
    data = {"id": np.arange(rows), "x": rng.random(rows), "y": rng.random(rows)}
    t = kubist.create(path, data, ["x", "y"], identity=["id"], capacity=200)
    t.append({"id": np.arange(rows, rows + 100), "x": rng.random(100), "y": rng.random(100)})
    seen: list[int] = []
    last = 0.0
    for r in t.refine(box={"x": (0.2, 0.9)}, where="y < 0.8", columns=["id"], start=0.01, factor=4):
        seen += ids(r.to_arrow())
        assert r.fraction > last
        last = r.fraction
        so_far = t.query(box={"x": (0.2, 0.9)}, where="y < 0.8", sample=last)
        assert sorted(seen) == sorted(ids(so_far.to_arrow()))
    assert last == 1
    assert len(seen) == len(set(seen)) == t.count(box={"x": (0.2, 0.9)}, where="y < 0.8")
