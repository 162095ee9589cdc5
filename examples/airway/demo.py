"""Droplets in an airway: ingest, query, plot.

Ingests the steps of a real simulation one by one, as a solver writes them. Then it queries samples,
boxes and filters, prints their costs, and draws `demo/airway.png`. Run it with `make demo`, or in
any folder:

    python examples/airway/demo.py
"""

import os
import shutil
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws into a file, without a display

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

import kubist

HERE = Path(__file__).resolve().parent
OUT = HERE.parent.parent / "demo"

# The middle slice of the bend where the pipe meets the branches.
BEND = {"x": (0.168, 0.222), "y": (-0.045, 0.095), "z": (0.007, 0.013)}
AIRBORNE = "NOT deposited"
DRAWN = ["x", "y", "ux", "uy", "uz"]


def ingest(path: Path) -> kubist.Table:
    """One commit for each output time of the solver."""
    shutil.rmtree(path, ignore_errors=True)
    steps = sorted((HERE / "steps").glob("*.parquet"))
    table = kubist.create(
        path,
        pq.read_schema(steps[0]),
        # The domain of a simulation is known. None would learn it from the first step, whose
        # droplets are still close to the inlet.
        dimensions={"x": (0, 0.22), "y": (-0.21, 0.21), "z": (0, 0.02), "time": (0, 1)},
        identity=["pid", "time"],
    )
    print(f"Ingesting {len(steps)} output times into {os.path.relpath(path)}")
    rows, seconds = 0, 0.0
    for step in steps:
        droplets = pq.read_table(step)
        began = time.perf_counter()
        rows += table.append(droplets).rows  # durable and visible from here on
        seconds += time.perf_counter() - began
        print(
            f"  {step.stem:<16} {droplets.num_rows:7,} rows, {rows:8,} in all, "
            f"{rows / seconds:9,.0f} rows/s"
        )
    print()
    print(table.info(), end="\n\n")
    return table


class Figures:
    def __init__(self) -> None:
        columns = f"{'returned':>10} {'read':>10} {'bytes':>10} {'ms':>8}"
        print(f"{'question':<46} {columns}")
        print("-" * (46 + 1 + len(columns)))

    def ask(self, question: str, result: kubist.Result) -> pa.Table:
        answer = result.to_arrow()
        s = result.stats
        print(
            f"{question:<46} {s.rows_returned:10,} {s.rows_read:10,} {s.bytes_read:10,} "
            f"{s.seconds * 1000:8.1f}"
        )
        return answer

    def count(self, question: str, table: kubist.Table, **arguments: object) -> int:
        began = time.perf_counter()
        rows = table.count(**arguments)
        milliseconds = (time.perf_counter() - began) * 1000
        print(f"{question:<46} {rows:10,} {'':>10} {'':>10} {milliseconds:8.1f}")
        return rows


def ask(table: kubist.Table) -> tuple[list[tuple[str, pa.Table]], pa.Table]:
    """Returns the data of the plot."""
    figures = Figures()
    samples = []
    for fraction in (0.01, 0.1, 1.0):
        answer = figures.ask(
            f"{fraction:.0%} of the airborne droplets",
            table.query(sample=fraction, where=AIRBORNE, columns=DRAWN),
        )
        samples.append((f"{fraction:.0%}", answer))
    bend = figures.ask(
        "a box: the middle slice of the bend",
        table.query(box=BEND, where=AIRBORNE, columns=DRAWN),
    )
    figures.ask(
        "5% of that box",
        table.query(box=BEND, where=AIRBORNE, columns=DRAWN, sample=0.05),
    )
    figures.ask(
        "a filter: big droplets in the last step",
        table.query(box={"time": (0.59, None)}, where="diameter > 5e-5"),
    )
    figures.ask(
        "a limit: 1,000 droplets of the right branch",
        table.query(box={"y": (0.05, None)}, limit=1000),
    )
    figures.count("a count: droplets on the walls at the end", table,
                  box={"time": (0.59, None)}, where="deposited")  # fmt: skip
    print()
    return samples, bend


def draw(samples: list[tuple[str, pa.Table]], bend: pa.Table, path: Path) -> None:
    """Three samples of the whole domain above, all droplets of the bend below."""
    night, ink, faint = "#0b0d12", "#e8e6e3", "#8b8f98"
    plt.rcParams.update({"font.size": 11, "text.color": ink, "axes.labelcolor": faint})
    # The darkest sixth would be invisible on the dark background.
    colours = ListedColormap(plt.get_cmap("inferno")(np.linspace(0.17, 1, 256)))
    look = {"cmap": colours, "vmin": 0, "vmax": 5, "linewidths": 0}
    total = samples[-1][1].num_rows

    figure = plt.figure(figsize=(16, 12), facecolor=night)
    grid = figure.add_gridspec(
        2, 3, height_ratios=[3.5, 5.4], hspace=0.24, wspace=0.06,
        left=0.045, right=0.925, top=0.885, bottom=0.055,
    )  # fmt: skip
    figure.text(0.045, 0.955, "Droplets in an airway", fontsize=22, weight="bold")
    figure.text(
        0.045, 0.928,
        "every airborne droplet at every output time; three samples of the same table, "
        "and a box of it completely",
        fontsize=12.5, color=faint,
    )  # fmt: skip

    def axes(place: object, title: str, note: str, y: tuple, x: tuple) -> plt.Axes:
        ax = figure.add_subplot(place, facecolor=night)
        # The inlet is at the top, as in a throat: x points down, in centimetres.
        ax.set(xlim=y, ylim=x, aspect="equal", xlabel="y [cm]", ylabel="x [cm]")
        ax.tick_params(colors=faint, labelsize=9)
        ax.spines[:].set_color("#2a2e38")
        ax.set_title(title, loc="left", fontsize=15, weight="bold", color=ink)
        ax.set_title(note, loc="right", fontsize=11, color=faint)
        return ax

    def points(ax: plt.Axes, table: pa.Table, size: float, alpha: float) -> object:
        x, y, ux, uy, uz = (table[name].to_numpy() for name in DRAWN)
        speed = np.sqrt(ux**2 + uy**2 + uz**2)
        # A random order instead of the index's, which would favour some points.
        order = np.random.default_rng(0).permutation(len(x))
        return ax.scatter(
            100 * y[order], 100 * x[order], c=speed[order], s=size, alpha=alpha, **look
        )

    for column, ((fraction, sample), (size, alpha)) in enumerate(
        zip(samples, [(7, 1), (2.2, 0.9), (0.5, 0.6)], strict=True)
    ):
        note = f"{sample.num_rows:,} of {total:,} points"
        ax = axes(grid[0, column], fraction, note, (-8.5, 21.5), (22.6, -0.4))
        points(ax, sample, size, alpha)
        if column > 0:
            ax.set_ylabel(None)
            ax.set_yticklabels([])
        if column == len(samples) - 1:
            (left, right), (top, bottom) = BEND["y"], BEND["x"]
            frame = Rectangle((100 * left, 100 * top), 100 * (right - left), 100 * (bottom - top))
            frame.set(fill=False, edgecolor=ink, linewidth=1)
            ax.add_patch(frame)

    y, x = ([100 * end for end in BEND[name]] for name in ("y", "x"))
    low, high = (100 * end for end in BEND["z"])
    note = f"all {bend.num_rows:,} points with {low:.1f} ≤ z ≤ {high:.1f} cm"
    ax = axes(grid[1, :], "The framed box, 100%", note, tuple(y), tuple(reversed(x)))
    scatter = points(ax, bend, 4.5, 0.9)

    bar = figure.colorbar(scatter, cax=figure.add_axes([0.94, 0.055, 0.009, 0.47]))
    bar.set_label("speed [m/s]")
    bar.solids.set_alpha(1)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=faint, labelsize=9)
    figure.savefig(path, dpi=125, facecolor=night)
    plt.close(figure)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with ingest(OUT / "airway.kubist") as table:
        samples, bend = ask(table)
    picture = OUT / "airway.png"
    draw(samples, bend, picture)
    print(f"Drawn: {os.path.relpath(picture)}")


if __name__ == "__main__":
    main()
