"""Queries: an expression over the columns of a table, checked against an allow-list, and compiled to one fused ufunc.

A query is the sum of an expression over all rows, such as::

    price * (1 - discount) if quantity < 24 and day >= 365 else 0

It is written in a small part of Python: columns, numbers, arithmetic, comparisons, ``and``, ``or``, ``not``, ``a if c
else b``, and the functions in :data:`FUNCTIONS`. Whatever else is in it is refused before anything is compiled.
"""

from __future__ import annotations

import ast
import math
import sys
from hashlib import sha256
from typing import Any, Final, NamedTuple

FUNCTIONS: Final = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "abs": abs,
    "min": min,
    "max": max,
}
MAX_LENGTH: Final = 2000
"""The longest expression [characters]."""
_ALLOWED: Final = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Load,
    ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd, ast.Not, ast.And, ast.Or, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip


class BadQueryError(ValueError):
    """An expression isn't a query; the message is one line that says why."""


class Query(NamedTuple):
    """A query that may be compiled."""

    expression: str
    """In one spelling: queries that differ in blanks and brackets alone are one query."""
    columns: tuple[str, ...]
    """What it reads, sorted."""

    @property
    def name(self) -> str:
        """The name that it is published under: the same for everybody who asks the same."""
        return f"queries.{sha256(self.expression.encode()).hexdigest()}"


def parse(text: Any, known: tuple[str, ...]) -> Query:
    """Return the query that an expression is, over a table with these columns; raise BadQueryError."""
    if not isinstance(text, str):
        raise BadQueryError('the expression is no text: ask with {"expression": "price * 2"}')
    if len(text) > MAX_LENGTH:
        raise BadQueryError(f"the expression is longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise BadQueryError(f"not an expression: {text!r:.80}") from error
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    columns: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise BadQueryError(f"{type(node).__name__} is nothing that a query may consist of")
        if isinstance(node, ast.Constant) and type(node.value) not in {int, float}:
            raise BadQueryError(f"{node.value!r:.40} is not a number")
        if isinstance(node, ast.Constant) and abs(node.value) > sys.float_info.max:
            raise BadQueryError("a number is too large")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise BadQueryError(f"only {', '.join(FUNCTIONS)} can be called")
        if isinstance(node, ast.Name) and id(node) not in called:
            if node.id not in known:
                raise BadQueryError(f"there is no column {node.id:.40}: there are {', '.join(known)}")
            columns.add(node.id)
    if not columns:
        raise BadQueryError("the expression reads no column")
    try:
        return Query(ast.unparse(tree), tuple(sorted(columns)))
    except RecursionError as error:
        raise BadQueryError("the expression is nested too deeply") from error


def fuse(query: Query) -> Any:
    """Compile a query to one ufunc over its columns, in which every row is read once and nothing is in between.

    Raises BadQueryError for what can't be compiled, such as a function of too many arguments.
    """
    import numba  # only who compiles has it

    namespace: dict[str, Any] = {**FUNCTIONS, "__name__": "query_service.fused"}
    tree = ast.parse(f"def fused({', '.join(query.columns)}):\n    return {query.expression}\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = float(node.value)  # integers would wrap around at 2**63
    exec(compile(tree, "query", "exec"), namespace)  # the expression passed the allow-list
    signature = f"float64({', '.join(['float64'] * len(query.columns))})"
    try:
        return numba.vectorize([signature])(namespace["fused"])
    except numba.core.errors.NumbaError as error:
        raise BadQueryError(f"it can't be compiled: {query.expression:.80}") from error
