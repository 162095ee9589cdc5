"""What the engine's reader of netCDF-4 does not give: texts, ranges of valid values.

The engine reads numbers alone, and takes `_FillValue` and `missing_value` for missing. The
conventions (CF) have also `valid_range`, `valid_min` and `valid_max`, in stored numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...indexing import library
from .hdf5 import MAGIC, text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Texts:
    """A variable of texts, and the lengths of its axes."""

    path: Path
    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]

    def values(self) -> Array:
        """A text for each place; None is missing."""
        import h5py
        import numpy as np

        with h5py.File(self.path, "r") as file:
            data = file[self.name]
            raw = data[()]
            if _is_of_letters(data):
                raw = np.ascontiguousarray(raw).view(f"S{data.shape[-1]}")
        return np.array([_decoded(value) for value in raw.ravel()], object).reshape(self.shape)


@dataclass(frozen=True)
class Valid:
    """The least and the greatest valid value, as values are after scaling."""

    low: float
    high: float

    def mask(self, values: Array) -> Array:
        """Which of the values are not valid."""
        wrong: Array = (values < self.low) | (values > self.high)
        return wrong


@dataclass(frozen=True)
class Beside:
    """Of the variables of one file, by name: texts, ranges, and which axes have no fixed length."""

    texts: Mapping[str, Texts]
    valid: Mapping[str, Valid]
    grows: Mapping[str, tuple[bool, ...]]


def look(path: Path) -> Beside:
    """Nothing for files that are no HDF5."""
    with path.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            return Beside({}, {}, {})
    import h5py

    texts: dict[str, Texts] = {}
    valid: dict[str, Valid] = {}
    grows: dict[str, tuple[bool, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.dtype.kind in "iuf":
            scales = [len(item.dims[axis]) > 0 for axis in range(item.ndim)]
            limits = item.maxshape or ()
            grows[name] = tuple(s and most is None for s, most in zip(scales, limits, strict=True))
            if (found := _valid(item)) is not None:
                valid[name] = found
        elif item.ndim and (found_texts := _texts(path, item)) is not None:
            texts[name] = found_texts

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return Beside(texts, valid, grows)


def _valid(data: Any) -> Valid | None:
    import numpy as np

    said = data.attrs.get("valid_range")
    low, high = data.attrs.get("valid_min"), data.attrs.get("valid_max")
    if said is not None and np.size(said) == 2:
        low, high = np.ravel(said)
    if low is None and high is None:
        return None
    ends = [-np.inf if low is None else _one(low), np.inf if high is None else _one(high)]
    scale, offset = _one(data.attrs.get("scale_factor", 1.0)), _one(data.attrs.get("add_offset", 0.0))
    if (scale, offset) != (1.0, 0.0):
        ends = sorted(end * scale + offset for end in ends)
    return Valid(*ends)


def _one(value: Any) -> float:
    import numpy as np

    return float(np.ravel(value)[0])


def _texts(path: Path, data: Any) -> Texts | None:
    """Texts of variable length, and letters along a last axis."""
    import h5py

    if h5py.check_string_dtype(data.dtype) is None:
        return None
    axes, shape = tuple(library.axes(data.file, data)), data.shape
    if _is_of_letters(data):
        axes, shape = axes[:-1], shape[:-1]
    return Texts(path, data.name.lstrip("/"), axes, shape)


def _is_of_letters(data: Any) -> bool:
    is_letter = data.dtype.kind == "S" and data.dtype.itemsize == 1
    return bool(is_letter and data.ndim > 1 and data.shape[-1])


def _decoded(value: Any) -> str | None:
    said = text(value).rstrip("\0 ")
    return said or None


def of_rows(axes: Sequence[str], values: Array, places: Mapping[str, Array]) -> Array:
    """The text of each row.

    Args:
        places: The position along each axis of each row.
    """
    found: Array = values[tuple(places[axis] for axis in axes)]
    return found


def are_beside(texts: Texts, axes: Sequence[str], lengths: Sequence[int]) -> bool:
    """Whether there is a text for each place of a grid, or for each place along some of its axes."""
    of_axes = dict(zip(axes, lengths, strict=True))
    return all(
        length == of_axes.get(axis) for axis, length in zip(texts.axes, texts.shape, strict=True)
    )
