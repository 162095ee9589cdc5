"""Requests as SQL: the common part of the systems' dialects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput

if TYPE_CHECKING:
    from ..draws import Question


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of a system.

    Attributes:
        columns: All columns, for a query without columns.
        aggregates: Names of aggregates that differ, each with its parenthesis.
        lacks: Parameters that have no counterpart.
        quote: The quote of a column's name.
        percent: The word after a percentage of rows.
        end: The statement's end.
    """

    system: str
    table: str = "t"
    columns: str = "*"
    aggregates: Mapping[str, str] = field(default_factory=dict)
    has_between: bool = True
    lacks: Sequence[str] = ()
    quote: str = '"'
    percent: str = ""
    end: str = ""

    def sql(self, question: Question, more: Sequence[str] = ()) -> str:
        """The request as a statement; ``more`` are conditions for an index.

        Raises
        ------
        InvalidInput
            A parameter has no SQL.
        """
        asked = dict(question.asked)
        self.check(question, self.lacks)
        chosen: Any = asked.pop("columns", None)
        conditions = [*more, *self.conditions(question)]
        for name in ("box", "where", "error", "within"):
            # An estimate is exact here.
            asked.pop(name, None)
        if question.verb == "count":
            what = "count(*)"
        elif question.verb == "estimate":
            what = ", ".join(map(self._aggregate, _listed(asked.pop("aggregates"))))
        else:
            what = ", ".join(chosen) if chosen else self.columns
        text = f"SELECT {what} FROM {self.table}"
        if (sample := asked.pop("sample", None)) is not None:
            text += f" TABLESAMPLE BERNOULLI({100 * fraction(sample)!r}{self.percent})"
        text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if (groups := asked.pop("group_by", None)) is not None:
            text += f" GROUP BY {', '.join(_listed(groups))}"
        if (order := asked.pop("order_by", None)) is not None:
            text += f" ORDER BY {', '.join(_listed(order))}"
        if (limit := asked.pop("limit", None)) is not None:
            text += f" LIMIT {int(limit)}"
        self.check(question, list(asked))
        return text + self.end

    def check(self, question: Question, lacks: Sequence[str]) -> None:
        missing = [name for name in lacks if name in question.asked]
        if missing:
            raise InvalidInput(
                f"the query {question.name!r}: {self.system} has no {', '.join(missing)}"
            )

    def conditions(self, question: Question) -> list[str]:
        box, where = question.asked.get("box", {}), question.asked.get("where")
        found = [self._within(quoted(name, self.quote), *ends) for name, ends in box.items()]
        if where is not None:
            found.append(f"({where})" if self.has_between else where)
        return found

    def _within(self, column: str, low: Any, high: Any) -> str:
        first, last = literal(low), literal(high)
        if first == last:
            return f"{column} = {first}"
        if self.has_between:
            return f"{column} BETWEEN {first} AND {last}"
        return f"{column} >= {first} AND {column} <= {last}"

    def _aggregate(self, text: str) -> str:
        for name, other in self.aggregates.items():
            text = text.replace(name, other)
        return text


def _listed(text: str | Sequence[str]) -> Sequence[str]:
    return [text] if isinstance(text, str) else text


def quoted(name: str, quote: str = '"') -> str:
    return quote + name.replace(quote, 2 * quote) + quote


def literal(value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return repr(value).upper() if isinstance(value, bool) else repr(value)
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"


def fraction(sample: float | str) -> float:
    if isinstance(sample, str):
        return float(sample.rstrip("% ")) / (100 if "%" in sample else 1)
    return float(sample)
