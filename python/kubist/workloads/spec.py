"""A workload: weighted queries with random parameters, clients, rates and writers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from .. import _box
from .._errors import InvalidInput

PLACES = ("rows", "uniform", "gaussian", "zipf")
"""Distributions of positions: the values of random rows, uniform over the domain, a normal
distribution over it, or ranks of values by Zipf's law.
"""
VERBS = ("query", "count", "estimate")


@dataclass(frozen=True, slots=True)
class Place:
    """The random position of a range or of a value.

    Attributes:
        kind: One of `PLACES`.
        mean, deviation: For a Gaussian, in the column's unit; None: the domain's middle and a tenth
            of its width.
        exponent: For Zipf's law: the value of rank k has a probability proportional to
            ``k ** -exponent``.
    """

    kind: str = "rows"
    mean: float | None = None
    deviation: float | None = None
    exponent: float = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """The random range of a column.

    Attributes:
        share: The width as a fraction of the column's domain, in (0, 1].
        width: The width in the column's unit, if ``share`` is None; 0: one value.
        fixed: Fixed bounds, instead of random ones.
        place: The position of the centre; None: as for the query.
    """

    share: float | None = None
    width: float = 0.0
    fixed: tuple[Any, Any] | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A random value for ``{name}`` in a condition, from a column or a list."""

    column: str = ""
    choices: tuple[Any, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query with random parameters.

    Attributes:
        weight: The relative frequency of this query.
        verb: One of `VERBS`.
        box: Ranges by column. All ranges at positions of kind ``rows`` use the same random row.
        values: The values of names in braces in ``where``.
        asked: Other parameters, as for `kubist.Table.query` and `kubist.Table.estimate`.
        replay: The parameters of recorded queries; each request uses a random one.
    """

    name: str
    weight: float = 1.0
    verb: str = "query"
    box: Mapping[str, Range] = field(default_factory=dict)
    place: Place = Place()
    where: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    replay: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """A writer that appends ``rows`` random rows in a commit, every ``every`` seconds."""

    name: str
    rows: int
    every: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries, and how clients send them.

    Attributes:
        clients: The number of requests that run at the same time.
        rate: Requests per second of all clients, at random times (open loop); None: each client
            sends the next request after a response (closed loop).
        think: Time in seconds between a response and the client's next request (closed loop).
    """

    queries: Sequence[Query]
    writers: Sequence[Writes] = ()
    clients: int = 1
    seconds: float = 10.0
    rate: float | None = None
    think: float = 0.0
    name: str = "workload"

    @property
    def shares(self) -> list[float]:
        total = sum(query.weight for query in self.queries)
        return [query.weight / total for query in self.queries]

    def columns(self) -> set[str]:
        named = {column for query in self.queries for column in query.box}
        return named | {
            value.column
            for query in self.queries
            for value in query.values.values()
            if value.column
        }


def parse(text: Mapping[str, Any], name: str = "workload") -> Workload:
    known = {"queries", "writers", "clients", "seconds", "rate", "think"}
    _refuse_unknown("the file", text, known)
    queries = text.get("queries", {})
    if not isinstance(queries, Mapping) or not queries:
        raise InvalidInput("there are no queries; a query begins with a line such as [queries.box]")
    writers = text.get("writers", {})
    _check_table("writers", writers)
    return Workload(
        queries=tuple(_query(name, of) for name, of in queries.items()),
        writers=tuple(_writes(name, of) for name, of in writers.items()),
        clients=_box.count("clients", text.get("clients", 1), most=1024),
        seconds=_positive("seconds", text.get("seconds", 10.0)),
        rate=_positive("rate", text["rate"]) if "rate" in text else None,
        think=_box.seconds("think", text.get("think", 0.0)),
        name=name,
    )


def _query(name: str, of: Any) -> Query:
    where = f"the query {name!r}"
    _check_table(where, of)
    own = {"weight", "verb", "box", "place", "where", "values"}
    asked = {"sample", "limit", "order_by", "columns", "aggregates", "error", "group_by", "within"}
    _refuse_unknown(where, of, own | asked)
    verb = of.get("verb", "query")
    if verb not in VERBS:
        raise InvalidInput(f"{where}: verb is {verb!r}; write one of {', '.join(VERBS)}")
    if verb == "estimate" and "aggregates" not in of:
        raise InvalidInput(f"{where}: estimate needs aggregates, such as ['mean(v)']")
    box, values = of.get("box", {}), of.get("values", {})
    _check_table(f"{where}: box", box)
    _check_table(f"{where}: values", values)
    condition = of.get("where")
    query = Query(
        name=name,
        weight=_positive(f"{where}: weight", of.get("weight", 1.0)),
        verb=verb,
        box={column: _range(f"{where}: {column}", text) for column, text in box.items()},
        place=_place(where, of.get("place", "rows")),
        where=condition,
        values={key: _value(f"{where}: {key}", key, text) for key, text in values.items()},
        asked={key: of[key] for key in sorted(asked & set(of))},
    )
    for key in query.values:
        if f"{{{key}}}" not in str(condition):
            raise InvalidInput(f"{where}: the condition has no {{{key}}} for the value {key!r}")
    return query


def _range(where: str, text: Any) -> Range:
    """A fraction (``"1 %"``), width (``0.5``), both ends (``[0, 1]``), or a table with a place."""
    if isinstance(text, Mapping):
        names = {item.name for item in fields(Place)} - {"kind"}
        _refuse_unknown(where, text, {"width", "place", *names})
        base = _range(where, text.get("width", 0))
        place = {key: text[key] for key in names if key in text}
        of = _place(where, {"kind": text.get("place", "rows"), **place})
        return Range(base.share, base.width, base.fixed, of)
    if isinstance(text, list):
        if len(text) != 2:
            raise InvalidInput(f"{where}: {text!r} are not the two ends of a range")
        return Range(fixed=(text[0], text[1]))
    if isinstance(text, str):
        return Range(share=_share(where, text))
    width = _number(where, text)
    if width < 0:
        raise InvalidInput(f"{where}: the width {width:g} is negative")
    return Range(width=width)


def _share(where: str, text: str) -> float:
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = math.nan
    if not percent or rest.strip() or not 0 < share <= 1:
        raise InvalidInput(f"{where}: {text!r} is no share of the domain, such as '1 %'")
    return share


def _value(where: str, name: str, text: Any) -> Value:
    """A position (``"rows"``), choices (``[1, 2]``), or a table with column and place."""
    if isinstance(text, list):
        if not text:
            raise InvalidInput(f"{where}: there are no choices")
        return Value(choices=tuple(text))
    if isinstance(text, Mapping):
        names = {item.name for item in fields(Place)} - {"kind"}
        _refuse_unknown(where, text, {"column", "place", *names})
        place = {key: text[key] for key in names if key in text}
        of = _place(where, {"kind": text.get("place", "rows"), **place})
        return Value(column=str(text.get("column", name)), place=of)
    return Value(column=name, place=_place(where, text))


def _place(where: str, text: Any) -> Place:
    of = text if isinstance(text, Mapping) else {"kind": text}
    _refuse_unknown(where, of, {item.name for item in fields(Place)})
    kind = of.get("kind", "rows")
    if kind not in PLACES:
        raise InvalidInput(f"{where}: the place is {kind!r}; write one of {', '.join(PLACES)}")
    numbers = {key: _number(f"{where}: {key}", of[key]) for key in of if key != "kind"}
    for key in ("deviation", "exponent"):
        if not numbers.get(key, 1.0) > 0:
            raise InvalidInput(f"{where}: {key} is {numbers[key]:g}; it must be positive")
    return Place(kind, **numbers)


def _writes(name: str, of: Any) -> Writes:
    where = f"the writer {name!r}"
    _check_table(where, of)
    _refuse_unknown(where, of, {"rows", "every"})
    rows = _box.count(f"{where}: rows", of.get("rows", 1_000))
    return Writes(name, rows, _box.seconds(f"{where}: every", of.get("every", 1.0)))


def _check_table(where: str, of: Any) -> None:
    if not isinstance(of, Mapping):
        raise InvalidInput(f"{where}: {of!r} is no table of TOML")


def _refuse_unknown(where: str, of: Mapping[str, Any], known: set[str]) -> None:
    for name in of:
        if name not in known:
            raise InvalidInput(
                f"{where}: unknown name {name!r}; known are {', '.join(sorted(known))}"
            )


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidInput(f"{where}: {value!r} is no finite number")
    return float(value)


def _positive(where: str, value: Any) -> float:
    number = _number(where, value)
    if number <= 0:
        raise InvalidInput(f"{where} is {number:g}; it must be positive")
    return number


def to_toml(workload: Workload) -> str:
    """The workload as a file that `load` reads."""
    lines = [f"clients = {workload.clients}", f"seconds = {workload.seconds:g}"]
    if workload.rate is not None:
        lines.append(f"rate = {workload.rate:g}")
    if workload.think:
        lines.append(f"think = {workload.think:g}")
    for query in workload.queries:
        lines += ["", f"[queries.{_key(query.name)}]", f"weight = {query.weight:g}"]
        if query.verb != "query":
            lines.append(f'verb = "{query.verb}"')
        if query.place != Place():
            lines.append(f"place = {_of_place(query.place)}")
        lines += [f"{key} = {_literal(value)}" for key, value in query.asked.items()]
        if query.where is not None:
            lines.append(f"where = {_literal(query.where)}")
        for group, items in (("box", query.box), ("values", query.values)):
            if items:
                inside = ", ".join(f"{_key(name)} = {_of(item)}" for name, item in items.items())
                lines.append(f"{group} = {{ {inside} }}")
    for writer in workload.writers:
        lines += ["", f"[writers.{_key(writer.name)}]"]
        lines += [f"rows = {writer.rows}", f"every = {writer.every:g}"]
    return "\n".join(lines) + "\n"


def _of(item: Range | Value) -> str:
    if isinstance(item, Value):
        if item.choices:
            return _literal(list(item.choices))
        return f"{{ column = {_literal(item.column)}, {_inside(item.place or Place())} }}"
    if item.fixed is not None:
        return _literal(list(item.fixed))
    width = repr(item.width) if item.share is None else f'"{100 * item.share:.12g} %"'
    return width if item.place is None else f"{{ width = {width}, {_inside(item.place)} }}"


def _inside(place: Place) -> str:
    numbers = {"mean": place.mean, "deviation": place.deviation}
    if place.kind == "zipf":
        numbers["exponent"] = place.exponent
    given = [f"{name} = {value!r}" for name, value in numbers.items() if value is not None]
    return ", ".join([f'place = "{place.kind}"', *given])


def _of_place(place: Place) -> str:
    inside = _inside(place).replace("place =", "kind =", 1)
    return f"{{ {inside} }}"


def _key(name: str) -> str:
    plain = name and all((c.isalnum() and c.isascii()) or c in "_-" for c in name)
    return name if plain else _literal(name)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)
