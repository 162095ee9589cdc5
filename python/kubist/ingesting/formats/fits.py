"""FITS tables: astropy reads the headers, and this package the rows by the standard.

One part (HDU) of a file becomes rows: the part that the user names, else the first table with
positions, else the first table. Other parts are reported as left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, arrow_table, unit
from . import catalogue, fits_storage
from .fits_columns import Column, Unreadable, column, text_column

if TYPE_CHECKING:
    import pyarrow as pa

matches = fits_storage.matches

# Keywords that only describe the storage of a table.
STRUCTURE = re.compile(
    r"SIMPLE|XTENSION|BITPIX|NAXIS\d*|PCOUNT|GCOUNT|TFIELDS|THEAP|EXTEND|CHECKSUM|DATASUM|END"
    r"|(TTYPE|TFORM|TUNIT|TNULL|TSCAL|TZERO|TDIM|TBCOL)\d+"
    r"|ZTABLE|ZTILELEN|ZNAXIS\d*|ZPCOUNT|ZTHEAP|ZHECKSUM|ZDATASUM|(ZFORM|ZCTYP)\d+"
)


def look(path: Path, options: Options) -> Source:
    import warnings

    import pyarrow as pa
    from astropy.io import fits

    with warnings.catch_warnings():
        # Unusual parts of a file are reported as left out, or end the ingestion.
        warnings.simplefilter("ignore")
        with fits.open(path, memmap=False) as hdus:
            found = _tables(path, hdus)
            number = _chosen(path, hdus, found, options.hdu)
            hdu = hdus[number]
            header, begin = hdu.header, hdu.fileinfo()["datLoc"]
            left_out = _others(hdus, number)
            cards = _cards(header)
            if number and (of_file := _cards(hdus[0].header)):
                cards["primary"] = of_file
            header = dict(header.items())
    count = fits_storage.rows(header)
    columns = _columns(header, options, left_out)
    _check_nulls(path, begin, header, columns)
    fields = {f.name: f for c in columns for f in _fields(c)}
    units = {c.name: c.unit for c in columns}

    def read(_: State) -> Iterator[pa.Table]:
        for first, stored in fits_storage.parts(path, begin, header, columns):
            arrays: dict[str, pa.Array] = {}
            for one, raw in zip(columns, stored, strict=True):
                arrays |= one.arrays(raw, first)
            yield arrow_table(arrays)

    schema = pa.schema(list(fields.values()))
    integers = {f.name: pa.types.is_integer(f.type) for f in schema}
    return Source(
        path=path,
        format="fits",
        schema=schema,
        steps=lambda _: [Step(hdus_name(number), read, part=path.name)],
        dimensions=catalogue.positions(schema.names, units),
        identity=catalogue.identity(schema.names, integers),
        metadata={"fits": cards} if cards else {},
        rows=count,
        left_out=left_out,
    )


def hdus_name(number: int) -> str:
    return f"HDU {number}"


def _name_of(hdus: Any, number: int) -> str:
    name = hdus[number].name
    return hdus_name(number) + (f" ({name})" if name else "")


# Which table


def _tables(path: Path, hdus: Any) -> list[int]:
    from astropy.io import fits

    found = [i for i, hdu in enumerate(hdus) if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)]
    # The standard stores compressed images as tables.
    found = [i for i in found if "ZIMAGE" not in hdus[i].header]
    if not found:
        raise ValueError(
            f"{path}: there is no table in its {len(hdus)} parts: they are images, or the file is cut off"
        )
    return found


def _chosen(path: Path, hdus: Any, tables: list[int], wanted: str | int | None) -> int:
    if wanted is None:
        return next((i for i in tables if _positions(hdus[i].header)), tables[0])
    text = str(wanted).strip()
    if text.isdigit():
        found = [i for i in tables if i == int(text)]
    else:
        name, _, version = text.partition(",")
        found = [
            i
            for i in tables
            if hdus[i].name.upper() == name.strip().upper()
            and (not version or str(hdus[i].ver) == version.strip())
        ]
    if not found:
        there = ", ".join(_name_of(hdus, i) for i in tables)
        raise InvalidInput(f"{path}: hdu: {wanted!r} is no table of it; its tables are {there}")
    return found[0]


def _positions(header: Mapping[str, Any]) -> list[str]:
    names = [str(header.get(f"TTYPE{place}", "")) for place in range(1, header["TFIELDS"] + 1)]
    return catalogue.positions(names, {})


def _others(hdus: Any, number: int) -> dict[str, str]:
    from astropy.io import fits

    left_out = {}
    for i, hdu in enumerate(hdus):
        if i == number or (i == 0 and not hdu.header.get("NAXIS")):
            continue
        is_table = isinstance(hdu, fits.BinTableHDU | fits.TableHDU) and "ZIMAGE" not in hdu.header
        why = "another table: the option hdu chooses it" if is_table else "it is no table"
        left_out[_name_of(hdus, i)] = why
    return left_out


def _cards(header: Any) -> dict[str, Any]:
    """Keywords that do not describe the storage, with values that JSON can represent."""
    from astropy.io.fits.card import Undefined

    cards: dict[str, Any] = {}
    for card in header.cards:
        key, value = card.keyword, card.value
        if STRUCTURE.fullmatch(key):
            continue
        if key in ("COMMENT", "HISTORY", ""):
            if str(value).strip():
                lines = [cards[key]] if key in cards else []
                cards[key] = "\n".join([*lines, str(value)])
        elif isinstance(value, Undefined):
            cards[key] = None
        else:
            cards[key] = value if isinstance(value, str | int | float | bool) else str(value)
    return cards


# Columns


def _columns(header: Mapping[str, Any], options: Options, left_out: dict[str, str]) -> list[Column]:
    """The selected columns; ``left_out`` gets the unreadable ones."""
    make = text_column if header["XTENSION"].strip() == "TABLE" else column
    wanted = None if options.columns is None else set(options.columns)
    names: set[str] = set()
    columns = []
    for place in range(1, int(header["TFIELDS"]) + 1):
        said = str(header.get(f"TTYPE{place}", "")).strip() or f"col{place}"
        try:
            made = make(header, place, said)
        except Unreadable as why:
            if wanted is None or said in wanted:
                left_out[f"column {said}"] = str(why)
            continue
        number = 2
        while names & set(made.names()):
            made.name, number = f"{said}_{number}", number + 1
        names |= set(made.names())
        if wanted is None or wanted & set(made.names()):
            columns.append(made)
    return columns


def _fields(one: Column) -> list[pa.Field]:
    import numpy as np
    import pyarrow as pa

    nothing = one.arrays(np.empty(0, one.stored))
    return [unit(pa.field(name, array.type), one.unit) for name, array in nothing.items()]


def _check_nulls(path: Path, begin: int, header: Mapping[str, Any], columns: list[Column]) -> None:
    """Finds the meaning of TNULL for unsigned integers.

    The standard means the stored number, but astropy writes the scaled number. A file with both is
    refused, because either may be a value.
    """
    unclear = [
        c
        for c in columns
        if c.null is not None and c.code in "IJK" and c.scale == 1.0 and c.zero > 0
    ]
    if not unclear:
        return
    stored = dict.fromkeys((c.name for c in unclear), False)
    shown = dict(stored)
    for _, raws in fits_storage.parts(path, begin, header, unclear):
        for one, raw in zip(unclear, raws, strict=True):
            assert isinstance(one.null, int)
            stored[one.name] |= bool((raw == one.null).any())
            shown[one.name] |= bool((raw == one.null - int(one.zero)).any())
    for one in unclear:
        if stored[one.name] and shown[one.name]:
            raise InvalidInput(
                f"{path}: column {one.name}: TNULL{one.place} = {one.null} may be the stored number "
                f"or the number {one.null}, and the column has both: leave it out (columns)"
            )
        one.shown_null = shown[one.name]
