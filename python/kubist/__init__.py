"""Kubist: a store for particles, trajectories, catalogues and other point-like data.

It indexes up to eight columns and keeps a uniform random sample of every region. You can read any
region, completely or as a sample, while a simulation is still writing.

Write, from any number of processes (a dict of NumPy arrays, a DataFrame, Arrow data):

>>> import kubist
>>> t = kubist.create(
...     "airway.kubist",
...     step,                                     # its rows are the first commit
...     dimensions={"x": None, "y": None, "z": None, "time": (0, 1)},
...     identity=["pid", "time"],                 # columns that define the sampling unit
... )
>>> t.append(next_step)                           # durable and visible on return
<kubist.Commit writer-1#2: 4,000 records, 80.2 KiB in 8.3 ms, 481,000 records/s>

Read, while they write:

>>> t = kubist.open("airway.kubist")
>>> r = t.query(box={"x": (0.1, 0.2)}, sample=0.01, where="diameter > 2e-5")
>>> r.to_numpy()                                  # or to_pandas(), to_polars(), to_arrow()
>>> r.stats.rows_read, r.stats.bytes_read         # the cost
>>> for r in t.refine(box={"x": (0.1, 0.2)}):     # coarse to fine, each row once
...     draw(r.to_arrow(), r.fraction)
>>> t.estimate("mean(ux)", box={"x": (0.1, 0.2)}, error=0.01)   # a number and its error bar
>>> s = t.snapshot()                              # pinned, while others write
>>> len(s), s.count(where="deposited")
>>> t.at(s.token)                                 # the same rows, in any process, or over HTTP

Maintain:

>>> t.add_column("age", "float64", default=0.0, unit="s")    # old rows have the default
>>> t.set_unit("x", "m"); t.set_metadata({"solver": "alya"}); t.units, t.metadata
>>> s.copy_to("backup.kubist")                    # dimensions=..., capacity=... for another grid
>>> t.info().disk                                 # bytes by purpose
>>> kubist.drop("old.kubist")

Many runs of a study as one table:

>>> runs = kubist.open_many("runs/*.kubist")       # columns run, metadata.speed, ...
>>> runs.estimate("mean(ux)", group_by="run", contrast="run")   # differences to the first run

View in the browser, and query a server that has the data:

>>> # kubist view airway.kubist --open             # on the command line
>>> t = kubist.connect("http://127.0.0.1:8080")    # the same query, refine, count, watch

Each row has a *priority*, a fixed number that is uniform in [0, 1) and depends only on the row's
identity. *sample=p* returns the rows with a priority below p: a uniform sample that is the same on
every machine and a subset of every larger sample.

Start with `create`, `open`, `Table`, `Result`. All errors derive from `Error`. Kubist releases the
GIL while it works, and Ctrl-C stops any call. NumPy, pyarrow, pandas and Polars are only needed for
the methods that have their names (pyarrow also for iteration, ``schema`` and lists of Python
values).
"""

from ._create import create, open
from ._describe import Description, Figure
from ._dict import Dictionary, dict
from ._errors import (
    Busy,
    Cancelled,
    Damaged,
    Error,
    InternalError,
    InvalidInput,
    NewerFormat,
    NoSpace,
    NotATable,
    NotHere,
    NotPermitted,
    Refused,
    SnapshotExpired,
    StorageError,
    TableExists,
    TableReplaced,
    Unavailable,
)
from ._estimate import Estimate
from ._figures import (
    Column,
    Commit,
    Costs,
    DeclaredWriters,
    Dimension,
    DiskUse,
    Explanation,
    Info,
    PartialCopy,
    Stages,
    Stats,
    ThinnedSteps,
    WriterInfo,
)
from ._kubist import VERSION as __version__
from ._picture import Picture
from ._remote import RemoteSnapshot, RemoteTable, connect
from ._reports import (
    Cleaning,
    Cloned,
    Dropped,
    Moved,
    OptimizeReport,
    Regridded,
    Retraction,
    SalvageReport,
    Synced,
    VerifyReport,
)
from ._result import Result
from ._split import Split
from ._table import Snapshot, Table
from ._unopened import clone, drop, salvage, sync, unpack
from ._view import View
from ._writer import Writer
from .advising import Advice, Advised, Design, advise
from .dask import from_dask
from .indexing import FileIndex, index
from .ingesting import ingest
from .many import Many, open_many
from .recomputing import History, Recomputed, SavedAnswer, history, recompute
from .region import cone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._widget import Widget as Widget
    from .loading import Loader as Loader
    from .paths import Paths as Paths
    from .rasters import Raster as Raster

__all__ = [
    "Advice",
    "Advised",
    "Busy",
    "Cancelled",
    "Cleaning",
    "Cloned",
    "Column",
    "Commit",
    "Costs",
    "Damaged",
    "DeclaredWriters",
    "Description",
    "Design",
    "Dictionary",
    "Dimension",
    "DiskUse",
    "Dropped",
    "Error",
    "Estimate",
    "Explanation",
    "Figure",
    "FileIndex",
    "History",
    "Info",
    "InternalError",
    "InvalidInput",
    "Loader",
    "Many",
    "Moved",
    "NewerFormat",
    "NoSpace",
    "NotATable",
    "NotHere",
    "NotPermitted",
    "OptimizeReport",
    "PartialCopy",
    "Paths",
    "Picture",
    "Raster",
    "Recomputed",
    "Refused",
    "Regridded",
    "RemoteSnapshot",
    "RemoteTable",
    "Result",
    "Retraction",
    "SalvageReport",
    "SavedAnswer",
    "Snapshot",
    "SnapshotExpired",
    "Split",
    "Stages",
    "Stats",
    "StorageError",
    "Synced",
    "Table",
    "TableExists",
    "TableReplaced",
    "ThinnedSteps",
    "Unavailable",
    "VerifyReport",
    "View",
    "Writer",
    "WriterInfo",
    "__version__",
    "advise",
    "clone",
    "cone",
    "connect",
    "create",
    "dict",
    "drop",
    "from_dask",
    "history",
    "index",
    "ingest",
    "open",
    "open_many",
    "recompute",
    "salvage",
    "sync",
    "unpack",
]


def __getattr__(name: str) -> object:
    """Imports classes that need optional libraries on first use."""
    if name == "Widget":
        from ._widget import Widget as Widget

        return Widget
    if name == "Loader":
        from .loading import Loader as Loader

        return Loader
    if name == "Paths":
        from .paths import Paths as Paths

        return Paths
    if name == "Raster":
        from .rasters import Raster as Raster

        return Raster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
