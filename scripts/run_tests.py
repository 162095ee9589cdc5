"""Runs the tests of Rust, Python and the explorer page and ends with one line that sums them up.

All suites run to their end, whatever fails. The exit code is 0 only if tests
ran in each of them and none failed. Tests that need a Cassandra cluster get one of three
nodes for the time of the run, where it can be had; elsewhere they are skipped.
"""

import os
import re
import subprocess
import sys
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CARGO = ["cargo", "test", "--release", "--locked", "--workspace", "--no-fail-fast"]
CARGO += ["--target-dir", "target"]
# What needs a cluster, and the engine's oracle once more with its tables there. Killed nodes
# and the live tests take minutes: make cassandra-chaos.
CLUSTER = [*CARGO, "--test", "promises", "--test", "faults", "--", "--ignored"]
CLUSTER += ["--test-threads", "4"]
SECURE = [*CARGO, "--test", "secure", "--", "--ignored"]
ENGINE = [*CARGO, "--test", "oracle"]
NODES = [sys.executable, "scripts/cassandra.py"]
# What it answers where Cassandra is not to be had; any other failure is one.
NOT_TO_BE_HAD = 3
HOSTS = "127.0.0.1,127.0.0.2,127.0.0.3"
PYTEST = [sys.executable, "-m", "pytest", "-q", "python", "--color=no"]
PAGE = ["node", "viewer/test/run.mjs"]

# test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...
CARGO_LINE = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;")
# 1 failed, 340 passed, 2 skipped, 1 error in 93.21s (0:01:33)
PYTEST_LINE = re.compile(r"^=*\s*(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s")
# # pass 23
PAGE_LINE = re.compile(r"^# (pass|fail|cancelled|skipped) (\d+)$")
PAGE_WORDS = {"pass": "passed", "fail": "failed", "cancelled": "failed", "skipped": "skipped"}
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
        elif found := PAGE_LINE.match(line):
            name = PAGE_WORDS[found[1]]
            setattr(self, name, getattr(self, name) + int(found[2]))
        elif found := PYTEST_LINE.match(line):
            for part in found[1].split(", "):
                count, word = part.split()
                if name := PYTEST_WORDS.get(word):
                    setattr(self, name, getattr(self, name) + int(count))


def run(command: list[str], **variables: str) -> Tally:
    told = [f"{name}={value}" for name, value in variables.items()]
    print("$", " ".join(told + command), flush=True)
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
    # A suite that does not compile, crashes or finds no tests has failed too.
    if tally.failed == 0 and (process.returncode != 0 or tally.passed == 0):
        tally.failed = 1
    return tally


def home() -> Path:
    """The folder of the nodes: the tests' own, unless the caller names one."""
    return Path(os.environ.get("CASSANDRA_HOME", ROOT / "target/cassandra")).resolve()


def nodes(*command: str) -> int:
    """Does what a command of scripts/cassandra.py says."""
    told = os.environ | {"CASSANDRA_HOME": str(home())}
    return subprocess.run([*NODES, *command], cwd=ROOT, env=told, check=False).returncode


def run_all() -> list[Tally]:
    try:
        up = nodes("up")
        if up == NOT_TO_BE_HAD:
            print("tests that need a Cassandra cluster are skipped", flush=True)
            return [run(CARGO), run(PYTEST), run(PAGE)]
        if up != 0:
            return [run(CARGO), run(PYTEST), run(PAGE), Tally(failed=1)]
        cluster = {"KUBIST_TEST_CASSANDRA": HOSTS}
        place = {"KUBIST_TEST_STORE": f"cassandra://{HOSTS}/kubist_tests", "SEEDS": "4"}
        suites = [
            run(CARGO),
            run(CLUSTER, **cluster),
            run(ENGINE, **place),
            run(PYTEST, **cluster),
            run(PAGE),
        ]
        if nodes("up", "--secure") != 0:
            return [*suites, Tally(failed=1)]
        return [*suites, run(SECURE, KUBIST_TEST_CASSANDRA_CA=str(home() / "node-9/ca.pem"))]
    finally:
        nodes("down")


def main() -> int:
    suites = run_all()
    total = Tally(*map(sum, zip(*map(astuple, suites), strict=True)))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
