"""Usual names of columns of positions, times and objects, in lower case."""

from __future__ import annotations

from collections.abc import Sequence

POSITIONS = (
    ("x", "y", "z"),
    ("position_x", "position_y", "position_z"),
    ("coordinates_0", "coordinates_1", "coordinates_2"),
    ("ra", "dec"),
    ("lon", "lat"),
    ("longitude", "latitude"),
    ("pickup_longitude", "pickup_latitude"),
    ("x", "y"),
)
TIMES = ("time", "t", "gps_time", "date", "datetime", "timestamp", "epoch", "pickup_datetime")
IDENTITIES = (
    "pid", "id", "ids", "particle_id", "particleids", "source_id", "object_id", "atom", "name",
)  # fmt: skip


def named(columns: Sequence[str], name: str) -> str:
    return next((column for column in columns if column.lower() == name), "")


def positions(columns: Sequence[str]) -> list[str]:
    """The columns of the position; empty without known names."""
    for group in POSITIONS:
        here = [named(columns, name) for name in group]
        if all(here):
            return here
    return []


def first(columns: Sequence[str], known: Sequence[str]) -> str:
    return next((column for name in known if (column := named(columns, name))), "")
