"""Plots of expressions, strings and true colours, and logarithmic or inverted axes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from servers import COMMAND
from test_plot_classes import BLUE, ORANGE, colors, near
from test_plots import decoded

import kubist

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kubist.Table]:
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 1, ROWS)
    rows = {
        "x": x,
        "y": rng.uniform(0, 1, ROWS),
        "mass": 10.0 ** rng.uniform(-3, 3, ROWS),
        "kind": np.where(x < 0.5, "gas", "star"),
        "red": np.where(x < 0.5, 65535, 0).astype("u2"),
        "green": np.zeros(ROWS, "u2"),
        "blue": np.where(x < 0.5, 0, 65535).astype("u2"),
        'a"b': rng.uniform(0, 1, ROWS),
    }
    path = tmp_path_factory.mktemp("columns") / "t.kubist"
    with kubist.create(path, rows, ["x", "y"]) as made:
        yield made


def plot(
    table: kubist.Table, to: Path, axes: str, *options: str
) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "plot", table.location, "--axes", axes, "-o", str(to), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def left_and_right(picture: kubist.Picture) -> list[np.ndarray]:
    """The mean colours of the coloured pixels of both halves."""
    pixels = decoded(picture.png)[:, :, :3].astype(int)
    coloured = np.ptp(pixels, axis=2) > 60
    half = 60 + (pixels.shape[1] - 60) // 2 - 20
    parts = (slice(None), slice(60, half - 60)), (slice(None), slice(half + 60, half + 140))
    return [pixels[part][coloured[part]].mean(axis=0) for part in parts]


def test_three_columns_are_true_colours(table: kubist.Table) -> None:
    left, right = left_and_right(
        table.plot("x", "y", ["red", "green", "blue"], size=(500, 400), style={"point_size": 3})
    )
    assert left[0] > 200 > 100 > left[2] and right[2] > 200 > 100 > right[0], (left, right)
    left, right = left_and_right(
        table.plot(
            "x", "y", ["red", "green", "blue"], size=(500, 400),
            style={"point_size": 3, "invert_axes": "x"},
        )
    )  # fmt: skip
    assert left[2] > 200 and right[0] > 200, "the axis is inverted"
    with pytest.raises(kubist.InvalidInput, match="one column, or three"):
        table.plot("x", "y", ["red", "green"])


def test_a_text_has_a_colour_for_each_class(table: kubist.Table) -> None:
    picture = table.plot("x", "y", "kind", size=(500, 400), style={"point_size": 3})
    assert not [c for c in colors(picture) if not near(c, BLUE) and not near(c, ORANGE)]
    svg = picture._scene.file("p.svg")
    assert b">gas</text>" in svg and b">star</text>" in svg
    with pytest.raises(kubist.InvalidInput, match="no order of values"):
        table.plot("x", "y", "kind", log=True)


def test_axes_and_colours_are_expressions(table: kubist.Table, tmp_path: Path) -> None:
    picture = table.plot("x * 2 AS width", "log10(mass)", "x > 0.5 AS late", size=(500, 400))
    svg = picture._scene.file("p.svg").decode()
    assert ">width</text>" in svg and ">log10(mass)</text>" in svg and ">true</text>" in svg
    target = tmp_path / "a.png"
    axes = 'atan2(y, x),"a""b"'
    done = plot(table, target, axes, "--color", "kind", "--size", "500x400")
    assert done.returncode == 0, done.stderr
    same = table.plot("atan2(y, x)", '"a""b"', "kind", size=(500, 400)).png
    assert np.array_equal(decoded(target.read_bytes()), decoded(same))
    done = plot(table, target, "x +,y")
    assert done.returncode == 2 and "x +" in done.stderr, done.stderr


def test_axes_can_be_logarithmic(table: kubist.Table, tmp_path: Path) -> None:
    style = {"log_axes": "y"}
    picture = table.plot("x", "mass", size=(500, 600), style=style)
    svg = picture._scene.file("p.svg").decode()
    assert all(f">{label}</text>" in svg for label in ("10⁻²", "10⁰", "10²"))
    some = table.plot("x", "mass - 1 AS more", style=style)
    below = table.count(where="mass <= 1")
    assert f"({below:,} not drawn: no" in some.caption, some.caption
    with pytest.raises(kubist.InvalidInput, match="expected 'x', 'y' or 'xy'"):
        table.plot("x", "y", style={"log_axes": "z"})
    done = plot(table, tmp_path / "a.png", "x,mass", "--style", "log_axes=q")
    assert done.returncode == 2 and "expected x, y or xy" in done.stderr
