"""Runs the suites: schedules measurements, compares results first, and stores the figures.

    python -m bench.run [SUITE ...]

SYSTEMS="kubist lance" in the environment selects systems.

Each measurement is a process of its own. The systems take turns within each cell, in a different
order each turn, so that other load affects all systems.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .check import Truth
from .data import Dataset
from .parquet import sizes
from .suites import Suite, number, suites
from .systems import load
from .work import Cell

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(os.environ.get("RESULTS") or ROOT / "bench" / "results")
USUAL = ["main", "box", "examined", "postgis", "inhaler", "noise", "clusters", "droplets", "stream"]
LEAST_MEMORY = 128 << 20
"""With less memory, processes are only killed."""
CHECKED_ROWS = 30_000_000
"""Up to this size all rows are hashed to compare results; beyond, counts are compared."""


class Run:
    def __init__(self, suite: Suite, stores: Path) -> None:
        self.suite = suite
        self.stores = stores / suite.name
        self.turns, self.repeats = number("TURNS", 1), number("REPEATS", 3)
        self.budget = number("BUDGET", 8)
        self.timeout = number("TIMEOUT", 300)
        self.systems: list[str] = []
        self.report: dict[str, Any] = {
            "suite": suite.name,
            "title": suite.title,
            "data": {"kind": suite.data.kind, "rows": suite.data.rows},
            "row_bytes": suite.data.row_bytes,
            "systems": {},
            "skipped": {},
            "build": {},
            "cells": [],
            "differences": [],
        }

    def go(self) -> dict[str, Any]:
        """Measures all cells, and writes the results after each, in case the run is interrupted."""
        self.began = datetime.now(UTC)
        self.report |= {
            "machine": machine(),
            "date": self.began.isoformat(timespec="seconds"),
            "load_before": os.getloadavg(),
            "command": os.environ.get("COMMAND") or f"python -m bench.run {self.suite.name}",
        }
        said(f"\n{self.suite.title}: {self.suite.data.name}")
        self.suite.data.make()
        self.suite.data.warm()
        self._who_is_there()
        self._load()
        if self.suite.parquet:
            self.report["parquet"] = sizes(self.suite.data, self.stores)
        cells = self.suite.cells(self.suite.data)
        self._compare(cells)
        self.report["figures_of_cells"] = [cell.as_json() for cell in cells]
        self._write()
        for cell in cells:
            for state in cell.states:
                self._measure(cell, state)
                self._write()
        shutil.rmtree(self.stores, ignore_errors=True)
        return self.report

    def _write(self) -> None:
        minutes = (datetime.now(UTC) - self.began).total_seconds() / 60
        self.report |= {"minutes": minutes, "load_after": os.getloadavg()}
        (RESULTS / f"{self.suite.name}.json").write_text(json.dumps(self.report, indent=1) + "\n")

    def _who_is_there(self) -> None:
        asked = os.environ.get("SYSTEMS", "").split()
        for key in self.suite.systems:
            if asked and key not in asked:
                self._skip(key, "not selected (SYSTEMS)")
                continue
            try:
                kind = load(key)
                reason = kind.missing() or kind(self.suite.data, self.stores / key).refuses()
            except ImportError as error:
                reason = f"its package is not installed ({error})"
            if reason:
                self._skip(key, reason)
                continue
            self.systems.append(key)
            self.report["systems"][key] = {
                "name": kind.name,
                "version": kind.version(),
                "settings": kind.settings,
                "sampling": kind.sampling,
                "indexes": kind.indexes,
                "product": kind.product,
            }

    def _skip(self, key: str, reason: str) -> None:
        said(f"  {key}: skipped: {reason}")
        self.report["skipped"][key] = reason
        if key in self.systems:
            self.systems.remove(key)

    def _load(self) -> None:
        self.stores.mkdir(parents=True, exist_ok=True)
        for key in list(self.systems):
            more = {}
            if self.suite.load == "stream":
                commits = self.suite.commits
                more = {"commits": commits, "rows": self.suite.data.rows // commits}
            work = "stream" if self.suite.load == "stream" else "build"
            self._wait_for_calm()
            result = self._child(key, work, timeout=4 * self.timeout, **more)
            if reason := result.get("unable") or result.get("failed"):
                self._skip(key, reason)
                continue
            self.report["build"][key] = result
            cost = result["cost"]
            said(
                f"  {key}: stored in {cost['seconds']:.2f} s, {cost['cpu_seconds']:.2f} CPU s, "
                f"{result['stored'] / 1e6:.1f} MB, peak {cost['peak_bytes'] / 1e6:.0f} MB"
            )

    def _wait_for_calm(self) -> None:
        """Writes the dirty pages of the previous system, so that this one does not pay for them."""
        os.sync()

    def _compare(self, cells: list[Cell]) -> None:
        if self.suite.data.rows > CHECKED_ROWS:
            self.report["compared"] = "only counts, with the times"
            return
        asked = [
            (cell, question)
            for cell in cells
            if cell.how == "ask" and cell.key != "collect"
            for question in cell.questions[:2]
        ]
        truth = Truth(self.suite.data)
        compared = 0
        for key in list(self.systems):
            with tempfile.TemporaryDirectory(dir=self.stores) as scratch:
                questions = [question.as_json() for _, question in asked]
                result = self._child(key, "answers", questions=questions, scratch=scratch)
                if reason := result.get("failed"):
                    self._differs(key, "all questions", reason)
                    continue
                for (cell, question), answer in zip(asked, result["answers"], strict=True):
                    if "unable" in answer:
                        continue
                    wrong = truth.judge(question, answer, kubist=key.startswith("kubist"))
                    compared += 1
                    if wrong:
                        self._differs(key, cell.label, wrong)
        self.report["compared"] = f"{compared} results, row by row"
        said(f"  {compared} results compared, {len(self.report['differences'])} differ")

    def _differs(self, key: str, label: str, wrong: str) -> None:
        said(f"  DIFFERENCE: {key}: {label}: {wrong}")
        self.report["differences"].append({"system": key, "cell": label, "wrong": wrong})

    def _measure(self, cell: Cell, state: str) -> None:
        bounds: list[bool] = [False] if self.suite.memory_bytes is None else [False, True]
        entry: dict[str, Any] = {"cell": cell.key, "label": cell.label, "state": state}
        entry |= {"target": cell.target, "how": cell.how}
        for bounded in bounds:
            found: dict[str, Any] = {key: {"runs": []} for key in self.systems}
            for turn in range(self.turns):
                order = self.systems[turn % len(self.systems) :]
                order += self.systems[: turn % len(self.systems)]
                for key in order:
                    self._once(found[key], key, cell, state, bounded)
            self.report["cells"].append({**entry, "bounded": bounded, "systems": found})
            said(_line(self.report["cells"][-1]))

    def _once(self, found: dict[str, Any], key: str, cell: Cell, state: str, bounded: bool) -> None:
        """After a failure there are no further runs."""
        if "reason" in found or sum(run["seconds"] for run in found["runs"]) > self.budget:
            return
        questions = [question.as_json() for question in cell.questions]
        more: dict[str, Any] = {"questions": questions, "state": state, "repeats": self.repeats}
        more |= {"how": cell.how, "budget": self.budget}
        if bounded and self.suite.memory_bytes is not None:
            allowed = self.suite.memory_bytes(self.report["build"][key]["stored"])
            if allowed < LEAST_MEMORY:
                found["reason"] = f"{allowed / 1e6:.0f} MB are too little for any process"
                return
            more["memory_bytes"] = allowed
        if cell.how == "readers":
            more["readers"] = number("READERS", 8)
        result = self._child(key, "readers" if cell.how == "readers" else "ask", **more)
        if reason := result.get("unable") or result.get("failed"):
            found["reason"] = reason
        elif cell.how == "readers":
            cost = result["cost"]
            found["runs"].append({**cost, "seconds": cost["seconds"] / result["queries"]})
        else:
            found["runs"] += result["runs"]

    def _child(self, key: str, work: str, timeout: float | None = None, **more: Any) -> Any:
        data: Dataset = self.suite.data
        timeout = timeout or self.timeout
        task = {"system": key, "work": work, "path": str(self.stores / key), "timeout": timeout}
        task["data"] = {"kind": data.kind, "rows": data.rows, "cache": data.cache}
        return in_child({**task, **more}, timeout)


def in_child(task: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Runs a task in its own process, which ends with all its children."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.child"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(json.dumps(task), timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"timed out after {timeout:.0f} s"}
    finally:
        _end(process)
    if process.returncode != 0:
        if process.returncode == -signal.SIGKILL:
            return {"failed": "killed: out of memory"}
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return {"failed": last[0][:300]}
    return json.loads(out)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def machine() -> dict[str, Any]:
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line),
        platform.machine(),
    )
    memory = int(next(line for line in _lines("/proc/meminfo") if "MemTotal" in line).split()[1])
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 1024**2, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _line(entry: dict[str, Any]) -> str:
    parts = []
    for key, found in entry["systems"].items():
        seconds = sorted(run["seconds"] for run in found["runs"])
        parts.append(f"{key} {seconds[len(seconds) // 2] * 1e3:.1f}" if seconds else f"{key} -")
    bound = ", bounded" if entry["bounded"] else ""
    return f"  {entry['cell']} ({entry['state']}{bound}), ms: {', '.join(parts)}"


def said(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    known = suites()
    wanted = sys.argv[1:] or (os.environ.get("SUITES") or " ".join(USUAL)).split()
    if unknown := [name for name in wanted if name not in known]:
        print(f"no suite {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    stores = Path(os.environ.get("STORES") or tempfile.mkdtemp(prefix="kubist-bench-"))
    stores.mkdir(parents=True, exist_ok=True)
    stores.chmod(0o711)  # PostgreSQL's server runs as another user
    RESULTS.mkdir(parents=True, exist_ok=True)
    differences = 0
    for name in wanted:
        report = Run(known[name], stores).go()
        differences += len(report["differences"])
        said(f"  done in {report['minutes']:.1f} minutes")
    if differences:
        said(f"{differences} results differ: the times are invalid until they agree")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
