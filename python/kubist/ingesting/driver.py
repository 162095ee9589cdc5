"""The driver of ingestions: opens files, sorts them by time, and commits them step by step."""

from __future__ import annotations

import json
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _box, _create, _forms, _kubist
from .._directory import location_of
from .._errors import Busy, Error, InvalidInput, NotATable
from .._libraries import need
from .._progress import Progress
from .._table import Table
from .._unopened import drop
from .._writer import LaidOutBehind, Writer
from . import formats, headers, narrow
from .paths import expanded, missing
from .report import Asked, Plan, Report
from .snapshots import report_missing
from .source import NOT_OF_FILES, Options, Source, State, Step, cast, fingerprint, named, next_item
from .union import domain, types_of_all, union

if TYPE_CHECKING:
    import pyarrow as pa


# The claim of an ingestion that numbers frames, so that only one does at a time.
FRAMES = "frames"


class Ingestion:
    """One call of `ingest`, with all its looks at the files."""

    def __init__(
        self,
        table: str | os.PathLike[str],
        paths: Sequence[str],
        asked: Asked,
        progress: Progress,
        keep_going: bool,
    ) -> None:
        need("pyarrow", "ingest()")
        self.location = location_of(table)
        self.paths = paths
        self.asked = asked
        self.progress = progress
        self.keep_going = keep_going
        # With it, a truncated file gives its complete frames. Without it, a followed file may still
        # be growing.
        self._takes_parts = keep_going
        self.report = Report(self.location)
        self._table: Table | None = None
        self._writer: Writer | None = None
        self._schema: pa.Schema | None = None
        self._state: State | None = None
        self._total: int | None = None
        self._numbers_frames = False
        self._is_declared = False
        self._types: dict[str, Any] = {}
        # The tokens of steps that were committed or counted as known: files are examined
        # repeatedly.
        self._met: set[str] = set()
        # Columns that are narrower floats than in the files, in the order of their appearance.
        self._rounded: dict[str, None] = {}
        # The file and label of each solver step: a repeated step is reported.
        self._numbers: dict[tuple[int, str], str] = {}
        self._begin = clock.monotonic()

    def close(self) -> None:
        self.progress.close()
        self.report.seconds = clock.monotonic() - self._begin
        if names := ", ".join(self._rounded):
            self.report.notes.append(
                f"values were rounded to the narrower floats of the table: {names} (a copy of the "
                "table takes all digits: copy_to(types=...), kubist copy --types)"
            )
            self._rounded.clear()
        if self._writer is not None:
            self._writer.close()
        if self._table is not None:
            self._table.close()

    def undo(self) -> None:
        """Deletes a new table without rows: a file that fails leaves nothing behind."""
        if not self.report.created or self.report.rows:
            return
        self.close()
        try:
            drop(self.location)
        except Error:
            # Another process writes to the table, or it cannot be deleted. It stays, and is empty.
            return
        self.report.created = False

    # Files

    def look(self) -> list[Source]:
        """Opens the files that exist now, and returns them in order of time."""
        asked = self.asked
        options = Options(
            topology=asked.topology,
            time=asked.time,
            columns=asked.columns,
            delimiter=asked.delimiter,
            names=asked.names,
            null=asked.null,
            decimal=asked.decimal,
            types=asked.types,
            limits=asked.limits,
            hdu=asked.hdu,
            particles=asked.particles,
            crs=asked.crs,
            keep_going=self._takes_parts,
        )
        opened, found = [], []
        for path in expanded(self.paths):
            try:
                kind = formats.of(path, self.asked.format, bool(self.asked.topology))
                if kind is None:
                    continue
                kind.need(path)
                opened.append(kind.open(path, options))
            except (ImportError, *NOT_OF_FILES):
                raise
            except BaseException as error:
                self._fail(path, error)
        report_missing(opened, self._has)
        for source in opened:
            try:
                self._leave_out(source)
                found.append(source)
            except InvalidInput as error:
                self._fail(source.path, error)
        if not found and not self.report.failed:
            raise InvalidInput(f"{', '.join(self.paths)}: no file of a known format is there")
        if all(source.times for source in found):
            found.sort(key=lambda source: source.times[0])
        return found

    def _has(self, path: Path, label: str) -> bool:
        """Whether the table has this step of a file."""
        try:
            table = _create.open(self.location)
        except NotATable:
            return False
        with table:
            return table._pinned().committed(f"{path.name}:{fingerprint(path)}/{label}") is not None

    def _leave_out(self, source: Source) -> None:
        """Reports the parts of a file that are not in the table.

        Raises:
            InvalidInput: There are such parts, and the user wants strict reading.
        """
        if not source.left_out:
            self.report.left_out.pop(str(source.path), None)
            return
        if self.asked.strict:
            name, why = next(iter(source.left_out.items()))
            raise InvalidInput(
                f"{source.path}: {name} would be left out: {why} (read option strict)"
            )
        self.report.left_out[str(source.path)] = dict(source.left_out)

    def _fail(self, path: Path, error: BaseException) -> None:
        message = named(path, error)
        if not self.keep_going:
            raise error if isinstance(error, Busy) else InvalidInput(message) from error
        self.report.failed[str(path)] = message

    def plan(self, sources: Sequence[Source]) -> Plan:
        """Returns what `take` would do with these files."""
        first = sources[0]
        try:
            self._table = _create.open(self.location)
        except NotATable:
            formats.native.agree(sources, self.asked.types)
            committed: Callable[[str], int | None] = lambda _: None  # noqa: E731
            dimensions, identity, lookup = self._index(sources)
        else:
            self._check_columns(self._table)
            self._check_period(self._table, sources)
            self._check_atoms(self._table, sources)
            about = self._table._about()
            dimensions = [dimension.column for dimension in about.dimensions]
            identity, lookup = list(about.identity), list(about.lookup)
            committed = self._committed
        steps = known = 0
        for source in sources:
            key = source.key()
            for step in source.steps(_under(key, committed)):
                steps += 1
                known += committed(f"{key}/{step.label}") is not None
        times = [t for source in sources for t in source.times]
        rows = [source.rows for source in sources]
        schema = self._columns_of(sources)
        return Plan(
            format=first.format,
            files=[str(source.path) for source in sources],
            columns=[
                (f.name, str(f.type), (f.metadata or {}).get(b"unit", b"").decode() or None)
                for f in schema
            ],
            dimensions=dimensions,
            identity=identity,
            lookup=lookup,
            steps=steps,
            known=known,
            rows=None if None in rows else sum(r for r in rows if r is not None),
            times=(min(times), max(times)) if times else None,
            metadata=dict(first.metadata),
            notes=self._notes(sources, schema),
            left_out=self.report.left_out,
        )

    # Columns

    def _columns_of(self, sources: Sequence[Source]) -> pa.Schema:
        """The selected columns, in the types and units that the user asked for."""
        import pyarrow as pa

        source = sources[0]
        fields = union(sources)
        if self.asked.time is not None and "time" not in fields:
            fields["time"] = pa.field("time", pa.float64())
        wanted = list(fields) if self.asked.columns is None else list(self.asked.columns)
        for name in (*wanted, *self.asked.types, *self.asked.units):
            if name not in fields:
                raise InvalidInput(
                    f"{source.path}: there is no column {name!r}; "
                    f"the columns are {', '.join(fields)}"
                )
        chosen = []
        for name in wanted:
            field_ = fields[name]
            if name in self.asked.types:
                field_ = field_.with_type(pa.type_for_alias(self.asked.types[name]))
            if name in self.asked.units:
                field_ = field_.with_metadata({"unit": self.asked.units[name]})
            chosen.append(field_)
        return pa.schema(chosen)

    def _check_columns(self, table: Table) -> None:
        """Refuses options of columns that differ from those of an existing table."""
        types = {field.name: field.type for field in table.schema}
        for name in (*self.asked.types, *self.asked.units):
            if name not in types:
                raise InvalidInput(
                    f"{self.location}: there is no column {name!r}; "
                    f"the columns are {', '.join(types)}"
                )
        for name, unit in self.asked.units.items():
            if (there := table.units.get(name)) != unit:
                raise InvalidInput(
                    f"{self.location}: column {name} is in {there or 'no unit'}, not in {unit}: "
                    "set_unit() changes what the table says"
                )
        bounds = {column.name: column.accuracy for column in table._about().columns}
        for name, bound in self.asked.accuracy.items():
            asked = table._table.accuracy(name, bound)
            if (bounded := bounds.get(name)) != asked:
                raise InvalidInput(
                    f"{self.location}: column {name} has the accuracy {bounded or 'of every bit'}, "
                    f"not {asked}"
                )

    def _period(self, sources: Sequence[Source]) -> Mapping[str, Any]:
        """The periods of a new table: of the user, or of the files, which must agree."""
        if self.asked.period is not None:
            return self.asked.period
        names = set(self._columns_of(sources).names)
        found: dict[str, tuple[float, Path]] = {}
        for source in sources:
            for name in sorted(names & source.period.keys()):
                length, path = found.setdefault(name, (source.period[name], source.path))
                if length != source.period[name]:
                    raise InvalidInput(
                        f"{source.path}: its box repeats along {name} after {source.period[name]}, "
                        f"and that of {path} after {length}: make a table for each of them, or "
                        "give a period of your own"
                    )
        return {name: length for name, (length, _) in sorted(found.items())}

    def _check_period(self, table: Table, sources: Sequence[Source]) -> None:
        """Refuses other periods than those of an existing table."""
        here = table.period
        if self.asked.sphere is not None and self.asked.sphere != table.sphere:
            raise InvalidInput(
                f"{self.location}: its sphere is {table.sphere}, not {self.asked.sphere}"
            )
        for name, asked in _box.periods(self.asked.period):
            if (text := table._table.period(name, asked)) != table._about().period.get(name):
                raise InvalidInput(
                    f"{self.location}: column {name} has the period {here.get(name)}, not {text}: "
                    "regrid(period=...) changes it"
                )
        for source in sources if self.asked.period is None else ():
            for name in sorted(here.keys() & source.period.keys()):
                if here[name] != source.period[name]:
                    raise InvalidInput(
                        f"{source.path}: its box repeats along {name} after {source.period[name]}, "
                        f"and the table after {here[name]}: make a table for each of them"
                    )

    def _check_atoms(self, table: Table, sources: Sequence[Source]) -> None:
        """Refuses frames with another number of atoms: trajectory tools need one number."""
        here = table.metadata.get("trajectory")
        for source in sources:
            there = source.metadata.get("trajectory")
            if here and there and here != there:
                raise InvalidInput(
                    f"{source.path} has frames of {there['atoms']} atoms, and those of "
                    f"{self.location} have {here['atoms']}: give it a table of its own"
                )

    def _check_joins(self, metadata: Mapping[str, Any], sources: Sequence[Source]) -> None:
        """Checks all files before anything is written: their numbers must have the same meaning."""
        for source in () if self.keep_going else sources:
            if source.joins is not None:
                source.joins(metadata)

    def _index(self, sources: Sequence[Source]) -> tuple[list[str], list[str], list[str]]:
        source, names = sources[0], set(self._columns_of(sources).names)

        def there(suggested: Sequence[str]) -> list[str]:
            return [name for name in suggested if name in names]

        dimensions = list(self.asked.dimensions) or there(source.dimensions)
        identity = self.asked.identity
        if identity is None:
            # A part of an identity would make several records equal.
            whole = set(source.identity) <= names
            identity = list(source.identity) if whole else []
        return dimensions, list(identity), list(self.asked.lookup) or there(source.lookup)

    def _open(self, sources: Sequence[Source]) -> None:
        source = sources[0]
        try:
            self._table = _create.open(self.location)
        except NotATable:
            formats.native.agree(sources, self.asked.types)
            self._check_joins(source.metadata, sources)
            self._table = self._create(sources)
            self.report.created = True
        else:
            self._check_columns(self._table)
            self._check_period(self._table, sources)
            self._check_joins(self._table.metadata, sources)
            self.report.notes += dict.fromkeys(note for one in sources for note in one.notes)
        self._check_atoms(self._table, sources)
        self._types = types_of_all(sources)
        self._writer = self._table.writer(**self.asked.writer)
        self._know_columns()
        self._keep_topology(source)

    def _add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Adds the columns to the table; existing rows are null in them."""
        assert self._table is not None
        for field_ in fields:
            kind = self._types.get(field_.name, field_.type)
            self._table.add_column(field_.name, kind, unit=_forms.unit_of(field_))
            self.report.columns_added.append(field_.name)

    def _know_columns(self) -> None:
        """Reads the current columns of the table."""
        assert self._table is not None
        self._schema = self._table.schema
        columns = json.loads(self._table._pinned().columns())
        added = frozenset(column["name"] for column in columns if column["added"])
        about = self._table._about()
        needed = frozenset([*self._dimensions, *about.identity])
        self._is_declared = bool(about.declared)
        number = 0 if self._state is None else self._state.next_frame
        self._state = State(number, self._schema, added, needed)

    def _keep_topology(self, source: Source) -> None:
        """Stores the topology in a table that has none, so that a later call can give it."""
        assert self._table is not None
        known, here = self._table.metadata, source.metadata
        if self.asked.topology is None or "topology" in known or "topology" not in here:
            return
        if known.get("trajectory") == here.get("trajectory"):
            self._table.set_metadata({"topology": here["topology"]})
            self.report.topology_added = True

    def _notes(self, sources: Sequence[Source], schema: pa.Schema) -> list[str]:
        """Remarks about the columns of a new table."""
        units = [(f.name, (f.metadata or {}).get(b"unit", b"").decode()) for f in schema]
        of_units = _kubist.unit_notes([(name, unit) for name, unit in units if unit])
        # Files of a series have equal remarks.
        of_files = dict.fromkeys(note for source in sources for note in source.notes)
        return [*of_files, *of_units]

    def _create(self, sources: Sequence[Source]) -> Table:
        source = sources[0]
        dimensions, identity, lookup = self._index(sources)
        if not dimensions:
            raise InvalidInput(
                f"{source.path}: {source.format} does not say which columns are positions: name "
                f"the dimensions; the columns are {', '.join(source.schema.names)}"
            )
        schema = self._columns_of(sources)
        formats.native.check_positions(sources, schema, dimensions)
        self.report.notes += self._notes(sources, schema)
        asked = self.asked.dimensions
        domains = {name: asked.get(name) or domain(name, sources) for name in dimensions}
        return _create.create(
            self.location,
            schema,
            dimensions=domains,
            identity=identity,
            lookup=lookup,
            capacity=self.asked.capacity or source.capacity,
            seed=self.asked.seed or 0,
            storage=self.asked.storage,
            accuracy=self.asked.accuracy,
            period=self._period(sources),
            sphere=self.asked.sphere,
            metadata={**source.metadata, "format": source.format, **self.asked.metadata},
            exist_ok=True,
        )

    # Rows

    def take(self, sources: Sequence[Source]) -> int:
        """Commits the steps that the table does not have. Returns their number."""
        taken = 0
        seen: dict[tuple[float, str], Source] = {}
        rows = [source.rows for source in sources]
        self._total = None if None in rows else sum(r for r in rows if r is not None)
        done: list[Source] = []
        try:
            for source in sources:
                if self._table is None or self._writer is None:
                    self._open(sources)
                try:
                    taken += self._take(source, seen)
                    done.append(source)
                except (InvalidInput, Busy) as error:
                    if str(source.path) in self.report.files:
                        done.append(source)
                    self._fail(source.path, error)
        finally:
            self._keep_headers(done)
        return taken

    def _keep_headers(self, sources: Sequence[Source]) -> None:
        """Stores the headers of files that the table has, in one change for all of them."""
        if self._table is None or not sources:
            return
        before = self._table.metadata
        after = dict(before)
        for source in sources:
            changed = headers.changes(after, source)
            if source.joins is not None:
                changed = dict(source.joins(after))
            if headers.fits(after, changed):
                after |= changed
            else:
                source.left_out["header"] = "it differs from the first, and the metadata are full"
                self.report.left_out[str(source.path)] = dict(source.left_out)
        if changed := {key: value for key, value in after.items() if before.get(key) != value}:
            self._table.set_metadata(changed)

    def _take(self, source: Source, seen: dict[tuple[float, str], Source]) -> int:
        assert self._writer is not None
        key, writer = source.key(), self._writer._writer
        if source.joins is not None and self._table is not None:
            source.joins(self._table.metadata)
        if source.numbers_frames:
            self._number_frames(source)
            return self._take_steps(source, key, seen)
        self._numbers_frames = False
        if self.asked.again:
            writer.give_back()
            return self._take_steps(source, key, seen)
        try:
            writer.take_on(key)
        except Busy as error:
            raise Busy(f"{source.path}: {error}") from None
        try:
            return self._take_steps(source, key, seen)
        finally:
            writer.give_back()

    def _number_frames(self, source: Source) -> None:
        """Claims the numbering of frames, and continues after the last frame of the table."""
        assert self._writer is not None and self._table is not None and self._state is not None
        if self._numbers_frames:
            return
        try:
            self._writer._writer.take_on(FRAMES)
        except Busy as error:
            raise Busy(
                f"{source.path}: the frames of {self.location} are being numbered by another "
                f"ingestion: wait for it ({error})"
            ) from None
        frames = self._table.query(where="atom = 0", columns=["frame"]).to_numpy()["frame"]
        self._state.next_frame = int(frames.max(initial=-1)) + 1
        self._numbers_frames = True

    def _take_steps(self, source: Source, key: str, seen: dict[tuple[float, str], Source]) -> int:
        writer, taken = self._writer, 0
        assert writer is not None and self._state is not None
        steps = iter(source.steps(_under(key, self._committed)))
        while (step := next_item(steps, source.path)) is not None:
            if step.time is not None:
                other = seen.setdefault((step.time, step.part), source)
                if other is not source:
                    raise InvalidInput(f"it and {other.path} both are of time {step.time:g}")
            token = f"{key}/{step.label}"
            if self._committed(token) is not None:
                if token not in self._met:
                    self._met.add(token)
                    self.report.skipped += 1
                continue
            next_frame = self._state.next_frame
            try:
                self._append(writer, source, step, self._begun(token))
                # A file that is read step by step learns of some parts here.
                self._leave_out(source)
                self._tell(writer.pending_rows, source, step, committing=True)
                committed = writer.commit(
                    step=self._step(source, step), token=None if self.asked.again else token
                )
            except BaseException:
                writer.discard()
                self._state.next_frame = next_frame
                raise
            taken += 1
            self._met.add(token)
            if step.number is not None:
                where = f"{source.path.name}, {step.label}"
                first = self._numbers.setdefault((step.number, step.part), where)
                if first != where:
                    self.report.notes.append(
                        f"step {step.number} was taken twice: from {first} and from {where}; "
                        "a query of its step finds the rows of the first"
                    )
            of_file = self.report.files.setdefault(str(source.path), {"rows": 0, "commits": 0})
            of_file["rows"] += committed.rows
            of_file["commits"] += 1
            self.report.rows += committed.rows
            self.report.bytes_written += committed.bytes_written
            self._tell(0, source, step)
        self._leave_out(source)
        return taken

    def _step(self, source: Source, step: Step) -> int | None:
        """The step that marks a commit, so that queries find its rows under ``steps``.

        A writer commits each step once, in ascending order. So there is no mark for a step that
        comes again or too late, for a step whose rows are in several files, and in a table with
        declared writers, because these alone complete a step.
        """
        assert self._table is not None and self._writer is not None
        number = step.number
        if number is None or step.part or source.in_order or self._is_declared:
            return None
        last = self._writer.last_step
        return number if last is None or number > last else None

    def _committed(self, token: str) -> int | None:
        """The number of rows under a token, by any writer; None: the token is unused."""
        assert self._table is not None
        return None if self.asked.again else self._table._pinned().committed(token)

    def _begun(self, token: str) -> int:
        """The number of first rows that an interrupted ingestion committed (`--commit-rows` of the
        command).
        """
        rows = 0
        while more := self._committed(f"{token} from {rows}"):
            rows += more
        return rows

    def _append(self, writer: Writer, source: Source, step: Step, begun: int) -> None:
        """Appends the rows of a step, without its first rows that the table already has.

        If the step has columns that the table lacks, its rows are read twice: columns cannot be
        removed again, and a file that fails leaves nothing behind.
        """
        assert self._state is not None
        next_frame, skipped = self._state.next_frame, dict(self.report.rows_skipped)
        late = self._append_rows(writer, source, step, begun)
        if not late:
            return
        self._leave_out(source)
        writer.discard()
        self._add_columns(late)
        self._know_columns()
        self._state.next_frame, self.report.rows_skipped = next_frame, skipped
        self._append_rows(writer, source, step, begun)

    def _append_rows(
        self, writer: Writer, source: Source, step: Step, begun: int
    ) -> list[pa.Field]:
        """Appends the rows of a step without the columns that the table lacks, and returns these."""
        late: dict[str, pa.Field] = {}
        assert self._schema is not None and self._table is not None and self._state is not None
        row = 0
        parts = step.read(self._state)
        where = step.label if source.file is None else source.path
        behind = LaidOutBehind(writer)
        append = behind.append if source.in_order else writer.append
        try:
            while (part := next_item(parts, where)) is not None:
                there = min(max(begun - row, 0), part.num_rows)
                row += there
                if there == part.num_rows > 0:
                    continue
                part = part.slice(there)
                if self.asked.columns is None:
                    for field_ in part.schema:
                        if field_.name not in self._schema.names:
                            late.setdefault(field_.name, self._measured(field_, part, source))
                append(self._fitted(part, source, step, row))
                row += part.num_rows
                self._tell(row - begun, source, step)
            behind.wait()
        finally:
            behind.close()
        return list(late.values())

    def _tell(self, pending: int, source: Source, step: Step, *, committing: bool = False) -> None:
        rows, share = self.report.rows, None
        # An existing table may have some of them already.
        if self._total and self.report.created:
            # If all work is left to the commit, the commit takes most of the time.
            done = pending if source.in_order else pending / 3
            share = min((rows + done) / self._total, 1.0)
        doing = "committing " if committing else ""
        text = f"{doing}{rows + pending:,} records, {source.path.name} {step.label}"
        self.progress(text, share, committing)

    def _fitted(self, part: pa.Table, source: Source, step: Step, row: int) -> pa.Table:
        """Converts a part to the table's columns; the table converts the units of the file.

        Raises:
            InvalidInput: A position is missing, or a column that the table needs.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self._schema is not None and self._state is not None
        if "time" not in part.column_names and "time" in self._schema.names:
            when = self.asked.time if self.asked.time is not None else step.time
            if when is not None:
                part = part.append_column("time", pa.array([when] * part.num_rows, pa.float64()))
        if self.asked.bad_rows == "skip":
            part = self._with_positions(part, source)
        columns, fields = [], []
        for field_ in self._schema:
            if field_.name not in part.column_names:
                if field_.name in self._state.needed or not field_.nullable:
                    raise InvalidInput(
                        f"{step.label}: there is no column {field_.name!r}, and the table needs "
                        "a value in it"
                    )
                if field_.name not in self._state.added:
                    columns.append(pa.nulls(part.num_rows, field_.type))
                    fields.append(field_)
                continue
            column = cast(part.column(field_.name), field_, f"{step.label}: ")
            kept, field_ = field_, self._measured(field_.with_type(column.type), part, source)
            measured = _forms.unit_of(field_)
            narrow.check_dates(column, kept, measured, row)
            rounded = narrow.rounded(column, kept)
            if rounded is not None and field_.name not in self.asked.types:
                self._rounded[field_.name] = None
            if measured in (None, _forms.unit_of(kept)):
                narrow.check_integers(column, kept, row)
                if rounded is not None:
                    column, field_ = rounded, field_.with_type(rounded.type)
            checked = source.file is None and field_.name in self._dimensions
            if checked and pa.types.is_floating(column.type):
                if column.null_count or pc.any(pc.is_nan(column)).as_py():
                    wrong = pc.index(pc.is_nan(column.fill_null(float("nan"))), True).as_py()
                    names = [name for name in ("frame", "atom") if name in part.column_names]
                    of_what = ", ".join(f"{name} {part.column(name)[wrong]}" for name in names)
                    raise InvalidInput(
                        f"{step.label}: row {row + wrong}{of_what and f' ({of_what})'}: "
                        f"{field_.name} is {column[wrong].as_py()}"
                    )
            columns.append(column)
            fields.append(field_)
        return pa.table(columns, schema=pa.schema(fields))

    def _with_positions(self, part: pa.Table, source: Source) -> pa.Table:
        """Returns the rows with a value in each dimension, and counts the others."""
        import pyarrow as pa
        import pyarrow.compute as pc

        there = None
        for name in self._dimensions & set(part.column_names):
            column = part.column(name)
            valid = column.is_valid()
            if pa.types.is_floating(column.type):
                valid = pc.and_(valid, pc.invert(pc.is_nan(column).fill_null(True)))
            there = valid if there is None else pc.and_(there, valid)
        kept = part if there is None else part.filter(there)
        if skipped := part.num_rows - kept.num_rows:
            path = str(source.path)
            self.report.rows_skipped[path] = self.report.rows_skipped.get(path, 0) + skipped
        return kept

    def _measured(self, field_: pa.Field, part: pa.Table, source: Source) -> pa.Field:
        """The column with the file's unit, unless the user gave one."""
        if field_.name in self.asked.units:
            return field_
        said = _forms.unit_of(part.schema.field(field_.name))
        if said is None and source.file is None and field_.name in source.schema.names:
            said = _forms.unit_of(source.schema.field(field_.name))
        return field_.with_metadata({"unit": said} if said else {})

    @property
    def _dimensions(self) -> frozenset[str]:
        if not hasattr(self, "_dimension_names"):
            assert self._table is not None
            dimensions = self._table._about().dimensions
            self._dimension_names = frozenset(dimension.column for dimension in dimensions)
        return self._dimension_names


def _under(key: str, committed: Callable[[str], int | None]) -> Callable[[str], int | None]:
    """Returns the number of rows that were committed under a label of this source."""
    return lambda label: committed(f"{key}/{label}")


def checked(asked: Asked) -> Asked:
    """Checks the arguments before any file is opened."""
    if asked.time is not None:
        asked.time = _box.number("time", asked.time)
    if asked.topology is not None and not asked.topology.exists():
        raise missing(asked.topology)
    if asked.bad_rows not in ("refuse", "skip"):
        raise InvalidInput(f"bad_rows: {asked.bad_rows!r} is neither refuse nor skip")
    if asked.format is not None and asked.format not in formats.NAMES:
        raise InvalidInput(f"format: {asked.format!r} is none of {', '.join(formats.NAMES)}")
    return asked
