"""Queries of a table about objects with a bounding box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ._directory import InDirectory, Opened
from ._errors import InvalidInput
from ._extent import border, quoted
from ._options import checked_options

if TYPE_CHECKING:
    from ._arguments import Steps
    from ._result import Result


class Objects(InDirectory[Opened]):
    """A table whose rows may be objects with an extent."""

    def snapshot(self, step: int | None = None) -> InDirectory[Opened]:
        raise NotImplementedError

    @checked_options()
    def border(
        self,
        tiles: Mapping[str, float | Sequence[float]],
        width: float = 0.0,
        *,
        columns: Sequence[str] | None = None,
        steps: Steps | None = None,
    ) -> Result:
        """Returns the objects that touch the inner borders of a tiling.

        They help to reconcile parts of a plane that were processed separately. Only zones with such
        objects are read.

        Parameters
        ----------
        tiles
            The size of a tile by column, from 0 on, ``{"x": 512, "y": 512}``, or all edges.
        width
            The maximum distance of objects from a border.
        columns, steps
            As for `query`.

        Raises
        ------
        InvalidInput
            The table has no extent along a column; a size that is not above 0, a negative width.

        Examples
        --------
        >>> cells.border({"x": 512, "y": 512}, width=1).to_pandas()
        """
        extent = self._extent_of()
        if not extent:
            raise InvalidInput(f"border: {self.location} has no extent: see kubist.create")
        pairs = list(extent.values())
        asked = [
            f"{kind}({quoted(end)})"
            for ends in pairs
            for kind, end in zip(("min", "max"), ends, strict=True)
        ]
        snapshot = self.snapshot()
        values = iter(one["value"] for one in snapshot.estimate(asked).to_dicts())
        ends = {name: (next(values), next(values)) for name in extent}
        where = border(tiles, width, extent, ends)
        return snapshot.query(where=where, columns=columns, steps=steps)
