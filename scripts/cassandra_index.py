"""Builds the jar of cassandra-index/ with Maven, and tests it on Cassandra nodes of its own.

    cassandra_index.py jar                        builds the jar
    cassandra_index.py test [--nodes N] [--queries N] [--seed N]
    cassandra_index.py bench [--nodes N] [--rows N]

The nodes on 127.0.53.1, 127.0.53.2, ... have the jar on their class path, and are stopped and
deleted at the end. If Java 17, Maven or its registry is not available, it exits with 3.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable

from jvm import NOT_TO_BE_HAD, ROOT, Absent, java_home, maven

PROJECT = ROOT / "cassandra-index"
NETWORK = "127.0.53"
NODES = {
    "CASSANDRA_HOME": str(ROOT / "target/cassandra-index"),
    "CASSANDRA_NETWORK": NETWORK,
    "CASSANDRA_PLUGINS": str(PROJECT / "target"),
}


def cassandra(*arguments: str) -> int:
    command = [sys.executable, str(ROOT / "scripts/cassandra.py"), *arguments]
    return subprocess.run(command, env=os.environ | NODES, check=False).returncode


def hosts(nodes: int) -> str:
    return ",".join(f"{NETWORK}.{number}" for number in range(1, nodes + 1))


def test(nodes: int, queries: int, seed: int) -> int:
    arguments = [f"-Dnodes={hosts(nodes)}", f"-Dhome={NODES['CASSANDRA_HOME']}"]
    return maven(
        "test", *arguments, f"-Dqueries={queries}", f"-Dseed={seed}", project=PROJECT
    )


def bench(nodes: int, rows: int) -> int:
    folders = [f"{NODES['CASSANDRA_HOME']}/lib/*", "target/classes", "target/test-classes"]
    command = [str(java_home() / "bin/java"), "-cp", ":".join(folders)]
    command += ["org.kubist.cassandra.Bench", hosts(nodes), str(rows)]
    return subprocess.run(command, cwd=PROJECT, check=False).returncode


def with_nodes(nodes: int, work: Callable[[], int]) -> int:
    if code := maven("package", "-DskipTests", project=PROJECT, quiet=True):
        return code
    cassandra("down")
    try:
        return cassandra("up", "--nodes", str(nodes)) or work()
    finally:
        cassandra("down")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["jar", "test", "bench"])
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--queries", type=int, default=400, help="queries of the oracle")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of the oracle")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of each table of the bench")
    options = parser.parse_args()
    try:
        java_home()
        if options.what == "jar":
            return maven("package", "-DskipTests", project=PROJECT, quiet=True)
        if options.what == "bench":
            return with_nodes(options.nodes, lambda: bench(options.nodes, options.rows))
        return with_nodes(
            options.nodes, lambda: test(options.nodes, options.queries, options.seed)
        )
    except Absent as why:
        print(f"the index inside Cassandra is not tested: {why}", flush=True)
        return NOT_TO_BE_HAD


if __name__ == "__main__":
    sys.exit(main())
