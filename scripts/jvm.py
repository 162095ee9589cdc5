"""Builds the jars of spark/ with Maven, and runs their tests.

python scripts/jvm.py [--all-lines] [--questions N]   tests with Spark's newest version, or with all
python scripts/jvm.py --quick                         Java's tests, and queries and writes of Spark
python scripts/jvm.py --jars                          only the jars python scripts/jvm.py --kill
ROUNDS                   kills a stream's driver and executors python scripts/jvm.py --bench FOLDER
ROWS TURNS STORES   Kubist compared with other tables of Spark

It needs a JDK 17 or newer, and Maven, which downloads Spark from Maven Central (300 MB per version,
once); otherwise it exits with 3. The native library is cargo's in target/release, or in the folder
KUBIST_LIBRARY_DIR.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPARK = ROOT / "spark"
NOT_TO_BE_HAD = 3
LIBRARIES = ("libkubist_jni.so", "libkubist_jni.dylib")
# Maven's messages about an unreachable registry.
UNREACHABLE = re.compile(
    r"Could not (?:transfer|find) artifact|Could not resolve dependencies|UnresolvableModel"
)


class Absent(Exception):
    """A required program or file is missing."""


def java_home() -> Path:
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("javac")
    homes = [Path(named)] if named else []
    homes += [Path(on_path).resolve().parent.parent] if on_path else []
    homes += sorted(Path("/usr/lib/jvm").glob("*17*"))
    for home in homes:
        compiler = home / "bin/javac"
        if compiler.exists():
            said = subprocess.run(
                [compiler, "-version"], capture_output=True, text=True, check=False
            )
            version = re.search(r"(\d+)", said.stdout + said.stderr)
            if version and int(version[1]) >= 17:
                return home
    raise Absent("no JDK 17 or newer: install one (openjdk-17-jdk-headless), or set JAVA_HOME")


def library() -> Path:
    folder = Path(os.environ.get("KUBIST_LIBRARY_DIR", ROOT / "target/release")).resolve()
    if not any((folder / name).exists() for name in LIBRARIES):
        sys.exit(f"no native library in {folder}: run make build first")
    return folder


def maven(*arguments: str, project: Path = SPARK, quiet: bool = False) -> int:
    """Runs Maven on a project; raises Absent if its registry is unreachable."""
    program = shutil.which("mvn")
    if program is None:
        raise Absent("Maven is not installed")
    command = [program, "--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
    if project == SPARK:
        command += [f"-Dkubist.library.dir={library()}"]
    command += ["--fail-at-end", *arguments]
    environment = os.environ | {"JAVA_HOME": str(java_home())}
    unreachable = False
    with subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            unreachable |= UNREACHABLE.search(line) is not None
            if not quiet or "ERROR" in line:
                print(line, end="", flush=True)
    if process.returncode != 0 and unreachable:
        raise Absent("Maven Central is unreachable, and the local copy is incomplete")
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all-lines", action="store_true", help="all versions of Spark")
    parser.add_argument("--questions", type=int, default=60, help="random conditions per version")
    parser.add_argument("--quick", action="store_true", help="a quick part")
    parser.add_argument("--jars", action="store_true", help="builds the jars without tests")
    parser.add_argument("--kill", type=int, metavar="ROUNDS", help="only the killed stream")
    parser.add_argument(
        "--bench", nargs=4, metavar=("FOLDER", "ROWS", "TURNS", "STORES"), help="measures"
    )
    options = parser.parse_args()
    lines = ["-Pall-lines"] if options.all_lines else []
    try:
        if options.jars:
            return maven("package", "-DskipTests", *lines, quiet=True)
        if options.bench:
            said = " ".join(options.bench)
            return maven("verify", "-Pbench", "-DskipTests", "-q", f"-Dbench.arguments={said}")
        if options.kill:
            named = ["-Dtest=KilledStreamTest", "-Dsurefire.failIfNoSpecifiedTests=false"]
            return maven("test", f"-Drounds={options.kill}", *named)
        if options.quick:
            lines += ["-Dtest=TableTest,ValuesTest,QuestionsTest,WritingTest"]
            lines += ["-Dsurefire.failIfNoSpecifiedTests=false"]
        compiled = maven("test-compile", *lines, quiet=True)
        return compiled or maven("test", f"-Dquestions={options.questions}", *lines)
    except Absent as why:
        print(f"tests of Java and Spark are skipped: {why}", flush=True)
        return NOT_TO_BE_HAD


if __name__ == "__main__":
    sys.exit(main())
