"""The storage interface of PyCOMPSs over `kubist.hecuba`.

Workers open objects with an identity (``getID()`` is not None) through `getByID`. Writes are
committed when a task ends, so that the next task sees them.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from kubist.hecuba import commit, config, getByID

__all__ = [
    "TaskContext",
    "finish",
    "finishWorker",
    "finishWorkerPostFork",
    "getByID",
    "init",
    "initWorker",
    "initWorkerPostFork",
]


def init(config_file_path: str | None = None) -> None:
    """Called by the main program: reads ``location = ...`` from the storage configuration."""
    if config_file_path is None:
        return
    with open(config_file_path) as lines:
        for line in lines:
            name, equals, value = line.partition("=")
            if equals and name.strip() == "location":
                config.location = value.strip()


def finish() -> None:
    """Called at the end of the main program."""
    commit()


def initWorker(config_file_path: str | None = None) -> None:
    """Called by each worker before its processes start."""
    init(config_file_path)


def finishWorker() -> None:
    """Called by each worker at its end."""
    commit()


def initWorkerPostFork() -> None:
    """Called by each process of a worker at its start, which does not use handles of the parent."""


def finishWorkerPostFork() -> None:
    """Called by each process of a worker at its end."""
    commit()


class TaskContext:
    """Surrounds a task, and commits its writes at the end if it does not fail."""

    def __init__(
        self, logger: Any, values: Any, config_file_path: str | None = None
    ) -> None:
        self._logger = logger

    def __enter__(self) -> None:
        self._logger.info("storage: the task starts")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            commit()
        self._logger.info("storage: the task ended")
