"""Calls have few options; the others are in groups (`create=`, `read=`, `style=`)."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

import kubist
import kubist.indexing
import kubist.mpi
from kubist import _arguments, _asked, _options

MOST = 12

# Options that all queries share count as one.
SHARED = {*_asked.Asked.__annotations__, "isel", "sel", "skip_damaged"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in (kubist, kubist.mpi, kubist.indexing):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            if isinstance(value, FunctionType):
                yield f"{module.__name__}.{name}", value
            if isinstance(value, type) and value.__module__.startswith("kubist"):
                for member in dir(value):
                    function = inspect.getattr_static(value, member)
                    function = getattr(function, "__func__", function)
                    if not member.startswith("_") and isinstance(function, FunctionType):
                        yield f"{value.__name__}.{member}", function


def options(function: Callable[..., Any]) -> list[str]:
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            # The other parameters are required, so they are no options.
            if parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
                names.append(name)
        elif unpacked := re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation)):
            kind = vars(sys.modules[function.__module__ or ""]).get(unpacked[1])
            kind = kind or getattr(_arguments, unpacked[1])
            names += kind.__annotations__
    return [name for name in names if name != "self"]


@pytest.mark.parametrize(("name", "function"), list(dict(functions()).items()))
def test_a_call_has_few_options(name: str, function: Callable[..., Any]) -> None:
    names = options(function)
    own = [option for option in names if option not in SHARED]
    assert len(own) + (len(own) < len(names)) <= MOST, f"{name} has {len(own)} of its own: {own}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: _options.group("f", "read", {"colums": 1}, _arguments.Read), "did you mean `columns`"),
        (lambda: _options.group("f", "read", {"zzz": 1}, _arguments.Read), "its options are format"),
    ],
)
def test_an_unknown_option_of_a_group_is_named(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=f"`read` of f.. has no option.*{said}"):
        call()


def test_an_option_outside_of_its_group_is_shown_its_place() -> None:
    for call, place in (
        (lambda: kubist.ingest("t", "f", strict=True), r"read={'strict': ...}"),  # type: ignore[call-arg]
        (lambda: kubist.ingest("t", "f", lookup=["id"]), r"create={'lookup': ...}"),  # type: ignore[call-arg]
        (lambda: kubist.create("t", {}, compression="small"), r"storage={'compression': ...}"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match=place):
            call()


def test_a_group_is_a_dict() -> None:
    assert _options.group("f", "read", None, _arguments.Read) == {}
    with pytest.raises(kubist.InvalidInput, match="read: expected a dict of options, not 'csv'"):
        _options.group("f", "read", "csv", _arguments.Read)
