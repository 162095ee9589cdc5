"""Translates comparisons of Python into conditions of Kubist that select the same rows.

Python and SQL treat None and NaN differently. A condition of this module is true exactly for rows
where Python's value is true, and not where Python would raise because it cannot order None.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._pushdown import COMPLEMENT, EXACT_FLOATS, FLIPPED, quoted

MOST_BITS = 126
"""Kubist computes integers in 128 bits."""

SLACK = 1e-9
"""The allowed relative error of squares and roots, far above their rounding errors."""

MOST_VALUES = 50_000
"""Maximum length of a list; Python evaluates longer lists."""

TRUE, FALSE = "TRUE", "FALSE"


class Unreadable(Exception):
    """Raised if Python has to evaluate a part."""


@dataclass(frozen=True)
class Term:
    """An expression over columns.

    ``bits`` bounds an integer. An ``approximate`` term is not negative, with a relative error below
    `SLACK` between Kubist and Python. A ``bare`` term is a column.
    """

    sql: str
    family: str
    bits: int = 63
    approximate: bool = False
    bare: bool = False

    @property
    def numeric(self) -> bool:
        return self.family in ("int", "float")


@dataclass(frozen=True)
class Condition:
    """A condition that is true where Python's value is, and also for other rows unless exact."""

    sql: str
    exact: bool = True


def column(name: str, family: str) -> Term:
    return Term(quoted(name), family, bare=True)


def constant_term(value: Any) -> Term:
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        if value.bit_length() > 63:
            raise Unreadable
        return Term(f"({value})", "int", max(value.bit_length(), 1))
    if isinstance(value, float) and math.isfinite(value):
        return Term(f"({value!r})", "float")
    raise Unreadable


def arithmetic(op: str, left: Term, right: Term) -> Term:
    """The sum, difference or product of two terms, if Kubist and Python compute it equally."""
    if not (left.numeric and right.numeric):
        raise Unreadable
    if left.approximate or right.approximate:
        if op == "+" and left.approximate and right.approximate:
            return Term(f"({left.sql} + {right.sql})", "float", approximate=True)
        raise Unreadable
    sql = f"({left.sql} {op} {right.sql})"
    if "float" in (left.family, right.family):
        return Term(sql, "float")
    bits = left.bits + right.bits if op == "*" else max(left.bits, right.bits) + 1
    if bits > MOST_BITS:
        raise Unreadable
    return Term(sql, "int", bits)


def square(term: Term) -> Term:
    """``term ** 2``, whose last digit depends on the library."""
    product = arithmetic("*", term, term)
    return Term(product.sql, product.family, product.bits, approximate=product.family == "float")


def root(terms: Sequence[Term]) -> Term:
    """``sqrt`` for a single term, ``hypot`` for two."""
    if any(not term.numeric or (term.approximate and len(terms) > 1) for term in terms):
        raise Unreadable
    name = "sqrt" if len(terms) == 1 else "hypot"
    return Term(f"{name}({', '.join(term.sql for term in terms)})", "float", approximate=True)


def compare(left: Term, op: str, right: Any, want: bool) -> Condition:
    """The condition that ``left op right`` is ``want``; right is a term or a Python value."""
    if isinstance(right, Term):
        return _of_terms(left, op, right, want)
    if right is None:
        if op not in ("=", "<>"):
            raise TypeError(f"{left.sql} cannot be ordered with None")
        return is_none(left, (op == "=") == want)
    return _of_value(left, op, _plain(right), want)


def is_none(term: Term, want: bool) -> Condition:
    if not term.bare:
        return Condition(FALSE if want else TRUE)
    return Condition(f"{term.sql} IS {'' if want else 'NOT '}NULL")


def truth(term: Term, want: bool) -> Condition:
    if term.approximate or term.family in ("array", "object"):
        raise Unreadable
    empty = {"int": "0", "float": "0", "text": "''", "bytes": "X''"}.get(term.family)
    if term.family == "bool":
        true, false = term.sql, f"NOT {term.sql}"
    elif empty is None:
        true, false = f"{term.sql} IS NOT NULL", FALSE
    else:
        true, false = f"{term.sql} <> {empty}", f"{term.sql} = {empty}"
    if want:
        return Condition(f"({true} OR isnan({term.sql}))" if term.family == "float" else true)
    return Condition(f"({false} OR {term.sql} IS NULL)" if term.bare else false)


def is_in(term: Term, values: Any, want: bool) -> Condition:
    if term.approximate:
        raise Unreadable
    if isinstance(values, range):
        if term.family != "int" or values.step != 1:
            raise Unreadable
        first = compare(term, ">=", values.start, want)
        last = compare(term, "<", values.stop, want)
            # Python's `in` is false for None, and its negation true.
        return both([first, last]) if want else either([first, last, is_none(term, True)])
    if not isinstance(values, (list, tuple, set, frozenset, dict)) or len(values) > MOST_VALUES:
        raise Unreadable
    parts = [compare(term, "=" if want else "<>", value, True) for value in values]
    literals = [_equal_literal(term, _plain(value)) for value in values if value is not None]
    if want and len(parts) > 1 and None not in literals and None not in values:
        return Condition(f"{term.sql} IN ({', '.join(str(each) for each in literals)})")
    if len(parts) > 1000:
        raise Unreadable
    return either(parts) if want else both(parts)


def call(name: str, term: Term, text: str, want: bool) -> Condition:
    if term.family != "text" or not isinstance(text, str):
        raise Unreadable
    return Condition(f"{'' if want else 'NOT '}{name}({term.sql}, {literal(text)})")


def is_integer(term: Term, want: bool) -> Condition:
    if term.family != "float" or term.approximate:
        raise Unreadable
    if want:
        return Condition(f"(isfinite({term.sql}) AND floor({term.sql}) = {term.sql})")
    return Condition(f"(NOT isfinite({term.sql}) OR floor({term.sql}) <> {term.sql})")


def both(parts: Sequence[Condition | None]) -> Condition:
    """The conjunction of all parts; None is an unreadable part, which makes it inexact."""
    readable = [part for part in parts if part is not None and part.sql != TRUE]
    exact = all(part is not None and part.exact for part in parts)
    if any(part.sql == FALSE for part in readable):
        return Condition(FALSE)
    return Condition(_joined(" AND ", readable) or TRUE, exact)


def either(parts: Sequence[Condition | None]) -> Condition:
    if any(part is None for part in parts):
        return Condition(TRUE, False)
    readable = [part for part in parts if part is not None and part.sql != FALSE]
    exact = all(part.exact for part in readable)
    if any(part.sql == TRUE for part in readable):
        return Condition(TRUE, exact)
    return Condition(_joined(" OR ", readable) or FALSE, exact)


def _joined(word: str, parts: Sequence[Condition]) -> str:
    if len(parts) == 1:
        return parts[0].sql
    return word.join(
        f"({part.sql})" if " AND " in part.sql or " OR " in part.sql else part.sql for part in parts
    )


def _of_terms(left: Term, op: str, right: Term, want: bool) -> Condition:
    if left.family != right.family or left.approximate or right.approximate:
        if left.family != right.family and not (left.numeric and right.numeric):
            raise TypeError(f"{left.sql} ({left.family}) and {right.sql} ({right.family}) differ")
        raise Unreadable
    if left.family in ("array", "object") or (left.family == "bool" and op not in ("=", "<>")):
        raise Unreadable
    parts = [f"{left.sql} {op if want else COMPLEMENT[op]} {right.sql}"]
    if left.family == "float" and (op == "<>") == want:
        parts += [f"isnan({left.sql})", f"isnan({right.sql})"]
    if op in ("=", "<>"):
        null = [f"{term.sql} IS NULL" if term.bare else FALSE for term in (left, right)]
        if (op == "=") == want:
            parts.append(f"({null[0]} AND {null[1]})")
        else:
            parts += [
                f"({null[0]} AND {right.sql} IS NOT NULL)",
                f"({left.sql} IS NOT NULL AND {null[1]})",
            ]
    return Condition(parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})")


def _of_value(left: Term, op: str, value: Any, want: bool) -> Condition:
    """A comparison with a value that is not None."""
    if not _same_kind(left.family, value):
        raise TypeError(f"{left.sql} is {left.family} and cannot be compared with {value!r}")
    if left.approximate:
        return _of_approximate(left, op, float(value), want)
    asked = op if want else COMPLEMENT[op]
    nan_matches = (op == "<>") == want
    if left.family == "bool":
        return _of_bool(left, asked, value)
    if left.family == "int":
        found = _of_integer(left, asked, value, nan_matches)
    elif left.family == "float":
        found = _of_float(left, asked, value, nan_matches)
    elif isinstance(value, str) and _has_surrogate(value):
        raise Unreadable
    else:
        found = f"{left.sql} {asked} {literal(value)}"
    if asked == "<>" and left.bare and found != TRUE:
        found = f"({found} OR {left.sql} IS NULL)"
    return Condition(found)


def _of_bool(left: Term, asked: str, value: Any) -> Condition:
    if asked not in ("=", "<>") or value not in (0, 1):
        raise Unreadable
    found = f"{left.sql} {asked} {'TRUE' if value else 'FALSE'}"
    return Condition(f"({found} OR {left.sql} IS NULL)" if asked == "<>" else found)


def _of_integer(left: Term, asked: str, value: Any, nan_matches: bool) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return TRUE if nan_matches else FALSE
        if math.isinf(value) or abs(value) >= 2.0**MOST_BITS:
            return _decided(asked, -1 if value > 0 else 1)
        if value != math.floor(value):
            if asked in ("=", "<>"):
                return TRUE if asked == "<>" else FALSE
            # Between two integers, so `<` and `<=` are the same.
            asked = "<=" if asked in ("<", "<=") else ">"
        value = math.floor(value)
    value = int(value)
    if value.bit_length() > MOST_BITS:
        return _decided(asked, -1 if value > 0 else 1)
    if left.bare and value.bit_length() > 63 and value != -(2**63):
        return _decided(asked, -1 if value > 0 else 1)
    return f"{left.sql} {asked} {value}"


def _decided(asked: str, sign: int) -> str:
    """A comparison with a number beyond the range; ``sign`` is the sign of value minus number."""
    true = {"<": sign < 0, "<=": sign < 0, ">": sign > 0, ">=": sign > 0, "=": False, "<>": True}
    return TRUE if true[asked] else FALSE


def _of_float(left: Term, asked: str, value: Any, nan_matches: bool) -> str:
    if isinstance(value, int) and abs(value) > EXACT_FLOATS:
        raise Unreadable
    value = float(value)
    if math.isnan(value):
        return TRUE if nan_matches else FALSE
    found = f"{left.sql} {asked} {literal(value)}"
    # A negation has complemented `asked`, but Python's comparison with NaN is false.
    return f"({found} OR isnan({left.sql}))" if nan_matches else found


def _of_approximate(left: Term, op: str, value: float, want: bool) -> Condition:
    asked = op if want else COMPLEMENT[op]
    if asked in ("=", "<>") or not math.isfinite(value) or value < 0:
        raise Unreadable
    if asked in ("<", "<="):
        found = f"{left.sql} <= {value * (1 + SLACK) + 1e-300!r}"
    else:
        found = f"{left.sql} >= {max(value * (1 - SLACK) - 1e-300, 0.0)!r}"
    return Condition(found if want else f"({found} OR isnan({left.sql}))", exact=False)


def _equal_literal(term: Term, value: Any) -> str | None:
    """The literal, if the comparison is only ``term = value``."""
    found = compare(term, "=", value, True).sql
    start = f"{term.sql} = "
    return found[len(start) :] if found.startswith(start) else None


def literal(value: Any) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat()}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case datetime.time():
            return f"TIME '{value.isoformat()}'"
    raise Unreadable


def _same_kind(family: str, value: Any) -> bool:
    match family:
        case "int" | "float" | "bool":
            return isinstance(value, (int, float))
        case "text":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, (bytes, bytearray))
        case "datetime":
            return isinstance(value, datetime.datetime) and value.tzinfo is None
        case "date":
            return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
        case "time":
            return isinstance(value, datetime.time) and value.tzinfo is None
    raise Unreadable


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return bytes(value) if isinstance(value, bytearray) else value


def _has_surrogate(text: str) -> bool:
    return any(0xD800 <= ord(each) < 0xE000 for each in text)


flipped: Callable[[str], str] = FLIPPED.__getitem__
