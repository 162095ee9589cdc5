"""Dask: writes frames to tables, and runs functions on workers that have the data.

`Table.to_dask` reads a table as a Dask DataFrame.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._arguments import Create
from ._create import create, open
from ._data import Data
from ._directory import location_of
from ._errors import InvalidInput, NotATable
from ._figures import Commit
from ._libraries import need
from ._options import checked_options, group
from ._split import Split

if TYPE_CHECKING:
    from ._arguments import Domain

_AHEAD = 4
"""Number of partitions that are computed while an earlier one is written."""


@checked_options()
def from_dask(
    frame: Any,
    path: str | os.PathLike[str],
    *,
    dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
    identity: Sequence[str] | None = None,
    create: Create | None = None,
    step: int | None = None,
    token: str | None = None,
) -> Commit:
    """Appends a Dask DataFrame to a table, in one commit: all partitions or none.

    Workers compute the partitions, a few at a time. This process writes each partition once, so a
    lost worker's repeated task adds no row twice. A repeated call with the same frame does nothing.

    Parameters
    ----------
    frame
        The Dask DataFrame.
    path
        The location of the table.
    dimensions
        The dimensions of a new table, if there is none; None: the table must exist.
    identity
        The identity of a new table, as for `kubist.create`.
    create
        Other options of a new table, as ``{"units": {"x": "m"}, "seed": 1}``.
    step, token
        As for `Writer.commit`. The default token is Dask's name of the frame, which depends on its
        inputs and operations.

    Returns
    -------
    Commit
        The commit. ``repeated`` is True if the frame was committed before.

    Raises
    ------
    NotATable
        There is no table, and ``dimensions`` is not given.
    InvalidInput
        ``frame`` is not a Dask DataFrame, or as for `Table.append`. No row is stored.

    Examples
    --------
    >>> kubist.from_dask(df, "droplets.kubist", dimensions=["x", "y"], identity=["pid"])
    """
    if not (hasattr(frame, "npartitions") and hasattr(frame, "to_delayed")):
        raise InvalidInput(f"from_dask: expected a Dask DataFrame, not a {type(frame).__name__}")
    token = token if token is not None else f"dask-{frame._name}"
    parts = _computed(frame)
    try:
        table = open(path)
    except NotATable:
        if dimensions is None:
            raise NotATable(
                f"{location_of(path)}: there is no table: name the dimensions of a new one"
            ) from None
        first = next(parts)
        parts = itertools.chain([first], parts)
        table = _created(path, first, dimensions, identity, create)
    with table:
        return table.append(parts, step=step, token=token)


def _created(
    path: str | os.PathLike[str],
    first: Any,
    dimensions: Mapping[str, Domain] | Sequence[str],
    identity: Sequence[str] | None,
    options: Create | None,
) -> Any:
    asked = group("from_dask", "create", options, Create)
    schema: Any = Data(first).schema
    return create(path, schema, dimensions, identity, exist_ok=True, **asked)


def _computed(frame: Any) -> Iterator[Any]:
    """The partitions in their order, computed by Dask's scheduler a few at a time."""
    need("dask", "from_dask()", "dask")
    client = _client()
    delayed = iter(frame.to_delayed())
    if client is None:
        for part in delayed:
            yield part.compute()
        return
    running: deque[Any] = deque(client.compute(part) for part in itertools.islice(delayed, _AHEAD))
    while running:
        yield running.popleft().result()
        running.extend(client.compute(part) for part in itertools.islice(delayed, 1))


def _client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


@checked_options()
def submit(client: Any, function: Callable[[Split], Any], splits: Sequence[Split]) -> list[Any]:
    """Calls a function with every split, preferably on a worker whose host has the split's data.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    function
        Called with a `Split` on a worker.
    splits
        From ``t.splits(n, by="hosts")``.

    Returns
    -------
    list
        A future for each split.
    """
    hosts = {worker["host"] for worker in client.scheduler_info(-1)["workers"].values()}
    futures = []
    for split in splits:
        near = [host for host in split.preferred_hosts if host in hosts]
        # Only futures keep the preferred worker: graph optimisation drops annotations.
        hint = {"workers": near, "allow_other_workers": True} if near else {}
        futures.append(client.submit(function, split, pure=False, **hint))
    return futures


from_dask.__module__ = "kubist"
