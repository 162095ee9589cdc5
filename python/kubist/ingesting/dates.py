"""Dates that a column of 32-bit floats would round: 2460000.123 would be 2460000."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = re.compile(r"(^|_)([mbht]|bt)?jd(_|$)|^time$|^date", re.IGNORECASE)
UNITS = ("d", "day", "s")
LATE = 10_000.0
"""Numbers of days and seconds from here on are dates, no durations."""


def check(given: pa.ChunkedArray, column: pa.Field, unit: str | None, first: int) -> None:
    """Checks rows from row ``first`` on, before they go into a column of the table.

    Text files are checked by the reader of the engine.

    Raises:
        InvalidInput: A date would lose digits.
    """
    import numpy as np
    import pyarrow as pa

    if column.type != pa.float32() or given.type != pa.float64():
        return
    if not ((unit or "").strip() in UNITS or NAMES.search(column.name)):
        return
    values = given.to_numpy()
    with np.errstate(over="ignore"):
        rounded = values.astype("f4").astype("f8")
    lost = (np.abs(values) >= LATE) & (rounded != values)
    if lost.any():
        row = int(np.argmax(lost))
        raise InvalidInput(
            f"column {column.name}, row {first + row}: {values[row]} is a date, of which 32 bits "
            f"keep {np.float32(values[row])}: give the column the type float64"
        )
