"""Lists the saved results of a table, and repeats and compares them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .. import _kubist, _saved
from .._create import open
from .._directory import location_of
from .._errors import InvalidInput, SnapshotExpired
from .._estimate import Estimate
from .._figures import WriterInfo
from .._looks import Looks
from .._options import checked_options
from .._pinned import Pinned
from .._remote import connect
from .._result import Result
from .._shown import counted, html_notes
from ..many import open_many
from ..many._pinned import Pinned as ManyPinned

if TYPE_CHECKING:
    from .._spec import EstimateRequest, QuerySpec

_SHOWN = 10
"""Maximum number of differences to print."""

_ALL = 2**62
"""A limit above any number of rows."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A saved result and its repetition, from `kubist.recompute`."""

    path: str
    question: str
    """The query in words."""
    saved: dict[str, Any]
    """The saved result."""
    found: dict[str, Any]
    """The new result."""
    differences: list[str]
    version: str
    """The version of Kubist that saved it."""

    @property
    def same(self) -> bool:
        """Whether both results agree in every row or value."""
        return not self.differences

    def __repr__(self) -> str:
        verdict = "the same" if self.same else f"{counted(len(self.differences), 'difference')}"
        lines = [f"{self.path}: {verdict}", f"  {self.question}"]
        lines += [f"  {text}" for text in self.differences[:_SHOWN]]
        if (more := len(self.differences) - _SHOWN) > 0:
            lines.append(f"  and {more} more")
        if not self.same and self.version != _kubist.VERSION:
            lines.append(f"  saved by version {self.version}, this is {_kubist.VERSION}")
        return "\n".join(_kubist.printable(line) for line in lines)

    def _repr_html_(self) -> str:
        return html_notes(repr(self).splitlines())


@checked_options()
def recompute(path: str | os.PathLike[str], *, newest: bool = False) -> Recomputed:
    """Repeats the query of a saved result, and compares the results.

    Parameters
    ----------
    path
        A file from `Result.save` or `Estimate.save`.
    newest
        Whether to query the newest snapshot instead of the saved one, to check the result's
        validity.

    Returns
    -------
    Recomputed
        Both results. ``same`` is True if they agree in every row or value.

    Raises
    ------
    InvalidInput
        The file is not a saved result.
    SnapshotExpired
        `Table.clean` has deleted files of the snapshot.
    TableReplaced
        Another table is at the location.

    Examples
    --------
    >>> t.estimate("share(deposited)").save("deposition.kubist")
    >>> kubist.recompute("deposition.kubist")
    deposition.kubist: the same
      share(deposited)
    """
    saved = _saved.read(path)
    source, call, question = saved["source"], saved["call"], dict(saved["question"])
    try:
        pinned = _pinned(source, newest)
    except SnapshotExpired as error:
        error.add_note("recompute(newest=True) asks the newest snapshot")
        raise
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{path}: the field source is damaged") from None
    if call == "estimate":
        if "within" in question:
            # A time limit depends on the machine, so the same rows are read instead.
            del question["within"]
            question |= {"sample": saved["answer"].get("fraction", 1.0), "max_rows": _ALL}
        estimate = Estimate(_estimated(pinned, question))
        found = {"fraction": estimate.fraction, "figures": estimate._plain()}
    elif call in ("query", "trajectories"):
        result = Result(*_queried(pinned, call, question))
        found = _saved.rows_answer(result, result.fraction)
    else:
        raise InvalidInput(f"{path}: unknown call {call!r}")
    return Recomputed(
        os.fspath(path),
        _words(call, saved["question"]),
        saved["answer"],
        found,
        list(_differences(saved["answer"], found)),
        saved["version"],
    )


def _pinned(source: Mapping[str, Any], newest: bool) -> Pinned:
    if "runs" in source:
        tables = {run["name"]: _at(run, newest) for run in source["runs"]}
        return open_many(tables, run=source["run"])._pinned()
    return _at(source, newest)._pinned()


def _at(source: Mapping[str, Any], newest: bool) -> Looks:
    location: str = source["location"]
    if location.startswith(("http://", "https://")) and "/v1/tables/" in location:
        server, _, name = location.rpartition("/v1/tables/")
        table: Any = connect(server, name)
    else:
        table = open(location)
    opened: Looks = table.snapshot() if newest else table.at(source["snapshot"])
    return opened


def _estimated(pinned: Pinned, question: dict[str, Any]) -> Any:
    contrast = question.pop("contrast", None)
    request = cast("EstimateRequest", question)
    if isinstance(pinned, ManyPinned):
        return pinned.estimate_contrast(request, contrast)
    return pinned.estimate(request)


def _queried(pinned: Pinned, call: str, question: dict[str, Any]) -> tuple[Any, Any, Any]:
    def ask() -> _kubist.Stream:
        if call == "query":
            return pinned.query(cast("QuerySpec", question))
        return pinned.trajectories(question["through"], question["by"], question["query"])

    return ask(), ask, pinned.metadata


def _differences(saved: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    if "figures" in saved:
        yield from _of_figures(saved["figures"], found["figures"])
        return
    for name in ("rows", "fraction"):
        if saved.get(name) != found[name]:
            yield f"{name}: {saved.get(name)} was saved, {found[name]} now"
    old, new = ([tuple(column) for column in each["columns"]] for each in (saved, found))
    if old != new:
        changed = sorted({name for name, _ in set(old) ^ set(new)})
        yield f"columns: {', '.join(changed) or 'their order'} changed"
    elif saved.get("digest") != found["digest"] and saved.get("rows") == found["rows"]:
        yield "the same number of rows, with other values"


_VALUES = ("value", "low", "high", "exact", "rows")


def _of_figures(saved: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> Iterator[str]:
    def keyed(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {", ".join(str(v) for k, v in row.items() if k not in _VALUES): row for row in rows}

    old, new = keyed(saved), keyed(found)
    for key in dict.fromkeys([*old, *new]):
        if key not in new or key not in old:
            yield f"{key}: only in the {'saved' if key in old else 'new'} answer"
        elif any(old[key].get(name) != new[key].get(name) for name in _VALUES):
            yield f"{key}: {_figure(old[key])} was saved, {_figure(new[key])} now"


def _figure(row: dict[str, Any]) -> str:
    value, low, high = row.get("value"), row.get("low"), row.get("high")
    if not all(isinstance(each, int | float) for each in (value, low, high)):
        return str(value)
    return _kubist.figure(
        cast("float", value),
        cast("float", low),
        cast("float", high),
        bool(row.get("exact")),
        None,
    )


def _words(call: str, question: Mapping[str, Any]) -> str:
    parts = [call] if call != "estimate" else [", ".join(question.get("aggregates", []))]
    rest = {k: v for k, v in question.items() if k != "aggregates" and v is not None}
    rest.pop("confidence", None)
    parts += [f"{name}={value!r}" for name, value in rest.items()]
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """A saved result, in `History`."""

    path: str
    saved: str
    """The time, in UTC."""
    question: str
    is_newest: bool
    """Whether it is a result of the table's newest snapshot."""


@dataclass(frozen=True, slots=True)
class History:
    """The commits of a table, and saved results about it; from `kubist.history`."""

    location: str
    rows: int
    snapshot: str
    """The token of the newest snapshot."""
    writers: list[WriterInfo]
    answers: list[SavedAnswer] = field(default_factory=list)
    """In order of time."""

    def __repr__(self) -> str:
        lines = [f"{self.location}: {counted(self.rows, 'record')}"]
        lines += [f"  {writer}" for writer in self.writers]
        for answer in self.answers:
            state = "" if answer.is_newest else " (of an earlier snapshot)"
            lines.append(f"{answer.saved}  {answer.path}{state}: {answer.question}")
        if not self.answers:
            lines.append("no saved answers")
        return "\n".join(_kubist.printable(line) for line in lines)

    def _repr_html_(self) -> str:
        return html_notes(repr(self).splitlines())


@checked_options()
def history(
    path: str | os.PathLike[str], *, folder: str | os.PathLike[str] | None = None
) -> History:
    """Returns the commits of a table by writer, and the saved results about it.

    Parameters
    ----------
    path
        The location of the table.
    folder
        The folder of the saved results; None: the current directory and the table's folder.

    Raises
    ------
    NotATable
        There is no table at ``path``.
    """
    table = open(path)
    snapshot = table.snapshot()
    info = snapshot.info()
    folders = [Path(folder)] if folder is not None else [Path.cwd(), Path(location_of(path)).parent]
    answers = sorted(_answers(folders, table.location, snapshot.token), key=lambda a: a.saved)
    return History(table.location, info.rows, snapshot.token, info.writers, answers)


def _answers(folders: Sequence[Path], location: str, token: str) -> Iterator[SavedAnswer]:
    seen: set[Path] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            for file in sorted(folder.glob("*.kubist")):
                if file.resolve() in seen or not file.is_file():
                    continue
                seen.add(file.resolve())
                # A file with this suffix need not be a saved result.
                with contextlib.suppress(InvalidInput, OSError, UnicodeDecodeError):
                    saved = _saved.read(file)
                    for source in saved["source"].get("runs", [saved["source"]]):
                        if source.get("location") == location:
                            question = _words(saved["call"], saved["question"])
                            newest = source.get("snapshot") == token
                            yield SavedAnswer(str(file), saved["saved"], question, newest)


for _public in (Recomputed, SavedAnswer, History, recompute, history):
    _public.__module__ = "kubist"
del _public
