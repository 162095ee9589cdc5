"""Divides a filter into a condition for the index, a sample, and a rest for Python."""

from __future__ import annotations

import ast
import builtins
import copy
import datetime
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from . import _conditions as conditions
from ._conditions import Condition, Term, Unreadable
from ._source import returned
from ._spec import Spec

_OPERATORS = {
    ast.Eq: "=",
    ast.NotEq: "<>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}

_PURE = {
    each
    for each in (
        *(int, float, bool, str, bytes, len, abs, min, max, sum, round, sorted, range),
        *(list, tuple, set, frozenset, dict, pow),
        *(getattr(math, name) for name in dir(math) if callable(getattr(math, name))),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
    )
}
"""Calls of these functions are evaluated once if they do not depend on the row."""


@dataclass(frozen=True)
class Reading:
    """How a filter runs, from `StorageDict.explain`."""

    where: str | None
    """The condition that the index applies, as ``where`` of `Table.query`."""

    sample: float | None
    """The fraction in ``random() < fraction``, as ``sample`` of `Table.query`."""

    python: str | None
    """The source that Python evaluates for each remaining row; None: nothing."""

    rest: Callable[[Any], Any] | None

    def __str__(self) -> str:
        lines = [f"index:  {self.where or 'all rows'}"]
        if self.sample is not None:
            lines.append(f"sample: {self.sample:g}")
        return "\n".join([*lines, f"python: {self.python or 'nothing'}"])

    __repr__ = __str__


def read(function: Callable[[Any], Any], spec: Spec) -> Reading | None:
    """Returns how a function selects rows; None if its source cannot be read.

    Raises
    ------
    AttributeError
        The function uses a column that the dictionary lacks.
    TypeError
        The function compares a column with a value of another type.
    """
    found = returned(function)
    if found is None or not isinstance(function, FunctionType):
        return None
    arguments, body = found
    if any(isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield)) for node in ast.walk(body)):
        return None
    names = [each.arg for each in [*arguments.posonlyargs, *arguments.args]]
    if not names or arguments.vararg or arguments.kwarg:
        return None
    scope = _scope(function)
    if any(name not in scope.defaults for name in names[1:]):
        return None
    return _Reader(spec, names[0], scope).read(function, body)


@dataclass(frozen=True)
class _Scope:
    names: Mapping[str, Any]
    defaults: Mapping[str, Any]


def _scope(function: FunctionType) -> _Scope:
    code = function.__code__
    closure = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            pass
    positional = code.co_varnames[: code.co_argcount]
    values = function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    return _Scope({**function.__globals__, **closure, **defaults}, defaults)


class _Reader:
    def __init__(self, spec: Spec, row: str, scope: _Scope) -> None:
        self._spec = spec
        self._row = row
        self._scope = scope
        self._fields = {field.name: field for field in spec.keys + spec.columns}

    def read(self, function: FunctionType, body: ast.expr) -> Reading:
        sample: float | None = None
        pushed: list[Condition] = []
        rest: list[ast.expr] = []
        parts = _conjuncts(body)
        for part in parts:
            fraction = self._fraction(part)
            if fraction is not None:
                sample = fraction if sample is None else min(sample, fraction)
                continue
            found = self.condition(part, True)
            if found is not None:
                pushed.append(found)
            if found is None or not found.exact:
                rest.append(part)
        if sample is not None and sample <= 0:
            pushed, sample = [Condition(conditions.FALSE)], None
        where = conditions.both(pushed).sql
        return Reading(
            None if where == conditions.TRUE else where,
            None if sample is None or sample >= 1 else sample,
            " and ".join(_shown(part) for part in rest) if rest else None,
            self._compiled(function, rest, whole=len(rest) == len(parts)),
        )

    def _compiled(
        self, function: FunctionType, rest: list[ast.expr], whole: bool
    ) -> Callable[[Any], Any] | None:
        if whole or not rest:
            return function if rest else None
        body = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
        row = ast.arguments([], [ast.arg(self._row)], None, [], [], None, [])
        tree = ast.Expression(ast.Lambda(row, copy.deepcopy(body)))
        code = compile(ast.fix_missing_locations(tree), "<filter>", "eval")
        made: Callable[[Any], Any] = eval(code, dict(self._scope.names))
        return made

    def condition(self, node: ast.expr, want: bool) -> Condition | None:
        """A condition that is true where the node's truth is ``want``; None: Python decides."""
        try:
            return self._condition(node, want)
        except (Unreadable, RecursionError):
            return None

    def _condition(self, node: ast.expr, want: bool) -> Condition:
        known, value = self._value(node)
        if known:
            return Condition(conditions.TRUE if bool(value) == want else conditions.FALSE)
        match node:
            case ast.BoolOp(op, values):
                parts = [self.condition(each, want) for each in values]
                join_all = isinstance(op, ast.And) == want
                return conditions.both(parts) if join_all else conditions.either(parts)
            case ast.UnaryOp(ast.Not(), inner):
                return self._condition(inner, not want)
            case ast.IfExp(test, body, orelse):
                yes = conditions.both([self.condition(test, True), self.condition(body, want)])
                no = conditions.both([self.condition(test, False), self.condition(orelse, want)])
                return conditions.either([yes, no])
            case ast.Compare(left, ops, rights):
                pairs = zip([left, *rights[:-1]], ops, rights, strict=True)
                parts = [self._pair_or_none(*pair, want) for pair in pairs]
                return conditions.both(parts) if want else conditions.either(parts)
            case ast.Call(func, args, []):
                return self._call(func, args, want)
        return conditions.truth(self._term(node), want)

    def _pair_or_none(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, want: bool
    ) -> Condition | None:
        try:
            return self._pair(left, op, right, want)
        except Unreadable:
            return None

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr, want: bool) -> Condition:
        left_known, left_value = self._value(left)
        right_known, right_value = self._value(right)
        if isinstance(op, (ast.In, ast.NotIn)):
            want = want == isinstance(op, ast.In)
            if right_known:
                return conditions.is_in(self._term(left), right_value, want)
            if left_known:
                return conditions.call("contains", self._term(right), left_value, want)
            raise Unreadable
        if isinstance(op, (ast.Is, ast.IsNot)):
            want = want == isinstance(op, ast.Is)
            if right_known and right_value is None:
                return conditions.is_none(self._term(left), want)
            raise Unreadable
        sign = _OPERATORS[type(op)]
        if left_known and right_known:
            raise Unreadable
        if left_known:
            return conditions.compare(self._term(right), conditions.flipped(sign), left_value, want)
        known = right_value if right_known else self._term(right)
        return conditions.compare(self._term(left), sign, known, want)

    def _call(self, func: ast.expr, args: list[ast.expr], want: bool) -> Condition:
        if isinstance(func, ast.Attribute) and not self._value(func)[0]:
            term = self._term(func.value)
            if func.attr == "is_integer" and not args:
                return conditions.is_integer(term, want)
            name = {"startswith": "starts_with", "endswith": "ends_with"}.get(func.attr)
            if name is not None and len(args) == 1:
                known, affix = self._value(args[0])
                if not known:
                    raise Unreadable
                if isinstance(affix, tuple):
                    parts = [conditions.call(name, term, each, want) for each in affix]
                    return conditions.either(parts) if want else conditions.both(parts)
                return conditions.call(name, term, affix, want)
        elif self._value(func) == (True, bool) and len(args) == 1:
            return self._condition(args[0], want)
        return conditions.truth(self._term(ast.Call(func, args, [])), want)

    def _term(self, node: ast.expr) -> Term:
        known, value = self._value(node)
        if known:
            return conditions.constant_term(value)
        found = self._column(node)
        if found is not None:
            return found
        match node:
            case ast.UnaryOp(ast.USub(), inner):
                term = self._number(inner)
                minus_one = -1 if term.family == "int" else -1.0
                return conditions.arithmetic("*", conditions.constant_term(minus_one), term)
            case ast.UnaryOp(ast.UAdd(), inner):
                return self._number(inner)
            case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
                return conditions.arithmetic(
                    _ARITHMETIC[type(op)], self._number(left), self._number(right)
                )
            case ast.BinOp(left, ast.Pow(), right) if self._value(right) == (True, 2):
                return conditions.square(self._number(left))
            case ast.Attribute(inner, "real"):
                return self._number(inner)
            case ast.Call(ast.Attribute(inner, "conjugate" | "__abs__" as name), [], []):
                term = self._number(inner)
                return self._absolute(term) if name == "__abs__" else term
            case ast.Call(func, args, []):
                return self._function(self._value(func)[1], args)
        raise Unreadable

    def _number(self, node: ast.expr) -> Term:
        term = self._term(node)
        if not term.numeric:
            raise Unreadable
        return term

    def _function(self, function: Any, args: list[ast.expr]) -> Term:
        if function is abs and len(args) == 1:
            return self._absolute(self._number(args[0]))
        if function is math.sqrt and len(args) == 1:
            return conditions.root([self._number(args[0])])
        if function is math.hypot and len(args) == 2:
            return conditions.root([self._number(each) for each in args])
        if function is len and len(args) == 1:
            term = self._term(args[0])
            if term.family == "text":
                return Term(f"length({term.sql})", "int", 40)
        raise Unreadable

    @staticmethod
    def _absolute(term: Term) -> Term:
        return Term(f"abs({term.sql})", term.family, term.bits + 1, term.approximate)

    def _column(self, node: ast.expr) -> Term | None:
        """The column of ``x.name``, ``x[0]``, ``x.name[1]``, ...; None for other nodes."""
        match node:
            case ast.Attribute(ast.Name(self._row), name):
                if name in self._fields:
                    return self._leaf(self._fields[name])
                return self._of_part(name)
            case ast.Subscript(ast.Name(self._row), ast.Constant(int(at))) if at in (0, 1):
                return self._of_part(("key", "value")[at])
            case ast.Subscript(inner, ast.Constant(int(at))):
                return self._member(inner, at)
        return None

    def _of_part(self, part: str) -> Term:
        if part not in ("key", "value"):
            known = ", ".join(self._fields)
            raise AttributeError(f"there is no column {part!r}; there are {known}")
        fields = self._spec.keys if part == "key" else self._spec.columns
        if len(fields) != 1:
            raise Unreadable
        return self._leaf(fields[0])

    def _leaf(self, field: Any) -> Term:
        if field.is_tuple:
            raise Unreadable
        return conditions.column(field.name, field.leaves[0].family)

    def _member(self, node: ast.expr, at: int) -> Term | None:
        """The column of ``x[0][at]``, ``x.value[at]`` or ``x.name[at]``."""
        part = ""
        match node:
            case ast.Attribute(ast.Name(self._row), name) if name in self._fields:
                field = self._fields[name]
                if field.is_tuple and 0 <= at < len(field.leaves):
                    leaf = field.leaves[at]
                    return conditions.column(leaf.name, leaf.family)
                raise Unreadable
            case ast.Attribute(ast.Name(self._row), "key" | "value" as attribute):
                part = str(attribute)
            case ast.Subscript(ast.Name(self._row), ast.Constant(int(side))) if side in (0, 1):
                part = ("key", "value")[side]
        if not part:
            return None
        fields = self._spec.keys if part == "key" else self._spec.columns
        if len(fields) > 1 and 0 <= at < len(fields):
            return self._leaf(fields[at])
        raise Unreadable

    def _fraction(self, node: ast.expr) -> float | None:
        """The fraction p in ``random() < p``; None for other nodes."""
        match node:
            case ast.Compare(left, [ast.Lt() | ast.LtE()], [right]):
                call, bound = left, right
            case ast.Compare(left, [ast.Gt() | ast.GtE()], [right]):
                call, bound = right, left
            case _:
                return None
        if not (isinstance(call, ast.Call) and not call.args and not call.keywords):
            return None
        if not self._is_random(call.func):
            return None
        known, value = self._value(bound)
        if not known or not isinstance(value, (int, float)) or math.isnan(value):
            return None
        return float(value)

    def _is_random(self, func: ast.expr) -> bool:
        known, value = self._value(func)
        if known:
            return bool(value == random.random)
        # `random.random()` counts even if `from random import random` made random a function.
        match func:
            case ast.Attribute(ast.Name(name), "random"):
                return bool(self._scope.names.get(name) == random.random)
        return False

    def _value(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether a node has a value without the row, and the value."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and (each.id == self._row or not self._sees(each.id)):
                return False, None
            if isinstance(each, (ast.Lambda, ast.comprehension, ast.Starred)):
                return False, None
            if isinstance(each, ast.Call) and not self._is_pure(each):
                return False, None
        code = compile(
            ast.fix_missing_locations(ast.Expression(copy.deepcopy(node))), "<filter>", "eval"
        )
        try:
            return True, eval(code, dict(self._scope.names))
        except Exception:  # the function raises it for the first row
            return False, None

    def _sees(self, name: str) -> bool:
        return name in self._scope.names or hasattr(builtins, name)

    def _is_pure(self, call: ast.Call) -> bool:
        known, function = self._value(call.func)
        try:
            return known and bool(function in _PURE)
        except TypeError:
            return False


def _conjuncts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for each in node.values for part in _conjuncts(each)]
    return [node]


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda)) else text
