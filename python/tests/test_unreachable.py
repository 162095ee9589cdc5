"""Missing services and credentials: calls fail within seconds, or end with Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "kubist"
MADE_UP = {
    "AWS_ACCESS_KEY_ID": "AKIAMADEUP",
    "AWS_SECRET_ACCESS_KEY": "made-up",
    "AWS_SESSION_TOKEN": "made-up",
}
# A service that has answered once is retried for half a minute; a process on a busy machine takes
# some seconds more.
SOON = 25.0
CALLS = {
    "info": [COMMAND, "info"],
    "drop": [COMMAND, "drop", "--yes"],
    "open": [sys.executable, "-c", "import sys, kubist; kubist.open(sys.argv[1])"],
    "create": [
        sys.executable,
        "-c",
        "import sys, kubist, pyarrow as pa\n"
        "kubist.create(sys.argv[1], pa.schema([('x', pa.float64())]), ['x'])",
    ],
}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A service that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening


def address(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return address(listening)


def begin(call: str, location: str, given: dict[str, str], home: Path) -> subprocess.Popen[str]:
    rest = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.Popen(
        [*map(str, CALLS[call]), location],
        env={**rest, "HOME": str(home), **given},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_they_are_told_within_seconds(silent: socket.socket, tmp_path: Path) -> None:
    no_keys = {"AWS_METADATA_ENDPOINT": address(silent), "AWS_ENDPOINT_URL": nobody()}
    cases = {
        "cannot be reached": ("s3://bucket/t", {**MADE_UP, "AWS_ENDPOINT_URL": nobody()}),
        "no response": ("s3://bucket/t", {**MADE_UP, "AWS_ENDPOINT_URL": address(silent)}),
        "there are no credentials": ("s3://bucket/t", no_keys),
        "token file": (
            "s3://bucket/t",
            {
                "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "no-token"),
                "AWS_ROLE_ARN": "arn:aws:iam::1:role/made-up",
                "AWS_ENDPOINT_URL": nobody(),
            },
        ),
    }
    began = time.monotonic()
    running = [
        (call, words, begin(call, *case, tmp_path))
        for words, case in cases.items()
        for call in CALLS
    ]
    for call, words, process in running:
        _, told = process.communicate(timeout=10 * SOON)
        last = told.strip().splitlines()[-1]
        assert process.returncode != 0 and words in last and "s3://bucket/t" in last, (call, told)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("call", ["info", "open"])
def test_ctrl_c_ends_the_wait(call: str, silent: socket.socket, tmp_path: Path) -> None:
    location = f"s3://bucket/t?endpoint={address(silent)}&patience=600"
    process = begin(call, location, MADE_UP, tmp_path)
    connection, _ = silent.accept()
    assert connection.recv(1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, told = process.communicate(timeout=10 * SOON)
    assert time.monotonic() - began < SOON
    assert process.returncode != 0 and "cannot be reached" not in told, told
    connection.close()
