"""The arguments of a question: what `Table.query` and its siblings take."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import numpy as np

    End = (
        bool | int | float | str | bytes | decimal.Decimal | dt.date | dt.time | dt.timedelta
        | np.generic | None
    )  # fmt: skip
    """An end of a range in the values of Python and NumPy; None leaves it open."""

    Box = Mapping[str, tuple[End, End]]
    PerCell = tuple[int, Mapping[str, float]]
    Steps = int | tuple[int | None, int | None]


class Part(TypedDict, total=False):
    """What can be asked beside a box of a query that is cut into parts."""

    precision: float | None
    window: tuple[float, float] | None
    columns: Sequence[str] | None
    where: str | None
    steps: Steps | None
    inclusion: str | None


class Rest(Part, total=False):
    """What can be asked beside a box."""

    limit: int | None
    per_cell: PerCell | None


class Asked(Rest, total=False):
    """All that can be asked: as for `Table.query`."""

    box: Box | None


class Goal(TypedDict, total=False):
    """How well something is estimated: as for `Table.estimate`."""

    error: float | None
    absolute: float | None
    within: float | None
    rows: int | None
    bytes: int | None
    precision: float | None
    window: tuple[float, float] | None
    steps: Steps | None
    confidence: float
    tails: float | None
