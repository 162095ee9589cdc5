"""Estimates over many runs: the requests to the runs, and the figures of the result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from .. import _kubist
from .._estimate import _Kept
from .._libraries import need
from .._pinned import Figures
from . import _text
from ._columns import Union
from ._part import Part

if TYPE_CHECKING:
    import pyarrow as pa

    from .._spec import EstimateRequest

ALL = 2**62
"""A number of rows that is never reached: no limit."""

FIGURES = ("value", "low", "high", "confidence", "fraction", "rows", "rows_read", "exact")
BINS = ("bin_low", "bin_high", "bin2_low", "bin2_high")

_WARNINGS = 5
"""Maximum number of the runs' warnings in a result."""


@dataclass(slots=True)
class Asked:
    """The parts of an estimate that are the same for all runs."""

    union: Union
    parts: Sequence[Part]
    region: dict[str, Any]
    aggregates: list[str]
    shown: list[str]
    """The aggregates as the caller wrote them."""
    groups: list[str]
    names: list[str]
    """The columns of the groups in the result."""
    goal: dict[str, Any]
    begin: float = field(default_factory=time.perf_counter)
    of_runs: list[bool] = field(init=False)
    """Whether each group is the same for all rows of a run."""
    _own: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The region and the groups for each run."""

    def __post_init__(self) -> None:
        named = [_text.columns(group, self.union.names) for group in self.groups]
        self.of_runs = [bool(names) and names <= self.union.of_run.keys() for names in named]

    def request(self, part: Part, aggregates: Sequence[str], goal: dict[str, Any]) -> Figures:
        own = self._own.get(part.number)
        if own is None:
            own = part.question(self.region)
            groups = zip(self.groups, self.of_runs, strict=True)
            own["group_by"] = [
                part.expression(text, part.nothing()) for text, of_runs in groups if not of_runs
            ]
            if not own["group_by"]:
                del own["group_by"]
            self._own[part.number] = own
        texts = [part.expression(text, part.nothing()) for text in aggregates]
        request = cast("EstimateRequest", {**own, **goal, "aggregates": texts})
        return part.run.pinned.estimate(request)

    def rank(self, key: Sequence[Any]) -> list[tuple[bool, Any]]:
        """The sort key of groups: runs in their order, values ascending, null last."""
        names = [name for name, of_runs in zip(self.names, self.of_runs, strict=True) if of_runs]
        runs = self.union.of_run[self.union.key]
        return [
            (value is None, runs.index(value) if name == self.union.key else value)
            for name, value in zip(names, key, strict=True)
        ]

    def texts(self, part: Part) -> dict[str, str]:
        """The caller's aggregates, by the text of the aggregate for a run."""
        own = (part.expression(text, part.nothing()) for text in self.aggregates)
        return dict(zip(own, self.shown, strict=True))

    def by_label(self, part: Part, of_texts: dict[str, Any]) -> dict[str, Any]:
        texts = self.texts(part)
        return {texts.get(text, text): value for text, value in of_texts.items()}


def group_columns(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in ("aggregate", *FIGURES, *BINS)]


def kept(
    asked: Asked,
    table: pa.Table,
    abouts: Sequence[dict[str, Any]],
    warnings: Sequence[str],
    **own: Any,
) -> Figures:
    """The figures of a result, in memory. ``own`` replaces values that the runs determine."""
    more = len(warnings) - _WARNINGS
    missed = [about["missed_group"] for about in abouts if about["missed_group"] is not None]
    stops = {about["stopped"] for about in abouts}
    stats = {name: sum(about["stats"][name] for about in abouts) for name in abouts[0]["stats"]}
    about = {
        "fraction": min(about["fraction"] for about in abouts),
        "confidence": abouts[0]["confidence"],
        "stopped": stops.pop() if len(stops) == 1 else (stops - {"exact"}).pop(),
        "missed_group": max(missed, default=None),
        "warnings": [*warnings[:_WARNINGS], *([f"{more} more notes"] if more > 0 else [])],
        "outlook": None,
        "own": [None] * len(table),
        "stats": stats | {"seconds": time.perf_counter() - asked.begin},
        **own,
    }
    rows = table.combine_chunks().to_batches()
    pa = need("pyarrow", "open_many()")
    empty = [pa.nulls(0, field.type) for field in table.schema]
    batch = rows[0] if rows else pa.record_batch(empty, schema=table.schema)
    return _Kept(_kubist.Batch(batch), json.dumps(about))
