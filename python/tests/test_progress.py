"""Progress of long calls: on terminals, in notebooks, in logs."""

from __future__ import annotations

import io
import os
import sys
import types
from typing import Any

import pytest

from kubist._progress import ERASED, Callback, Display


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def lines(self) -> list[str]:
        return self.getvalue().split(ERASED)[1:]


class Log(Terminal):
    def isatty(self) -> bool:
        return False


def steps(shown: Display, clock: Clock, seconds: float, count: int, share: bool = True) -> None:
    for step in range(count):
        shown(f"{step:,} rows", step / count if share else None)
        clock.now += seconds
    shown.close()


def test_a_terminal_has_one_line_that_is_gone_at_the_end() -> None:
    clock, terminal = Clock(), Terminal()
    steps(Display(terminal, clock), clock, 0.01, 500)
    assert "\n" not in terminal.getvalue()
    assert terminal.lines[-1] == ""
    shown = terminal.lines[:-1]
    # Five seconds at ten per second, less the first 0.3 s.
    assert 40 <= len(shown) <= 50
    assert shown[0].startswith("█░") and " rows" in shown[0]
    assert shown[-1].startswith("███████████████") and shown[-1].endswith(" s left")
    assert all(len(line) < 80 for line in shown)


def test_what_ends_soon_shows_nothing() -> None:
    clock, terminal = Clock(), Terminal()
    steps(Display(terminal, clock), clock, 0.01, 20)
    assert terminal.getvalue() == ""


def test_a_log_has_a_line_every_ten_seconds_at_most() -> None:
    clock, log = Clock(), Log()
    steps(Display(log, clock), clock, 0.5, 100)
    lines = log.getvalue().splitlines()
    assert lines == [
        "20% 20 rows, 40 s left",
        "40% 40 rows, 30 s left",
        "60% 60 rows, 20 s left",
        "80% 80 rows, 10 s left",
    ]
    steps(Display(log, clock), clock, 0.5, 21, share=False)
    assert log.getvalue().splitlines()[-1] == "20 rows"


def test_what_is_told_before_a_while_of_silence_is_shown_at_once() -> None:
    clock, terminal = Clock(), Terminal()
    shown = Display(terminal, clock)
    clock.now += 1
    shown("99 rows", 0.3)
    shown("100 rows", 0.31)
    shown("committing 100 rows", 0.33, last=True)
    assert [line.split("% ")[1] for line in terminal.lines] == [
        "99 rows, 2 s left",
        "committing 100 rows",
    ]
    log = Log()
    shown = Display(log, clock)
    clock.now += 11
    shown("99 rows")
    shown("committing 100 rows", last=True)
    assert log.getvalue() == "99 rows\n"


def test_a_stream_of_few_characters_still_gets_a_line() -> None:
    class Plain(Terminal):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return "ascii"

    clock, plain = Clock(), Plain()
    steps(Display(plain, clock), clock, 1, 3)
    assert plain.getvalue().isascii() and " rows" in plain.getvalue()


def test_a_real_terminal_is_never_written_past_its_edge() -> None:
    main, side = os.openpty()
    with os.fdopen(side, "w", encoding="utf-8") as terminal:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        clock = Clock()
        shown = Display(terminal, clock)
        clock.now += 1
        shown("x" * 300, 0.5)
        seen = os.read(main, 10_000).decode()
        shown.close()
        assert os.read(main, 100).decode() == ERASED
    os.close(main)
    (line,) = seen.split(ERASED)[1:]
    assert len(line) == 39 and line.startswith("████████░░░░░░░░  50% xxx")


def test_a_notebook_has_a_bar_in_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[Any] = []
    handle = types.SimpleNamespace(update=cells.append)

    def display(shown: Any, display_id: bool) -> Any:
        assert display_id
        cells.append(shown)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    clock, log = Clock(), Log()
    shown = Display(log, clock)
    clock.now += 1
    shown("<5> rows", 0.25)
    assert log.getvalue() == ""
    assert cells[-1]._repr_html_() == (
        "<progress value='0.250'></progress> <span>&lt;5&gt; rows, 3 s left</span>"
    )
    assert repr(cells[-1]) == "████░░░░░░░░░░░░  25% <5> rows, 3 s left"
    clock.now += 1
    shown("9 rows")
    assert cells[-1]._repr_html_() == "<progress></progress> <span>9 rows</span>"
    shown.close()
    assert cells[-1]._repr_html_() == ""


def test_a_function_of_the_users_is_told_everything() -> None:
    told: list[str] = []
    tell = Callback(told.append)
    tell("one", 0.1)
    tell("two")
    tell.close()
    assert told == ["one", "two"]
