"""Test files read as Python and NumPy of their time read them: arrays of one element are numbers for `int` and `float`."""
from __future__ import annotations

import ast
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

NUMBERS = {"int": int, "float": float}
METHODS = {"tostring": "tobytes", "iteritems": "items", "itervalues": "values"}


def number(kind: str, value: Any = 0, *more: Any) -> Any:
    """int or float of a value, of an array of one element too."""
    return NUMBERS[kind](value.item() if isinstance(value, np.ndarray) and value.size == 1 else value, *more)


class Older(ast.NodeTransformer):
    """Calls of `int` and `float` go to `number`, methods that are gone to those of now."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in NUMBERS:
            return ast.Call(ast.Name("number_then", ast.Load()), [ast.Constant(node.func.id), *node.args], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Name) and node.value.id == "six"):      # which has its own for both
            node.attr = METHODS.get(node.attr, node.attr)
        return node


def compiled(path: Path) -> CodeType:
    """The code of a file of that time."""
    tree = Older().visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def run_file(path: Path, names: dict[str, Any]) -> dict[str, Any]:
    """The names of a file, after it was run among these."""
    names.update(__file__=str(path), number_then=number)
    exec(compiled(path), names)      # a test file that the caller asked for
    return names
