"""Writes the rows of a table as points of a LAS, LAZ or COPC file.

A table from LAS files keeps their header in its metadata under ``las``: scales and offsets,
coordinate system, and records. The new file gets the same header, so positions are exact.

Fields that LAS defines, such as ``intensity``, must not be null. Every other column becomes extra
bytes, LAS's name for additional fields. Nulls in extra bytes are stored as a no-data value: the
value of the source, or a number that no row has. A value that a field cannot store is refused.
Positions of a table without a source are rounded to a power of ten, at most 1e-8 of their extent
(`scaling`).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _copc
from ._errors import InvalidInput
from ._fits import unused
from ._libraries import need

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

AXES = ("x", "y", "z")
LONGEST_NAME = 32
"""The maximum length of the name of an additional field, in bytes."""
# The fields that LAS defines, with the types of their columns in a table.
OF_LAS = {
    "intensity": "u2", "return_number": "u1", "number_of_returns": "u1", "classification": "u1",
    "scan_direction_flag": "u1", "edge_of_flight_line": "u1", "synthetic": "u1", "key_point": "u1",
    "withheld": "u1", "overlap": "u1", "scanner_channel": "u1", "user_data": "u1",
    "scan_angle": "i2", "point_source_id": "u2", "gps_time": "f8",
    "red": "u2", "green": "u2", "blue": "u2", "nir": "u2",
}  # fmt: skip
WKT = (2111, 2112)
"""The ids of records that describe the coordinate system as WKT (well-known text)."""
FINE, COARSE = 0.006, 1.0
"""The unit of a stored scan angle in degrees: in point format 6 and later, and in formats 0-5."""
FEW = {"return_number": 7, "number_of_returns": 7, "classification": 31}
"""The largest values in point formats 0-5. Later formats store up to 15, 15 and 255."""
FORMATS = (1, 3, 6, 7, 8)
"""Point formats to choose from if the source's format lacks a column."""
WAVES = frozenset(
    "wavepacket_index wavepacket_offset wavepacket_size return_point_wave_location "
    "x_t y_t z_t".split()
)
"""The fields of a waveform, which only the formats 4, 5, 9 and 10 have."""


def write(
    table: pa.Table, path: Path, metadata: Mapping[str, Any], *, is_copc: bool = False
) -> None:
    """Writes all rows of ``table`` to a new file.

    Args:
        metadata: The entry ``las`` is the header of the source.
        is_copc: Write COPC; otherwise LAS, or LAZ for a path in ``.laz``.

    Raises:
        InvalidInput: LAS cannot store a column or a value.
    """
    laspy = need("laspy", "a LAS file")
    import numpy as np

    about = metadata.get("las") or {}
    columns = {name: table.column(name) for name in table.column_names}
    for name in table.column_names:
        if name in OF_LAS or name in AXES:
            _without_nulls(name, columns[name])
    kind = _point_format(columns, about, 6 if is_copc else 0)
    header = laspy.LasHeader(point_format=kind, version=_version(kind, about))
    positions = [columns[axis].to_numpy().astype(np.float64) for axis in AXES]
    for axis, values in zip(AXES, positions, strict=True):
        if not np.isfinite(values).all():
            raise InvalidInput(
                f"column {axis}: LAS has no place for {values[~np.isfinite(values)][0]}"
            )
    header.scales, header.offsets = lattice(positions, about) if about else scaling(positions)
    _describe(laspy, header, about, only_wkt=is_copc)
    known = {*header.point_format.dimension_names, "scan_angle"}
    extra = {}
    for name, column in columns.items():
        if name in known or name in AXES:
            continue
        stored, parameters = _extra(laspy, name, column, (about.get("extra") or {}).get(name))
        header.add_extra_dim(parameters)
        extra[name] = stored
    out = laspy.LasData(header)
    out.x, out.y, out.z = positions
    for name, column in columns.items():
        if name in AXES:
            continue
        if name in extra:
            out.points.array[name] = extra[name]
        elif name == "scan_angle":
            field = name if kind >= 6 else "scan_angle_rank"
            out[field] = _angles(column.to_numpy(), FINE if kind >= 6 else COARSE)
        else:
            out[name] = _field(name, column.to_numpy(zero_copy_only=False), kind)
    if is_copc:
        _copc.write(out, path)
    else:
        out.write(str(path))


def _without_nulls(name: str, column: pa.ChunkedArray) -> None:
    if column.null_count:
        raise InvalidInput(
            f"column {name}: LAS has no place for null: leave out the column, or its nulls "
            f"(where='{name} IS NOT NULL')"
        )


def _point_format(
    columns: Mapping[str, pa.ChunkedArray], about: Mapping[str, Any], least: int
) -> int:
    """Returns the number of the point format, which is at least ``least``.

    It is the source's format, or else the first in `FORMATS`, that can store all columns and
    values.
    """
    import numpy as np
    import pyarrow.compute as pc
    from laspy.point.format import PointFormat

    names = set(columns) & {*OF_LAS, *WAVES}
    fine = False
    if "scan_angle" in columns:
        angles = columns["scan_angle"].to_numpy()
        fine = bool((np.rint(angles) != angles).any() or (np.abs(angles) > 90).any())
    for name, most in FEW.items():
        if name in columns and len(columns[name]):
            fine |= pc.max(columns[name]).as_py() > most
    kind = about.get("point_format")
    own = [] if kind is None else [int(kind)]
    for candidate in [*own, *(FORMATS if own and own[0] < 6 else FORMATS[2:])]:
        fields = {*PointFormat(candidate).dimension_names, "scan_angle"}
        if names <= fields and candidate >= (6 if fine else least):
            return int(candidate)
    return 10 if names & WAVES else 8 if "nir" in names else 7


def _version(kind: int, about: Mapping[str, Any]) -> str:
    """Returns the version of LAS: the source's for formats 0-5, otherwise 1.4."""
    said = str(about.get("version", "1.4"))
    return said if kind < 6 and int(about.get("point_format", kind)) < 6 else "1.4"


def _describe(laspy: Any, header: Any, about: Mapping[str, Any], only_wkt: bool) -> None:
    """Copies the source's identifiers, coordinate system and other records into the header.

    Args:
        only_wkt: Write the coordinate system only as WKT, as COPC requires, not in the form of the
            source.
    """
    header.file_source_id = about.get("file_source_id", 0)
    if "system_identifier" in about:
        header.system_identifier = about["system_identifier"]
    if "project_id" in about:
        header.uuid = uuid.UUID(about["project_id"])
    header.global_encoding.synthetic_return_numbers = bool(about.get("synthetic_return_numbers"))
    if about.get("gps_time_type") == "standard":
        header.global_encoding.gps_time_type = laspy.header.GpsTimeType.STANDARD
    systems = about.get("crs_records", [])
    if only_wkt:
        header.global_encoding.wkt = True
        if "crs" in about and not any(record["record_id"] in WKT for record in systems):
            pyproj = need("pyproj", "the coordinate system of COPC")
            text = pyproj.CRS(about["crs"]).to_wkt("WKT1_GDAL").encode() + b"\0"
            systems = [{"record_id": WKT[-1], "bytes": base64.b64encode(text).decode()}]
        systems = [record for record in systems if record["record_id"] in WKT]
    for record in systems:
        data = base64.b64decode(record["bytes"])
        header.vlrs.append(laspy.VLR("LASF_Projection", record["record_id"], record_data=data))
        header.global_encoding.wkt |= record["record_id"] in WKT
    for record in about.get("records", []):
        header.vlrs.append(
            laspy.VLR(
                record["user_id"],
                record["record_id"],
                record.get("description", ""),
                base64.b64decode(record["bytes"]),
            )
        )


def _field(name: str, values: Array, kind: int) -> Array:
    """Returns the values in the type of a field; refuses values that would change."""
    import numpy as np

    wanted = OF_LAS.get(name)
    if wanted is None or values.dtype == np.dtype(wanted):
        return values
    narrow: Array = values.astype(wanted)
    if (wrong := values[narrow != values]).size:
        raise InvalidInput(f"column {name}: LAS has no place for {wrong[0]} there")
    return narrow


def _angles(degrees: Array, step: float) -> Array:
    """Returns angles as multiples of ``step``; refuses other angles and too large ones."""
    import numpy as np

    counts = np.rint(degrees.astype(np.float64) / step)
    off = np.abs(counts * step - degrees) > step * 1e-2
    # Angles are from -180 to 180 degrees in format 6 and later, and from -90 to 90 in formats 0-5.
    off |= np.abs(counts) > (30_000 if step == FINE else 90)
    if off.any():
        row = int(np.argmax(off))
        raise InvalidInput(
            f"column scan_angle, row {row}: LAS has no place for {degrees[row]} degrees: its "
            f"angles are multiples of {step}"
        )
    stored: Array = counts.astype("i2" if step == FINE else "i1")
    return stored


def _extra(
    laspy: Any, name: str, column: pa.ChunkedArray, said: Mapping[str, Any] | None
) -> tuple[Array, Any]:
    """Returns the stored values of a column, and the description of its extra bytes.

    ``said``, the storage of extra bytes in the source (type, scale, offset, no-data value), is used
    if it can store all values exactly; otherwise the column's own type is used.
    """
    import numpy as np
    import pyarrow as pa

    if len(name.encode()) > LONGEST_NAME:
        raise InvalidInput(f"column {name}: LAS has no place for a name of so many letters")
    mask = np.asarray(column.is_null())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or kind == pa.float16():
        raise InvalidInput(f"column {name}: LAS has no place for {kind}")
    values = (column.fill_null(0) if column.null_count else column).to_numpy()
    said = dict(said or {})
    scale, offset = said.get("scale"), said.get("offset", 0.0)
    stored = values
    if scale is not None:
        stored = np.rint((values - offset) / scale)
        back = stored * scale + offset
        if not np.allclose(back[~mask], values[~mask], rtol=1e-12, atol=abs(scale) * 1e-6):
            # The values were changed and are no multiples of the scale: write them as they are.
            said, scale, stored = {}, None, values
    wanted = np.dtype(said.get("type", values.dtype.str[1:]))
    with np.errstate(invalid="ignore"):
        narrow = stored.astype(wanted)
    equal = (narrow == stored) | (np.isnan(narrow) & np.isnan(stored))
    if not equal[~mask].all():
        said, scale, narrow = {}, None, values
    no_data = said.get("no_data")
    if mask.any() and (no_data is None or (narrow[~mask] == no_data).any()):
        no_data = _mark(name, narrow[~mask])
    if no_data is not None:
        narrow = np.where(mask, np.array(no_data, narrow.dtype), narrow)
    parameters = laspy.ExtraBytesParams(
        name,
        narrow.dtype,
        said.get("description", ""),
        offsets=None if scale is None else [offset],
        scales=None if scale is None else [scale],
        no_data=None if no_data is None else [no_data],
    )
    return narrow, parameters


def _mark(name: str, values: Array) -> Any:
    """Returns a number that is not among the values, to stand for null.

    Raises:
        InvalidInput: All numbers of the type are in use.
    """
    import numpy as np

    if values.dtype.kind == "f":
        limits = np.finfo(values.dtype)
        candidates: Sequence[float] = (-9999.0, float(limits.min), float(limits.max))
        mark: Any = next((m for m in candidates if not (values == m).any()), None)
    else:
        info = np.iinfo(values.dtype)
        mark = unused(values, int(info.min), int(info.max))
    if mark is None:
        raise InvalidInput(
            f"column {name}: LAS has no place for null beside all numbers of {values.dtype}"
        )
    return mark


# Positions


def lattice(positions: list[Any], about: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Returns the source's scales and offsets.

    LAS stores a coordinate as a 32-bit number of steps of ``scale`` from ``offset``. If that number
    is too large, the offset moves by a multiple of the scale, so positions stay exact.

    Raises:
        InvalidInput: A position is no multiple of the scale from the offset, or the positions span
            more than 32 bits.
    """
    import numpy as np

    offsets = []
    for axis, values, scale, offset in zip(
        AXES, positions, about["scales"], about["offsets"], strict=True
    ):
        steps = np.rint((values - offset) / scale)
        low, high = (steps.min(), steps.max()) if len(steps) else (0.0, 0.0)
        if low < -(2**31) or high >= 2**31:
            middle = np.rint((low + high) / 2)
            if high - middle >= 2**31:
                raise InvalidInput(
                    f"column {axis}: {values.min()} to {values.max()} in steps of {scale}, as the "
                    "source has them, do not fit into 32 bits: metadata={} takes other steps"
                )
            offset, steps = float(offset + middle * scale), steps - middle
        # Allows for the rounding of doubles, whose last digit is coarser for large coordinates.
        slack = 1e-6 * scale + 4 * np.spacing(np.abs(values) + abs(offset))
        off = np.abs(steps * scale + offset - values) > slack
        if off.any():
            row = int(np.argmax(off))
            raise InvalidInput(
                f"column {axis}, row {row}: {values[row]} is no multiple of {scale} from {offset}, "
                "as the positions of the source are: metadata={} takes other steps"
            )
        offsets.append(offset)
    return list(about["scales"]), offsets


def scaling(positions: list[Any]) -> tuple[list[float], list[float]]:
    """Returns scales and offsets for positions without a source.

    Each scale is the smallest power of ten with which all positions fit into 30 bits. Each offset
    is a round number below the smallest position.
    """
    import numpy as np

    scales, offsets = [], []
    for values in positions:
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        extent = max(high - low, 1e-9)
        step = 10.0 ** min(np.floor(np.log10(extent)), 0)
        offset = float(np.floor(low / step) * step)
        scales.append(10.0 ** np.ceil(np.log10(max(high - offset, extent) / 2**30)))
        offsets.append(offset)
    return scales, offsets
