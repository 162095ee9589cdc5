"""Estimates over many runs.

The engine estimates each run with an interval. If every group is one run, these estimates are the
result. `_together` estimates groups of several runs, and differences.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .._libraries import need
from .._pinned import Figures
from . import _text
from ._arrays import array, table
from ._columns import NUMBER, Union
from ._part import Part
from ._request import ALL, BINS, FIGURES, Asked, group_columns, kept
from ._runs import each
from ._together import Key, together

if TYPE_CHECKING:
    import pyarrow as pa


def estimate(
    union: Union,
    parts: Sequence[Part],
    request: dict[str, Any],
    shown: tuple[list[str], list[str]],
    contrast: str | None,
) -> Figures:
    if not parts:
        raise InvalidInput("estimate: no run meets the conditions")
    goals = (
        "error",
        "absolute",
        "within",
        "max_rows",
        "max_bytes",
        "confidence",
        "tails",
        "sample",
    )
    region: dict[str, Any] = {
        name: request[name]
        for name in ("box", "where", "region", "window", "steps")
        if name in request
    }
    aggregates = [_text.named(text) for text in request["aggregates"]]
    groups = [_text.named(text)[0] for text in request.get("group_by", [])]
    asked = Asked(
        union,
        parts,
        region,
        [text for text, _ in aggregates],
        [name or text for (_, name), text in zip(aggregates, shown[0], strict=True)],
        groups,
        [_shown_name(union, *pair) for pair in zip(groups, shown[1], strict=True)],
        _of_one_run({name: request[name] for name in goals if name in request}, len(parts)),
    )
    keys = _keys_of_runs(asked)
    pairs = sorted(zip(keys, parts, strict=True), key=lambda pair: asked.rank(pair[0]))
    keys, asked.parts = [key for key, _ in pairs], [part for _, part in pairs]
    if contrast is None and len(set(keys)) == len(parts):
        return _by_run(asked, keys)
    return together(asked, keys, contrast)


def _of_one_run(goal: dict[str, Any], runs: int) -> dict[str, Any]:
    """The goal for each run: limits are divided by the number of runs, errors stay."""
    own = dict(goal)
    for name in ("max_rows", "max_bytes"):
        if name in own:
            own[name] = max(1, own[name] // runs)
    if "within" in own:
        own["within"] /= runs
    return own


def _shown_name(union: Union, group: str, shown: str) -> str:
    if (name := _text.named(shown)[1]) is not None:
        return name
    column = union.names.find(_text.plain(group))
    return column if column is not None and _text.quoted(column) == group.strip() else shown


def _keys_of_runs(asked: Asked) -> list[Key]:
    """For each run, the values of groups that depend only on the run."""
    places = [at for at in range(len(asked.groups)) if asked.of_runs[at]]
    values: dict[int, list[Any]] = {part.number: [] for part in asked.parts}
    for at in places:
        column = asked.union.names.find(_text.plain(asked.groups[at]))
        if column is not None and _text.quoted(column) == asked.groups[at].strip():
            for number, key in values.items():
                key.append(asked.union.of_run[column][number])
            continue
        found = asked.union.catalogue.estimate(
            "count()", group_by=[asked.groups[at], _text.quoted(NUMBER)], max_rows=ALL
        )
        for row in found.to_dicts():
            expression, number = (row[name] for name in group_columns(row))
            if number in values:
                values[number].append(expression)
    return [tuple(values[part.number]) for part in asked.parts]


def _by_run(asked: Asked, keys: Sequence[Key]) -> Figures:
    """The engine's estimates of the runs, one after the other."""
    pa = need("pyarrow", "open_many()")
    found = each(lambda part: asked.request(part, asked.aggregates, asked.goal), asked.parts)
    abouts = [json.loads(figures.about()) for figures in found]
    runs = list(zip(asked.parts, keys, found, abouts, strict=True))
    tables = [_renamed(pa, asked, part, key, figures) for part, key, figures, _ in runs]
    units: dict[str, Any] = {}
    bins: dict[str, Any] = {}
    for part, _, _, about in runs:
        units = asked.by_label(part, about["units"]) | units
        bins = asked.by_label(part, about["bin_units"]) | bins
    return kept(
        asked,
        pa.concat_tables(tables, promote_options="permissive"),
        abouts,
        [
            f"run {part.run.name}: {word}"
            for part, _, _, about in runs
            for word in about["warnings"]
        ],
        own=[row for about in abouts for row in about["own"]],
        units=units,
        bin_units=bins,
    )


def _renamed(pa: Any, asked: Asked, part: Part, key: Key, figures: Figures) -> pa.Table:
    """The figures of a run, with the names of the caller's aggregates and the run's columns."""
    batch = pa.record_batch(figures.batch())
    texts = asked.texts(part)
    aggregates = [texts.get(text, text) for text in batch.column("aggregate").to_pylist()]
    columns: dict[str, Any] = {"aggregate": array(aggregates)}
    of_rows = iter(group_columns(batch.schema.names))
    of_runs = iter(key)
    for at, name in enumerate(asked.names):
        if asked.of_runs[at]:
            columns[name] = array([next(of_runs)] * len(batch))
        else:
            values = batch.column(next(of_rows))
            # If the run lacks a column, the engine's type is arbitrary.
            columns[name] = pa.nulls(len(batch)) if values.null_count == len(batch) else values
    rest = [name for name in batch.schema.names if name in (*BINS, *FIGURES)]
    return table({**columns, **{name: batch.column(name) for name in rest}})
