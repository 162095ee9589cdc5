"""Workloads of recorded queries, from ``kubist workload record`` or ``KUBIST_RECORD``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._errors import InvalidInput
from .spec import Query, Workload

REPLAYED = ("where", "sample", "window", "steps", "limit", "order_by", "columns", "per_cell")
"""Parameters of a recorded query that are repeated unchanged, next to ``box``."""
SHOWN = 60
"""Maximum characters of a name."""


def recorded(path: Path) -> Workload:
    """Groups recorded queries by their form; each group is a query of the workload."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file") from None
    for number, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
            verb, asked = said["verb"], _asked(said)
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
            if number == len(lines):
                # A killed process leaves a part of its last line.
                continue
            raise InvalidInput(f"{path}: line {number} is no recorded question") from None
        groups.setdefault(_form(verb, asked), []).append({"verb": verb, **asked})
    if not groups:
        raise InvalidInput(f"{path}: there are no recorded questions")
    queries: list[Query] = []
    for (verb, *form), questions in groups.items():
        replay = tuple({k: v for k, v in one.items() if k != "verb"} for one in questions)
        name = _name(verb, form, {query.name for query in queries})
        queries.append(Query(name, float(len(questions)), verb, replay=replay))
    return Workload(tuple(queries), name=path.stem)


def _asked(said: Mapping[str, Any]) -> dict[str, Any]:
    question = said["question"]
    asked = {name: question[name] for name in REPLAYED if name in question}
    if box := question.get("box"):
        asked["box"] = {name: _ends(ends) for name, ends in box.items()}
    for name in ("aggregates", "group_by"):
        if said.get(name):
            asked[name] = said[name]
    if said["verb"] == "estimate":
        # The goal is not in the record.
        asked["error"] = 0.01
    return asked


def _ends(ends: Any) -> Any:
    """A range, or the range around several ranges."""
    if isinstance(ends, list) and ends and isinstance(ends[0], list):
        return min(low for low, _ in ends), max(high for _, high in ends)
    return tuple(ends) if isinstance(ends, list) else ends


def _form(verb: str, asked: Mapping[str, Any]) -> tuple[Any, ...]:
    """The form of a recorded query: everything except its numbers and strings."""
    where = re.sub(r"'[^']*'|\b\d[\w.+-]*", "?", asked.get("where") or "")
    rest = sorted(name for name in asked if name not in ("box", "where"))
    single = [n for n, ends in asked.get("box", {}).items() if is_single(ends)]
    return verb, tuple(asked.get("box", ())), tuple(single), where, tuple(rest)


def _name(verb: str, form: list[Any], taken: set[str]) -> str:
    box, _, where, rest = form
    parts = [verb]
    if box:
        parts.append(f"box of {', '.join(box)}")
    if where:
        parts.append(f"where {where}")
    parts += [name for name in rest if name not in ("error", "columns")]
    name = base = " ".join(parts)[:SHOWN]
    number = 1
    while name in taken:
        number += 1
        name = f"{base} ({number})"
    return name


_COMPARED = re.compile(r"""("?)([A-Za-z_]\w*)\1\s*(=|<(?!>)=?|>=?|BETWEEN\b|IN\b)""", re.IGNORECASE)


def constrained(asked: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """The columns that a recorded query limits by a range, and to one value."""
    box = asked.get("box") or {}
    ranges = {name for name, ends in box.items() if not is_single(ends)}
    values = set(box) - ranges
    for _, name, sign in _COMPARED.findall(asked.get("where") or ""):
        (values if sign.upper() in ("=", "IN") else ranges).add(name)
    return ranges, values - ranges


def is_single(ends: Any) -> bool:
    return not isinstance(ends, (list, tuple)) or ends[0] == ends[1]
