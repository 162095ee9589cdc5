"""Small tables as text and HTML, for consoles and notebooks.

The values are untrusted: text is made printable, HTML is escaped.
"""

from __future__ import annotations

import html
import shutil
import sys
from collections.abc import Iterable, Sequence

from ._kubist import printable

Cell = str | None
"""A value as text; None is null."""


def text_table(names: Sequence[str], rows: Iterable[Sequence[Cell]], notes: Sequence[str]) -> str:
    """Aligned columns with their names, and a line for each note."""
    head = [printable(name) for name in names]
    body = [[printable("null" if cell is None else cell) for cell in row] for row in rows]
    if not head:
        return "\n".join(map(printable, notes))
    to_the_right = _numeric(len(head), body)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if room is not None:
        head = [_clipped(cell, room) for cell in head]
        body = [[_clipped(cell, room) for cell in row] for row in body]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines: list[str] = []
    for places in _side_by_side(widths, room):
        lines += [""] if lines else []
        for row in [head, *body]:
            cells = [
                row[at].rjust(widths[at]) if to_the_right[at] else row[at].ljust(widths[at])
                for at in places
            ]
            lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *map(printable, notes)])


def _clipped(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"


def _side_by_side(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """Groups of columns that fit side by side on the terminal; elsewhere all in one."""
    parts: list[list[int]] = [[]]
    taken = 0
    for place, width in enumerate(widths):
        if room is not None and parts[-1] and taken + 2 + width > room:
            parts.append([])
            taken = 0
        taken += width + (2 if parts[-1] else 0)
        parts[-1].append(place)
    return parts


def html_table(names: Sequence[str], rows: Iterable[Sequence[Cell]], notes: Sequence[str]) -> str:
    body = [[printable("null" if cell is None else cell) for cell in row] for row in rows]
    sides = ["right" if right else "left" for right in _numeric(len(names), body)]
    head = "".join(
        f"<th style='text-align:{side}'>{html.escape(printable(name))}</th>"
        for name, side in zip(names, sides, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:{side}'>{html.escape(cell)}</td>"
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in body
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{html_notes(notes)}"


def html_notes(notes: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(printable(note))}</p>" for note in notes)


def with_unit(name: str, unit: str | None) -> str:
    return f"{name} [{unit}]" if unit else name


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _numeric(columns: int, rows: Sequence[Sequence[str]]) -> list[bool]:
    return [
        bool(rows) and all(row[place] == "null" or _is_number(row[place]) for row in rows)
        for place in range(columns)
    ]


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
