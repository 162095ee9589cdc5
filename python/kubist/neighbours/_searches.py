"""Searches for neighbours, as methods of tables and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from .. import _box, _kubist
from .._data import Data
from .._options import checked_options
from .._queries import Queries
from .._result import Result
from . import _space
from ._space import Space

if TYPE_CHECKING:
    from .._arguments import AnyRegion, Box, Steps
    from .._spec import QuerySpec


class Rows(TypedDict, total=False):
    """Parameters that select rows and columns for a search."""

    box: Box | None
    where: str | None
    region: AnyRegion | None
    sample: float | str | None
    steps: Steps | None
    columns: Sequence[str] | None


class Options(Rows, Space, total=False):
    """Parameters of a search: the rows, and the distance."""


class Other(TypedDict, total=False):
    """Parameters of the other table of a match."""

    other_sphere: tuple[str, str] | None
    other_on: Sequence[str] | None
    other_where: str | None
    other_columns: Sequence[str] | None


class Matching(Options, Other, total=False):
    """Parameters of a match of two tables."""


class Searches(Queries):
    """Searches for the neighbours of given positions."""

    def _pinned(self) -> _kubist.Snapshot:
        raise NotImplementedError

    @checked_options(Options)
    def nearest(
        self, points: Any, k: int = 1, *, radius: Any = None, **options: Unpack[Options]
    ) -> Result:
        """Returns the ``k`` nearest rows of each point, with their distances.

        The result is exact. The memory does not depend on the size of the table. Each region of the
        table is read about once.

        Parameters
        ----------
        points
            An array of shape (points, axes) in the order of ``on``, one position, or data with
            columns of these names: a dict, a pandas or Polars frame, an Arrow or astropy table.
            With ``sphere`` also a `SkyCoord`.
        k
            The number of rows for each point.
        radius
            The maximum distance, as for `within`; a point may then have fewer than ``k`` rows.
            Without a radius, ``k`` is at most the number of rows that match.
        on
            The columns of the Euclidean distance, which have the same unit. None: all dimensions.
        period
            ``{"x": 25.0}``: columns that repeat after this length; distances are to the nearest
            image. The periods of the table (`kubist.create`) apply too.
        sphere
            ``("ra", "dec")``: the distance is the angle between positions with these longitudes and
            latitudes, in degrees, also across 0h and near the poles. The default, without ``on``,
            is the ``sphere`` of the table.
        tile_rows
            The approximate number of rows to search at a time, which bounds the memory. None:
            400,000.
        box, where, region, sample, steps, columns
            As for `query`: the rows to search, and their columns.

        Returns
        -------
        Result
            The columns ``point`` (the index of the point), ``rank`` (from 1), ``distance``, and the
            columns of the row. The rows of a point are together, in order of rank. The order of
            points, and of rows at equal distances, is unspecified.

        Raises
        ------
        InvalidInput
            A point is NaN or lacks a column, ``k`` exceeds the number of rows, a column is unknown,
            or columns have different units.

        Examples
        --------
        >>> t.nearest([(0.1, 0.2, 0.3)], k=5).to_pandas()
        >>> stars.nearest({"ra": 83.6, "dec": 22.0}, k=3, sphere=("ra", "dec"))
        """
        most = None if radius is None else _space.radius("radius", radius)
        number = _box.count("k", k)
        asked, given = self._search(points, options)
        return self._found(
            lambda pinned: _kubist.nearest(pinned, asked, given(), k=number, radius=most)
        )

    @checked_options(Options)
    def within(self, points: Any, radius: Any, **options: Unpack[Options]) -> Result:
        """Returns all rows within a radius of each point, with their distances.

        Parameters
        ----------
        points
            As for `nearest`.
        radius
            The maximum distance: a number in the unit of the columns, in degrees with ``sphere``;
            text with a unit, such as ``"1 arcsec"`` or ``"5 mm"``; or a quantity of astropy. Rows
            at exactly this distance are included. It is at most half of the shortest period.
        on, period, sphere, box, where, region, sample, steps, columns
            As for `nearest`.

        Returns
        -------
        Result
            The columns ``point`` (the index of the point), ``distance``, and the columns of the
            row, in an unspecified order. Read the result batch by batch to bound the memory.

        Raises
        ------
        InvalidInput
            As for `nearest`; or the radius is negative, has another unit, or exceeds half of a
            period.

        Examples
        --------
        >>> t.within(probes, "1 mm").to_arrow()
        """
        most = _space.radius("radius", radius)
        asked, given = self._search(points, options)
        return self._found(lambda pinned: _kubist.within(pinned, asked, given(), most))

    @checked_options(Options, Other)
    def crossmatch(
        self,
        other: Any,
        radius: Any,
        best: int | Literal["all"] = 1,
        **options: Unpack[Matching],
    ) -> Result:
        """Finds the rows of another table near each row, by position.

        Both tables are read in bounded memory. Data that is not a table becomes a table in
        ``TMPDIR`` during the search.

        Parameters
        ----------
        other
            A table or a snapshot, or data that `kubist.create` accepts: an astropy, Arrow or pandas
            table, or a dict of columns.
        radius
            The largest distance of a match, as for `within`.
        best
            The number of nearest rows of ``other`` for each row, or ``"all"``.
        sphere
            The columns of longitude and latitude; by default ``("ra", "dec")`` unless ``on`` is
            given.
        on, period, box, where, region, sample, steps, columns
            As for `nearest`.
        other_sphere, other_on
            The columns of the positions in ``other``. None: the same names.
        other_where, other_columns
            The rows of ``other`` to search, and the columns to return.

        Returns
        -------
        Result
            The columns of the row, ``distance``, and the columns of the matching row; names that
            exist already end in ``_2``. Rows without a match are left out.

        Raises
        ------
        InvalidInput
            As for `within`; or the positions of the tables differ in unit or number of columns.

        Examples
        --------
        >>> stars.crossmatch(galaxies, "1 arcsec").to_pandas()
        >>> stars.crossmatch(sources, 2 * u.arcsec, best="all", other_sphere=("RAJ2000", "DEJ2000"))
        """
        most = _space.radius("radius", radius)
        number = None if best == "all" else _box.count("best", best)
        own = {name: value for name, value in options.items() if name not in Other.__annotations__}
        if own.get("on") is None and own.get("sphere") is None:
            own["sphere"] = self._sphere() or ("ra", "dec")
        asked = self._neighbours_asked(cast("Options", own))
        theirs = self._of_other(asked, options)
        if isinstance(other, Searches):
            named: _kubist.Snapshot | None = other._pinned()
        else:
            named = None
            if isinstance(other, Iterator):
                other = list(other)
        return self._found(
            lambda pinned: _kubist.crossmatch(
                pinned,
                asked,
                named,
                list(Data(other)) if named is None else [],
                theirs,
                most,
                best=number,
            )
        )

    def _of_other(self, asked: _space.Asked, options: Matching) -> _space.Asked:
        """The search in the other table: the same distance, in its own columns."""
        theirs: dict[str, Any] = {"on": asked.get("on"), "sphere": asked.get("sphere")}
        for name in ("on", "sphere"):
            if options.get(f"other_{name}") is not None:
                theirs[name] = options[f"other_{name}"]  # type: ignore[literal-required]
        names = dict(zip(asked.get("on", ()), theirs["on"] or (), strict=False))
        period = {names.get(name, name): length for name, length in asked.get("period", {}).items()}
        rows = {"where": options.get("other_where"), "columns": options.get("other_columns")}
        query: QuerySpec = _box.spec(lambda: self.schema, cast("Any", rows))
        return _space.asked(query, {**cast("Space", theirs), "period": period or None})

    def _search(
        self, points: Any, options: Options
    ) -> tuple[_space.Asked, Callable[[], list[_kubist.Incoming]]]:
        """The search, and a function that converts its points for each reading."""
        asked = self._neighbours_asked(options)
        named = asked.get("sphere") or asked.get("on")
        if isinstance(points, Iterator):
            points = list(points)
        return asked, lambda: _space.points(points, lambda: named or self._dimensions())

    def _neighbours_asked(self, options: Options) -> _space.Asked:
        rows = {name: options.get(name) for name in Rows.__annotations__}
        space = {name: options.get(name) for name in Space.__annotations__}
        if space["on"] is None and space["sphere"] is None:
            space["sphere"] = self._sphere()
        query: QuerySpec = self._question(**cast("Any", rows))
        return _space.asked(query, cast("Space", space))

    def _sphere(self) -> tuple[str, str] | None:
        return _box.sphere(self._about().sphere)

    def _dimensions(self) -> list[str]:
        return [dimension.column for dimension in self._about().dimensions]

    def _found(self, search: Callable[[_kubist.Snapshot], _kubist.Stream]) -> Result:
        pinned = self._pinned()
        return Result(search(pinned), lambda: search(pinned), pinned.metadata)
