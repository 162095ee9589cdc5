"""Neighbours of points and rows, compared with SciPy and with a search of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial import cKDTree

import kubist

Columns = dict[str, np.ndarray[Any, Any]]
ROWS = 40_000
PERIOD = {"x": 1.0, "y": 1.0, "z": 1.0}


def create(location: Path, columns: Columns, dimensions: list[str]) -> kubist.Table:
    numbered = {**columns, "id": np.arange(len(next(iter(columns.values()))))}
    return kubist.create(location, numbered, dimensions, capacity=512)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, np.ndarray[Any, Any]]:
    """Rows in clusters, on a grid with ties, and copies of rows, in [0, 1)."""
    random = np.random.default_rng(1)
    width = random.choice([0.003, 0.1], (ROWS // 2, 1), p=[0.1, 0.9])
    clustered = 0.5 + random.normal(size=(ROWS // 2, 3)) * width
    grid = random.integers(0, 16, (ROWS // 4, 3)) / 16
    even = random.random((ROWS // 4 - 100, 3))
    at = np.concatenate([clustered % 1, grid, even])
    at = np.concatenate([at, at[:100]])
    columns = dict(zip("xyz", at.T, strict=True))
    return create(tmp_path_factory.mktemp("near") / "space", columns, ["x", "y", "z"]), at


@pytest.fixture(scope="module")
def sky(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, Columns]:
    """Stars, many near a pole and across 0h."""
    random = np.random.default_rng(2)
    dec = np.degrees(np.arcsin(random.uniform(-1, 1, ROWS)))
    dec[: ROWS // 4] = 90 - np.abs(random.normal(size=ROWS // 4))
    dec[:2] = [90, -90]
    ra = random.random(ROWS) * 360
    ra[ROWS // 4 : ROWS // 2] = random.normal(size=ROWS // 4) % 360
    dec[ROWS // 4 : ROWS // 2] = random.normal(size=ROWS // 4)
    columns = {"ra": ra, "dec": dec}
    return create(tmp_path_factory.mktemp("near") / "sky", columns, ["ra", "dec"]), columns


def vectors(ra: Any, dec: Any) -> np.ndarray[Any, Any]:
    ra, dec = np.radians(ra), np.radians(dec)
    return np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1)


def ordered(result: kubist.Result) -> Columns:
    found = result.to_numpy()
    order = np.lexsort((found["id"], found["distance"], found["point"]))
    return {name: column[order] for name, column in found.items()}


@pytest.mark.parametrize("tile_rows", [None, 1_000])
@pytest.mark.parametrize("period", [None, PERIOD])
def test_nearest_rows_are_those_of_scipy(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
    period: dict[str, float] | None,
    tile_rows: int | None,
) -> None:
    table, at = space
    random = np.random.default_rng(3)
    points = np.concatenate(
        [random.random((200, 3)), at[::100], random.integers(0, 16, (50, 3)) / 16]
    )
    tree = cKDTree(at, boxsize=None if period is None else 1.0)
    for k in (1, 7, 300):
        result = table.nearest(
            points, k, columns=["id", *"xyz"], period=period, tile_rows=tile_rows
        )
        found = result.to_numpy()
        assert (np.bincount(found["point"].astype(int)) == k).all()
        order = np.lexsort((found["rank"], found["point"]))
        assert (found["rank"][order].reshape(-1, k) == np.arange(1, k + 1)).all()
        expected, _ = tree.query(points, [*range(1, k + 1)])
        assert np.allclose(found["distance"][order].reshape(-1, k), expected, rtol=1e-14, atol=0)
        # Ties may be other rows, but the columns must be those of the rows.
        rows = np.stack([found[axis] for axis in "xyz"], axis=1)
        assert (rows == at[found["id"]]).all()
        pairs = found["point"].astype(np.int64) * ROWS + found["id"]
        assert len(np.unique(pairs)) == len(pairs)


@pytest.mark.parametrize("tile_rows", [None, 1_000])
@pytest.mark.parametrize("period", [None, PERIOD])
def test_rows_within_a_radius_are_those_of_scipy(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
    period: dict[str, float] | None,
    tile_rows: int | None,
) -> None:
    table, at = space
    points = np.concatenate([at[::150], np.random.default_rng(4).integers(0, 16, (50, 3)) / 16])
    tree = cKDTree(at, boxsize=None if period is None else 1.0)
    # 1/16 is the distance of grid neighbours: rows at the boundary belong to the ball.
    for radius in (0.0, 0.004, 1 / 16):
        found = ordered(
            table.within(points, radius, columns=["id"], period=period, tile_rows=tile_rows)
        )
        expected = [
            np.array(rows, int) + ROWS * n
            for n, rows in enumerate(tree.query_ball_point(points, radius))
        ]
        pairs = found["id"] + ROWS * found["point"].astype(int)
        assert np.array_equal(np.sort(pairs), np.sort(np.concatenate(expected))), radius


def test_the_sky_has_no_seam_and_no_poles(sky: tuple[kubist.Table, Columns]) -> None:
    table, at = sky
    random = np.random.default_rng(5)
    points = {
        "ra": np.concatenate(
            [random.random(100) * 360, random.normal(size=100) % 360, [0, 360, -0.5]]
        ),
        "dec": np.concatenate([np.degrees(np.arcsin(random.uniform(-1, 1, 200))), [90, -90, 0]]),
    }
    points["dec"][100:150] = random.normal(size=50)
    points["dec"][150:200] = 90 - np.abs(random.normal(size=50))
    rows, stars = vectors(points["ra"], points["dec"]), vectors(at["ra"], at["dec"])
    chords = np.sqrt(((rows[:, None] - stars[None]) ** 2).sum(axis=2))
    angles = np.degrees(2 * np.arcsin(np.minimum(chords / 2, 1)))
    sphere = ("ra", "dec")
    found = table.nearest(points, 5, sphere=sphere, columns=["id"]).to_numpy()
    order = np.lexsort((found["rank"], found["point"]))
    expected = np.sort(angles, axis=1)[:, :5]
    assert np.allclose(found["distance"][order].reshape(-1, 5), expected, rtol=1e-9, atol=1e-12)
    for radius in (0.2, 30.0, 180.0):
        some = {name: column[::40] if radius == 180 else column for name, column in points.items()}
        near = angles[::40] if radius == 180 else angles
        result = table.within(some, radius, sphere=sphere, columns=["id"]).to_numpy()
        mine = np.zeros(near.shape, bool)
        mine[result["point"].astype(int), result["id"]] = True
        assert len(result["id"]) == mine.sum()
        # Distances within a rounding error of the radius are left out.
        clear = np.abs(near - radius) > 1e-9
        assert (mine == (near <= radius))[clear].all()
    degree = table.within({"ra": 0.0, "dec": 0.0}, "60 arcmin", sphere=sphere, columns=["id"])
    assert len(degree.to_numpy()["id"]) == (angles_from(at, 0, 0) <= 1).sum()


def angles_from(at: Columns, ra: float, dec: float) -> np.ndarray[Any, Any]:
    there = vectors([ra], [dec])
    return np.degrees(
        2 * np.arcsin(np.sqrt(((vectors(at["ra"], at["dec"]) - there) ** 2).sum(1)) / 2)
    )


def test_conditions_samples_and_limits_of_distance(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
) -> None:
    table, at = space
    points = at[::400]
    numbers = np.flatnonzero(np.arange(ROWS) % 3 == 0)
    found = table.nearest(points, 4, where="id % 3 = 0", columns=["id"]).to_numpy()
    order = np.lexsort((found["rank"], found["point"]))
    expected, _ = cKDTree(at[numbers]).query(points, 4)
    assert np.allclose(found["distance"][order].reshape(-1, 4), expected, rtol=1e-14)
    near = table.nearest(points, 4, radius=0.01, columns=["id"]).to_numpy()
    everywhere = table.nearest(points, 4, columns=["id"]).to_numpy()
    assert len(near["id"]) == (everywhere["distance"] <= 0.01).sum()
    sampled = table.query(sample=0.2, columns=["id"]).to_numpy()["id"]
    some = table.within(points, 0.02, sample=0.2, columns=["id"])
    assert set(some.to_numpy()["id"]) <= set(sampled)
    assert some.fraction == 0.2
    assert some.stats.rows_read > 0


def test_points_in_many_forms(space: tuple[kubist.Table, np.ndarray[Any, Any]]) -> None:
    import pandas as pd
    import polars as pl

    table, at = space
    columns = dict(zip("xyz", at[:5].T, strict=True))
    forms = [at[:5], at[:5].tolist(), columns, pa.table(columns), pd.DataFrame(columns)]
    forms += [pl.DataFrame(columns), iter([pa.table(columns)]), {**columns, "other": list("abcde")}]
    for form in forms:
        result = table.nearest(form, 1, columns=["id"])
        assert np.array_equal(np.sort(result.to_numpy()["point"]), np.arange(5)), form
        assert (result.to_numpy()["distance"] == 0).all()
    assert table.nearest(at[7], 2).to_arrow().num_rows == 2
    assert table.nearest(at[:0], 2).to_arrow().num_rows == 0
    plane = table.nearest({"y": 0.5, "x": 0.5}, 3, on=("x", "y"), columns=["id"]).to_numpy()
    assert np.allclose(plane["distance"], np.sort(np.hypot(*(at[:, :2] - 0.5).T))[:3])
    # Columns that are no dimensions, and a table without nulls.
    line = table.nearest([100.2], 2, on=["id"], columns=["id"]).to_numpy()
    assert line["id"].tolist() == [100, 101]


def test_rows_without_a_position_are_no_neighbours(path: Path) -> None:
    columns = {"x": np.array([0.0, np.nan, 2.0]), "y": pa.array([0.0, 1.0, None])}
    table = kubist.create(path, columns, ["x"])
    assert table.nearest([[0, 0]], 1, on=("x", "y")).to_arrow()["distance"].to_pylist() == [0.0]
    assert table.within([[0, 0]], 9, on=("x", "y")).to_arrow().num_rows == 1
    with pytest.raises(kubist.InvalidInput, match="k: 2 neighbours of 1 rows that match"):
        table.nearest([[0, 0]], 2, on=("x", "y"))


def test_lengths_have_units(path: Path) -> None:
    table = kubist.create(
        path, {"x": [0.0, 0.01], "y": [0.0, 0.0]}, ["x", "y"], units={"x": "m", "y": "m"}
    )
    assert table.within([[0, 0]], "5 mm").to_arrow().num_rows == 1
    found = table.within([[0, 0]], "1 cm").to_arrow()
    assert found.num_rows == 2 and found.schema.field("distance").metadata[b"unit"] == b"m"
    field = [pa.field(axis, pa.float64(), metadata={"unit": "mm"}) for axis in "xy"]
    points = pa.table([[10.0], [0.0]], schema=pa.schema(field))
    assert table.nearest(points, 1).to_arrow()["x"].to_pylist() == [0.01]
    with pytest.raises(kubist.InvalidInput, match="radius|kg"):
        table.within([[0, 0]], "1 kg")


def test_periods_of_the_table_apply(path: Path) -> None:
    columns = {"x": [0.1, 5.0, 9.9], "id": [0, 1, 2]}
    table = kubist.create(path, columns, ["x"], period={"x": 10})
    found = table.nearest([9.95], 2, columns=["id"]).to_numpy()
    assert found["id"].tolist() == [2, 0] and np.allclose(found["distance"], [0.05, 0.15])
    assert table.pairs(0.3).to_arrow().num_rows == 1
    # The mean separation is 10/3.
    labels = table.friends(0.07, min_members=2).to_arrow()
    assert sorted(zip(labels["id"].to_pylist(), labels["label"].to_pylist(), strict=True)) == [
        (0, 0),
        (1, -1),
        (2, 0),
    ]
    assert table.pair_counts([0, 1]).rdf().value == pytest.approx([1 / (3 * 2 / 10)])


MISTAKES: list[tuple[str, Any]] = [
    ("k: 0", lambda t: t.nearest([[0, 0, 0]], 0)),
    ("k: 40001 neighbours of 40000 rows", lambda t: t.nearest([[0, 0, 0]], 40_001)),
    ("point 1 is no position: x = NaN", lambda t: t.nearest([[0, 0, 0], [np.nan, 0, 0]])),
    ('column "z" is missing; they have x, y', lambda t: t.nearest({"x": [0.0], "y": [0.0]})),
    ("expected an array of shape .points, 3. for x, y, z", lambda t: t.nearest([[0, 0]])),
    ("no array of numbers", lambda t: t.nearest([["a", "b", "c"]])),
    ("radius: -1 is negative", lambda t: t.within([[0, 0, 0]], -1)),
    ("radius: expected a number, not NaN", lambda t: t.within([[0, 0, 0]], float("nan"))),
    (
        "above 0.5, half of the shortest period",
        lambda t: t.within([[0, 0, 0]], 0.6, period={"x": 1}),
    ),
    (
        "period: .w. is no column of the distance",
        lambda t: t.within([[0, 0, 0]], 0.1, period={"w": 1}),
    ),
    ("period: 0 of .x. must be above 0", lambda t: t.within([[0, 0, 0]], 0.1, period={"x": 0})),
    ("nope", lambda t: t.within([[0, 0, 0]], 0.1, on=("x", "nope", "z"))),
    ("nope", lambda t: t.within([[0, 0, 0]], 0.1, columns=["nope"])),
    ("nope", lambda t: t.within([[0, 0, 0]], 0.1, where="nope > 1")),
    ("on and sphere", lambda t: t.within([[0, 0]], 0.1, on=("x", "y"), sphere=("x", "y"))),
    ("on: column .x. is given twice", lambda t: t.within([[0, 0]], 0.1, on=("x", "x"))),
    ("180, degrees", lambda t: t.within([[0, 0]], 200, sphere=("x", "y"))),
    ("own column of this name", lambda t: t.nearest([[0, 0, 0]], columns=["x AS distance"])),
]


@pytest.mark.parametrize(("message", "call"), MISTAKES)
def test_mistakes_are_named(
    space: tuple[kubist.Table, np.ndarray[Any, Any]], message: str, call: Any
) -> None:
    with pytest.raises(kubist.InvalidInput, match=message):
        call(space[0]).to_arrow()


def test_searches_read_little_more_than_they_need(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
) -> None:
    table, at = space
    everywhere = table.nearest(at[::4], 8, columns=["id"])
    everywhere.to_arrow()
    assert everywhere.stats.rows_read < 4 * ROWS
    # Tiles read their own rows, those around them, and the sample for the densities.
    pairs = table.pairs(0.001, columns=["id"], tile_rows=5_000)
    pairs.to_arrow()
    assert pairs.stats.rows_read < 5 * ROWS
    here = table.nearest([[0.5, 0.5, 0.5]], 8, columns=["id"])
    here.to_arrow()
    # The sample for the densities is the whole small table.
    assert here.stats.rows_read < 1.5 * ROWS


@pytest.mark.parametrize("period", [None, PERIOD])
def test_each_pair_once(
    space: tuple[kubist.Table, np.ndarray[Any, Any]], period: dict[str, float] | None
) -> None:
    table, at = space
    tree = cKDTree(at, boxsize=None if period is None else 1.0)
    for radius in (0.0, 0.003, 0.01):
        expected = tree.query_pairs(radius, output_type="ndarray")
        found = table.pairs(radius, columns=["id"], period=period, tile_rows=2_000).to_numpy()
        mine = np.sort(np.stack([found["id_1"], found["id_2"]], axis=1), axis=1)
        assert np.array_equal(np.unique(mine, axis=0), np.unique(np.sort(expected, axis=1), axis=0))
        assert len(mine) == len(expected)


def test_pairs_on_the_sky(sky: tuple[kubist.Table, Columns]) -> None:
    table, at = sky
    stars = vectors(at["ra"], at["dec"])
    expected = cKDTree(stars).query_pairs(2 * np.sin(np.radians(0.02) / 2), output_type="ndarray")
    found = table.pairs(0.02, sphere=("ra", "dec"), columns=["id"], tile_rows=4_000).to_numpy()
    mine = np.sort(np.stack([found["id_1"], found["id_2"]], axis=1), axis=1)
    assert len(mine) == len(expected) > 1000
    assert np.array_equal(np.unique(mine, axis=0), np.unique(np.sort(expected, axis=1), axis=0))


def groups(labels: np.ndarray[Any, Any]) -> set[frozenset[int]]:
    """The sets of rows with equal labels, without noise."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return {frozenset(part.tolist()) for part in parts if labels[part[0]] >= 0}


def dbscan(
    at: np.ndarray[Any, Any], radius: float, least: int, box: float | None
) -> tuple[np.ndarray[Any, Any], list[int], np.ndarray[Any, Any]]:
    """The core rows, their components, and the rows that are not noise."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tree = cKDTree(at, boxsize=box)
    core = tree.query_ball_point(at, radius, return_length=True) >= least
    pairs = tree.query_pairs(radius, output_type="ndarray")
    linked = pairs[core[pairs].all(axis=1)]
    matrix = coo_array((np.ones(len(linked)), (linked[:, 0], linked[:, 1])), (len(at), len(at)))
    touched = core.copy()
    touched[pairs[core[pairs[:, 0]], 1]] = True
    touched[pairs[core[pairs[:, 1]], 0]] = True
    return core, connected_components(matrix, directed=False)[1], touched


@pytest.mark.parametrize("period", [None, PERIOD])
def test_clusters_are_those_of_dbscan(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
    period: dict[str, float] | None,
) -> None:
    table, at = space
    box = None if period is None else 1.0
    for radius, least, rows in [(0.01, 5, None), (0.02, 30, 4_000), (0.015, 1, 2_000)]:
        # Clusters cross the borders of small tiles.
        found = table.cluster(radius, least, columns=["id"], period=period, tile_rows=rows)
        found = found.to_numpy()
        labels = np.empty(ROWS, int)
        labels[found["id"]] = found["label"]
        core, component, touched = dbscan(at, radius, least, box)
        assert np.array_equal(labels >= 0, touched)
        assert groups(np.where(core, labels, -1)) == groups(np.where(core, component, -1))
        # A border row is in the cluster of its nearest core row.
        border = np.flatnonzero(touched & ~core)
        cores = cKDTree(at[core], boxsize=box)
        distance, _ = cores.query(at[border])
        for row, nearest in zip(border.tolist(), distance.tolist(), strict=True):
            near = np.flatnonzero(core)[cores.query_ball_point(at[row], nearest * (1 + 1e-12))]
            assert labels[row] in labels[near]
        sizes = np.bincount(labels[labels >= 0])
        assert (np.diff(sizes) <= 0).all() and sizes.min() > 0


def test_clusters_are_those_of_scikit_learn(
    space: tuple[kubist.Table, np.ndarray[Any, Any]],
) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    table, at = space
    theirs = cluster.DBSCAN(eps=0.01, min_samples=8).fit(at)
    found = table.cluster(0.01, 8, columns=["id"]).to_numpy()
    labels = np.empty(ROWS, int)
    labels[found["id"]] = found["label"]
    assert np.array_equal(labels == -1, theirs.labels_ == -1)
    core = theirs.core_sample_indices_
    mine, other = np.full(ROWS, -1), np.full(ROWS, -1)
    mine[core], other[core] = labels[core], theirs.labels_[core]
    assert groups(mine) == groups(other)


def test_friends_of_friends(
    space: tuple[kubist.Table, np.ndarray[Any, Any]], sky: tuple[kubist.Table, Columns]
) -> None:
    table, at = space
    period = PERIOD
    found = table.friends(0.2, period=period, columns=["id"], min_members=10, tile_rows=3_000)
    found = found.to_numpy()
    _, component, _ = dbscan(at, 0.2 / ROWS ** (1 / 3), 1, 1.0)
    large = np.bincount(component)[component] >= 10
    labels = np.empty(ROWS, int)
    labels[found["id"]] = found["label"]
    assert groups(labels) == groups(np.where(large, component, -1))
    stars, columns = sky
    found = stars.friends(
        length="0.05 deg", sphere=("ra", "dec"), columns=["id"], min_members=2, tile_rows=4_000
    )
    labels = np.empty(ROWS, int)
    labels[found.to_numpy()["id"]] = found.to_numpy()["label"]
    vector = vectors(columns["ra"], columns["dec"])
    _, component, _ = dbscan(vector, 2 * np.sin(np.radians(0.05) / 2), 1, None)
    paired = np.bincount(component)[component] > 1
    assert groups(labels) == groups(np.where(paired, component, -1))
    with pytest.raises(kubist.InvalidInput, match="volume: give it, because y, z have no period"):
        table.friends(0.2, period={"x": 1.0})


def test_labels_become_a_table(
    space: tuple[kubist.Table, np.ndarray[Any, Any]], path: Path
) -> None:
    table, _ = space
    labelled = kubist.create(path, table.cluster(0.01, 5), ["x", "y", "z"])
    assert len(labelled) == ROWS
    assert labelled.estimate("count()", where="label = 0").value > 100


def test_matches_of_two_tables(sky: tuple[kubist.Table, Columns], path: Path) -> None:
    import pandas as pd

    table, at = sky
    random = np.random.default_rng(6)
    chosen = random.choice(ROWS, 3000, replace=False)
    other = {
        "RA": (at["ra"][chosen] + random.normal(size=3000) * 0.01) % 360,
        "DE": np.clip(at["dec"][chosen] + random.normal(size=3000) * 0.01, -90, 90),
        "id": np.arange(3000),
    }
    stars, sources = vectors(at["ra"], at["dec"]), vectors(other["RA"], other["DE"])
    chord = 2 * np.sin(np.radians(0.02) / 2)
    tree = cKDTree(sources)
    expected = {
        (star, int(source))
        for star, near in enumerate(tree.query_ball_point(stars, chord))
        for source in near
    }
    distance, nearest = tree.query(stars)
    best = {(star, int(nearest[star])) for star in np.flatnonzero(distance <= chord).tolist()}
    theirs = ("RA", "DE")
    second = kubist.create(path, other, ["RA", "DE"])
    for form in (second, second.snapshot(), pd.DataFrame(other), pa.table(other), other):
        every = table.crossmatch(
            form, "0.02 deg", "all", other_sphere=theirs, columns=["id"], tile_rows=5_000
        )
        found = every.to_numpy()
        pairs = set(zip(found["id"].tolist(), found["id_2"].tolist(), strict=True))
        assert pairs == expected and len(found["id"]) == len(expected)
        one = table.crossmatch(form, 0.02, other_sphere=theirs, other_columns=["id"]).to_numpy()
        assert set(zip(one["id"].tolist(), one["id_2"].tolist(), strict=True)) == best
        assert "RA" not in one and (one["distance"] <= 0.02).all()
    none = table.crossmatch(second, 0.02, other_sphere=theirs, other_where="id < 0")
    assert none.to_arrow().num_rows == 0
    with pytest.raises(kubist.InvalidInput, match="no column `dec`"):
        table.crossmatch(second, 0.02)


def test_pairs_by_distance(space: tuple[kubist.Table, np.ndarray[Any, Any]]) -> None:
    table, at = space
    edges = np.array([0, 0.01, 0.02, 1 / 16])
    period = PERIOD
    tree = cKDTree(at, boxsize=1.0)
    pairs = tree.query_pairs(1 / 16, output_type="ndarray")
    apart = np.abs(at[pairs[:, 0]] - at[pairs[:, 1]])
    distances = np.sqrt((np.minimum(apart, 1 - apart) ** 2).sum(axis=1))
    expected, _ = np.histogram(distances, edges)
    counts = table.pair_counts(edges, period=period, tile_rows=5_000)
    assert counts.pairs.tolist() == counts.low.tolist() == expected.tolist()
    volume = np.diff(4 / 3 * np.pi * edges**3)
    assert np.allclose(counts.rdf().value, expected / (ROWS * (ROWS - 1) / 2 * volume))
    assert np.allclose(counts.correlation().value, counts.rdf().value - 1)
    with pytest.raises(kubist.InvalidInput, match="edges: expected two or more lengths"):
        table.pair_counts([0.2, 0.1])


def test_intervals_of_sampled_pairs(tmp_path: Path) -> None:
    """Nearly all intervals from many samples contain the count of all rows."""
    random = np.random.default_rng(9)
    at = np.concatenate([random.random((1500, 2)), 0.5 + random.normal(size=(500, 2)) * 0.02]) % 1
    columns = {**dict(zip("xy", at.T, strict=True)), "id": np.arange(2000)}
    edges, period = [0, 0.01, 0.05], {"x": 1.0, "y": 1.0}
    inside = np.zeros(2)
    for seed in range(60):
        table = kubist.create(tmp_path / str(seed), columns, ["x", "y"], seed=seed)
        exact = table.pair_counts(edges, period=period).pairs
        found = table.pair_counts(edges, period=period, sample=0.3)
        inside += (found.low <= exact) & (exact <= found.high)
        table.close()
    assert (inside >= 51).all(), inside


def test_centres_of_k_means(path: Path) -> None:
    random = np.random.default_rng(10)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    sizes = [120_000, 60_000, 20_000]
    at = np.concatenate(
        [c + random.normal(size=(n, 2)) for c, n in zip(centres, sizes, strict=True)]
    )
    table = kubist.create(path, dict(zip("xy", at.T, strict=True)), ["x", "y"])
    found = table.kmeans(3, seed=1)
    assert not found.exact and found.rows < 200_000
    assert np.allclose(found.centers, centres, atol=0.1)
    assert (np.abs(found.centers - centres) < 5 * found.errors + 0.05).all()
    assert np.allclose(found.fractions, [0.6, 0.3, 0.1], atol=0.05)
    assert found.labels(centres).tolist() == [0, 1, 2]
    few = table.kmeans(2, where="x > 9.9 AND x < 10.1", seed=2)
    assert few.exact and (few.errors == 0).all()
    with pytest.raises(kubist.InvalidInput, match="k: 5 centres of 0 rows"):
        table.kmeans(5, where="x > 1000")


def test_the_sphere_of_the_table_is_the_default(tmp_path: Path) -> None:
    ra, dec = np.array([359.9999, 0.0001, 10.0]), np.zeros(3)
    t = kubist.create(tmp_path / "t", {"ra": ra, "dec": dec}, ["ra", "dec"], sphere=("ra", "dec"))
    found = t.nearest({"ra": 0.0, "dec": 0.0}, k=2).to_arrow()
    assert found["distance"].to_pylist() == pytest.approx([0.0001, 0.0001], rel=1e-6)
    assert t.pairs("1 arcsec").to_arrow().num_rows == 1
