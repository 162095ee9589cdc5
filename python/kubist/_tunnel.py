"""A way to a table behind ssh: `kubist view ssh://...`, as long as somebody needs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import weakref
from pathlib import Path

from ._errors import InvalidInput, NotATable, StorageError

_KINDS = {2: InvalidInput, 3: NotATable}
"""By the exit code of the command; all others mean that the way is not there."""


class Tunnel:
    """Runs the command ``kubist``, whose address is then on this machine. It ends with this
    object, and with this process."""

    def __init__(self, url: str) -> None:
        beside = Path(sys.executable).with_name("kubist")
        command = str(beside) if beside.exists() else shutil.which("kubist")
        if command is None:
            raise StorageError(f"{url}: the command kubist, which leads there, is not installed")
        self._process = subprocess.Popen(
            [command, "view", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.close = weakref.finalize(self, _end, self._process)
        assert self._process.stdout is not None and self._process.stderr is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            said = self._process.stderr.read().strip().splitlines()
            code = self._process.wait()
            self.close()
            why = said[-1].removeprefix("kubist: error: ") if said else f"it ended with {code}"
            raise _KINDS.get(code, StorageError)(f"{url}: {why}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
