"""Plots of classes, of units in a box, and of rates that a file cannot have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from servers import COMMAND
from test_plots import decoded, ffmpeg, plot

import kubist

ROWS = 20_000
BLUE, ORANGE, GREEN = (0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E), (0x2C, 0xA0, 0x2C)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kubist.Table]:
    rng = np.random.default_rng(6)
    species = rng.integers(0, 3, ROWS)
    rows = {
        "x": rng.uniform(0.2, 0.8, ROWS),
        "y": rng.uniform(0.2, 0.8, ROWS),
        "species": species.astype(np.uint8) * 3,
        "stuck": species == 1,
        "share": species / 2,
        "many": rng.integers(0, 1000, ROWS),
    }
    path = tmp_path_factory.mktemp("classes") / "t.kubist"
    with kubist.create(path, rows, ["x", "y"], units={"x": "m", "y": "m"}) as made:
        yield made


def colors(picture: kubist.Picture) -> set[tuple[int, ...]]:
    pixels = decoded(picture.png)[:, :, :3].reshape(-1, 3)
    spread = pixels.max(1).astype(int) - pixels.min(1)
    return set(map(tuple, pixels[spread > 60].tolist()))


def near(color: tuple[int, ...], other: tuple[int, ...]) -> bool:
    parts = np.stack([np.asarray(other, float), np.ones(3)], axis=1)
    (opacity, ground), *_ = np.linalg.lstsq(parts, np.asarray(color, float), rcond=None)
    rest = np.abs(parts @ (opacity, ground) - color).max()
    # Near full opacity, rounding hides the ground.
    on_paper = opacity > 0.8 or 190 < ground / (1 - opacity) < 265
    return bool(rest <= 3 and 0 < opacity < 1.03 and on_paper)


@pytest.mark.parametrize(("column", "classes"), [("species", 3), ("stuck", 2)])
def test_a_class_has_a_colour_and_no_average(
    table: kubist.Table, column: str, classes: int
) -> None:
    palette = [BLUE, ORANGE, GREEN][:classes]
    picture = table.plot("x", "y", column, size=(500, 400), style={"point_size": 3})
    found = colors(picture)
    assert not [color for color in found if not any(near(color, one) for one in palette)]
    assert not near((143, 123, 97), ORANGE) and not near((143, 123, 97), BLUE), "half of each"
    # Every class is visible, although many points overlap.
    assert all(any(near(color, one) for color in found) for one in palette)
    svg = picture._scene.file("p.svg")
    labels = ["0", "3", "6"] if column == "species" else ["false", "true"]
    assert all(f">{label}</text>".encode() in svg for label in labels)


@pytest.mark.parametrize("column", ["share", "many"])
def test_numbers_are_drawn_as_before(table: kubist.Table, column: str) -> None:
    found = colors(table.plot("x", "y", column, size=(500, 400), style={"point_size": 3}))
    assert len(found) > 100
    whole = colors(table.plot("x", "y", "species", range=(0, 6), size=(500, 400), style={"point_size": 3}))
    assert len(whole) > 100, "with ends that are given"


def test_command_and_python_draw_the_same_classes(table: kubist.Table, tmp_path: Path) -> None:
    done = plot(table, tmp_path / "a.png", "--color", "species", "--size", "500x400")
    assert done.returncode == 0, done.stderr
    mine = table.plot("x", "y", "species", size=(500, 400)).png
    assert np.array_equal(decoded((tmp_path / "a.png").read_bytes()), decoded(mine))


def test_ends_with_units_are_those_of_the_axes(table: kubist.Table, tmp_path: Path) -> None:
    plain = table.plot("x", "y", box={"x": (0, 1), "y": (0.1, 0.9)}, size=(400, 400))
    in_units = table.plot(
        "x", "y", box={"X": ("0 m", "100cm"), "y": ("1 dm", 0.9)}, size=(400, 400)
    )
    # Without the caption, which has the query.
    first, second = (decoded(picture.png)[100:] for picture in (plain, in_units))
    assert np.array_equal(first, second)
    ends = plot(table, tmp_path / "a.png", "--size", "400x400", "--box", "x=0:100cm,y=1dm:0.9")
    assert ends.returncode == 0, ends.stderr
    assert np.array_equal(decoded((tmp_path / "a.png").read_bytes())[100:], first)


def test_a_rate_that_a_gif_cannot_have_is_told(table: kubist.Table, tmp_path: Path) -> None:
    options = ["--animate", "species", "--size", "200x200", "--style"]
    fast = plot(table, tmp_path / "a.gif", *options, "fps=60")
    assert fast.returncode == 0 and "a .gif has at most 50 frames per second" in fast.stderr
    slow = plot(table, tmp_path / "b.gif", *options, "fps=50")
    assert slow.returncode == 0 and "per second" not in slow.stderr


def test_ctrl_c_does_not_reach_ffmpeg(table: kubist.Table, tmp_path: Path) -> None:
    """It has its own process group, which a terminal does not interrupt."""
    works = ffmpeg(tmp_path / "works", 'ps -o pgid= -p $$ >"$0.group"; cat >"${last#file:}"')
    command = [str(COMMAND), "plot", table.location, "--axes", "x,y", "--animate", "species"]
    command += ["--size", "200x200", "-o", str(tmp_path / "film.mp4")]
    done = subprocess.run(command, env=works, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int((tmp_path / "works" / "ffmpeg.group").read_text()) != os.getpgid(0)
