"""What a system must be able to do to be measured."""

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
    """One way to store a data set in a directory, and to answer questions from it.

    Made in a child process for one measurement. `build` and `open` are timed by
    the caller; importing the library belongs to neither, so it is done at the
    import of the system's module.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    """The distribution whose version is reported."""
    settings: ClassVar[str]
    """How it is configured, and why, for the report."""
    sampling: ClassVar[str] = "a stored uniform column `r`, `r < p`; for a limit, the lowest `r`"
    """What gives a uniform sample."""
    indexes: ClassVar[bool] = True
    """Whether it can find a box without looking at everything."""
    product: ClassVar[bool] = True
    """Whether it is a way that its makers offer; else a peer of our own devising."""
    durable: ClassVar[bool] = False
    """Whether a commit is on the disk by the system's own doing; else its files are synced."""
    readers: ClassVar[str] = "processes"
    """How several readers share it: ``processes`` or ``threads``."""

    def __init__(self, data: Dataset, path: Path) -> None:
        self.data = data
        self.path = path

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be had on this machine, or None."""
        return None

    @classmethod
    def version(cls) -> str:
        return version(cls.package)

    def refuses(self) -> str | None:
        """Why it cannot hold this data set, or None."""
        return None

    @abstractmethod
    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Stores all rows, in bulk; the caller syncs files that the system did not."""

    def start_stream(self) -> None:
        """An empty store, ready for commits."""
        raise Unable("stores only in bulk")

    def commit(self, batch: pa.RecordBatch) -> None:
        """Adds rows, visible on return; the caller syncs files that the system did not."""
        raise Unable("stores only in bulk")

    def end_stream(self) -> None:
        """Leaves the store as a reader will find it."""
        self.close()

    def prepare(self) -> None:  # noqa: B027 most systems have no server
        """Starts a server, which a first question need not wait for."""

    @abstractmethod
    def open(self) -> None:
        """Opens what is stored, for reading."""

    @abstractmethod
    def ask(self, question: Question) -> Answer:
        """All columns of the records that match, in memory, as Arrow data."""

    def scan(self) -> int:
        """Passes over all values of all rows without keeping them; the number of rows."""
        raise Unable("has no streaming scan")

    def first(self, box: dict[str, tuple[float, float]]) -> Answer:
        """The first rows of a progressive query; without such a thing, a small sample."""
        return self.ask(Question(box=box, share=0.001))

    @abstractmethod
    def close(self) -> None:
        """Lets go of files, caches and processes."""

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def server(self) -> int | None:
        """The process that does the work, if it is not this one."""
        return None

    def answer_columns(self, table: pa.Table) -> pa.Table:
        """Only the data set's columns, as they were given."""
        return table.select(self.data.columns).cast(self.data.schema)


def stored_bytes(path: Path) -> int:
    """Of all files below ``path``, as their sizes say."""
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def sync(path: Path) -> None:
    """Makes durable what a system left to the operating system."""
    for file in [path, *path.rglob("*")]:
        if file.is_symlink() or not (file.is_file() or file.is_dir()):
            continue
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
