"""A table behind `kubist view`, asked over HTTP.

The same questions as to a table in a directory; pyarrow reads the answers. An address
of another machine is best reached through ``ssh -L``: the connection is not encrypted.
"""

from __future__ import annotations

import http.client
import json
import math
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _box, _estimate
from ._data import need
from ._errors import (
    Busy,
    Damaged,
    Error,
    InvalidInput,
    NewerFormat,
    NotATable,
    Refused,
    SnapshotExpired,
    StorageError,
)
from ._estimate import Estimate
from ._result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from ._questions import Box

_KINDS: dict[str, type[Error]] = {
    "invalid": InvalidInput,
    "too_large": InvalidInput,
    "no_such_table": NotATable,
    "not_a_table": NotATable,
    "nothing_here": NotATable,
    "gone": SnapshotExpired,
    "busy": Busy,
    "damaged": Damaged,
    "newer": NewerFormat,
    "token": Refused,
    "forbidden": Refused,
    "too_long": Refused,
}


def connect(
    url: str, table: str | None = None, *, token: str | None = None, timeout: float = 300
) -> RemoteTable:
    """Connects to a table that ``kubist view`` serves.

    Args:
        url: The address that it printed, as ``"http://127.0.0.1:8080"``.
        table: Which of its tables; None: the only one.
        token: What the server demands, if it demands one; it may stand in the
            address too, as ``?token=...``.
        timeout: Seconds without a sign of the server after which a call fails.

    Returns:
        The table. It follows the commits, as one in a directory does.

    Raises:
        NotATable: There is no such table, or no Kubist at this address.
        StorageError: Nobody answers.

    Example:
        >>> t = kubist.connect("http://127.0.0.1:8080")
        >>> t.query(box={"x": (0.1, 0.2)}, precision=0.01).to_pandas()
    """
    server = _Server(url, token, timeout)
    try:
        names = [found["name"] for found in server.json("GET", "/v1/tables")["tables"]]
    except (KeyError, TypeError, ValueError):
        raise NotATable(f"{url}: what answers there is no Kubist") from None
    if table is None:
        if len(names) != 1:
            raise InvalidInput(f"{url} serves {len(names)} tables, say which: {', '.join(names)}")
        table = names[0]
    if table not in names:
        raise NotATable(f"{url} serves no table {table!r}, but {', '.join(names) or 'none'}")
    return RemoteTable(server, table)


class _Server:
    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"an address is http://HOST:PORT, not {url!r}")
        shown = urllib.parse.parse_qs(parts.query).get("token", [None])[0]
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.token = token or shown
        self._connection: Callable[[], http.client.HTTPConnection] = lambda: (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )(parts.hostname or "", parts.port, timeout=timeout)

    def ask(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        """The answer, which is read while it comes; what is no success raises."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        text = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            text = json.dumps(body, allow_nan=False)
        try:
            connection = self._connection()
            connection.request(method, path, text, headers | {"Connection": "close"})
            answer = connection.getresponse()
            if connection.sock is not None:
                connection.sock.close()  # the answer holds on to it until it is read
            if answer.status == 200:
                return answer
            with answer:
                said = answer.read(1 << 16)
        except (OSError, http.client.HTTPException) as error:
            raise StorageError(f"{self.url}: {error}") from None
        try:
            problem = json.loads(said)["error"]
            kind, message = _KINDS.get(problem["code"], StorageError), problem["message"]
        except (ValueError, KeyError, TypeError):
            kind, message = NotATable, f"{self.url}: no Kubist answers there ({answer.status})"
        raise kind(message)

    def json(self, method: str, path: str, body: Any = None) -> Any:
        with self.ask(method, path, body) as answer:
            try:
                return json.loads(answer.read())
            except (OSError, http.client.HTTPException) as error:
                raise StorageError(f"{self.url}: {error}") from None


class _Asking:
    """What can be asked of a table and of one moment of it alike."""

    def __init__(self, server: _Server, name: str) -> None:
        self._server = server
        self.name = name

    def _version(self) -> str | None:
        raise NotImplementedError

    def _about(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def schema(self) -> pa.Schema:
        """The columns, as a `pyarrow.Schema`."""
        return self.query(limit=0).schema

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one."""
        columns = self._about()["columns"]
        return {column["name"]: column["unit"] for column in columns if column["unit"] is not None}

    @property
    def metadata(self) -> dict[str, Any]:
        """What is said about the table."""
        metadata: dict[str, Any] = self._about()["metadata"]
        return metadata

    def query(
        self,
        box: Box | None = None,
        precision: float | None = None,
        window: tuple[float, float] | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        steps: int | tuple[int | None, int | None] | None = None,
    ) -> Result:
        """Asks for records: as `Table.query`, whose arguments these are.

        Ends of the box are finite numbers, text, dates and times. Over HTTP there is no
        ``per_cell``, and a ``limit`` is at most 5 million.
        """
        asked = self._region(box=box, precision=precision, window=window, where=where, steps=steps)
        if limit is not None:
            asked["limit"] = _box.count("limit", limit)
        if columns is not None:
            asked["columns"] = _box.names("columns", columns)
        return self._ask(asked)

    def _ask(self, asked: dict[str, Any]) -> Result:
        answer = self._server.ask("POST", f"{self._path}/query", asked)
        stream: Any = _RemoteStream(answer)
        return _RemoteResult(stream)

    def refine(
        self,
        box: Box | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        start: float = 0.001,
        factor: float = 8,
    ) -> Iterator[Result]:
        """Answers from coarse to fine, each record once: as `Table.refine`."""
        start, factor = _box.number("start", start), _box.number("factor", factor)
        if not 0 < start <= 1:
            raise InvalidInput(f"start must be in (0, 1], found {start:g}")
        if not 1 < factor < math.inf:
            raise InvalidInput(f"factor must be above 1, found {factor:g}")
        asked = self._region(box=box, where=where)
        if columns is not None:
            asked["columns"] = _box.names("columns", columns)
        # All windows are of one moment, or a record of a later commit would be missed.
        asked["version"] = self._version() or self._about()["version"]
        return self._windows(asked, start, factor)

    def _windows(self, asked: dict[str, Any], end: float, factor: float) -> Iterator[Result]:
        begin = 0.0
        while begin < 1:
            yield self._ask(asked | {"window": [begin, end]})
            begin, end = end, min(1.0, end * factor)

    def estimate(
        self,
        aggregates: str | Sequence[str],
        box: Box | None = None,
        where: str | None = None,
        group_by: str | Sequence[str] | None = None,
        *,
        error: float | None = None,
        absolute: float | None = None,
        within: float | None = None,
        rows: int | None = None,
        bytes: int | None = None,
        precision: float | None = None,
        window: tuple[float, float] | None = None,
        steps: int | tuple[int | None, int | None] | None = None,
        confidence: float = 0.95,
        tails: float | None = None,
    ) -> Estimate:
        """Aggregates of a sample, with intervals: as `Table.estimate`, read by the server."""
        asked = self._region(box=box, precision=precision, window=window, where=where, steps=steps)
        asked |= {"aggregates": _estimate.aggregates(aggregates), "format": "arrow"}
        if group_by is not None:
            groups = [group_by] if isinstance(group_by, str) else group_by
            asked["group_by"] = _box.names("group_by", groups)
        numbers = {"error": error, "absolute": absolute, "within": within, "tails": tails}
        for name, value in (numbers | {"confidence": confidence}).items():
            if value is not None:
                asked[name] = _finite(name, value)
        for name, whole in {"rows": rows, "bytes": bytes}.items():
            if whole is not None:
                asked[name] = _box.count(name, whole)
        figures: Any = _RemoteFigures(self._server.ask("POST", f"{self._path}/estimate", asked))
        return Estimate(figures)

    def count(
        self,
        box: Box | None = None,
        where: str | None = None,
        precision: float | None = None,
        window: tuple[float, float] | None = None,
    ) -> int:
        """The exact number of records that `query` would return for these arguments."""
        asked = self._region(box=box, where=where, precision=precision, window=window)
        return int(self._server.json("POST", f"{self._path}/count", asked)["count"])

    def __len__(self) -> int:
        return int(self._about()["rows"])

    def __bool__(self) -> bool:
        return True  # a handle is something, also while the table is empty

    def __repr__(self) -> str:
        return f"<kubist.{type(self).__name__} {self.name!r} at {self._server.url}>"

    @property
    def _path(self) -> str:
        return f"/v1/tables/{urllib.parse.quote(self.name)}"

    def _region(
        self,
        box: Any = None,
        precision: Any = None,
        window: Any = None,
        where: Any = None,
        steps: Any = None,
    ) -> dict[str, Any]:
        if where is not None and not isinstance(where, str):
            raise InvalidInput(f"where must be an SQL expression as a string, not {where!r}")
        region: dict[str, Any] = {}
        if box is not None:
            bounds = _box.bounds(box, lambda: self.schema)
            region["box"] = {name: [_end(name, end) for end in ends] for name, *ends in bounds}
        if where is not None:
            region["where"] = where
        if precision is not None:
            region["precision"] = _finite("precision", precision)
        if window is not None:
            region["window"] = [_finite("window", end) for end in _box.pair("window", window)]
        if steps is not None:
            ends = (steps, steps) if isinstance(steps, int) else _box.pair("steps", steps)
            region["steps"] = [None if end is None else _box.step("steps", end) for end in ends]
        if (version := self._version()) is not None:
            region["version"] = version
        return region


class RemoteTable(_Asking):
    """A table that ``kubist view`` serves: what `kubist.connect` returns.

    Every call sees the latest commits; `snapshot` stays with one moment.
    """

    def _version(self) -> None:
        return None

    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = self._server.json("GET", self._path)
        return about

    def snapshot(self) -> RemoteSnapshot:
        """The table as it is now. The server keeps the newest four moments at hand."""
        return RemoteSnapshot(self._server, self.name, self._about())

    def watch(self, timeout: float | None = None) -> Iterator[RemoteSnapshot]:
        """Yields a snapshot now, and a new one after every commit: as `Table.watch`."""
        left = math.inf if timeout is None else _box.number("timeout", timeout, low=0)
        seen = self.snapshot()
        yield seen
        waited = 0.0
        while waited < left:
            patience = min(20.0, left - waited)
            version = urllib.parse.quote(seen.version)
            path = f"{self._path}/news?version={version}&patience={patience:g}"
            found = RemoteSnapshot(self._server, self.name, self._server.json("GET", path))
            waited += patience
            if found.version != seen.version:
                seen, waited = found, 0.0
                yield seen


class RemoteSnapshot(_Asking):
    """One moment of a remote table; `SnapshotExpired` once the server has let go of it."""

    def __init__(self, server: _Server, name: str, about: dict[str, Any]) -> None:
        super().__init__(server, name)
        self._known = about

    @property
    def version(self) -> str:
        """What the server calls this moment."""
        return str(self._known["version"])

    def _version(self) -> str:
        return self.version

    def _about(self) -> dict[str, Any]:
        return self._known


class _RemoteStream:
    """An Arrow answer as it comes: what a `Result` reads."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        ipc = need("pyarrow", "a remote answer").ipc
        self._answer = answer
        self._precision = float(answer.headers.get("kubist-precision") or 1)
        with _cut_off():
            self._reader = ipc.open_stream(answer)
        self.rows = 0

    def collect(self) -> Any:
        with _cut_off():
            table = self._reader.read_all()
        self.rows += table.num_rows
        return table

    def next_batch(self) -> Any:
        with _cut_off():
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return None
        self.rows += batch.num_rows
        return batch

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)

    def schema(self) -> Any:
        return self._reader.schema

    def precision(self) -> float:
        return self._precision

    def close(self) -> None:
        self._answer.close()


class _RemoteFigures:
    """What an `Estimate` shows."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        stream = _RemoteStream(answer)
        self._batch = stream.next_batch()
        self._about = stream.schema().metadata[b"kubist"].decode()
        stream.close()

    def about(self) -> str:
        return self._about

    def batch(self) -> Any:
        return self._batch


class _cut_off:
    """The end of an answer that did not come, in the words of Kubist."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        arrow = need("pyarrow", "a remote answer").ArrowException
        if isinstance(error, (OSError, http.client.HTTPException, arrow)):
            raise StorageError(f"the answer was cut off: {error or kind}") from error


class _RemoteResult(Result):
    _stream: Any

    @property
    def stats(self) -> Any:
        """The server keeps to itself what an answer cost."""
        raise Refused("what a remote answer cost is not known here")

    def __repr__(self) -> str:
        if self._used is None:
            return f"<kubist.Result not yet read: precision {self._stream.precision():.3g}>"
        return f"<kubist.Result read by {self._used}: {self._stream.rows:,} rows so far>"


def _finite(what: str, value: Any) -> float:
    """A number that JSON can say."""
    number = _box.number(what, value)
    if math.isinf(number):
        raise InvalidInput(f"{what}: {number} is not finite")
    return number


def _end(column: str, end: Any) -> Any:
    if isinstance(end, bytes) or (isinstance(end, float) and not math.isfinite(end)):
        raise InvalidInput(f"box: {column}: {end!r} cannot be said over HTTP; `where` can say it")
    return end


for _public in (RemoteTable, RemoteSnapshot, connect):
    _public.__module__ = "kubist"
