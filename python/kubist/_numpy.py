"""NumPy arrays as columns, without another library.

The columns use the memory of the arrays where Arrow has the same layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _kubist
from ._errors import InvalidInput
from ._libraries import is_a, need

if TYPE_CHECKING:
    import numpy as np

_UNITS = {"s", "ms", "us", "ns"}
_FINER = {
    ("M", "Y"): "D", ("M", "M"): "D", ("M", "W"): "D", ("M", "h"): "s", ("M", "m"): "s",
    ("m", "W"): "s", ("m", "D"): "s", ("m", "h"): "s", ("m", "m"): "s",
}  # fmt: skip
"""The column unit for each NumPy unit that no column has; months have no fixed duration."""
"""Units of times in Arrow; days become dates."""


def is_array(values: Any) -> bool:
    """Whether a value is a NumPy array that `from_numpy` accepts; objects must be strings."""
    if not is_a(values, "numpy", "ndarray"):
        return False
    return values.dtype.kind not in "OSV" or (values.dtype.kind == "O" and _is_text(values))


def _is_text(values: np.ndarray[Any, Any]) -> bool:
    return all(isinstance(value, str) or value is None for value in values.flat)


def from_numpy(name: str, values: np.ndarray[Any, Any]) -> _kubist.NumpyColumn:
    """A column from an array. Masked values and NaT become null; NaN stays NaN.

    Raises
    ------
    InvalidInput
        The array has several dimensions, or no column has its type.
    """
    numpy = need("numpy", f"column {name}")
    if values.ndim != 1:
        raise InvalidInput(
            f"column {name}: expected one dimension, not an array of shape {values.shape}"
        )
    mask = None
    if is_a(values, "numpy.ma", "MaskedArray"):
        mask, values = numpy.ma.getmaskarray(values), numpy.ma.getdata(values)
    kind = values.dtype.kind
    if kind in "OUT":
        texts = values.tolist()
        if mask is not None:
            texts = [None if hidden else text for text, hidden in zip(texts, mask, strict=True)]
        try:
            return _kubist.NumpyColumn.of_texts(texts)
        except InvalidInput as error:
            raise InvalidInput(f"column {name}: {error}") from None
    named = values.dtype.newbyteorder("=")
    if kind in "mM":
        absent = numpy.isnat(values)
        mask = absent if mask is None else mask | absent
        values, stored = _times(name, numpy, values)
    elif kind in "biuf" and named.itemsize <= 8:
        stored = named.name
    else:
        raise InvalidInput(f"column {name}: NumPy's {values.dtype} is not a column type")
    # Arrow has only the byte order of this machine.
    contiguous = numpy.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    nulls = None
    if mask is not None and mask.any():
        nulls = numpy.ascontiguousarray(mask).view(numpy.uint8)
    return _kubist.NumpyColumn.of_bytes(stored, contiguous.view(numpy.uint8), nulls)


def _converted(name: str, numpy: Any, values: np.ndarray[Any, Any], unit: str) -> Any:
    """The same times in a finer unit.

    Raises
    ------
    InvalidInput
        A time exceeds 64 bits of the unit, where NumPy would wrap around.
    """
    finer = values.astype(f"{values.dtype.kind}8[{unit}]")
    changed = finer.astype(values.dtype) != values
    changed &= ~numpy.isnat(values)
    if changed.any():
        row = int(changed.argmax())
        raise InvalidInput(
            f"column {name}, row {row}: {values.view(numpy.int64)[row]} in {values.dtype} "
            f"exceeds 64 bits of {unit}"
        )
    return finer


def _times(name: str, numpy: Any, values: np.ndarray[Any, Any]) -> tuple[Any, str]:
    """Dates, timestamps and durations as integers, and the name of their type."""
    unit, count = numpy.datetime_data(values.dtype)
    is_moment = values.dtype.kind == "M"
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    finer = _FINER.get((values.dtype.kind, unit))
    if finer is None and count != 1 and (unit in _UNITS or (unit == "D" and is_moment)):
        finer = unit
    if finer is not None:
        native, unit, count = _converted(name, numpy, native, finer), finer, 1
    if unit == "D" and count == 1 and is_moment:
        days = native.view(numpy.int64)
        known = days[~numpy.isnat(native)]
        if known.size and (known.min() < -(2**31) or known.max() >= 2**31):
            raise InvalidInput(f"column {name}: a date exceeds 32 bits of days")
        return days.astype(numpy.int32), "date32"
    if unit not in _UNITS or count != 1:
        what = "datetime64" if is_moment else "timedelta64"
        raise InvalidInput(
            f"column {name}: no column type has the unit of {values.dtype}: "
            f"use astype('{what}[s]') or [ms], [us], [ns]" + (", or [D]" if is_moment else "")
        )
    return native.view(numpy.int64), f"{'timestamp' if is_moment else 'duration'}[{unit}]"
