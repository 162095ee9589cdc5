"""Plays a workload with clients in threads, in an open or closed loop, and with writers."""

from __future__ import annotations

import os
import platform
import resource
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from .._errors import Error, InvalidInput
from .._shown import counted, html_table, text_table
from .draws import Draws, Question
from .metrics import Sampler
from .spec import Workload, Writes
from .targets import Target

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SAMPLE = 20_000
"""Number of rows from which parameters are drawn."""
WARM_UP = 0.1
"""The fraction of a run, at its start, whose requests do not count."""
NAP = 0.1
"""The longest sleep of a client in seconds, after which it can stop."""
ERRORS = 5
"""Maximum number of distinct error messages in a report."""
COLUMNS = {
    "at": "f8", "latency": "f8", "service": "f8", "query": object, "rows": "i8", "read": "i8",
    "cubes": "i8", "bytes": "i8", "trips": "i8", "failed": bool,
}  # fmt: skip
"""The measured values of each request, with the types of their arrays."""
OF_RUN = ("seconds", "clients", "rate", "load", "memory", "built", "commits")
"""Figures of a run that `Played.to_arrow` repeats in each row."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a query.

    Times are in seconds. In an open loop, latencies count from the time when the request was due,
    so percentiles include waits for a stalled system (no coordinated omission).
    """

    query: str
    asked: int
    failed: int
    per_second: float
    median: float
    p95: float
    p99: float
    most: float
    rows: float
    """Mean number of returned rows."""
    read: float | None
    """Mean number of decoded rows; None: not reported."""
    bytes: float
    """Mean number of bytes read."""
    trips: float
    """Mean number of requests for bytes."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of playing a workload on one system."""

    target: str
    workload: str
    seconds: float
    clients: int
    rate: float | None
    queries: list[Measured]
    """The measurements of each query, and as ``all`` for all queries."""
    commits: int
    """Number of commits of the writers."""
    load: float
    """CPU time of this process, with an embedded system, as a fraction of one core."""
    memory: int
    """The largest resident memory of this process, in bytes."""
    errors: list[str] = field(default_factory=list)
    started: float = 0.0
    """Seconds since 1970."""
    built: float | None = None
    """Time to build the table in seconds, in a comparison of designs."""
    metrics: Sequence[tuple[float, float, int, int, int]] = field(default=(), repr=False)
    """Sampled metrics of this process, in the order of `kubist.workloads.metrics.NAMES`."""
    requests: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Arrays with an element for each request: ``at`` (seconds from the start), ``latency``,
    ``service`` (seconds), ``query``, ``rows``, ``read``, ``cubes``, ``bytes``, ``trips``,
    ``failed``."""

    def _lines(self) -> tuple[list[str], list[list[str | None]], list[str]]:
        head = ["query", "asked", "1/s", "median", "p95", "p99", "max", "rows", "read each", "MB"]
        rows: list[list[str | None]] = []
        for one in self.queries:
            each = None if one.read is None or not one.rows else f"{one.read / one.rows:.2f}"
            times: list[str | None] = [
                f"{1e3 * t:.2f} ms" for t in (one.median, one.p95, one.p99, one.most)
            ]
            mega = f"{one.bytes / 1e6:.2f}"
            head_of = [one.query, f"{one.asked:,}", f"{one.per_second:.1f}"]
            rows.append([*head_of, *times, f"{one.rows:,.0f}", each or "", mega])
        loop = "closed loop" if self.rate is None else f"{self.rate:g} questions/s due"
        notes = [
            f"{self.target}: {counted(self.clients, 'client')}, {loop}, {self.seconds:.1f} s; "
            f"{self.load:.2f} cores, {self.memory / 1e6:.0f} MB"
        ]
        if self.built is not None:
            notes.append(f"built in {self.built:.1f} s")
        if self.commits:
            notes.append(f"{self.commits:,} commits by the writers")
        notes += [f"failed: {text}" for text in self.errors]
        return head, rows, notes

    def __str__(self) -> str:
        return text_table(*self._lines())

    def __repr__(self) -> str:
        every = self.queries[-1]
        return (
            f"<kubist.Played {self.workload} on {self.target}: {every.asked:,} questions, "
            f"median {1e3 * every.median:.2f} ms, p99 {1e3 * every.p99:.2f} ms>"
        )

    def _repr_html_(self) -> str:
        return html_table(*self._lines())

    def figures(self) -> dict[str, Any]:
        """Returns all figures as plain values, without the values of single requests."""
        names = [
            item.name
            for item in fields(self)
            if item.name not in ("requests", "queries", "metrics")
        ]
        return {name: getattr(self, name) for name in names} | {
            "queries": [asdict(one) for one in self.queries]
        }

    def to_arrow(self) -> pa.Table:
        """Returns a row for each request, for storage in a table and comparisons over time."""
        import pyarrow as pa

        count = len(self.requests["at"])
        said = {"run": f"{self.started:.3f}", "target": self.target, "workload": self.workload}
        columns = {
            name: pa.array([text] * count).dictionary_encode() for name, text in said.items()
        }
        columns |= {"machine": pa.array([platform.node()] * count).dictionary_encode()}
        names = pa.array(self.requests["query"]).dictionary_encode()
        numbers = {name: pa.array(of) for name, of in self.requests.items() if name != "query"}
        # Equal values in all rows take no space.
        whole = {name: pa.array([getattr(self, name)] * count, pa.float64()) for name in OF_RUN}
        return pa.table(columns | {"query": names} | numbers | whole)


class _Requests:
    def __init__(self) -> None:
        self.lines: list[tuple[float, float, float, str, int, int, int, int, int, bool]] = []
        self.errors: dict[str, int] = {}
        self.commits = 0


def play(
    workload: Workload,
    target: Target,
    *,
    seed: int = 0,
    tell: Callable[[str, float], object] = lambda _text, _share: None,
    rows: pa.Table | None = None,
) -> Played:
    """Sends the requests of a workload for its duration, and measures each response.

    Requests are drawn before they are due, so drawing does not add to the latency.
    """
    rows = target.sample(SAMPLE) if rows is None else rows
    Draws(workload, rows, seed).next()
    found = _Requests()
    begin = time.perf_counter()
    end = begin + workload.seconds
    stop = threading.Event()
    schedule = _Schedule(workload, begin, seed)
    threads = [
        threading.Thread(
            target=_client,
            args=(target, Draws(workload, rows, seed + 1 + number), schedule, found, stop),
            daemon=True,
        )
        for number in range(workload.clients)
    ]
    threads += [
        threading.Thread(
            target=_writer, args=(target, writes, rows, seed, end, found, stop), daemon=True
        )
        for writes in workload.writers
    ]
    started, used = time.time(), time.process_time()
    sampler = Sampler()
    sampler.start()
    try:
        for thread in threads:
            thread.start()
        while time.perf_counter() < end and not stop.is_set():
            share = (time.perf_counter() - begin) / workload.seconds
            tell(f"{target.name}: {len(found.lines):,} questions", min(share, 1.0))
            stop.wait(min(0.1, max(end - time.perf_counter(), 0)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sampler.stop()
    took = time.perf_counter() - begin
    if not found.lines:
        raise InvalidInput(f"{target.name}: no question was answered in {workload.seconds:g} s")
    played = _summary(workload, target, found, took, started, time.process_time() - used)
    return replace(played, metrics=tuple(sampler.samples))


class _Schedule:
    """The times of requests on the clock, in seconds; in a closed loop always now."""

    def __init__(self, workload: Workload, begin: float, seed: int) -> None:
        import numpy as np

        self.end = begin + workload.seconds
        self._rate, self.think = workload.rate, workload.think
        self._next = begin
        self._random = np.random.default_rng(seed)
        self._lock = threading.Lock()

    def due(self) -> float | None:
        """The next time of a Poisson process; None after the end of the run."""
        now = time.perf_counter()
        if self._rate is None:
            return now if now < self.end else None
        with self._lock:
            self._next += self._random.exponential(1 / self._rate)
            return self._next if self._next < self.end else None


def _client(
    target: Target, draws: Draws, schedule: _Schedule, found: _Requests, stop: threading.Event
) -> None:
    while not stop.is_set():
        question = draws.next()
        if (due := schedule.due()) is None:
            return
        while (wait := due - time.perf_counter()) > 0:
            # Sleeping takes less CPU time than waiting for the event.
            time.sleep(min(wait, NAP))
            if stop.is_set():
                return
        start = time.perf_counter()
        try:
            answered = target.ask(question)
            read = -1 if answered.read is None else answered.read
            cost = (answered.rows, read, answered.cubes, answered.bytes, answered.trips)
            failed = False
        except Exception as error:
            _note(found, question, error)
            cost, failed = (0, -1, 0, 0, 0), True
        done = time.perf_counter()
        found.lines.append((due, done - due, done - start, question.name, *cost, failed))
        if schedule.think and stop.wait(schedule.think):
            return


def _note(found: _Requests, question: Question, error: Exception) -> None:
    text = f"{question.name}: {' '.join(str(error).split()) or type(error).__name__}"
    found.errors[text] = found.errors.get(text, 0) + 1


def _writer(
    target: Target,
    writes: Writes,
    rows: pa.Table,
    seed: int,
    end: float,
    found: _Requests,
    stop: threading.Event,
) -> None:
    import numpy as np

    random = np.random.default_rng(seed)
    due = time.perf_counter()
    while not stop.is_set() and due < end:
        chosen = rows.take(random.integers(rows.num_rows, size=writes.rows))
        start = time.perf_counter()
        failed = False
        try:
            target.append(chosen)
            found.commits += 1
        except Error as error:
            failed = True
            text = f"{writes.name}: {error}"
            found.errors[text] = found.errors.get(text, 0) + 1
        done = time.perf_counter()
        name = f"commit of {writes.name}"
        found.lines.append((due, done - due, done - start, name, writes.rows, -1, 0, 0, 0, failed))
        due += writes.every
        if stop.wait(max(due - time.perf_counter(), 0)):
            return


def _summary(
    workload: Workload,
    target: Target,
    found: _Requests,
    took: float,
    started: float,
    used: float,
) -> Played:
    import numpy as np

    begin = min(line[0] for line in found.lines)
    lines = sorted(found.lines)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        name: np.array([line[at] for line in lines], dtype=kind)
        for at, (name, kind) in enumerate(COLUMNS.items())
    }
    arrays["at"] -= begin
    writers = [f"commit of {writes.name}" for writes in workload.writers]
    names = [query.name for query in workload.queries]
    errors = sorted(found.errors.items(), key=lambda item: -item[1])
    return Played(
        target=target.name,
        workload=workload.name,
        seconds=took,
        clients=workload.clients,
        rate=workload.rate,
        queries=measured(arrays, workload.seconds, [*names, *writers], names),
        commits=found.commits,
        load=used / took,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if os.uname().sysname == "Darwin" else 1024),
        errors=[f"{text} ({count:,} times)" for text, count in errors[:ERRORS]],
        started=started,
        requests=arrays,
    )


def measured(
    arrays: Mapping[str, Any], seconds: float, known: Sequence[str], queries: Sequence[str]
) -> list[Measured]:
    """The figures for each name in ``known``, and for all queries together."""
    import numpy as np

    counted = arrays["at"] >= WARM_UP * seconds
    if not counted.any():
        counted[:] = True
    window = seconds * (1 - WARM_UP)
    found = [
        _measured(name, arrays, counted & (arrays["query"] == name), window)
        for name in known
        if (counted & (arrays["query"] == name)).any()
    ]
    is_query = np.isin(arrays["query"], list(queries))
    return [*found, _measured("all", arrays, counted & is_query, window)]


def _measured(
    name: str, arrays: Mapping[str, Any], chosen: np.ndarray[Any, Any], seconds: float
) -> Measured:
    import numpy as np

    good = chosen & ~arrays["failed"]
    latency = arrays["latency"][good]
    if not len(latency):
        latency = np.array([np.nan])
    median, p95, p99 = np.percentile(latency, [50, 95, 99])
    read = arrays["read"][good]
    tells = len(read) and (read >= 0).all()

    def mean(of: str) -> float:
        values = arrays[of][good]
        return float(values.mean()) if len(values) else 0.0

    return Measured(
        query=name,
        asked=int(chosen.sum()),
        failed=int((chosen & arrays["failed"]).sum()),
        per_second=float(good.sum() / seconds),
        median=float(median),
        p95=float(p95),
        p99=float(p99),
        most=float(latency.max()),
        rows=mean("rows"),
        read=mean("read") if tells else None,
        bytes=mean("bytes"),
        trips=mean("trips"),
    )


def side_by_side(played: Sequence[Played]) -> tuple[list[str], list[list[str | None]]]:
    """A line for each system: median and p99 by query, and responses per second."""
    names = list(dict.fromkeys(one.query for run in played for one in run.queries))
    head = ["", *(f"{name}{what}" for name in names for what in ("", ", p99")), "answers/s"]
    rows: list[list[str | None]] = []
    for run in played:
        known = {one.query: one for one in run.queries}
        row: list[str | None] = [run.target]
        for name in names:
            one = known.get(name)
            row += ["", ""] if one is None else [f"{1e3 * t:.2f} ms" for t in (one.median, one.p99)]
        rows.append([*row, f"{run.queries[-1].per_second:.1f}"])
    return head, rows


def compared(played: Sequence[Played]) -> str:
    """Returns several systems side by side: median and p99 by query, and throughput."""
    return text_table(*side_by_side(played), [])
