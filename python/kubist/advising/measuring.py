"""Builds designs from samples, and measures the queries of a workload on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _create
from .._unopened import drop
from ..workloads.draws import Draws, Question
from ..workloads.spec import Workload
from ..workloads.targets import Answered, Kubist
from .designs import Design

if TYPE_CHECKING:
    import pyarrow as pa

DRAWS = 8
"""Queries drawn from each query of the workload."""
REPEATS = 3
"""The fastest repeat counts, because the first one also loads the index."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query on a table, with its time in seconds and its cost."""

    query: str
    seconds: float
    cost: Answered


@dataclass(frozen=True, slots=True)
class Trial:
    design: Design
    rows: int
    build_seconds: float
    bytes: int
    cubes: int
    asked: list[Asked]

    def of(self, query: str) -> list[Asked]:
        return [one for one in self.asked if one.query == query]


def questions(workload: Workload, rows: pa.Table, seed: int = 0) -> list[Question]:
    draws = Draws(workload, rows, seed)
    return [draws.of(query) for query in workload.queries for _ in range(DRAWS)]


def measure(design: Design, rows: pa.Table, asked: Sequence[Question], folder: Path) -> Trial:
    """Builds a table in a folder, runs the queries, and deletes the table."""
    path = folder / "trial.kubist"
    begin = time.perf_counter()
    try:
        # No identity, because it affects samples, but not times.
        table = _create.create(path, rows, **design.options())
        built = time.perf_counter() - begin
        with table:
            target = Kubist("trial", table)
            done = [_ask(target, question) for question in asked]
            info = table.info()
            return Trial(design, rows.num_rows, built, info.bytes, info.cubes, done)
    finally:
        if path.exists():
            drop(str(path), force=True)


def _ask(target: Kubist, question: Question) -> Asked:
    best, cost = float("inf"), Answered(0)
    for _ in range(REPEATS):
        begin = time.perf_counter()
        cost = target.ask(question)
        best = min(best, time.perf_counter() - begin)
    return Asked(question.name, best, cost)
