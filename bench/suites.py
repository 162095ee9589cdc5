"""The suites:

rows, systems and work, each for about a quarter of an hour. The environment sets all sizes: `make
bench-peers ROWS=1000000` is a short run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from . import work
from .data import Dataset
from .work import Cell

EVERYBODY = [
    "kubist",
    "duckdb_table",
    "duckdb_layers",
    "duckdb_parquet",
    "lance",
    "tiledb",
    "chdb",
    "copc",
    "arrow_scan",
]


def number(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


@dataclass(frozen=True)
class Suite:
    name: str
    title: str
    data: Dataset
    systems: list[str]
    cells: Callable[[Dataset], list[Cell]]
    load: str = "bulk"
    """``bulk``, or ``stream`` for commits in sequence."""
    commits: int = 0
    parquet: bool = False
    """Whether to write the rows as Parquet too, to compare sizes."""
    memory_bytes: Callable[[int], int] | None = None
    """The memory limit of a query, from the stored bytes; it also runs without a limit."""


def suites() -> dict[str, Suite]:
    cache = os.environ.get("DATA") or "bench/data"
    rows = number("ROWS", 20_000_000)
    locations, readers = number("PLACES", 3), number("READERS", 8)

    def data(kind: str, count: int) -> Dataset:
        return Dataset(kind, count, cache)

    box_rows = number("BOX_ROWS", min(rows, 4_000_000))
    field_rows = number("FIELD_ROWS", min(rows, 4_000_000))
    stream_rows = number("STREAM_ROWS", min(rows, 2_000_000))
    postgis_rows = number("POSTGIS_ROWS", min(rows, 2_000_000))
    droplet_rows = number("DROPLET_ROWS", rows)
    large_rows = number("LARGE_ROWS", min(5 * rows, 100_000_000))
    commits = number("COMMITS", 200)
    fields = [
        Suite(
            kind,
            title,
            data(kind, field_rows),
            EVERYBODY,
            lambda made: work.field_cells(made, locations),
        )
        for kind, title in (
            ("noise", "Uniform noise"),
            ("clusters", "Power-law clusters"),
        )
    ]
    all_suites = [
        Suite(
            "main",
            "A clustered particle field in eight snapshots",
            data("zeldovich", rows),
            EVERYBODY,
            lambda made: work.main_cells(made, locations, readers),
            parquet=True,
        ),
        Suite(
            "box",
            "One exact box",
            data("zeldovich", box_rows),
            EVERYBODY,
            lambda made: work.box_cells(made, locations),
        ),
        Suite(
            "examined",
            "Rows examined per row returned",
            data("zeldovich", rows),
            ["kubist"],
            lambda made: work.examined_cells(made, number("EXAMINED_PLACES", 50)),
        ),
        Suite(
            "postgis",
            "PostGIS, as in the thesis",
            data("zeldovich", postgis_rows),
            ["kubist", "postgis"],
            lambda made: work.field_cells(made, locations),
        ),
        Suite(
            "inhaler",
            "Droplets of an inhalation, compared with PostGIS",
            data("droplets", postgis_rows),
            ["kubist", "postgis"],
            lambda made: work.droplet_cells(made, locations),
        ),
        *fields,
        Suite(
            "droplets",
            "Droplets of an inhalation, as in the thesis",
            data("droplets", droplet_rows),
            EVERYBODY,
            lambda made: work.droplet_cells(made, locations),
        ),
        Suite(
            "stream",
            "A stream of commits",
            data("zeldovich", stream_rows),
            [
                "kubist",
                "kubist_optimizing",
                "duckdb_table",
                "duckdb_parquet",
                "lance",
                "tiledb",
                "chdb",
                "copc",
                "arrow_scan",
                "postgis",
                "postgis_unindexed",
            ],
            lambda made: work.stream_cells(made, locations),
            load="stream",
            commits=commits,
        ),
        Suite(
            "large",
            "Samples of a large table",
            data("zeldovich", large_rows),
            ["kubist", "duckdb_table", "duckdb_layers", "arrow_scan"],
            lambda made: work.sample_cells(made, 0.01),
        ),
        Suite(
            "tenth",
            "Samples of a table of a tenth of its size",
            data("zeldovich", large_rows // 10),
            ["kubist", "duckdb_table", "duckdb_layers", "arrow_scan"],
            lambda made: work.sample_cells(made, 0.1),
        ),
        Suite(
            "memory",
            "A table of four times the memory limit",
            data("zeldovich", large_rows),
            ["kubist", "duckdb_table", "arrow_scan"],
            lambda made: work.memory_cells(made, locations),
            memory_bytes=lambda stored: stored // 4,
        ),
        Suite(
            "particle",
            "All rows of one particle",
            data("orbits", large_rows),
            [
                "kubist",
                "kubist_lookup",
                "duckdb_table",
                "duckdb_index",
                "duckdb_parquet",
                "lance_index",
                "chdb_index",
                "arrow_scan",
            ],
            lambda made: work.particle_cells(made, 20),
        ),
    ]
    return {suite.name: suite for suite in all_suites}
