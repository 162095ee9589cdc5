"""What calls take from Python: questions, domains, data."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ._asked import Region


class ArrowStream(Protocol):
    """What hands out record batches through the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """What hands out a record batch through the Arrow PyCapsule interface."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class ArrowSchema(Protocol):
    """What hands out a schema through the Arrow PyCapsule interface."""

    def __arrow_c_schema__(self) -> object: ...


if TYPE_CHECKING:
    import numpy as np

    End = (
        bool | int | float | str | bytes | decimal.Decimal | dt.date | dt.time | dt.timedelta
        | np.generic | None
    )  # fmt: skip
    """An end of a range in the values of Python and NumPy; None leaves it open."""

    Seconds = float | str | dt.timedelta | np.timedelta64
    """A time: seconds, text as ``"500 ms"``, or a duration of Python or NumPy."""

    Box = Mapping[str, End | tuple[End, End]]
    PerCell = tuple[int, Mapping[str, float | str]]
    Steps = int | tuple[int | None, int | None]

    Domain = tuple[End, End] | str | None
    """Where the values of a dimension lie: None, both ends, or ``"quantile"``."""

    Column = Sequence[object] | np.ndarray[Any, Any]
    Rows = ArrowStream | ArrowArray | Mapping[str, Column] | np.ndarray[Any, Any]
    """Whatever hands them out as Arrow, a dict of columns, a structured array."""


class Goal(Region, total=False):
    """Of which records, and how well, something is estimated: as for `Table.estimate`."""

    error: float | str | None
    within: Seconds | None
    max_rows: int | None
    max_bytes: int | None
    confidence: float
    tails: float | None
