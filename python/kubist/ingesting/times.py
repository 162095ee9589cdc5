"""Times of the CF conventions (``hours since 1990-01-01``) as timestamps.

Stored numbers become microseconds if all are whole microseconds (to a nanosecond, or to the
resolution of the number's type), otherwise nanoseconds. Times of other calendars, or that do not
fit, stay numbers.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
"""Calendars with real dates; the first two have Julian dates before 1582-10-15."""

_SECONDS = {
    "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
    "min": 60, "mins": 60, "minute": 60, "minutes": 60,
    "h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
    "week": 604800, "weeks": 604800,
}  # fmt: skip
_NANOSECONDS = {
    "ms": 1_000_000, "msec": 1_000_000, "millisecond": 1_000_000, "milliseconds": 1_000_000,
    "us": 1000, "microsec": 1000, "microsecond": 1000, "microseconds": 1000,
    "ns": 1, "nanosecond": 1, "nanoseconds": 1,
}  # fmt: skip
_UNITS = {name: seconds * 1_000_000_000 for name, seconds in _SECONDS.items()} | _NANOSECONDS
"""Nanoseconds by unit. Months and years have no fixed length."""
_DATE = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-]\d{1,2}):?(\d{2})?)?\s*$",
    re.IGNORECASE,
)
_GREGORIAN = (1582, 10, 15)
_LAST_JULIAN = (1582, 10, 4)
_DAY = 86400 * 1_000_000_000
_TICKS = {"us": 1000, "ns": 1}
"""Nanoseconds of a tick, by Arrow's name."""


@dataclass(frozen=True)
class Times:
    """The conversion of a variable's numbers to timestamps.

    Attributes:
        unit: Nanoseconds of a unit.
        begin: The time of the number 0, in nanoseconds since 1970.
    """

    unit: int
    begin: int

    def ticks(self, values: np.ndarray[Any, Any], tick: str) -> np.ndarray[Any, Any] | None:
        """Returns timestamps as whole ticks since 1970, or None if a number does not fit.

        Args:
            values: Numbers; NaN and missing values become null.
            tick: ``us`` or ``ns``.
        """
        import numpy as np

        length = _TICKS[tick]
        if self.begin % length:
            return None
        there = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
        numbers = np.where(there, values, 0)
        if numbers.dtype.kind == "f":
            whole = np.floor(numbers.astype("f8"))
        else:
            whole = numbers
        if len(numbers) and not (
            self._fits(float(whole.min()), length) and self._fits(float(whole.max()), length)
        ):
            return None
        # Whole units are exact; for the rest, a tick exceeds the rounding error of a double.
        if self.unit % length:
            if numbers.dtype.kind == "f":
                return None
            total = whole.astype("i8") * self.unit
            if (total % length).any():
                return None
            found: np.ndarray[Any, Any] = total // length + self.begin // length
            return found
        of_unit = self.unit // length
        since: np.ndarray[Any, Any] = whole.astype("i8") * of_unit
        if numbers.dtype.kind == "f":
            rest = (numbers.astype("f8") - whole) * of_unit
            since += np.rint(rest).astype("i8")
            again = since // of_unit + (since % of_unit) / of_unit
            near = np.abs(rest - np.rint(rest)) * length <= 1
            if not (near | (again.astype(values.dtype) == numbers)).all():
                return None
        since += self.begin // length
        return since

    def _fits(self, number: float, length: int) -> bool:
        """Returns whether so many units fit into 64 bits of ticks, with a margin."""
        return abs(number) * self.unit / length + abs(self.begin) / length < 2.0**62


def times(unit: str, calendar: str) -> Times | str:
    """Returns the conversion of a variable in this unit, or the reason why it stays a number."""
    if calendar not in CALENDARS:
        return f"its calendar is {calendar}, and timestamps have the Gregorian one"
    name, _, date = re.split(r"(\s+since\s+)", unit.strip(), maxsplit=1, flags=re.IGNORECASE)
    length = _UNITS.get(name.strip().lower())
    if length is None:
        return f"{name.strip()!r} is not a fixed length of time"
    begin = _begin(date, calendar)
    if begin is None:
        return f"{date.strip()!r} is no date of its calendar"
    return Times(length, begin)


def _begin(text: str, calendar: str) -> int | None:
    """Returns a date in nanoseconds since 1970, or None."""
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day = (int(part) for part in found.groups()[:3])
    hour, minute, second = (int(part or 0) for part in found.groups()[3:6])
    if hour > 23 or minute > 59 or second > 59:
        return None
    days = _days(year, month, day, calendar)
    if days is None:
        return None
    fraction, zone, beside = found.group(7), found.group(8), found.group(9)
    moment = ((hour * 60 + minute) * 60 + second) * 1_000_000_000
    moment += int((fraction or "").ljust(9, "0"))
    if zone is not None:
        minutes = int(zone) * 60 + (-1 if zone.startswith("-") else 1) * int(beside or 0)
        moment -= minutes * 60 * 1_000_000_000
    return days * _DAY + moment


def _days(year: int, month: int, day: int, calendar: str) -> int | None:
    """Returns the days of a date since 1970."""
    is_mixed = calendar != "proleptic_gregorian"
    if is_mixed and (year, month, day) < _GREGORIAN:
        if (year, month, day) > _LAST_JULIAN:
            return None
        return _julian_days(year, month, day)
    try:
        return datetime.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _julian_days(year: int, month: int, day: int) -> int | None:
    """Returns the days of a Julian date since 1970; every fourth year is a leap year."""
    lengths = (31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = (year - 1) * 365 + (year - 1) // 4 + sum(lengths[: month - 1]) + day
    # The Julian calendar starts 2 days before the Gregorian one.
    return before - 2 - _EPOCH
