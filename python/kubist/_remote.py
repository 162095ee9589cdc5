"""Tables that `kubist view` serves, with the same queries and results as in a directory.

The engine decodes the HTTP responses, so no other library is needed. The connection is not
encrypted; use ssh for another machine (`kubist._tunnel`).
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import _box, _errors, _kubist
from ._errors import Error, InvalidInput, NotATable, StorageError
from ._looks import Looks
from ._options import checked_options
from ._tunnel import Tunnel
from ._view import View

if TYPE_CHECKING:
    from ._arguments import Seconds
    from ._spec import EstimateRequest, QuerySpec
    from ._widget import Widget

_KINDS: dict[str, type[Error]] = {
    "invalid": InvalidInput,
    "too_large": InvalidInput,
    "no_such_table": NotATable,
    "not_a_table": NotATable,
    "nothing_here": NotATable,
    "not_here": _errors.NotHere,
    "gone": _errors.SnapshotExpired,
    "replaced": _errors.TableReplaced,
    "busy": _errors.Busy,
    "damaged": _errors.Damaged,
    "newer": _errors.NewerFormat,
    "unavailable": _errors.Unavailable,
    "no_space": _errors.NoSpace,
    "not_permitted": _errors.NotPermitted,
    "token": _errors.Refused,
    "forbidden": _errors.Refused,
    "too_long": _errors.Refused,
}

_WAIT = 20.0
"""Seconds that the server may wait for a commit before it responds."""


@checked_options()
def connect(
    url: str, table: str | None = None, *, token: str | None = None, timeout: float = 300
) -> RemoteTable:
    """Connects to a table that ``kubist view`` serves, or that is reachable through ssh.

    Parameters
    ----------
    url
        The address that ``kubist view`` printed, as ``"http://127.0.0.1:8080"``, or the address in
        the browser; or ``"ssh://user@host/path/run.kubist"``, which runs ``kubist view`` on that
        host until this table is closed, if ``kubist`` is installed there. ssh asks for passwords on
        the terminal.
    table
        The name of the table; None: the table in the address, or the only table of the server.
    token
        The token of the server, if the address does not contain it (``?token=...``) or use ssh.
    timeout
        A call fails after this time in seconds without a response.

    Returns
    -------
    RemoteTable
        The table; each call reads the newest commits.

    Raises
    ------
    NotATable
        The server does not have the table, or is not a Kubist server.
    InvalidInput
        The server has several tables and ``table`` is not given, or a token is given for ssh.
    StorageError
        The server does not respond.

    Examples
    --------
    >>> t = kubist.connect("http://127.0.0.1:8080")
    >>> t.query(box={"x": (0.1, 0.2)}, sample=0.01).to_pandas()
    """
    is_behind_ssh = url.startswith("ssh://")
    if is_behind_ssh and token is not None:
        raise InvalidInput("token: ssh:// generates its own token, so do not give one")
    tunnel = Tunnel(url) if is_behind_ssh else None
    server = _Server(url if tunnel is None else tunnel.url, token, timeout, tunnel)
    try:
        names = [found["name"] for found in server.json("GET", "/v1/tables")["tables"]]
    except (KeyError, TypeError, ValueError):
        raise NotATable(f"{server.url}: the server at this address is not Kubist") from None
    table = table or server.table
    if table is None:
        if len(names) != 1:
            raise InvalidInput(
                f"{server.url} serves {len(names)} tables; name one of {', '.join(names)}"
            )
        table = names[0]
    if table not in names:
        known = ", ".join(names) or "none"
        raise NotATable(f"{server.url} serves no table {table!r}, but {known}")
    return RemoteTable(server, table)


class _Server:
    def __init__(
        self, url: str, token: str | None, timeout: float, tunnel: Tunnel | None = None
    ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            # The message of the error quotes the address, which may contain a password.
            is_address = False
        if not is_address:
            shown = _kubist.without_password(url)
            raise InvalidInput(f"an address is http://HOST:PORT, not {shown!r}")
        said = urllib.parse.parse_qs(f"{parts.query}&{parts.fragment}")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self.token = token or said.get("token", [None])[0]
        self.table = said.get("table", [None])[0]
        self.tunnel = tunnel
        self._connection: Callable[[], http.client.HTTPConnection] = lambda: (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )(parts.hostname or "", port, timeout=timeout)

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> _Answer:
        """Sends a request; returns the unread response, or raises its error."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        text = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            text = json.dumps(body)
        try:
            connection = self._connection()
            connection.request(method, path, text, headers | {"Connection": "close"})
            answer = _Answer(self, connection)
            if answer.status == 200:
                return answer
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise StorageError(f"{self.url}: {error}") from None
        try:
            problem = json.loads(said)["error"]
            kind, message = _KINDS.get(problem["code"], StorageError), problem["message"]
        except (ValueError, KeyError, TypeError):
            kind = NotATable
            message = f"{self.url}: the server at this address is not Kubist ({answer.status})"
        raise kind(message)

    def json(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        return json.loads(self.ask(method, path, body).read())


class _Answer:
    """A streamed response, which keeps its tunnel open. Raises `StorageError` if incomplete."""

    def __init__(self, server: _Server, connection: http.client.HTTPConnection) -> None:
        self._socket = connection.sock
        self._answer = connection.getresponse()
        if connection.sock is not None:
            connection.sock.close()  # the response keeps it open
        self._server = server
        self.status = self._answer.status
        length = self._answer.headers.get("Content-Length")
        self._missing = None if length is None else int(length)
        self._open = True

    def header(self, name: str) -> str | None:
        return self._answer.headers.get(name)

    def read1(self, most: int) -> bytes:
        try:
            part = self._answer.read1(most) if self._open else b""
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._open:
                return b""
            why = str(error) or type(error).__name__
            raise StorageError(f"{self._server.url}: the response is incomplete: {why}") from error
        if self._missing is not None:
            self._missing -= len(part)
            if not part and self._missing > 0 and self._open:
                raise StorageError(f"{self._server.url}: the response is incomplete")
        return part

    def read(self) -> bytes:
        parts = list(iter(lambda: self.read1(1 << 16), b""))
        self.close()
        return b"".join(parts)

    def close(self) -> None:
        """Closes the connection, also while another thread reads."""
        if self._open:
            self._open = False
            try:
                self._socket.shutdown(2)
            except OSError:
                pass  # the server closed it first
            self._answer.close()

    def stats(self) -> str:
        raise _errors.Refused("a server does not report the cost of its results")


class PinnedSnapshot:
    """A remote snapshot, pinned by its first response."""

    def __init__(self, server: _Server, name: str, about: dict[str, Any] | None = None) -> None:
        self._server = server
        self._name = name
        self._known = about
        self._version: str | None = None if about is None else str(about["version"])

    def token(self) -> str:
        if self._version is None:
            self.described()
        return str(self._version)

    @property
    def path(self) -> str:
        return f"/v1/tables/{urllib.parse.quote(self._name)}"

    def described(self) -> dict[str, Any]:
        """Returns the server's description of the table, and pins the snapshot."""
        if self._known is None:
            version = "" if self._version is None else urllib.parse.quote(self._version)
            at = f"?version={version}" if version else ""
            self._known = self._server.json("GET", f"{self.path}{at}")
            self._version = str(self._known["version"])
        known: dict[str, Any] = self._known
        return known

    def _ask(self, what: str, asked: Mapping[str, object]) -> _Answer:
        version = {} if self._version is None else {"version": self._version}
        answer = self._server.ask("POST", f"{self.path}/{what}", {**asked, **version})
        self._version = self._version or answer.header("kubist-version")
        return answer

    def _stream(self, what: str, asked: Mapping[str, object]) -> _kubist.Wire:
        answer = self._ask(what, asked)
        return _kubist.Wire(answer, float(answer.header("kubist-fraction") or 1))

    def schema(self) -> _kubist.Schema:
        return self.query({"limit": 0}).schema()

    def columns(self) -> str:
        return json.dumps(self.described()["columns"])

    def metadata(self) -> str:
        return json.dumps(self.described()["metadata"])

    def about(self) -> str:
        return json.dumps(self._located(self.described()))

    def info(self) -> str:
        self.described()
        version = urllib.parse.quote(str(self._version))
        return json.dumps(
            self._located(self._server.json("GET", f"{self.path}/info?version={version}"))
        )

    def _located(self, known: dict[str, Any]) -> dict[str, Any]:
        return known | {"location": f"{self._server.url}{self.path}"}

    def rows(self) -> int:
        return int(self.described()["rows"])

    def query(self, query: QuerySpec) -> _kubist.Wire:
        return self._stream("query", query)

    def trajectories(self, through: QuerySpec, by: str, query: QuerySpec) -> _kubist.Wire:
        return self._stream("trajectories", {**through, **query, "by": by})

    def refine(self, query: QuerySpec, start: float, factor: float) -> _Refine:
        if not 0 < start <= 1:
            raise InvalidInput(f"start must be in (0, 1], found {start:g}")
        if not 1 < factor < math.inf:
            raise InvalidInput(f"factor must be above 1, found {factor:g}")
        if start < _FINEST:
            raise InvalidInput(f"start must be what priorities tell apart, found {start:g}")
        steps = 1 + math.ceil(-math.log(start) / math.log(factor))
        if steps > _MOST_STEPS:
            raise InvalidInput(
                f"refine: from start {start:g} a factor of {factor!r} takes {steps} steps, and at "
                f"most {_MOST_STEPS} are taken: take a larger factor or start"
            )
        # All windows must refer to one snapshot.
        self.described()
        return _Refine(self, query, start, factor)

    def count(self, query: QuerySpec) -> int:
        if query.keys() & {"limit", "per_cell", "order_by"}:
            # The server counts matching rows only, so the number of selected rows needs the query.
            wire = self.query({**query, "columns": [self.described()["columns"][0]["name"]]})
            while wire.next_batch() is not None:
                pass
            return wire.rows()
        return int(json.loads(self._ask("count", query).read())["count"])

    def estimate(self, request: EstimateRequest) -> _Figures:
        return _Figures(self._stream("estimate", {**request, "format": "arrow"}))

    def estimates(self, request: EstimateRequest) -> _Estimates:
        said = {**request, "format": "arrow", "progressive": True}
        return _Estimates(self._stream("estimate", said))


_MOST_STEPS = 10_000
"""Maximum number of steps of a refinement, as in the engine."""

_FINEST = 2.0**-64
"""Smallest difference of priorities."""


class _Refine:
    def __init__(self, pinned: PinnedSnapshot, query: QuerySpec, end: float, factor: float) -> None:
        self._pin, self._query = pinned, query
        self._begin, self._end, self._factor = 0.0, end, factor

    def next_step(self) -> _kubist.Wire | None:
        if self._begin >= 1:
            return None
        step = self._pin.query({**self._query, "window": (self._begin, self._end)})
        self._begin, self._end = self._end, min(1.0, self._end * self._factor)
        return step


class _Figures:
    def __init__(self, wire: _kubist.Wire) -> None:
        self._batch = wire.next_batch()
        # Read this stream to its end, so that the next estimate can follow.
        wire.next_batch()
        self._about = wire.about()

    def about(self) -> str:
        return self._about

    def batch(self) -> _kubist.Batch:
        if self._batch is None:
            raise StorageError("the response is incomplete: there are no figures")
        return self._batch


class _Estimates:
    """Estimates as they arrive; closing the response stops the server's work."""

    def __init__(self, wire: _kubist.Wire) -> None:
        self._wire = wire
        self._is_first = True

    def next_step(self) -> _Figures | None:
        wire = self._wire if self._is_first else self._wire.following()
        self._is_first = False
        return None if wire is None else _Figures(wire)


class _Remote(Looks):
    """Methods of remote tables and their snapshots.

    The server limits requests: see ``docs/http.md``.
    """

    def __init__(self, server: _Server, name: str) -> None:
        self._server = server
        self.name = name

    def __repr__(self) -> str:
        return f"<kubist.{type(self).__name__} {self.name!r} at {self._server.url}>"


class RemoteTable(_Remote):
    """A table that ``kubist view`` serves, from `kubist.connect`.

    It has the query methods of a `Table` (`query`, `refine`, `estimate`, `count`, `trajectories`,
    `scan`, `to_dataset`, `info`). Every call reads the newest commits; `snapshot` pins them.
    """

    def _pinned(self) -> PinnedSnapshot:
        return PinnedSnapshot(self._server, self.name)

    def snapshot(self) -> RemoteSnapshot:
        """Returns the newest snapshot, which is valid until the server deletes its files."""
        pinned = self._pinned()
        pinned.described()
        return RemoteSnapshot(self._server, self.name, pinned)

    def at(self, token: str) -> RemoteSnapshot:
        """Opens the snapshot of a token, like `Table.at`.

        Raises
        ------
        SnapshotExpired
            `Table.clean` has deleted files of the snapshot.
        TableReplaced
            The token belongs to another table, or to another history of this table.
        InvalidInput
            The text is not a token.
        """
        token = urllib.parse.quote(_box.token(token))
        pinned = self._pinned()
        about = self._server.json("GET", f"{pinned.path}?version={token}")
        pinned = PinnedSnapshot(self._server, self.name, about)
        return RemoteSnapshot(self._server, self.name, pinned)

    @checked_options()
    def watch(
        self, timeout: Seconds | None = None, since: RemoteSnapshot | None = None
    ) -> Iterator[RemoteSnapshot]:
        """Yields a snapshot now, and a new one after every commit, like `Table.watch`."""
        patience = math.inf if timeout is None else _box.seconds("timeout", timeout)
        if since is None:
            seen = self.snapshot()
            yield seen
        elif isinstance(since, RemoteSnapshot):
            seen = since
        else:
            raise InvalidInput(f"since must be a snapshot of this table, not {since!r}")
        end = time.monotonic() + patience
        while True:
            left = max(end - time.monotonic(), 0)
            version = urllib.parse.quote(seen.token)
            path = f"{seen._pin.path}/changes?version={version}&patience={min(_WAIT, left):g}"
            pinned = PinnedSnapshot(self._server, self.name, self._server.json("GET", path))
            found = RemoteSnapshot(self._server, self.name, pinned)
            if found.token != seen.token:
                seen = found
                yield seen
                end = time.monotonic() + patience
            elif time.monotonic() >= end:
                return

    def view(self, *, open: bool = True) -> View:
        """Opens the explorer page of this table on its server, like `Table.view`."""
        token = f"?token={urllib.parse.quote(self._server.token)}" if self._server.token else ""
        table = urllib.parse.urlencode({"table": self.name})
        return View(f"{self._server.url}/{token}#{table}", None, open=bool(open))

    def widget(self, *, height: int = 560) -> Widget:
        """Returns the explorer page as a notebook cell, like `Table.widget`."""
        from ._widget import Widget

        return Widget(self, height=height)

    def close(self) -> None:
        """Closes the ssh tunnel, if there is one; garbage collection does this too."""
        if self._server.tunnel is not None:
            self._server.tunnel.close()


class RemoteSnapshot(_Remote):
    """A snapshot of a remote table. Raises `SnapshotExpired` after its files were deleted."""

    def __init__(self, server: _Server, name: str, pinned: PinnedSnapshot) -> None:
        super().__init__(server, name)
        self._pin = pinned

    @property
    def token(self) -> str:
        """Text by which `Table.at` opens this snapshot again, in any process and over HTTP."""
        return self._pinned().token()

    def _pinned(self) -> PinnedSnapshot:
        return self._pin


for _public in (RemoteTable, RemoteSnapshot, connect):
    _public.__module__ = "kubist"
del _public
