"""Positions of LAS in another coordinate system, through pyproj."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._libraries import need

if TYPE_CHECKING:
    import pyarrow as pa

METRES, DEGREES = 1e-3, 1e-8
"""Steps of positions that are converted from degrees, and to degrees (1e-8 is about 1 mm)."""
WKT_RECORD = 2112


@dataclass(frozen=True)
class Reprojection:
    """The transformation of a file's positions into another system.

    Attributes:
        scales, offsets: The steps of the new x and y, as LAS stores them.
        low, high: Bounds of the new positions.
        notes: Notes for the user.
    """

    path: Path
    transformer: Any
    name: str
    scales: Sequence[float]
    offsets: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    notes: Sequence[str]

    def table(self, points: pa.Table, first: int) -> pa.Table:
        """Points from row ``first`` on, with x and y in the other system.

        Raises:
            InvalidInput: The system has no such position.
        """
        import numpy as np
        import pyarrow as pa

        given = [points.column(axis).to_numpy() for axis in "xy"]
        moved = self.transformer.transform(*given)
        for axis, values, scale, offset in zip("xy", moved, self.scales, self.offsets, strict=False):
            if not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values)))
                x, y = given[0][row], given[1][row]
                raise InvalidInput(
                    f"{self.path}: row {first + row}: ({x}, {y}) has no place in {self.name}"
                )
            stored = np.rint((values - offset) / scale) * scale + offset
            at = points.column_names.index(axis)
            points = points.set_column(at, axis, pa.array(stored, pa.float64()))
        return points


def into(
    path: Path,
    about: dict[str, Any],
    wanted: str | int,
    low: Sequence[float],
    high: Sequence[float],
) -> Reprojection | None:
    """The transformation of a file into a system, or None if the file already uses it.

    Heights do not change, so another height system is refused. The file's header changes.

    Args:
        about: The file's header, which gets the new system.
        low, high: Bounds of its positions.

    Raises:
        InvalidInput: A system is unknown, or the file states none.
    """
    pyproj = need("pyproj", "the read option crs")
    try:
        target = pyproj.CRS.from_user_input(wanted)
    except pyproj.exceptions.CRSError as error:
        raise InvalidInput(f"crs: {wanted!r} is no coordinate system: {error}") from None
    if "crs" not in about:
        raise InvalidInput(
            f"{path}: it does not say its coordinate system: it cannot be transformed into "
            f"{target.name} (read option crs)"
        )
    source = pyproj.CRS(about["crs"])
    if source == target:
        return None
    (own, height), (plane, other) = _parts(source), _parts(target)
    if other is not None and other != height:
        said = "not said" if height is None else height.name
        raise InvalidInput(
            f"{path}: heights are not transformed: its height system is {said}, that of "
            f"{target.name} is {other.name}"
        )
    transformer = pyproj.Transformer.from_crs(own, plane, always_xy=True)
    bounds = transformer.transform_bounds(low[0], low[1], high[0], high[1])
    if not all(math.isfinite(bound) for bound in bounds):
        raise InvalidInput(f"{path}: its positions have no place in {target.name}")
    scales = about["scales"]
    if plane.is_geographic:
        steps, round_to = [DEGREES, DEGREES], 1
    else:
        steps, round_to = [METRES, METRES] if own.is_geographic else scales[:2], 1000
    offsets = [float(bound // round_to * round_to) for bound in bounds[:2]]
    wkt = target.to_wkt("WKT1_GDAL")
    about |= {
        "scales": [*steps, scales[2]],
        "offsets": [*offsets, about["offsets"][2]],
        "crs": target.to_wkt(),
        "crs_records": [
            {"record_id": WKT_RECORD, "bytes": base64.b64encode(wkt.encode() + b"\0").decode()}
        ],
        # Earlier versions have no WKT record.
        "version": max(about["version"], "1.4"),
    }
    notes = [f"positions are transformed into {target.name}"]
    if height is not None and other is None:
        notes.append(f"heights stay in {height.name}")
    return Reprojection(
        path,
        transformer,
        target.name,
        steps,
        offsets,
        [bounds[0], bounds[1], low[2]],
        [bounds[2], bounds[3], high[2]],
        notes,
    )


def _parts(system: Any) -> tuple[Any, Any]:
    """The system of x and y, and the system of heights or None."""
    if not system.is_compound:
        return system, None
    plane, height = system.sub_crs_list
    return plane, height
