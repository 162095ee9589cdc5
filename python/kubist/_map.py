"""Calls a function with every part of a query, in several processes: `Table.map`."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ._errors import InvalidInput, StorageError
from ._libraries import need
from ._split import Split

T = TypeVar("T")


def map_parts(
    function: Callable[[Split], T],
    parts: Sequence[Split],
    processes: int,
    progress: Callable[[int, int], object] | None,
) -> list[T]:
    """The results of all parts, in their order; the first failure stops the other processes."""
    code = _pickled(function)
    # A fork would inherit open tables, which then refuse to work.
    context = multiprocessing.get_context("spawn")
    total, done = sum(part.rows for part in parts), 0
    results: list[Any] = [None] * len(parts)
    pool = ProcessPoolExecutor(min(processes, len(parts)), context, initializer=_begin)
    try:
        places: dict[Future[T], int] = {
            pool.submit(_call, code, part.to_json()): at for at, part in enumerate(parts)
        }
        waiting = set(places)
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                at = places[future]
                results[at] = _result(future, at, len(parts))
                done += parts[at].rows
            if progress is not None:
                progress(done, total)
    except BaseException:
        _stop(pool)
        raise
    pool.shutdown()
    return results


def _pickled(function: Callable[[Split], T]) -> bytes:
    """The function as bytes; functions of a notebook and lambdas need cloudpickle."""
    if not callable(function):
        raise InvalidInput(f"map: expected a function of a split, not {function!r}")
    try:
        return bytes(need("cloudpickle", "map()").dumps(function))
    except ImportError:
        pass
    except Exception as error:
        raise InvalidInput(f"map: {function!r} cannot be sent to a process: {error}") from error
    try:
        return pickle.dumps(function)
    except Exception as error:
        raise InvalidInput(
            f"map: {function!r} cannot be sent to a process: define it at the top of a module, or "
            "pip install cloudpickle"
        ) from error


def _call(code: bytes, split: str) -> Any:
    function: Callable[[Split], Any] = pickle.loads(code)
    return function(Split.from_json(split))


def _result(future: Future[T], at: int, parts: int) -> T:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise StorageError(
            "map: a process was killed, perhaps for its memory: use more splits or fewer processes"
        ) from error
    except Exception as error:
        error.add_note(f"in split {at} of {parts}")
        raise


def _begin() -> None:
    # Ctrl-C reaches all processes of a terminal; the parent stops its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent was killed, instead of waiting for a part forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """Ends the processes without waiting for their parts."""
    # Python 3.14 and later have `terminate_workers`.
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
