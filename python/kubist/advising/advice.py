"""The result of `kubist.advise`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._kubist import duration, size
from .._shown import html_table, text_table
from ..workloads.spec import Workload, to_toml
from .designs import CAPACITY, Design

if TYPE_CHECKING:
    from .predicting import Predicted

SHOWN = 8
"""Designs to print."""


@dataclass(frozen=True, slots=True)
class Advised:
    """A design with its predicted cost on the whole data.

    Times are in seconds, with the data in the memory of this machine.
    """

    design: Design
    seconds: float
    """Mean time of a query, by the weights of the workload."""
    low: float
    high: float
    """The interval of 95 % of ``seconds``."""
    queries: dict[str, Predicted]
    build_seconds: float
    bytes: int
    remote_seconds: float
    """Mean time of a query on an object store with requests of 30 ms and 100 MB/s."""
    remote_dollars: float
    """The price of the requests of 1,000 queries on Amazon S3."""
    measured_rows: int
    """Rows of the largest trial."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Designs of a table for a workload, the best first; ``print(advice)`` shows them."""

    data: str
    rows: int
    workload: Workload
    designs: list[Advised]
    tried: int
    """Designs that were measured."""
    seconds: float
    reasons: list[str]
    notes: list[str]
    identity: list[str]
    is_proposed: bool
    """Whether the workload was proposed from the columns."""
    is_table: bool
    errors: list[str] = field(default_factory=list)

    @property
    def best(self) -> Design:
        return self.designs[0].design

    @property
    def python(self) -> str:
        """The call that creates the table."""
        best, options = self.best, []
        domains = best.domains()
        plain = not best.quantile
        given = repr(list(domains)) if plain else repr(domains)
        options.append(f"dimensions={given}")
        if self.identity:
            options.append(f"identity={self.identity!r}")
        made: dict[str, Any] = {"lookup": list(best.lookup)} if best.lookup else {}
        if best.capacity != CAPACITY:
            made["capacity"] = best.capacity
        if best.compression != "balanced":
            made["storage"] = {"compression": best.compression}
        if self.is_table:
            # A copy keeps the identity and the secondary indexes of its table.
            options = [text for text in options if not text.startswith("identity")]
            options += [f"capacity={best.capacity}"] if best.capacity != CAPACITY else []
            return f"kubist.open({self.data!r}).copy_to('new.kubist', {', '.join(options)})"
        options += [f"create={made!r}"] if made else []
        return f"kubist.ingest('new.kubist', {self.data!r}, {', '.join(options)})"

    @property
    def command(self) -> str:
        """The command that creates the table."""
        best = self.best
        names = [f"{name}=quantile" if best.quantile else name for name in best.dimensions]
        dimensions = f"--dimensions {shlex.quote(','.join(names))}"
        if self.is_table:
            more = f" --capacity {best.capacity}" if best.capacity != CAPACITY else ""
            return f"kubist copy {shlex.quote(self.data)} new.kubist {dimensions}{more}"
        text = f"kubist ingest new.kubist {shlex.quote(self.data)} {dimensions}"
        text += f" --identity {shlex.quote(','.join(self.identity))}" if self.identity else ""
        text += f" --create {shlex.quote('lookup=' + ','.join(best.lookup))}" if best.lookup else ""
        text += f" --create capacity={best.capacity}" if best.capacity != CAPACITY else ""
        other = best.compression != "balanced"
        return text + (f" --create compression={best.compression}" if other else "")

    def _lines(self) -> tuple[list[str], list[list[str | None]]]:
        head = ["", "dimensions", "lookup", "capacity", "compression", "time of a query", "95 %"]
        head += ["build", "bytes", "on S3", "$ of 1,000"]
        rows: list[list[str | None]] = []
        for at, one in enumerate(self.designs[:SHOWN], 1):
            of = one.design
            names = ", ".join(of.dimensions) + (" (quantiles)" if of.quantile else "")
            interval = f"{1e3 * one.low:.2f} to {1e3 * one.high:.2f}"
            row: list[str | None] = [str(at), names, ", ".join(of.lookup) or "none"]
            row += [f"{of.capacity:,}", of.compression, f"{1e3 * one.seconds:.2f} ms", interval]
            row += [duration(one.build_seconds), size(one.bytes)]
            row += [f"{1e3 * one.remote_seconds:.0f} ms", f"{one.remote_dollars:.4f}"]
            rows.append(row)
        return head, rows

    def _queries(self) -> tuple[list[str], list[list[str | None]]]:
        best, worst = self.designs[0], self.designs[-1]
        head = ["query", "share", "rows", "read each", "time", f"with {worst.design}"]
        rows: list[list[str | None]] = []
        for query, share in zip(self.workload.queries, self.workload.shares, strict=True):
            one, other = best.queries[query.name], worst.queries[query.name]
            each = f"{one.read / one.rows:.2f}" if one.rows else ""
            times = [f"{1e3 * of.seconds:.2f} ms" for of in (one, other)]
            rows.append([query.name, f"{100 * share:.0f} %", f"{one.rows:,.0f}", each, *times])
        return head, rows

    def __str__(self) -> str:
        source = "proposed from the columns" if self.is_proposed else self.workload.name
        measured = max(one.measured_rows for one in self.designs)
        lines = [
            f"data      {self.data}: {self.rows:,} rows, {measured:,} of them measured",
            f"workload  {source}: {len(self.workload.queries)} queries",
            f"search    {self.tried} designs in {duration(self.seconds)}",
            *(f"note      {text}" for text in self.notes),
            "",
            text_table(*self._lines(), []),
            "",
            f"With {self.best}:",
            "",
            text_table(*self._queries(), []),
            "",
            *self.reasons,
            "",
            f"command   {self.command}",
            f"Python    {self.python}",
        ]
        if self.is_proposed:
            lines += ["", "The proposed workload, to change and to give with --queries:", ""]
            lines += [to_toml(self.workload).rstrip()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        time = f"{1e3 * self.designs[0].seconds:.2f} ms a query"
        return f"<kubist.Advice {self.best}: {time}, of {self.tried} designs>"

    def _repr_html_(self) -> str:
        return html_table(*self._lines(), [*self.reasons, self.python])
