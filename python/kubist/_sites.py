"""The exchange of two copies of a table."""

from __future__ import annotations

from collections.abc import Callable

from . import _box, _kubist
from ._errors import InvalidInput
from ._reports import Synced


def synced(
    a: str,
    b: str,
    push: bool,
    pull: bool,
    *,
    memory: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Synced:
    if not (push or pull):
        raise InvalidInput("sync: push=False and pull=False leave nothing to do")
    report = _kubist.sync(
        a,
        b,
        push=bool(push),
        pull=bool(pull),
        memory=None if memory is None else _box.count("memory", memory, least=1),
        progress=progress,
    )
    return Synced.parse(report)
