"""Estimates with all digits: integers, decimals, dates, times."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from . import _kubist

_Texts = list[str | None]


_OFFSET = re.compile(r"(?<=\d)(?:Z|(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d))$")
"""The offset of a time with a time zone."""


_NANOSECONDS = re.compile(r"\.\d{7,}")


def _in_numpy(text: str) -> Any:
    """A date or timestamp as `numpy.datetime64` with all digits, in UTC."""
    import numpy as np

    text = text.removeprefix("+")
    offset = _OFFSET.search(text) if "T" in text else None
    local = np.datetime64(text[: offset.start()] if offset else text)
    if offset is None or offset["sign"] is None:
        return local
    ahead = np.timedelta64(int(offset["hours"]) * 60 + int(offset["minutes"]), "m")
    return local - ahead if offset["sign"] == "+" else local + ahead


def _timestamp_ns(text: str) -> Any:
    import numpy as np

    if _OFFSET.search(text) and not _NANOSECONDS.search(text):
        # NumPy's times have no zone.
        return datetime.datetime.fromisoformat(text)
    return np.datetime64(_in_numpy(text), "ns")


def _time_ns(text: str) -> Any:
    """A time of day as `numpy.timedelta64` since midnight."""
    import numpy as np

    return np.datetime64(f"1970-01-01T{text}", "ns") - np.datetime64("1970-01-01", "ns")


def _duration_ns(text: str) -> Any:
    import numpy as np

    return np.timedelta64(int(text), "ns")


_PARSERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "decimal": Decimal,
    "date": lambda text: datetime.date.fromisoformat(text[:10]),
    "timestamp": datetime.datetime.fromisoformat,
    "timestamp_ns": _timestamp_ns,
    "duration_s": lambda text: datetime.timedelta(seconds=int(text)),
    "duration_ms": lambda text: datetime.timedelta(milliseconds=int(text)),
    "duration_us": lambda text: datetime.timedelta(microseconds=int(text)),
    "duration_ns": _duration_ns,
    "time": datetime.time.fromisoformat,
    "time_ns": _time_ns,
    "bytes": bytes.fromhex,
}
"""NumPy's types for nanoseconds, because Python's stop at microseconds."""

_UNBOUNDED: dict[str, Callable[[str], Any]] = {"integer": float, "decimal": Decimal}
"""Types of infinite bounds of numbers; infinite bounds of dates and times are None."""


def parsed(kind: str, text: str) -> Any:
    try:
        return _PARSERS[kind](text)
    except ValueError:
        # A year outside the range of Python's types.
        return _in_numpy(text)


class TypedInterval:
    def __init__(self, kind: str, texts: _Texts) -> None:
        self.kind = kind
        self._texts = texts

    def values(self) -> list[Any]:
        """Value, low and high; None for an unknown value."""
        texts = (None if text is None else parsed(self.kind, text) for text in self._texts)
        value, low, high = texts
        unbounded = _UNBOUNDED.get(self.kind)
        if unbounded is not None:
            low = unbounded("-inf") if low is None else low
            high = unbounded("inf") if high is None else high
        return [value, low, high]

    def as_text(self, exact: bool, unit: str | None) -> str:
        if self.kind == "integer" and not exact:
            # Rounded to significant digits.
            value, low, high = self.values()
            ends = (float(low), float(high))
            return _kubist.figure(None if value is None else float(value), *ends, exact, unit)
        value, low, high = self._texts
        return _kubist.figure_of_texts(value, low, high, exact, unit)
