"""Fronts and compositions: what users call in place of an operation's builder, whatever the order of definition."""
from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core import ops as families
from workbench.core.graph import build, opdef
from workbench.core.graph.build import check_fronts, front, ops, raw
from workbench.core.graph.graph import Graph
from workbench.core.graph.opdef import composed, op, registry


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """What a test defines goes away again."""
    tables: list[dict[str, Any]] = [registry, build.fronts, opdef.compositions]
    before = [dict(table) for table in tables]
    with Graph().as_default():
        yield
    for table, kept in zip(tables, before):
        table.clear()
        table.update(kept)


def _define_double() -> None:
    @op("x[...] -> [...]", name="double")
    def _(x: Any) -> Any:
        """2 x."""
        return 2 * x


def _define_front() -> Any:
    @front("double")
    def _(double: Any, x: Any, times: int = 1, name: str | None = None) -> Any:
        """x doubled `times` times."""
        for _ in range(times):
            x = double(x, name=name)
        return x
    return _


@pytest.mark.parametrize("order", [(_define_double, _define_front), (_define_front, _define_double)])
def test_a_front_works_in_any_order_of_lines(order: Any) -> None:
    for define in order:
        define()
    y = ops.double(np.float32(3), times=2)
    assert y.op.type == "double" and y.op.inputs[0].op.type == "double"
    with wb.Session() as session:
        assert session.run(y) == 12


def test_a_function_that_was_taken_before_its_front_does_not_stay() -> None:
    _define_double()
    with pytest.raises(errors.InvalidArgumentError, match="double: unknown arguments times; it takes x"):
        ops.double(3.0, times=2)
    _define_front()
    assert ops.double(3.0, times=2).op.inputs[0].op.type == "double"


def test_help_shows_the_front_and_the_builder_stays_the_operation() -> None:
    assert list(inspect.signature(ops.matmul).parameters) == ["a", "b", "transpose_a", "transpose_b", "name"]
    assert ops.matmul.__name__ == "matmul" and "The matrix product" in (ops.matmul.__doc__ or "")
    assert ops.matmul.__module__ == "workbench.core.ops.matrix"
    a = wb.placeholder("float32", [5, 2, 3])
    assert ops.matmul(a, wb.transpose(a, [0, 2, 1])).op.type == "batch_matmul"
    with pytest.raises(errors.ShapeError, match="matmul: a has rank 3"):      # the operation itself has no leading axes
        raw("matmul")(a, a)
    assert list(inspect.signature(raw("one_hot")).parameters)[:2] == ["indices", "depth"]


def test_the_builder_of_each_name_is_that_operation() -> None:
    for name in registry:
        assert raw(name) is raw(name) and raw(name).__name__ == name
        assert (getattr(ops, name) is raw(name)) == (name not in build.fronts)
    assert not set(registry) & set(opdef.compositions)


def test_a_front_without_an_operation_is_refused_once_all_are_loaded() -> None:
    check_fronts()
    _define_front()
    with pytest.raises(errors.UnimplementedError, match="@front: there is no operation 'double' behind it; define it with "
                                                        "@op, or use @composed"):
        check_fronts()


def test_a_name_has_one_meaning() -> None:
    _define_front()
    with pytest.raises(errors.AlreadyExistsError, match="@front: 'double' has a front already; keep one"):
        _define_front()
    with pytest.raises(errors.AlreadyExistsError, match="@op: 'dropout' is a function composed of operations; rename one"):
        op("x[...] -> [...]", name="dropout")(lambda x: x)
    for name in ("densify", "add"):
        def function() -> None: ...
        function.__name__ = name
        with pytest.raises(errors.AlreadyExistsError, match=f"@composed: {name!r} is defined already; rename one"):
            composed(function)


def test_a_composition_is_the_function_itself_and_is_listed() -> None:
    @composed
    def six_times(x: Any) -> Any:
        return ops.multiply(x, 6)
    assert ops.six_times is six_times and {"six_times", "matmul", "dropout"} <= set(dir(ops))
    assert ops.six_times(2.0).op.type == "multiply"


_FAMILIES_IN_ORDER = """
import importlib, inspect, sys
load, order = importlib.import_module, sys.argv[1:]
def in_order(name, package=None):
    while order and name.startswith("workbench.core.ops."):
        load(order.pop(0))
    return load(name, package)
importlib.import_module = in_order
from workbench.core.graph.build import ops
print([name for name in sys.modules if name.startswith("workbench.core.ops.")][0])
for name in dir(ops):
    function = getattr(ops, name)
    print(name, function.__module__, function.__name__, inspect.signature(function))
"""


def test_another_order_of_the_families_gives_the_same_functions() -> None:
    listed = [f"{families.__name__}.{name}" for name in families.__all__]
    found = [subprocess.run([sys.executable, "-c", _FAMILIES_IN_ORDER, *names], capture_output=True, text=True,
                            check=True).stdout.splitlines() for names in (listed, listed[::-1])]
    assert [lines[0] for lines in found] == [listed[0], listed[-1]] and found[0][1:] == found[1][1:]
    assert "matmul workbench.core.ops.matrix matmul (a, b, transpose_a=False, transpose_b=False, name=None)" in found[0]


def test_no_family_keeps_a_function_of_ops_when_it_is_loaded() -> None:
    """What is taken before all families are loaded would depend on their order."""
    taken = []
    for path in sorted(Path(families.__file__).parent.glob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                taken += [f"{path.name}:{node.lineno}" for node in _outside_functions(statement)
                          if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ops"]
    assert not taken


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from _outside_functions(child)
