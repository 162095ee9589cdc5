"""What calls take from Python: questions, domains, data."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict


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


class Storage(TypedDict, total=False):
    """How a new table is stored: as for `kubist.create`."""

    compression: str | None
    replication: str | None
    shared: bool


class Create(TypedDict, total=False):
    """What a new table gets beside dimensions and identity: as for `kubist.create`."""

    lookup: Sequence[str] | None
    capacity: int | None
    seed: int
    units: Mapping[str, str] | None
    accuracy: Mapping[str, float | str] | None
    metadata: Mapping[str, Any] | None
    storage: Storage | None


class CreateForRanks(Create, total=False):
    """What `kubist.mpi.open` makes a table with beside its columns and dimensions."""

    identity: Sequence[str] | None


class Keep(TypedDict, total=False):
    """Which records of a step are kept: as for `kubist.mpi.open`."""

    when_full: Literal["block", "thin", "fail"]
    budget_rows_per_step: int | None
    budget_bytes_per_step: int | None
    budget_bytes: int | None
    budget_steps: int | None
    always_keep: str | None
    persist_when: str | None
    whole_paths: bool | None


class Read(TypedDict, total=False):
    """How files are read: as for `kubist.ingest`."""

    format: str | None
    topology: str | os.PathLike[str] | None
    time: float | None
    columns: Sequence[str] | None
    types: Mapping[str, str] | None
    delimiter: str | None
    names: Sequence[str] | None
    max_record: int | None
    max_columns: int | None
    max_inflation: int | None
    max_batch: int | None


class Writing(TypedDict, total=False):
    """How a writer works: as for `kubist.Table.writer`."""

    name: str | None
    memory_bytes: int | None
    optimize: bool


class Style(TypedDict, total=False):
    """How a plot looks: as for `Table.plot`."""

    colormap: str
    theme: Literal["paper", "dark"]
    aspect: Literal["auto", "equal", "fill"]
    point_size: float | None
