"""Writes `docs/benchmarks.md` from a template and the results.

python -m bench.report [OUT]
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from .figures import KUBIST, Cell, Results, read
from .targets import verdicts

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "docs" / "benchmarks.md"
TEMPLATE = HERE / "benchmarks.template.md"


def table(head: list[str], lines: list[list[str]], left: int = 1) -> str:
    """The first ``left`` columns are text, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *lines])


def targets(results: dict[str, Results]) -> str:
    words = {True: "met", False: "**not met**", None: "-"}
    lines = [
        [each.work, each.target, each.measured, words[each.met], each.by_hand]
        for each in verdicts(results)
    ]
    return table(
        ["work", "target", "measured", "", "compared with DuckDB layered by hand"], lines, left=5
    )


def where(results: Results) -> str:
    values, machine = results.values, results.values["machine"]
    loads = [" ".join(f"{load:.1f}" for load in values[at]) for at in ("load_before", "load_after")]
    differ = values["differences"]
    compared = f"{values['compared']}, {len(differ)} differ" if differ else values["compared"]
    return (
        f"{values['data']['kind']}, {results.rows:,} rows of {values['row_bytes']} bytes. "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux "
        f"{machine['kernel']}, Python {machine['python']}; {values['date']}, "
        f"{values['minutes']:.0f} minutes; load before {loads[0]}, after {loads[1]}. "
        f"Results compared: {compared}. `{values['command']}`"
    )


def builds(results: Results) -> str:
    lines = []
    for key, system in results.systems.items():
        found = results.build(key)
        if not found:
            continue
        cost = found["cost"]
        lines.append(
            [
                system["name"],
                f"{cost['seconds']:.2f}",
                f"{found['rows'] / cost['seconds'] / 1e6:.2f}",
                f"{cost['cpu_seconds']:.2f}",
                f"{cost['peak_bytes'] / 1e6:.0f}",
                f"{cost['write_bytes'] / 1e6:.0f}",
                f"{found['stored'] / 1e6:.0f}",
                f"{found['stored'] / results.raw_bytes:.2f}",
            ]
        )
        if seconds := found.get("commit_seconds"):
            lines[-1] += [f"{median(seconds) * 1e3:.1f}", f"{max(seconds) * 1e3:.0f}"]
    head = ["system", "s", "M rows/s", "CPU s", "peak MB", "MB written", "MB stored", "of raw"]
    if any(len(line) > len(head) for line in lines):
        head += ["ms a commit", "slowest ms"]
    return table(head, [line + ["-"] * (len(head) - len(line)) for line in lines])


def times(results: Results) -> str:
    lines = []
    for values in results.values["cells"]:
        cell = Cell(values)
        state = values["state"] + (", bounded" if values["bounded"] else "")
        line = [cell.label, state, *(_milliseconds(cell, key) for key in results.systems)]
        rows = cell.median(KUBIST, "rows")
        line.append("-" if rows is None else f"{rows:,.0f}")
        leads = [cell.lead(results.peers)]
        if results.by_hand:
            leads.append(cell.lead(results.by_hand))
        lines.append([*line, *("-" if lead is None else f"{lead:.2f}" for lead in leads)])
    names = [system["name"] for system in results.systems.values()]
    head = ["median ms", "caches", *names, "rows", "fastest peer : Kubist"]
    if results.by_hand:
        head.append("by hand : Kubist")
    return table(head, lines, left=2)


def costs(results: Results) -> str:
    lines = []
    for values in results.values["cells"]:
        cell = Cell(values)
        if values["how"] == "readers":
            continue
        state = values["state"] + (", bounded" if values["bounded"] else "")
        lines.append([cell.label, state, *(_cost(cell, key) for key in results.systems)])
    names = [system["name"] for system in results.systems.values()]
    return table(["CPU ms / MB read / peak MB", "caches", *names], lines, left=2)


def examined(results: Results) -> str:
    lines = []
    for values in results.values["cells"]:
        cell = Cell(values)
        ratio = cell.ratio(KUBIST, "rows_examined", "rows")
        if ratio is None or values["state"] != "warm":
            continue
        figures = [cell.median(KUBIST, name) or 0 for name in ("rows", "rows_examined", "pages")]
        claimed = (cell.median(KUBIST, "bytes_claimed") or 0) / 1e6
        over = (cell.median(KUBIST, "peak_bytes") or 0) - (cell.median(KUBIST, "answer_bytes") or 0)
        lines.append(
            [
                cell.label,
                *(f"{figure:,.0f}" for figure in figures),
                f"{ratio:.2f}",
                f"{claimed:.2f}",
                f"{over / 1e6:.0f}",
            ]
        )
    head = ["Kubist", "rows returned", "examined", "pages", "examined : returned"]
    return table([*head, "MB of pages", "MB of memory beyond the result"], lines)


def skipped(results: Results) -> str:
    said = [f"- {key}: {reason}" for key, reason in results.values["skipped"].items()]
    reasons: dict[tuple[str, str], list[str]] = {}
    for values in results.values["cells"]:
        cell = Cell(values)
        for key, system in results.systems.items():
            if reason := cell.reason(key):
                label = f"{cell.label} ({cell.state})"
                reasons.setdefault((system["name"], reason), []).append(label)
    for (name, reason), labels in reasons.items():
        said.append(f"- {name}, {'; '.join(labels)}: {reason}")
    for each in results.values["differences"]:
        said.append(f"- **{each['system']} differs**, {each['cell']}: {each['wrong']}")
    return "\n".join(said) or "Nothing was skipped."


def settings(results: dict[str, Results]) -> str:
    """Each system once, with its version."""
    lines: dict[str, list[str]] = {}
    for each in results.values():
        for system in each.systems.values():
            name = system["name"]
            lines[name] = [name, system["version"], system["settings"], system["sampling"]]
    return table(["system", "version", "configuration", "samples"], list(lines.values()), left=4)


_PARTS: dict[str, Callable[[Results], str]] = {
    "where": where,
    "builds": builds,
    "times": times,
    "costs": costs,
    "examined": examined,
    "skipped": skipped,
}


def _milliseconds(cell: Cell, key: str) -> str:
    seconds = cell.median(key)
    return "-" if seconds is None else f"{seconds * 1e3:.3g}" if seconds < 1 else _long(seconds)


def _long(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}"


def _cost(cell: Cell, key: str) -> str:
    cpu = cell.median(key, "cpu_seconds")
    if cpu is None:
        return "-"
    # Calls do not count mapped files, and the device no cached ones: takes the larger count.
    read = max(cell.median(key, "rchar") or 0, cell.median(key, "read_bytes") or 0) / 1e6
    return f"{cpu * 1e3:.3g} / {read:.3g} / {(cell.median(key, 'peak_bytes') or 0) / 1e6:.0f}"


def fill(template: str, results: dict[str, Results]) -> str:
    """Replaces ``{{suite.part}}`` by tables; a suite without results gets a note."""

    def part(match: re.Match[str]) -> str:
        suite, _, name = match[1].partition(".")
        if suite == "targets":
            return targets(results)
        if suite == "settings":
            return settings(results)
        if suite not in results:
            return "(not in this run)" if name == "where" else ""
        return _PARTS[name](results[suite])

    return re.sub(r"\{\{([\w.]+)\}\}", part, template)


def main() -> int:
    results = read(Path(os.environ.get("RESULTS") or HERE / "results"))
    if not results:
        print("no results: run `make bench-peers` first", file=sys.stderr)
        return 1
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.write_text(fill(TEMPLATE.read_text(), results))
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
