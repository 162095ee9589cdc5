"""Designs of a table: the options at its creation."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..workloads.recorded import constrained
from ..workloads.spec import Workload

if TYPE_CHECKING:
    import pyarrow as pa

CAPACITY = 2048
"""The default capacity."""
CAPACITIES = (512, 8192, 32_768)
COMPRESSIONS = ("fast", "small")
MOST_COLUMNS = 6
"""Columns of boxes that form sets of dimensions."""


@dataclass(frozen=True, slots=True)
class Design:
    """Options of `kubist.create` that affect the speed of a table."""

    dimensions: tuple[str, ...]
    lookup: tuple[str, ...] = ()
    capacity: int = CAPACITY
    compression: str = "balanced"
    quantile: bool = False
    """Domains by quantiles, for skewed values."""

    def domains(self) -> dict[str, Any]:
        """Returns the dimensions with their domains, as for `kubist.create`."""
        return dict.fromkeys(self.dimensions, "quantile" if self.quantile else None)

    def options(self) -> dict[str, Any]:
        """Returns the options of `kubist.create`."""
        return {
            "dimensions": self.domains(),
            "lookup": list(self.lookup),
            "capacity": self.capacity,
            "storage": {"compression": self.compression},
        }

    def __str__(self) -> str:
        text = ", ".join(self.dimensions) + (" by quantiles" if self.quantile else "")
        text += f"; lookup {', '.join(self.lookup)}" if self.lookup else ""
        text += f"; capacity {self.capacity:,}" if self.capacity != CAPACITY else ""
        return text + (f"; {self.compression}" if self.compression != "balanced" else "")


@dataclass(frozen=True, slots=True)
class Uses:
    """The columns that the queries of a workload constrain, with query weights.

    Attributes:
        ranges: Columns with a range.
        values: Columns with a single value, by a box of width 0 or a condition ``column =
            {value}``.
    """

    ranges: dict[str, float]
    values: dict[str, float]

    def of(self, columns: Iterable[str]) -> Uses:
        """Only the uses of ``columns``, because a condition may also contain names of functions."""
        known = set(columns)
        kept = [
            {n: w for n, w in uses.items() if n in known} for uses in (self.ranges, self.values)
        ]
        return Uses(*kept)


def uses(workload: Workload) -> Uses:
    ranges: dict[str, float] = {}
    values: dict[str, float] = {}
    for query, share in zip(workload.queries, workload.shares, strict=True):
        for name, of in query.box.items():
            single = of.fixed is None and of.share is None and of.width == 0
            into = values if single else ranges
            into[name] = into.get(name, 0.0) + share
        for key, value in query.values.items():
            found = re.search(
                rf'("?)(\w+)\1\s*(=|<=?|>=?)\s*\{{{re.escape(key)}\}}', query.where or ""
            )
            if found and value.column:
                into = values if found[3] == "=" else ranges
                into[value.column] = into.get(value.column, 0.0) + share
        for asked in query.replay:
            for into, names in zip((ranges, values), constrained(asked), strict=True):
                for name in names:
                    into[name] = into.get(name, 0.0) + share / len(query.replay)
    return Uses(ranges, values)


def can_be_dimension(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind))


def first_round(workload: Workload, rows: pa.Table, suggested: Sequence[str]) -> list[Design]:
    """Sets of dimensions, each with and without secondary indexes.

    The sets are every choice of up to four columns with ranges, all columns with ranges, each
    column with values, and the dimensions that the format suggests.
    """
    kinds = {field.name: field.type for field in rows.schema}
    found = uses(workload).of(kinds)
    indexable = [name for name in kinds if can_be_dimension(kinds[name])]
    ranged = sorted((n for n in found.ranges if n in indexable), key=lambda n: -found.ranges[n])
    ranged = ranged[:MOST_COLUMNS]
    single = [name for name in found.values if name in indexable]
    sets: list[tuple[str, ...]] = [tuple(ranged)] if ranged else []
    for count in range(1, min(len(ranged), 4) + 1):
        sets += itertools.combinations(ranged, count)
    sets += [(name,) for name in single]
    sets += [(*ranged, name) for name in single if ranged and name not in ranged]
    if suggested:
        sets.append(tuple(suggested))
    if not sets:
        sets.append(tuple(indexable[:1]))
    order = {name: at for at, name in enumerate(rows.column_names)}
    unique = dict.fromkeys(tuple(sorted(set(of), key=order.__getitem__))[:8] for of in sets if of)
    lookups = [(), tuple(found.values)] if found.values else [()]
    return [Design(of, lookup) for of in unique for lookup in lookups]


def variants(design: Design) -> list[Design]:
    others = [replace(design, capacity=capacity) for capacity in CAPACITIES]
    return [*others, replace(design, quantile=True)]


def compressed(design: Design) -> list[Design]:
    return [replace(design, compression=name) for name in COMPRESSIONS]
