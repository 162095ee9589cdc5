"""Arrow arrays from Python values.

pyarrow's own conversion of lists imports pandas, which takes longer than opening 1,000 runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._libraries import need
from .._numpy import from_numpy

if TYPE_CHECKING:
    import pyarrow as pa


def array(values: Sequence[Any]) -> pa.Array:
    """Values of a single type, with None for null; an array of strings if all are null."""
    pa, numpy = need("pyarrow", "open_many()"), need("numpy", "open_many()")
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pa.array(from_numpy("", _filled(numpy.empty(len(values), object), values)))
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1 or not kinds <= {bool, int, float}:
        return pa.array(list(values))
    (kind,) = kinds
    plain = numpy.array([kind() if value is None else value for value in values], kind)
    nulls = [value is None for value in values]
    masked = numpy.ma.MaskedArray(plain, nulls) if any(nulls) else plain
    return pa.array(from_numpy("", masked))


def _filled(into: Any, values: Sequence[Any]) -> Any:
    into[:] = values
    return into


def table(columns: dict[str, pa.Array]) -> pa.Table:
    return need("pyarrow", "open_many()").Table.from_arrays(
        list(columns.values()), names=list(columns)
    )
