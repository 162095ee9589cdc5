"""LAS, LAZ and COPC: points of laser scanners, through laspy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import ROWS_AT_ONCE, Options, Source, State, Step, arrow_table, unit

if TYPE_CHECKING:
    import pyarrow as pa

# Bits that say yes or no; laspy gives them as numbers.
FLAGS = frozenset(
    "scan_direction_flag edge_of_flight_line synthetic key_point withheld overlap".split()
)


def look(path: Path, options: Options) -> Source:
    import laspy
    import pyarrow as pa

    with laspy.open(path) as reader:
        header = reader.header
        empty = laspy.ScaleAwarePointRecord.zeros(0, header=header)
        schema = _columns(empty).schema
        scales, offsets = header.scales.tolist(), header.offsets.tolist()
        rows = header.point_count
        low, high = header.mins.tolist(), header.maxs.tolist()
        about = {
            "version": str(header.version),
            "point_format": header.point_format.id,
            "scales": scales,
            "offsets": offsets,
        }
        try:
            crs = header.parse_crs()
        except Exception:
            # pyproj is not installed, or the record says nothing that it understands.
            crs = None
        if crs is not None:
            about["crs"] = crs.to_wkt()
    units = {"gps_time": "s"}
    schema = pa.schema([unit(f, units.get(f.name)) for f in schema])

    def read(_: State) -> Iterator[pa.Table]:
        with laspy.open(path) as reader:
            found = 0
            for points in reader.chunk_iterator(ROWS_AT_ONCE):
                found += len(points)
                yield _columns(points)
            if found != rows:
                raise ValueError(f"{path}: its header says {rows} points, there are {found}")

    domains = {name: (low[i], high[i]) for i, name in enumerate("xyz") if low[i] < high[i]}
    return Source(
        path=path,
        format="las",
        schema=schema,
        steps=lambda _: [Step("points", read, part=path.name)],
        dimensions=("x", "y", "z"),
        domains=domains,
        metadata={"las": about},
        rows=rows,
    )


def _columns(points: Any) -> pa.Table:
    """x, y, z as numbers, everything else as it is stored; names in small letters."""
    import numpy as np

    columns = {name: np.asarray(getattr(points, name), np.float64) for name in "xyz"}
    for name in points.point_format.dimension_names:
        if name in ("X", "Y", "Z"):
            continue
        values = np.asarray(points[name])
        if name in FLAGS:
            values = values.astype(bool)
        if values.ndim > 1:
            for axis in range(values.shape[1]):
                columns[f"{name}_{axis}"] = values[:, axis]
        else:
            columns[name] = values
    return arrow_table(columns)
