"""The snapshots of many runs as one snapshot for queries.

Each run that the conditions select gets its own query. The batches of all runs form one Arrow
stream, which the engine decodes like a server's response, so all features of remote tables work
with many runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from .. import _kubist, _saved
from .._errors import InvalidInput, Refused
from .._figures import Stats
from .._libraries import need
from .._pinned import Estimates, Refinement
from . import _text
from ._columns import NUMBER, Union
from ._estimating import estimate
from ._part import Outputs, Part
from ._runs import Run, each

if TYPE_CHECKING:
    import pyarrow as pa

    from .._arguments import ArrowSchema
    from .._spec import EstimateRequest, QuerySpec

_AHEAD = 4
"""Number of runs whose queries start while an earlier run is read."""


class Pinned:
    """All runs, at the snapshots of the opening; implements `kubist._pinned.Pinned`."""

    def __init__(self, union: Union, runs: Sequence[Run], *, numbered: bool = False) -> None:
        self._union, self._runs = union, runs
        self._numbered = numbered
        """Whether the column of the run contains numbers instead of names, for a plot."""

    def source(self) -> _saved.Source:
        runs = [{"name": run.name, **_saved.source(run.pinned)} for run in self._runs]
        return {"runs": runs, "run": self._union.key}

    def token(self) -> str:
        return json.dumps({run.name: run.pinned.token() for run in self._runs})

    def schema(self) -> ArrowSchema:
        return cast("ArrowSchema", self._outputs({}).schema)

    def columns(self) -> str:
        return self._union.shape._pinned().columns()

    def metadata(self) -> str:
        return "{}"

    def about(self) -> str:
        first = json.loads(self._runs[0].pinned.about())
        columns = json.loads(self.columns())
        return json.dumps(first | {"columns": columns, "metadata": {}, "rows": self.rows()})

    def info(self) -> str:
        raise InvalidInput("info: the layout is that of one run: many.run(name).info()")

    def rows(self) -> int:
        return sum(each(lambda run: run.pinned.rows(), self._runs))

    def query(self, query: QuerySpec) -> _kubist.Stream:
        asked = self._checked(query)
        if "per_cell" in asked:
            raise InvalidInput("per_cell: query one run: many.run(name).query(per_cell=...)")
        fields = self._outputs(asked)
        parts = self._parts(asked)
        order = asked.pop("order_by", None)
        limit = asked.pop("limit", None)
        low, high = _window(asked)
        fraction = high - low
        if order is not None:
            return self._ordered(parts, asked, fields, order, limit, fraction)
        if limit is not None:
            cutoff = self._cutoff(parts, asked, limit)
            if cutoff is None:
                return self._first(parts, asked, fields, limit, fraction)
            low = _window(asked)[0]
            asked["window"] = (low, low + cutoff)
            fraction = cutoff
        return _wire(*self._batches(parts, asked, fields), fields.schema, fraction)

    def _first(
        self,
        parts: Sequence[Part],
        asked: dict[str, Any],
        fields: Outputs,
        limit: int,
        fraction: float,
    ) -> _kubist.Stream:
        """The rows of lowest priority, run by run, until the limit is reached."""
        costs = Costs()

        def batches() -> Iterator[pa.RecordBatch]:
            left = limit
            for part in parts if limit else []:
                found, _ = self._batches([part], asked | {"limit": left}, fields, costs)
                for batch in found:
                    left -= batch.num_rows
                    yield batch
                if left == 0:
                    return

        return _wire(batches(), costs, fields.schema, fraction)

    def _ordered(
        self,
        parts: Sequence[Part],
        asked: dict[str, Any],
        fields: Outputs,
        order: Sequence[str],
        limit: int | None,
        fraction: float,
    ) -> _kubist.Stream:
        """All rows in memory, sorted; with a limit, only the runs' first rows."""
        pa = need("pyarrow", "open_many()")
        keys = [self._key(term) for term in order]
        names = fields.schema.names
        added = [self._union.schema.field(name) for name, _ in keys if name not in names]
        all_fields = fields.with_columns(added)
        own = dict(asked)
        if limit is not None:
            of_rows = [
                term
                for term, (name, _) in zip(order, keys, strict=True)
                if name not in self._union.of_run
            ]
            own["limit"] = limit
            if of_rows:
                own["order_by"] = of_rows
        batches, costs = self._batches(parts, own, all_fields)
        table = pa.Table.from_batches(list(batches), all_fields.schema)
        codes = {name: self._text_key(table, name) for name, _ in keys}
        sorting = pa.table({f"k{at}": codes[name] for at, (name, _) in enumerate(keys)})
        by = [(f"k{at}", direction) for at, (_, direction) in enumerate(keys)]
        table = table.take(need("pyarrow.compute", "").compute.sort_indices(sorting, by))
        table = table.select(names)[: len(table) if limit is None else limit]
        rows = table.combine_chunks().to_batches()
        return _wire(iter(rows), costs, fields.schema, fraction)

    def _text_key(self, table: pa.Table, name: str) -> Any:
        """A column to sort by; runs are sorted by name."""
        pa = need("pyarrow", "open_many()")
        values = table.column(name)
        return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values

    def _key(self, term: str) -> tuple[str, str]:
        """The column and direction of a term of an order."""
        text, direction = term.strip(), "ascending"
        for word, means in (("asc", "ascending"), ("desc", "descending")):
            if text.lower().endswith(f" {word}"):
                text, direction = text[: -len(word)].strip(), means
        name = self._union.names.find(_text.plain(text))
        if name is None:
            raise InvalidInput(
                f"order_by: {term}: order many runs by columns; priorities are those of each run"
            )
        return name, direction

    def trajectories(self, through: QuerySpec, by: str, query: QuerySpec) -> _kubist.Stream:
        raise InvalidInput("trajectories: query one run: many.run(name).trajectories(...)")

    def refine(self, query: QuerySpec, start: float, factor: float) -> Refinement:
        raise InvalidInput("refine: query windows of priority: many.query(window=(low, high))")

    def estimates(self, request: EstimateRequest) -> Estimates:
        raise InvalidInput("progressive: estimate one run: many.run(name).estimate(...)")

    def count(self, query: QuerySpec) -> int:
        asked = self._checked(query)
        limit: int | None = asked.pop("limit", None)
        order = asked.pop("order_by", None)
        asked.pop("columns", None)
        asked.pop("inclusion", None)
        parts = self._parts(asked)
        if limit is None:
            return self._counted(parts, asked)
        if order is not None:
            return min(self._counted(parts, asked), limit)
        cutoff = self._cutoff(parts, asked, limit)
        if cutoff is None:
            return min(self._counted(parts, asked), limit)
        low = _window(asked)[0]
        return self._counted(parts, asked | {"window": (low, low + cutoff)})

    def estimate(self, request: EstimateRequest) -> Any:
        return self.estimate_contrast(request, None)

    def estimate_contrast(self, request: EstimateRequest, contrast: str | None) -> Any:
        asked = self._checked(cast("QuerySpec", request))
        parts = self._parts(asked)
        shown = (list(request["aggregates"]), list(request.get("group_by", [])))
        return estimate(self._union, parts, asked, shown, contrast)

    def _checked(self, query: QuerySpec) -> dict[str, Any]:
        """The query with complete, quoted names, after the engine has checked it."""
        union = self._union
        asked: dict[str, Any] = dict(query)

        def written(text: str) -> str:
            for name in _text.dotted(text):
                if union.names.find(name) is None:
                    known = ", ".join([*union.of_run, *union.rows.names])
                    raise InvalidInput(f"no column {name!r}; the columns are {known}")
            return _text.rewritten(text, union.names, lambda _: None)

        def output(text: str) -> str:
            """A column, or an expression with its name in a table."""
            if union.names.find(text) is not None:
                return text
            named = _text.named(text)[1] is not None
            return written(text) + ("" if named else f" AS {_text.quoted(text.strip())}")

        if "where" in asked:
            asked["where"] = written(asked["where"])
        for name in ("aggregates", "group_by"):
            if name in asked:
                asked[name] = [written(text) for text in asked[name]]
        if "columns" in asked:
            asked["columns"] = [output(text) for text in asked["columns"]]
        plain = {name: asked[name] for name in _OF_ROWS if name in asked}
        if "order_by" in asked:
            plain["order_by"] = [_quoted_term(*self._key(term)) for term in asked["order_by"]]
        union.shape._pinned().query(cast("QuerySpec", plain | {"limit": 0})).close()
        if "aggregates" in asked:
            union.shape._pinned().estimate(cast("EstimateRequest", asked | {"max_rows": 1}))
        if "box" in asked:
            asked["box"] = {union.names.find(name): ends for name, ends in asked["box"].items()}
        return asked

    def _outputs(self, asked: dict[str, Any]) -> Outputs:
        pa = need("pyarrow", "open_many()")
        union = self._union
        schema = union.schema
        if self._numbered:
            place = schema.get_field_index(union.key)
            schema = schema.set(place, pa.field(union.key, pa.int32()))
        fields, computed = list(schema), {}
        if (texts := asked.get("columns")) is not None:
            # The engine names computed columns and gives them their types.
            spec = cast("QuerySpec", {"columns": texts, "limit": 0})
            fields = list(pa.schema(union.shape._pinned().query(spec).schema()))
            for at, text in enumerate(texts):
                if (column := union.names.find(text)) is not None:
                    fields[at] = schema.field(column)
                else:
                    computed[fields[at].name] = _text.named(text)[0]
        if asked.get("inclusion") is not None:
            fields.append(pa.field(asked["inclusion"], pa.float64()))
        return Outputs(pa.schema(fields), computed)

    def _parts(self, asked: dict[str, Any]) -> list[Part]:
        """The runs that meet the conditions on names and metadata."""
        union = self._union
        of_runs: dict[str, Any] = {"columns": [NUMBER]}
        box = asked.get("box", {})
        if on_runs := {name: ends for name, ends in box.items() if name in union.of_run}:
            of_runs["box"] = on_runs
            asked["box"] = {name: ends for name, ends in box.items() if name not in on_runs}
        if "where" in asked:
            conditions = _text.conditions(asked["where"])
            own = [c for c in conditions if _text.columns(c, union.names) <= union.of_run.keys()]
            rest = [condition for condition in conditions if condition not in own]
            if own:
                of_runs["where"] = " AND ".join(f"({condition})" for condition in own)
            del asked["where"]
            if rest:
                asked["where"] = " AND ".join(f"({condition})" for condition in rest)
        if len(of_runs) == 1:
            numbers = list(range(len(self._runs)))
        else:
            rows = union.catalogue.query(**of_runs).to_arrow()
            numbers = sorted(rows.column(NUMBER).to_pylist())
        parts = [Part(union, self._runs, number) for number in numbers]
        return [part for part in parts if part.box(asked.get("box", {})) is not None]

    def _counted(self, parts: Sequence[Part], asked: dict[str, Any]) -> int:
        def counted(part: Part) -> int:
            return part.run.pinned.count(cast("QuerySpec", part.question(asked)))

        return sum(each(counted, parts))

    def _cutoff(self, parts: Sequence[Part], asked: dict[str, Any], limit: int) -> float | None:
        """The priority below which all runs together have at most ``limit`` rows.

        All runs use the same cutoff, so their samples stay coordinated. The search counts rows
        below a cutoff until at least 0.7 of the limit is used, and returns None if no cutoff fits.
        """
        if limit == 0 or not parts:
            return None
        low, high = _window(asked)
        width = high - low
        fits, exceeds = 0.0, math.inf
        rows_that_fit = 0
        fraction = min(width, limit / max(1, sum(part.run.pinned.rows() for part in parts)))
        while exceeds - fits > 2.0**-50:
            found = self._counted(parts, {**asked, "window": (low, low + fraction)})
            if found > limit:
                exceeds = fraction
            else:
                fits, rows_that_fit = fraction, found
                if fraction >= width or found >= 0.7 * limit:
                    break
            likely = fraction * min(8.0, 0.9 * limit / max(found, 1))
            middle = likely if math.isinf(exceeds) else (fits + exceeds) / 2
            fraction = min(width, likely if fits < likely < exceeds else middle)
        return fits if rows_that_fit or fits >= width else None

    def _batches(
        self,
        parts: Sequence[Part],
        asked: dict[str, Any],
        fields: Outputs,
        costs: Costs | None = None,
    ) -> tuple[Iterator[pa.RecordBatch], Costs]:
        pa = need("pyarrow", "open_many()")
        costs = costs or Costs()

        def begun(part: Part) -> tuple[_kubist.Stream, _kubist.Batch | None]:
            own = part.question(asked)
            own["columns"] = part.columns(fields)
            stream = part.run.pinned.query(cast("QuerySpec", own))
            return stream, stream.next_batch()

        def batches() -> Iterator[Any]:
            waiting = deque(parts)
            running: deque[tuple[Part, Future[tuple[_kubist.Stream, _kubist.Batch | None]]]]
            running = deque()
            with ThreadPoolExecutor(_AHEAD) as pool:
                try:
                    while waiting or running:
                        while waiting and len(running) < _AHEAD:
                            part = waiting.popleft()
                            running.append((part, pool.submit(begun, part)))
                        part, future = running.popleft()
                        stream, batch = future.result()
                        while batch is not None:
                            yield part.arranged(pa.record_batch(batch), fields)
                            batch = stream.next_batch()
                        costs.add(stream)
                finally:
                    for _, future in running:
                        future.cancel()

        return batches(), costs


class Costs:
    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._sums: dict[str, float] | None = {field.name: 0 for field in dataclasses.fields(Stats)}

    def add(self, stream: _kubist.Stream) -> None:
        try:
            stats = json.loads(stream.stats())
        except Refused:
            self._sums = None  # A server does not report costs.
        if self._sums is not None:
            for name in self._sums:
                self._sums[name] += stats[name]

    def text(self) -> str:
        if self._sums is None:
            return ""
        return json.dumps(self._sums | {"seconds": time.perf_counter() - self._begin})


def _wire(
    batches: Iterator[pa.RecordBatch], costs: Costs, schema: pa.Schema, fraction: float
) -> _kubist.Wire:
    return _kubist.Wire(_Source(batches, costs, schema), fraction)


def _window(asked: dict[str, Any]) -> tuple[float, float]:
    low, high = asked.get("window", (0.0, 1.0))
    return low, min(high, asked.get("sample", 1.0))


def _quoted_term(name: str, direction: str) -> str:
    return f"{_text.quoted(name)} {'desc' if direction == 'descending' else 'asc'}"


_OF_ROWS = ("box", "where", "region", "sample", "window", "steps", "columns", "inclusion")
"""Parameters that the engine checks against the columns of all runs."""


class _Source:
    """The bytes of an Arrow stream of batches, for `_kubist.Wire`."""

    def __init__(self, batches: Iterator[pa.RecordBatch], costs: Costs, schema: pa.Schema) -> None:
        pa = need("pyarrow", "open_many()")
        self._batches: Iterator[Any] | None = batches
        self._costs = costs
        self._bytes = bytearray()
        self._sink = pa.PythonFile(_Sink(self._bytes), mode="w")
        self._writer = pa.ipc.new_stream(self._sink, schema)
        self._at = 0

    def read1(self, most: int) -> bytes:
        while self._at == len(self._bytes) and self._batches is not None:
            self._at = 0
            self._bytes.clear()
            batch = next(self._batches, None)
            if batch is None:
                self._writer.close()
                self._batches = None
            else:
                self._writer.write_batch(batch)
        part = bytes(self._bytes[self._at : self._at + most])
        self._at += len(part)
        return part

    def close(self) -> None:
        self._batches = None
        self._at = len(self._bytes)

    def stats(self) -> str:
        return self._costs.text()


class _Sink:
    closed = False

    def __init__(self, into: bytearray) -> None:
        self._into = into

    def write(self, data: Any) -> int:
        self._into += memoryview(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
