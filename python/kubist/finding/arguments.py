"""The command line of neighbours: options, their help, and the values of their texts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _kubist
from .._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

PROGRAM = "kubist"
EPILOG = "Exit codes: see kubist --help"
FORMATS = ("table", "csv", "arrows")


class Parser(argparse.ArgumentParser):
    """A parser with the sections of ``kubist --help``, whose errors are exceptions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Help, add_help=False, **options)
        # A position such as -1,2 is a value, not an option.
        self._negative_number_matcher = re.compile(r"-[\d.]")

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message} (see --help)")


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(get_terminal_size().columns, 100))

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FILE``; argparse repeats the FILE for each name."""
        names = ", ".join(action.option_strings)
        if not names or action.nargs == 0:
            return names or super()._format_action_invocation(action)
        return f"{names} {self._format_args(action, action.dest.upper())}"


def parser() -> Parser:
    """The parser of all verbs, whose name is in ``verb``."""
    top = Parser(prog=PROGRAM, description="Find neighbours: rows by their distance", epilog=EPILOG)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", title="Verbs")
    _helps(top.add_argument_group("Options"))

    def verb(name: str, about: str, details: str, examples: Sequence[str]) -> _Verb:
        shown = "\n".join(f"  {PROGRAM} {name} {example}" for example in examples)
        one = verbs.add_parser(
            name,
            help=about,
            description=f"{about}\n\n{details}",
            epilog=f"Examples:\n{shown}\n\n{EPILOG}",
            usage=f"%(prog)s TABLE {'OTHER ' if name == 'crossmatch' else ''}[OPTIONS]",
        )
        return _Verb(one)

    near = verb(
        "nearest",
        "Return the nearest rows of positions",
        "The result has the number of the position (point), the rank from 1, the distance and the\n"
        "columns of the row.",
        [
            "airway.kubist --at 0,0,0.1 --k 5",
            "stars.kubist --points targets.csv --sphere ra,dec --k 3 -o nearest.parquet",
        ],
    )
    near.points()
    near.add(
        "--k", type=int, default=1, metavar="ROWS", help="the rows of each position [default: 1]"
    )
    near.add("--radius", metavar="LENGTH", help="only rows up to this distance, as 0.01 or '1 mm'")
    near.common()

    inside = verb(
        "within",
        "Return all rows within a radius of positions",
        "The result has the number of the position (point), the distance and the columns of the\n"
        "row.",
        [
            "airway.kubist --at 0,0,0.1 --radius '1 mm'",
            "stars.kubist --at 83.633,22.014 --sphere ra,dec --radius '2 arcmin'",
        ],
    )
    inside.points()
    inside.radius()
    inside.common()

    match = verb(
        "crossmatch",
        "Match the rows of a table with the rows of another one by position",
        "The result has the columns of the row, the distance and the columns of its match, with\n"
        "_2 after names that the table has too. Rows without a match are not in the result.",
        [
            "gaia.kubist 2mass.kubist --radius '1 arcsec' -o matches.parquet",
            "gaia.kubist list.fits --radius '2 arcsec' --best all --other-sphere RAJ2000,DEJ2000",
        ],
    )
    match.argument("other", "The other table, or a file of any format of kubist ingest")
    match.radius()
    match.add(
        "--best",
        default="1",
        metavar="ROWS",
        help="the nearest rows of OTHER for each row, or all [default: 1]",
    )
    match.add("--other-where", metavar="SQL", help="only rows of OTHER that meet this condition")
    match.add("--other-columns", metavar="COLUMNS", help="the columns of OTHER to return")
    match.add(
        "--other-on", metavar="COLUMNS", help="the columns of positions in OTHER [default: --on]"
    )
    match.add(
        "--other-sphere",
        metavar="LON,LAT",
        help="the columns of longitude and latitude in OTHER [default: --sphere]",
    )
    match.common(sphere="ra,dec without --on")

    couples = verb(
        "pairs",
        "Return all pairs of rows within a radius, each pair once",
        "The result has the distance and the columns of both rows, with _1 and _2 after their\n"
        "names.",
        ["airway.kubist --radius '10 um' --columns pid --where 'time = 0.6'"],
    )
    couples.radius()
    couples.common()

    dense = verb(
        "cluster",
        "Find clusters of rows (DBSCAN), and return the rows with their labels",
        "A core row has at least --min-samples rows within --eps, itself included. Label 0 is the\n"
        "cluster with most rows, -1 is noise. -o NAME.kubist writes a new table with the labels.",
        [
            "airway.kubist --eps '0.2 mm' --min-samples 20 -o clusters.kubist",
            "airway.kubist --eps 2e-4 --where 'time > 0.599' --columns pid -o labels.parquet",
        ],
    )
    dense.add("--eps", required=True, metavar="LENGTH", help="the radius, as 0.01 or '1 mm'")
    dense.add(
        "--min-samples",
        type=int,
        default=5,
        metavar="ROWS",
        help="the rows within the radius that make a core row [default: 5]",
    )
    dense.common()

    linked = verb(
        "friends",
        "Find groups of rows (friends of friends), and return the rows with their labels",
        "Rows within the linking length are friends; friends of friends are in one group. Label 0\n"
        "is the group with most rows. -o NAME.kubist writes a new table with the labels.",
        [
            "snapshot.kubist --b 0.2 --period x=25,y=25,z=25 -o halos.kubist",
            "stars.kubist --length '10 arcsec' --sphere ra,dec --min-members 3",
        ],
    )
    linked.add(
        "--b",
        type=float,
        metavar="NUMBER",
        help="the linking length in mean separations of the rows [default: 0.2]",
    )
    linked.add("--length", metavar="LENGTH", help="the linking length itself, instead of --b")
    linked.add(
        "--volume",
        type=float,
        help="the volume of the rows, for --b [default: the product of periods]",
    )
    linked.add(
        "--min-members",
        type=int,
        default=20,
        metavar="ROWS",
        help="smaller groups have the label -1 [default: 20]",
    )
    linked.common()
    return top


def _helps(options: Any) -> None:
    options.add_argument("-h", "--help", action="help", help="print help")


class _Verb:
    def __init__(self, one: argparse.ArgumentParser) -> None:
        self._arguments = one.add_argument_group("Arguments")
        self._options = one.add_argument_group("Options")
        self.add = self._options.add_argument
        self.argument(
            "table", "A directory, s3://bucket/prefix or cassandra://hosts/keyspace/table"
        )

    def argument(self, name: str, about: str) -> None:
        self._arguments.add_argument(name, metavar=name.upper(), help=about)

    def points(self) -> None:
        self.add(
            "--at",
            action="append",
            metavar="POSITION",
            help="a position in the order of the axes: 0.1,0.2,0.3 (repeatable)",
        )
        self.add(
            "--points",
            metavar="FILE",
            help="the positions: a table, or a file of any format of kubist ingest, with columns "
            "of the names of the axes",
        )

    def radius(self) -> None:
        self.add(
            "--radius",
            required=True,
            metavar="LENGTH",
            help="a number in the unit of the columns (on a sphere in degrees), or with a unit: "
            "'1 mm', '1 arcsec'",
        )

    def common(self, sphere: str = "that of the table") -> None:
        add = self.add
        add(
            "--on",
            metavar="COLUMNS",
            help="the columns of the Euclidean distance: x,y [default: all dimensions]",
        )
        add(
            "--period",
            action="append",
            metavar="PERIODS",
            help="the lengths of columns that repeat: x=25,y=25 [default: those of the table]",
        )
        add(
            "--sphere",
            metavar="LON,LAT",
            help=f"the columns of longitude and latitude: ra,dec [default: {sphere}]",
        )
        add(
            "--tile-rows",
            type=int,
            metavar="ROWS",
            help="about how many rows to search at a time, for the memory [default: 400000]",
        )
        add(
            "--box",
            action="append",
            metavar="RANGES",
            help="closed ranges: x=0.1:0.2,y=:0.5 (repeatable)",
        )
        add("--where", metavar="SQL", help="an SQL condition: 'diameter > 2e-5 AND NOT deposited'")
        add("--region", metavar="JSON", help="a region in JSON, or a file of it")
        add("--sample", metavar="FRACTION", help="the fraction of the rows to search: 0.01 or 1%%")
        add("--steps", metavar="STEPS", help="only rows of complete steps: 3, 3:7, :7 or 3:")
        add("--columns", metavar="COLUMNS", help="the columns and expressions of the row to return")
        add(
            "-o",
            "--output",
            default="-",
            metavar="FILE",
            help="the output: a .parquet, .arrow, .csv, .ecsv, .fits, .las, .laz, .vtp, .h5 or .bp "
            "file, or a new table (.kubist, s3:// or cassandra://)",
        )
        add(
            "--format",
            choices=FORMATS,
            help="the format on standard output [default: a table on a terminal, csv in a pipe]",
        )
        add(
            "--json",
            action="store_true",
            help="print the cost as JSON: to standard output if rows go to a file, otherwise to "
            "standard error",
        )
        _helps(self._options)


def names(option: str, text: str | None) -> list[str] | None:
    """Columns and expressions between commas."""
    if text is None:
        return None
    found = _kubist.terms(text)
    if not found:
        raise InvalidInput(f"--{option}: expected columns between commas, not {text!r}")
    return found


def pair(option: str, text: str | None) -> tuple[str, str] | None:
    found = names(option, text)
    if found is not None and len(found) != 2:
        raise InvalidInput(
            f"--{option}: expected the columns of longitude and latitude, like ra,dec, not {text!r}"
        )
    return None if found is None else (found[0], found[1])


def positions(texts: Sequence[str], axes: Sequence[str]) -> list[list[float]]:
    """Positions such as ``0.1,0.2``."""
    found = []
    for text in texts:
        try:
            position = [float(number) for number in text.split(",")]
        except ValueError:
            position = []
        if len(position) != len(axes):
            raise InvalidInput(
                f"--at: expected numbers for {', '.join(axes)} between commas, not {text!r}"
            )
        found.append(position)
    return found


def periods(texts: Sequence[str] | None) -> dict[str, float] | None:
    """Lengths such as ``x=25,y=25``."""
    if texts is None:
        return None
    found = {}
    for column, length in _entries("period", texts, "COLUMN=LENGTH, like x=25"):
        try:
            found[column] = float(length)
        except ValueError:
            raise InvalidInput(
                f"--period: {column}: expected a number in the unit of the column, not {length!r}"
            ) from None
    return found


def box(texts: Sequence[str] | None, schema: pa.Schema) -> dict[str, tuple[Any, Any]] | None:
    """Ranges such as ``x=0.1:0.2``, as for ``kubist query``."""
    if texts is None:
        return None
    query = json.loads(_kubist.box_ranges(list(texts), _kubist.Schema(schema)))
    for column, ends in query["box"].items():
        if any(isinstance(end, list) for end in ends):
            raise InvalidInput(f"--box: {column} has two ranges; give one")
    return {column: (low, high) for column, (low, high) in query["box"].items()}


def _entries(option: str, texts: Sequence[str], shape: str) -> list[tuple[str, str]]:
    entries = []
    for part in ",".join(texts).split(","):
        column, _, value = (side.strip() for side in part.partition("="))
        if not column or not value:
            raise InvalidInput(f"--{option}: expected {shape}, not {part!r}")
        entries.append((column, value))
    return entries


def steps(text: str | None) -> tuple[int | None, int | None] | None:
    """Steps such as ``3``, ``3:7``, ``:7`` or ``3:``."""
    if text is None:
        return None
    low, _, high = text.partition(":") if ":" in text else (text, "", text)
    try:
        return int(low) if low.strip() else None, int(high) if high.strip() else None
    except ValueError:
        raise InvalidInput(f"--steps: expected 3, 3:7, :7 or 3:, not {text!r}") from None


def region(text: str | None) -> str | None:
    """The JSON of a region, which may be in a file."""
    if text is None or text.lstrip().startswith("{"):
        return text
    if not Path(text).is_file():
        raise InvalidInput(f"--region: {text!r} is neither JSON nor a file")
    return Path(text).read_text()


def length(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def best(text: str) -> Any:
    try:
        return "all" if text == "all" else int(text)
    except ValueError:
        raise InvalidInput(f"--best: expected a number of rows or all, not {text!r}") from None
