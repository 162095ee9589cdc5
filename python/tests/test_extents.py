"""Objects with an extent: every relation against NumPy and shapely, borders, and bad input."""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist
from kubist import region

# Its processes import it by name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/cells"))

CASES = int(os.environ.get("KUBIST_EXTENT_CASES", "12"))
EXTENT = {"x": ("x_min", "x_max"), "y": ("y_min", "y_max")}
ROWS = 20_000
Columns = dict[str, np.ndarray[Any, Any]]


def objects(seed: int, rows: int) -> Columns:
    """Boxes on a grid of halves, so that many faces touch."""
    random = np.random.default_rng(seed)
    found = {}
    for name in "xy":
        at = random.integers(0, 200, rows) / 2
        found[name] = at
        found[f"{name}_min"] = at - random.integers(0, 8, rows) / 2
        found[f"{name}_max"] = at + random.integers(0, 8, rows) / 2
    found["id"] = np.arange(rows)
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    location = tmp_path_factory.mktemp("extents") / "t.kubist"
    return kubist.create(location, objects(1, ROWS), ["x", "y"], extent=EXTENT, capacity=256)


@pytest.fixture(scope="module")
def columns() -> Columns:
    return objects(1, ROWS)


def found(t: Any, **asked: Any) -> np.ndarray[Any, Any]:
    result = t.query(columns=["id"], **asked)
    ids = np.sort(result.to_numpy()["id"])
    assert t.count(**asked) == len(ids)
    return ids


def test_boxes_touch_contain_and_hold_centres(table: kubist.Table, columns: Columns) -> None:
    random = np.random.default_rng(2)
    c = columns
    for _ in range(CASES):
        x0, y0 = random.integers(-10, 200, 2) / 2
        x1, y1 = x0 + random.integers(0, 40) / 2, y0 + random.integers(0, 40) / 2
        expected = {
            "touches": (c["x_max"] >= x0)
            & (c["x_min"] <= x1)
            & (c["y_max"] >= y0)
            & (c["y_min"] <= y1),
            "inside": (c["x_min"] >= x0)
            & (c["x_max"] <= x1)
            & (c["y_min"] >= y0)
            & (c["y_max"] <= y1),
            "centre": (c["x"] >= x0) & (c["x"] <= x1) & (c["y"] >= y0) & (c["y"] <= y1),
        }  # fmt: skip
        box = {"x": (x0, x1), "y": (y0, y1)}
        assert np.array_equal(found(table, box=box), np.flatnonzero(expected["touches"]))
        for relation, own in expected.items():
            wanted = np.flatnonzero(own)
            assert np.array_equal(found(table, box=box, relation=relation), wanted), relation
            shape = region.box(x=(x0, x1), y=(y0, y1))
            assert np.array_equal(found(table, region=shape, relation=relation), wanted), relation


def corners(c: Columns) -> list[tuple[Any, Any]]:
    return [(c[x], c[y]) for x in EXTENT["x"] for y in EXTENT["y"]]


def test_regions_touch_and_contain(table: kubist.Table, columns: Columns) -> None:
    random = np.random.default_rng(3)
    c = columns
    for _ in range(CASES):
        x, y, r, s = *random.uniform(0, 100, 2), *random.uniform(3, 20, 2)
        near_x = np.maximum(np.maximum(c["x_min"] - x, x - c["x_max"]), 0)
        near_y = np.maximum(np.maximum(c["y_min"] - y, y - c["y_max"]), 0)
        circle, oval = region.sphere({"x": x, "y": y}, r), region.ellipsoid((x, y), (r, s))
        near = near_x**2 + near_y**2 <= r * r
        all_in = np.all([(a - x) ** 2 + (b - y) ** 2 <= r * r for a, b in corners(c)], axis=0)
        assert np.array_equal(found(table, region=circle), np.flatnonzero(near))
        assert np.array_equal(
            found(table, region=circle, relation="inside"), np.flatnonzero(all_in)
        )
        assert np.array_equal(found(table, region=~circle), np.flatnonzero(~all_in))
        assert np.array_equal(
            found(table, region=~circle, relation="inside"), np.flatnonzero(~near)
        )
        oval_near = (near_x / r) ** 2 + (near_y / s) ** 2 <= 1
        assert np.array_equal(found(table, region=oval), np.flatnonzero(oval_near))
        hole = region.sphere({"x": x, "y": y}, r / 2)
        apart = all_in & ~(near_x**2 + near_y**2 <= r * r / 4)
        assert np.array_equal(
            found(table, region=circle - hole, relation="inside"), np.flatnonzero(apart)
        )
        a, b, low = *random.normal(size=2), random.uniform(-50, 50)
        heights = np.array([a * one + b * other for one, other in corners(c)])
        half = region.half_space({"x": a, "y": b}, {"x": low / a, "y": 0})
        assert np.array_equal(found(table, region=half), np.flatnonzero(heights.max(0) >= low))
        assert np.array_equal(
            found(table, region=half, relation="inside"), np.flatnonzero(heights.min(0) >= low)
        )
        slab = region.slab({"x": a, "y": b}, low, low + 9)
        across = (heights.max(0) >= low) & (heights.min(0) <= low + 9)
        within = (heights.min(0) >= low) & (heights.max(0) <= low + 9)
        assert np.array_equal(found(table, region=slab), np.flatnonzero(across))
        assert np.array_equal(found(table, region=slab, relation="inside"), np.flatnonzero(within))
        both = near | across
        assert np.array_equal(found(table, region=circle | slab), np.flatnonzero(both))


def test_polygons_are_those_of_shapely(table: kubist.Table, columns: Columns) -> None:
    shapely = pytest.importorskip("shapely")
    random = np.random.default_rng(4)
    c = columns
    boxes = shapely.box(c["x_min"], c["y_min"], c["x_max"], c["y_max"])
    for _ in range(max(CASES // 4, 5)):
        angles = np.sort(random.uniform(0, 2 * np.pi, 9))
        # A star around a point, with a hole at its middle.
        length, (x, y) = random.uniform(10, 40, 9), random.uniform(20, 80, 2)
        star = [(x + r * np.cos(a), y + r * np.sin(a)) for r, a in zip(length, angles, strict=True)]
        hole = [(x + 3 * np.cos(a), y + 3 * np.sin(a)) for a in (0.1, 2.2, 4.4)]
        shape = shapely.Polygon(star, [hole])
        if not shape.is_valid:
            continue
        own = region.polygon(shape)
        touch = shapely.intersects(shape, boxes)
        assert np.array_equal(found(table, region=own), np.flatnonzero(touch))
        inside = shapely.covers(shape, boxes)
        assert np.array_equal(found(table, region=own, relation="inside"), np.flatnonzero(inside))


def test_every_query_takes_the_relation(table: kubist.Table) -> None:
    asked: Any = {"box": {"x": (20, 60), "y": (20, 60)}, "relation": "inside"}
    count = table.count(**asked)
    assert count == len(table.query(**asked).to_numpy()["id"]) < table.count(asked["box"])
    assert table.estimate("count()", sample=1, **asked).value == count
    assert sum(len(split.to_arrow()) for split in table.splits(3, **asked)) == count
    assert sum(len(rows.to_arrow()) for rows in table.refine(**asked)) == count
    assert table.scan(**asked).collect().height == count
    assert table.explain(**asked).stats.rows_returned == count
    assert f"{count:,} points" in table.plot("x", "y", limit=count + 1, **asked).caption
    assert int(table.raster("x", "y", cell=5, **asked).values.sum()) == count


def test_touching_reads_little_more_than_inside(table: kubist.Table) -> None:
    box = {"x": (20, 60), "y": (20, 60)}
    read = {}
    for relation in ("touches", "inside"):
        result = table.query(box=box, relation=relation)
        read[relation] = (result.to_arrow().num_rows, result.stats.rows_read)
    (touching, examined), (inside, _) = read["touches"], read["inside"]
    assert inside < touching and examined <= 2 * touching < ROWS / 2


def test_relations_apply_to_all_questions(table: kubist.Table, columns: Columns) -> None:
    box = {"x": (10, 20)}
    expected = (columns["x_max"] >= 10) & (columns["x_min"] <= 20)
    mean = table.estimate("mean(id)", box=box, sample=1).value
    assert mean == pytest.approx(columns["id"][expected].mean())
    assert sum(len(r.to_arrow()) for r in table.refine(box=box)) == expected.sum()
    assert sum(len(s.to_arrow()) for s in table.splits(3, box=box)) == expected.sum()
    assert len(table.scan(box=box).collect()) == expected.sum()
    reopened = kubist.open(table.location)
    assert reopened.count(box=box) == expected.sum()
    # Other columns keep their meaning.
    assert table.count(box={"id": (0, 9)}) == 10


def test_borders(table: kubist.Table, columns: Columns) -> None:
    c = columns
    expected = np.zeros(ROWS, bool)
    for name, edges in (("x", (0, 25, 50, 75, 100)), ("y", (40, 80))):
        for edge in edges:
            expected |= (c[f"{name}_max"] >= edge - 0.5) & (c[f"{name}_min"] <= edge + 0.5)
    result = table.border({"x": 25, "y": [0, 40, 80, 999]}, 0.5, columns=["id"])
    assert np.array_equal(np.sort(result.to_numpy()["id"]), np.flatnonzero(expected))
    assert table.border({"x": [-1_000, 1_000]}).to_arrow().num_rows == 0


FORMS: dict[str, Any] = {
    "columns": lambda rows: rows,
    "table": pa.table,
    "batch": pa.record_batch,
    "reader": lambda rows: pa.table(rows).to_reader(),
    "rows": lambda rows: pa.table(rows).to_pylist(),
    "pandas": lambda rows: pa.table(rows).to_pandas(),
    "iterator": lambda rows: iter([pa.table(rows)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_inverted_extents_are_refused(path: Path, form: str) -> None:
    good = objects(5, 100)
    bad = {name: values.copy() for name, values in good.items()}
    bad["y_max"][7] = bad["y"][7] - 1
    message = r"row 7: y_min = .*, y = .*, y_max = .*, but y_min <= y <= y_max is needed"
    with pytest.raises(kubist.InvalidInput, match=message):
        kubist.create(path, FORMS[form](bad), ["x", "y"], extent=EXTENT)
    t = kubist.create(path, FORMS[form](good), ["x", "y"], extent=EXTENT, exist_ok=True)
    with pytest.raises(kubist.InvalidInput, match=message):
        t.append(FORMS[form](bad))
    with pytest.raises(kubist.InvalidInput, match=message), t.writer() as w:
        w.append(FORMS[form](bad))
    t.append(FORMS[form](good))
    assert len(t) == 200
    bad["y_max"] = np.full(100, np.nan)
    with pytest.raises(kubist.InvalidInput, match="row 0"):
        t.append(bad)


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        ({}, "expected a dict"),
        ([("x", "y")], "expected a dict"),
        ({"x": "x_min"}, "expected a pair"),
        ({"x": ("x_min", "far")}, "no column 'far'"),
        ({"w": ("x_min", "x_max")}, "no column 'w'"),
        ({"x": ("x", "x_max")}, "two other columns"),
        ({"id": ("x_min", "x_max")}, "id is no dimension"),
    ],
)
def test_bad_extents_are_refused_by_name(path: Path, extent: Any, message: str) -> None:
    schema = pa.table(objects(1, 5)).schema
    with pytest.raises(kubist.InvalidInput, match=message):
        kubist.create(path, schema, ["x", "y"], extent=extent)
    assert not path.exists()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: t.count({"x": 1}, relation="near"), "touches, inside, centre, not 'near'"),
        (lambda t: t.border({"x": 0}), "larger than 0"),
        (lambda t: t.border({"x": 1e-9}), "borders, at most"),
        (lambda t: t.border({"x": [1, 1]}), "ascend"),
        (lambda t: t.border({"id": 3}), "'id' has no extent"),
        (lambda t: t.border({"x": 3}, -1), "width must not be negative"),
        (lambda t: t.border(3), "expected a dict"),
        (lambda t: t.query(box={"x": (2, 1)}), "lower end 2 is above"),
        (lambda t: t.query(box={"x": (1, 2), "x_min": (0, 1)}), "give it in where="),
        (lambda t: t.count(region=region.cylinder((0, 0), (1, 1), 1)), "no rule decides"),
        (
            lambda t: t.count(region=region.sphere((0, 0), 2) & region.sphere((1, 1), 2)),
            "no rule decides.*'intersection' by 'touches'",
        ),
        (lambda t: t.count(region=region.sphere((0, 0), "1 m")), "need numbers"),
    ],
)
def test_bad_relations_are_refused_by_name(table: kubist.Table, ask: Any, message: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=message):
        ask(table)


def test_tables_without_an_extent_have_no_relations(path: Path) -> None:
    t = kubist.create(path, {"x": [1.0]}, ["x"])
    for ask in (lambda: t.query(relation="inside"), lambda: t.border({"x": 1})):
        with pytest.raises(kubist.InvalidInput, match="has no extent"):
            ask()


def test_the_example_merges_cells_across_borders(tmp_path: Path) -> None:
    """Merged cells are those of the image as a whole."""
    ndimage = pytest.importorskip("scipy.ndimage")
    import cells

    report = cells.run(tmp_path, size=512, tile=128, processes=2)
    image = np.load(tmp_path / "image.npy")
    whole, number = ndimage.label(cells.segment(image))
    t = kubist.open(tmp_path / "cells.kubist")
    rows = t.query().to_pandas()
    assert len(rows) == number == report["cells"] and report["merged"] > 0
    areas = np.sort(ndimage.sum_labels(np.ones_like(whole), whole, np.arange(1, number + 1)))
    assert np.array_equal(np.sort(rows["area"]), areas)
    labels = cells.labels(t, image.shape)
    # The same cells by other numbers.
    assert np.array_equal(labels > 0, whole > 0)
    assert len(np.unique(whole.astype(np.int64) * 10**6 + labels)) == number + 1
    shapes = json.loads((tmp_path / "cells.geojson").read_text())["features"]
    assert len(shapes) == number and shapes[0]["geometry"]["type"] in ("Polygon", "MultiPolygon")
    shoelace = sum(
        sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(ring)) / 2
        for shape in shapes
        for polygon in (
            [shape["geometry"]["coordinates"]]
            if shape["geometry"]["type"] == "Polygon"
            else shape["geometry"]["coordinates"]
        )
        for ring in polygon
    )
    assert shoelace == pytest.approx(areas.sum())
    assert 0 < report["border_fraction"] < 1 and report["table_bytes"] > 0
