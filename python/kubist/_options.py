"""Errors for unknown options, which suggest the nearest name."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from . import _arguments
from ._errors import InvalidInput

_Call = TypeVar("_Call", bound=Callable[..., Any])

_SIMILARITY = 0.7
"""Minimum similarity (0 to 1) of a suggested name: `groupby`, `colour`, `dimension`."""

_SYNONYMS = {
    "sample": ("precision", "fraction", "frac", "share"),
    "limit": ("first", "points", "n", "num", "n_rows", "num_rows", "size", "top", "head", "count"),
    "where": ("filter", "predicate", "condition"),
    "box": ("bounds", "bbox", "range"),
    "region": ("shape", "geometry", "area"),
    "order_by": ("order", "sort", "sort_by"),
    "columns": ("select", "fields", "names"),
    "batch": ("batch_size", "batchsize"),
}
"""Names of query parameters in papers and other libraries."""


def checked_options(*keywords: type) -> Callable[[_Call], _Call]:
    """Decorates a function: an unknown option raises a `TypeError` with the nearest name.

    Parameters
    ----------
    keywords
        Typed dicts whose keys the function accepts as ``**asked``. Its signature shows them as
        keyword parameters.
    """

    def of(function: _Call) -> _Call:
        signature = inspect.signature(function)
        rest = inspect.Parameter.VAR_KEYWORD
        parameters = {p.name: p for p in signature.parameters.values() if p.kind is not rest}
        for kind in keywords:
            for name, value in kind.__annotations__.items():
                parameters.setdefault(name, _by_name(name, value))
        known = [name for name in parameters if name != "self"]
        names = frozenset(known)

        @functools.wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            if not names.issuperset(options):
                unknown = [name for name in options if name not in names]
                for name in unknown:
                    _refuse_ungrouped(function.__name__, name, parameters)
                refuse_unknown(function.__name__, unknown, known)
            return function(*arguments, **options)

        # For `help`, notebooks, and the generated reference.
        called.__signature__ = signature.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
        return cast("_Call", called)

    return of


def _refuse_ungrouped(
    function: str, name: str, parameters: Mapping[str, inspect.Parameter]
) -> None:
    """Raises a `TypeError` if the option belongs in one of the function's groups."""
    for parameter in parameters.values():
        kind = vars(_arguments).get(str(parameter.annotation).split(" ")[0])
        if name in getattr(kind, "__annotations__", {}):
            group = parameter.name
            raise TypeError(
                f"{function}() takes `{name}` in `{group}`: {group}={{{name!r}: ...}}"
            )


def _by_name(name: str, value: Any) -> inspect.Parameter:
    annotation = getattr(value, "__forward_arg__", value)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def group(function: str, name: str, given: object, kind: type) -> dict[str, Any]:
    """Options that are passed as one dict; a key that is not in ``kind`` raises `TypeError`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name}: expected a dict of options, not {given!r}")
    known = list(kind.__annotations__)
    refuse_unknown(
        f"`{name}` of {function}", [str(key) for key in given if key not in known], known
    )
    return dict(given)


def refuse_unknown(function: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    for name in unknown:
        synonyms = [own for own, others in _SYNONYMS.items() if own in known and name in others]
        similar = synonyms or difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
        options = f"its options are {', '.join(known)}"
        meant = f"did you mean `{similar[0]}`?" if similar else options
        raise TypeError(f"{function}() has no option `{name}`; {meant}")
