"""Regions: rows examined for each row returned, and times compared with other engines.

    python -m bench.regions [ROWS]

Spheres in a cube of uniform points, and cones on a sky of uniform stars; NumPy checks every count.
Kubist gets a region, and the same as a formula; DuckDB has its own table in memory, Polars a frame,
and SciPy a k-d tree.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import kubist
import numpy as np
import polars as pl
from kubist import region
from scipy.spatial import KDTree

REPEATS = 7

Case = tuple[region.Region, str, np.ndarray, float]
"""A region, its formula, and its centre and radius among the points of the tree."""


def sphere(centre: tuple[float, ...], radius: float) -> str:
    squares = " + ".join(
        f"power({name} - {place}, 2)" for name, place in zip("xyz", centre, strict=True)
    )
    return f"{squares} <= {radius * radius!r}"


def cone(ra: float, dec: float, degrees: float) -> str:
    """The condition of a cone on the sky: the haversine formula."""
    up = f"power(sin(radians(dec - {dec}) / 2), 2)"
    across = f"cos(radians({dec})) * cos(radians(dec)) * power(sin(radians(ra - {ra}) / 2), 2)"
    return f"2 * asin(sqrt(least(1, {up} + {across}))) <= radians({degrees})"


def median(work: Callable[[], object]) -> float:
    """Milliseconds, after one uncounted call."""
    work()
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(taken)


def measure(
    title: str,
    columns: Mapping[str, np.ndarray],
    dimensions: list[str],
    regions: Mapping[str, Case],
    points: np.ndarray,
) -> None:
    tree = KDTree(points)
    frame = pl.DataFrame(dict(columns))
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.register("given", frame.to_arrow())
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
        table = kubist.create(Path(folder) / "t.kubist", dict(columns), dimensions)
        print(f"\n{title}, {len(points):,} rows\n")
        print(
            "| region | rows | examined per row | Kubist | its count | as a formula | DuckDB | Polars | k-d tree |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        for name, case in regions.items():
            row(name, case, table, connection, frame, tree)


def row(
    name: str,
    case: Case,
    table: kubist.Table,
    connection: duckdb.DuckDBPyConnection,
    frame: pl.DataFrame,
    tree: KDTree,
) -> None:
    """Compares the counts first."""
    inside, where, centre, radius = case
    expected = len(tree.query_ball_point(centre, radius))
    result = table.query(region=inside)
    rows = result.to_arrow().num_rows
    assert rows == table.count(region=inside) == table.count(where=where) == expected, (
        name,
        rows,
        expected,
    )
    examined = result.stats.rows_read / max(rows, 1)
    polars, arrow = pl.SQLContext(t=frame), frame.to_arrow()
    same = f"SELECT * FROM t WHERE {where.replace('power(', 'pow(')}"
    times = [
        median(lambda: table.query(region=inside).to_arrow()),
        median(lambda: table.count(region=inside)),
        median(lambda: table.query(where=where).to_arrow()),
        median(lambda: connection.sql(f"FROM t WHERE {where}").to_arrow_table()),
        median(lambda: polars.execute(same, eager=True)),
        median(lambda: arrow.take(tree.query_ball_point(centre, radius))),
    ]
    shown = " | ".join(f"{one:.1f} ms" for one in times)
    print(f"| {name} | {rows:,} | {examined:.2f} | {shown} |", flush=True)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 4_000_000
    random = np.random.default_rng(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, median of {REPEATS}")
    x, y, z = random.random((3, rows))
    centre = (0.4, 0.5, 0.6)
    spheres = {}
    for expected in (100, 10_000, 100_000):
        radius = (3 * expected / rows / (4 * math.pi)) ** (1 / 3)
        spheres[f"sphere of about {expected:,}"] = (
            region.sphere(centre, radius),
            sphere(centre, radius),
            np.array(centre),
            radius,
        )
    cube = {"x": x, "y": y, "z": z, "v": random.normal(size=rows).astype("f4")}
    measure("A cube", cube, ["x", "y", "z"], spheres, np.column_stack([x, y, z]))
    ra, dec = (
        random.uniform(0, 360, rows),
        np.degrees(np.arcsin(random.uniform(-1, 1, rows))),
    )
    sky = {"ra": ra, "dec": dec, "mag": random.normal(15, 2, rows)}
    cones = {}
    for name, place, degrees in (
        ("cone of 1 degree", (56.75, 24.12), 1),
        ("across 0h", (0.1, 24.12), 1),
        ("near a pole", (10.0, 89.5), 1),
        ("cone of 10 degrees", (180.0, 0.0), 10),
    ):
        chord = 2 * math.sin(math.radians(degrees) / 2)
        cones[name] = (
            region.cone(*place, degrees),
            cone(*place, degrees),
            on_sphere(*place),
            chord,
        )
    measure("A sky", sky, ["ra", "dec"], cones, on_sphere(ra, dec))


def on_sphere(ra: Any, dec: Any) -> np.ndarray:
    """From degrees; shape (n, 3), or (3,) for numbers."""
    ra, dec = np.radians(ra), np.radians(dec)
    return np.stack(
        [np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=-1
    )


if __name__ == "__main__":
    main()
