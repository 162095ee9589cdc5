"""`Table.map`: a function of every part of a query, in other processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

ROWS = 20_000


@pytest.fixture
def table(path: Path) -> kubist.Table:
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(ROWS), "v": np.arange(ROWS)}
    return kubist.create(path, rows, ["x"])


MAIN = """
    import sys
    import kubist

    def total(part):
        return int(part.to_polars()["v"].sum())

    def fails(part):
        if part.rows > 0:
            raise ValueError("no such droplet")

    def dies(part):
        import os
        os._exit(9)

    def main():
        t = kubist.open(sys.argv[1])
"""


def script(body: str) -> str:
    main = textwrap.dedent(MAIN) + textwrap.indent(textwrap.dedent(body), 4 * " ")
    return main + '\n\nif __name__ == "__main__":\n    main()\n'


def test_every_part_is_mapped_once(
    table: kubist.Table, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python(
        script("""
        seen = []
        found = t.map(total, 2, splits=7, progress=lambda *now: seen.append(now))
        print(len(found), sum(found), len(seen) <= 7 and seen[-1][0] == seen[-1][1])
        print(sum(t.map(total, 2, box={"x": (0.2, 0.4)}, where="v > 100")))
        """),
        table.location,
    )
    wanted = int(table.query({"x": (0.2, 0.4)}, where="v > 100").to_numpy()["v"].sum())
    assert done.stdout.split() == ["7", str(sum(range(ROWS))), "True", str(wanted)], done.stderr


def test_failures_are_reported(
    table: kubist.Table, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = run_python(
        script("""
        import threading
        lock = threading.Lock()
        def unpicklable(part):
            return lock
        for function in (fails, dies, unpicklable):
            try:
                t.map(function, 2)
            except Exception as error:
                print(type(error).__name__, error, *getattr(error, "__notes__", []))
        """),
        table.location,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ValueError no such droplet in split "), done.stderr
    assert lines[1].startswith("StorageError map: a process was killed"), done.stderr
    assert lines[2].startswith("InvalidInput map: <function"), done.stderr
    with pytest.raises(kubist.InvalidInput, match="expected a function"):
        table.map("f")  # type: ignore[arg-type]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_kill_stop_all_processes(
    sent: signal.Signals, table: kubist.Table, tmp_path: Path
) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        textwrap.dedent("""
        import os, sys, time, kubist

        def waits(part):
            # One write, so that the lines of two processes do not mix.
            os.write(1, b"begun\\n")
            time.sleep(120)
            os.write(1, b"ended\\n")

        if __name__ == "__main__":
            try:
                kubist.open(sys.argv[1]).map(waits, 2)
            except KeyboardInterrupt:
                print("stopped", flush=True)
        """)
    )
    command: list[Any] = [sys.executable, file, table.location]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(sent)
        # A process that is not stopped keeps the pipe open, and says in the end that it ended.
        said = set(process.stdout.read().split()) - {"begun"}
    stopped = sent == signal.SIGINT
    assert said == ({"stopped"} if stopped else set())
    assert process.returncode == (0 if stopped else -sent)
