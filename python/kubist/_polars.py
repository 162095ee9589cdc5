"""Polars frames of records. Polars reads the memory of a batch without a copy, but has no unit of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _kubist
from ._libraries import need

if TYPE_CHECKING:
    import polars as pl


def polars_frame(records: _kubist.Batch | _kubist.Batches, call: str) -> pl.DataFrame:
    """The records as a frame; ``call`` is named in errors.

    Raises:
        InvalidInput: A timestamp or duration in seconds is beyond 64 bits of milliseconds.
    """
    polars = need("polars", call)
    records.check_milliseconds()
    frame: pl.DataFrame = polars.DataFrame(records)
    return frame
