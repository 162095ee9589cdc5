"""The explorer page of a table, served for as long as somebody looks."""

from __future__ import annotations

import html
import webbrowser

from ._tunnel import Tunnel


class View:
    """A page in the browser; made by `Table.view`.

    That of a table in a directory is served until `stop`, or until this process ends.
    """

    def __init__(self, url: str, tunnel: Tunnel | None, *, open: bool) -> None:
        self.url = url
        """Where it is, with the token that lets you in."""
        self._tunnel = tunnel
        if open:
            webbrowser.open(url)

    def stop(self) -> None:
        """Ends the server that was started for it."""
        if self._tunnel is not None:
            self._tunnel.close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<kubist.View at {self.url}>"

    def _repr_html_(self) -> str:
        address = html.escape(self.url)
        return f"<a href='{address}' target='_blank'>{address}</a>"


View.__module__ = "kubist"
