"""Figures in types of their own, with all digits: integers, decimals, dates, times."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from . import _kubist

_Texts = list[str | None]


def _timestamp_ns(text: str) -> Any:
    """Nanoseconds, which only NumPy has; as NumPy has them, in UTC."""
    import numpy as np

    return np.datetime64(text.removesuffix("Z"), "ns")


_MADE: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "decimal": Decimal,
    "date": lambda text: datetime.date.fromisoformat(text[:10]),
    "timestamp": datetime.datetime.fromisoformat,
    "timestamp_ns": _timestamp_ns,
    "time": datetime.time.fromisoformat,
}

_UNBOUNDED: dict[str, Callable[[str], Any]] = {"integer": float, "decimal": Decimal}
"""What numbers have where nothing bounds them; dates and times have None."""


class Own:
    """A value and the ends of its interval."""

    def __init__(self, kind: str, texts: _Texts) -> None:
        self.kind = kind
        self._texts = texts

    def values(self) -> list[Any]:
        """Value, low and high; None for a value that is not known."""
        value, low, high = (None if text is None else self._made(text) for text in self._texts)
        unbounded = _UNBOUNDED.get(self.kind)
        if unbounded is not None:
            low = unbounded("-inf") if low is None else low
            high = unbounded("inf") if high is None else high
        return [value, low, high]

    def in_words(self, exact: bool, unit: str | None) -> str:
        """As people read it."""
        if self.kind == "integer" and not exact:
            # No digits that are not known.
            value, low, high = self.values()
            ends = (float(low), float(high))
            return _kubist.figure(None if value is None else float(value), *ends, exact, unit)
        value, low, high = self._texts
        return _kubist.figure_of_texts(value, low, high, exact, unit)

    def _made(self, text: str) -> Any:
        try:
            return _MADE[self.kind](text)
        except ValueError:
            # A year that Python's own types do not have.
            return text
