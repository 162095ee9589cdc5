"""The server of a table (`kubist view`), as a child process."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
import sys
import threading
import weakref
from collections import deque
from pathlib import Path

from ._errors import InvalidInput, NotATable, StorageError
from ._kubist import without_password

_KINDS = {2: InvalidInput, 3: NotATable}
"""Errors by exit code of the command; other codes are a `StorageError`."""


_KEPT_LINES = 20
"""Number of last lines of standard error to keep for an error message."""

_DRAIN_SECONDS = 3.0
"""Longest time to wait for these lines after the command has ended."""

_UNINTERRUPTED = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Starts a command that ignores Ctrl-C but keeps the terminal, where ssh asks for passwords."""


class Tunnel:
    """Runs ``kubist view`` for a table, also over ssh, and has the page's local address in ``url``.

    The command ends when `close` is called, this object is deleted, or this process ends or is
    killed, because it then reads the end of its standard input. Ctrl-C in this process interrupts a
    query, but not the command.
    """

    def __init__(self, url: str) -> None:
        shown = without_password(url)
        if shown != url:
            # Other users would see it in the list of processes.
            raise InvalidInput(f"{shown}: remove the password; ssh asks for it")
        beside = Path(sys.executable).with_name("kubist")
        command = str(beside) if beside.exists() else shutil.which("kubist")
        if command is None:
            raise StorageError(f"{url}: the command kubist, which serves it, is not installed")
        process = subprocess.Popen(
            [*_UNINTERRUPTED, command, "view", "--token", "-", "--", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert process.stdin is not None
        assert process.stdout is not None and process.stderr is not None
        lines_seen: deque[str] = deque(maxlen=_KEPT_LINES)
        # Reads until the command ends, because a full pipe would block it.
        listener = threading.Thread(target=lines_seen.extend, args=[process.stderr], daemon=True)
        listener.start()
        self.close = weakref.finalize(self, _end, process, listener)
        # A command that has ended already has written the reason to standard error.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{secrets.token_hex(16)}\n")
            process.stdin.flush()
        self.url = process.stdout.readline().strip()
        if not self.url:
            code = process.wait()
            listener.join(_DRAIN_SECONDS)
            lines = [line.strip() for line in list(lines_seen) if line.strip()]
            self.close()
            why = lines[-1].removeprefix("kubist: error: ") if lines else f"it ended with {code}"
            raise _KINDS.get(code, StorageError)(f"{url}: {why}")


def _end(process: subprocess.Popen[str], listener: threading.Thread) -> None:
    process.terminate()
    process.wait()
    listener.join(_DRAIN_SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        # Closing the pipe that the listener still reads would wait for it.
        if pipe is not None and not (pipe is process.stderr and listener.is_alive()):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
