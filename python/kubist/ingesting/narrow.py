"""Columns of a table that are too narrow for the values of a file.

The table itself refuses numbers that it has no value for. Floating-point numbers of files are
rounded, and the report names their columns. A date would lose its digits: 2460000.123 would be
2460000.
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


def rounded(given: pa.ChunkedArray, column: pa.Field) -> pa.ChunkedArray | None:
    """Floats with the digits that the table keeps; None if it keeps all.

    None too if a number would become infinite, or so small that it loses digits: the table refuses
    it.
    """
    import numpy as np
    import pyarrow as pa

    if given.type != pa.float64() or column.type not in (pa.float32(), pa.float16()):
        return None
    values, kind = given.to_numpy(), np.dtype(column.type.to_pandas_dtype())
    with np.errstate(over="ignore"):
        kept = values.astype(kind).astype("f8")
    differs = (kept != values) & (values == values)
    small = np.abs(kept) < np.finfo(kind).tiny
    if not differs.any() or (differs & (np.isinf(kept) | small)).any():
        return None
    return given.cast(column.type, safe=False)


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
