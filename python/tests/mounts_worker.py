"""A process that works on a table: `mounts_worker.py ROLE LOCATION WRITER`.

It prints its actions until its standard input ends; it retries only transient errors.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import kubist

SCHEMA = pa.schema(
    {"writer": pa.int32(), "commit": pa.int32(), "row": pa.int32(), "x": pa.float32()}
)
# Transient errors: a missing mount, a name of another process, a cleaned file.
PASSING = (
    kubist.Unavailable,
    kubist.NotATable,
    kubist.NoSpace,
    kubist.Busy,
    kubist.Refused,
    kubist.SnapshotExpired,
)

END = threading.Event()


def rows_of(writer: int, commit: int) -> int:
    return 1 + (writer * 31 + commit) * 7919 % 200 if commit % 9 else 5_000


def rows(writer: int, commit: int) -> pa.RecordBatch:
    count = rows_of(writer, commit)
    x = np.random.default_rng([writer, commit]).random(count, dtype=np.float32)
    numbers = [np.full(count, each, np.int32) for each in (writer, commit)]
    return pa.record_batch([*numbers, np.arange(count, dtype=np.int32), x], schema=SCHEMA)


def whole(held: kubist.Table | kubist.Snapshot) -> dict[int, int]:
    """Checks that commits are complete and consecutive."""
    found = held.query(columns=["writer", "commit"]).to_arrow()
    counts = found.group_by(["writer", "commit"]).aggregate([([], "count_all")])
    commits: dict[int, set[int]] = {}
    for each in counts.to_pylist():
        writer, commit = each["writer"], each["commit"]
        assert each["count_all"] == rows_of(writer, commit), each
        commits.setdefault(writer, set()).add(commit)
    for writer, seen in commits.items():
        assert seen == set(range(len(seen))), f"of writer {writer} {sorted(seen)}"
    return {writer: len(seen) for writer, seen in commits.items()}


def say(*words: object) -> None:
    print(*words, flush=True)


def patiently(work: Callable[[], bool]) -> None:
    while True:
        try:
            if work():
                return
        except PASSING as error:
            say("failed", type(error).__name__, " ".join(str(error).split()))
            time.sleep(0.05)
        if END.is_set():
            return


def committed(writer: kubist.Writer) -> int:
    count = 0
    for bit in reversed(range(20)):
        if writer.committed(str(count + (1 << bit) - 1)) is not None:
            count += 1 << bit
    return count


def write(location: str, writer: int) -> None:
    """Commits under one token each, so that none is stored twice."""
    number: int | None = None

    def work() -> bool:
        nonlocal number
        with kubist.open(location) as t, t.writer(f"w{writer}") as w:
            if number is None:
                number = committed(w)
                say("begins", number)
            while not END.is_set():
                w.append(rows(writer, number))
                w.commit(token=str(number))
                number += 1
                say("done", number)
        return True

    patiently(work)


def read(location: str, _: int) -> None:
    """Each snapshot must have complete commits, and at least those of the previous one."""
    before: dict[int, int] = {}

    def work() -> bool:
        nonlocal before
        with kubist.open(location) as t:
            while not END.is_set():
                now = whole(t.snapshot())
                fewer = [each for each, count in before.items() if now.get(each, 0) < count]
                assert not fewer, (before, now)
                before = now
                say("looked")
        return True

    patiently(work)


def optimize(location: str, _: int) -> None:
    def work() -> bool:
        with kubist.open(location) as t:
            report = t.optimize(debt_share=0.1)
            say("rewrote", report.rewrites)
            t.clean(retention=5)
            say("cleaned")
        time.sleep(0.1)
        return False

    patiently(work)


def main() -> None:
    role, location, writer = sys.argv[1:]
    threading.Thread(target=lambda: (sys.stdin.read(), END.set()), daemon=True).start()
    {"write": write, "read": read, "optimize": optimize}[role](location, int(writer))
    say("ended")


if __name__ == "__main__":
    main()
