"""Points of LAS as columns: x, y, z as numbers, angles in degrees, extra bytes with their nulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..source import arrow_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

# Boolean bits, which laspy returns as numbers.
FLAGS = frozenset(
    "scan_direction_flag edge_of_flight_line synthetic key_point withheld overlap".split()
)
ANGLE = "scan_angle"
ANGLES = {"scan_angle_rank": 1000, ANGLE: 6}
"""Thousandths of a degree per unit of a stored angle; point formats from 6 on are finer."""
UNITS = {"gps_time": "s", ANGLE: "deg"}


def marks(header: Any) -> dict[str, Array]:
    """The stored numbers that mean no data, by name of extra bytes."""
    structs = [s for vlr in header.vlrs for s in getattr(vlr, "extra_bytes_structs", ())]
    return {s.format_name(): s.no_data for s in structs if s.data_type and s.no_data is not None}


def columns(points: Any, no_data: Mapping[str, Array]) -> pa.Table:
    """The columns, stored values except for angles and extra bytes; names in lower case."""
    import numpy as np

    made: dict[str, Any] = {name: np.asarray(getattr(points, name), np.float64) for name in "xyz"}
    extra = {dimension.name: dimension for dimension in points.point_format.extra_dimensions}
    standard = [n for n in points.point_format.dimension_names if n not in extra]
    for name in standard:
        values = np.asarray(points[name]) if name not in ("X", "Y", "Z") else None
        if values is None:
            continue
        if name in ANGLES:
            made[ANGLE] = (values * (ANGLES[name] / 1000)).astype(np.float32)
        else:
            made[name] = values.astype(bool) if name in FLAGS else values
    for name, dimension in extra.items():
        own, number = name, 2
        while own in made:
            own, number = f"{name}_{number}", number + 1
        made |= _extra(own, np.asarray(points.array[name]), dimension, no_data.get(name))
    return arrow_table(made)


def extra_bytes(header: Any) -> dict[str, dict[str, Any]]:
    """The storage of extra bytes, from which `kubist._las` writes them again."""
    found: dict[str, dict[str, Any]] = {}
    no_data = marks(header)
    for dimension in header.point_format.extra_dimensions:
        scales, offsets = dimension.scales, dimension.offsets
        nothing = no_data.get(dimension.name)
        for place, name in enumerate(_names(dimension.name, dimension.num_elements)):
            said: dict[str, Any] = {"type": dimension.dtype.base.str[1:]}
            if scales is not None or offsets is not None:
                said["scale"] = 1.0 if scales is None else float(scales[place])
                said["offset"] = 0.0 if offsets is None else float(offsets[place])
            if nothing is not None:
                said["no_data"] = nothing[place].item()
            if dimension.description:
                said["description"] = dimension.description
            found[name] = said
    return found


def _names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{axis}" for axis in range(count)]


def _extra(name: str, stored: Array, dimension: Any, nothing: Array | None) -> dict[str, Any]:
    """The description of extra bytes. Numbers for no data apply before scale and offset."""
    import numpy as np
    import pyarrow as pa

    values = stored.reshape(len(stored), dimension.num_elements)
    scales, offsets = dimension.scales, dimension.offsets
    made = {}
    for place, column in enumerate(_names(name, dimension.num_elements)):
        raw = np.ascontiguousarray(values[:, place])
        mask = None
        if nothing is not None:
            mark = nothing[place]
            mask = np.isnan(raw) if mark != mark else raw == mark
        if scales is not None or offsets is not None:
            raw = raw * (1.0 if scales is None else float(scales[place]))
            raw = raw + (0.0 if offsets is None else float(offsets[place]))
        native = raw.astype(raw.dtype.newbyteorder("="), copy=False)
        made[column] = pa.array(native, mask=mask)
    return made
