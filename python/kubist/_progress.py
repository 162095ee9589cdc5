"""Progress of a long call: one line on a terminal, a bar in a notebook, a few lines in a log.

The first 0.3 s show nothing, because most calls end sooner. A terminal line is redrawn at most ten
times a second and erased at the end, a notebook cell is updated four times a second, and a log gets
at most one line every ten seconds.
"""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

PATIENCE = 0.3
EVERY = {"terminal": 0.1, "notebook": 0.25, "log": 10.0}
"""Minimum seconds between two updates."""
CELLS = 16
ERASED = "\r\x1b[K"


class Progress(Protocol):
    """A callback with a line of text and, if known, the fraction done.

    ``last`` marks the last update before a period without updates.
    """

    def __call__(self, text: str, share: float | None = None, last: bool = False) -> object: ...

    def close(self) -> None: ...


class Callback:
    """Progress for a user's function, which takes only the text."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def __call__(self, text: str, share: float | None = None, last: bool = False) -> None:
        self._tell(text)

    def close(self) -> None:
        pass


class Display:
    """Progress display, selected by the type of standard error.

    Parameters
    ----------
    stream
        The output for terminals and logs.
    clock
        Returns seconds since an arbitrary origin.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._begin = clock()
        self._next = self._begin + PATIENCE
        self._display = _notebook()
        terminal = self._display is None and self._stream.isatty()
        self._place = "notebook" if self._display else "terminal" if terminal else "log"
        if self._place == "log":
            self._next = self._begin + EVERY["log"]
        self._handle: Any = None
        self._drawn = False

    def __call__(self, text: str, share: float | None = None, last: bool = False) -> None:
        """Shows the progress, unless the last update was too recent."""
        now = self._clock()
        soon = last and self._drawn and self._place != "log"
        if now < self._next and not soon:
            return
        self._next = now + EVERY[self._place]
        left = "" if last else _left(now - self._begin, share)
        if self._display is not None:
            self._show_in_cell(f"{text}{left}", share)
        elif self._place == "terminal":
            line = f"{_bar(share)}{text}{left}"
            self._write(f"{ERASED}{line[: self._columns() - 1]}")
        else:
            percent = "" if share is None else f"{share:.0%} "
            self._write(f"{percent}{text}{left}\n")
        self._drawn = True

    def close(self) -> None:
        """Erases the display, but not the lines of a log."""
        if not self._drawn:
            return
        if self._place == "terminal":
            self._write(ERASED)
        elif self._handle is not None:
            self._handle.update(_Cell("", ""))
        self._drawn = False

    def _show_in_cell(self, text: str, share: float | None) -> None:
        value = "" if share is None else f" value='{share:.3f}'"
        shown = _Cell(
            f"{_bar(share)}{text}",
            f"<progress{value}></progress> <span>{html.escape(text)}</span>",
        )
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


class _Cell:
    def __init__(self, text: str, page: str) -> None:
        self._text = text
        self._page = page

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._page


def _notebook() -> Any:
    """IPython's display function; None outside of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    full = round(CELLS * share)
    return f"{'█' * full}{'░' * (CELLS - full)} {share:4.0%} "


def _left(seconds: float, share: float | None) -> str:
    """The estimated remaining time; empty before it can be estimated."""
    if share is None or share <= 0.01 or seconds < 1:
        return ""
    left = max(1, round(seconds / share - seconds))
    if left < 100:
        return f", {left} s left"
    return f", {left // 60} min left" if left < 6000 else f", {left // 3600} h left"
