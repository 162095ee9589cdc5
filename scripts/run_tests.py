"""Builds, runs the tests of Rust, Python, the explorer page and Java, and sums them up.

Prints how many seconds each step took, then one line with all results.

All suites run to their end, whatever fails. The exit code is 0 only if tests
ran in each of them and none failed. Tests that need a Cassandra cluster get one of three
nodes for the time of the run, those that need an S3 server get one, where they can be had;
elsewhere they are skipped.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BUILD = ["make", "build"]
CARGO = ["cargo", "test", "--release", "--locked", "--no-fail-fast"]
CARGO += ["--target-dir", "target"]
# What needs a cluster, and the engine's oracle once more with its tables there. Killed nodes
# and the live tests take minutes: make cassandra-chaos.
CLUSTER = [*CARGO, "--test", "it", "--", "promises::", "faults::", "--ignored"]
CLUSTER += ["--test-threads", "4"]
SECURE = [*CARGO, "--test", "it", "--", "secure::", "--ignored"]
ENGINE = [*CARGO, "--test", "it", "--", "oracle::"]
NODES = [sys.executable, "scripts/cassandra.py"]
# What needs an S3 server.
BUCKET = [*CARGO, "--test", "it", "--", "bucket::", "--ignored"]
SERVER = [sys.executable, "scripts/s3.py"]
SERVER_PORT = "7077"
SERVER_ADDRESS = f"http://127.0.0.1:{SERVER_PORT}"
SERVER_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testsecret"}
# What they answer where Cassandra or Go are not to be had; any other failure is one.
NOT_TO_BE_HAD = 3
HOSTS = "127.0.0.1,127.0.0.2,127.0.0.3"
COMPILE = [*CARGO, "--no-run"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "python", "--color=no"]
PAGE = ["node", "viewer/test/run.mjs"]
JVM = [sys.executable, "scripts/jvm.py"]

# test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
# 1 failed, 340 passed, 2 skipped, 1 error in 93.21s (0:01:33)
PYTEST_LINE = re.compile(r"^=*\s*(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s")
# # pass 23
PAGE_LINE = re.compile(r"^# (pass|fail|cancelled|skipped) (\d+)$")
PAGE_WORDS = {"pass": "passed", "fail": "failed", "cancelled": "failed", "skipped": "skipped"}
# [INFO] Tests run: 21, Failures: 0, Errors: 0, Skipped: 0, of a module; a class says its time too.
SUREFIRE_LINE = re.compile(
    r"^\[\w+\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$"
)
PYTEST_WORDS = {
    "passed": "passed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
    "xpassed": "passed",
}


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def read(self, line: str) -> None:
        """Adds what a closing line of a runner says."""
        if found := CARGO_LINE.match(line):
            passed, failed, ignored = map(int, found.groups())
            self.passed += passed
            self.failed += failed
            self.skipped += ignored
        elif found := SUREFIRE_LINE.match(line.rstrip()):
            ran, failures, errors, skipped = map(int, found.groups())
            self.passed += ran - failures - errors - skipped
            self.failed += failures + errors
            self.skipped += skipped
        elif found := PAGE_LINE.match(line):
            name = PAGE_WORDS[found[1]]
            setattr(self, name, getattr(self, name) + int(found[2]))
        elif found := PYTEST_LINE.match(line):
            for part in found[1].split(", "):
                count, word = part.split()
                if name := PYTEST_WORDS.get(word):
                    setattr(self, name, getattr(self, name) + int(count))


STEPS: list[tuple[str, float]] = []
"""What was done so far, and how many seconds it took."""


@contextmanager
def step(name: str) -> Iterator[None]:
    begin = time.monotonic()
    try:
        yield
    finally:
        STEPS.append((name, time.monotonic() - begin))


def show(command: list[str], variables: dict[str, str]) -> None:
    settings = [f"{name}={value}" for name, value in variables.items()]
    print("$", " ".join(settings + command), flush=True)


def done(name: str, command: list[str]) -> bool:
    """Whether a command that runs no tests succeeded."""
    show(command, {})
    with step(name):
        ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    return ended.returncode == 0


def run(name: str, command: list[str], **variables: str) -> Tally:
    with step(name):
        return tests(command, variables)


def tests(command: list[str], variables: dict[str, str]) -> Tally:
    """Runs a suite and counts its tests."""
    show(command, variables)
    tally = Tally()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            tally.read(line)
    if process.returncode == NOT_TO_BE_HAD and command == JVM:
        return tally
    # A suite that does not compile, crashes or finds no tests has failed too.
    if tally.failed == 0 and (process.returncode != 0 or tally.passed == 0):
        tally.failed = 1
    return tally


def home() -> Path:
    """The folder of the nodes: the tests' own, unless the caller names one."""
    return Path(os.environ.get("CASSANDRA_HOME", ROOT / "target/cassandra")).resolve()


def nodes(*command: str) -> int:
    """Does what a command of scripts/cassandra.py says."""
    environment = os.environ | {"CASSANDRA_HOME": str(home())}
    with step(f"cluster {' '.join(command)}"):
        return subprocess.run([*NODES, *command], cwd=ROOT, env=environment, check=False).returncode


def server(command: str) -> int:
    """Does what a command of scripts/s3.py says."""
    home = os.environ.get("S3_HOME", str(ROOT / "target/s3"))
    environment = os.environ | {"S3_HOME": home, "PORT": SERVER_PORT}
    with step(f"S3 server {command}"):
        return subprocess.run([*SERVER, command], cwd=ROOT, env=environment, check=False).returncode


def run_all() -> list[Tally]:
    if not done("build", BUILD):
        return [Tally(failed=1)]
    # What does not compile fails again below, as a suite.
    done("Rust tests, compiled", COMPILE)
    try:
        up = server("up")
        if up == NOT_TO_BE_HAD:
            print("tests that need an S3 server are skipped: it is built with Go", flush=True)
            return run_suites()
        if up != 0:
            return [*run_suites(), Tally(failed=1)]
        bucket = {"KUBIST_TEST_S3": SERVER_ADDRESS, **SERVER_KEYS}
        return [run("Rust tests on an S3 server", BUCKET, **bucket), *run_suites(**bucket)]
    finally:
        server("down")


def run_suites(**bucket: str) -> list[Tally]:
    """All suites, with a cluster where it can be had."""
    try:
        up = nodes("up")
        if up == NOT_TO_BE_HAD:
            print("tests that need a Cassandra cluster are skipped", flush=True)
            return [run("Rust tests", CARGO), *others(**bucket)]
        if up != 0:
            return [run("Rust tests", CARGO), *others(**bucket), Tally(failed=1)]
        cluster = {"KUBIST_TEST_CASSANDRA": HOSTS}
        store = {"KUBIST_TEST_STORE": f"cassandra://{HOSTS}/kubist_tests", "SEEDS": "4"}
        suites = [
            run("Rust tests", CARGO),
            run("Rust tests on a cluster", CLUSTER, **cluster),
            run("oracle on a cluster", ENGINE, **store),
            *others(**cluster, **bucket),
        ]
        if nodes("up", "--secure") != 0:
            return [*suites, Tally(failed=1)]
        authority = {"KUBIST_TEST_CASSANDRA_CA": str(home() / "node-9/ca.pem")}
        return [*suites, run("Rust tests with TLS", SECURE, **authority)]
    finally:
        nodes("down")


def others(**services: str) -> list[Tally]:
    """The suites of Python, the page, and Java with Spark's newest line."""
    return [
        run("Python tests", PYTEST, **services),
        run("page tests", PAGE),
        run("Java and Spark tests", JVM),
    ]


def main() -> int:
    begin = time.monotonic()
    suites = run_all()
    # What the caller did before, as "packages=12 environment=34".
    parts = [part.split("=") for part in os.environ.get("EARLIER_STEPS", "").split()]
    earlier = [(name, float(seconds)) for name, seconds in parts]
    passed = time.monotonic() - begin + sum(seconds for _, seconds in earlier)
    print("\n| step | seconds |\n|---|---:|")
    for name, seconds in [*earlier, *STEPS, ("all", passed)]:
        print(f"| {name} | {seconds:.0f} |")
    print()
    total = Tally(*map(sum, zip(*map(astuple, suites), strict=True)))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
