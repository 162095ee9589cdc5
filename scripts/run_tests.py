"""Runs a tier of the tests, for `make check`, `make test` and `make test-all`.

    python scripts/run_tests.py check|test|all [--minutes N]

`STEPS` lists the steps, each with its tiers, command and services. After the builds, two steps run
at a time, one per core, and show their output at the end. Tests of the page and campaigns follow,
one at a time. Nothing runs after a failed build; other failures do not stop the run. After N
minutes, no step starts, and running steps are ended and fail.

The last lines are a table of seconds, for docs/testing.md, and `N passed, N failed, N skipped`. The
exit code is 0 only if every step ran tests and none failed. A step whose service or program is not
available counts as one skipped test.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECK, TEST, ALL = "check", "test", "all"
TIERS = (CHECK, TEST, ALL)

# Services: the commands to start and end them, and the variables through which tests find them.


@dataclass
class Service:
    script: list[str]
    start: list[str]
    found_by: dict[str, str]


S3, CASSANDRA, SECURE = "S3", "Cassandra", "secure Cassandra"
S3_PORT = "7077"
# The campaigns use the same nodes, if they are up.
NODES = Path(os.environ.setdefault("CASSANDRA_HOME", str(ROOT / "target/cassandra"))).resolve()
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]


def services(tier: str) -> dict[str, Service]:
    """The last tier has several nodes, for tests of faults and agreement."""
    hosts = HOSTS if tier == ALL else HOSTS[:1]
    cassandra = [sys.executable, "scripts/cassandra.py"]
    home = os.environ.get("S3_HOME", str(ROOT / "target/s3"))
    s3 = ["env", f"S3_HOME={home}", f"PORT={S3_PORT}", sys.executable, "scripts/s3.py"]
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testsecret"}
    nodes = ["up", "--nodes", str(len(hosts))]
    authority = {"KUBIST_TEST_CASSANDRA_CA": str(NODES / "node-9/ca.pem")}
    return {
        S3: Service(s3, ["up"], {"KUBIST_TEST_S3": f"http://127.0.0.1:{S3_PORT}", **keys}),
        CASSANDRA: Service(cassandra, nodes, {"KUBIST_TEST_CASSANDRA": ",".join(hosts)}),
        SECURE: Service(cassandra, ["up", "--secure"], authority),
    }



BUILDS, SUITES, ALONE = range(3)


@dataclass
class Step:
    name: str
    command: list[str]
    tiers: tuple[str, ...] = (TEST, ALL)
    needs: tuple[str, ...] = ()
    """Services that the step requires."""
    uses: tuple[str, ...] = ()
    """Services without which some of its tests are skipped."""
    variables: dict[str, str] = field(default_factory=dict)
    stage: int = SUITES
    counts: bool = True
    """Its output has the number of tests; otherwise it is one."""


CARGO = ["cargo", "test", "--release", "--locked", "--no-fail-fast", "--target-dir", "target"]
IT = [*CARGO, "--test", "it", "--"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--color=no"]
JVM = [sys.executable, "scripts/jvm.py"]
AT_CASSANDRA = f"cassandra://{','.join(HOSTS)}/kubist_tests"


def python(*names: str) -> list[str]:
    return [*PYTEST, *(f"python/tests/test_{name}.py" for name in names)]


def build(name: str, *command: str) -> Step:
    return Step(name, [*command], TIERS, stage=BUILDS, counts=False)


def campaign(name: str, target: str, counts: bool = True) -> Step:
    """A step of the Makefile that installs its programs."""
    return Step(name, ["make", target], (ALL,), stage=ALONE, counts=counts)


CRASHES = ["crash::acknowledged", "crash::objects", "crash::synced", "crash::what_a_reader"]
STEPS = [
    build("build", "make", "build"),
    build("Rust tests, compiled", *CARGO, "--no-run"),
    # make check
    Step("unit tests", [*CARGO, "--lib"], (CHECK,)),
    Step("Python and command", python("numpy", "lookup", "live", "keep", "mistakes"), (CHECK,)),
    Step("oracle, 4 seeds", [*IT, "oracle::"], (CHECK,), variables={"SEEDS": "4"}),
    Step("crashes, 200 seeds", [*IT, *CRASHES], (CHECK,), variables={"SEEDS": "200"}),
    # make test
    Step("Rust tests", CARGO),
    Step("Python tests", [*PYTEST, "python", "-m", "not release"], (TEST,), uses=(S3, CASSANDRA)),
    # Alone, because its browser uses all cores for software rendering, and each test times out
    # after two minutes.
    Step("page tests", ["node", "viewer/test/run.mjs"], stage=ALONE),
    Step("Java and Spark tests", [*JVM, "--quick"], (TEST,)),
    Step("store on S3", [*IT, "bucket::", "--ignored"], needs=(S3,)),
    Step("store on Cassandra", [*IT, "promises::", "--ignored"], needs=(CASSANDRA,)),
    # make test-all
    Step("all Python tests", [*PYTEST, "python"], (ALL,), uses=(S3, CASSANDRA)),
    Step("Cassandra with TLS", [*IT, "secure::", "--ignored"], (ALL,), needs=(SECURE,)),
    Step(
        "oracle on Cassandra", [*IT, "oracle::"], (ALL,), needs=(CASSANDRA,),
        variables={"KUBIST_TEST_STORE": AT_CASSANDRA, "SEEDS": "4"},
    ),  # fmt: skip
    campaign("nodes killed, bad network", "cassandra-chaos"),
    campaign("MPI and a node killed", "test-insitu-cluster"),
    # Not in `make test`, because they start nodes of their own, which need the jar at the start.
    campaign("index inside Cassandra", "cassandra-index-test"),
    campaign("index inside Cassandra, three nodes", "cassandra-index-campaign"),
    campaign("oracle and live on S3", "test-s3"),
    campaign("1,000 seeds of indices", "test-index"),
    campaign("2,000 files of each format", "stress-formats"),
    campaign("OpenFOAM", "test-openfoam"),
    campaign("Hecuba, 10,000 histories", "test-hecuba"),
    campaign("all versions of Spark", "test-spark"),
    campaign("notebook", "test-widget"),
    campaign("two mounts", "test-mounts"),
    campaign("two mounts, 100 rounds", "stress-mounts"),
    campaign("20,000 crashes", "crash"),
    campaign("killed processes, races, trouble", "stress"),
    campaign("killed MPI jobs", "stress-simulations"),
    campaign("killed streams of Spark", "stress-spark"),
    campaign("budgets over 1,000 seeds", "stress-budget"),
    campaign("20,000 hostile tries", "hostile"),
    campaign("fuzzed parsers", "fuzz", counts=False),
    campaign("instructions counted", "instructions", counts=False),
]



# Exit code of the scripts of services and of Java if these are not available.
NOT_TO_BE_HAD = 3

# test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
# 1 failed, 340 passed, 2 skipped, 1 error in 93.21s (0:01:33)
PYTEST_LINE = re.compile(r"^=*\s*(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s")
# # pass 23
PAGE_LINE = re.compile(r"^# (pass|fail|cancelled|skipped) (\d+)$")
# [INFO] Tests run: 21, Failures: 0, Errors: 0, Skipped: 0, of a module; lines of classes also have
# a time.
SUREFIRE_LINE = re.compile(
    r"^\[\w+\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$"
)
WORDS = {
    "passed": "passed", "xpassed": "passed", "pass": "passed",
    "failed": "failed", "error": "failed", "errors": "failed", "fail": "failed",
    "cancelled": "failed",
    "skipped": "skipped", "xfailed": "skipped",
}  # fmt: skip


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def add(self, word: str, count: int) -> None:
        if name := WORDS.get(word):
            setattr(self, name, getattr(self, name) + count)

    def read(self, line: str) -> None:
        if found := CARGO_LINE.match(line):
            for word, count in zip(("passed", "failed", "skipped"), found.groups(), strict=True):
                self.add(word, int(count))
        elif found := SUREFIRE_LINE.match(line.rstrip()):
            ran, failures, errors, skipped = map(int, found.groups())
            self.add("passed", ran - failures - errors - skipped)
            self.add("failed", failures + errors)
            self.add("skipped", skipped)
        elif found := PAGE_LINE.match(line):
            self.add(found[1], int(found[2]))
        elif found := PYTEST_LINE.match(line):
            for part in found[1].split(", "):
                count, word = part.split()
                self.add(word, int(count))


class Run:
    """A run of a tier, until its deadline."""

    def __init__(self, tier: str, minutes: float) -> None:
        self.steps = [step for step in STEPS if tier in step.tiers]
        self.services = services(tier)
        self.answers: dict[str, int] = {}
        self.deadline = time.monotonic() + 60 * minutes
        self.seconds: list[tuple[str, float]] = []
        self.running: set[subprocess.Popen[str]] = set()
        self.starting = threading.Lock()
        self.printing = threading.Lock()

    def all(self) -> Tally:
        builds, suites, campaigns = (
            [step for step in self.steps if step.stage == stage]
            for stage in (BUILDS, SUITES, ALONE)
        )
        if not all(self.built(step) for step in builds):
            return Tally(failed=1)
        try:
            with ThreadPoolExecutor(2) as pool:
                tallies = [*pool.map(self.tested, suites)]
            tallies += map(self.tested, campaigns)
            return Tally(*map(sum, zip(*map(astuple, tallies), strict=True)))
        finally:
            for name, answer in self.answers.items():
                if answer == 0:
                    subprocess.run([*self.services[name].script, "down"], cwd=ROOT, check=False)

    def built(self, step: Step) -> bool:
        begin = time.monotonic()
        print("$", *step.command, flush=True)
        code, _ = self.ended(step.command, {}, None)
        self.seconds.append((step.name, time.monotonic() - begin))
        return code == 0

    def tested(self, step: Step) -> Tally:
        begin = time.monotonic()
        tally, output = self.outcome(step)
        took = time.monotonic() - begin
        with self.printing:
            self.seconds.append((step.name, took))
            shown = [*(f"{name}={value}" for name, value in step.variables.items()), *step.command]
            print("\n$", *shown)
            print(output)
            print(f"{step.name}: {tally}, {took:.0f} s", flush=True)
        return tally

    def outcome(self, step: Step) -> tuple[Tally, str]:
        if time.monotonic() > self.deadline:
            return Tally(skipped=1), "skipped: no time left"
        variables = dict(step.variables)
        for name in (*step.needs, *step.uses):
            answer = self.started(name)
            if answer == 0:
                variables |= self.services[name].found_by
            elif answer != NOT_TO_BE_HAD:
                return Tally(failed=1), f"{name} does not start"
            elif name in step.needs:
                return Tally(skipped=1), f"skipped: {name} is not available on this machine"
        code, output = self.ended(step.command, variables, subprocess.PIPE)
        tally = Tally()
        for line in output.splitlines():
            tally.read(line)
        if code == NOT_TO_BE_HAD:
            return Tally(skipped=1), output
        if not step.counts and code == 0:
            tally.passed = 1
        # A suite that crashes or finds no tests has failed too.
        if tally.failed == 0 and (code != 0 or tally.passed == 0):
            tally.failed = 1
        return tally, output

    def ended(
        self, command: list[str], variables: dict[str, str], to: int | None
    ) -> tuple[int, str]:
        """The exit code of a command, which is ended at the deadline, and its output."""
        # A process group of its own, so that all of it can be ended.
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | variables, stdin=subprocess.DEVNULL, stdout=to,
            stderr=to and subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self.running.add(process)
        try:
            output, _ = process.communicate(timeout=max(0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output = f"{output or ''}\nended: no time left"
        self.running.discard(process)
        return process.returncode, output or ""

    def stop(self, *_: object) -> None:
        """Ends running steps and starts no more; for Ctrl-C."""
        self.deadline = 0.0
        for process in list(self.running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def started(self, name: str) -> int:
        """The exit code of starting a service, which is tried once."""
        with self.starting:
            if name not in self.answers:
                begin = time.monotonic()
                service = self.services[name]
                command = [*service.script, *service.start]
                ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
                self.answers[name] = ended.returncode
                self.seconds.append((f"{name}, started", time.monotonic() - begin))
            return self.answers[name]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="for all of it")
    asked = parser.parse_args()
    begin = time.monotonic()
    run = Run(asked.tier, asked.minutes)
    for interruption in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interruption, run.stop)
    total = run.all()
    # The caller's earlier steps, as "packages=12 environment=34".
    parts = [part.split("=") for part in os.environ.get("EARLIER_STEPS", "").split()]
    earlier = [(name, float(seconds)) for name, seconds in parts]
    took = time.monotonic() - begin + sum(seconds for _, seconds in earlier)
    print("\n| step | seconds |\n|---|---:|")
    for name, seconds in [*earlier, *run.seconds, ("all", took)]:
        print(f"| {name} | {seconds:.0f} |")
    print(f"\n{total}")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
