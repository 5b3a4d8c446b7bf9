"""Python 3.5 and NumPy 1.13, with which programs of TensorFlow 1.x were written: for `python -m workbench.tf1 run` alone.

Names that have gone since have the meaning they had; numbers are printed as they were; and in the script, and what it imports
from its folder or the current one, `int` and `float` take arrays of one element, `np.array` takes rows of different lengths,
a list with slices is an index, an element takes an array of one, arrays and dicts have older methods, `async` may be a name.
Python 2 and packages that are not installed are not offered.
"""
from __future__ import annotations

import ast
import builtins
import collections
import collections.abc
import fractions
import functools
import inspect
import io
import itertools
import math
import os
import sys
import time
import tokenize
import unittest
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ArgSpec", "SourceThen", "argspec", "names_then", "run_main", "sources_then"]

OF_NUMPY = {**{name: getattr(builtins, name) for name in ("int", "float", "object", "complex", "str")},
            "asscalar": lambda a: a.item(), "product": np.prod, "alltrue": np.all, "sometrue": np.any,
            "cumproduct": np.cumprod, "in1d": np.isin, "float_": np.float64, "complex_": np.complex128, "unicode_": np.str_,
            "string_": np.bytes_, "unicode": np.str_, "asfarray": functools.partial(np.asarray, dtype=np.float64),
            "Inf": np.inf, "Infinity": np.inf, "NaN": np.nan, "infty": np.inf, "PINF": np.inf, "NINF": -np.inf,
            "row_stack": np.vstack, "trapz": np.trapezoid, "round_": np.round, "find_common_type": np.result_type}
"""What NumPy no longer has, or (`int` to `str`) what had Python's own meaning. `np.bool` stays: NumPy itself uses it."""
OF_UNITTEST = {"assertItemsEqual": "assertCountEqual", "assertRaisesRegexp": "assertRaisesRegex", "assertEquals": "assertEqual",
               "assertNotEquals": "assertNotEqual", "assertRegexpMatches": "assertRegex", "assert_": "assertTrue",
               "assertNotRegexpMatches": "assertNotRegex", "assertAlmostEquals": "assertAlmostEqual",
               "assertNotAlmostEquals": "assertNotAlmostEqual", "failUnless": "assertTrue", "failIf": "assertFalse"}
NUMBERS = {"int": int, "float": float}
ARRAYS = ("array", "asarray")
METHODS = {"tostring": "tobytes", "iteritems": "items", "itervalues": "values", "iterkeys": "keys"}


class ArgSpec(NamedTuple):
    """The arguments of a function, as Python told them before 3.11."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def argspec(function: Any) -> ArgSpec:
    """Names and defaults of the arguments of a function, as `inspect.getargspec` gave them."""
    return ArgSpec(*inspect.getfullargspec(function)[:4])


def _random_integers(low: int, high: int | None = None, size: Any = None) -> Any:
    return np.random.randint(*((1, low + 1) if high is None else (low, high + 1)), size)


def _joining(function: Any) -> Any:
    """A NumPy function of a sequence of arrays that takes any iterable of them."""
    @functools.wraps(function)
    def joined(tup: Any, *arguments: Any, **options: Any) -> Any:
        return function(tup if isinstance(tup, (Sequence, np.ndarray)) else list(tup), *arguments, **options)
    return joined


def _interpolated(function: Any) -> Any:
    """A NumPy function that calls its `method` `interpolation` too."""
    @functools.wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        if "interpolation" in options:
            options["method"] = options.pop("interpolation")
        return function(*arguments, **options)
    return called


def _listing(function: Any) -> Any:
    """A NumPy function that gives a list, where it gives a tuple now."""
    return functools.wraps(function)(lambda *arguments, **options: list(function(*arguments, **options)))


GENERAL = {int: np.signedinteger, float: np.floating, complex: np.complexfloating}


def _issubdtype(arg1: Any, arg2: Any) -> bool:
    """Python's own types mean all of their kind: float32 is a `float`."""
    return _issubdtype_now(arg1, GENERAL.get(arg2, arg2) if isinstance(arg2, type) else arg2)


_issubdtype_now = np.issubdtype


def _reshape(a: Any, shape: Any = None, order: Any = "C", newshape: Any = None) -> Any:
    return _reshape_now(a, shape if newshape is None else newshape, order)


_reshape_now = np.reshape


def _fill(module: ModuleType | type, names: dict[str, Any]) -> None:
    for name, thing in names.items():
        if name not in vars(module):
            setattr(module, name, thing)


def names_then() -> None:
    """From here on the modules of this process have the names they had then."""
    _fill(np, OF_NUMPY)
    _fill(inspect, {"getargspec": argspec})
    _fill(time, {"clock": time.process_time})
    _fill(fractions, {"gcd": math.gcd})
    _fill(collections, {name: getattr(collections.abc, name) for name in collections.abc.__all__})
    _fill(unittest.TestCase, {name: getattr(unittest.TestCase, now) for name, now in OF_UNITTEST.items()})
    np.random.random_integers = _random_integers      # type: ignore[assignment]
    np.vstack, np.hstack, np.stack = _joining(np.vstack), _joining(np.hstack), _joining(np.stack)
    np.percentile, np.nanpercentile = _interpolated(np.percentile), _interpolated(np.nanpercentile)
    np.meshgrid = _listing(np.meshgrid)
    np.issubdtype = _issubdtype
    np.reshape = _reshape      # type: ignore[assignment]
    np.set_printoptions(legacy="1.13")      # as programs of then print what they find


# sources

def _number(kind: str, value: Any = 0, *more: Any, **options: Any) -> Any:
    """int or float of a value, of an array of one element too."""
    return NUMBERS[kind](value.item() if isinstance(value, np.ndarray) and value.size == 1 else value, *more, **options)


def _array(function: Any, value: Any, *more: Any, **options: Any) -> Any:
    """An array of `value`: of rows of different lengths one of objects, unless a dtype is given."""
    try:
        return function(value, *more, **options)
    except ValueError as error:
        if "inhomogeneous shape" not in str(error) or more or "dtype" in options:
            raise
    return function(value, dtype=object, **options)


def _index(given: Any) -> Any:
    """An index as it is; a list with slices is one for each axis."""
    parts = type(given) is list and any(isinstance(one, slice) or one is None or one is Ellipsis for one in given)
    return tuple(given) if parts else given


class _Store:
    """An array of numbers whose elements may be set to arrays of one element."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, place: Any) -> Any:      # `x[i] += y` reads it first
        return self.array[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        try:
            self.array[place] = value
        except (TypeError, ValueError):
            if not isinstance(value, np.ndarray) or value.size != 1:
                raise
            self.array[place] = value.item()


def _store(given: Any) -> Any:
    """What `given[place] = value` stores into."""
    return _Store(given) if type(given) is np.ndarray and given.dtype.kind in "biufc" else given


class _Older(ast.NodeTransformer):
    """Calls of `int` and `float` go to `_number`, of `np.array` to `_array`, indices of modules that make slices to `_index`,
    what elements are stored into to `_store`, methods that are gone to those of now."""

    def __init__(self, tree: ast.AST) -> None:
        self.slices = any(isinstance(node, ast.Name) and node.id == "slice" for node in ast.walk(tree))
        self.modules = {name.asname or name.name for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))
                        for name in node.names if isinstance(node, ast.Import) or name.name == "six"}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if self.slices and isinstance(node.slice, (ast.Name, ast.BinOp, ast.Call, ast.List, ast.ListComp)):
            node.slice = ast.Call(ast.Name("index_then", ast.Load()), [node.slice], [])
        if isinstance(node.ctx, ast.Store):
            node.value = ast.Call(ast.Name("store_then", ast.Load()), [node.value], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in NUMBERS:
            return ast.Call(ast.Name("number_then", ast.Load()), [ast.Constant(node.func.id), *node.args], node.keywords)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ARRAYS and node.args and isinstance(
                node.func.value, ast.Name) and node.func.value.id in ("np", "numpy"):
            return ast.Call(ast.Name("array_then", ast.Load()), [node.func, *node.args], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Name) and node.value.id in self.modules):      # six has its own for both
            node.attr = METHODS.get(node.attr, node.attr)
        return node


def _parsed(source: bytes, path: str) -> ast.Module:
    """The syntax tree of a source, in which `async` may be a name, as it might until Python 3.7."""
    try:
        return ast.parse(source, path)
    except SyntaxError:
        if b"async" not in source:
            raise
    return ast.parse(_async_as_name(source), path)


def _async_as_name(source: bytes) -> str:
    """The source with each `async` that begins no statement written so that Python reads a name.

    Python compares words with its keywords as they are written and names after compatible letters became one (NFKC): a wide
    `a` makes no keyword, and the name is `async` all the same.
    """
    lines = source.decode(tokenize.detect_encoding(io.BytesIO(source).readline)[0]).splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(iter(lines).__next__))
    for token, following in reversed(list(itertools.pairwise(tokens))):      # from the end: columns before it stay
        if token.string == "async" and token.type == tokenize.NAME and following.string not in ("def", "for", "with"):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\uff41" + lines[row - 1][column + 1:]
    return "".join(lines)


class SourceThen(SourceFileLoader):
    """Reads a module as a source of that time, where `sources_then` was called; nothing of it is kept on disk."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree: Any = _parsed(self.get_data(path), path)
        return self.source_to_code(ast.fix_missing_locations(_Older(tree).visit(tree)), path)


class _Sources(MetaPathFinder):
    """Finds the modules of some folders, to be read as sources of then."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = folders

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or not self.own(Path(spec.loader.path)):
            return None      # whoever else finds it
        spec.loader = SourceThen(spec.loader.name, spec.loader.path)
        return spec

    def own(self, file: Path) -> bool:
        """Is this file of the program, and no package that was installed, nor one of ours?"""
        file = file.resolve()
        return "site-packages" not in file.parts and Path(__file__).resolve().parents[1] not in file.parents and any(
            folder in file.parents for folder in self.folders)


def sources_then(script: str) -> None:
    """From here on modules in the folder of `script`, and in the current one, are read as sources of that time."""
    vars(builtins).update(number_then=_number, array_then=_array, index_then=_index, store_then=_store)
    folders = [Path(script).resolve().parent, Path(os.getcwd()).resolve()]
    sys.meta_path.insert(0, _Sources(folders))


def run_main(script: str) -> None:
    """Run a file as the module `__main__`, read as a source of that time."""
    loader = SourceThen("__main__", script)
    module = sys.modules["__main__"] = ModuleType("__main__")
    vars(module).update(__file__=script, __builtins__=builtins, __loader__=loader)
    loader.exec_module(module)
