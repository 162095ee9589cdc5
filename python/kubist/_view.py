"""The explorer page of a table."""

from __future__ import annotations

import html
import webbrowser

from ._tunnel import Tunnel


class View:
    """An explorer page in the browser, from `Table.view`.

    For a table in a directory, it is served until `stop` or the process ends.
    """

    def __init__(self, url: str, tunnel: Tunnel | None, *, open: bool) -> None:
        self.url = url
        """The address, with its access token."""
        self._tunnel = tunnel
        if open:
            webbrowser.open(url)

    def stop(self) -> None:
        """Stops the server that was started for the page."""
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
