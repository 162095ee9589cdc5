"""A server of one table, here or behind ssh: `kubist view`, as long as somebody needs it."""

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
"""By the exit code of the command; all others mean that the way is not there."""


_REMEMBERED = 20
"""Lines of standard error that may tell why."""

_PARTING = 3.0
"""Seconds for the last of them to come."""

_UNINTERRUPTED = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Starts a command that Ctrl-C does not reach, on the terminal, where ssh asks."""


class Tunnel:
    """Runs the command ``kubist``, whose address is then on this machine.

    It ends with this object, and with this process, however that ends: then its standard
    input is at its end. An interrupt stops a question, not the way to the table.
    """

    def __init__(self, url: str) -> None:
        shown = without_password(url)
        if shown != url:
            # It would stand in the list of processes.
            raise InvalidInput(f"{shown}: a password has no place in it, because ssh asks for it")
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
        lines_seen: deque[str] = deque(maxlen=_REMEMBERED)
        # Read to its end, lest it fill up and hold the command.
        listener = threading.Thread(target=lines_seen.extend, args=[process.stderr], daemon=True)
        listener.start()
        self.close = weakref.finalize(self, _end, process, listener)
        # If it has ended, it says why.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{secrets.token_hex(16)}\n")
            process.stdin.flush()
        self.url = process.stdout.readline().strip()
        if not self.url:
            code = process.wait()
            listener.join(_PARTING)
            lines = [line.strip() for line in list(lines_seen) if line.strip()]
            self.close()
            why = lines[-1].removeprefix("kubist: error: ") if lines else f"it ended with {code}"
            raise _KINDS.get(code, StorageError)(f"{url}: {why}")


def _end(process: subprocess.Popen[str], listener: threading.Thread) -> None:
    process.terminate()
    process.wait()
    listener.join(_PARTING)
    for pipe in (process.stdin, process.stdout, process.stderr):
        # One that is still read belongs to its reader.
        if pipe is not None and not (pipe is process.stderr and listener.is_alive()):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
