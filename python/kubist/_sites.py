"""One table at several sites: the exchange of two copies, and partial copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _box, _kubist
from ._directory import location_of
from ._errors import InvalidInput
from ._figures import parse
from ._options import checked_options
from ._reports import Cloned, Synced

if TYPE_CHECKING:
    import pyarrow as pa

    from ._arguments import Box
    from ._asked import Asked
    from ._spec import QuerySpec


def synced(
    a: str,
    b: str,
    push: bool,
    pull: bool,
    *,
    memory: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Synced:
    if not (push or pull):
        raise InvalidInput("sync: push=False and pull=False leave nothing to do")
    report = _kubist.sync(
        a,
        b,
        push=bool(push),
        pull=bool(pull),
        memory=None if memory is None else _box.count("memory", memory, least=1),
        progress=progress,
    )
    return Synced.parse(report)


def part(
    schema: Callable[[], pa.Schema],
    sample: float | str | None,
    box: Box | None,
    columns: Sequence[str] | None,
) -> QuerySpec:
    asked: Asked = {"box": box, "sample": sample, "columns": columns}
    return _box.spec(schema, asked)


class AtSites:
    """Methods of a table with copies at other sites."""

    _table: _kubist.Table

    @property
    def location(self) -> str:
        raise NotImplementedError

    @property
    def schema(self) -> pa.Schema:
        raise NotImplementedError

    def _check(self) -> None:
        raise NotImplementedError

    @checked_options()
    def sync(
        self,
        other: str | os.PathLike[str],
        *,
        push: bool = True,
        pull: bool = True,
        progress: Callable[[int, int], object] | None = None,
    ) -> Synced:
        """Exchanges the changes of this table and its copy at ``other``; see `kubist.sync`.

        Parameters
        ----------
        other
            The location of the copy, which is created if it does not exist.
        push, pull
            Whether to send changes to the copy, and whether to fetch its changes.
        progress
            Called every 50 ms with the number of rows done and in total.

        Examples
        --------
        >>> t.sync("laptop.kubist").came.rows
        """
        self._check()
        return synced(self.location, location_of(other), push, pull, progress=progress)

    @checked_options()
    def deepen(
        self,
        *,
        sample: float | str | None = None,
        box: Box | None = None,
        columns: Sequence[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Cloned:
        """Adds data to this partial copy, and brings it up to date; see `kubist.clone`.

        Without ``sample``, ``box`` and ``columns``, it only takes the new rows of the source, for
        the part that the copy holds. An interrupted call can be repeated.

        Parameters
        ----------
        sample, box, columns
            As for `kubist.clone`.
        progress
            Called repeatedly with the number of runs done and in total, for each part of the copy.

        Raises
        ------
        InvalidInput
            The table is no partial copy.
        Unavailable
            The source is not there.

        Examples
        --------
        >>> t.deepen(sample=0.05).fetched
        4100000
        """
        self._check()
        query = part(lambda: self.schema, sample, box, columns)
        # Only one handle can add to a copy.
        fetches = self._table.fetch_missing(False)
        try:
            report = _kubist.deepen(self.location, query or None, progress=progress)
        finally:
            self._table = _kubist.Table.open(self.location)
            self._table.fetch_missing(fetches)
        return parse(Cloned, report)
