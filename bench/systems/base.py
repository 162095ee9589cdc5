"""The interface of a system in the benchmarks."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from ..data import Dataset
from ..question import Answer, Question, Unable

CORES = len(os.sched_getaffinity(0))


class System(ABC):
    """One way to store a data set in a directory, and to query it.

    A child process creates it for one measurement, and times `build` and `open`, but not the import
    of the library by the system's module.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    """The distribution whose version is reported."""
    settings: ClassVar[str]
    """Its configuration and the reason for it, for the report."""
    sampling: ClassVar[str] = "a stored uniform column `r`, `r < p`; for a limit, the lowest `r`"
    """The method of uniform samples."""
    indexes: ClassVar[bool] = True
    """Whether it can find a box without a full scan."""
    product: ClassVar[bool] = True
    """Whether its makers offer this configuration; otherwise it is our own design."""
    durable: ClassVar[bool] = False
    """Whether the system itself syncs commits; otherwise the caller syncs its files."""
    readers: ClassVar[str] = "processes"
    """How several readers share it: ``processes`` or ``threads``."""

    def __init__(self, data: Dataset, path: Path) -> None:
        self.data = data
        self.path = path

    @classmethod
    def missing(cls) -> str | None:
        """The reason why this machine lacks it, or None."""
        return None

    @classmethod
    def version(cls) -> str:
        return version(cls.package)

    def refuses(self) -> str | None:
        """The reason why it cannot store this data set, or None."""
        return None

    @abstractmethod
    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Stores all rows in bulk; the caller syncs files that the system did not."""

    def start_stream(self) -> None:
        """Creates an empty store for commits."""
        raise Unable("stores only in bulk")

    def commit(self, batch: pa.RecordBatch) -> None:
        """Adds rows, which are visible on return; the caller syncs files if the system did not."""
        raise Unable("stores only in bulk")

    def end_stream(self) -> None:
        self.close()

    def prepare(self) -> None:  # noqa: B027 most systems have no server
        """Starts a server before the measurement of a first query."""

    @abstractmethod
    def open(self) -> None:
        """Opens the store for reading."""

    @abstractmethod
    def ask(self, question: Question) -> Answer:
        """All columns of the matching rows, as Arrow data in memory."""

    def scan(self) -> int:
        """Scans all values of all rows without storing them; returns the number of rows."""
        raise Unable("has no streaming scan")

    def first(self, box: dict[str, tuple[float, float]]) -> Answer:
        """The first rows of a progressive query; otherwise, a small sample."""
        return self.ask(Question(box=box, share=0.001))

    @abstractmethod
    def close(self) -> None:
        """Releases files, caches and processes."""

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def server(self) -> int | None:
        """The process that does the work; None: this one."""
        return None

    def answer_columns(self, table: pa.Table) -> pa.Table:
        """The data set's columns, in their original types."""
        return table.select(self.data.columns).cast(self.data.schema)


def stored_bytes(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def sync(path: Path) -> None:
    for file in [path, *path.rglob("*")]:
        if file.is_symlink() or not (file.is_file() or file.is_dir()):
            continue
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
