"""Checks the results of all systems, before their times are measured.

The reference is `Truth`, which evaluates each query with numpy on the source data. An exact result
must have the same rows, bit by bit, and a sample distinct rows of the reference. Kubist's samples
must have the rows of lowest priority, which this module computes by FORMAT.md. Other systems sample
by chance, so only the number of rows is checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash

from .data import Dataset
from .keys import column, row_hashes
from .question import Question

PROBES = 100_000
"""Priorities are computed for at most this many rows, a few microseconds each."""


@dataclass
class Truth:
    """The reference results of a data set; rows are compared by their hashes."""

    data: Dataset
    seed: int = 0

    def __post_init__(self) -> None:
        self._table = self.data.table()
        self._hashes = row_hashes(self._table)
        self._positions: dict[str, np.ndarray] = {}
        self._sorted: dict[str, np.ndarray] = {}

    def positions(self, question: Question) -> np.ndarray:
        """The cached positions of all matching rows, without the sample and the limit."""
        key = replace(question, share=None, limit=None, any_rows=False)
        said = repr(key)
        if said not in self._positions:
            self._positions[said] = self._find(key)
            self._sorted[said] = np.sort(self._hashes[self._positions[said]])
        return self._positions[said]

    def _among(self, question: Question, hashes: np.ndarray) -> bool:
        self.positions(question)
        true = self._sorted[repr(replace(question, share=None, limit=None, any_rows=False))]
        if not len(true):
            return not len(hashes)
        near = np.searchsorted(true, hashes).clip(max=len(true) - 1)
        return bool((true[near] == hashes).all())

    def _find(self, question: Question) -> np.ndarray:
        left = np.ones(len(self._hashes), bool)
        for name, (low, high) in question.box.items():
            values = column(self._table, name)
            left &= (values >= np.float32(low)) & (values <= np.float32(high))
        if question.where is not None:
            name, operator, bound = question.where
            values = column(self._table, name)
            left &= values > np.float32(bound) if operator == ">" else values < np.float32(bound)
        if question.particle is not None:
            left &= column(self._table, "pid") == question.particle
        return np.flatnonzero(left)

    def judge(self, question: Question, answer: dict[str, Any], *, kubist: bool) -> str | None:
        """The first error in a system's result, or None; ``kubist`` also checks priorities."""
        positions = self.positions(question)
        if question.share is None and question.limit is None:
            return self._exact(positions, answer)
        found = np.load(answer["file"])
        if len(np.unique(found["hashes"])) != len(found["hashes"]):
            return "a row occurs twice"
        if not self._among(question, found["hashes"]):
            return "a row that is not in the data, or does not match"
        if question.limit is not None and len(found["pid"]) != min(question.limit, len(positions)):
            return f"{len(found['pid'])} rows of {min(question.limit, len(positions))}"
        if kubist:
            return self._by_priority(question, positions, found)
        if question.limit is None:
            return _by_chance(question.share or 1.0, len(positions), len(found["pid"]))
        return None

    def _exact(self, positions: np.ndarray, answer: dict[str, Any]) -> str | None:
        total = int(self._hashes[positions].sum(dtype=np.uint64))
        if answer["rows"] != len(positions):
            return f"{answer['rows']} rows instead of {len(positions)}"
        return None if answer["checksum"] == total else "other values in some rows"

    def _by_priority(self, question: Question, positions: np.ndarray, found: Any) -> str | None:
        asked = (column(self._table, name) for name in self.data.identity)
        pid, when = asked
        probes = positions
        if len(probes) > PROBES:
            probes = np.random.default_rng(self.seed).choice(positions, PROBES, replace=False)
        mine = priorities(pid[probes], when[probes])
        got = priorities(found["pid"][:PROBES], found["time"][:PROBES])
        if question.share is not None:
            bound = int(np.ceil(question.share * 2.0**64)) - 1
        else:
            complete = len(found["pid"]) == len(positions)
            bound = 2**64 - 1 if complete else int(got.max())
        if (got > np.uint64(bound)).any():
            return "a row whose priority is too high"
        there = np.isin(self._hashes[probes], found["hashes"])
        if (there != (mine <= np.uint64(bound))).any():
            return "a row of low priority is missing"
        return None


def _by_chance(share: float, matching: int, got: int) -> str | None:
    """The error if a sample's size is over six standard deviations from its binomial mean.

    Chance alone practically never causes such a difference.
    """
    expected = share * matching
    slack = 6 * np.sqrt(expected * (1 - share)) + 6
    if abs(got - expected) <= slack:
        return None
    return f"{got} rows where {expected:.0f} +- {slack:.0f} were expected"


def priorities(pids: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The priorities of rows with the identity (pid, time) in a table of seed 0 (FORMAT.md)."""
    begin = xxhash.xxh3_64_intdigest(b"kubist priority 1", 0)
    chained = xxhash.xxh3_64_intdigest
    integer, double = struct.Struct("<Bq").pack, struct.Struct("<Bd").pack
    return np.fromiter(
        (
            chained(double(4, when + 0.0), chained(integer(2, pid), begin))
            for pid, when in zip(pids.tolist(), times.tolist(), strict=True)
        ),
        np.uint64,
        len(pids),
    )
