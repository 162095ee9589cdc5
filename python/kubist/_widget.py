"""The explorer page in a notebook: `kubist.Widget`, over the notebook's own connection.

The browser needs no port of this machine. widget.js sends the page's requests as Jupyter messages,
which go to the server that `Table.view` starts for this process (or to a remote table's server),
and the response is streamed back.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ._errors import InvalidInput
from ._kubist import without_password
from ._libraries import need
from ._result import Result
from ._view import View

need("anywidget", "a widget", extra="widget")

import anywidget  # noqa: E402
import traitlets  # noqa: E402

# Bytes per message, large enough for a small overhead.
PART = 1 << 18


class Viewed(Protocol):
    def view(self, *, open: bool = True) -> View: ...

    def at(self, token: str) -> Any: ...


class Widget(anywidget.AnyWidget):  # type: ignore[misc,unused-ignore]
    """The explorer page of a table in a notebook cell, as from `Table.widget`.

    It works wherever the notebook works, such as behind JupyterHub, because all data uses the
    notebook's connection. The page waits while a cell computes.

    Parameters
    ----------
    table
        An open table, or a remote one.
    height
        The cell's height in pixels.

    Raises
    ------
    ImportError
        anywidget is missing; the message has the install command.
    StorageError
        The command ``kubist``, which serves the page, is missing.

    Examples
    --------
    >>> w = kubist.Widget(t)
    >>> w                                     # look, draw a box, type a condition
    >>> w.region, w.filter
    >>> w.result(columns=["x", "ux"]).to_pandas()
    """

    _esm = Path(__file__).with_name("widget.js")
    height = traitlets.Int(560).tag(sync=True)
    _address = traitlets.Unicode("").tag(sync=True)
    _python = traitlets.Unicode("").tag(sync=True)
    _selection = traitlets.Dict().tag(sync=True)

    def __init__(self, table: Viewed, *, height: int = 560) -> None:
        if not isinstance(height, int) or height < 100:
            raise InvalidInput(f"height: expected at least 100 pixels, not {height!r}")
        self._table = table
        self._view = table.view(open=False)
        self._server = urllib.parse.urlsplit(self._view.url)
        said = urllib.parse.parse_qs(self._server.query)
        self._token = said.get("token", [None])[0]
        named = urllib.parse.parse_qs(self._server.fragment).get("table", [""])[0]
        self._answers: dict[str, _Answer] = {}
        location = getattr(table, "location", None)
        server = f"{self._server.scheme}://{self._server.netloc}"
        super().__init__(
            height=height,
            _address=urllib.parse.urlencode({"table": named}) if named else "",
            _python=f"kubist.connect({server!r}, {named!r})"
            if location is None
            else f"kubist.open({without_password(location)!r})",
        )
        self.on_msg(self._take)

    @property
    def region(self) -> dict[str, tuple[Any, Any]]:
        """The selection as a box: the region of interest, the filters and the time shown."""
        return {name: (low, high) for name, (low, high) in self._selection.get("box", {}).items()}

    @property
    def filter(self) -> str | None:
        """The condition that was typed into the page."""
        where: str | None = self._selection.get("where")
        return where

    def result(self, **asked: Any) -> Result:
        """Returns the selected rows, from the snapshot that the page shows.

        Parameters
        ----------
        asked
            As for `kubist.Table.query`, except ``box`` and ``where``.

        Raises
        ------
        InvalidInput
            No page has been shown yet.
        """
        version = self._selection.get("version")
        if version is None:
            raise InvalidInput("nothing is selected yet: show the widget in a cell first")
        found: Result = self._table.at(version).query(box=self.region, where=self.filter, **asked)
        return found

    def close(self) -> None:
        """Closes the cell and its server."""
        for answer in list(self._answers.values()):
            answer.stop()
        super().close()
        if hasattr(self, "_view"):
            self._view.stop()

    def _take(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        """Handles a message of the page: each request in a thread, to keep the kernel free."""
        if (stopped := self._answers.get(message.get("stop", ""))) is not None:
            stopped.stop()
        if "ask" in message:
            answer = _Answer(self, message)
            self._answers[answer.id] = answer
            threading.Thread(target=answer.give, daemon=True).start()


class _Answer:
    def __init__(self, widget: Widget, asked: Mapping[str, Any]) -> None:
        self.id = str(asked["ask"])
        self._widget = widget
        self._asked = asked
        self._stopped = False
        server = widget._server
        kind = http.client.HTTPSConnection if server.scheme == "https" else None
        self._connection = (kind or http.client.HTTPConnection)(server.hostname or "", server.port)
        # The response takes the socket from the connection.
        self._socket: socket.socket | None = None

    def give(self) -> None:
        try:
            self._pass_on()
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._send({"error": str(error) or type(error).__name__})
        finally:
            self._widget._answers.pop(self.id, None)
            self._connection.close()

    def _pass_on(self) -> None:
        path = str(self._asked["path"])
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not a path of the page")
        headers = {"Connection": "close"}
        if self._widget._token:
            headers["Authorization"] = f"Bearer {self._widget._token}"
        body = self._asked.get("body")
        if body is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(str(self._asked["method"]), path, body, headers)
        self._socket = self._connection.sock
        if self._stopped:
            return
        answer = self._connection.getresponse()
        kind = answer.headers.get("Content-Type", "application/octet-stream")
        self._send({"status": answer.status, "type": kind})
        while part := answer.read1(PART):
            self._send({}, [part])
        if answer.length:
            raise OSError("the response is incomplete")
        self._send({"end": True})

    def _send(self, content: dict[str, Any], parts: list[bytes] | None = None) -> None:
        if not self._stopped:
            self._widget.send({"id": self.id, **content}, parts)

    def stop(self) -> None:
        """Closes the connection of a cancelled request, which stops the server's work."""
        self._stopped = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)


Widget.__module__ = "kubist"
