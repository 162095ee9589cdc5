"""The search for a design: rounds of trials, each with fewer and better designs.

It starts with sets of dimensions and secondary indexes on a small sample; the best designs continue
on a larger sample, with other capacities, domains and compressions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._errors import Error, InvalidInput
from .._speed import Speed
from ..workloads.spec import Workload
from .advice import Advice, Advised
from .data import Data
from .designs import Design, compressed, first_round, uses, variants
from .measuring import Trial, measure, questions
from .predicting import Predicted, fitted, mean_time, predict

if TYPE_CHECKING:
    import pyarrow as pa

    from .._progress import Progress

SMALL = 60_000
"""Rows of the smaller sample."""
KEPT = 5
"""Designs of the first round that are measured on the larger sample."""
TIE = 0.05
"""Designs whose times differ less are equal; the smaller one is then better."""
LATENCY, BYTES_PER_SECOND = 0.03, 100e6
"""Seconds of a request to an object store, and its rate."""
GET = 0.0004 / 1000
"""The price in US dollars of a read request to Amazon S3 Standard in us-east-1, as of 2025:
<https://aws.amazon.com/s3/pricing/>
"""


class Search:
    def __init__(
        self, data: Data, workload: Workload, limit: float, shown: Progress, seed: int
    ) -> None:
        self._data, self._workload = data, workload
        self._begin, self._limit, self._shown = time.monotonic(), limit, shown
        self._large = data.rows
        count = min(SMALL, max(data.rows.num_rows // 4, 1))
        self._small = _some(data.rows, count, seed)
        self._asked = questions(workload, data.rows, seed)
        self._trials: dict[tuple[Design, bool], Trial] = {}
        self._errors: list[str] = []

    def _run(self) -> None:
        first = first_round(self._workload, self._large, self._data.dimensions)
        with tempfile.TemporaryDirectory(prefix="kubist-advise-") as folder:
            self._folder = Path(folder)
            self._round("first round", first, small=True, until=0.4)
            if not self._trials:
                why = "; ".join(self._errors[:2])
                raise InvalidInput(f"{self._data.location}: no design could be built: {why}")
            best = self._ranked(small=True)[:KEPT]
            self._round("second round", best, small=False, until=0.65)
            leaders = self._ranked(small=False)[:2] or best[:1]
            more = [other for leader in leaders for other in variants(leader)]
            self._round("capacities and domains", more, small=False, until=0.85)
            leader = (self._ranked(small=False) or best)[0]
            self._round("compressions", compressed(leader), small=False, until=1.0)
            finalists = self._ranked(small=False)
            self._round("growth", finalists, small=True, until=1.2)

    def _round(self, name: str, designs: Sequence[Design], *, small: bool, until: float) -> None:
        """Measures designs until a fraction of the time is over; at least one in each round."""
        end = self._begin + until * (self._limit - self._begin)
        rows = self._small if small else self._large
        for number, design in enumerate(designs):
            if (design, small) in self._trials:
                continue
            if number and time.monotonic() > end:
                self._errors.append(f"the time was over before {design} was measured")
                continue
            share = (time.monotonic() - self._begin) / (self._limit - self._begin)
            self._shown(f"{name}: {design}", min(share, 1.0))
            try:
                trial = measure(design, rows, self._asked, self._folder)
            except Error as error:
                self._errors.append(f"{design}: {error}")
                continue
            self._trials[design, small] = trial

    def _ranked(self, *, small: bool) -> list[Design]:
        speed = self._speed()
        found = [design for design, size in self._trials if size is small]
        return sorted(found, key=lambda design: self._mean(design, speed).seconds)

    def _speed(self) -> Speed:
        return fitted([one for trial in self._trials.values() for one in trial.asked])

    def _predicted(self, design: Design, speed: Speed) -> dict[str, Predicted]:
        large = self._trials.get((design, False))
        small = self._trials.get((design, True))
        base = large or small
        assert base is not None
        smaller = small if large is not None else None
        total = max(self._data.total, base.rows)
        return {
            query.name: predict(query.name, smaller, base, total, speed)
            for query in self._workload.queries
        }

    def _mean(self, design: Design, speed: Speed) -> Predicted:
        return mean_time(self._workload, self._predicted(design, speed))

    def advice(self, begin: float, is_proposed: bool) -> Advice:
        """Runs the search. ``begin`` is the start time of the user's call."""
        self._run()
        speed = self._speed()
        designs = dict.fromkeys(design for design, _ in self._trials)
        advised = sorted(
            (self._advised(design, speed) for design in designs), key=lambda one: one.seconds
        )
        # The smaller of equal designs is first; only designs of the larger sample can win.
        large = max(one.measured_rows for one in advised)
        winners = [
            one
            for one in advised
            if one.measured_rows == large and one.seconds <= advised[0].seconds * (1 + TIE)
        ]
        finalists = [one for one in advised if one.measured_rows == large]
        best = min(winners or finalists, key=lambda one: (one.bytes, one.seconds))
        advised.remove(best)
        advised.insert(0, best)
        return Advice(
            data=self._data.location,
            rows=self._data.total,
            workload=self._workload,
            designs=advised,
            tried=len(designs),
            seconds=time.monotonic() - begin,
            reasons=self._reasons(advised),
            notes=self._notes(),
            identity=list(self._data.identity),
            is_proposed=is_proposed,
            is_table=self._data.is_table,
            errors=self._errors,
        )

    def _advised(self, design: Design, speed: Speed) -> Advised:
        queries = self._predicted(design, speed)
        mean = mean_time(self._workload, queries)
        trial = self._trials.get((design, False)) or self._trials[design, True]
        growth = max(self._data.total, trial.rows) / trial.rows
        remote = mean.seconds + mean.trips * LATENCY + mean.bytes / BYTES_PER_SECOND
        return Advised(
            design=design,
            seconds=mean.seconds,
            low=mean.low,
            high=mean.high,
            queries=queries,
            build_seconds=trial.build_seconds * growth,
            bytes=round(trial.bytes * growth),
            remote_seconds=remote,
            remote_dollars=1000 * mean.trips * GET,
            measured_rows=trial.rows,
        )

    def _notes(self) -> list[str]:
        notes = list(self._data.notes)
        if not self._data.is_exact:
            notes.append("the number of rows is extrapolated from the files that were read")
        late = sum(text.startswith("the time was over") for text in self._errors)
        if late:
            notes.append(f"{late} designs were not measured, because the time was over")
        return notes

    def _reasons(self, advised: Sequence[Advised]) -> list[str]:
        best = advised[0]
        of = best.design
        used = uses(self._workload).of(self._large.column_names)
        lines = []
        for name in of.dimensions:
            without = tuple(other for other in of.dimensions if other != name)
            other = self._fastest(advised, without, of.lookup)
            if other is not None:
                ratio = other.seconds / best.seconds
                lines.append(
                    f"{name} is a dimension: without it a query takes {ratio:.1f} times as long."
                )
        for name in sorted({*used.ranges, *used.values} - {*of.dimensions, *of.lookup}):
            lines.append(f"{name} is no dimension: no measured design with it was faster.")
        if of.lookup:
            other = self._fastest(advised, of.dimensions, ())
            if other is not None:
                ratio = other.seconds / best.seconds
                lines.append(
                    f"{', '.join(of.lookup)} has a secondary index: without it a query takes "
                    f"{ratio:.1f} times as long."
                )
        return lines

    @staticmethod
    def _fastest(
        advised: Sequence[Advised], dimensions: tuple[str, ...], lookup: tuple[str, ...]
    ) -> Advised | None:
        found = [
            one
            for one in advised
            if one.design.dimensions == dimensions and one.design.lookup == lookup
        ]
        return min(found, key=lambda one: one.seconds) if found else None


def _some(rows: pa.Table, count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return rows.take(np.sort(random.choice(rows.num_rows, count, replace=False)))
