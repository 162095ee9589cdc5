"""Expressions over many runs, rewritten for one run.

The engine reads a single run, without the run's name and metadata, the columns of other runs, or
the shared units. This module replaces such names by a literal, by null, or by the column in the
shared unit. It recognises only names, strings and the ends of conditions; the engine parses the
rest.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_NAME = r"(?:[^\W\d]\w*|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)"
_TOKEN = re.compile(
    rf"""
    (?P<text>(?:\b[xX])?'(?:[^']|'')*')
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[^\W\d_]*)
  | (?P<name>{_NAME}(?:\s*\.\s*{_NAME})*)
  | (?P<space>\s+)
  | (?P<other>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(_NAME)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The token in upper case, if it may be a keyword."""
        return self.text.upper() if self.kind == "name" else ""


class Names:
    """The columns of all runs; names ignore letter case if they stay unambiguous."""

    def __init__(self, names: list[str]) -> None:
        self._names = {name.lower(): name for name in names} | {name: name for name in names}

    def find(self, name: str) -> str | None:
        return self._names.get(name, self._names.get(name.lower()))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def plain(token: str) -> str:
    """The name in a token, without quotes; the parts of ``metadata.solver.dt`` are joined."""
    parts = _PART.findall(token)
    return ".".join(
        part[1:-1].replace(part[0] * 2, part[0]) if part[0] in '"`' else part for part in parts
    )


def rewritten(text: str, names: Names, form: Callable[[str], str | None]) -> str:
    """Replaces each column of an expression by its form; None keeps the column, quoted."""
    parts: list[str] = []
    for token, column in _columns(text, names):
        if column is None:
            parts.append(token.text)
        else:
            new = form(column)
            parts.append(quoted(column) if new is None else new)
    return "".join(parts)


def columns(text: str, names: Names) -> set[str]:
    return {column for _, column in _columns(text, names) if column is not None}


def dotted(text: str) -> list[str]:
    """The names with dots; only metadata columns have dots."""
    found = [plain(token.text) for token in _tokens(text) if token.kind == "name"]
    return [name for name in found if "." in name]


def conditions(text: str) -> list[str]:
    """The conditions that are joined by the outermost ANDs."""
    parts, current = [], ""
    depth, between = 0, False
    for token in _tokens(text):
        word = token.word
        if token.text in "([" or word == "CASE":
            depth += 1
        elif token.text in ")]" or word == "END":
            depth -= 1
        elif depth == 0:
            if word == "OR":
                return [text]
            if word == "BETWEEN":
                between = True
            elif word == "AND":
                if not between:
                    parts.append(current)
                    current = ""
                    continue
                between = False
        current += token.text
    return [*parts, current]


def call(text: str) -> tuple[str, str] | None:
    """The function and argument of an aggregate such as ``mean(x)``; None: a formula."""
    tokens = _tokens(text.strip())
    if len(tokens) < 3 or tokens[0].kind != "name" or tokens[-1].text != ")":
        return None
    rest = [token for token in tokens[1:] if token.kind != "space"]
    if rest[0].text != "(":
        return None
    depth = 0
    for place, token in enumerate(rest):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and place < len(rest) - 1:
            return None
    inside = "".join(token.text for token in tokens[1:]).strip()[1:-1]
    return tokens[0].text.lower(), inside.strip()


def named(text: str) -> tuple[str, str | None]:
    """An expression, and its name after AS."""
    dense = [token for token in _tokens(text) if token.kind != "space"]
    if len(dense) < 3 or dense[-2].word != "AS" or dense[-1].kind != "name":
        return text, None
    name = dense[-1].text
    before = text.rstrip()[: -len(name)].rstrip()
    return before[: -len("AS")].rstrip(), plain(name)


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        # String functions refuse a plain literal.
        return f"coalesce(NULL, {string(value)})"
    return f"({value!r})"


@functools.lru_cache(maxsize=256)
def _tokens(text: str) -> tuple[_Token, ...]:
    return tuple(_Token(m.lastgroup or "other", m.group()) for m in _TOKEN.finditer(text))


def _columns(text: str, names: Names) -> Iterator[tuple[_Token, str | None]]:
    tokens = _tokens(text)
    dense = [(place, token) for place, token in enumerate(tokens) if token.kind != "space"]
    following = {
        place: dense[at + 1][1].text if at + 1 < len(dense) else ""
        for at, (place, _) in enumerate(dense)
    }
    previous = {
        place: dense[at - 1][1].text.upper() if at else "" for at, (place, _) in enumerate(dense)
    }
    for place, token in enumerate(tokens):
        column = None
        # Before a parenthesis, a name is a function; before a string, the type of a literal.
        is_column = (
            token.kind == "name"
            and not following[place].startswith(("(", "'"))
            and previous[place] not in ("::", "AS")
        )
        if is_column:
            column = names.find(plain(token.text))
        yield token, column
