"""Cassandra rows: a CQL table whose partitions are objects, with storage-attached indexes.

The environment variable ``CASSANDRA_HOSTS`` lists the nodes (default: 127.0.0.1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._libraries import need
from .answers import Answered
from .loaded import Loaded
from .sql import Dialect, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question

TYPES = {
    "int8": "int", "uint8": "int", "int16": "int", "uint16": "int", "int32": "int",
    "uint32": "bigint", "int64": "bigint", "uint64": "varint", "float": "float",
    "double": "double", "bool": "boolean", "timestamp": "timestamp", "date32": "date",
}  # fmt: skip
KEYSPACE = "kubist_workload"
PARTITIONS = 256
"""Partitions of rows without an object."""
BATCH = 50
GROUP = 256
"""Batches that are written before the next ones are created."""
TRIES = 10
"""Attempts to write batches that busy nodes refuse."""
CONCURRENT = 16
SECONDS = 60.0
"""The maximum time of a request."""


class Cassandra(Loaded):
    """Rows in a Cassandra table; partitions are objects, or numbers without objects."""

    def __init__(self, name: str, path: Path) -> None:
        need("cassandra", "a workload on Cassandra (pip install cassandra-driver)")
        from cassandra.cluster import Cluster, NoHostAvailable

        super().__init__(name, path)
        self._count = 0
        hosts = os.environ.get("CASSANDRA_HOSTS", "127.0.0.1").split(",")
        self._cluster = Cluster(hosts)
        try:
            self._session = self._cluster.connect()
        except NoHostAvailable as error:
            raise InvalidInput(f"{name}: no node of {', '.join(hosts)} answers: {error}") from None
        self._session.default_timeout = SECONDS
        self._full = f"{KEYSPACE}.{self.table}"
        columns = ", ".join(map(quoted, self.rows.column_names))
        self._dialect = Dialect(
            "Cassandra",
            self._full,
            columns,
            {"mean(": "avg("},
            has_between=False,
            lacks=("sample", "order_by"),
            end=" ALLOW FILTERING",
        )
        self._load()

    def _load(self) -> None:
        run = self._session.execute
        run(
            f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        listed = [f"{quoted(c)} {kind}" for c, kind in self.types(TYPES, "text").items()]
        key = quoted(self.objects[0]) if self.objects else "kubist_partition"
        own = [] if self.objects else ["kubist_partition int"]
        run(
            f"CREATE TABLE {self._full} ({', '.join([*listed, *own, 'kubist_row bigint'])}, "
            f"PRIMARY KEY (({key}), kubist_row))"
        )
        for column in (*self.positions, *self.times):
            run(f"CREATE INDEX ON {self._full} ({quoted(column)}) USING 'sai'")
        self.append(self.rows)

    def ask(self, question: Question) -> Answered:
        rows = sum(1 for _ in self._session.execute(self._dialect.sql(question)))
        return Answered(1 if question.verb != "query" else rows)

    def append(self, rows: pa.Table) -> None:
        from cassandra.concurrent import execute_concurrent

        names = [*map(quoted, rows.column_names), "kubist_row"]
        names += [] if self.objects else ["kubist_partition"]
        places = ", ".join("?" * len(names))
        statement = self._session.prepare(
            f"INSERT INTO {self._full} ({', '.join(names)}) VALUES ({places})"
        )
        batches = self._batches(rows, statement)
        while left := list(islice(batches, GROUP)):
            for _ in range(TRIES):
                # Rows have numbers, so writing a batch again changes nothing.
                done = execute_concurrent(
                    self._session, [(batch, None) for batch in left], CONCURRENT, False
                )
                results = list(zip(left, done, strict=True))
                left = [batch for batch, (success, _) in results if not success]
                if not left:
                    break
            else:
                error = next(result for _, (success, result) in results if not success)
                raise InvalidInput(f"{self.name}: rows could not be written: {error}")

    def _batches(self, rows: pa.Table, statement: Any) -> Iterator[Any]:
        """Batches of rows, each from a single partition."""
        from cassandra.query import BatchStatement, BatchType

        if self.objects:
            rows = rows.sort_by(self.objects[0])
        at = rows.column_names.index(self.objects[0]) if self.objects else -1
        batch, last = None, None
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            number = self._count
            self._count += 1
            partition = row[at] if self.objects else number // BATCH % PARTITIONS
            if batch is None or partition != last or len(batch) >= BATCH:
                if batch is not None:
                    yield batch
                batch, last = BatchStatement(BatchType.UNLOGGED), partition
            own = () if self.objects else (partition,)
            batch.add(statement, (*row, number, *own))
        if batch is not None:
            yield batch

    def close(self) -> None:
        self._session.execute(f"DROP TABLE IF EXISTS {self._full}")
        self._cluster.shutdown()
