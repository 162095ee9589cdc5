"""Draws the plots of docs/estimates.md: intervals, how they narrow, and heavy tails.

.venv/bin/python examples/estimates/pictures.py docs
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import kubist

ROWS = 50_000
SEEDS = 60
HELD, MISSED, TRUTH = "#3b6ea5", "#d1495b", "#444444"


def points(seed: int) -> dict[str, np.ndarray]:
    """Half of the points are in clusters, where values are larger."""
    rng = np.random.default_rng(seed)
    crowded = rng.random(ROWS) < 0.5
    centres = rng.random((20, 3))
    place = rng.random((ROWS, 3))
    near = centres[rng.integers(0, 20, ROWS)] + 0.02 * rng.normal(size=(ROWS, 3))
    place[crowded] = near[crowded]
    return {
        "id": np.arange(ROWS),
        "x": place[:, 0],
        "y": place[:, 1],
        "z": place[:, 2],
        "speed": 4 + rng.normal(size=ROWS) + 2 * crowded,
        "mass": np.exp(2 * rng.normal(size=ROWS)) * (1 + crowded),
    }


def table(at: Path, data: dict[str, np.ndarray], seed: int) -> kubist.Table:
    return kubist.create(at / f"{seed}.kubist", data, ["x", "y", "z"], identity=["id"], seed=seed)


def draw_intervals(axes: plt.Axes, estimates: list[kubist.Estimate], truth: float) -> int:
    covered = 0
    for place, estimate in enumerate(estimates):
        inside = estimate.low <= truth <= estimate.high
        covered += inside
        colour = HELD if inside else MISSED
        axes.plot([place, place], [estimate.low, estimate.high], color=colour, lw=1.5)
        axes.plot(place, estimate.value, ".", color=colour, ms=4)
    axes.axhline(truth, color=TRUTH, lw=0.8)
    axes.set_xlabel("seed")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return covered


def main(folder: Path) -> None:
    data = points(1)
    mean, total = data["speed"].mean(), data["mass"].mean()
    with tempfile.TemporaryDirectory(prefix="kubist-pictures-") as scratch:
        tables = [table(Path(scratch), data, seed) for seed in range(SEEDS)]

        figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
        covered = draw_intervals(
            axes, [t.estimate("mean(speed)", sample=0.005) for t in tables], mean
        )
        axes.set_title(
            f"mean(speed) from 0.5 % of the rows: {covered} of {SEEDS} contain the true value",
            fontsize=9,
        )
        figure.savefig(folder / "estimates-intervals.png", dpi=100)

        figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
        steps = list(tables[0].estimate("mean(speed)", sample=1, progressive=True))
        read = [e.stats.rows_read for e in steps]
        axes.fill_between(
            read, [e.low for e in steps], [e.high for e in steps], color=HELD, alpha=0.25, lw=0
        )
        axes.plot(read, [e.value for e in steps], "o-", color=HELD, ms=4)
        axes.axhline(mean, color=TRUTH, lw=0.8)
        axes.set_xscale("log")
        axes.set_xlabel("records read")
        axes.set_title("mean(speed), watched: all of these intervals hold together", fontsize=9)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.savefig(folder / "estimates-narrowing.png", dpi=100)

        figure, both = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained", sharey=True)
        for axes, tails in zip(both, [None, 0.005], strict=True):
            found = [t.estimate("mean(mass)", sample=0.02, tails=tails) for t in tables]
            covered = draw_intervals(axes, found, total)
            how = "a sample" if tails is None else f"tails={tails}"
            axes.set_ylim(0, 2.2 * total)
            axes.set_title(f"mean(mass), {how}: {covered} of {SEEDS}", fontsize=9)
        figure.savefig(folder / "estimates-tails.png", dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
