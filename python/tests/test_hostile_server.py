"""With any bytes from a malicious server, a client raises or has valid data, and keeps working."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from servers import Server

import kubist

TRIES = 150
MEMORY = 4 << 30

CLIENT = """
import json, resource, sys
import kubist
address, tries, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
for number in range(tries):
    try:
        remote = kubist.connect(address)
        answer = remote.query(columns=["pid", "x", "kind", "code"]).to_arrow()
        answer.validate(full=True)
        outcome = "sound"
    except kubist.Error as error:
        outcome = type(error).__name__
    except BaseException as error:
        outcome = f"! {type(error).__name__}: {error}"
    print(json.dumps(outcome), flush=True)
"""


class Liar(BaseHTTPRequestHandler):
    behind: str
    damage: Damage

    def do_GET(self) -> None:
        self.pass_on(None)

    def do_POST(self) -> None:
        self.pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def pass_on(self, body: bytes | None) -> None:
        kept = {name: value for name, value in self.headers.items() if name in ("Content-Type", "Accept")}
        asked = urllib.request.Request(self.behind + self.path, data=body, headers=kept)
        with urllib.request.urlopen(asked) as answer:
            content, kind = answer.read(), answer.headers["Content-Type"]
        if "arrow" in kind:
            content = self.damage(content)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class Damage:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.done = 0

    def __call__(self, content: bytes) -> bytes:
        self.done += 1
        spoilt = bytearray(content)
        place = self.random.randrange(len(spoilt))
        # Most damage is at the beginning, which has the messages' headers.
        early = self.random.randrange(min(len(spoilt), 2048))
        match self.random.randrange(6):
            case 0:
                spoilt[place] ^= 1 << self.random.randrange(8)
            case 1:
                spoilt[early] ^= 1 << self.random.randrange(8)
            case 2:
                word = self.random.choice([0, 1, -1, 2**31 - 1, -(2**31), 2**62, 2**63 - 1])
                spoilt[early & ~7 : (early & ~7) + 8] = word.to_bytes(8, "little", signed=True)
            case 3:
                del spoilt[place:]
            case 4:
                spoilt[place:place] = self.random.randbytes(self.random.randrange(1, 64))
            case _:
                spoilt[early : early + 16] = self.random.randbytes(16)
        return bytes(spoilt)


@pytest.fixture
def liar(path: Path) -> Iterator[tuple[str, Damage]]:
    count = 500
    ids = np.arange(count)
    rows = pa.table({
        "pid": ids,
        "x": np.random.default_rng(1).random(count),
        "kind": pa.array(["water" if id % 3 else None for id in ids]).dictionary_encode(),
        "code": pa.array([bytes([id % 11]) * (id % 5) for id in ids]),
    })  # fmt: skip
    table = kubist.create(path, rows, dimensions=["x"], identity=["pid"])
    damage = Damage(1)
    with Server(table.location) as server:
        handler = type("Handler", (Liar,), {"behind": server.url.rstrip("/"), "damage": damage})
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}", damage
        proxy.shutdown()
        proxy.server_close()


def test_no_answer_ends_a_client(liar: tuple[str, Damage]) -> None:
    address, damage = liar
    command = [sys.executable, "-c", CLIENT, address, str(TRIES), str(MEMORY)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    outcomes = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(outcomes) == TRIES and damage.done >= TRIES
    assert [outcome for outcome in outcomes if outcome.startswith("!")] == []
    # The damage reaches the client, which cannot check some bits of values.
    assert "sound" in outcomes and len(set(outcomes)) > 1
