"""Types of arguments: queries, domains, data."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict


class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...


if TYPE_CHECKING:
    import numpy as np

    End = (
        bool | int | float | str | bytes | decimal.Decimal | dt.date | dt.time | dt.timedelta
        | np.generic | None
    )  # fmt: skip
    """A bound of a range, as a value of Python or NumPy; None leaves it open."""

    Seconds = float | str | dt.timedelta | np.timedelta64
    """A duration: seconds, text such as ``"500 ms"``, or a duration of Python or NumPy."""

    from .region import AnyRegion as AnyRegion

    Box = Mapping[str, End | tuple[End, End]]
    PerCell = tuple[int, Mapping[str, float | str]]
    Relation = Literal["touches", "inside", "centre"]
    """The objects with an extent that a box or a region selects."""

    Steps = int | tuple[int | None, int | None]

    Domain = tuple[End, End] | str | None
    """The domain of a dimension: None, both ends, or ``"quantile"``."""

    Period = float | str | tuple[End, End]
    """The period of a column: its length, or the interval of the values."""

    Column = Sequence[object] | np.ndarray[Any, Any]
    OnePart = ArrowStream | ArrowArray | Mapping[str, Column] | np.ndarray[Any, Any]
    Rows = OnePart | Sequence[Mapping[str, Any]] | Sequence[OnePart] | Iterator[OnePart]
    """Data: an Arrow object, a dict of columns, a list of dicts, a structured array, or parts."""


class Storage(TypedDict, total=False):
    """Storage of a new table, as for `kubist.create`."""

    compression: str | None
    strata: str | Sequence[str] | None
    least: int | None
    weight: str | None
    replication: str | None
    shared: bool


class Create(TypedDict, total=False):
    """Options of a new table, as for `kubist.create`."""

    lookup: Sequence[str] | None
    capacity: int | None
    seed: int
    units: Mapping[str, str] | None
    accuracy: Mapping[str, float | str] | None
    period: Mapping[str, Period] | None
    sphere: tuple[str, str] | None
    metadata: Mapping[str, Any] | None
    storage: Storage | None


class CreateForRanks(Create, total=False):
    """Options of a new table, as for `kubist.mpi.open`."""

    identity: Sequence[str] | None


class Keep(TypedDict, total=False):
    """The rows of a step to store, as for `kubist.mpi.open`."""

    when_full: Literal["block", "thin", "fail"]
    budget_rows_per_step: int | None
    budget_bytes_per_step: int | None
    budget_bytes: int | None
    budget_steps: int | None
    always_keep: str | None
    persist_when: str | None
    whole_paths: bool | None


class Read(TypedDict, total=False):
    """Options of reading files, as for `kubist.ingest`."""

    format: str | None
    topology: str | os.PathLike[str] | None
    time: float | None
    columns: Sequence[str] | None
    types: Mapping[str, str] | None
    delimiter: str | None
    names: Sequence[str] | None
    null: str | Sequence[str] | None
    decimal: Literal[".", ","] | None
    hdu: str | int | None
    particles: Sequence[str | int] | None
    crs: str | int | None
    strict: bool
    bad_rows: Literal["refuse", "skip"]
    max_record: int | None
    max_columns: int | None
    max_inflation: int | None
    max_batch: int | None


class Writing(TypedDict, total=False):
    """Options of a writer, as for `kubist.Table.writer`."""

    name: str | None
    memory_bytes: int | None
    optimize: bool


class Style(TypedDict, total=False):
    """Appearance of a plot, as for `Table.plot`."""

    colormap: str
    theme: Literal["paper", "dark"]
    aspect: Literal["auto", "equal", "fill"]
    log_axes: Literal["x", "y", "xy"] | None
    invert_axes: Literal["x", "y", "xy"] | None
    point_size: float | None
