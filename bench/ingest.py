"""Ingestion compared with a plain read of the file, and with a build of the same table.

    python -m bench.ingest [ROWS]

astropy reads FITS, laspy LAZ, and MDAnalysis XTC. The build creates a table from rows in memory,
with the dimensions, identity and secondary index of the ingested table. The ratio is the time of
ingestion by the sum of both; each time is the best of three.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubist
import numpy as np

REPEATS = 3
ATOMS = 20_000
Case = tuple[str, Callable[[], object], dict[str, Any]]
"""A file, its plain read, and the options of its ingestion."""


def best(
    work: Callable[[], object], before: Callable[[], object] = lambda: None
) -> float:
    """Seconds; ``before`` is not measured."""
    taken = []
    for _ in range(REPEATS):
        before()
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def fits(rows: int) -> Case:
    from astropy.table import Table

    rng = np.random.default_rng(1)
    columns = {
        "source_id": rng.permutation(rows) + 10**15,
        "ra": rng.uniform(0, 360, rows),
        "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, rows))),
    }
    columns |= {f"mag_{i}": rng.normal(size=rows).astype("f4") for i in range(7)}
    Table(columns).write("stars.fits")
    # Touches each column, because astropy maps the file into memory.
    return (
        "stars.fits",
        lambda: [c.sum() for c in Table.read("stars.fits").columns.values()],
        {},
    )


def laz(rows: int) -> Case:
    import laspy

    rng = np.random.default_rng(1)
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.scales = [0.001] * 3
    points, at = laspy.LasData(header), np.arange(rows)
    points.x = at % 2000 * 0.5 + rng.normal(size=rows) * 0.05
    points.y = at // 2000 * 0.5 + rng.normal(size=rows) * 0.05
    points.z = rng.normal(size=rows) * 2 + 100
    points.gps_time = at * 1e-5 + 1e6
    points.intensity = rng.integers(0, 2000, rows)
    points.classification = rng.integers(1, 6, rows)
    points.write("scan.laz")

    def read() -> object:
        found = laspy.read("scan.laz")
        names = ("x", "y", "z", *list(found.point_format.dimension_names)[3:])
        return [np.array(getattr(found, name)) for name in names]

    return "scan.laz", read, {}


def xtc(rows: int) -> Case:
    import MDAnalysis as mda

    rng, cell = np.random.default_rng(1), [100, 100, 100, 90, 90, 90]
    universe = mda.Universe.empty(ATOMS, trajectory=True)
    universe.add_TopologyAttr("name", ["C"] * ATOMS)
    universe.dimensions = cell
    places = rng.uniform(0, 100, (ATOMS, 3)).astype("f4")
    with mda.Writer("run.xtc", ATOMS) as out:
        for frame in range(max(rows // ATOMS, 1)):
            places = (places + rng.normal(size=places.shape) * 0.3).astype("f4") % 100
            universe.atoms.positions = places
            universe.dimensions, universe.trajectory.ts.time = cell, float(frame)
            out.write(universe.atoms)
    universe.atoms.write("top.gro")

    def read() -> object:
        return [
            ts.positions.copy() for ts in mda.Universe("top.gro", "run.xtc").trajectory
        ]

    return "run.xtc", read, {"read": {"topology": "top.gro"}}


def measure(make: Callable[[int], Case], rows: int) -> str:
    file, read, options = make(rows)

    def clear() -> None:
        shutil.rmtree("t", ignore_errors=True)

    # The first call imports libraries.
    kubist.ingest("t", file, dry_run=True, **options)
    plain = best(read)
    ingest = best(
        lambda: kubist.ingest("t", file, progress=print_nothing, **options), clear
    )
    table = kubist.open("t")
    about, found = table.info(), table.query().to_arrow()
    dimensions = {d.column: (d.low, d.high) for d in about.dimensions}
    identity, lookup = list(about.identity), list(about.lookup)

    def create() -> object:
        return kubist.create(
            "t", found, dimensions=dimensions, identity=identity, lookup=lookup
        )

    clear()
    build = best(create, clear)
    name, ratio = Path(file).suffix[1:].upper(), ingest / (plain + build)
    times = f"{plain:.2f} | {build:.2f} | {ingest:.2f} | {ratio:.2f}"
    return f"| {name} | {found.num_rows:,} | {times} |"


def main() -> None:
    warnings.simplefilter("ignore")
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{os.cpu_count()} cores; best of {REPEATS}, in seconds")
    print(
        "| format | rows | plain read | build | ingest | ratio |\n|---|---|---|---|---|---|"
    )
    for make, rows in ((fits, 2_000_000), (laz, 4_000_000), (xtc, 4_000_000)):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            print(measure(make, asked or rows), flush=True)
            os.chdir("/")


def print_nothing(_: str) -> None:
    """Progress that nobody reads."""


if __name__ == "__main__":
    main()
