"""Storage and queries in a bucket, by system.

Tables are built directly on the server, and queried through the proxy. The other systems store rows
in Morton order with a uniform column `r`, so that a sample is `r < p`.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ..data import Dataset
from ..keys import column, sorted_by_key
from ..question import Question

KEY, SECRET, BUCKET = "test", "testsecret", "kubist-tests"


def files(port: int) -> Any:
    from pyarrow import fs

    return fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        region="us-east-1",
    )


class System:
    name: ClassVar[str]

    def __init__(self, data: Dataset, port: int, folder: str) -> None:
        self.data, self.port, self.folder = data, port, folder

    def build(self) -> None:
        """Stores all rows."""

    def open(self) -> None:
        """Prepares a process for its first query."""

    def ask(self, question: Question) -> int:
        """Reads all columns of the matching rows into memory; returns their number."""
        raise NotImplementedError

    def mean(self, name: str, share: float) -> tuple[float, int]:
        """The mean of a column to 1 %, and the number of rows read.

        Other systems get a sufficient fraction.
        """
        raise NotImplementedError


class Kubist(System):
    name = "Kubist"

    def _location(self) -> str:
        os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return f"s3://{BUCKET}/{self.folder}/kubist?endpoint=http://127.0.0.1:{self.port}"

    def build(self) -> None:
        import kubist

        table = kubist.create(
            self._location(),
            self.data.schema,
            dimensions=self.data.domain,
            identity=self.data.identity,
        )
        with table.writer() as writer:
            for batch in self.data.batches():
                writer.append(batch)
            writer.commit()
        table.close()

    def open(self) -> None:
        import kubist

        self._table = kubist.open(self._location())

    def ask(self, question: Question) -> int:
        found = self._table.query(box=question.box or None, sample=question.share)
        return found.to_arrow().num_rows

    def mean(self, name: str, share: float) -> tuple[float, int]:
        found = self._table.estimate(f"mean({name})", error=0.01)
        return found.value, found.to_arrow()["rows"][0].as_py()


class Lance(System):
    name = "Lance"

    def _location(self) -> tuple[str, dict[str, str]]:
        options = {
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "aws_endpoint": f"http://127.0.0.1:{self.port}",
            "allow_http": "true",
            "aws_region": "us-east-1",
        }
        return f"s3://{BUCKET}/{self.folder}/lance", options

    def build(self) -> None:
        import lance

        place, options = self._location()
        rows = sorted_by_key(self.data.batches(), self.data.domain)
        data = lance.write_dataset(rows, place, storage_options=options)
        for name in self.data.domain:
            data.create_scalar_index(name, index_type="ZONEMAP")

    def open(self) -> None:
        import lance

        place, options = self._location()
        self._data = lance.dataset(place, storage_options=options)

    def ask(self, question: Question) -> int:
        said = question.conditions(literal=lambda value: f"CAST({value!r} AS FLOAT)")
        filter = " AND ".join(said) or None
        return self._data.to_table(columns=self.data.columns, filter=filter).num_rows

    def mean(self, name: str, share: float) -> tuple[float, int]:
        found = self._data.to_table(columns=[name], filter=f"r < CAST({share!r} AS FLOAT)")
        return float(np.mean(column(found, name))), found.num_rows


class Parquet(System):
    name = "pyarrow dataset, Parquet"
    file_rows = 2_000_000
    group_rows = 16_384

    def _files(self) -> tuple[Any, str]:
        return files(self.port), f"{BUCKET}/{self.folder}/parquet"

    def build(self) -> None:
        import pyarrow.parquet as pq

        bucket, place = self._files()
        rows = sorted_by_key(self.data.batches(), self.data.domain)
        for number, first in enumerate(range(0, rows.num_rows, self.file_rows)):
            pq.write_table(
                rows.slice(first, self.file_rows),
                f"{place}/{number:04}.parquet",
                filesystem=bucket,
                row_group_size=self.group_rows,
                compression="zstd",
            )

    def open(self) -> None:
        import pyarrow.dataset as ds

        bucket, place = self._files()
        self._data = ds.dataset(place, filesystem=bucket, format="parquet")

    def ask(self, question: Question) -> int:
        import pyarrow.compute as pc

        filter = None
        for name, (low, high) in question.box.items():
            low, high = pa.scalar(low, pa.float32()), pa.scalar(high, pa.float32())
            inside = (pc.field(name) >= low) & (pc.field(name) <= high)
            filter = inside if filter is None else filter & inside
        if question.share is not None:
            chosen = pc.field("r") < pa.scalar(question.share, pa.float32())
            filter = chosen if filter is None else filter & chosen
        return self._data.to_table(columns=self.data.columns, filter=filter).num_rows

    def mean(self, name: str, share: float) -> tuple[float, int]:
        import pyarrow.compute as pc

        chosen = pc.field("r") < pa.scalar(share, pa.float32())
        found = self._data.to_table(columns=[name], filter=chosen)
        return float(np.mean(column(found, name))), found.num_rows


SYSTEMS: dict[str, type[System]] = {"kubist": Kubist, "lance": Lance, "parquet": Parquet}
