"""Runs the fuzz targets of `fuzz/`, each for some seconds; prints a line for each.

    python3 scripts/fuzz.py [SECONDS] [TARGET...]

It works with stable Rust, because the compiler gets libFuzzer's coverage options directly. A target
starts with the inputs in `fuzz/corpus/TARGET`, to which failing inputs are added; other new inputs
stay in `target/fuzz/corpus`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target" / "fuzz"
# Maximum length, time and memory (MB) of an input.
LONGEST, SECONDS, MEGABYTES = 1024, 1, 256
COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
]


def triple() -> str:
    output = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.+)$", output, re.MULTILINE)[1]


def build(host: str) -> None:
    # With an explicit target, build scripts and macros are compiled without coverage.
    command = ["cargo", "build", "--release", "--locked", "--target", host, "--target-dir", str(BUILT)]
    environment = {**os.environ, "RUSTFLAGS": " ".join(COVERAGE)}
    subprocess.run(command, cwd=ROOT / "fuzz", env=environment, check=True)


def run(program: Path, name: str, seconds: int) -> bool:
    seeds, found = ROOT / "fuzz" / "corpus" / name, BUILT / "corpus" / name
    for folder in (seeds, found):
        folder.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": seconds,
        "max_len": LONGEST,
        "timeout": SECONDS,
        "malloc_limit_mb": MEGABYTES,
        "rss_limit_mb": 2 * MEGABYTES,
        "artifact_prefix": f"{seeds}/",
        "print_final_stats": 1,
    }
    command = [str(program), str(found), str(seeds), *(f"-{key}={value}" for key, value in options.items())]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    output = done.stdout + done.stderr
    tries = re.search(r"number_of_executed_units:\s*(\d+)", output)
    sound = done.returncode == 0
    print(f"{name:12} {tries[1] if tries else '?':>10} inputs  {'passed' if sound else 'FAILED'}", flush=True)
    if not sound:
        print("\n".join(output.splitlines()[-40:]), flush=True)
    return sound


def main(arguments: list[str]) -> int:
    seconds = int(arguments[0]) if arguments else 60
    host = triple()
    build(host)
    names = arguments[1:] or sorted(path.stem for path in (ROOT / "fuzz" / "targets").glob("*.rs"))
    results = [run(BUILT / host / "release" / name, name, seconds) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
