"""Writes a FITS binary table. Each value is read back unchanged, or the column is refused.

A null is a byte 0 in strings, NaN in floats, and the header's TNULL in integers. Integers with
nulls and an offset (TZERO) get the next wider type, because readers disagree whether TNULL means
the stored or the shifted number.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _forms
from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BOOLEAN = "boolean"
"""Marks a byte column for booleans with nulls, because FITS libraries cannot read these."""
BLOCK = 2880
"""Parts of a file start at multiples of these bytes."""
INTEGERS = (("B", "u1"), ("I", "i2"), ("J", "i4"), ("K", "i8"))
"""FITS codes of integers, and their types."""
FLOATS = {"f2": ("E", ">f4"), "f4": ("E", ">f4"), "f8": ("D", ">f8")}
LONGEST_NAME = 68


def write(table: pa.Table, path: Path) -> None:
    """Writes all rows.

    Raises:
        InvalidInput: FITS cannot store a column or a value.
    """
    need("astropy", "a FITS file")
    import numpy as np
    from astropy.io import fits

    columns = [_Column(field, table.column(field.name)) for field in table.schema]
    kind = np.dtype([(f"c{i}", column.values.dtype) for i, column in enumerate(columns)])
    header = fits.Header(
        [
            ("XTENSION", "BINTABLE", "binary table"),
            ("BITPIX", 8),
            ("NAXIS", 2),
            ("NAXIS1", kind.itemsize, "bytes of a row"),
            ("NAXIS2", table.num_rows, "rows"),
            ("PCOUNT", 0),
            ("GCOUNT", 1),
            ("TFIELDS", len(columns)),
        ]
    )
    for place, column in enumerate(columns, 1):
        for key, value in column.cards.items():
            header[f"{key}{place}"] = value
    rows = np.empty(table.num_rows, kind)
    for i, column in enumerate(columns):
        rows[f"c{i}"] = column.values
    with path.open("wb") as out:
        out.write(fits.PrimaryHDU().header.tostring().encode("ascii"))
        out.write(header.tostring().encode("ascii"))
        out.write(rows.tobytes())
        out.write(bytes(-rows.nbytes % BLOCK))


class _Column:
    def __init__(self, field: pa.Field, column: pa.ChunkedArray) -> None:
        import pyarrow as pa

        self.name = field.name
        self.cards: dict[str, Any] = {"TTYPE": self._ascii(field.name, "name")}
        if len(field.name) > LONGEST_NAME:
            raise InvalidInput(f"column {field.name}: FITS has no place for so long a name")
        kinds = pa.types
        kind = column.type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        self.kind = kind
        if kinds.is_boolean(kind):
            self.values = self._truths(column)
        elif kinds.is_integer(kind):
            self.values = self._integers(column)
        elif kinds.is_floating(kind):
            self.values = self._floats(column)
        elif kinds.is_string(kind) or kinds.is_large_string(kind) or str(kind) == "string_view":
            self.values = self._texts(column)
        else:
            raise InvalidInput(f"column {field.name}: FITS has no place for {kind}")
        if (unit := _forms.unit_of(field)) is not None:
            self.cards["TUNIT"] = self._unit(unit)

    def _ascii(self, text: str, what: str) -> str:
        if not (text.isascii() and text.isprintable()):
            raise InvalidInput(
                f"column {self.name}: FITS has no place for the {what} {text!r}: it has ASCII alone"
            )
        return text

    def _unit(self, unit: str) -> str:
        if unit.isascii():
            return self._ascii(unit, "unit")
        from astropy import units

        try:
            # Such as `um` for `µm`.
            return str(units.Unit(unit).to_string("fits"))
        except ValueError:
            return self._ascii(unit, "unit")

    def _truths(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        import numpy as np

        if not column.null_count:
            self.cards["TFORM"] = "L"
            return np.where(column.to_numpy(), np.uint8(ord("T")), np.uint8(ord("F")))
        self.cards |= {"TFORM": "B", "TNULL": 255, "TCOMM": BOOLEAN}
        mask = np.asarray(column.is_null())
        return np.where(mask, np.uint8(255), column.fill_null(False).to_numpy().astype("u1"))

    def _integers(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        import numpy as np

        mask = np.asarray(column.is_null())
        values = (column.fill_null(0) if column.null_count else column).to_numpy()
        code = values.dtype.str[1:]
        if not mask.any():
            for form, stored in INTEGERS:
                if code == stored:
                    self.cards["TFORM"] = form
                    return values.astype(values.dtype.newbyteorder(">"))
            # Others need an offset, which flips the first bit.
            width = values.dtype.itemsize
            form, stored = next(known for known in INTEGERS if known[1][1:] == str(width))
            offset = 2 ** (8 * width - 1)
            self.cards |= {"TFORM": form, "TZERO": -offset if width == 1 else offset}
            turned = values.view(f"u{width}") ^ np.array(offset, f"u{width}")
            return turned.view(stored).astype(f">{stored}")
        low, high = int(values.min()), int(values.max())
        width = values.dtype.itemsize
        for form, stored in INTEGERS:
            limits = np.iinfo(stored)
            if limits.dtype.itemsize < width or low < limits.min or high > limits.max:
                continue
            null = unused(values[~mask], int(limits.min), int(limits.max))
            if null is not None:
                self.cards |= {"TFORM": form, "TNULL": null}
                return np.where(mask, np.array(null, stored), values.astype(stored)).astype(
                    f">{stored}"
                )
        raise InvalidInput(
            f"column {self.name}: FITS has no place for {high} in {self.kind} beside a null"
        )

    def _floats(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        import numpy as np

        mask = np.asarray(column.is_null())
        values = column.to_numpy()
        if mask.any() and np.isnan(values[~mask]).any():
            row = int(np.argmax(np.isnan(values) & ~mask))
            raise InvalidInput(
                f"column {self.name}, row {row}: NaN beside nulls, which FITS does not tell apart: "
                "leave out one of both (where)"
            )
        form, stored = FLOATS[values.dtype.str[1:]]
        self.cards["TFORM"] = form
        return values.astype(stored)

    def _texts(self, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
        import numpy as np

        texts = column.to_pylist()
        for row, text in enumerate(texts):
            if text and not (text.isascii() and text.isprintable() and text[-1] != " "):
                raise InvalidInput(
                    f"column {self.name}, row {row}: FITS has no place for the text {text!r}: it has "
                    "ASCII alone, and no blanks at the end"
                )
        width = max([1, *(len(text) for text in texts if text)])
        self.cards["TFORM"] = f"{width}A"
        # Blanks are an empty string; a byte 0 is null.
        stored = [
            b"" if text is None else text.ljust(width if not text else 0).encode() for text in texts
        ]
        return np.array(stored, f"S{width}")


def unused(values: np.ndarray[Any, Any], low: int, high: int) -> int | None:
    """Returns a number from ``low`` to ``high`` that is not among the values, preferably an end."""
    import numpy as np

    for end in (low, high):
        if not (values == end).any():
            return end
    there = np.unique(values)
    if len(there) > high - low:
        return None
    # The first gap between two neighbours.
    gap = int(np.argmax(np.diff(there.astype(object)) > 1))
    return int(there[gap]) + 1
