"""A proxy on loopback that makes a near S3 service a far one, and counts what goes through.

Each request waits for DELAY seconds before it is passed on, and all answers together are bounded to
RATE bytes a second. Connections are kept, so that what a client waits for is its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field

DELAY = 0.030
RATE = 100e6
CHUNK = 64 << 10


@dataclass
class Traffic:
    """What went through since it was last asked."""

    spans: list[tuple[float, float]] = field(default_factory=list)
    """When each request came and when its answer had gone."""
    bytes: int = 0
    """Of the bodies of answers."""

    @property
    def requests(self) -> int:
        return len(self.spans)

    @property
    def round_trips(self) -> int:
        """The longest chain of requests of which each came after the one before was answered."""
        trips, end = 0, 0.0
        for begin, answered in sorted(self.spans, key=lambda span: span[1]):
            if begin >= end:
                trips, end = trips + 1, answered
        return trips


class Proxy:
    """The proxy, in a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.traffic = Traffic()
        self.free_at = 0.0
        self.port = 0
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=[started], daemon=True).start()
        started.wait()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def since_last(self) -> Traffic:
        """What went through since the last call."""
        done, self.traffic = self.traffic, Traffic()
        return done

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)

        async def start() -> None:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
            self.port = server.sockets[0].getsockname()[1]
            started.set()

        self.loop.run_until_complete(start())
        self.loop.run_forever()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            server, to_server = await asyncio.open_connection(*self.upstream, limit=1 << 20)
            try:
                while True:
                    await self._pass_one(client, to_client, server, to_server)
            finally:
                to_server.close()
        to_client.close()

    async def _pass_one(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        head = await client.readuntil(b"\r\n\r\n")
        begin = time.monotonic()
        await asyncio.sleep(DELAY)
        to_server.write(head)
        if b"100-continue" in head.lower():
            # The client sends its body only when it is told to.
            to_client.write(await server.readuntil(b"\r\n\r\n"))
        await self._body(head, client, to_server, count=False)
        answer = await server.readuntil(b"\r\n\r\n")
        to_client.write(answer)
        status = int(answer.split(b" ", 2)[1])
        if not head.startswith(b"HEAD ") and status not in (204, 304):
            await self._body(answer, server, to_client, count=True)
        await to_client.drain()
        self.traffic.spans.append((begin, time.monotonic()))

    async def _body(
        self, head: bytes, source: asyncio.StreamReader, to: asyncio.StreamWriter, count: bool
    ) -> None:
        headers = dict(
            line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line
        )
        if b"chunked" in headers.get(b"transfer-encoding", b""):
            while True:
                line = await source.readuntil(b"\r\n")
                length = int(line.split(b";")[0], 16)
                to.write(line)
                await self._copy(length + 2, source, to, count)
                if length == 0:
                    return
        await self._copy(int(headers.get(b"content-length", b"0")), source, to, count)

    async def _copy(
        self, left: int, source: asyncio.StreamReader, to: asyncio.StreamWriter, count: bool
    ) -> None:
        while left > 0:
            some = await source.read(min(left, CHUNK))
            if not some:
                raise ConnectionError
            left -= len(some)
            if count:
                self.traffic.bytes += len(some)
            now = time.monotonic()
            self.free_at = max(self.free_at, now) + len(some) / RATE
            # Shorter sleeps are not exact.
            if self.free_at - now > 0.002:
                await asyncio.sleep(self.free_at - now)
            to.write(some)
            await to.drain()
