"""Samples are uniform, nested, and the same everywhere."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kubist

ROWS = 120_000


def clustered(rows: int = ROWS, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = rng.random((12, 3))
    place = rng.random((rows, 3))
    crowded = rng.random(rows) < 0.5
    cluster = rng.integers(0, 12, rows)
    spread = rng.choice([0.001, 0.01], 12)[cluster, None]
    place[crowded] = (centres[cluster] + rng.normal(size=(rows, 3)) * spread)[crowded]
    return {
        "id": np.arange(rows),
        "x": place[:, 0].astype(np.float32),
        "y": place[:, 1].astype(np.float32),
        "z": place[:, 2].astype(np.float32),
        "speed": (place[:, 0] * 3 + rng.exponential(size=rows)).astype(np.float32),
        "kind": np.where(crowded, cluster, 12),
    }


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return clustered()


@pytest.fixture(scope="module")
def table(data: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    path = tmp_path_factory.mktemp("samples") / "t.kubist"
    return kubist.create(path, data, {"x": (0, 1), "y": None, "z": "quantile"}, identity=["id"])


def ids(result: kubist.Result) -> np.ndarray:
    return np.sort(result.to_arrow()["id"].to_numpy())


def surprise(observed: np.ndarray, expected: np.ndarray, share: float) -> float:
    """Standard deviations of chi-square above its expectation.

    Counts of a sample without replacement have 1 - share of Poisson's variance. The cube root of
    chi-square over its degrees of freedom is nearly normal (Wilson and Hilferty).
    """
    degrees = len(observed)
    chi_square = float(np.sum((observed - expected) ** 2 / expected)) / (1 - share)
    scale = 2 / (9 * degrees)
    return float(((chi_square / degrees) ** (1 / 3) - (1 - scale)) / np.sqrt(scale))


@pytest.mark.parametrize("fraction", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("by", ["x", "y", "z", "speed", "kind", "id", "xy", "xyz"])
def test_uniform_over_space_and_attributes(
    table: kubist.Table, data: dict[str, np.ndarray], fraction: float, by: str
) -> None:
    chosen = ids(table.query(sample=fraction, columns=["id"]))
    assert abs(len(chosen) - ROWS * fraction) < 4 * np.sqrt(ROWS * fraction * (1 - fraction))

    def bins(name: str, count: int) -> np.ndarray:
        edges = np.unique(np.quantile(data[name], np.linspace(0, 1, count + 1)[1:-1]))
        return np.searchsorted(edges, data[name])

    if by == "xyz":
        group = (bins("x", 5) * 5 + bins("y", 5)) * 5 + bins("z", 5)
    elif by == "xy":
        group = bins("x", 10) * 10 + bins("y", 10)
    else:
        group = bins(by, 50)
    everything = np.bincount(group)
    kept = np.bincount(group[chosen], minlength=len(everything))
    expected = everything * fraction
    common = expected >= 5
    assert common.sum() >= 10
    # Five deviations: one hash in some millions, and it never changes.
    assert surprise(kept[common], expected[common], fraction) < 5


def test_as_many_as_asked_for_in_every_region(
    table: kubist.Table, data: dict[str, np.ndarray]
) -> None:
    rng = np.random.default_rng(2)
    deviations = []
    for _ in range(60):
        low = rng.random(3) * 0.8
        high = low + rng.random(3) * 0.4
        inside = np.ones(ROWS, dtype=bool)
        for axis, a, b in zip("xyz", low, high, strict=True):
            inside &= (data[axis] >= np.float32(a)) & (data[axis] <= np.float32(b))
        box = dict(zip("xyz", zip(low, high, strict=True), strict=True))
        assert table.count(box=box) == inside.sum()
        found = table.count(box=box, sample=0.1)
        if inside.sum() > 100:
            deviations.append((found - inside.sum() * 0.1) / np.sqrt(inside.sum() * 0.09))
    assert len(deviations) > 20
    assert max(map(abs, deviations)) < 5


def test_samples_are_nested(table: kubist.Table) -> None:
    box = {"x": (0.2, 0.8), "z": (None, 0.6)}
    last: set[int] = set()
    for fraction in (0.0005, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0):
        sample = set(ids(table.query(box=box, sample=fraction)).tolist())
        assert last <= sample
        last = sample
    assert len(last) == table.count(box=box)


def test_sampling_and_filtering_commute(table: kubist.Table, data: dict[str, np.ndarray]) -> None:
    sample = ids(table.query(sample=0.07))
    cases = [
        ({"x": (0.1, 0.5)}, None, (data["x"] >= np.float32(0.1)) & (data["x"] <= 0.5)),
        (None, "speed > 2", data["speed"] > 2),
        ({"y": (0.5, None)}, "kind IN (1, 2, 12)",
         (data["y"] >= 0.5) & np.isin(data["kind"], [1, 2, 12])),
    ]  # fmt: skip
    for box, where, matches in cases:
        both_ways = ids(table.query(box=box, where=where, sample=0.07))
        assert both_ways.tolist() == sample[matches[sample]].tolist()


def test_windows_share_nothing_and_make_up_the_whole(table: kubist.Table) -> None:
    ends = [0.0, 0.001, 0.1, 0.35, 0.350001, 1.0]
    parts = [ids(table.query(window=window)) for window in itertools.pairwise(ends)]
    assert np.sort(np.concatenate(parts)).tolist() == list(range(ROWS))
    assert ids(table.query(window=(0.0, 0.1))).tolist() == ids(table.query(sample=0.1)).tolist()
    below = set(ids(table.query(sample=0.2)).tolist())
    window = set(ids(table.query(window=(0.1, 0.3))).tolist())
    assert set(ids(table.query(window=(0.1, 0.3), sample=0.2)).tolist()) == window & below


@pytest.mark.parametrize("limit", [1, 10, 999, 5000, 50_000])
def test_a_limit_is_a_fraction(table: kubist.Table, limit: int) -> None:
    box = {"x": (0.1, 0.9)}
    r = table.query(box=box, limit=limit)
    assert 0 < r.fraction < 1
    answer = r.to_arrow()["id"].to_pylist()
    assert len(answer) == len(set(answer)) == limit
    # A priority is finer than a float, so the last row may be on either side.
    assert abs(table.count(box=box, sample=r.fraction) - limit) <= 1
    sample = set(ids(table.query(box=box, sample=r.fraction)).tolist())
    assert len(sample ^ set(answer)) <= 1
    finer = table.query(box=box, limit=limit + 500).to_arrow()["id"].to_pylist()
    assert finer[:limit] == answer


def test_a_limit_beyond_the_rows_returns_all(table: kubist.Table) -> None:
    r = table.query(where="kind = 3", limit=10**9)
    rows = r.to_arrow().num_rows
    assert rows == table.count(where="kind = 3")
    assert r.fraction == 1
    assert table.query(limit=0).to_arrow().num_rows == 0
    # With a fraction, the result is complete only up to it.
    assert table.query(where="kind = 3", limit=10**9, sample=0.5).fraction == 0.5


def test_a_limit_keeps_what_was_seen_while_zooming(table: kubist.Table) -> None:
    wide = table.query(box={"x": (0.0, 1.0)}, limit=2000).to_pandas()
    near = table.query(box={"x": (0.25, 0.5)}, limit=2000).to_pandas()
    seen = set(wide[(wide.x >= 0.25) & (wide.x <= 0.5)].id)
    assert seen <= set(near.id)


def test_the_same_sample_whatever_the_order_and_the_commits(
    data: dict[str, np.ndarray], table: kubist.Table, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    arrow = pa.table(data)
    expected = {p: ids(table.query(sample=p)).tolist() for p in (0.01, 0.2)}
    first = table.query(limit=500).to_arrow()["id"].to_pylist()
    for run, sizes in enumerate([(60_000,), (17, 4096, 30_000), (1, 999, 20_000)]):
        # Only identity and seed matter, not capacity and grid.
        t = kubist.create(
            tmp_path / f"{run}.kubist",
            arrow.schema,
            {"z": (0, 2), "x": None},
            identity=["id"],
            capacity=[None, 100, 5000][run],
        )
        order = rng.permutation(ROWS)
        at = 0
        with t.writer("a") as a, t.writer("b") as b:
            while at < ROWS:
                size = int(rng.choice(sizes))
                writer = [a, b][rng.integers(2)]
                writer.append(arrow.take(order[at : at + size]))
                at += size
                if rng.random() < 0.5:
                    writer.commit()
        assert len(t) == ROWS
        for fraction, sample in expected.items():
            assert ids(t.query(sample=fraction)).tolist() == sample
        assert t.query(limit=500).to_arrow()["id"].to_pylist() == first


def test_a_seed_makes_another_sample(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    few = {name: values[:20_000] for name, values in data.items()}
    samples = []
    for seed in (0, 1, 2**64 - 1):
        t = kubist.create(tmp_path / f"{seed}", few, ["x"], identity=["id"], seed=seed)
        samples.append(set(ids(t.query(sample=0.1)).tolist()))
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        overlap = len(samples[a] & samples[b])
        assert abs(overlap - 200) < 5 * np.sqrt(200)


def test_the_priority_is_made_of_values_not_of_types(tmp_path: Path) -> None:
    """The sample does not depend on the width of integers or the storage of strings."""
    rows = 5000
    numbers = np.arange(rows)
    names = [f"particle {number}" for number in numbers]
    seconds = pa.array(numbers, pa.int64())
    pairs = [
        (pa.array(numbers, pa.int32()), pa.array(numbers, pa.uint64())),
        (pa.array(names), pa.array(names).dictionary_encode()),
        (pa.array(names), pa.array(names, pa.large_string())),
        (pa.array(names), pa.array(names, pa.string_view())),
        (seconds.cast(pa.timestamp("s")), seconds.cast(pa.timestamp("s")).cast(pa.timestamp("ns"))),
        (
            seconds.cast(pa.decimal128(25, 2)),
            seconds.cast(pa.decimal128(25, 2)).cast(pa.decimal128(30, 5)),
        ),
    ]
    for place, pair in enumerate(pairs):
        samples = []
        for side, identity in enumerate(pair):
            data = pa.table({"who": identity, "id": numbers, "x": numbers / rows})
            path = tmp_path / f"{place}-{side}"
            t = kubist.create(path, data, ["x"], identity=["who"], seed=7)
            samples.append(ids(t.query(sample=0.1)).tolist())
        assert samples[0] == samples[1], pair[1].type
        assert abs(len(samples[0]) - 500) < 5 * np.sqrt(450)


def test_without_identity_each_record_is_by_itself(tmp_path: Path) -> None:
    rows = 40_000
    data = {"id": np.arange(rows), "x": np.zeros(rows), "y": np.zeros(rows)}
    t = kubist.create(tmp_path / "t", data, ["x", "y"])
    sample = ids(t.query(sample=0.05))
    assert abs(len(sample) - 2000) < 5 * np.sqrt(2000)
    counts = np.bincount(sample // 1000, minlength=40)
    assert surprise(counts, np.full(40, 50.0), 0.05) < 5
    assert t.schema.names == ["id", "x", "y"]


def test_whole_trajectories(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    particles, steps = 3000, 20
    t = kubist.create(
        tmp_path / "t",
        pa.schema({"pid": pa.int32(), "time": pa.float32(), "x": pa.float32(), "y": pa.float32()}),
        {"x": (-50, 50), "y": None, "time": (0, 20)},
        identity=["pid"],
        capacity=500,
    )
    place = rng.normal(size=(particles, 2)).astype(np.float32)
    for step in range(steps):
        place += rng.normal(size=(particles, 2)).astype(np.float32)
        t.append({
            "pid": np.arange(particles, dtype=np.int32),
            "time": np.full(particles, step, dtype=np.float32),
            "x": place[:, 0],
            "y": place[:, 1],
        })  # fmt: skip
    last: set[int] = set()
    for fraction in (0.01, 0.1, 0.4):
        sample = t.query(sample=fraction).to_pandas()
        lengths = sample.groupby("pid").size()
        assert (lengths == steps).all()
        assert abs(len(lengths) - particles * fraction) < 5 * np.sqrt(particles * fraction)
        assert last <= set(lengths.index)
        last = set(lengths.index)
    # In a box: all its rows of sampled particles, and no others.
    inside = t.query(box={"x": (0, 5)}).to_pandas()
    sample = t.query(box={"x": (0, 5)}, sample=0.4).to_pandas()
    expected = inside[inside.pid.isin(last)]
    assert len(sample) == len(expected)
    assert set(zip(sample.pid, sample.time, strict=True)) == set(
        zip(expected.pid, expected.time, strict=True)
    )
