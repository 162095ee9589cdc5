"""Columns of a table that are too narrow for the values of a file.

The table itself refuses numbers that it has no value for. It rounds floating-point numbers to 32
bits, and a date would lose its digits: 2460000.123 would be 2460000.
"""

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


def check_integers(given: pa.ChunkedArray, column: pa.Field, first: int) -> None:
    """Checks rows from row ``first`` on, before they go into a narrower column of the table.

    Raises:
        InvalidInput: An integer does not fit.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if given.type == column.type or not (
        pa.types.is_integer(given.type) and pa.types.is_integer(column.type)
    ):
        return
    fitted = pc.cast(given, column.type, safe=False)
    # A negative number and a large one may have the same bits.
    signs = [pc.less(values, pa.scalar(0, values.type)) for values in (given, fitted)]
    is_same = pc.equal(pc.cast(fitted, given.type, safe=False), given)
    wrong = pc.index(pc.and_(is_same, pc.equal(*signs)), False).as_py()
    if wrong >= 0:
        both = np.promote_types(given.type.to_pandas_dtype(), column.type.to_pandas_dtype())
        way = f"a copy of the table takes it (kubist copy --types {column.name}={both}), or "
        raise InvalidInput(
            f"column {column.name}, row {first + wrong}: {given[wrong].as_py()} does not fit into "
            f"{column.type}, the type of the table: {way if both.kind in 'iu' else ''}a new table "
            f"of all files, or one with read option types={column.name}={given.type}"
        )


def is_rounded(given: pa.ChunkedArray, column: pa.Field) -> bool:
    """Whether the table keeps fewer digits of floats than a file has."""
    import numpy as np
    import pyarrow as pa

    if given.type != pa.float64() or column.type not in (pa.float32(), pa.float16()):
        return False
    values = given.to_numpy()
    with np.errstate(over="ignore"):
        rounded = values.astype(column.type.to_pandas_dtype()).astype("f8")
    return bool(((rounded != values) & (values == values)).any())


def check_dates(given: pa.ChunkedArray, column: pa.Field, unit: str | None, first: int) -> None:
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
