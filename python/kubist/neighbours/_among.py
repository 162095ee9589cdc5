"""Neighbours among the rows of a table: pairs, clusters and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from .. import _box, _kubist
from .._errors import InvalidInput
from .._options import checked_options
from .._result import Result
from . import _counts, _kmeans, _space
from ._counts import PairCounts
from ._kmeans import KMeans
from ._searches import Options, Rows, Searches


class Neighbours(Searches):
    """Searches for neighbours in a table or snapshot whose files this process reads."""

    @checked_options(Options)
    def pairs(self, radius: Any, **options: Unpack[Options]) -> Result:
        """Returns all pairs of rows within a radius, each pair once.

        It reads rows tile by tile, with the rows around the tile.

        Parameters
        ----------
        radius
            As for `within`.
        on, period, sphere, box, where, region, sample, steps, columns
            As for `nearest`, for both rows of a pair. A sample of 1 % has about 0.01 % of the
            pairs.

        Returns
        -------
        Result
            The column ``distance``, and the columns of both rows; their names end in ``_1`` and
            ``_2``. The order is unspecified.

        Raises
        ------
        InvalidInput
            As for `within`; or a tile and the radius around it contain over 8 million rows.

        Examples
        --------
        >>> t.pairs("10 um", columns=["pid"], where="time = 0.6").to_pandas()
        """
        most = _space.radius("radius", radius)
        asked = self._neighbours_asked(options)
        return self._found(lambda pinned: _kubist.pairs(pinned, asked, most))

    @checked_options(Options)
    def cluster(self, eps: Any, min_samples: int = 5, **options: Unpack[Options]) -> Result:
        """Finds clusters of rows (DBSCAN), and returns each row with the label of its cluster.

        A core row has at least ``min_samples`` rows, itself included, within ``eps``. Core rows
        within ``eps`` share a cluster. Another row within ``eps`` of a core row belongs to the
        cluster of its nearest core row; all other rows are noise. scikit-learn differs only for a
        row at the border of several clusters, which it gives to the first.

        Parameters
        ----------
        eps
            The radius, as for `within`.
        min_samples
            The number of rows within ``eps`` that a core row needs, 1 or more.
        on, period, sphere, box, where, region, sample, steps, columns
            As for `nearest`.

        Returns
        -------
        Result
            The columns of the row and ``label``: 0 for the cluster with most rows, -1 for noise.
            Memory is bounded, because a scratch file in ``TMPDIR`` stores the rows. To keep labels,
            write the result to a new table.

        Examples
        --------
        >>> labelled = t.cluster("1 mm", 10)
        >>> kubist.create("labelled.kubist", labelled, ["x", "y", "z"])
        """
        asked, most = self._neighbours_asked(options), _space.radius("eps", eps)
        least = _box.count("min_samples", min_samples, least=1)
        return self._found(
            lambda pinned: _kubist.clusters(
                pinned, asked, most, parameter="eps", least=least, members=1
            )
        )

    @checked_options(Options)
    def friends(
        self,
        b: float | None = 0.2,
        *,
        length: Any = None,
        volume: float | None = None,
        min_members: int = 20,
        **options: Unpack[Options],
    ) -> Result:
        """Finds groups of rows (friends of friends), and returns each row with its label.

        Rows within the linking length are friends; friends of friends are in the same group.

        Parameters
        ----------
        b
            The linking length, as a multiple of the mean separation of the rows (or of the
            sampled rows), ``(volume / rows) ** (1 / axes)``.
        length
            The linking length itself, as the radius of `within`, instead of ``b``.
        volume
            The volume for ``b``; None: the product of the periods.
        min_members
            Smaller groups have the label -1.
        on, period, sphere, box, where, region, sample, steps, columns
            As for `nearest`.

        Returns
        -------
        Result
            As for `cluster`: label 0 is the group with most rows.

        Examples
        --------
        >>> t.friends(0.2, period={"x": 25.0, "y": 25.0, "z": 25.0})
        >>> stars.friends(length="10 arcsec", sphere=("ra", "dec"), min_members=3)
        """
        asked, pinned = self._neighbours_asked(options), self._pinned()
        least = _box.count("min_members", min_members, least=1)
        if length is not None:
            most = _space.radius("length", length)
        elif b is None:
            raise InvalidInput("friends: give b or length")
        else:
            axes = asked.get("on") or self._dimensions()
            filled = _counts.volume_of(volume, asked, axes, self._lengths())
            rows = pinned.count(_counts.without_columns(asked["query"]))
            most = _box.finite("b", b, low=0) * (filled / max(rows, 1)) ** (1 / len(axes))
        return self._found(
            lambda pinned: _kubist.clusters(
                pinned, asked, most, parameter="length", least=1, members=least
            )
        )

    @checked_options(Options)
    def pair_counts(
        self, edges: Sequence[Any], *, confidence: float = 0.95, **options: Unpack[Options]
    ) -> PairCounts:
        """Counts the pairs of rows by distance, from all rows or a sample.

        A sample of the fraction p contains each pair with the probability p squared. The variance
        of the estimates is computed from the pairs that share a row.

        Parameters
        ----------
        edges
            The edges of the bins, as radii for `within`, in ascending order. A bin has
            ``low <= distance < high``, the last one ``distance <= high``.
        confidence
            The confidence level of the intervals.
        on, period, sphere, box, where, region, sample, steps
            As for `nearest`.

        Returns
        -------
        PairCounts
            ``pairs``, ``low`` and ``high`` by bin; ``rdf`` is the radial distribution function, and
            ``correlation`` the two-point correlation.

        Examples
        --------
        >>> counts = t.pair_counts(np.linspace(0, 5, 51), sample=0.05, period={"x": 25, ...})
        >>> counts.rdf().value
        """
        asked = self._neighbours_asked(options)
        lengths = [_space.radius("edges", edge) for edge in edges]
        level = _box.number("confidence", confidence, low=0)
        if not 0 < level < 1:
            raise InvalidInput(f"confidence: expected a number between 0 and 1, not {confidence!r}")
        counted = _kubist.pair_counts(self._pinned(), asked, lengths)
        axes = asked.get("sphere") or asked.get("on") or self._dimensions()
        return PairCounts(counted, asked, axes, self._lengths(), level)

    @checked_options(Rows)
    def kmeans(
        self,
        k: int,
        *,
        seed: int = 0,
        on: Sequence[str] | None = None,
        **rows: Unpack[Rows],
    ) -> KMeans:
        """Finds ``k`` centres (k-means) from ever larger samples.

        Each sample has four times the rows of the previous one, and starts from its centres. The
        search ends when the centres move by less than their standard errors (root mean square), or
        all rows were used.

        Parameters
        ----------
        k
            The number of clusters.
        seed
            The seed of the first centres (k-means++).
        on
            The columns of the Euclidean distance; None: all dimensions.
        box, where, region, sample, steps
            As for `query`.

        Examples
        --------
        >>> t.kmeans(8, on=["x", "y"]).centers
        """
        names = _box.names("on", on) if on is not None else self._dimensions()
        given: dict[str, Any] = dict(rows)
        if given.pop("columns", None) is not None:
            raise InvalidInput("columns: k-means returns centres of the columns `on`")
        number = _box.count("k", k, least=1)
        return _kmeans.fit(
            lambda limit: self.query(columns=names, limit=limit, **given), names, number, seed
        )

    def _lengths(self) -> dict[str, float]:
        return {
            column: period[1] - period[0] if isinstance(period, tuple) else period
            for column, period in self.period.items()
        }
