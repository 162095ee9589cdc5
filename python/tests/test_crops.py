"""`t.crops`: random boxes of space, against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

WIDTHS = {"x": 0.1, "y": 0.2}


def cloud(path: Path, rows: int = 5_000, **options: Any) -> kubist.Table:
    rng = np.random.default_rng(3)
    data = {axis: rng.random(rows) for axis in ("x", "y", "z")}
    data["v"] = np.where(rng.random(rows) < 0.1, np.nan, data["x"] + data["y"])
    return kubist.create(path, data, {axis: (0, 1) for axis in ("x", "y", "z")}, **options)


def expected(
    rows: dict[str, Any], centre: np.ndarray[Any, Any], points: int, period: float | None = None
) -> np.ndarray[Any, Any]:
    """Offsets of the rows of a crop; ``rows`` are in the order of priority."""
    offset = np.stack([rows[axis] for axis in WIDTHS], axis=1) - centre
    if period is not None:
        offset -= period * np.round(offset / period)
    inside = (np.abs(offset) <= np.array(list(WIDTHS.values())) / 2).all(axis=1)
    return offset[inside][:points]


def by_priority(table: kubist.Table, **asked: Any) -> dict[str, Any]:
    return table.query(order_by="priority", **asked).to_numpy()


@pytest.mark.parametrize("centre", ["records", "space"])
def test_a_crop_has_the_lowest_rows_of_its_box(path: Path, centre: Any) -> None:
    table = cloud(path)
    rows = by_priority(table, where="z < 0.8")
    asked: dict[str, Any] = {"points": 40, "centre": centre, "where": "z < 0.8", "batch": 4}
    found = list(table.crops(30, WIDTHS, columns=["v", "2 * x AS twice"], **asked))
    assert [len(batch["centre"]) for batch in found] == [4] * 7 + [2]
    crops = 0
    for batch in found:
        assert batch["ptr"][-1] == len(batch["pos"]) == len(batch["x"]) == len(batch["batch"])
        for crop, middle in enumerate(batch["centre"]):
            own = slice(*batch["ptr"][crop : crop + 2])
            wanted = expected(rows, middle, 40)
            assert np.allclose(batch["pos"][own], wanted, atol=1e-6)
            assert (batch["batch"][own] == crop).all()
            x = batch["pos"][own][:, 0] + middle[0]
            assert np.allclose(batch["x"][own][:, 1], 2 * x, atol=1e-5)
            crops += 1
        assert batch["pos"].dtype == batch["x"].dtype == np.float32
    assert crops == 30
    if centre == "records":
        places = np.stack([rows["x"], rows["y"]], axis=1)
        centres = np.concatenate([batch["centre"] for batch in found])
        assert (centres[:, None] == places[None]).all(axis=2).any(axis=1).all()


def test_crops_depend_on_the_seed_and_can_be_continued(path: Path) -> None:
    table = cloud(path)

    def numbered(**asked: Any) -> Iterator[tuple[int, bytes]]:
        for crop in table.crops(12, WIDTHS, points=16, **asked):
            yield int(crop["number"][0]), crop["pos"].tobytes()

    first = list(numbered(seed=5))
    assert first == list(numbered(seed=5))
    assert first[7:] == list(numbered(seed=5, first=7))
    assert dict(first) != dict(numbered(seed=6))
    crops = table.crops(12, WIDTHS, points=16, seed=5)
    table.append(by_priority(table, limit=100))
    assert [crop["pos"].tobytes() for crop in crops] == [pos for _, pos in first]


def test_crops_of_periodic_space_wrap(path: Path) -> None:
    table = cloud(path, period={"x": 1.0, "y": 1.0})
    rows = by_priority(table)
    wrapped = 0
    for crop in table.crops(60, WIDTHS, points=10_000, centre="space"):
        wanted = expected(rows, crop["centre"][0], 10_000, period=1.0)
        found = crop["pos"]
        order, other = np.lexsort(found.T), np.lexsort(wanted.T.astype(np.float32))
        assert np.allclose(found[order], wanted[other], atol=1e-6)
        wrapped += len(expected(rows, crop["centre"][0], 10_000)) < len(wanted)
    assert wrapped > 5


def test_a_box_limits_centres_and_rows(path: Path) -> None:
    table = cloud(path)
    rows = by_priority(table, box={"x": (0.4, 0.5)})
    for crop in table.crops(10, WIDTHS, points=500, box={"x": (0.4, 0.5)}, centre="space"):
        (middle,) = crop["centre"]
        assert 0.4 <= middle[0] <= 0.5
        assert len(crop["pos"]) == len(expected(rows, middle, 500))
    (few,) = table.crops(1, WIDTHS, points=5, box={"x": (0.4, 0.5), "y": (0, 0.5)}, centre="space")
    assert few["centre"][0, 1] <= 0.5


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"size": {"x": 0}}, "width of x must be above 0"),
        ({"size": {"w": 1}}, "there is no column 'w'"),
        ({"size": {}}, "name at least one column"),
        ({"size": 0.1, "centre": "middle"}, "expected one of records, space"),
        ({"size": 0.1, "points": 0}, "points"),
        ({"size": 0.1, "where": "x > 5"}, "has no such record"),
        ({"size": {"v": 0.1}, "centre": "space"}, "v is no dimension"),
    ],
)
def test_bad_options(path: Path, asked: dict[str, Any], words: str) -> None:
    size = asked.pop("size")
    with pytest.raises(kubist.InvalidInput, match=words):
        list(cloud(path, 100).crops(3, size, **({"points": 4} | asked)))


def test_a_table_that_prefers_rows_is_refused(path: Path) -> None:
    table = cloud(path, 500, storage={"weight": "x"})
    with pytest.raises(kubist.InvalidInput, match="no uniform sample"):
        list(table.crops(3, 0.1, points=4))
