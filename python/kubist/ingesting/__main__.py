"""The part of `kubist ingest` that needs Python's libraries. It gets its options as JSON.

Results go to standard output, and all else to standard error. A failure is one line, with the exit
code of the command.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from .._errors import Error, exit_code
from .._shown import counted
from . import Plan, Report, ingest
from .report import of_files

USAGE = 2


def main(text: str) -> int:
    asked: dict[str, Any] = json.loads(text)
    as_json = asked.pop("json")
    # A list, because dimensions have an order.
    asked["dimensions"] = {name: _domain(text) for name, text in asked["dimensions"]}
    asked["identity"] = asked["identity"] or None
    try:
        done = ingest(**asked)
    except KeyboardInterrupt as error:
        return _tell("interrupted", exit_code(error))
    except (Error, OSError, ImportError) as error:
        return _tell(str(error), exit_code(error))
    if as_json:
        print(json.dumps(dataclasses.asdict(done)))
    elif isinstance(done, Plan):
        print(done)
    else:
        _sum_up(done)
    failed = done.failed if isinstance(done, Report) else {}
    for message in failed.values():
        _tell(message, USAGE)
    return USAGE if failed else 0


def _domain(text: str | None) -> Any:
    """Parses a domain of the command line."""
    if text is None or text == "quantile":
        return text
    low, _, high = text.partition("..")
    return (_end(low), _end(high))


def _end(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _sum_up(done: Report) -> None:
    notes = []
    if done.topology_added:
        notes.append("the topology was put into the table, which had none")
    if done.skipped:
        were, them = ("was", "it") if done.skipped == 1 else ("were", "them")
        known = f"{counted(done.skipped, 'step')} {were} ingested already"
        notes.append(f"{known} (--again takes {them} again)")
    taken = "nothing new"
    if done.files:
        taken = f"{counted(done.rows, 'record')} from {counted(len(done.files), 'file')}"
    if done.columns_added:
        notes.append(f"new columns {', '.join(done.columns_added)}, null in the rows before")
    for path, rows in done.rows_skipped.items():
        were = "was" if rows == 1 else "were"
        notes.append(f"{path}: {counted(rows, 'row')} without a position {were} skipped")
    for note in done.notes:
        sys.stderr.write(f"note: {note}\n")
    for text in of_files(done.left_out):
        sys.stderr.write(f"left out: {text}\n")
    sys.stderr.write(f"{'; '.join([f'{done.table}: {taken} in {done.seconds:.1f} s', *notes])}\n")


def _tell(message: str, code: int) -> int:
    sys.stderr.write(f"kubist: error: {' '.join(message.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
