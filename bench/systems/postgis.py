"""PostGIS: its own server, with n-dimensional GiST indexes as in the thesis.

The 3-D index finds boxes, and the 4-D index, whose last dimension is the uniform number, finds
samples ("LIMIT 1000+" in the thesis). The cluster is in the store's directory, and its server runs
only while the store is open.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import psycopg
import pyarrow as pa

from ..keys import column, sorted_by_key, uniform
from ..question import Answer, Question
from .base import CORES, System

MOST_ROWS = int(os.environ.get("POSTGIS_ROWS") or 2_000_000)
_SETTINGS = {
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "1GB",
    "effective_cache_size": "8GB",
    "max_wal_size": "8GB",
    "random_page_cost": "1.1",
    "effective_io_concurrency": "200",
    "max_parallel_workers_per_gather": str(CORES),
    "max_parallel_maintenance_workers": str(CORES),
    "jit": "off",
    "listen_addresses": "",
}
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TYPES = {"int64": ("bigint", ">i8"), "float": ("real", ">f4"), "bool": ("boolean", "?")}


class PostGIS(System):
    name = "PostGIS"
    package = "psycopg"
    settings = (
        "rows in Morton order; GiST `gist_geometry_ops_nd` on (x, y, z) and on (x, y, z, r); "
        "shared_buffers 2 GB, work_mem 256 MB, random_page_cost 1.1, fsync on; binary COPY both "
        f"ways; at most {MOST_ROWS:,} rows, because GiST is built row by row"
    )
    sampling = "a stored uniform column `r`, in the 4-D index; for a limit, the lowest `r`"
    durable = True
    indexed: ClassVar[bool] = True
    _server: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _programs() -> Path | None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        return found[-1].parent if found else None

    @classmethod
    def missing(cls) -> str | None:
        programs = cls._programs()
        if programs is None:
            return "no PostgreSQL: `apt-get install postgresql postgis`"
        extension = Path("/usr/share/postgresql", programs.parent.name, "extension")
        if not (extension / "postgis.control").exists():
            return "no PostGIS for this PostgreSQL: `apt-get install postgis`"
        return None

    @classmethod
    def version(cls) -> str:
        programs = cls._programs()
        asked = subprocess.run([f"{programs}/postgres", "-V"], capture_output=True, text=True)
        control = Path("/usr/share/postgresql", programs.parent.name, "extension/postgis.control")
        line = next(line for line in control.read_text().splitlines() if "default_version" in line)
        return f"{line.split(chr(39))[1]}, {asked.stdout.strip()}"

    def refuses(self) -> str | None:
        if self.data.rows > MOST_ROWS:
            return f"more than {MOST_ROWS:,} rows take too long to index: it has tables of its own"
        return None

    def _user(self) -> str | None:
        """The server refuses to run as root."""
        return "postgres" if os.geteuid() == 0 else None

    def _initialize(self) -> None:
        self.path.mkdir()
        if user := self._user():
            account = pwd.getpwnam(user)
            os.chown(self.path, account.pw_uid, account.pw_gid)
        command = [f"{self._programs()}/initdb", "-D", str(self.path), "-U", "bench", "-A", "trust"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, check=True, user=self._user(), cwd="/", **quiet)

    def prepare(self) -> None:
        command = [f"{self._programs()}/postgres", "-D", str(self.path), "-k", str(self.path)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._server = subprocess.Popen(command, user=self._user(), cwd="/", **quiet)
        # A connection shows that it is ready.
        self._connect().close()

    def open(self) -> None:
        if self._server is None:
            self.prepare()
        self._connection = self._connect()

    def _connect(self) -> psycopg.Connection:
        place = self.path / ".s.PGSQL.5432"
        until = time.monotonic() + 30
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as door:
                    door.connect(str(place))
                return psycopg.connect(
                    host=str(self.path), user="bench", dbname="postgres", autocommit=True
                )
            except (OSError, psycopg.OperationalError):
                if time.monotonic() > until or (self._server and self._server.poll()) is not None:
                    raise
                time.sleep(0.005)

    def server(self) -> int | None:
        return self._server.pid if self._server else None

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._initialize()
        self.open()
        self._create()
        rows = sorted_by_key(batches, self.data.domain)
        for batch in rows.to_batches(max_chunksize=1 << 18):
            self._copy(batch)
        self._index()
        self._connection.execute("VACUUM (FREEZE, ANALYZE) t")
        self._connection.execute("CHECKPOINT")
        self.close()

    def _create(self) -> None:
        columns = [f"{f.name} {_TYPES[str(f.type)][0]} NOT NULL" for f in self._stored()]
        self._connection.execute("CREATE EXTENSION postgis")
        self._connection.execute(f"CREATE TABLE t ({', '.join(columns)})")

    def _stored(self) -> list[pa.Field]:
        return [*self.data.schema, pa.field("r", pa.float32())]

    def _index(self) -> None:
        if self.indexed:
            for place in ("x, y, z", "x, y, z, r"):
                self._connection.execute(
                    f"CREATE INDEX ON t USING gist (ST_MakePoint({place}) gist_geometry_ops_nd)"
                )

    def _copy(self, rows: pa.RecordBatch) -> None:
        packed = np.zeros(rows.num_rows, self._layout(self._stored()))
        packed["fields"] = len(self._stored())
        for field in self._stored():
            packed[field.name + "_size"] = packed.dtype[field.name].itemsize
            packed[field.name] = column(rows, field.name)
        with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY t FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.write(_HEADER + packed.tobytes() + b"\xff\xff")

    @staticmethod
    def _layout(fields: list[pa.Field]) -> np.dtype:
        """Rows in COPY's binary format, equally large because none is null."""
        parts = [("fields", ">i2")]
        for field in fields:
            parts += [(field.name + "_size", ">i4"), (field.name, _TYPES[str(field.type)][1])]
        return np.dtype(parts)

    def start_stream(self) -> None:
        self._initialize()
        self.open()
        self._create()
        self._index()

    def commit(self, batch: pa.RecordBatch) -> None:
        self._copy(
            pa.record_batch([*batch.columns, uniform(batch)], names=[*self.data.columns, "r"])
        )

    def end_stream(self) -> None:
        self._connection.execute("ANALYZE t")
        self._connection.execute("CHECKPOINT")
        self.close()

    def ask(self, question: Question) -> Answer:
        said = question.conditions(literal=lambda value: f"'{value!r}'::real")
        if self.indexed and (question.box or question.share):
            said.append(self._near(question))
        sql = question.sql(self.data.columns, "t", said)
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT binary)") as copy,
        ):
            answer = b"".join(copy)
        layout = self._layout(list(self.data.schema))
        body = len(answer) - len(_HEADER) - 2
        rows = np.frombuffer(answer, layout, body // layout.itemsize, len(_HEADER))
        columns = {
            name: np.ascontiguousarray(rows[name].astype(rows.dtype[name].newbyteorder("=")))
            for name in self.data.columns
        }
        return Answer(pa.table(columns, schema=self.data.schema))

    def _near(self, question: Question) -> str:
        """The box as the indexes expect it: the bounding box of its diagonal."""
        ends = [question.box.get(name, self.data.domain[name]) for name in ("x", "y", "z")]
        names = "x, y, z"
        if question.share is not None:
            ends.append((0, question.share))
            names += ", r"
        corners = (", ".join(repr(float(end[i])) for end in ends) for i in (0, 1))
        low, high = (f"ST_MakePoint({corner})" for corner in corners)
        return f"ST_MakePoint({names}) &&& ST_MakeLine({low}, {high})"

    def close(self) -> None:
        self._connection.close()
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)  # a fast shutdown
            self._server.wait(60)
            self._server = None


class PostGISUnindexed(PostGIS):
    name = "PostGIS, no index"
    settings = "as PostGIS, without indexes"
    indexes = False
    indexed = False
