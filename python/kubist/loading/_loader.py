"""`kubist.Loader`: random batches of a table, for training."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _box, _kubist
from .._errors import InvalidInput, Refused
from .._options import checked_options
from .._shown import counted
from .._table import Snapshot, Table
from ._hold import Hold, now
from ._order import EDGES, Group, Order, Plan, Range, groups, plan, shuffled
from ._read import Arrays, Pool, Source
from ._regions import variance_ratio
from ._state import Position, State

if TYPE_CHECKING:
    from .._arguments import AnyRegion, Box

_ORDERS = ("uniform", "pooled", "growing")
_DTYPES = (None, "float32", "float64")
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_LEAST_POOL = 1 << 20
_COPIES = 3
"""The number of groups in memory: the current one, the next one, and one that is read or kept."""
_MOST_SEED = 2**64 - 1


class Loader:
    """Yields random batches of a snapshot for training; each row comes once in an epoch.

    A batch is a dict of contiguous NumPy arrays. Files store rows in order of their random
    priority, so a batch is a uniform random sample although the loader reads ranges of the files.
    A thread reads ahead.

    The order depends only on the seed. Each process of ``world`` yields its part of every batch.
    `state_dict` and `load_state_dict` continue training after the last batch, in any process, also
    with another ``world``.

    Parameters
    ----------
    t
        A table, whose current snapshot the loader uses, or a snapshot. Later commits, `optimize`
        and `clean` do not change the batches.
    columns
        Columns and expressions, as for `query`.
    target
        A further column, which is never normalised.
    batch
        The number of rows in a batch, over all processes. The last batch of an epoch is smaller.
    box, where, region
        The rows, as for `query`.
    window
        The rows with a priority in ``[low, high)``, for example from `parts`.
    order
        ``"uniform"``: random windows of priority, with a new permutation in every epoch.
        ``"pooled"``: random regions of space, which is fast for any table; see `variance_ratio`.
        ``"growing"``: the first 1/128 of the rows, then as many again, then twice as many, and so
        on.
    pool
        Memory for rows in bytes, such as ``"1 GiB"``. The loader shuffles the rows of a group
        together, which takes a third of this memory.
    dtype
        The type of all arrays, ``"float32"`` or ``"float64"``, except for an integer target. None:
        the types of the columns. In floats, null becomes NaN.
    normalise
        Whether to subtract the mean of each column except the target, and divide by its standard
        deviation. Both are estimated from the 100,000 rows of lowest priority.
    seed
        The seed of the order.
    epochs
        The number of epochs. None: without end.
    rank, world
        The number of this process, from 0, and the number of processes.

    Raises
    ------
    InvalidInput
        An option is invalid, a column does not have numbers, or there are fewer rows than
        ``batch``. Or the table samples by a weight or by strata (docs/samples.md), and the order or
        window is not a sample. In such a table, the column ``inclusion`` is the probability that
        the window contains the row.

    Examples
    --------
    >>> loader = kubist.Loader(t, ["x", "y", "z", "diameter"], "deposited", dtype="float32")
    >>> for batch in loader:
    ...     train(batch["x"], batch["deposited"])
    >>> state = loader.state_dict()                  # plain values, for a checkpoint
    """

    @checked_options()
    def __init__(
        self,
        t: Table | Snapshot,
        columns: Sequence[str],
        target: str | None = None,
        batch: int = 1024,
        *,
        box: Box | None = None,
        where: str | None = None,
        region: AnyRegion | None = None,
        window: tuple[float, float] | None = None,
        order: Order = "uniform",
        pool: int | str = "1 GiB",
        dtype: str | None = None,
        normalise: bool = False,
        seed: int = 0,
        epochs: int | None = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not isinstance(t, Table | Snapshot):
            raise InvalidInput(
                f"a loader reads a kubist.Table or kubist.Snapshot, not {type(t).__name__}"
            )
        if order not in _ORDERS:
            raise InvalidInput(f"order: expected one of {', '.join(_ORDERS)}, not {order!r}")
        if dtype not in _DTYPES:
            raise InvalidInput(f'dtype: expected "float32", "float64" or None, not {dtype!r}')
        names = _box.names("columns", columns)
        if not names:
            raise InvalidInput("columns: name at least one column")
        self._epochs = None if epochs is None else _box.count("epochs", epochs)
        self._world = _box.count("world", world, least=1)
        self._rank = _box.count("rank", rank, most=self._world - 1)
        self._batch, self._seed = _box.count("batch", batch, least=1), _box.count("seed", seed)
        self._span = _span(window)
        self._order, self._pool_bytes = order, _bytes(pool)
        self._process = os.getpid()
        self._table = t._table
        self._open: Callable[[str], _kubist.Snapshot] | None = (
            t._table.at if isinstance(t, Table) else None
        )
        known = [name for name in names if name != target]
        wanted = known if target is None else [*known, _box.names("target", [target])[0]]
        asked: Any = {"box": box, "where": where, "region": region, "columns": wanted}
        if self._span != (0.0, 1.0):
            asked["window"] = self._span
        self._question = t._question(**asked)
        self._settings = {
            "question": json.loads(json.dumps(self._question)),
            "target": target,
            "batch": self._batch,
            "order": order,
            "dtype": dtype,
            "normalise": bool(normalise),
            "seed": self._seed,
        }
        self._reader: ThreadPoolExecutor | None = None
        self._hold: Hold | None = None
        self._is_kept = False
        self._position = Position(0, 0, 0, 0)
        self._pools: dict[tuple[int, int], Future[Pool]] = {}
        self._listed: dict[int, list[Group]] = {}
        self._latest: tuple[Group, Arrays] | None = None
        since = now()
        hold = Hold(t._pinned(), since if isinstance(t, Table) else 0)
        try:
            # The hold keeps the files of this snapshot, because it begins before.
            self._pin(t._pinned(), None, hold)
        except BaseException:
            hold.release()
            raise

    @staticmethod
    def parts(**fractions: float) -> dict[str, tuple[float, float]]:
        """Divides a table into parts by identity, for training, validation and test.

        Rows with equal identities have equal priorities, so they are in the same part. With the
        identity ``["pid"]``, no trajectory is in two parts.

        Parameters
        ----------
        fractions
            The fraction of each part, which is rounded to a multiple of 1/128.

        Returns
        -------
        dict
            The window of each part, for ``window`` of a loader or a query.

        Examples
        --------
        >>> parts = kubist.Loader.parts(training=0.8, validation=0.1, test=0.1)
        >>> kubist.Loader(t, ["x", "y"], window=parts["training"])
        """
        if not fractions:
            raise InvalidInput("parts: name at least one part, as parts(training=0.8, test=0.2)")
        edges, end = [0], 0.0
        for name, fraction in fractions.items():
            end += _box.fraction(name, fraction)
            edges.append(round(end * EDGES))
            if edges[-1] <= edges[-2] or edges[-1] > EDGES:
                raise InvalidInput(
                    f"parts: {name}={fraction!r} leaves no 1/{EDGES} of the rows for it"
                )
        pairs = itertools.pairwise(edges)
        return {
            name: (low / EDGES, high / EDGES)
            for name, (low, high) in zip(fractions, pairs, strict=True)
        }

    def __iter__(self) -> Iterator[Arrays]:
        return self

    def __next__(self) -> Arrays:
        self._check()
        while self._epochs is None or self._position.epoch < self._epochs:
            pieces, self._position = self._next_pieces()
            if pieces:
                if self._hold is not None:
                    self._hold.renew_in_time()
                return self._taken(pieces)
        self._forget()
        self._release()
        raise StopIteration

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return -(-self.rows // self._batch)

    @property
    def rows(self) -> int:
        """The number of rows of an epoch."""
        return self._rows

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self._position.epoch

    @property
    def snapshot(self) -> str:
        """The token of the snapshot, for `Table.at`."""
        return self._source.pinned.token()

    @property
    def variance_ratio(self) -> float:
        """The expected variance of a batch mean, relative to the variance for a random batch.

        It is 1 except for ``"pooled"``. There, a pilot of 64 regions estimates it for each column,
        and the largest value counts. This assumes that each row has its own identity.
        """
        return self._variance_ratio

    @property
    def examined_per_row(self) -> float:
        """The number of decoded rows per returned row so far."""
        return self._examined / self._returned if self._returned else 0.0

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch, as plain values for a checkpoint."""
        self._check()
        # The hold of the snapshot remains for a day after this process ends.
        self._is_kept = True
        state = State(
            self.snapshot,
            self._since,
            self._settings,
            self._plan,
            self._layout.scales,
            self._position,
        )
        return state.to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with the batch that follows the state.

        Parameters
        ----------
        state
            From `state_dict` of a loader with the same options. ``epochs``, ``rank`` and ``world``
            may differ, and also ``pool`` if a third of it is enough for a group of rows.

        Raises
        ------
        InvalidInput
            The value is not a state or belongs to other options, or it belongs to another snapshot
            and this loader was created from a `Snapshot`.
        TableReplaced
            The state belongs to another table.
        SnapshotExpired
            `clean` has deleted files of the state's snapshot.
        """
        self._check()
        found = State.from_dict(state)
        found.check(self._settings)
        pinned = self._source.pinned
        if found.snapshot != self.snapshot:
            if self._open is None:
                raise InvalidInput(
                    "the state is of another snapshot: open it with t.at(state['snapshot']), or "
                    "give the table"
                )
            pinned = self._open(found.snapshot)
        hold = Hold(pinned, found.since)
        try:
            self._pin(pinned, found, hold)
        except BaseException:
            hold.release()
            raise
        self._is_kept = True

    def close(self) -> None:
        """Stops the reading thread, frees the memory, and releases the snapshot.

        After `state_dict`, `clean` keeps the snapshot for another day, so that a new process can
        continue.
        """
        if os.getpid() == self._process:
            self._forget()
            self._release()
            self._closed = True

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise Refused(
            "a loader cannot be sent to another process: create one there, with rank and world"
        )

    def __repr__(self) -> str:
        parts = "regions" if self._order == "pooled" else f"windows of 1/{self._plan.parts:,}"
        ratio = f"; expected variance ratio {self._variance_ratio:.3g}"
        return (
            f"<kubist.Loader {self._order}: {counted(self.rows, 'record')}, "
            f"{len(self):,} batches in an epoch, "
            f"groups of {self._plan.drawn:,} {parts}{ratio}>"
        )

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise Refused(
                "this loader was created before a fork: create one in each process, with rank and "
                "world"
            )
        if self._closed:
            raise Refused("this loader was closed by close(): create another one")

    def _pin(self, pinned: _kubist.Snapshot, state: State | None, hold: Hold) -> None:
        """Starts at the beginning of a snapshot, or after the last batch of a state."""
        source = Source(self._table, pinned, self._question)
        settings = self._settings
        self._check_weights(source)
        layout = source.layout(
            settings["dtype"], settings["target"], settings["normalise"] and state is None
        )
        if state is not None:
            layout = layout._replace(scales=state.scales)
        rows = source.count()
        if rows < self._batch:
            raise InvalidInput(
                f"batch={self._batch:,}, but {self._table.location()} has "
                f"{counted(rows, 'such record')}: take a smaller batch"
            )
        most = self._pool_bytes // _COPIES // layout.row_bytes()
        if state is not None:
            found = state.plan
        elif source.is_weighted and self._order == "uniform":
            found = Plan(1, 1)
            if rows > most:
                needed = _kubist.size(_COPIES * rows * layout.row_bytes())
                raise InvalidInput(
                    f"pool: windows of priority of {self._table.location()} are no uniform "
                    f"samples, because it samples {source.sampling}: give a pool of {needed} for "
                    f"{counted(rows, 'record')}, or a smaller window from 0"
                )
        else:
            found = plan(self._order, rows, self._span, most)
        if state is not None and self._expected_rows(rows, found) > most * 1.1:
            needed = _COPIES * self._expected_rows(rows, found) * layout.row_bytes()
            raise InvalidInput(
                f"the groups of the state need a pool of {_kubist.size(int(needed))}, "
                f"and this one has {_kubist.size(self._pool_bytes)}"
            )
        ratio = 1.0
        if self._order == "pooled":
            source.cut(found.parts)
            ratio = variance_ratio(source, layout, found, rows, self._batch, self._seed)
        self._forget()
        if self._hold is not None:
            self._hold.release()
        self._hold, self._since = hold, hold.since
        self._source, self._layout, self._rows, self._plan = source, layout, rows, found
        self._variance_ratio = ratio
        self._position = Position(0, 0, 0, 0) if state is None else state.position
        self._examined = self._returned = 0
        self._closed = False

    def _check_weights(self, source: Source) -> None:
        """Refuses orders and windows that are not a sample of a table with weights."""
        location = self._table.location()
        if not source.is_weighted:
            if "inclusion" in self._question.get("columns", []) and not source.has_inclusion:
                raise InvalidInput(
                    f"columns: all rows of {location} have the same inclusion; leave it out"
                )
        elif self._order == "growing":
            raise InvalidInput(
                f"order: {location} samples {source.sampling}, so its first rows are no uniform "
                f"sample: take 'uniform' or 'pooled'"
            )
        elif self._span[0] > 0:
            raise InvalidInput(
                f"window: {location} samples {source.sampling}, so rows of large weight are below "
                f"{self._span[0]:g}: take a window from 0"
            )

    def _expected_rows(self, rows: int, plan: Plan) -> float:
        if self._order == "pooled":
            return rows * plan.drawn / plan.parts
        return min(1.0, plan.drawn / plan.parts / (self._span[1] - self._span[0])) * rows

    def _next_pieces(self) -> tuple[list[tuple[Pool, int, int]], Position]:
        """The rows of the next batch, from one or several groups, and the position after it."""
        epoch, group, row, batches = self._position
        pieces, needed = [], self._batch
        while needed and group < len(self._groups_of(epoch)):
            current = self._pool(epoch, group)
            last = min(row + needed, current.rows)
            if last > row:
                pieces.append((current, row, last))
            needed -= last - row
            row = last
            if row == current.rows:
                group, row = group + 1, 0
        batches += bool(pieces)
        if group == len(self._groups_of(epoch)):
            epoch, group, batches = epoch + 1, 0, 0
        return pieces, Position(epoch, group, row, batches)

    def _taken(self, pieces: list[tuple[Pool, int, int]]) -> Arrays:
        rows = sum(last - first for _, first, last in pieces)
        low, high = (rows * number // self._world for number in (self._rank, self._rank + 1))
        taken: list[Arrays] = []
        begin = 0
        for current, first, last in pieces:
            start, end = max(low - begin, 0), min(high - begin, last - first)
            if start < end or not taken:
                taken.append(current.take(first + start, first + max(start, end)))
            begin += last - first
        if len(taken) == 1:
            return taken[0]
        return {name: np.concatenate([part[name] for part in taken]) for name in taken[0]}

    def _groups_of(self, epoch: int) -> list[Group]:
        if epoch not in self._listed:
            # Keeps the current epoch and the next one, which the thread may already read.
            for old in [known for known in self._listed if known < epoch - 1]:
                del self._listed[old]
            self._listed[epoch] = groups(self._order, self._plan, self._span, self._seed, epoch)
        return self._listed[epoch]

    def _pool(self, epoch: int, group: int) -> Pool:
        """Returns the rows of a group, and starts to read the next group in the thread."""
        current = self._reading((epoch, group)).result()
        following = (epoch, group + 1)
        if group + 1 == len(self._groups_of(epoch)):
            following = (epoch + 1, 0)
        for old in [place for place in self._pools if place not in ((epoch, group), following)]:
            del self._pools[old]
        if self._epochs is None or following[0] < self._epochs:
            self._reading(following)
        return current

    def _reading(self, place: tuple[int, int]) -> Future[Pool]:
        if place not in self._pools:
            if self._reader is None:
                self._reader = ThreadPoolExecutor(1, "kubist-loader")
            epoch, group = place
            found = self._groups_of(epoch)
            is_whole = len(found) == 1
            self._pools[place] = self._reader.submit(self._read, found[group], place, is_whole)
        return self._pools[place]

    def _read(self, group: Group, place: tuple[int, int], is_whole: bool) -> Pool:
        """Reads a group in the thread. The rows of an only group stay for the next epoch."""
        if self._latest is None or self._latest[0] != group:
            arrays, examined = self._source.read(group, self._layout, self._expected_of(group))
            self._examined += examined
            self._returned += len(next(iter(arrays.values())))
            self._latest = (group, arrays) if is_whole else None
        else:
            arrays = self._latest[1]
        rows = len(next(iter(arrays.values())))
        order = shuffled(rows, self._seed, *place)
        if self._latest is None:
            # Column by column, so that at most one column is in memory twice.
            for name in arrays:
                arrays[name] = arrays[name].take(order)
            return Pool(arrays, rows)
        return Pool({name: array.take(order) for name, array in arrays.items()}, rows)

    def _expected_of(self, group: Group) -> int:
        if group.regions:
            return self._rows * len(group.regions) // self._plan.parts
        width = sum(high - low for low, high in group.windows)
        return int(self._rows * width / (self._span[1] - self._span[0]))

    def _release(self) -> None:
        if self._hold is not None and not self._is_kept:
            self._hold.release()
        self._hold = None

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.shutdown(wait=True, cancel_futures=True)
        self._reader = None
        self._pools = {}
        self._listed = {}
        self._latest = None


def _span(window: Any) -> Range:
    if window is None:
        return 0.0, 1.0
    low, high = (_box.fraction("window", end) for end in _box.pair("window", window))
    if not 0 <= low < high <= 1:
        raise InvalidInput(f"window: expected 0 <= low < high <= 1, not {window!r}")
    return low, high


def _bytes(pool: Any) -> int:
    found = _SIZE.fullmatch(pool) if isinstance(pool, str) else None
    if found is None:
        size = _box.count("pool", pool)
    else:
        number, unit, binary = found.groups()
        size = int(float(number) * (1024 if binary else 1000) ** _UNITS[unit.lower()])
    if size < _LEAST_POOL:
        raise InvalidInput(f"pool: give at least 1 MiB, not {pool!r}")
    return size


Loader.__module__ = "kubist"
