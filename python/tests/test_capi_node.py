"""Ranks of a node that share a ring, and their leader, each in its own process."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import textwrap
from ctypes import c_uint64, c_void_p
from pathlib import Path

import pytest
from libkubist import TABLE, Failed, Library, built


@pytest.fixture
def table(lib: Library, path: Path) -> c_void_p:
    return lib.handle("table_create", str(path), TABLE)


RANK = """
    import sys, os, mmap
    sys.path.insert(0, {here!r})
    import ctypes
    from ctypes import c_void_p
    from libkubist import *
    lib = Library(built() / "libkubist_capi.so")
    table = lib.handle("table_open", {path!r})
    with open({shared!r}, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    place = c_void_p(first), len(memory)
    def say(*words):
        os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
    def attach(rank):
        options = '{{"timeout_seconds": 60}}'
        return lib.handle("writer_attach", table, options, *place, rank)
"""


class Node:
    def __init__(self, path: Path, ranks: int, lane_bytes: int = 0) -> None:
        lib = ctypes.CDLL(str(built() / "libkubist_capi.so"))
        lib.kubist_ring_bytes.restype = c_uint64
        self.shared = path.with_suffix(".ring")
        self.shared.write_bytes(bytes(lib.kubist_ring_bytes(ranks, c_uint64(lane_bytes))))
        self.head = textwrap.dedent(RANK).format(
            here=str(Path(__file__).parent), path=str(path), shared=str(self.shared)
        )
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, script: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", self.head + textwrap.dedent(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


LEADER = """
    leader = lib.handle("leader_start", table, '{"name": "node"}', *place, 2)
    say("leads")
    try:
        lib.leader_close(leader, 60.0)
        say("ended")
    except Failed as failure:
        say(failure)
"""


def test_a_rank_that_dies_takes_the_step_with_it_and_others_are_told(
    table: c_void_p, lib: Library, path: Path
) -> None:
    """The other ranks' rows are not written either, because the step would look complete."""
    with Node(path, 2) as node:
        leader = node.start(LEADER)
        assert heard(leader) == "leads"
        survivor = node.start(
            """
            writer = attach(0)
            for step in (1, 2):
                lib.begin_step(writer, step)
                put_all(lib, writer, [0.5] * 10)
                lib.end_step(writer, None, None)
                say("ended", step)
            try:
                lib.wait(writer, 2, 60.0)
            except Failed as failure:
                say(failure)
            """
        )
        assert [heard(survivor), heard(survivor)] == ["ended 1", "ended 2"]
        victim = node.start(
            """
            writer = attach(1)
            lib.begin_step(writer, 1)
            put_all(lib, writer, [0.25] * 5)
            lib.end_step(writer, None, None)
            lib.wait(writer, 1, 60.0)
            lib.begin_step(writer, 2)
            put_all(lib, writer, [0.25] * 5)
            say("in step 2")
            sys.stdin.read()
            """
        )
        assert heard(victim) == "in step 2"
        victim.kill()
        victim.wait(60)
        told = f"rank 1 of this node, process {victim.pid}, has died: step 2 is not written"
        assert told in heard(survivor)
        assert told in heard(leader)
    assert lib.rows(table) == 15


def test_a_leader_that_dies_is_noticed(table: c_void_p, lib: Library, path: Path) -> None:
    with Node(path, 2, lane_bytes=8192) as node:
        leader = node.start(LEADER)
        assert heard(leader) == "leads"
        rank = node.start(
            """
            writer = attach(0)
            lib.begin_step(writer, 1)
            put_all(lib, writer, [0.5] * 10)
            lib.end_step(writer, None, None)
            lib.begin_step(writer, 2)
            say("in step 2")
            try:
                while True:
                    put(lib, writer, "x", F64, [0.5] * 100_000)
            except Failed as failure:
                say(failure)
            try:
                lib.writer_close(writer, 60.0)
            except Failed as failure:
                say(failure.status)
            """
        )
        assert heard(rank) == "in step 2"
        leader.kill()
        leader.wait(60)
        told = heard(rank)
        assert told.startswith("unavailable") and f"process {leader.pid}, has ended" in told
        assert heard(rank) in ("unavailable", "expired")
    assert lib.rows(table) == 0


def test_a_full_ring_waits_for_room_or_fails_at_once(
    table: c_void_p, lib: Library, path: Path
) -> None:
    with Node(path, 2, lane_bytes=8192) as node:
        assert heard(node.start(LEADER)) == "leads"
        rank = node.start(
            """
            writer = lib.handle("writer_attach", table, '{"when_full": "fail"}', *place, 0)
            lib.begin_step(writer, 1)
            try:
                put(lib, writer, "x", F64, [0.5] * 2000)
            except Failed as failure:
                say(failure)
            put_all(lib, writer, [0.5] * 10)
            lib.end_step(writer, None, None)
            # The other rank has not come yet: this one gets no further than the ring is long.
            try:
                for step in range(2, 1000):
                    lib.begin_step(writer, step)
                    put_all(lib, writer, [0.5] * 100)
                    lib.end_step(writer, None, None)
            except Failed as failure:
                say(failure)
            other = attach(1)
            for earlier in range(1, step):
                lib.begin_step(other, earlier)
                lib.end_step(other, None, None)
            lib.abandon_step(writer)
            lib.begin_step(other, step)
            lib.abandon_step(other)
            lib.writer_close(other, 60.0)
            lib.writer_close(writer, 60.0)
            say("wrote", 10 + 100 * (step - 2))
            """
        )
        assert heard(rank).startswith("invalid_input: 16064 bytes do not fit into the ring")
        assert heard(rank).startswith("busy: the ring is full")
        wrote = heard(rank)
        assert wrote.startswith("wrote")
    assert lib.rows(table) == int(wrote.split()[1])


def test_memory_that_is_promised_and_not_there_is_told(
    lib: Library, table: c_void_p, tmp_path: Path
) -> None:
    """A process that touches a page of a full /dev/shm, or beyond a file's end, is killed."""
    pages = 64
    with open(tmp_path / "window", "wb+") as file:
        file.truncate(pages * mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), pages * mmap.PAGESIZE)
        file.truncate(pages // 2 * mmap.PAGESIZE)
    place = c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    with pytest.raises(Failed, match="262144 bytes.*cannot be allocated.*enlarge /dev/shm") as failed:
        lib.handle("leader_start", table, '{"name": "node-0"}', place, c_uint64(len(memory)), 2)
    assert failed.value.status == "unavailable"
