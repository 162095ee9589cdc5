"""LAS, LAZ and COPC: points of laser scanners, through laspy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
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

    _check_counts(path)
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


def _check_counts(path: Path) -> None:
    """Raises InvalidInput: the header has more records than fit into the file. Its library would
    look for each of them."""
    size = path.stat().st_size
    with path.open("rb") as opened:
        head = opened.read(247)
    # Where the count stands, and the least bytes of such a record; extended ones from LAS 1.4 on.
    for name, at, least in (("variable", 100, 54), ("extended variable", 243, 60)):
        field = head[at : at + 4]
        if at > 100 and head[24:26] < b"\x01\x04":
            continue
        count = int.from_bytes(field, "little")
        if count * least > size:
            raise InvalidInput(
                f"{path}: byte {at}: the header says {count:,} {name} length records, which do not "
                f"fit into {size:,} bytes"
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
