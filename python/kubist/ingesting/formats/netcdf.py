"""Strings and valid ranges of netCDF, which the engine's reader lacks.

The engine reads numbers, with `_FillValue` and `missing_value` as missing values. The CF
conventions also define `valid_range`, `valid_min` and `valid_max`, as stored numbers. In a netCDF
variable without `_FillValue`, unwritten data has the library's default fill value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...indexing import library
from ..source import as_json
from . import netcdf_classic
from .hdf5 import MAGIC, attributes, check_sources, text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Texts:
    """A string variable, and the lengths of its axes.

    Attributes:
        read: Returns the strings, or letters along one more axis.
        letters: The name and length of the axis of letters.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    read: Callable[[], Array]
    letters: tuple[str, int] | None = None

    def on(self, axes: Sequence[str], lengths: Sequence[int]) -> Texts:
        """The strings on a grid. Letters along a grid axis are values, such as Argo flags."""
        if self.letters is None or self.letters not in zip(axes, lengths, strict=True):
            return self
        name, length = self.letters
        return Texts((*self.axes, name), (*self.shape, length), self.read)

    def values(self) -> Array:
        """Returns a string for each grid point; None: missing."""
        import numpy as np

        raw = self.read()
        if len(raw.shape) > len(self.shape):
            raw = np.ascontiguousarray(raw).view(f"S{raw.shape[-1]}")
        return np.array([_decoded(value) for value in raw.ravel()], object).reshape(self.shape)


@dataclass(frozen=True)
class Valid:
    """The smallest and largest valid value and the default fill value, after scaling.

    For integers, they are integers, because floats cannot represent all 64-bit integers.
    """

    low: float | int | None
    high: float | int | None
    unwritten: float | int | None

    def mask(self, values: Array) -> Array:
        import numpy as np

        wrong = np.zeros(len(values), bool)
        if self.low is not None:
            wrong |= values < self.low
        if self.high is not None:
            wrong |= values > self.high
        if self.unwritten is not None:
            wrong |= values == values.dtype.type(self.unwritten)
        return wrong


UNWRITTEN = {"i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295,
             "i8": -9223372036854775806, "u8": 18446744073709551614,
             "f4": 9.969209968386869e36, "f8": 9.969209968386869e36}  # fmt: skip
"""The library's fill value for data that was not written, by type; bytes have none."""


@dataclass(frozen=True)
class Beside:
    """Strings, valid ranges, unlimited axes and attributes of the variables of a file, by name.

    Attributes:
        scales: The dimension scales of axes, because groups may have axes with the same name.
        links: Names that refer to other files or to nothing, and why they are not read.
        attributes: The attributes that do not define the storage; for the file, under an empty
            name.
    """

    texts: Mapping[str, Texts]
    valid: Mapping[str, Valid]
    grows: Mapping[str, tuple[bool, ...]]
    attributes: Mapping[str, Mapping[str, Any]]
    scales: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


USED = frozenset((
    "units", "calendar", "_FillValue", "missing_value", "valid_range", "valid_min", "valid_max",
    "scale_factor", "add_offset", "_Unsigned", "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST",
    "_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "DIMENSION_LABELS",
))  # fmt: skip
"""Attributes that repeat values or the schema, or describe the storage in HDF5."""


def _said(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_json(value) for name, value in attributes.items() if name not in USED}


def look(path: Path) -> Beside:
    """Reads a file; the result is empty unless it is HDF5 or classic netCDF."""
    with path.open("rb") as opened:
        head = opened.read(len(MAGIC))
    if head.startswith(netcdf_classic.MAGIC):
        return _of_classic(path)
    return _of_hdf5(path) if head == MAGIC else Beside({}, {}, {}, {})


def _of_classic(path: Path) -> Beside:
    texts: dict[str, Texts] = {}
    valid: dict[str, Valid] = {}
    of_file, variables = netcdf_classic.header(path)
    said = {"": _said(of_file)} | {v.name: _said(v.attributes) for v in variables}
    for variable in variables:
        if variable.kind != netcdf_classic.CHARACTER:
            kind = netcdf_classic.TYPES[variable.kind].lstrip(">")
            if (found := _valid(variable.attributes, kind, is_netcdf=True)) is not None:
                valid[variable.name] = found
        elif variable.shape:
            axes, shape, letters = variable.axes, variable.shape, None
            if len(shape) > 1 and shape[-1]:
                letters = (axes[-1], shape[-1])
                axes, shape = axes[:-1], shape[:-1]
            read = functools.partial(variable.letters, path)
            texts[variable.name] = Texts(axes, shape, read, letters)
    return Beside(texts, valid, {}, said)


def _of_hdf5(path: Path) -> Beside:
    import h5py

    texts: dict[str, Texts] = {}
    valid: dict[str, Valid] = {}
    grows: dict[str, tuple[bool, ...]] = {}
    scales: dict[str, tuple[str, ...]] = {}
    said: dict[str, Mapping[str, Any]] = {}

    def visit(name: str, item: Any) -> None:
        said[name] = attributes(item)
        if not isinstance(item, h5py.Dataset):
            return
        if item.dtype.kind in "iuf":
            of_axes = _scales(item)
            limits = item.maxshape or ()
            grows[name] = tuple(
                bool(s) and most is None for s, most in zip(of_axes, limits, strict=True)
            )
            if of_axes and all(of_axes):
                scales[name] = of_axes
            kind = f"{item.dtype.kind}{item.dtype.itemsize}"
            if (found := _valid(item.attrs, kind, is_netcdf)) is not None:
                valid[name] = found
        elif item.ndim and (found_texts := _texts(path, item)) is not None:
            texts[name] = found_texts

    with h5py.File(path, "r") as file:
        check_sources(path, file)
        is_netcdf = "_NCProperties" in file.attrs
        said[""] = attributes(file)
        file.visititems(visit)
        links = _links(file)
    own = {name: _said(attributes) for name, attributes in said.items()}
    return Beside(texts, valid, grows, own, scales, links)


def _links(file: Any) -> dict[str, str]:
    import h5py

    found: dict[str, str] = {}

    def visit(name: str, link: Any) -> None:
        if isinstance(link, h5py.ExternalLink):
            found[name] = f"it is a link to {link.path} in {link.filename}"
        elif isinstance(link, h5py.SoftLink) and file.get(name) is None:
            found[name] = f"it is a link to {link.path}, which is not there"

    file.visititems_links(visit)
    return found


def _scales(data: Any) -> tuple[str, ...]:
    """The paths of the axes' scales; empty for an axis without a scale."""
    if text(data.attrs.get("CLASS", "")) == "DIMENSION_SCALE" and data.ndim == 1:
        return (data.name,)
    return tuple(
        data.dims[axis][0].name if len(data.dims[axis]) else "" for axis in range(data.ndim)
    )


def _valid(attributes: Mapping[str, Any], kind: str, is_netcdf: bool) -> Valid | None:
    """The valid values of a variable of numbers.

    Args:
        kind: The stored type, such as ``i2``.
    """
    import numpy as np

    unwritten = UNWRITTEN.get(kind) if is_netcdf and "_FillValue" not in attributes else None
    # Stored signed numbers may represent unsigned numbers, also in the limits.
    is_unsigned = kind[0] == "i" and text(attributes.get("_Unsigned", "")).lower() == "true"
    # A limit that is text is ignored.
    attributes = {n: v for n, v in attributes.items() if np.asarray(v).dtype.kind in "iuf"}
    said = attributes.get("valid_range")
    low, high = attributes.get("valid_min"), attributes.get("valid_max")
    if said is not None and np.size(said) == 2:
        low, high = np.ravel(said)
    ends = [None if end is None else _one(end) for end in (low, high)] + [unwritten]
    if kind[0] in "iu":
        # As in the library of netCDF, a limit that the stored type cannot represent is ignored.
        ends = [None if end is None or end != int(end) else int(end) for end in ends]
    if ends == [None, None, None]:
        return None
    if is_unsigned:
        bits = 8 * int(kind[1:])
        ends = [end + (1 << bits) if end is not None and end < 0 else end for end in ends]
    scale, offset = (
        _one(attributes.get("scale_factor", 1.0)),
        _one(attributes.get("add_offset", 0.0)),
    )
    if (scale, offset) != (1.0, 0.0):
        ends = [None if end is None else end * scale + offset for end in ends]
        if scale < 0:
            ends[:2] = ends[1::-1]
    return Valid(*ends)


def _one(value: Any) -> float | int:
    import numpy as np

    number: float | int = np.ravel(value)[0].item()
    return number


def _texts(path: Path, data: Any) -> Texts | None:
    """Strings of variable length, and characters along a last axis."""
    import h5py

    if h5py.check_string_dtype(data.dtype) is None:
        return None
    axes, shape, letters = tuple(library.axes(data.file, data)), data.shape, None
    if _is_of_letters(data):
        letters = (axes[-1], shape[-1])
        axes, shape = axes[:-1], shape[:-1]
    return Texts(axes, shape, functools.partial(_of_dataset, path, data.name), letters)


def _of_dataset(path: Path, name: str) -> Array:
    import h5py

    with h5py.File(path, "r") as file:
        values: Array = file[name][()]
    return values


def _is_of_letters(data: Any) -> bool:
    is_letter = data.dtype.kind == "S" and data.dtype.itemsize == 1
    return bool(is_letter and data.ndim > 1 and data.shape[-1])


def _decoded(value: Any) -> str | None:
    said = text(value).rstrip("\0 ")
    return said or None


def of_rows(axes: Sequence[str], values: Array, places: Mapping[str, Array]) -> Array:
    """Returns the strings by row.

    Args:
        places: The row indices along each axis.
    """
    found: Array = values[tuple(places[axis] for axis in axes)]
    return found


def are_beside(texts: Texts, axes: Sequence[str], lengths: Sequence[int]) -> bool:
    """Returns whether the strings cover the grid, or some of its axes."""
    of_axes = dict(zip(axes, lengths, strict=True))
    return all(
        length == of_axes.get(axis) for axis, length in zip(texts.axes, texts.shape, strict=True)
    )
