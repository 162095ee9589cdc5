"""Many runs as one table: `kubist.open_many`.

A run is a table of a parameter study, with its own grid and samples. `_runs` opens the runs,
`_columns` finds the common columns, `_text` and `_part` rewrite a query for a run, `_pinned` joins
the rows, and `_estimating` estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from .. import _estimate, _saved
from .._errors import InvalidInput
from .._estimate import Estimate
from .._goal import Goal
from .._looks import Looks
from .._options import checked_options
from .._shown import counted
from ._columns import Union
from ._pinned import Pinned
from ._runs import Item, Run, opened

if TYPE_CHECKING:
    import pyarrow as pa

    from .._arguments import Box
    from .._picture import Picture


@checked_options()
def open_many(
    locations: Item | Iterable[Item] | Mapping[str, Item],
    *,
    run: str = "run",
) -> Many:
    """Opens the tables of many runs as one read-only table.

    It has the columns of all runs; if a run lacks a column, its rows have null there. The first
    column is ``run``, the name of the run, and further columns ``metadata.NAME`` have its metadata:
    ``where="metadata.injection_speed > 2 AND diameter > 20um"``. Conditions on these columns
    select the runs to read. All calls read the snapshots that were the newest at the opening.

    Parameters
    ----------
    locations
        A pattern such as ``"runs/*.kubist"``, or a list with locations on any stores, addresses
        for `connect`, open tables and snapshots. The name of a run is the last part of its location
        without ``.kubist``, with the folders before it if names are equal otherwise. A dict gives
        other names: ``{"slow": "runs/7.kubist", "fast": "runs/8.kubist"}``.
    run
        The name of the column with run names.

    Returns
    -------
    Many
        All runs.

    Raises
    ------
    NotATable
        There is no table at a location, or for the pattern.
    InvalidInput
        The types or units of a column in two runs cannot be converted; the message names the runs.

    Examples
    --------
    >>> runs = kubist.open_many("runs/*.kubist")
    >>> runs.estimate("share(deposited)", group_by="metadata.injection_speed")
    >>> runs.estimate("mean(ux)", group_by="run", contrast="run")
    """
    found = opened(locations)
    return Many(found, Union(found, run))


class Many(Looks):
    """Many runs as one read-only table, from `kubist.open_many`.

    It has the query methods of a table (`query`, `count`, `estimate`, `head`, `scan`, `sql`,
    `to_dataset`, `plot`); `run` returns a run with all methods of its table.
    """

    def __init__(self, runs: Sequence[Run], union: Union) -> None:
        self._runs, self._union = runs, union
        self._pin = Pinned(union, runs)

    def _pinned(self) -> Pinned:
        return self._pin

    @property
    def runs(self) -> list[str]:
        """The names of the runs."""
        return [run.name for run in self._runs]

    def run(self, name: str) -> Looks:
        """Returns the table of a run.

        Raises
        ------
        InvalidInput
            No run has this name.
        """
        for run in self._runs:
            if run.name == name:
                return run.table
        raise InvalidInput(f"no run is called {name!r}; the first is {self._runs[0].name!r}")

    def catalogue(self) -> pa.Table:
        """Returns a `pyarrow.Table` of runs with name, metadata and number of rows.

        Examples
        --------
        >>> runs.catalogue().to_pandas()
        """
        import pyarrow as pa

        names = list(self._union.of_run)
        table = self._union.catalogue.query(order_by='"#"', columns=names).to_arrow()
        rows = pa.array([run.pinned.rows() for run in self._runs], pa.int64())
        return table.append_column("rows", rows)

    def plot(
        self,
        x: str | None = None,
        y: str | None = None,
        color: str | Sequence[str] | None = None,
        **options: Any,
    ) -> Picture:
        """Plots rows as points, like `Table.plot`.

        With the column of run names as ``color``, colours follow the index in `runs`.
        """
        if isinstance(color, str) and self._union.names.find(color) == self._union.key:
            numbered = Many(self._runs, self._union)
            numbered._pin = Pinned(self._union, self._runs, numbered=True)
            return Looks.plot(numbered, x, y, self._union.key, **options)
        return Looks.plot(self, x, y, color, **options)

    @checked_options(Goal)
    def estimate(  # type: ignore[override]
        self,
        aggregates: str | Sequence[str],
        *,
        box: Box | None = None,
        group_by: str | Sequence[str] | None = None,
        contrast: str | None = None,
        progressive: bool = False,
        **goal: Unpack[Goal],
    ) -> Estimate:
        """Estimates aggregates for runs and groups of runs, and differences between runs.

        Parameters
        ----------
        aggregates, box, where, steps, window
            As for `Table.estimate`.
        group_by
            Columns and expressions: ``"run"``, ``"metadata.speed"``, ``"bin(metadata.speed, 1)"``,
            ``"deposited"``. A group of several runs has counts, sums, means and proportions.
        contrast
            A column of ``group_by`` that depends only on the run, such as ``"run"``. The result has
            the differences to the first run, or to the group with the lowest value. Runs with equal
            identity columns and equal seeds sample the same particles, so their covariance makes
            the error of a difference smaller; a note in the result reports the gain.
        error, sample, confidence, tails
            As for `Table.estimate`, for each run. With a contrast or a group of several runs, all
            runs read the largest fraction that any run needs.
        within, max_rows, max_bytes
            Limits for all runs together. A contrast, or a group of several runs, reads about twice
            as much.

        Examples
        --------
        >>> runs.estimate("share(deposited)", group_by="metadata.speed", where="x > 0.1")
        >>> runs.estimate("mean(ux)", group_by="run", contrast="run")
        """
        if progressive:
            raise InvalidInput("progressive: estimate one run: many.run(name).estimate(...)")
        asked: dict[str, Any] = {"confidence": 0.95, **goal}
        limits = ("error", "within", "max_rows", "max_bytes", "confidence", "tails")
        region = {name: value for name, value in asked.items() if name not in limits}
        request = _estimate.request(
            self._question(box=box, **region),
            aggregates,
            group_by,
            **{name: asked.get(name) for name in limits},
        )
        origin = _saved.Origin(self._pin.source, "estimate", {**request, "contrast": contrast})
        return Estimate(self._pin.estimate_contrast(request, contrast), origin)

    def __repr__(self) -> str:
        return f"<kubist.Many: {counted(len(self._runs), 'run')}, {counted(len(self), 'record')}>"


for _public in (open_many, Many):
    _public.__module__ = "kubist"
del _public
