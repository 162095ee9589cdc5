"""The output of a search on the command line: a terminal, a pipe, a file or a new table."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _create, _kubist, _shown, exporting
from .._errors import InvalidInput, NotATable, TableExists
from .._libraries import need
from .._progress import Display
from .._result import Result
from .._table import Table
from .._unopened import drop

if TYPE_CHECKING:
    import pyarrow as pa

MANY = 40
"""Rows on a terminal."""


class Output:
    """The place of the rows. It is checked before the search, which may take long."""

    def __init__(self, place: str, form: str | None, as_json: bool) -> None:
        self._place, self._json = place, as_json
        self._is_table = "://" in place or place.endswith(".kubist")
        self._form = form
        if place == "-":
            terminal = sys.stdout.isatty()
            self._form = form or ("table" if terminal else "csv")
            if terminal and form == "arrows":
                raise InvalidInput(
                    "--format: a terminal cannot show arrows: write a file with -o, or use a pipe"
                )
        elif form is not None:
            raise InvalidInput(f"--format: {form} is for standard output; leave out -o {place}")
        elif self._is_table:
            self._check_absent()
        else:
            try:
                exporting.check(Path(place))
            except InvalidInput as error:
                raise InvalidInput(f"{error}, or .kubist for a new table") from None

    def _check_absent(self) -> None:
        try:
            with _create.open(self._place):
                pass
        except NotATable:
            if "://" in self._place or not os.path.lexists(self._place):
                return
        raise TableExists(f"{self._place} exists; give -o another name, or drop it")

    def write(self, table: Table, result: Result, progress: Progress) -> None:
        if self._form == "table":
            names, rows, notes = result._preview(result._read(), MANY)
            progress.close()
            print(_shown.text_table(names, rows, notes))
            if len(rows) >= MANY:
                sys.stderr.write("-o FILE writes all records\n")
            return
        pa = need("pyarrow", self._place)
        reader = pa.RecordBatchReader.from_batches(result.schema, progress.counted(result))
        if self._is_table:
            self._create(table, reader)
        elif self._form is None:
            exporting.write(reader, self._place, table.metadata)
        elif self._form == "csv":
            try:
                exporting.csv(reader, sys.stdout.buffer)
            except pa.ArrowException as error:
                raise InvalidInput(f"--format csv: {error}; use -o FILE.parquet") from None
        else:
            with pa.ipc.new_stream(sys.stdout.buffer, reader.schema) as stream:
                for batch in reader:
                    stream.write_batch(batch)
        sys.stdout.flush()
        progress.close()
        self._report(result, progress.seconds)

    def _create(self, table: Table, reader: pa.RecordBatchReader) -> None:
        """A new table with the dimensions, periods and sphere of the searched one."""
        columns = set(reader.schema.names)
        dimensions = table._dimensions()
        if missing := [name for name in dimensions if name not in columns]:
            raise InvalidInput(
                f"{self._place}: the result lacks {', '.join(missing)}, a dimension of "
                f"{table.location}: add it to --columns"
            )
        sphere = table.sphere
        made = _create.create(
            self._place,
            reader.schema,
            dimensions,
            period={name: length for name, length in table.period.items() if name in columns},
            sphere=sphere if sphere is not None and columns.issuperset(sphere) else None,
        )
        try:
            made.append(reader)
        except BaseException:
            made.close()
            drop(self._place, force=True)
            raise
        made.close()

    def _report(self, result: Result, seconds: float) -> None:
        stats = dataclasses.replace(result.stats, seconds=seconds)
        if not self._json:
            rows = _shown.counted(stats.rows_returned, "record")
            took = _kubist.duration(seconds)
            sys.stderr.write(f"{rows}; {stats.rows_read:,} read in {took}\n")
            return
        to = sys.stderr if self._place == "-" else sys.stdout
        to.write(json.dumps(dataclasses.asdict(stats)) + "\n")


class Progress:
    """A line on a terminal with the rows so far and the time, also while the search computes."""

    EVERY = 0.1

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._rows = 0
        self._ended = threading.Event()
        self._display = Display() if sys.stderr.isatty() else None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Progress:
        if self._display is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def _run(self) -> None:
        display = self._display
        while display is not None and not self._ended.wait(self.EVERY):
            rows = _shown.counted(self._rows, "record") if self._rows else "searching"
            display(f"{rows}, {_kubist.duration(self.seconds)}")

    def counted(self, result: Result) -> Iterator[Any]:
        for batch in result:
            self._rows += batch.num_rows
            yield batch

    def close(self) -> None:
        self._ended.set()
        if self._display is not None:
            self._thread.join()
            self._display.close()
            self._display = None
