"""A value index for existing files: HDF5, netCDF, Parquet and .npy.

>>> files = kubist.index("run_*.nc")
>>> files.query({"depth": (None, 100)}, where="temperature > 310").to_pandas()
>>> files.count(where="temperature > 310")

Each file gets an index, ``FILE.kubix``, with the minimum and maximum of every block. It has a few
thousandths of the file's size. A query reads only the blocks that can match.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from .. import _box, _describe, _estimate, _kubist, _picture
from .._arguments import Style
from .._describe import Description
from .._errors import InvalidInput, Refused
from .._estimate import Estimate
from .._figures import _of
from .._libraries import need
from .._options import checked_options, group, refuse_unknown
from .._progress import Callback, Display, Progress
from .._pushdown import Kind, both, kinds
from .._result import Result
from .._shown import counted
from . import _query
from ._query import Asked, Counted, Goal, Part, Ranges
from ._result import Costs, FileResult

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset

    from .._arguments import AnyRegion
    from .._picture import Picture
    from .._sql import SqlSource, SqlTable

_ESTIMATE_OPTIONS = ["aggregates", "group_by", *Goal.__annotations__, "progressive"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class FileIndex:
    """Indexed files that are queried as one, from `kubist.index`.

    The columns are the variables of a grid, the coordinates of its axes, and the positions along
    the axes as ``AXIS_index``. Conditions have the same syntax as for tables.
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
        """Returns the variables, the measured device speed, and the arrays without an index."""
        about: dict[str, Any] = json.loads(self._files.about())
        return about

    @property
    def schema(self) -> pa.Schema:
        """The columns of a query, as a `pyarrow.Schema`."""
        return need("pyarrow", "schema").schema(self._files.schema())

    @property
    def columns(self) -> list[str]:
        """The names of the columns: variables, coordinates, and positions along the axes."""
        return self._files.columns()

    @property
    def units(self) -> dict[str, str]:
        """The units, by column; columns without a unit are left out."""
        variables = self.info()["variables"]
        return {each["name"]: each["unit"] for each in variables if each["unit"] is not None}

    @checked_options(Asked)
    def query(self, box: Ranges | None = None, **asked: Unpack[Asked]) -> FileResult:
        """Returns the matching rows: values, positions and coordinates.

        Parameters
        ----------
        box
            Closed ranges by column: a number, a pair, or a slice of values; None is an open bound.
        where
            A condition in SQL over the variables of a grid, their coordinates and positions.
        region
            A region of `kubist.region` in these columns, in addition to the other conditions.
        isel
            Positions by axis: a number, or a slice without a step.
        columns
            The columns to return. None: positions, coordinates, the columns of the condition, and
            ``file`` for several files.
        sample
            The fraction of the positions to return, as a uniform sample. A position has the same
            priority in all files and for all variables.
        limit
            The maximum number of rows, as a uniform sample.
        skip_damaged
            Whether to skip data that cannot be read, and to list it in ``costs.damaged``.

        Raises
        ------
        InvalidInput
            A name or a range is invalid.
        Refused
            A file was replaced or changed after it was indexed.
        Damaged
            The message names the file, the variable and the chunk.
        """
        return self._ask(_query.query(box, **asked))

    @checked_options()
    def head(self, limit: int = 5, *, columns: Sequence[str] | None = None) -> Result:
        """Returns the rows of lowest priority in memory, the same at every call.

        Examples
        --------
        >>> ocean.head(columns=["TEMP", "DEPTH"])
        """
        return self.query(columns=columns, limit=limit).materialize()

    @checked_options(Counted)
    def count(self, box: Ranges | None = None, **asked: Unpack[Counted]) -> int:
        """Returns the number of matching positions, without reading blocks that match as a whole.

        Raises
        ------
        InvalidInput, Refused, Damaged
            As for `query`.
        """
        query = _query.query(box, **asked)
        return self._costs(self._files.count(json.dumps(query), "{}")).rows

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
        region: AnyRegion | None = None,
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
        """Estimates aggregates from a sample of blocks, each with a confidence interval.

        Sampled blocks are read completely, so intervals are wider if blocks differ more. An
        aggregate is marked as exact if all its blocks were read.

        Parameters
        ----------
        aggregates, group_by, progressive
            As for `Table.estimate`.
        box, where, region, isel
            The positions, as for `query`.
        error, within, max_rows, max_bytes, confidence, tails
            The goal, as for `Table.estimate`.
        sample
            Read at most this fraction of the blocks.

        Raises
        ------
        InvalidInput
            An aggregate or column is unknown, or an error or limit is not above 0.
        Refused
            A file was replaced or changed after it was indexed.
        Damaged
            The message names the file, the variable and the chunk.

        Examples
        --------
        >>> ocean.estimate("mean(TEMP)", box={"DEPTH": (None, 50)}, error=0.01)
        >>> ocean.estimate(["mean(TEMP)", "p95(SALT)"], group_by="bin(LAT, 10)", within=2)
        """
        # Not as a decorator, because its frame would shift the `stacklevel` of warnings.
        refuse_unknown("estimate", unknown, _ESTIMATE_OPTIONS)
        request = _estimate.request(
            {} if sample is None else {"sample": _box.fraction("sample", sample)},
            aggregates,
            group_by,
            error=error,
            within=within,
            max_rows=max_rows,
            max_bytes=max_bytes,
            confidence=confidence,
            tails=tails,
        )
        positions = _query.query(box, where=where, region=region, isel=isel)
        asked = json.dumps(positions), json.dumps(request)
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
        region: AnyRegion | None = None,
        isel: Ranges | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        log: bool = False,
        range: tuple[float | None, float | None] | None = None,
        size: tuple[int, int] | None = None,
        title: str | None = None,
        style: Style | None = None,
    ) -> Picture:
        """Plots rows as points, like `Table.plot`.

        Parameters
        ----------
        x, y
            The columns of the axes.
        color
            The column that colours the points. None: the number of points at each location.
        box, where, region, isel, sample, limit
            The rows, as for `query`; by default at most 200,000.
        log, range, size, title, style
            As for `Table.plot`.

        Raises
        ------
        InvalidInput
            As for `query`; or a column cannot be drawn.

        Examples
        --------
        >>> ocean.plot("LON", "LAT", "TEMP", box={"DEPTH": 0}).save("surface.png")
        """
        asked = list(dict.fromkeys(name for name in (x, y, color) if name is not None))
        if limit is None and sample is None:
            limit = _picture.POINTS
        result = self.query(
            box, where=where, region=region, isel=isel, sample=sample, limit=limit, columns=asked
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
        """Runs a query, discards its rows, and returns the cost and the predicted cost.

        Parameters
        ----------
        box, where, isel, columns, sample, skip_damaged
            As for `query`.
        workers
            The number of threads; None: one per core.
        gap
            A request may also read up to this many bytes that are not needed, to fetch two blocks
            together. None: the best value for the measured device.
        sorted
            Whether to use sorted copies.

        Raises
        ------
        InvalidInput, Refused, Damaged
            As for `query`.
        """
        options: dict[str, Any] = {"gap": gap, "sorted": sorted}
        if workers is not None:
            options["workers"] = workers
        query = _query.query(box, **asked)
        _, costs = self._files.query(json.dumps(query), json.dumps(options))
        return self._costs(costs)

    @checked_options(Part)
    def splits(
        self, parts: int, *, box: Ranges | None = None, **asked: Unpack[Part]
    ) -> list[FileSplit]:
        """Splits a query into disjoint parts for processes of MPI, Dask or Spark.

        All machines must see the files under the same paths. The parts can be pickled, and read
        about equally many bytes.

        Parameters
        ----------
        parts
            The number of parts; some may have no rows.
        box, where, isel, columns, sample, skip_damaged
            As for `query`.

        Raises
        ------
        InvalidInput
            A name or a range is invalid.

        Examples
        --------
        >>> mine = files.splits(comm.size, where="temperature > 310")[comm.rank]
        >>> mine.query().to_numpy()
        """
        if parts < 1:
            raise InvalidInput(f"parts: expected 1 or more, not {parts}")
        query = _query.query(box, **asked)
        self._files.described(json.dumps(query))
        about = self._files.about()
        return [
            FileSplit(tuple(self.paths), *self._opened, {**query, "split": (part, parts)}, about)
            for part in range(parts)
        ]

    @checked_options(Goal)
    def describe(
        self,
        columns: Sequence[str] | None = None,
        **goal: Unpack[Goal],
    ) -> Description:
        """Estimates the count, mean, standard deviation, minimum, median and maximum of columns.

        Null and NaN are missing values.

        Parameters
        ----------
        columns
            Columns of numbers; None: all variables and coordinates.
        box, where, isel
            The positions, as for `query`.
        error, within, max_rows, max_bytes, sample, confidence, tails
            The goal, as for `estimate`. By default up to 200,000 rows are read for ten columns.

        Raises
        ------
        InvalidInput
            A column does not exist or has no numbers.

        Examples
        --------
        >>> ocean.describe(box={"DEPTH": (None, 50)})
        """
        described = json.loads(self._files.described(json.dumps(_query.query(None))))
        if columns is None:
            axes = {axis for each in self.info()["variables"] for axis in each["dimensions"]}
            numbers = _describe.columns_of_numbers(described)
            chosen = [name for name in numbers if name.removesuffix("_index") not in axes]
        else:
            chosen = _box.names("columns", columns)
        return _describe.describe(chosen, self.units, dict(goal), self.estimate)

    @checked_options(Part)
    def scan(self, box: Ranges | None = None, **asked: Unpack[Part]) -> pl.LazyFrame:
        """Returns the rows as a Polars lazy frame, also for SQL.

        It reads only the needed columns and the blocks that can match. The results are equal to a
        filter in Polars itself.

        Parameters
        ----------
        box, where, isel, columns, sample
            As for `query`.

        Raises
        ------
        InvalidInput
            As for `query`.

        Examples
        --------
        >>> ocean = kubist.index("woa.nc").scan()
        >>> ocean.filter(pl.col("depth") < 100).select(pl.mean("temperature")).collect()
        """
        from .._scan import lazy_frame

        return lazy_frame(_Source(self, _query.query(box, **asked)))

    @checked_options(Part)
    def to_dataset(
        self, box: Ranges | None = None, **asked: Unpack[Part]
    ) -> pyarrow.dataset.Dataset:
        """Returns the rows as a `pyarrow.dataset.Dataset`, for DuckDB, Polars and other programs.

        It reads only the columns and blocks that the reader asks for.

        Raises
        ------
        InvalidInput
            As for `query`.

        Examples
        --------
        >>> ocean = kubist.index("woa.nc").to_dataset(columns=["depth", "temperature"])
        >>> duckdb.sql("SELECT avg(temperature) FROM ocean WHERE depth < 100")
        """
        need("pyarrow", "to_dataset()")
        from .._dataset import Dataset

        query = _query.query(box, **asked)
        return Dataset(_Source(self, query))  # type: ignore[arg-type]

    @checked_options(Part)
    def sql(
        self,
        query: str,
        *,
        engine: Literal["polars", "duckdb"] = "polars",
        tables: Mapping[str, SqlTable] | None = None,
        **asked: Unpack[Part],
    ) -> pl.DataFrame:
        """Runs an SQL query with Polars or DuckDB; the rows of the files are called ``self``.

        Parameters
        ----------
        query, engine, tables
            As for `kubist.Table.sql`.
        where, isel, columns, sample
            The rows of ``self``, as for `query`.

        Examples
        --------
        >>> kubist.index("woa.nc").sql("SELECT depth, avg(temperature) FROM self GROUP BY depth")
        """
        from .. import _sql

        return _sql.run(query, engine, self._sql_source(asked), tables)

    def _sql_source(self, asked: Part) -> SqlSource:
        from .._sql import SqlSource

        return SqlSource(
            lambda: _Source(self, _query.query(None, **asked)),
            lambda: self.to_dataset(**asked),
        )

    def _ask(self, query: dict[str, Any]) -> FileResult:
        batches, costs = self._files.query(json.dumps(query), "{}")
        sample = query["sample"]
        return FileResult(batches, self._costs(costs), 1.0 if sample is None else sample)

    @staticmethod
    def _costs(text: str) -> Costs:
        return _of(Costs, json.loads(text))


@dataclass(frozen=True)
class FileSplit:
    """A part of a query of files, from `FileIndex.splits`; it can be pickled."""

    paths: tuple[Path, ...]
    into: Path | None
    any: bool
    _query: dict[str, Any]
    _about: str

    def query(self) -> FileResult:
        """Returns the rows of this part.

        Raises
        ------
        Refused
            A file or its index changed after the split.
        Damaged
            The message names the file, the variable and the chunk.
        """
        files = FileIndex(self.paths, self.into, self.any)
        if files._files.about() != self._about:
            raise Refused("the files were indexed again after the split: split them again")
        return files._ask(self._query)


class _Source:
    """A query of files that gets columns and conditions from another engine."""

    takes_conditions = True

    def __init__(self, files: FileIndex, query: dict[str, Any]) -> None:
        self._files, self._query = files, query
        self.empty = files._ask({**query, "where": both(query["where"], "FALSE")})
        described = json.loads(files._files.described(json.dumps(query)))
        self.columns = [column["name"] for column in described]
        self.kinds: dict[str, Kind] = kinds(described)
        # Conditions cannot use the file name.
        self.kinds.pop("file", None)

    def read(
        self, columns: Sequence[str] | None, where: str | None, exactly: str | None = None
    ) -> Result:
        """The result with ``columns`` for the rows that meet ``exactly``.

        ``where`` may remove further rows, which the engine would remove anyway.
        """
        # An engine may name a column twice.
        wanted = self.columns if columns is None else list(dict.fromkeys(columns))
        condition = both(self._query["where"], exactly)
        asked = {**self._query, "columns": wanted, "where": condition}
        if where is not None:
            try:
                return self._files._ask({**asked, "where": both(condition, where)})
            except InvalidInput:
                # For example, the parser refuses deep nesting. The engine evaluates it anyway.
                pass
        return self._files._ask(asked)

    def count(self) -> int:
        return FileIndex._costs(self._files._files.count(json.dumps(self._query), "{}")).rows


def paths_of(files: Paths) -> list[Path]:
    """The paths of files and of the files that match patterns.

    Raises
    ------
    InvalidInput
        No file matches a pattern.
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
    """Indexes the values of files that have no index yet, and opens all files as one.

    The files stay unchanged. The index of a file is ``FILE.kubix`` in the same folder.

    Parameters
    ----------
    files
        A file, several files, or a pattern.
    variables
        The variables to index. None: as in an existing index, or else all numeric arrays.
    block
        The maximum size of a block in bytes, or its shape, as ``16x16x16``. None: as in an existing
        index, or else 64 KiB.
    sorted
        The fraction of the blocks that get a sorted copy, starting with the blocks that most
        queries read. None: as in an existing index, or else 0.
    into
        A folder for the indexes, if the folder of the files is not writable.
    refresh
        Whether to index changed files again. If a file grew, only the appended part is read.
    progress
        True to show the progress, or a function that is called with lines of text.

    Raises
    ------
    InvalidInput
        A file has none of the formats, or files differ in shape or units.
    Refused
        A file changed after it was indexed, and ``refresh`` is not set.
    NotPermitted
        The folder is not writable.
    Damaged
        An index is damaged.

    Examples
    --------
    >>> ocean = kubist.index("levitus.nc")
    >>> ocean.query({"ZAXLEVITR": (0, 50)}, where="TEMP > 28").to_pandas()
    """
    paths = paths_of(files)
    folder = None if into is None else Path(into)
    shown: Progress | None = None
    if progress:
        shown = Callback(progress) if callable(progress) else Display()
    try:
        for place, path in enumerate(paths):

            def report(done: int, total: int, path: Path = path, place: int = place) -> None:
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
                progress=report if shown is not None else None,
            )
    finally:
        if shown is not None:
            shown.close()
    return FileIndex(paths, folder)


for _public in (FileIndex, index):
    _public.__module__ = "kubist"
