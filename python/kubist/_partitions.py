"""The parts of a query as the partitions of a Dask DataFrame: `Table.to_dask`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._libraries import need
from ._result import Result
from ._split import Split

if TYPE_CHECKING:
    import pandas as pd

ROWS = 1_000_000
"""The approximate rows of a partition by default."""


def frame(parts: Sequence[Split], nothing: Result) -> Any:
    """The Dask DataFrame; ``nothing`` is its query without rows."""
    need("dask", "to_dask()", "dask")
    dataframe = need("dask.dataframe", "to_dask()", "dask").dataframe
    empty = nothing.to_pandas()
    # Any partition may have nulls, and all need the same types.
    for field in nothing.schema:
        kind = str(field.type)
        if field.nullable and kind.startswith(("int", "uint", "bool")):
            nullable = "boolean" if kind == "bool" else kind.replace("int", "Int")
            empty[field.name] = empty[field.name].astype(nullable.replace("uI", "UI"))
    texts = [part.to_json() for part in parts]
    return dataframe.from_map(_Partition(empty), texts, meta=empty, label="kubist")


class _Partition:
    """Reads a partition, with the columns that later operations need."""

    def __init__(self, empty: pd.DataFrame) -> None:
        self._empty = empty

    def __call__(self, text: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        wanted = list(self._empty.columns if columns is None else columns)
        split = json.loads(text)
        inclusion = split["query"].get("inclusion")
        read = [name for name in wanted if name != inclusion]
        if inclusion is not None and inclusion not in wanted:
            del split["query"]["inclusion"]
        # At least one column, for the number of rows.
        split["query"]["columns"] = read or list(self._empty.columns[:1])
        found = Split(json.dumps(split)).to_pandas()[wanted]
        # pandas' types depend on the nulls of a partition.
        kinds: pd.DataFrame = found.astype(self._empty.dtypes[wanted].to_dict())
        return kinds

    def __dask_tokenize__(self) -> Any:
        return ("kubist.partition", list(map(str, self._empty.dtypes.items())))
