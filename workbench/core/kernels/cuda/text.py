"""CUDA's C++ for the expression of an element that an operation states, `elementwise="x * x"`: text in, text out."""
from __future__ import annotations

import ast
from collections.abc import Mapping

from workbench import errors

__all__ = ["PREAMBLE", "TYPES", "translated"]

TYPES = {"bool": "bool", "float16": "float", "float32": "float", "float64": "double", "int8": "signed char", "int16": "short",
         "int32": "int", "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
         "uint64": "unsigned long long"}
"""Element type -> the type in which its expressions are computed; halves in float32."""

PREAMBLE = """
template <typename T> __device__ T largest(T x, T y) { return x >= y || x != x ? x : y; }
template <typename T> __device__ T smallest(T x, T y) { return x <= y || x != x ? x : y; }
template <typename T> __device__ T sigmoid(T x) { T e = exp(-fabs(x)); return (x < T(0) ? e : x != x ? x : T(1)) / (e + T(1)); }
"""
_FUNCTIONS = {"maximum": "largest", "minimum": "smallest", "abs": "fabs", **{name: name for name in (
    "sigmoid", "exp", "expm1", "log", "log1p", "sqrt", "erf", "erfc", "floor", "ceil", "sin", "cos", "tan", "tanh")}}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARED = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def translated(expression: str, names: Mapping[str, str], number: str) -> str:
    """`expression` over the C++ expressions `names` of its inputs, where its own numbers are of the C++ type `number`.

    InvalidArgumentError for what is no arithmetic, comparison, `a if c else b` or known function.
    """
    def write(node: ast.AST) -> str:
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return f"({number})({node.value!r})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"(-{write(node.operand)})"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return f"pow({write(node.left)}, {write(node.right)})"
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return f"({write(node.left)} {_BINARY[type(node.op)]} {write(node.right)})"
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            return f"({write(node.left)} {_COMPARED[type(node.ops[0])]} {write(node.comparators[0])})"
        if isinstance(node, ast.IfExp):
            return f"({write(node.test)} ? {write(node.body)} : {write(node.orelse)})"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return f"{_FUNCTIONS[node.func.id]}({', '.join(map(write, node.args))})"
        raise errors.InvalidArgumentError(f"elementwise={expression!r}: {ast.unparse(node)!r} is not known on CUDA devices; "
                                          f"write arithmetic, comparisons and {', '.join(sorted(_FUNCTIONS))}")
    return write(ast.parse(expression, mode="eval").body)
