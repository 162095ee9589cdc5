"""Two machines on one folder through a misbehaving file system (`scripts/mounts.py`).

Each machine is a set of namespaces with writers, readers and an optimizer. Processes are killed and
stopped, mounts disappear, and the server stops answering.

`make stress-mounts` runs ROUNDS=n with slow events: another machine takes a stopped writer's name,
or a machine dies.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import mounts_worker as at_work
import pyarrow as pa
import pytest

import kubist

MOUNTS = Path(__file__).resolve().parents[2] / "scripts" / "mounts.py"
WORKER = Path(at_work.__file__)
LONG = "ROUNDS" in os.environ
ROUNDS = int(os.environ.get("ROUNDS", "6"))
SEED = int(os.environ.get("SEED", "1"))
HANGS = 900.0
# A mount caches for a second. On a busy machine, the kernel counts from later than the server's
# response.
STALE = "3"
# A machine ends with the process that started it.
MACHINE = ["setpriv", "--pdeathsig", "KILL", "unshare"]
MACHINE += ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def can_mount() -> bool:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return False
    with suppress(OSError):
        tried = subprocess.run([*MACHINE, "true"], capture_output=True, check=False)
        return tried.returncode == 0
    return False


works_here = pytest.mark.skipif(
    not can_mount(), reason="cannot mount here: this needs /dev/fuse and the right to mount"
)
pytestmark = [pytest.mark.release, works_here]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + HANGS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Machine:
    def __init__(self, name: str, folder: Path, point: Path) -> None:
        self.name, self.folder, self.point = name, folder, point
        self.starts = 0
        self.boot()

    def boot(self) -> None:
        command = [*MACHINE, "sh", "-c", "echo; exec sleep infinity"]
        self.holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.holder.stdout is not None
        with self.holder.stdout as said:
            assert said.readline(), "no machine can be made"
        self.mount()

    def enter(self) -> list[str]:
        of = f"/proc/{self.holder.pid}/ns"
        return ["nsenter", f"--mount={of}/mnt", f"--net={of}/net", f"--pid={of}/pid_for_children"]

    def mount(self) -> None:
        self.starts += 1
        command = [sys.executable, str(MOUNTS), "serve", str(self.folder), str(self.point)]
        command += ["--node", self.name, "--seed", str(SEED * 1000 + self.starts)]
        self.server = subprocess.Popen([*self.enter(), *command], stdin=subprocess.DEVNULL)
        mounted = Path(f"/proc/{self.holder.pid}/mountinfo")
        wait_until(lambda: f" {self.point} " in mounted.read_text(), "a mount")

    def unmount(self) -> None:
        """Kills its server, so that users of the mount get errors."""
        send(self.server, signal.SIGKILL)
        self.server.wait()
        subprocess.run([*self.enter(), "umount", "-l", str(self.point)], check=True)

    def die(self) -> None:
        self.holder.kill()
        self.holder.wait()
        awake(self.server)
        self.server.wait()


def send(process: subprocess.Popen[bytes] | subprocess.Popen[str], number: signal.Signals) -> None:
    os.kill(within(process), number)
    if number != signal.SIGSTOP:
        awake(process)


def awake(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """A process that entered the machine stops a little later than its child."""
    process.send_signal(signal.SIGCONT)


def within(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> int:
    """The host's number of a process that was started in a machine."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found: list[str] = []

    def started() -> bool:
        found[:] = children.read_text().split()
        return bool(found)

    wait_until(started, "a process")
    return int(found[0])


class Worker:
    def __init__(self, role: str, machine: Machine, number: int = 0) -> None:
        self.role, self.machine, self.number = role, machine, number
        self.said: Counter[str] = Counter()
        self.failures: list[str] = []
        self.done = 0
        command = [sys.executable, str(WORKER), role, str(machine.point / "t.kubist"), str(number)]
        self.process = subprocess.Popen(
            [*machine.enter(), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"KUBIST_STALE_SECONDS": STALE},
        )
        assert self.process.stdout is not None
        self.hearing = threading.Thread(target=self._hear, args=[self.process.stdout])
        self.hearing.start()

    def _hear(self, lines: IO[str]) -> None:
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word in ("begins", "done"):
                self.done = int(rest)
            elif word == "failed":
                self.failures.append(rest)
            self.said[word] += 1

    def kill(self) -> None:
        send(self.process, signal.SIGKILL)
        self.gone()

    def gone(self) -> None:
        awake(self.process)
        self.process.wait()
        self.hearing.join()
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                with suppress(BrokenPipeError):
                    end.close()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> bool:
        awake(self.process)
        code = self.process.poll()
        assert code in (None, 0), f"a worker ({self.role} {self.number}) ended with {code}"
        return code == 0


class Campaign:
    def __init__(self, folder: Path, point: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.machines = [Machine(name, folder, point) for name in ("one", "other")]
        one, other = self.machines
        owners = enumerate([one, other, one, other])
        self.workers = [Worker("write", each, number) for number, each in owners]
        self.workers += [Worker("read", each) for each in (one, other, one)]
        self.workers += [Worker("optimize", each) for each in (one, other)]
        # Acknowledged commits, also of finished writers.
        self.acknowledged: Counter[int] = Counter()
        self.said: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.played: Counter[str] = Counter()

    def other(self, machine: Machine) -> Machine:
        return self.machines[machine is self.machines[0]]

    def started_again(self, worker: Worker, machine: Machine | None = None) -> None:
        self.count(worker)
        fresh = Worker(worker.role, machine or worker.machine, worker.number)
        self.workers[self.workers.index(worker)] = fresh

    def count(self, worker: Worker) -> None:
        if worker.role == "write":
            known = self.acknowledged[worker.number]
            self.acknowledged[worker.number] = max(known, worker.done)
        self.said.update(worker.said)
        self.failures.update(failure.split()[0] for failure in worker.failures)


    def a_process_is_killed(self) -> None:
        worker = self.chance.choice(self.workers)
        worker.kill()
        # Its name is free on another machine only after 30 s.
        moves = LONG and self.chance.random() < 0.2
        self.started_again(worker, self.other(worker.machine) if moves else None)

    def a_process_is_stopped(self) -> None:
        worker = self.chance.choice(self.workers)
        send(worker.process, signal.SIGSTOP)
        self.goes_on(besides=[worker])
        send(worker.process, signal.SIGCONT)

    def a_mount_goes_away(self) -> None:
        machine = self.chance.choice(self.machines)
        machine.unmount()
        time.sleep(self.chance.random())
        machine.mount()

    def the_server_does_not_answer(self) -> None:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for machine in self.machines:
                send(machine.server, number)
            if number == signal.SIGSTOP:
                time.sleep(self.chance.random() * 2)

    def a_writer_is_taken_over(self) -> None:
        """It continues after its name has another owner on the other machine."""
        writer = self.chance.choice(self.workers[:4])
        send(writer.process, signal.SIGSTOP)
        heir = Worker("write", self.other(writer.machine), writer.number)
        wait_until(lambda: heir.said["done"] > 1, f"a writer takes over: {heir.failures[-1:]}")
        said = writer.said["failed"]
        send(writer.process, signal.SIGCONT)
        wait_until(lambda: writer.said["failed"] > said, "a writer that was taken over is refused")
        writer.kill()
        self.count(writer)
        self.workers[self.workers.index(writer)] = heir

    def a_machine_dies(self) -> None:
        machine = self.chance.choice(self.machines)
        machine.die()
        gone = [worker for worker in self.workers if worker.machine is machine]
        for worker in gone:
            worker.gone()
        machine.boot()
        for worker in gone:
            self.started_again(worker)


    def goes_on(self, besides: list[Worker] | None = None) -> None:
        asleep = besides or []
        busy = [worker for worker in self.workers if worker.role != "optimize"]
        waited = [worker for worker in busy if worker not in asleep]
        before = [worker.said.copy() for worker in waited]

        def did_more(worker: Worker, said: Counter[str]) -> bool:
            word = WORDS[worker.role]
            return worker.said[word] > said[word]

        def done() -> bool:
            assert not any(worker.ended() for worker in self.workers if worker not in asleep)
            return all(map(did_more, waited, before))

        last = [worker.failures[-1:] for worker in waited]
        wait_until(done, f"the work stands still: {last}")

    def round(self) -> None:
        often = [
            (self.a_process_is_killed, 8),
            (self.a_process_is_stopped, 5),
            (self.a_mount_goes_away, 3),
            (self.the_server_does_not_answer, 3),
        ]
        seldom = [(self.a_writer_is_taken_over, 1), (self.a_machine_dies, 1)] if LONG else []
        events, weights = zip(*often, *seldom, strict=True)
        (event,) = self.chance.choices(events, weights)
        self.goes_on()
        # A random delay, to interrupt work at any point.
        time.sleep(self.chance.random() * 0.1)
        event()
        self.played[event.__name__] += 1
        print(event.__name__, flush=True)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()
        for worker in self.workers:
            last = worker.failures[-1:]
            wait_until(worker.ended, f"a worker ({worker.role}) does not end: {last}")
            worker.gone()
            self.count(worker)

    def close(self) -> None:
        for machine in self.machines:
            machine.die()
        for worker in self.workers:
            worker.gone()


WORDS = {"write": "done", "read": "looked", "optimize": "cleaned"}


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Campaign]:
    monkeypatch.setenv("KUBIST_STALE_SECONDS", STALE)
    files = tmp_path / "server" / "files"
    files.mkdir(parents=True)
    point = tmp_path / "mounted"
    point.mkdir()
    identity = ["writer", "commit", "row"]
    kubist.create(files / "t.kubist", at_work.SCHEMA, ["x"], identity=identity, storage={"shared": True}).close()
    played = Campaign(tmp_path / "server", point, SEED)
    yield played
    played.close()


def test_what_two_machines_write_is_there_whatever_happens(campaign: Campaign) -> None:
    for _ in range(ROUNDS):
        campaign.round()
    campaign.goes_on()
    campaign.end()
    print(dict(campaign.played), dict(campaign.said))
    print("failures that passed:", dict(campaign.failures))
    machine = campaign.machines[0]
    t = kubist.open(machine.folder / "files" / "t.kubist")
    assert at_work.whole(t) == dict(campaign.acknowledged)
    order = [(name, "ascending") for name in ("writer", "commit", "row")]
    found = t.query().to_arrow().sort_by(order)
    expected = [at_work.rows(*each) for each in sorted(commits(campaign.acknowledged))]
    assert found.select(at_work.SCHEMA.names).equals(pa.Table.from_batches(expected))
    assert t.verify(deep=True).ok


def commits(acknowledged: Counter[int]) -> list[tuple[int, int]]:
    return [(writer, commit) for writer, count in acknowledged.items() for commit in range(count)]
