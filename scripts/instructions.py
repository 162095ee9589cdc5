"""Counts the instructions of five small tasks: a regression test independent of the machine's load.

    python scripts/instructions.py [--update]

Runs `target/release/micro` under valgrind, on one core, and compares with
`bench/instructions.json`; more than 3 % above it fails. Counts depend slightly on the compiler:
`--update` stores today's counts and compiler.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MICRO = ROOT / "target" / "release" / "micro"
KEPT = ROOT / "bench" / "instructions.json"
WORKS = {"commit": 3, "scan": 5, "box": 5, "sample": 5, "where": 5}
TOLERANCE = 1.03


def instructions(work: str, times: int) -> int:
    valgrind = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ]
    command = ["taskset", "-c", "0", *valgrind, str(MICRO), work, str(times)]
    environment = {"RAYON_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    match = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    if ran.returncode or not match:
        sys.exit(f"{' '.join(command)} failed:\n{ran.stderr[-2000:]}")
    return int(match[1].replace(",", ""))


def main() -> int:
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed: apt-get install valgrind")
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    stored = json.loads(KEPT.read_text()) if KEPT.exists() else {"instructions": {}}
    counts = {}
    print(f"{'work':8} {'instructions':>14} {'stored':>14} {'ratio':>6}")
    for work, times in WORKS.items():
        once, often = instructions(work, 1), instructions(work, 1 + times)
        counts[work] = (often - once) // times
        before = stored["instructions"].get(work)
        ratio = f"{counts[work] / before:6.3f}" if before else ""
        print(f"{work:8} {counts[work]:14,} {before or 0:14,} {ratio}")
    if "--update" in sys.argv:
        KEPT.write_text(
            json.dumps({"compiler": compiler.stdout.strip(), "instructions": counts}, indent=2)
            + "\n"
        )
        return 0
    worse = [
        work for work, count in counts.items() if count > TOLERANCE * stored["instructions"][work]
    ]
    if worse:
        print(f"more than 3 % above the stored counts ({stored['compiler']}): {', '.join(worse)}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
