"""The syntax tree of a function, found by its code object.

Several lambdas may be on one line, and a file may have changed since its import. So the file is
compiled again, and a tree is only used if its code object equals the function's.
"""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

_Definition = ast.Lambda | ast.FunctionDef


def returned(function: Callable[..., Any]) -> tuple[ast.arguments, ast.expr] | None:
    """Returns the arguments of a function and the expression that it returns.

    None if there is no source, or if the function is not a single ``return``.
    """
    if not isinstance(function, FunctionType):
        return None
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        return None
    for definition in _definitions("".join(lines), code.co_filename, code.co_flags & _FUTURE):
        if definition[0] == code:
            return _expression(definition[1])
    return None


def _expression(definition: _Definition) -> tuple[ast.arguments, ast.expr] | None:
    if isinstance(definition, ast.Lambda):
        return definition.args, definition.body
    body = definition.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return definition.args, body[0].value
    return None


@lru_cache(maxsize=16)
def _definitions(text: str, filename: str, flags: int) -> tuple[tuple[CodeType, _Definition], ...]:
    try:
        tree = ast.parse(text)
        module = compile(text, filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return ()
    trees: dict[int, list[_Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            first = min([node.lineno, *(each.lineno for each in decorators)])
            trees.setdefault(first, []).append(node)
    found = []
    for code in _codes(module):
        nodes = [node for node in trees.get(code.co_firstlineno, ()) if _may_be_of(code, node)]
        if nodes:
            found.append((code, min(nodes, key=_length)))
    return tuple(found)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _may_be_of(code: CodeType, node: _Definition) -> bool:
    """Whether the code's instructions are inside the node; nested lambdas match too."""
    if isinstance(node, ast.FunctionDef):
        return code.co_name == node.name
    first, last = _start(node.body), _end(node.body)
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and column is not None and column != end_column
    ]
    if code.co_name != "<lambda>":
        return False
    if not spans:
        # Constants have no position in Python 3.12.
        return isinstance(node.body, ast.Constant) and node.body.value in code.co_consts
    return all(first <= start and end <= last for start, end in spans)


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[Any, Any]:
    return node.end_lineno, node.end_col_offset


def _length(node: _Definition) -> tuple[int, int]:
    """A sort key, which is larger for a node that encloses other nodes."""
    last = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    end_line, end_column = _end(last)
    return end_line - last.lineno, end_column - last.col_offset
