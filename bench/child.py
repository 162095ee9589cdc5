"""One measurement in its own process, from a task to figures, both as JSON.

    python -m bench.child < task.json

The library is imported before the measurement. A cold query drops the caches, opens the store and
queries it; a warm query runs twice before it is measured.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from .data import Dataset
from .keys import checksum, column, row_hashes
from .limits import confined
from .measure import Cost, drop_caches, measured
from .question import Answer, Question, Unable
from .systems import load
from .systems.base import System, stored_bytes, sync

Figures = dict[str, Any]

# Minimum number of cold queries, regardless of their time.
LEAST_COLD = 3


def main() -> None:
    task = json.load(sys.stdin)
    # Libraries print to standard output, so the result uses a duplicate.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        result = perform(task)
    except Unable as reason:
        result = {"unable": str(reason)}
    json.dump(result, out)
    out.flush()
    # Some libraries hang or crash at exit.
    os._exit(0)


def perform(task: Figures) -> Figures:
    system = load(task["system"])(Dataset(**task["data"]), Path(task["path"]))
    if reason := system.refuses():
        return {"unable": reason}
    with confined(task.get("memory_bytes")):
        return _WORK[task["work"]](system, task)


def build(system: System, task: Figures) -> Figures:
    system.remove()
    with measured(system.server()) as cost:
        system.build(system.data.batches())
        if not system.durable:
            sync(system.path)
    return _stored(system, cost, task)


def stream(system: System, task: Figures) -> Figures:
    """Commits in sequence, each durable before the next."""
    system.remove()
    system.start_stream()
    rows, commits = task["rows"], task["commits"]
    table = system.data.table().slice(0, rows * commits).combine_chunks()
    batches = [table.slice(i * rows, rows).to_batches()[0] for i in range(commits)]
    seconds = []
    with measured(system.server()) as cost:
        for batch in batches:
            began = time.perf_counter()
            system.commit(batch)
            if not system.durable:
                sync_new(system.path)
            seconds.append(time.perf_counter() - began)
        system.end_stream()
        if not system.durable:
            sync(system.path)
    figures = _stored(system, cost, task)
    return {**figures, "commits": commits, "rows": rows * commits, "commit_seconds": seconds}


_synced: dict[Path, float] = {}


def sync_new(path: Path) -> None:
    """Syncs files that changed since the last call, so a commit pays only for its own files."""
    for directory, _, names in os.walk(path):
        for place in [Path(directory), *(Path(directory, name) for name in names)]:
            try:
                changed = place.stat().st_mtime_ns
                if _synced.get(place) == changed:
                    continue
                handle = os.open(place, os.O_RDONLY)
            except OSError:
                continue  # merged away in the meantime
            os.fsync(handle)
            os.close(handle)
            _synced[place] = changed


def _stored(system: System, cost: Cost, task: Figures) -> Figures:
    return {"cost": cost.as_json(), "stored": stored_bytes(system.path), "rows": system.data.rows}


def ask(system: System, task: Figures) -> Figures:
    questions = [Question.from_json(each) for each in task["questions"]]
    how = task.get("how", "ask")
    if task["state"] == "cold":
        return {"runs": _cold(system, questions, how, task["budget"])}
    system.open()
    runs: list[Figures] = []
    until = time.monotonic() + task["budget"]
    for question in questions:
        for _ in range(2):
            _one(system, question, how)
        for _ in range(task["repeats"]):
            with measured(system.server()) as cost:
                answer = _one(system, question, how)
            runs.append(_run(cost, answer))
            del answer
            if time.monotonic() > until:
                break
        if time.monotonic() > until:
            break
    system.close()
    return {"runs": runs}


def _cold(system: System, questions: list[Question], how: str, budget: float) -> list[Figures]:
    # An uncounted query loads the code: only the data should be cold.
    system.open()
    _one(system, questions[0], how)
    system.close()
    runs: list[Figures] = []
    until = time.monotonic() + budget
    # Several queries, because the latency of a shared device varies.
    again = -(-LEAST_COLD // len(questions))
    for question in questions * again:
        system.prepare()
        dropped = drop_caches(system.path)
        with measured(system.server()) as cost:
            system.open()
            answer = _one(system, question, how)
        runs.append({**_run(cost, answer), "cold_by": dropped})
        del answer
        system.close()
        if len(runs) >= LEAST_COLD and time.monotonic() > until:
            break
    return runs


def _one(system: System, question: Question, how: str) -> Answer | int:
    if how == "scan":
        return system.scan()
    if how == "first":
        return system.first(question.box)
    return system.ask(question)


def _run(cost: Cost, answer: Answer | int) -> Figures:
    figures = cost.as_json()
    if isinstance(answer, int):
        return {**figures, "rows": answer}
    figures.update(rows=answer.table.num_rows, answer_bytes=answer.table.nbytes)
    figures.update(rows_examined=answer.rows_read, bytes_claimed=answer.bytes_read)
    return {**figures, "pages": answer.pages_read}


def answers(system: System, task: Figures) -> Figures:
    system.open()
    said = []
    for place, each in enumerate(task["questions"]):
        try:
            table = system.answer_columns(system.ask(Question.from_json(each)).table)
        except Unable as reason:
            said.append({"unable": str(reason)})
            continue
        file = Path(task["scratch"]) / f"{task['system']}-{place}.npz"
        pid, when = column(table, "pid"), column(table, "time")
        np.savez(file, hashes=row_hashes(table), pid=pid, time=when)
        said.append({"rows": table.num_rows, "checksum": checksum(table), "file": str(file)})
    system.close()
    return {"answers": said}


def readers(system: System, task: Figures) -> Figures:
    """Several concurrent readers, each running all queries; warm."""
    count = task["readers"]
    questions = [Question.from_json(each) for each in task["questions"]]
    if system.readers == "threads":
        return _by_threads(system, questions, count)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(count + 1)
    processes = [
        context.Process(target=_reader, args=(task, barrier), daemon=True) for _ in range(count)
    ]
    for process in processes:
        process.start()
    barrier.wait(task["timeout"])  # all have opened and are warm
    with measured() as cost:
        barrier.wait()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a reader failed")
    return {"cost": cost.as_json(), "queries": count * len(questions)}


def _reader(task: Figures, barrier: Any) -> None:
    system = load(task["system"])(Dataset(**task["data"]), Path(task["path"]))
    questions = [Question.from_json(each) for each in task["questions"]]
    system.open()
    for question in questions:
        system.ask(question)
    barrier.wait()
    barrier.wait()
    for question in questions:
        system.ask(question)
    os._exit(0)


def _by_threads(system: System, questions: list[Question], count: int) -> Figures:
    system.open()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            for question in questions:
                system.ask(question)
        except BaseException as error:
            failed.append(error)

    read()
    threads = [threading.Thread(target=read) for _ in range(count)]
    with measured(system.server()) as cost:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    system.close()
    if failed:
        raise failed[0]
    return {"cost": cost.as_json(), "queries": count * len(questions)}


_WORK = {"build": build, "stream": stream, "ask": ask, "answers": answers, "readers": readers}

if __name__ == "__main__":
    main()
