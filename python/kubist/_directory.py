"""What only a table in a directory can do, and a snapshot of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, Unpack

from . import _box, _kubist
from ._asked import Part, Rest
from ._errors import InvalidInput
from ._figures import Explanation
from ._looks import Looks
from ._options import checked_options
from ._shown import counted
from ._split import Split

if TYPE_CHECKING:
    from ._arguments import Box, Domain

# What opening a table gives: the module of `Table` stands above this one.
Opened = TypeVar("Opened")


class InDirectory(Looks, Generic[Opened]):
    """A table, or a snapshot of one, whose files this process reads."""

    _table: _kubist.Table

    def _pinned(self) -> _kubist.Snapshot:
        raise NotImplementedError

    def _open(self, location: str) -> Opened:
        raise NotImplementedError

    @property
    def location(self) -> str:
        """The directory that holds the table."""
        return self._table.location()

    @checked_options(Rest)
    def explain(
        self,
        box: Box | None = None,
        *,
        fit: str | os.PathLike[str] | None = None,
        **asked: Unpack[Rest],
    ) -> Explanation:
        """Runs a query, throws its answer away, and says where its time went.

        Args:
            box, where, sample, window, steps, columns, inclusion, limit, order_by, per_cell: As
                for `query`.
            fit: What ``kubist model fit -o FILE`` wrote for this place: then it also says
                how long the requests should have taken.

        Example:
            >>> t.explain(sample=0.01, fit="droplets.fit.json").predicted
        """
        question = self._question(box=box, **asked)
        text = None if fit is None else Path(fit).read_text(encoding="utf-8")
        return Explanation.parse(self._pinned().explain(question, text))

    @checked_options(Part)
    def splits(
        self,
        parts: int,
        *,
        box: Box | None = None,
        by: Literal["space", "hosts"] = "space",
        **asked: Unpack[Part],
    ) -> list[Split]:
        """Cuts a query into disjoint parts, for several processes or machines.

        Each record of the query is in exactly one part. Parts are compact in space and
        of about equal records; they are small, can be pickled, and are of the moment of
        this call wherever they are read.

        Args:
            parts: How many; some may be empty.
            box, where, sample, window, steps, columns, inclusion: As for `query`.
            by: ``"hosts"`` cuts a table that is in a cluster along the cluster's ring, so
                that each part can be read from one host, the first of its
                ``preferred_hosts``; parts are then not compact. Elsewhere it is ``"space"``.

        Raises:
            InvalidInput: As for `query`; a ``limit`` or ``per_cell``, which choose among
                all records; ``parts`` outside of 1 to 65,536.

        Example:
            >>> with multiprocessing.Pool() as pool:
            ...     tables = pool.map(kubist.Split.to_arrow, t.splits(8, sample=0.1))
        """
        question = self._question(box=box, **asked)
        number = _box.count("parts", parts, least=1, most=2**16)
        if by not in ("space", "hosts"):
            raise InvalidInput(f"by: parts are cut by 'space' or by 'hosts', not {by!r}")
        return [Split(text) for text in self._pinned().splits(question, number, by == "hosts")]

    @checked_options()
    def copy_to(
        self,
        path: str | os.PathLike[str],
        *,
        dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
        capacity: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Opened:
        """Copies all records into a new table in the directory ``path``.

        The copy is of one moment, takes bounded memory, and is there whole or not at
        all. It keeps columns, identity, seed and so samples, steps, units and
        metadata. What belongs to the writers stays behind: their tokens, and which of
        them a step waits for, so that every step counts as complete in the copy.

        Args:
            path: Where the copy will be; nothing may be there yet.
            dimensions: The columns to index, with the domains of their values, as in `create`,
                of the columns that the table was created with. Domains that are not given are
                learned from a sample of all records. None: the same grid.
            capacity: How many records a cube wants to keep; None: as here.
            progress: Called now and then with the records done and in total.

        Returns:
            The copy, open.

        Example:
            >>> t.copy_to("better.kubist", dimensions={"x": (0, 0.2), "z": "quantile"})
        """
        location = location_of(path)
        self._pinned().copy_to(
            location,
            dimensions=None if dimensions is None else _box.dimensions(dimensions),
            capacity=None if capacity is None else _box.count("capacity", capacity, most=2**32 - 1),
            progress=progress,
        )
        return self._open(location)

    def _described(self, kind: str) -> str:
        try:
            rows = counted(len(self), "record")
        except Exception as error:
            rows = f"{type(error).__name__}: {error}"
        return f"<kubist.{kind} {self.location!r}: {rows}>"


def location_of(path: str | os.PathLike[str]) -> str:
    try:
        location = os.fspath(path)
    except TypeError:
        kind = type(path).__name__
        raise InvalidInput(f"path must be a string or a path, not a {kind}") from None
    if not isinstance(location, str):
        raise InvalidInput(f"path must be text, not {type(location).__name__}")
    return location
