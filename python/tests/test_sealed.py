"""Sealed files from Python and the command line, at a path and on a web server."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kubist

KUBIST = Path(sys.executable).parent / "kubist"


class Ranges(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        self.send_response(206)
        self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(data[start:end])


def serving(handler: type[http.server.SimpleHTTPRequestHandler], folder: Path) -> Iterator[str]:
    def at(*given: object) -> http.server.BaseHTTPRequestHandler:
        return handler(*given, directory=str(folder))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), at) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    yield from serving(Ranges, tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> kubist.Table:
    random = np.random.default_rng(3)
    rows = {"id": np.arange(40_000), "x": random.random(40_000), "y": random.random(40_000)}
    return kubist.create(tmp_path / "t.kubist", rows, {"x": (0, 1), "y": (0, 1)}, identity=["id"])


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KUBIST, *map(str, command)], capture_output=True, text=True, check=False)


def test_a_sealed_table_is_a_table_that_cannot_be_written(
    table: kubist.Table, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    sealed = table.pack(tmp_path / "t.kubist1", progress=lambda *done: seen.append(done))
    # A short call may end before the first report.
    assert all(rows <= whole == 40_000 for rows, whole in seen)
    assert sealed.location == str(tmp_path / "t.kubist1")
    asked = {"sample": 0.1, "columns": ["id"], "order_by": "id"}
    assert sealed.query(**asked).to_numpy()["id"].tolist() == (
        table.query(**asked).to_numpy()["id"].tolist()
    )
    with pytest.raises(kubist.NotPermitted, match="kubist unpack"):
        sealed.writer()
    with pytest.raises(kubist.TableExists):
        table.pack(tmp_path / "t.kubist1")
    back = kubist.unpack(tmp_path / "t.kubist1", tmp_path / "back.kubist")
    assert back.count() == 40_000
    with back.writer() as writer:
        writer.append({"id": [40_000], "x": [0.5], "y": [0.5]})
    assert (back.count(), sealed.count()) == (40_001, 40_000)
    with pytest.raises(kubist.InvalidInput, match="not a sealed file"):
        kubist.unpack(tmp_path / "t.kubist", tmp_path / "no")
    snapshot = table.snapshot().pack(tmp_path / "again")
    runs = kubist.open_many([str(tmp_path / "again"), str(tmp_path / "t.kubist1")])
    assert (snapshot.count(), runs.count()) == (40_000, 80_000)


def test_every_reading_command_works_on_a_sealed_file(table: kubist.Table, tmp_path: Path) -> None:
    path = tmp_path / "file of any name"
    done = run("pack", table.location, path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bytes"] == path.stat().st_size
    for command in (
        ("query", path, "--box", "x=0.2:0.4", "--sample", 0.5, "--output", tmp_path / "q.csv"),
        ("estimate", path, "mean(x)"),
        ("explain", path),
        ("plot", path, "--axes", "x,y", "--output", tmp_path / "p.png"),
        ("info", path),
        ("verify", path, "--deep"),
        ("copy", path, tmp_path / "copied"),
        ("unpack", path, tmp_path / "unpacked"),
    ):
        done = run(*command)
        assert done.returncode == 0, (command, done.stderr)
    for command in (("alter", path, "--unit", "x=m"), ("drop", path, "--yes")):
        done = run(*command)
        assert done.returncode == 4, (command, done.stderr)
        assert "kubist unpack" in done.stderr
    assert kubist.open(path).count() == kubist.open(tmp_path / "unpacked").count() == 40_000
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    for command in (("info", path), ("unpack", path, tmp_path / "no")):
        done = run(*command)
        assert done.returncode == 1, done.stderr
        assert "truncated" in done.stderr


def test_a_web_server_with_ranges_serves_a_table(
    table: kubist.Table, tmp_path: Path, site: str
) -> None:
    table.pack(tmp_path / "t.kubist1")
    address = f"{site}/t.kubist1"
    remote = kubist.open(address)
    box = {"x": (0.2, 0.4)}
    assert remote.count(box) == table.count(box)
    assert kubist.open_many({"a": address}).count() == 40_000
    done = run("query", address, "--box", "x=0.2:0.4", "--output", tmp_path / "q.csv")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "q.csv").read_text().splitlines()) == table.count(box) + 1
    # Another file replaces the file.
    other = tmp_path / "other"
    kubist.open(address).pack(other)
    os.replace(other, tmp_path / "t.kubist1")
    with pytest.raises(kubist.Refused, match="replaced"):
        remote.query().to_numpy()
    with pytest.raises(kubist.NotATable, match="does not exist"):
        kubist.open(f"{site}/absent")
    with pytest.raises(kubist.InvalidInput, match=r"kubist\.connect"):
        kubist.open(site)


def test_a_server_without_ranges_is_named_as_the_reason(
    table: kubist.Table, tmp_path: Path
) -> None:
    table.pack(tmp_path / "t.kubist1")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    for site in serving(Quiet, tmp_path):
        with pytest.raises(kubist.StorageError, match=r"range requests.*http\.server"):
            kubist.open(f"{site}/t.kubist1")
