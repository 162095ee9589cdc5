"""Queries of whole particle paths, for tables and snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from ._libraries import need
from ._options import checked_options
from ._queries import Queries

if TYPE_CHECKING:
    from ._arguments import AnyRegion, Steps
    from .paths import Asked, Paths

    Period = Mapping[str, float | tuple[float, float]]


class Moved(TypedDict, total=False):
    """Parameters that select paths, as for `Moving.flux`."""

    by: str | None
    time: str | None
    axes: Sequence[str] | None
    period: Period | None
    where: str | None
    steps: Steps | None
    sample: float | str | None
    confidence: float


class Unwrapped(Moved, total=False):
    """Parameters that select paths, with the periodic images of their rows."""

    images: Mapping[str, str] | None


class Moving(Queries):
    """Queries of whole paths, local and over HTTP."""

    @checked_options(Moved)
    def flux(
        self,
        region: AnyRegion,
        **asked: Unpack[Moved],
    ) -> Paths:
        """Finds where paths cross a plane or the surface of a region, and counts the crossings.

        Paths are straight lines between successive rows, so a path may cross a region between two
        rows. Each crossing has a time, a position and a direction. A path that only touches the
        surface does not cross it.

        Parameters
        ----------
        region
            For a plane, the half space behind it: ``region.half_space({"x": 1}, {"x": 0.1})``.
            Or another region of space: box, sphere, ellipsoid, cylinder, frustum, slab, polygon,
            and their combinations. A path that enters has the direction 1, a path that leaves -1.
        by
            The column that identifies a path. None: the identity of the table if it is one column,
            or else the only column with a secondary index.
        time
            The column of times, which are numbers. None: the other column of the identity, or else
            ``time``, ``t``, ``frame`` or ``step``.
        axes
            The columns of positions. None: ``x``, ``y`` and ``z`` if they exist, and the columns of
            the region.
        period
            Periodic axes: ``{"x": 25.0}``, or the bounds of the cell, ``{"x": (-5, 5)}``. A path
            continues to the nearest image of its next position. None: the periods of the table, if
            there are any; ``{}`` ignores them.
        where, steps
            The rows of the paths, as for `query`.
        sample
            The fraction of the paths to read, in (0, 1], for tables whose identity is ``by``. The
            figures then have intervals.
        confidence
            The fraction of intervals that contain the figure for all paths.

        Returns
        -------
        Paths
            The figures ``net``, ``forward``, ``backward``, and ``paths``, the number of paths that
            cross. Its rows are the crossings: ``by``, ``time``, the axes, ``direction``.

        Raises
        ------
        InvalidInput
            The normal of a plane is zero, the region is not in space, the identity does not sample
            whole paths, or a column is missing.

        Examples
        --------
        >>> outlet = region.half_space({"z": 1}, {"z": 0.04})
        >>> t.flux(outlet, by="pid")["net"]
        """
        from .paths import flux, region_shape

        through = region_shape(region)
        return flux(self._paths(asked, through.columns), through)

    @checked_options(Moved)
    def residence(
        self,
        region: AnyRegion,
        **asked: Unpack[Moved],
    ) -> Paths:
        """Computes how long each path is in a region.

        Parameters
        ----------
        region, by, time, axes, period, where, steps, sample, confidence
            As for `flux`.

        Returns
        -------
        Paths
            The figures ``mean`` over all paths that enter the region, ``mean_of_all`` over all
            paths, and ``share``, the fraction of paths that enter. Its rows are the paths: ``by``,
            ``residence``, ``entries``, ``duration``. A start inside counts as an entry.

        Examples
        --------
        >>> t.residence(region.sphere((0, 0, 0), 0.01), by="pid")["mean"]
        """
        from .paths import region_shape, residence

        inside = region_shape(region)
        return residence(self._paths(asked, inside.columns), inside)

    @checked_options(Moved)
    def first_entry(
        self,
        region: AnyRegion,
        **asked: Unpack[Moved],
    ) -> Paths:
        """Finds the first time at which each path is in a region, and its position then.

        Parameters
        ----------
        region, by, time, axes, period, where, steps, sample, confidence
            As for `flux`.

        Returns
        -------
        Paths
            The figures ``mean_time``, ``mean_delay``, and ``share``, the fraction of paths that
            enter. Its rows are the paths that enter: ``by``, ``time``, ``delay``, the axes. The
            delay is the time since the path's first row; it is 0 for a path that starts inside.

        Examples
        --------
        >>> t.first_entry(region.half_space({"z": 1}, {"z": 0.04}), by="pid").to_pandas()
        """
        from .paths import first_entry, region_shape

        inside = region_shape(region)
        return first_entry(self._paths(asked, inside.columns), inside)

    @checked_options(Unwrapped)
    def displacement(
        self,
        **asked: Unpack[Unwrapped],
    ) -> Paths:
        """Computes the vector from the first to the last position of each path.

        Parameters
        ----------
        by, time, axes, period, where, steps, sample, confidence
            As for `flux`. Jumps of more than half a period are undone.
        images
            For axes with a period, the columns with the number of the periodic image,
            ``{"x": "ix"}``: the position is ``x + ix * period``.

        Returns
        -------
        Paths
            The figures ``mean_distance`` and ``mean_x``, ... Its rows are the paths: ``by``,
            ``duration``, the axes, ``distance``.

        Examples
        --------
        >>> t.displacement(by="pid", sample=0.1)["mean_distance"]
        """
        from .paths import displacement

        return displacement(self._paths(asked))

    @checked_options(Unwrapped)
    def msd(
        self,
        *,
        lags: int | None = None,
        **asked: Unpack[Unwrapped],
    ) -> Paths:
        """Computes the mean squared displacement for each lag, as MDAnalysis' ``EinsteinMSD``.

        It averages over all pairs of rows of a path with this lag in time, then over paths. Times
        must be evenly spaced, but rows may be missing.

        Parameters
        ----------
        by, time, axes, period, images, where, steps, sample, confidence
            As for `displacement`.
        lags
            The largest lag, as a number of time steps; None: all.

        Returns
        -------
        Paths
            Its rows are the lags: ``lag``, ``msd``, ``low``, ``high``, ``paths``.

        Raises
        ------
        InvalidInput
            The times of a path are not evenly spaced, or two of its rows have the same time.

        Examples
        --------
        >>> curve = t.msd(by="atom", time="time", sample=0.1).to_pandas()
        """
        from .paths import msd

        return msd(self._paths(asked), lags)

    @checked_options(Unwrapped)
    def average_path(
        self,
        *,
        times: Sequence[float] | None = None,
        **asked: Unpack[Unwrapped],
    ) -> Paths:
        """Computes the mean position of all paths at each time.

        Parameters
        ----------
        by, time, axes, period, images, where, steps, sample, confidence
            As for `displacement`.
        times
            Times for interpolation between the rows of a path, from its first to its last row.
            None: the times of the rows, without interpolation.

        Returns
        -------
        Paths
            Its rows are the times: ``time``, and for each axis the mean and the bounds of its
            interval, ``x``, ``x_low``, ``x_high``; ``paths``, the number of paths read.

        Examples
        --------
        >>> t.average_path(by="pid", times=[0.1, 0.2, 0.3]).to_pandas()
        """
        from .paths import average_path

        return average_path(self._paths(asked), times)

    def _paths(self, asked: Unwrapped, also: Sequence[str] = ()) -> Asked:
        for module in ("numpy", "pyarrow"):
            need(module, "paths")
        from .paths import Asked
        from .paths._read import Reader, axes_of

        pinned = self._pinned()
        question = self._question(
            where=asked.get("where"), steps=asked.get("steps"), sample=asked.get("sample")
        )
        names = [*axes_of(pinned, asked.get("axes")), *also]
        by = asked.get("by")
        own = self._by(pinned) if by is None else by
        reader = Reader(pinned, question, own, asked.get("time"), names, asked.get("images"))
        period = asked.get("period")
        if period is None:
            period = {name: of for name, of in self.period.items() if name in names}
        return Asked(reader, period, asked.get("confidence", 0.95))
