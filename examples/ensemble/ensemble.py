"""Droplets in a bent tube, with varied parameters: which deposit most beyond the bend?

Computes 36 runs, each a table of its own, opens them as one and queries it. Run it in any folder:

    python examples/ensemble/ensemble.py ensemble

The flow is a formula (a parabolic profile along the centre line with random gusts), so this models
a study and not a lung. Only speed times squared diameter and the gusts matter: runs that agree in
both are equal. Half the time step changes no result by more than its noise. All runs have the same
droplets, with positions, sizes and gusts from one seed. The intervals are for the computed
droplets, from the sampled rows.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws into a file, without a display

import matplotlib.pyplot as plt
import numpy as np

import kubist

SPEEDS = (1.0, 2.0, 4.0, 8.0)  # m/s, mean over the inlet
MEDIANS = (5.0, 9.0, 15.0)  # um, diameter
GUSTS = (0.02, 0.05, 0.1)  # fluctuation over the mean speed

WIDTH, RADIUS = 0.01, 0.03  # m: of the tube, and of the bend's centre line
INLET, OUTLET = 0.05, 0.1  # m: lengths of the straight parts
DENSITY, VISCOSITY = 1000.0, 1.8e-5  # of water, of air

DROPLETS, OUTPUTS = 4_000, 8
LAST = f"output = {OUTPUTS}"
BEYOND = f"share(deposited AND y > {RADIUS})"


def along(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The direction of the tube, and the distance from its centre line, positive outwards."""
    turning = (x > 0) & (y <= RADIUS)
    beyond = y > RADIUS
    # The bend turns around (0, RADIUS), from the x axis to the y axis.
    distance = np.hypot(x, y - RADIUS)
    tx = np.where(turning, (RADIUS - y) / np.maximum(distance, 1e-12), np.where(beyond, 0.0, 1.0))
    ty = np.where(turning, x / np.maximum(distance, 1e-12), np.where(beyond, 1.0, 0.0))
    offset = np.where(turning, distance - RADIUS, np.where(beyond, x - RADIUS, -y))
    return tx, ty, offset


def simulated(speed: float, median: float, gusts: float, droplets: int) -> dict[str, np.ndarray]:
    """The rows of a run: every droplet at each output; one that left stays at its exit."""
    rng = np.random.default_rng(7)
    diameter = median * 1e-6 * np.exp(0.4 * rng.normal(size=droplets))
    x, y = np.full(droplets, -INLET), rng.uniform(-0.45, 0.45, droplets) * WIDTH
    relaxation = DENSITY * diameter**2 / (18 * VISCOSITY)
    step = 0.1 * WIDTH / speed
    steps = int(4 * (INLET + RADIUS * np.pi / 2 + OUTLET) / speed / step)
    kept = np.exp(-step / relaxation)
    memory = np.exp(-step * speed / (0.5 * WIDTH))
    gust = np.zeros((2, droplets))
    ux, uy = np.full(droplets, speed), np.zeros(droplets)
    stuck, left = np.zeros(droplets, bool), np.zeros(droplets, bool)
    parts = []
    for number in range(1, steps + 1):
        tx, ty, offset = along(x, y)
        profile = np.maximum(0.0, 1 - (2 * offset / WIDTH) ** 2)
        gust = memory * gust + np.sqrt(1 - memory**2) * rng.normal(size=(2, droplets))
        # Gusts end at the walls, as the flow does.
        swing = gusts * speed * np.sqrt(profile)
        flow_x = 1.5 * speed * profile * tx + swing * gust[0]
        flow_y = 1.5 * speed * profile * ty + swing * gust[1]
        moving = ~stuck & ~left
        ux = np.where(moving, flow_x + (ux - flow_x) * kept, 0.0)
        uy = np.where(moving, flow_y + (uy - flow_y) * kept, 0.0)
        x, y = x + step * ux, y + step * uy
        stuck |= moving & (np.abs(along(x, y)[2]) > WIDTH / 2)
        left |= moving & ~stuck & (y > RADIUS + OUTLET)
        if number % (steps // OUTPUTS) == 0:
            parts.append(
                {
                    "pid": np.arange(droplets, dtype=np.int32),
                    "output": np.full(droplets, 1 + len(parts), np.int8),
                    "time": np.full(droplets, number * step, np.float32),
                    "x": x,
                    "y": y,
                    "ux": ux.astype(np.float32),
                    "uy": uy.astype(np.float32),
                    "diameter": diameter.astype(np.float32),
                    "deposited": stuck.copy(),
                }
            )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def study(folder: Path, droplets: int) -> None:
    """A table for each combination of parameters."""
    for speed, median, gusts in itertools.product(SPEEDS, MEDIANS, GUSTS):
        rows = simulated(speed, median, gusts, droplets)
        kubist.create(
            folder / f"v{speed:g}-d{median:g}-g{gusts:g}.kubist",
            rows,
            dimensions={"x": (-INLET, RADIUS + WIDTH), "y": (-WIDTH, RADIUS + OUTLET)},
            identity=["pid"],  # samples whole trajectories
            units={"time": "s", "x": "m", "y": "m", "ux": "m/s", "uy": "m/s", "diameter": "m"},
            metadata={
                "injection_speed": speed,
                "median_diameter": median,
                "gusts": gusts,
            },
        ).close()


PARAMETERS = {
    "metadata.injection_speed": "injection speed [m/s]",
    "metadata.median_diameter": "median diameter [um]",
    "metadata.gusts": "gusts / mean speed",
}


def draw(runs: kubist.Many, effects: dict[str, kubist.Estimate], best: str, to: Path) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
    stuck = runs.query(where=f"run = '{best}' AND deposited AND {LAST}").to_numpy()
    beyond = stuck["y"] > RADIUS
    for mask, color in ((~beyond, "#9aa5b1"), (beyond, "#d1495b")):
        axes[0].plot(stuck["x"][mask] * 1000, stuck["y"][mask] * 1000, ".", ms=2, color=color)
    axes[0].set(xlabel="x [mm]", ylabel="y [mm]", aspect="equal")
    axes[0].set_title(f"deposited in run {best}", fontsize=9)
    for plot, (name, estimate) in zip(axes[1:], effects.items(), strict=True):
        rows = estimate.to_dicts()
        at = range(len(rows))
        values = [100 * row["value"] for row in rows]
        half = [100 * (row["high"] - row["value"]) for row in rows]
        plot.errorbar(at, values, half, fmt="o", capsize=4, color="#3b6ea5")
        plot.set_xticks(at, [f"{row[name]:g}" for row in rows])
        plot.set(xlabel=PARAMETERS[name], ylim=(0, None), xlim=(-0.5, len(rows) - 0.5))
    axes[1].set_ylabel("droplets that deposit\nbeyond the bend [%]")
    for plot in axes:
        for side in ("top", "right"):
            plot.spines[side].set_visible(False)
    figure.savefig(to, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--droplets", type=int, default=DROPLETS)
    parser.add_argument("--sample", type=float, default=0.5)
    asked = parser.parse_args()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    began = time.perf_counter()
    study(asked.folder, asked.droplets)
    print(f"{len(list(asked.folder.iterdir()))} runs in {time.perf_counter() - began:.0f} s")

    began = time.perf_counter()
    runs = kubist.open_many(asked.folder / "*.kubist")
    print(f"{runs} opened in {time.perf_counter() - began:.2f} s\n")

    began = time.perf_counter()
    each = runs.estimate(BEYOND, where=LAST, group_by="run", sample=asked.sample).to_dicts()
    effects = {
        name: runs.estimate(BEYOND, where=LAST, group_by=name, sample=asked.sample)
        for name in PARAMETERS
    }
    seconds = time.perf_counter() - began
    for effect in effects.values():
        print(effect, end="\n\n")
    each.sort(key=lambda row: row["value"], reverse=True)
    print("The runs that deposit most beyond the bend, in percent of all droplets:")
    for row in each[:5]:
        print(f"  {row['run']:16} {100 * row['low']:5.1f} to {100 * row['high']:5.1f}")
    print(f"all of this in {seconds:.2f} s\n")

    gain = runs.estimate(
        BEYOND,
        where=LAST,
        group_by="metadata.gusts",
        contrast="metadata.gusts",
        sample=asked.sample,
    )
    print(gain, end="\n\n")
    picture = asked.folder / "ensemble.png"
    draw(runs, effects, each[0]["run"], picture)
    print(f"see {picture}")


if __name__ == "__main__":
    main()
