"""Positions from a value index for xarray: ``ds.isel(ds.kubist.where("temperature > 310"))``.

>>> import xarray, kubist.xarray
>>> ds = xarray.open_dataset("ocean.nc")
>>> warm = ds.isel(ds.kubist.where("TEMP > 28"))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray

from ._errors import InvalidInput
from .indexing import FileIndex, index

DIMENSION = "record"
"""The axis of the selection."""


@xarray.register_dataset_accessor("kubist")  # type: ignore[no-untyped-call,unused-ignore]
class Accessor:
    """The index of a dataset's file."""

    def __init__(self, dataset: xarray.Dataset) -> None:
        self._dataset = dataset
        self._files: FileIndex | None = None

    def where(self, condition: str, **asked: Any) -> dict[str, xarray.DataArray]:
        """Returns the matching positions, as `xarray.Dataset.isel` accepts them.

        Parameters
        ----------
        condition
            As for `FileIndex.query`.
        asked
            ``isel``, ``box``, ``sample``, ``limit``: as for `FileIndex.query`.

        Raises
        ------
        InvalidInput
            The condition is invalid, or the coordinates show that the dataset is not one whole file
            in its order.
        """
        files = self._open()
        names = set(map(str, self._dataset.sizes))
        found = files.query(where=condition, **asked)
        indexed = [name for name in found.to_arrow().column_names if name.endswith("_index")]
        axes = [name.removesuffix("_index") for name in indexed]
        if not set(axes) <= names:
            raise InvalidInput(
                f"the axes of the file are {axes}, those of the dataset {sorted(names)}"
            )
        columns: Mapping[str, Any] = found.to_numpy()
        return {
            axis: xarray.DataArray(columns[name], dims=DIMENSION)
            for axis, name in zip(axes, indexed, strict=True)
        }

    def _open(self) -> FileIndex:
        if self._files is None:
            source = self._dataset.encoding.get("source")
            if source is None:
                raise InvalidInput("the dataset was not opened from one file")
            self._files = index(source)
        lengths = {
            axis: length
            for each in self._files.info()["variables"]
            for axis, length in zip(each["dimensions"], each["shape"], strict=True)
        }
        for axis, length in self._dataset.sizes.items():
            if lengths.get(str(axis), length) != length:
                raise InvalidInput(
                    f"the dataset is not all of its file: {axis} has {length} of "
                    f"{lengths[str(axis)]} positions; query it before you select"
                )
        self._check_order()
        return self._files

    def _check_order(self) -> None:
        """Raises if an axis was sorted, reversed or moved, because positions refer to the file."""
        mine = self._dataset
        source = mine.encoding["source"]
        moved: set[str] = set()
        # The dataset may have times as numbers or as dates.
        for decoded in (True, False):
            with xarray.open_dataset(source, decode_times=decoded) as whole:
                moved = {
                    str(axis)
                    for axis in mine.sizes
                    if axis in whole.coords
                    and not (axis in mine.coords and whole[axis].equals(mine[axis]))
                }
            if not moved:
                return
        raise InvalidInput(
            f"the dataset is not in the order of its file: {', '.join(sorted(moved))} has other "
            "coordinates there; query it before you change it"
        )
