"""Options that a call does not have are answered with those that may be meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

_Call = TypeVar("_Call", bound=Callable[..., Any])

_ALIKE = 0.7
"""From which share of equal letters on a name may be meant: `groupby`, `colour`, `dimension`."""


def checked_options(*beside: type) -> Callable[[_Call], _Call]:
    """Of a function: an unknown option raises a `TypeError` with the nearest name.

    Python's own message names the class that a method stands in, and nothing that may be meant.

    Args:
        beside: Typed dicts whose keys the function takes as ``**asked``.
    """

    def of(function: _Call) -> _Call:
        known = [
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if name != "self" and parameter.kind is not parameter.VAR_KEYWORD
        ]
        for kind in beside:
            known += [name for name in kind.__annotations__ if name not in known]

        @functools.wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            unknown = [name for name in options if name not in known]
            refuse_unknown(function.__name__, unknown, known)
            return function(*arguments, **options)

        return cast("_Call", called)

    return of


def refuse_unknown(function: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    """Raises a `TypeError` about the first of the options that a function does not know."""
    for name in unknown:
        alike = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        meant = f"did you mean `{alike[0]}`?" if alike else f"its options are {', '.join(known)}"
        raise TypeError(f"{function}() has no option `{name}`; {meant}")
