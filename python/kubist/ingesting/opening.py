"""The Python side of the driver in the crate kubist-ingest: opens files, and shows progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import _create
from .._errors import InvalidInput, NotATable
from .._progress import Progress
from . import formats
from .paths import expanded
from .snapshots import report_missing, report_overlaps
from .source import NOT_OF_FILES, Options, Reading, Source, fingerprint, named

Opened = tuple[str, Reading | Exception]
CLOCK = "ps"
"""The unit of times of trajectories."""


class Files:
    """The files of an ingestion, which are examined repeatedly.

    Parameters
    ----------
    location
        The location of the table.
    format
        The format, if the user named it.
    """

    def __init__(
        self,
        location: str,
        paths: Sequence[str],
        format: str | None,
        options: Options,
        shown: Progress,
    ) -> None:
        self._location = location
        self._paths = paths
        self._format = format
        self._options = options
        self._shown = shown

    def look(self, keep_going: bool, takes_parts: bool) -> list[Opened]:
        """Opens the files that exist now; returns each path with its source or error.

        Stops at the first error unless ``keep_going``. With ``takes_parts``, a truncated file gives
        its complete frames; otherwise a followed file may still be growing.
        """
        self._options.keep_going = takes_parts
        opened: list[tuple[Path, Source | Exception]] = []
        for path in expanded(self._paths):
            try:
                source = self._open(path)
            except (ImportError, *NOT_OF_FILES):
                raise
            except BaseException as error:
                opened.append((path, _of_file(path, error)))
                if not keep_going:
                    break
            else:
                opened += [] if source is None else [(path, source)]
        sources = [one for _, one in opened if isinstance(one, Source)]
        report_missing(sources, self._has)
        trajectories = [source for source in sources if source.numbers_frames and source.times]
        if trajectories:
            self._report_overlaps(trajectories)
        return [
            (str(path), Reading(one) if isinstance(one, Source) else one) for path, one in opened
        ]

    def _open(self, path: Path) -> Source | None:
        kind = formats.of(path, self._format, bool(self._options.topology))
        if kind is None:
            return None
        kind.need(path)
        return kind.open(path, self._options)

    def _has(self, path: Path, label: str) -> bool:
        try:
            table = _create.open(self._location)
        except NotATable:
            return False
        with table:
            return table._pinned().committed(f"{path.name}:{fingerprint(path)}/{label}") is not None

    def _report_overlaps(self, sources: list[Source]) -> None:
        try:
            table = _create.open(self._location)
        except NotATable:
            report_overlaps(sources, None)
            return
        with table:
            pinned = table._pinned()
            new = [s for s in sources if pinned.committed(f"{s.key()}/0") is None]
            end = None
            # The user may have left out the times, or given them another unit.
            if new and "time" in table.columns and table.units.get("time") == CLOCK:
                last = table.query(columns=["time"], order_by="time desc", limit=1).to_arrow()
                end = last["time"][0].as_py() if len(last) else None
            report_overlaps(new, end)

    def progress(
        self, rows: int, file: str, label: str, fraction: float | None, is_committing: bool
    ) -> None:
        doing = "committing " if is_committing else ""
        self._shown(f"{doing}{rows:,} records, {file} {label}", fraction, is_committing)


def _of_file(path: Path, error: BaseException) -> InvalidInput:
    made = InvalidInput(named(path, error))
    made.__cause__ = error
    return made
