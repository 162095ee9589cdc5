"""Rasters: an aggregate of the rows in each cell of a regular grid with two axes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _box
from .._errors import InvalidInput
from .._libraries import need
from .._pinned import Pinned
from ._read import Reader, axes, complete, stripwise
from ._values import aggregate

if TYPE_CHECKING:
    import xarray

    from .._spec import QuerySpec

Array = np.ndarray[Any, Any]


class Raster:
    """A value for each cell of a grid, from `Table.raster`.

    >>> r = t.raster("x", "y", cell=1.0, value="max(z)")
    >>> r.values.shape                      # (cells along y, cells along x)
    >>> r.values[row, column]               # y_edges[row] to y_edges[row + 1], and so along x
    """

    def __init__(
        self, arrays: Mapping[str, Array], edges: tuple[Array, Array], about: Mapping[str, Any]
    ) -> None:
        self.values: Array = arrays["values"]
        """The values. Cells without rows are NaN, or 0 for counts and sums."""
        self.low: Array = arrays["low"]
        """The lower bounds of the intervals; equal to the values if all rows were read."""
        self.high: Array = arrays["high"]
        """The upper bounds of the intervals."""
        self.rows: Array = arrays["rows"]
        """The number of rows in each cell that were read and have a value."""
        self.x_edges, self.y_edges = edges
        self.x: str = about["x"]
        """The column or expression of the first axis."""
        self.y: str = about["y"]
        """The column or expression of the second axis."""
        self.value: str = about["value"]
        """The aggregate."""
        self.units: dict[str, str] = about["units"]
        """The units of ``x``, ``y`` and ``value``, if they have one."""
        self.crs: str | None = about["crs"]
        """The coordinate reference system, from the table's metadata."""
        self.fraction: float = about["fraction"]
        """The fraction of rows that were read."""
        self.confidence: float = about["confidence"]
        """The fraction of intervals that contain the value for all rows."""

    @property
    def exact(self) -> bool:
        """Whether all rows were read."""
        return self.fraction >= 1

    @property
    def error(self) -> Array:
        """Half of the intervals' width: 0 if all rows were read, infinite without bounds."""
        with np.errstate(invalid="ignore"):
            half: Array = (self.high - self.low) / 2
        return half

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype)

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        of = "all rows" if self.exact else f"a sample of {100 * self.fraction:.3g} %"
        return (
            f"<kubist.Raster {self.value} over {self.x}, {self.y}: {columns:,} x {rows:,} cells, "
            f"{np.count_nonzero(self.rows):,} with rows, from {of}>"
        )

    def to_xarray(self) -> xarray.Dataset:
        """Returns an `xarray.Dataset` of ``value``, ``low``, ``high`` and ``rows`` over y and x.

        Coordinates are the centres of cells. Variables and coordinates have ``units``, and the
        dataset has ``crs`` and ``fraction``.
        """
        xarray_ = need("xarray", "to_xarray()")
        over = (self.y, self.x)
        unit = {key: {"units": text} for key, text in self.units.items()}
        arrays = {"value": self.values, "low": self.low, "high": self.high}
        about = {"aggregate": self.value, "fraction": self.fraction, "crs": self.crs}
        made: xarray.Dataset = xarray_.Dataset(
            {
                **{name: (over, array, unit.get("value", {})) for name, array in arrays.items()},
                "rows": (over, self.rows),
            },
            coords={
                self.y: (self.y, _centres(self.y_edges), unit.get("y", {})),
                self.x: (self.x, _centres(self.x_edges), unit.get("x", {})),
            },
            attrs={name: value for name, value in about.items() if value is not None},
        )
        return made

    def to_geotiff(self, path: str | os.PathLike[str], *, crs: Any = None) -> None:
        """Writes a GeoTIFF with rasterio: north is up, cells without a value are NaN.

        Bands are the values and, from a sample, the lower and upper bounds of the intervals.

        Parameters
        ----------
        path
            The file, which is replaced.
        crs
            The coordinate reference system, such as ``"EPSG:25832"``; None: as in the table.

        Raises
        ------
        ImportError
            rasterio is missing; the message has the command that installs it.
        InvalidInput
            rasterio does not know the reference system.
        """
        rasterio = need("rasterio", "to_geotiff()")
        from rasterio.transform import Affine

        bands = {"value": self.values}
        if not self.exact:
            bands |= {"low": self.low, "high": self.high}
        rows, columns = self.values.shape
        width = (self.x_edges[-1] - self.x_edges[0]) / columns
        height = (self.y_edges[-1] - self.y_edges[0]) / rows
        try:
            system = rasterio.CRS.from_user_input(crs or self.crs) if crs or self.crs else None
        except Exception as error:  # The classes of rasterio's errors depend on its version.
            text = str(crs or self.crs)
            raise InvalidInput(f"to_geotiff: crs: {text[:80]!r} is unknown: {error}") from None
        with rasterio.open(
            os.fspath(path),
            "w",
            driver="GTiff",
            width=columns,
            height=rows,
            count=len(bands),
            dtype="float64",
            crs=system,
            transform=Affine(width, 0, self.x_edges[0], 0, -height, self.y_edges[-1]),
            nodata=np.nan,
            compress="deflate",
            tiled=rows >= 256 and columns >= 256,
        ) as file:
            for band, (name, values) in enumerate(bands.items(), 1):
                file.write(values[::-1].astype(float), band)
                file.set_band_description(band, f"{self.value}: {name}" if band > 1 else self.value)
                if "value" in self.units:
                    file.set_band_unit(band, self.units["value"])
            file.update_tags(x=self.x, y=self.y, fraction=self.fraction)


def _centres(edges: Array) -> Array:
    centres: Array = (edges[:-1] + edges[1:]) / 2
    return centres


def raster(
    pinned: Pinned,
    question: QuerySpec,
    axes_of: tuple[Any, Any],
    cell: Any,
    value: Any,
    box: Any,
    confidence: Any,
) -> Raster:
    for what, one in zip(("x", "y"), axes_of, strict=True):
        if not isinstance(one, str) or not one.strip():
            raise InvalidInput(f"raster: {what}: expected a column or an expression, not {one!r}")
    x_name, y_name = axes_of
    of = aggregate(value)
    confidence = _box.finite("raster: confidence", confidence)
    if not 0 < confidence < 1:
        raise InvalidInput(f"raster: confidence must be between 0 and 1, not {confidence:g}")
    reader = Reader(pinned, question, x_name, y_name)
    # Reports errors of names and types before rows are read.
    shape = {"x": x_name, "y": y_name} | ({} if of.of is None else {"value": of.of})
    stream = reader.result(shape)._first
    units = dict(zip(stream.names(), stream.units(), strict=True))
    if not of.keeps_unit():
        units.pop("value", None)
    fraction = stream.fraction()
    stream.close()
    sampling = json.loads(pinned.about())["sampling"]
    if fraction < 1 and sampling != "uniform":
        raise InvalidInput(
            f"raster: the table samples {sampling}, and cells of a raster count each row alike: "
            f"leave out sample"
        )
    x, y = axes(reader, cell, box)
    if fraction >= 1 and of.kind != "quantile":
        values, rows = complete(reader, x, y, of)
        arrays = {"values": values, "low": values, "high": values, "rows": rows}
    else:
        found = stripwise(reader, x, y, of, fraction, confidence)
        arrays = dict(zip(("values", "low", "high", "rows"), found, strict=True))
    about = {
        "x": x_name,
        "y": y_name,
        "value": of.text,
        "units": {name: unit for name, unit in units.items() if unit is not None},
        "crs": _crs(json.loads(pinned.metadata())),
        "fraction": fraction,
        "confidence": confidence,
    }
    shape_of = (y.cells, x.cells)
    return Raster(
        {name: array.reshape(shape_of) for name, array in arrays.items()},
        (x.edges, y.edges),
        about,
    )


def _crs(metadata: Mapping[str, Any]) -> str | None:
    """The reference system in the metadata, at the top level or below a file format."""
    for values in (metadata, *metadata.values()):
        if isinstance(values, dict) and isinstance(values.get("crs"), str | int):
            system = values["crs"]
            return f"EPSG:{system}" if isinstance(system, int) else str(system)
    return None


for _public in (Raster,):
    _public.__module__ = "kubist"
del _public
