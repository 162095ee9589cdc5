"""Polars frames over the memory of batches; Polars has no unit of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _kubist
from ._libraries import need

if TYPE_CHECKING:
    import polars as pl


def polars_frame(records: _kubist.Batch | _kubist.Batches, call: str) -> pl.DataFrame:
    """The rows as a frame; errors name ``call``.

    Raises
    ------
    InvalidInput
        A timestamp or duration in seconds exceeds 64 bits of milliseconds.
    """
    polars = need("polars", call)
    records.check_milliseconds()
    frame: pl.DataFrame = polars.DataFrame(records)
    return frame
