"""Arrow columns from columns of astropy and other arrays with units.

Masked values become null; the unit is in the column's metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput
from ._libraries import is_a, need

if TYPE_CHECKING:
    import pyarrow as pa


class Unreadable(Exception):
    """The reason why a table cannot store a column."""


def is_table(value: Any) -> bool:
    return is_a(value, "astropy.table", "Table")


def is_measured(value: Any) -> bool:
    """Whether a value is an array that may have a unit.

    These are Quantity and Column of astropy, Quantity of pint, and DataArray of xarray.
    """
    if is_a(value, "astropy.units", "Quantity") or is_a(value, "pint", "Quantity"):
        return True
    if is_a(value, "astropy.table", "Column") or is_a(value, "astropy.table", "MaskedColumn"):
        return True
    return is_a(value, "xarray", "DataArray")


def table(source: Any) -> pa.Table:
    """A Table or QTable as a `pyarrow.Table`.

    Raises
    ------
    InvalidInput
        A column cannot be stored; the message names it.
    """
    made: dict[str, tuple[pa.Array, str | None]] = {}
    for name in source.colnames:
        try:
            made |= columns(name, source[name])
        except Unreadable as why:
            raise InvalidInput(f"column {name}: {why}") from None
    return assembled(made)


def assembled(made: Mapping[str, tuple[pa.Array, str | None]]) -> pa.Table:
    import pyarrow as pa

    fields = [
        pa.field(name, array.type, metadata={"unit": unit} if unit else None)
        for name, (array, unit) in made.items()
    ]
    return pa.table([array for array, _ in made.values()], schema=pa.schema(fields))


def columns(name: str, values: Any) -> dict[str, tuple[pa.Array, str | None]]:
    """The array and unit of a column, by name.

    A vector becomes a column ``name_i`` per element, complex numbers ``name_re`` and ``name_im``.

    Raises
    ------
    Unreadable
        A table cannot store the column.
    """
    import numpy as np

    unit = unit_text(getattr(values, "unit", getattr(values, "units", None)))
    if is_a(values, "xarray", "DataArray"):
        unit, values = values.attrs.get("units"), values.values
    elif is_a(values, "pint", "Quantity"):
        values = values.magnitude
    if isinstance(values, np.ndarray):
        values = _plain(values)
    else:
        # For example, numbers of a Time or SkyCoord are ambiguous without format or frame.
        raise Unreadable(
            f"no column type holds a {type(values).__name__}: give its numbers or texts as columns"
        )
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    data = np.asarray(np.ma.getdata(values))
    if not data.ndim:
        raise Unreadable("it is one value, not one for each row")
    flat = data.reshape(len(data), int(np.prod(data.shape[1:])))
    masks = None if mask is None or not mask.any() else mask.reshape(flat.shape)
    made = {}
    for place in range(flat.shape[1]):
        own = name if flat.shape[1] == 1 else f"{name}_{place}"
        of_mask = None if masks is None else masks[:, place]
        if flat.dtype.kind == "c":
            made[f"{own}_re"] = (_array(flat[:, place].real, of_mask), unit)
            made[f"{own}_im"] = (_array(flat[:, place].imag, of_mask), unit)
        else:
            made[own] = (_array(flat[:, place], of_mask), unit)
    return made


def _plain(values: Any) -> Any:
    import numpy as np

    mask, numbers = getattr(values, "mask", None), getattr(values, "unmasked", values)
    numbers = getattr(numbers, "value", numbers)
    if not isinstance(numbers, np.ndarray) or mask is None or isinstance(values, np.ma.MaskedArray):
        return values if isinstance(values, np.ma.MaskedArray) else numbers
    return np.ma.MaskedArray(numbers, mask)


def _array(values: Any, mask: Any) -> pa.Array:
    import numpy as np

    pa = need("pyarrow", "a table of astropy")
    kind = values.dtype.kind
    if kind in "OU":
        texts = values.tolist()
        if not all(isinstance(text, str) or text is None for text in texts):
            raise Unreadable("its rows hold Python objects, or arrays of different lengths")
        return pa.array(texts, pa.string(), mask=mask)
    if kind == "S":
        return pa.array([_decoded(text) for text in values.tolist()], pa.string(), mask=mask)
    if kind in "mM":
        return pa.array(np.ascontiguousarray(values), mask=mask)
    if kind not in "biuf" or values.dtype.itemsize > 8:
        raise Unreadable(f"no column type holds {values.dtype}")
    native = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("="), copy=False)
    return pa.array(native, mask=mask)


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def unit_text(unit: Any) -> str | None:
    """A unit as text, in FITS notation if possible; None without a unit."""
    if unit is None:
        return None
    if isinstance(unit, str):
        return unit or None
    to_string = getattr(unit, "to_string", None)
    if to_string is None:
        return str(unit) or None
    try:
        said = to_string("fits")
    except ValueError:
        said = str(unit)
    return said or None
