"""A proxy that makes a local S3 server as slow as a remote one, and records the requests.

    python -m bench.s3.proxy PORT-OF-THE-SERVER

It prints its own port, adds 30 ms to each request, and limits all connections together to 100 MB/s
in each direction. Opening a connection takes no extra time.

`GET /.trace` returns the requests since the previous trace as a JSON list, in order of their ends:
``sent`` and ``answered`` (seconds of a monotonic clock), ``request`` (method and path), ``range``,
``status``, and the bytes of both bodies, ``went`` (to the server) and ``came`` (from it).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

DELAY = 0.030
BYTES_A_SECOND = 100e6
CHUNK = 1 << 16
TRACE = b"GET /.trace "


class Road:
    """The bandwidth of one direction, which all transfers share."""

    def __init__(self) -> None:
        self.free = 0.0

    async def take(self, size: int) -> None:
        """Waits until ``size`` bytes fit; a wait below 2 ms is added to the next one."""
        self.free = max(self.free, time.monotonic()) + size / BYTES_A_SECOND
        wait = self.free - time.monotonic()
        if wait > 0.002:
            await asyncio.sleep(wait)


class Proxy:
    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.up, self.down = Road(), Road()
        self.trace: list[dict[str, object]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._requests(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = None
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(TRACE):
                body = json.dumps(self.trace).encode()
                self.trace = []
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
                continue
            sent = time.monotonic()
            if upstream is None:
                upstream = await asyncio.open_connection("127.0.0.1", self.upstream, limit=1 << 20)
            there, back = upstream[1], upstream[0]
            await asyncio.sleep(DELAY)
            there.write(head)
            went = await self._body(reader, there, head, self.up)
            await there.drain()
            answer = await back.readuntil(b"\r\n\r\n")
            while answer.startswith(b"HTTP/1.1 1"):
                answer = await back.readuntil(b"\r\n\r\n")
            writer.write(answer)
            line = head.split(b"\r\n", 1)[0].decode()
            has_body = not line.startswith("HEAD ") and answer[9:12] not in (b"204", b"304")
            came = await self._body(back, writer, answer, self.down) if has_body else 0
            await writer.drain()
            self.trace.append(
                {
                    "sent": sent,
                    "answered": time.monotonic(),
                    "request": line.removesuffix(" HTTP/1.1"),
                    "range": header(head, b"range"),
                    "status": int(answer[9:12]),
                    "went": went,
                    "came": came,
                }
            )

    async def _body(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        head: bytes,
        road: Road,
    ) -> int:
        """Forwards the body that belongs to ``head``; returns its bytes."""
        if "chunked" in header(head, b"transfer-encoding"):
            return await self._chunks(source, sink, road)
        left = size = int(header(head, b"content-length") or 0)
        while left:
            some = await source.read(min(left, CHUNK))
            if not some:
                raise ConnectionError("the connection ended inside a body")
            await road.take(len(some))
            sink.write(some)
            await sink.drain()
            left -= len(some)
        return size

    async def _chunks(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, road: Road
    ) -> int:
        passed = 0
        while True:
            line = await source.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            body = await source.readexactly(size + 2)
            await road.take(size)
            sink.write(line + body)
            await sink.drain()
            passed += size
            if size == 0:
                return passed


def header(head: bytes, name: bytes) -> str:
    """The value of the header ``name`` in lower case, or an empty text."""
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode()
    return ""


async def main() -> None:
    proxy = Proxy(int(sys.argv[1]))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
