"""A column of a FITS table, from stored bytes to Arrow arrays by the FITS standard 4.0.

Undefined values are null: TNULL before scaling, NaN, the byte 0 of booleans and strings, and blank
numbers of text tables. A vector becomes a column for each element, and a complex number a column
each for its real and imaginary part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ... import _fits
from ..source import check_range

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

FORM = re.compile(r"\s*(\d*)\s*([LXBIJKEDCMAPQ])(.*)$", re.IGNORECASE)
TEXT_FORM = re.compile(r"\s*([AIFED])(\d+)(?:\.(\d+))?\s*$", re.IGNORECASE)
SHAPE = re.compile(r"\s*\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)")
STORED = {
    "L": "u1", "X": "u1", "B": "u1", "A": "u1", "I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4",
    "D": ">f8", "C": ">c8", "M": ">c16", "P": ">i4", "Q": ">i8",
}  # fmt: skip
UNSIGNED = {"I": 2**15, "J": 2**31, "K": 2**63}
"""The TZERO of unsigned integers."""
TRUE, FALSE = ord("T"), ord("F")


class Unreadable(Exception):
    """The reason why a column is left out."""


@dataclass
class Column:
    """The storage of a column, and the meaning of its values.

    Attributes:
        place: The number of the column from 1, as in keywords of the header.
        code: The letter of TFORM; ``T`` for strings that are numbers.
        count: Elements of a row: numbers, bits, strings.
        width: Bytes of a string.
        decimals: Digits after the decimal point for a string without one.
        shown_null: TNULL is a value after scaling, as astropy writes it for unsigned integers.
    """

    name: str
    place: int
    code: str
    count: int
    width: int = 1
    decimals: int = 0
    unit: str | None = None
    null: int | str | None = None
    scale: float = 1.0
    zero: float = 0.0
    is_truth: bool = False
    of_text: bool = False
    shown_null: bool = False
    number_type: str = field(default="f8")

    @property
    def stored(self) -> np.dtype[Any]:
        import numpy as np

        if self.of_text:
            return np.dtype(f"S{self.width}")
        if self.code == "A":
            return np.dtype((f"S{self.width}", (self.count,)))
        count = -(-self.count // 8) if self.code == "X" else self.count
        return np.dtype((STORED[self.code], (count,)))

    def names(self) -> list[str]:
        if self.code in "CM":
            parts = ["re", "im"]
            if self.count == 1:
                return [f"{self.name}_{part}" for part in parts]
            return [f"{self.name}_{i}_{part}" for i in range(self.count) for part in parts]
        if self.count == 1:
            return [self.name]
        return [f"{self.name}_{i}" for i in range(self.count)]

    def arrays(self, raw: Array, first: int = 0) -> dict[str, pa.Array]:
        """The columns of stored rows; messages count rows from ``first``."""
        import numpy as np

        rows = raw.reshape(len(raw), int(np.prod(raw.shape[1:])))
        if self.code in "CM":
            if (self.scale, self.zero) != (1.0, 0.0):
                rows = rows * self.scale + self.zero
            flat = []
            for i in range(self.count):
                flat += [self._floats(rows[:, i].real), self._floats(rows[:, i].imag)]
        elif self.code == "X":
            bits = np.unpackbits(rows, axis=1)[:, : self.count].astype(bool)
            flat = [_array(bits[:, i]) for i in range(self.count)]
        else:
            read = self._text if self.of_text or self.code == "A" else self._numbers
            flat = [read(rows[:, i], first) for i in range(rows.shape[1])]
        return dict(zip(self.names(), flat, strict=True))

    def _numbers(self, raw: Array, first: int) -> pa.Array:
        import numpy as np

        if self.code == "L":
            return self._truths(raw, first)
        values = np.ascontiguousarray(raw).astype(raw.dtype.newbyteorder("="))
        if self.code in "ED":
            if (self.scale, self.zero) == (1.0, 0.0):
                return self._floats(values)
            return self._floats(values * np.float64(self.scale) + self.zero)
        mask = None
        if self.null is not None and not self.shown_null:
            mask = values == self.null
        if self.is_truth:
            return _array(values != 0, mask)
        if self.scale == 1.0 and self.zero:
            values = self._shifted(values, first)
        elif self.scale != 1.0:
            values = values * np.float64(self.scale) + self.zero
        if self.shown_null:
            mask = values == self.null
        return _array(values, mask)

    def _shifted(self, values: Array, first: int) -> Array:
        """Integers with an offset, exact if the offset is an integer."""
        import numpy as np

        bits = 8 * values.dtype.itemsize
        if self.code in UNSIGNED and self.zero == UNSIGNED[self.code]:
            unsigned = f"u{bits // 8}"
            turned: Array = values.view(unsigned) ^ np.array(1 << (bits - 1), unsigned)
            return turned
        if self.code == "B" and self.zero == -128:
            return (values ^ np.uint8(128)).view(np.int8)
        zero = int(self.zero)
        if zero != self.zero or abs(zero) >= 2**62:
            shifted: Array = values + np.float64(self.zero)
            return shifted
        wide: Array = values.astype(np.int64)
        if len(wide):
            for end in (wide.argmin(), wide.argmax()):
                if not -(2**63) <= int(wide[end]) + zero < 2**63:
                    raise ValueError(
                        f"column {self.name}, row {first + int(end)}: {wide[end]} + {zero} has no "
                        "place in 64 bits"
                    )
        shifted = wide + zero
        return shifted

    def _truths(self, raw: Array, first: int) -> pa.Array:
        import numpy as np

        wrong = ~np.isin(raw, (0, TRUE, FALSE))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"column {self.name}, row {first + row}: the byte {raw[row]} is no truth: FITS has "
                "T, F and 0"
            )
        return _array(raw == TRUE, raw == 0)

    def _floats(self, values: Array) -> pa.Array:
        import numpy as np

        values = np.ascontiguousarray(values)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        mask = np.isnan(values)
        if self.null is not None:
            # The standard has TNULL only for integers, but some programs write it here too.
            mask |= values == self.null
        return _array(values, mask)

    # Strings

    def _text(self, raw: Array, first: int) -> pa.Array:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        raw = np.ascontiguousarray(raw)
        if not raw.dtype.itemsize:
            return pa.array([""] * len(raw), pa.string())
        # A string ends at its first byte 0.
        texts = pc.utf8_rtrim(_decoded(pa.array(raw, pa.binary())), " ")
        if self.code != "T":
            if not self.of_text:
                begins = raw.view("u1").reshape(len(raw), raw.dtype.itemsize)[:, 0]
                nulls = pa.array(begins == 0)
                return pc.if_else(nulls, pa.scalar(None, pa.string()), texts)
            return self._without_null(texts)
        words = self._without_null(pc.utf8_trim(texts, " "))
        words = pc.if_else(pc.equal(words, ""), pa.scalar(None, pa.string()), words)
        return self._parsed(words, first)

    def _without_null(self, texts: pa.Array) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.null is None:
            return texts
        is_null = pc.equal(pc.utf8_trim(texts, " "), str(self.null).strip())
        return pc.if_else(is_null, pa.scalar(None, pa.string()), texts)

    def _parsed(self, words: pa.Array, first: int) -> pa.Array:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = pa.from_numpy_dtype(self.number_type)
        plain = pc.replace_substring_regex(words, "^[+]", "")
        if pa.types.is_floating(kind):
            plain = pc.replace_substring_regex(plain, "[dD]", "e")
        try:
            numbers = plain.cast(kind)
        except pa.ArrowInvalid:
            self._tell_wrong(words, first)
            raise
        if pa.types.is_floating(kind):
            floats = numbers.fill_null(0).to_numpy()
            texts = words.to_pylist() if np.isinf(floats).any() else []
            check_range("", f"column {self.name}", floats, lambda row: texts[row].encode())
        if self.decimals and pa.types.is_floating(kind):
            implied = pc.invert(pc.match_substring_regex(plain, "[.eE]"))
            numbers = pc.if_else(implied, pc.divide(numbers, 10.0**self.decimals), numbers)
        if (self.scale, self.zero) != (1.0, 0.0):
            mask = np.asarray(pc.is_null(numbers))
            values = numbers.fill_null(0).to_numpy() * np.float64(self.scale) + self.zero
            numbers = _array(values, mask)
        return numbers

    def _tell_wrong(self, words: pa.Array, first: int) -> None:
        read = int if self.number_type.startswith("i") else float
        for row, word in enumerate(words.to_pylist()):
            try:
                read(word.upper().replace("D", "E")) if word is not None else None
            except ValueError:
                raise ValueError(
                    f"column {self.name}, row {first + row}: {word!r} is no number"
                ) from None


def _array(values: Array, mask: Array | None = None) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=mask if mask is not None and mask.any() else None)


def _decoded(raw: pa.Array) -> pa.Array:
    """Strings from bytes: ASCII or UTF-8, otherwise Latin-1."""
    import pyarrow as pa

    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decode(text) for text in raw.to_pylist()], pa.string())


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def column(header: Mapping[str, Any], place: int, name: str) -> Column:
    """The column of a binary table.

    Raises:
        Unreadable: A table cannot store it.
    """
    form = str(header.get(f"ZFORM{place}", header[f"TFORM{place}"]))
    found = FORM.match(form)
    if found is None:
        raise Unreadable(f"TFORM{place} = {form!r} is no format of FITS")
    count, code, rest = int(found[1] or 1), found[2].upper(), found[3].strip()
    if code in "PQ":
        raise Unreadable(f"its rows have arrays of different lengths (TFORM{place} = {form!r})")
    width = 1
    if code == "A":
        width, count = _texts_of(header, place, count, rest)
    if count * width == 0:
        raise Unreadable(f"it holds no values (TFORM{place} = {form!r})")
    made = Column(
        name,
        place,
        code,
        count,
        width,
        unit=_unit(header, place),
        null=_integer(header.get(f"TNULL{place}")),
        scale=_number(header.get(f"TSCAL{place}"), 1.0),
        zero=_number(header.get(f"TZERO{place}"), 0.0),
    )
    made.is_truth = (
        code == "B" and made.null is not None and header.get(f"TCOMM{place}") == _fits.BOOLEAN
    )
    return made


def text_column(header: Mapping[str, Any], place: int, name: str) -> Column:
    """The column of a text table (`XTENSION = 'TABLE'`)."""
    form = str(header[f"TFORM{place}"])
    found = TEXT_FORM.match(form)
    if found is None:
        raise Unreadable(f"TFORM{place} = {form!r} is no format of FITS")
    code, width = found[1].upper(), int(found[2])
    kind = "f8"
    if code == "I":
        kind = "i2" if width <= 4 else "i4" if width <= 9 else "i8"
    null = header.get(f"TNULL{place}")
    return Column(
        name,
        place,
        "A" if code == "A" else "T",
        1,
        width,
        int(found[3] or 0) if code in "FED" else 0,
        unit=_unit(header, place),
        null=None if null is None else str(null),
        scale=_number(header.get(f"TSCAL{place}"), 1.0),
        zero=_number(header.get(f"TZERO{place}"), 0.0),
        of_text=True,
        number_type=kind,
    )


def _texts_of(header: Mapping[str, Any], place: int, length: int, rest: str) -> tuple[int, int]:
    """The bytes of a string, and the number of strings in a row: by TDIM, or as `20A5`."""
    shape = SHAPE.match(str(header.get(f"TDIM{place}", "")))
    if shape is not None:
        width, *others = [int(part) for part in shape[1].split(",")]
        count = 1
        for other in others:
            count *= other
        if 0 < width * count <= length:
            return width, count
    if rest.isdigit() and 0 < int(rest) < length and length % int(rest) == 0:
        return int(rest), length // int(rest)
    return length, 1


def _unit(header: Mapping[str, Any], place: int) -> str | None:
    said = header.get(f"TUNIT{place}")
    return said.strip() or None if isinstance(said, str) else None


def _number(value: Any, usual: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else usual


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().lstrip("+-").isdigit():
        return int(value)
    number = _number(value, None)
    return None if number is None or number != int(number) else int(number)
