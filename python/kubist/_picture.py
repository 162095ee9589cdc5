"""Plots of points, as `kubist plot` draws them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _box, _kubist
from ._errors import InvalidInput

if TYPE_CHECKING:
    from ._arguments import Style
    from ._result import Result

_ASPECTS = {"auto": None, "equal": True, "fill": False}

POINTS = 200_000
"""Default maximum number of points in a plot."""


class Picture:
    """A plot of points, which a notebook shows and `save` writes."""

    def __init__(self, scene: _kubist.Scene) -> None:
        self._scene = scene
        self.caption = scene.caption
        """The number of points and their region."""

    @property
    def png(self) -> bytes:
        """The plot as a PNG."""
        return self._scene.file("picture.png")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a PNG, SVG or PDF, by the suffix of ``path``.

        In SVG and PDF, the points are an image, and axes, text and colour bar are vectors.

        Raises
        ------
        InvalidInput
            ``path`` has another suffix.
        """
        to = Path(path)
        to.write_bytes(self._scene.file(str(to)))
        return to

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"<kubist.Picture of {self.caption}: save it with .save('picture.png')>"


def draw(
    result: Result,
    rows: int | None,
    box: Mapping[str, Any] | None,
    where: str | None,
    *,
    x: str,
    y: str,
    color: Sequence[str],
    log: bool,
    range: tuple[float | None, float | None] | None,
    size: tuple[int, int] | None,
    title: str | None,
    style: Style,
    sphere: tuple[str, str] | None = None,
) -> Picture:
    stream = result._read()
    points = _kubist.Picture(stream.schema(), x, y, list(color))
    while (batch := stream.next_batch()) is not None:
        points.add(batch)
    aspect = style.get("aspect", "auto")
    if aspect not in _ASPECTS:
        raise InvalidInput(f"aspect: expected auto, equal or fill, not {aspect!r}")
    radius = style.get("point_size")
    drawing = {
        "ends": [_ends(box, x), _ends(box, y), (None, None) if range is None else list(range)],
        "log": bool(log),
        "log_axes": _axes(style, "log_axes"),
        "invert_axes": _axes(style, "invert_axes"),
        "colormap": style.get("colormap", "viridis"),
        "title": title,
        "region": _region(box, where),
        "rows": rows if not box and where is None else None,
        "fraction": stream.fraction(),
        "size": None if size is None else _size(size),
        "radius": None if radius is None else _box.finite("point_size", radius, low=0.1),
        "equal_aspect": _ASPECTS[aspect],
        "sphere": sphere,
        "theme": style.get("theme", "paper"),
    }
    return Picture(points.draw(stream.schema(), json.dumps(drawing)))


def _axes(style: Style, option: Literal["log_axes", "invert_axes"]) -> list[bool]:
    axes = style.get(option)
    if axes not in (None, "x", "y", "xy"):
        raise InvalidInput(f"{option}: expected 'x', 'y' or 'xy', not {axes!r}")
    return [axis in (axes or "") for axis in "xy"]


def _size(size: Any) -> list[int]:
    across, up = _box.pair("size", size, "pixels across, pixels up")
    return [_box.count("size", across), _box.count("size", up)]


def _ends(box: Mapping[str, Any] | None, column: str) -> list[float | str | None]:
    """The bounds of an axis: the bounds in the box if they are numbers or strings, else None."""
    # Names ignore letter case.
    ends = next(
        (ends for name, ends in (box or {}).items() if name.lower() == column.lower()), None
    )
    pair = ends if isinstance(ends, (tuple, list)) and len(ends) == 2 else (None, None)
    return [_end(end) for end in pair]


def _end(end: Any) -> float | str | None:
    if isinstance(end, (int, float)) and abs(end) != float("inf"):
        return float(end)
    return end if isinstance(end, str) else None


def _region(box: Mapping[str, Any] | None, where: str | None) -> str:
    parts = [f", {column} in {_shown(ends)}" for column, ends in (box or {}).items()]
    return "".join(parts) + (f", where {where}" if where else "")


def _shown(ends: Any) -> str:
    if not isinstance(ends, (tuple, list)):
        return str(ends)
    return ":".join("" if end is None else str(end) for end in ends)


Picture.__module__ = "kubist"
