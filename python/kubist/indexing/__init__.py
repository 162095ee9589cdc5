"""An index of values beside files that stay as they are: HDF5, netCDF, Parquet and .npy.

>>> files = kubist.index("run_*.nc")
>>> files.query({"depth": (None, 100)}, where="temperature > 310").to_pandas()
>>> files.count(where="temperature > 310")

Each file gets a sidecar, ``FILE.kubix``, of a few thousandths of its size: between which values
each block of each array lies. A question then reads the blocks that can hold an answer.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from .. import _box, _estimate, _kubist, _picture
from .._arguments import Style
from .._errors import InvalidInput, Refused
from .._estimate import Estimate
from .._figures import _of
from .._libraries import need
from .._options import checked_options, group, refuse_unknown
from .._progress import Progress, Shown, Told
from .._pushdown import Kind, both, kinds
from .._result import Result
from .._shown import counted
from . import _question
from ._question import Asked, Counted, Goal, Part, Ranges

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    from .._picture import Picture

_ESTIMATE_OPTIONS = ["aggregates", "group_by", *Goal.__annotations__, "progressive"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Costs:
    """What a question to files cost, beside what the I/O model expects."""

    rows: int
    """Positions that answer."""
    files: int
    files_read: int
    """Files of which something was read."""
    files_scanned: int
    """Files without an index."""
    positions: int
    blocks: int
    blocks_read: int
    blocks_all: int
    """Blocks that hold nothing but answers."""
    blocks_sorted: int
    """Blocks of which a part of their sorted copy was read instead."""
    bytes: int
    requests: int
    """Reads, of pieces that lie close together as one."""
    sorted_bytes: int
    sorted_requests: int
    stored_bytes: int
    """All bytes of the variables that the question names."""
    by_library: int
    """Blocks that only the format's own library could read."""
    selectivity: float
    expected: dict[str, float]
    """Blocks, bytes and requests of the model, if values did not depend on their neighbours'.
    Fewer are read where values lie together."""
    gap: int
    """Pieces up to so many bytes apart were read as one."""
    workers: int
    balance: dict[str, float]
    """Seconds of the slowest and of the fastest worker."""
    seconds: float
    blocks_spared: int | None
    """Of a scan: blocks that an index would have left out; None of a sample, which looks at some
    places of a block."""
    damaged: list[str]
    """What could not be read, if ``skip_damaged`` was given."""

    def __repr__(self) -> str:
        read = f"{self.blocks_read:,} of {counted(self.blocks, 'block')}"
        if self.blocks_sorted:
            read += f" and {self.blocks_sorted:,} in order"
        line = (
            f"<kubist.Costs {counted(self.rows, 'record')}; {read}: "
            f"{_kubist.size(self.bytes + self.sorted_bytes)} of {_kubist.size(self.stored_bytes)} "
            f"in {self.requests + self.sorted_requests:,} requests, "
            f"{_kubist.duration(self.seconds)}; "
            f"of independent values {self.expected['blocks']:,.0f} blocks, "
            f"{_kubist.size(int(self.expected['bytes']))}, "
            f"{self.expected['requests']:,.0f} requests"
        )
        if self.files_scanned and self.blocks and self.blocks_spared is not None:
            spared = self.blocks_spared / self.blocks
            line += f"; an index would have spared {_kubist.fraction(spared)} of the blocks"
        return line + ">"


class FileResult(Result):
    """The records that a question to files found; forms and iteration are those of `Result`."""

    def __init__(self, batches: _kubist.Batches, costs: Costs, fraction: float) -> None:
        stats = {
            "rows_returned": costs.rows,
            "rows_read": costs.positions,
            "bytes_read": costs.bytes + costs.sorted_bytes,
            "pages_read": costs.blocks_read + costs.blocks_sorted,
            "cubes_visited": 0,
            "runs_looked_up": 0,
            "round_trips": costs.requests + costs.sorted_requests,
            "seconds": costs.seconds,
        }

        def stream() -> _kubist.Stream:
            return _kubist.kept(batches, json.dumps(stats), fraction)

        super().__init__(stream(), stream, lambda: "{}")
        self.costs = costs


class FileIndex:
    """Files with an index of their values, asked as one; made by `kubist.index`.

    Columns of a question are the variables of a grid, the coordinates of its axes, and the
    positions along them as ``AXIS_index``. Conditions are those of tables.
    """

    def __init__(self, paths: Sequence[Path], into: Path | None, any: bool = False) -> None:
        self.paths = list(paths)
        self._opened = (into, any)
        self._files = _kubist.Files.open(
            [os.fspath(path) for path in paths], into=into, any=any, python=sys.executable
        )

    def __repr__(self) -> str:
        about = self.info()
        names = ", ".join(_kubist.printable(each["name"]) for each in about["variables"])
        return (
            f"<kubist.FileIndex of {counted(about['files'], 'file')}, "
            f"{_kubist.size(about['bytes'])}, "
            f"index {_kubist.size(about['index_bytes'])}: {names}>"
        )

    def info(self) -> dict[str, Any]:
        """The variables, the device as it was measured, and what could not be indexed."""
        about: dict[str, Any] = json.loads(self._files.about())
        return about

    @property
    def schema(self) -> pa.Schema:
        """The columns of a question, as a `pyarrow.Schema`."""
        return need("pyarrow", "schema").schema(self._files.schema())

    @property
    def columns(self) -> list[str]:
        """The names of the columns: variables, coordinates, and positions along the axes."""
        return self._files.columns()

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one."""
        variables = self.info()["variables"]
        return {each["name"]: each["unit"] for each in variables if each["unit"] is not None}

    @checked_options(Asked)
    def query(self, box: Ranges | None = None, **asked: Unpack[Asked]) -> FileResult:
        """The records that answer: values, positions and coordinates.

        Args:
            box: Closed ranges by column: a number, a pair, or a slice of values; None is open.
            where: A condition in SQL over variables of one grid, their coordinates and positions.
            isel: Positions by axis: a number, or a slice without a step.
            columns: What to return; None: positions, coordinates, and what the condition names; of
                several files also ``file``.
            sample: The fraction of the positions to sample. A position has the same priority in all
                files and for all variables.
            limit: At most this many, a uniform sample.
            skip_damaged: Leave out what cannot be read, and name it in ``costs.damaged``.

        Raises:
            InvalidInput: If a name or a range does not fit.
            Refused: If a file is not the one that was indexed, or changed while it was read.
            Damaged: Names the file, the variable and the chunk.
        """
        return self._ask(_question.question(box, **asked))

    @checked_options()
    def head(self, limit: int = 5, *, columns: Sequence[str] | None = None) -> Result:
        """A few records, in memory: those of lowest priority, so the same at every call.

        Example:
            >>> ocean.head(columns=["TEMP", "DEPTH"])
        """
        return self.query(columns=columns, limit=limit).materialize()

    @checked_options(Counted)
    def count(self, box: Ranges | None = None, **asked: Unpack[Counted]) -> int:
        """How many positions answer. Blocks that hold nothing but answers are not read.

        Raises:
            InvalidInput, Refused, Damaged: As of `query`.
        """
        question = _question.question(box, **asked)
        return self._costs(self._files.count(json.dumps(question), "{}")).rows

    @overload
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        group_by: str | Sequence[str] | None = None,
        progressive: Literal[False] = False,
        **goal: Unpack[Goal],
    ) -> Estimate: ...
    @overload
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        group_by: str | Sequence[str] | None = None,
        progressive: Literal[True],
        **goal: Unpack[Goal],
    ) -> Iterator[Estimate]: ...
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        box: Ranges | None = None,
        where: str | None = None,
        isel: Ranges | None = None,
        group_by: str | Sequence[str] | None = None,
        error: float | str | None = None,
        within: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        sample: float | str | None = None,
        confidence: float = 0.95,
        tails: float | None = None,
        progressive: bool = False,
        **unknown: object,
    ) -> Estimate | Iterator[Estimate]:
        """Aggregates of a sample, each with an interval that holds the truth as often as it says.

        The sample is of blocks, which are drawn and read whole: the intervals are as wide as the
        blocks differ. What is read completely is exact, and marked as exact.

        Args:
            aggregates, group_by, progressive: As of `Table.estimate`.
            box, where, isel: Of which positions: as of `query`.
            error, within, max_rows, max_bytes, confidence, tails: How well: as of `Table.estimate`.
            sample: Read this fraction of the blocks at most.

        Raises:
            InvalidInput: An unknown aggregate or column, a goal that is not above 0.
            Refused: If a file is not the one that was indexed, or changed while it was read.
            Damaged: Names the file, the variable and the chunk.

        Example:
            >>> ocean.estimate("mean(TEMP)", box={"DEPTH": (None, 50)}, error=0.01)
            >>> ocean.estimate(["mean(TEMP)", "p95(SALT)"], group_by="bin(LAT, 10)", within=2)
        """
        # Not by the decorator: warnings name the line that stands above this call.
        refuse_unknown("estimate", unknown, _ESTIMATE_OPTIONS)
        request = _estimate.request(
            {} if sample is None else {"sample": _box.share("sample", sample)},
            aggregates,
            group_by,
            error=error,
            within=within,
            max_rows=max_rows,
            max_bytes=max_bytes,
            confidence=confidence,
            tails=tails,
        )
        places = _question.question(box, where=where, isel=isel)
        asked = json.dumps(places), json.dumps(request)
        if progressive:
            return _estimate.steps(self._files.estimates(*asked))
        return Estimate(self._files.estimate(*asked))

    @checked_options()
    def plot(
        self,
        x: str,
        y: str,
        color: str | None = None,
        *,
        box: Ranges | None = None,
        where: str | None = None,
        isel: Ranges | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        log: bool = False,
        range: tuple[float | None, float | None] | None = None,
        size: tuple[int, int] | None = None,
        title: str | None = None,
        style: Style | None = None,
    ) -> Picture:
        """A picture of records as points, as `Table.plot` draws it.

        Args:
            x, y: The columns across and up.
            color: The column that colours the points. None: how many lie there.
            box, where, isel, sample, limit: Of which records: as for `query`. Without ``sample``
                and ``limit`` 200,000 at most.
            log, range, size, title, style: As for `Table.plot`.

        Raises:
            InvalidInput: As for `query`; a column that cannot be drawn.

        Example:
            >>> ocean.plot("LON", "LAT", "TEMP", box={"DEPTH": 0}).save("surface.png")
        """
        asked = list(dict.fromkeys(name for name in (x, y, color) if name is not None))
        if limit is None and sample is None:
            limit = _picture.POINTS
        result = self.query(
            box, where=where, isel=isel, sample=sample, limit=limit, columns=asked
        )
        return _picture.draw(
            result,
            None,
            box,
            where,
            x=x,
            y=y,
            color=color,
            log=log,
            range=range,
            size=size,
            title=title,
            style=cast("Style", group("plot", "style", style, Style)),
        )

    @checked_options(Part)
    def explain(
        self,
        box: Ranges | None = None,
        *,
        workers: int | None = None,
        gap: int | None = None,
        sorted: bool = True,
        **asked: Unpack[Part],
    ) -> Costs:
        """Asks, and says what that cost beside what the I/O model expects.

        Args:
            box, where, isel, columns, sample, skip_damaged: As of `query`.
            workers: Threads; None: as many as the machine runs at once.
            gap: Pieces up to so many bytes apart are read as one; None: as the device was measured.
            sorted: False leaves the sorted copies alone.

        Raises:
            InvalidInput, Refused, Damaged: As of `query`.
        """
        options: dict[str, Any] = {"gap": gap, "sorted": sorted}
        if workers is not None:
            options["workers"] = workers
        question = _question.question(box, **asked)
        _, costs = self._files.query(json.dumps(question), json.dumps(options))
        return self._costs(costs)

    @checked_options(Part)
    def splits(
        self, parts: int, *, box: Ranges | None = None, **asked: Unpack[Part]
    ) -> list[FileSplit]:
        """The question in this many parts, which together are its answer: for processes of MPI, Dask or
        Spark, on machines that see the files under the same paths.

        Each part reads about as much as the others, and can be pickled.

        Args:
            parts: How many; some may have no answers.
            box, where, isel, columns, sample, skip_damaged: As of `query`.

        Raises:
            InvalidInput: If a name or a range does not fit.

        Example:
            >>> mine = files.splits(comm.size, where="temperature > 310")[comm.rank]
            >>> mine.query().to_numpy()
        """
        if parts < 1:
            raise InvalidInput(f"a question has 1 part or more, not {parts}")
        question = _question.question(box, **asked)
        self._files.described(json.dumps(question))
        about = self._files.about()
        return [
            FileSplit(tuple(self.paths), *self._opened, {**question, "split": (part, parts)}, about)
            for part in range(parts)
        ]

    @checked_options(Part)
    def to_dataset(
        self, box: Ranges | None = None, **asked: Unpack[Part]
    ) -> pyarrow.dataset.Dataset:
        """The records as a `pyarrow.dataset.Dataset`, for DuckDB, Polars and whatever reads such.

        Columns and conditions that the reader hands over prune what is read.

        Raises:
            InvalidInput: As of `query`.

        Example:
            >>> ocean = kubist.index("woa.nc").to_dataset(columns=["depth", "temperature"])
            >>> duckdb.sql("SELECT avg(temperature) FROM ocean WHERE depth < 100")
        """
        need("pyarrow", "to_dataset()")
        from .._dataset import Dataset

        question = _question.question(box, **asked)
        return Dataset(_Source(self, question))  # type: ignore[arg-type]

    def _ask(self, question: dict[str, Any]) -> FileResult:
        batches, costs = self._files.query(json.dumps(question), "{}")
        sample = question["sample"]
        return FileResult(batches, self._costs(costs), 1.0 if sample is None else sample)

    @staticmethod
    def _costs(text: str) -> Costs:
        return _of(Costs, json.loads(text))


@dataclass(frozen=True)
class FileSplit:
    """A part of a question to files, made by `FileIndex.splits`; it can be pickled."""

    paths: tuple[Path, ...]
    into: Path | None
    any: bool
    _question: dict[str, Any]
    _about: str

    def query(self) -> FileResult:
        """The records of this part.

        Raises:
            Refused: If a file or its index is not the one that was split.
            Damaged: Names the file, the variable and the chunk.
        """
        files = FileIndex(self.paths, self.into, self.any)
        if files._files.about() != self._about:
            raise Refused("the files were indexed anew since they were split: split them again")
        return files._ask(self._question)


class _Source:
    """A question to files, of which an engine asks parts."""

    def __init__(self, files: FileIndex, question: dict[str, Any]) -> None:
        self._files, self._question = files, question
        self.empty = files._ask({**question, "where": both(question["where"], "FALSE")})
        described = json.loads(files._files.described(json.dumps(question)))
        self.columns = [column["name"] for column in described]
        self.kinds: dict[str, Kind] = kinds(described)
        # The file's name is not one of its columns.
        self.kinds.pop("file", None)

    def read(self, columns: Sequence[str] | None, where: str | None) -> Result:
        wanted = self.columns if columns is None else columns
        asked = {**self._question, "columns": list(wanted)}
        if where is not None:
            try:
                return self._files._ask({**asked, "where": both(self._question["where"], where)})
            except InvalidInput:
                # Too deep for our parser, say: it is applied to what comes back anyway.
                pass
        return self._files._ask(asked)

    def count(self) -> int:
        return FileIndex._costs(self._files._files.count(json.dumps(self._question), "{}")).rows


def paths_of(files: Paths) -> list[Path]:
    """The files that are meant: one, several, or a pattern.

    Raises:
        InvalidInput: If a pattern matches none.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: list[Path] = []
    for each in given:
        text = os.fspath(each)
        if not os.path.exists(text) and glob.has_magic(text):
            matches = [match for match in sorted(glob.glob(text)) if not match.endswith(".kubix")]
            if not matches:
                raise InvalidInput(f"{text}: no file matches")
            found.extend(map(Path, matches))
        else:
            found.append(Path(text))
    return found


def index(
    files: Paths,
    *,
    variables: Sequence[str] | None = None,
    block: str | None = None,
    sorted: float | None = None,
    into: str | os.PathLike[str] | None = None,
    refresh: bool = False,
    progress: bool | Callable[[str], object] = False,
) -> FileIndex:
    """Indexes files by their values, as far as they are not, and opens them as one.

    The files stay as they are. Each gets ``FILE.kubix`` beside it. A file that is indexed already
    is opened at once.

    Args:
        files: A file, several, or a pattern.
        variables: Only these; None: all arrays of numbers, or those of an index that is there.
        block: At most so many bytes of a block, or its shape, as ``16x16x16``; None: as an index
            that is there has them, else 64 KiB.
        sorted: The share of the blocks that get a sorted copy, those that most questions hit; None:
            as an index that is there has them, else none.
        into: A folder for the indices, where the files' own may not be written to.
        refresh: Index a file that changed anew; of one that grew only what was appended.
        progress: Shows how far it is; or a function that is called with a line of text.

    Raises:
        InvalidInput: If a file is none of the formats, or files differ in shape or units.
        Refused: If a file changed since it was indexed and ``refresh`` is not given.
        NotPermitted: If the folder may not be written to.
        Damaged: If an index is.

    Example:
        >>> ocean = kubist.index("levitus.nc")
        >>> ocean.query({"ZAXLEVITR": (0, 50)}, where="TEMP > 28").to_pandas()
    """
    paths = paths_of(files)
    folder = None if into is None else Path(into)
    shown: Progress | None = None
    if progress:
        shown = Told(progress) if callable(progress) else Shown()
    try:
        for place, path in enumerate(paths):

            def told(done: int, total: int, path: Path = path, place: int = place) -> None:
                if shown is not None and total:
                    text = f"{path.name}: {_kubist.size(done)} of {_kubist.size(total)}"
                    shown(text, (place + done / total) / len(paths))

            _kubist.Files.index(
                os.fspath(path),
                into=folder,
                variables=None if variables is None else list(variables),
                block=block,
                sorted=None if sorted is None else float(sorted),
                refresh=refresh,
                python=sys.executable,
                progress=told if shown is not None else None,
            )
    finally:
        if shown is not None:
            shown.close()
    return FileIndex(paths, folder)


for _public in (FileIndex, index):
    _public.__module__ = "kubist"
