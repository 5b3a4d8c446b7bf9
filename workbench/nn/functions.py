"""Defun: functions whose calls are parts of a graph, with gradients of their own where they have them."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.derivatives import custom_gradient

__all__ = ["Declare", "Defun"]


class Defun:
    """Decorator: calls of the function add its operations to the graph, each call under a name scope of its own.

    `input_types` are the dtypes of its arguments; without them those of the arguments count. `func_name` is its name, by
    default the Python function's. `grad_func(*inputs, *output gradients)`, or `python_grad_func(operation, *output gradients)`
    with an operation whose `inputs` and `outputs` are those of the call, gives the gradient of each input.
    `shape_func(operation)` gives the shapes of the results, which are added to what follows from the operations. What it
    reads from outside stays as it is: `captured_inputs`. InvalidArgumentError for another number of arguments, DtypeError
    for other dtypes.
    """

    def __init__(self, *input_types: Any, func_name: str | None = None, grad_func: Any = None,
                 python_grad_func: Callable[..., Any] | None = None, out_names: Any = None, shape_func: Any = None,
                 noinline: bool = False) -> None:
        if grad_func is not None and python_grad_func is not None:
            raise errors.InvalidArgumentError("Defun: grad_func and python_grad_func are two ways to give one gradient; give "
                                              "one")
        if out_names is not None:
            raise errors.UnimplementedError("Defun: out_names is not offered: names follow from the results; leave it out")
        self._types = [as_dtype(t) for t in input_types]
        self._name, self._gradient, self._python, self._shapes = func_name, grad_func, python_grad_func, shape_func

    def __call__(self, function: Callable[..., Any]) -> Function:
        return Function(function, self._name or function.__name__, self._types, self._gradient, self._python, self._shapes)


class Declare:
    """The name of a function that is defined later, which a gradient may name: not needed here, where calls are built."""

    def __init__(self, func_name: str, inputs: Any, outputs: Any) -> None:
        raise errors.UnimplementedError(f"Declare: {func_name!r} of {len(inputs)} inputs and {len(outputs)} outputs is not "
                                        "offered; define the function with Defun before its first call")


class Function:
    """What Defun makes: call it with tensors."""

    def __init__(self, function: Callable[..., Any], name: str, types: list[Any], gradient: Any,
                 python: Callable[..., Any] | None, shapes: Callable[..., Any] | None) -> None:
        self._function, self._types, self._gradient, self._python, self._shapes = function, types, gradient, python, shapes
        self.name, self.declared_input_types = name, types
        self.captured_inputs: list[Tensor] = []
        self.__doc__ = function.__doc__
        count = len([p for p in inspect.signature(function).parameters.values() if p.default is p.empty
                     and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
        if types and len(types) < count:
            raise errors.InvalidArgumentError(f"Defun: {name} takes {count} arguments but {len(types)} input types are given; "
                                              "give the type of each")

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        """What the function returns for these arguments, as part of the default graph."""
        if self._types and len(args) != len(self._types):
            raise errors.InvalidArgumentError(f"{self.name}: {len(args)} arguments were given but it takes {len(self._types)}; "
                                              "give each")
        graph = get_default_graph()
        with graph.name_scope(name or self.name):
            inputs = [ops.identity(convert(arg, dtype)) for arg, dtype in zip(args, self._types or [None] * len(args))]
            before = len(graph.operations)
            result = self._built(inputs)
            if self._shapes is not None:
                call = _Call(tuple(inputs), result if isinstance(result, tuple) else (result,))
                for output, shape in zip(call.outputs, self._shapes(call)):
                    output.set_shape(shape)
            self._note(graph.operations[before:], inputs)
        return result

    def _built(self, inputs: list[Tensor]) -> Any:
        if self._gradient is None and self._python is None:
            return self._results(self._function(*inputs))

        def both(*given: Tensor) -> tuple[Any, Callable[..., Any]]:
            made = self._results(self._function(*given))
            return made, lambda *dys: self._slopes(given, made, dys)
        return custom_gradient(both)(*inputs)

    def _results(self, made: Any) -> Any:
        if made is None:
            return get_default_graph().create("no_op", (), {}, self.name)
        return tuple(convert(m) for m in made) if isinstance(made, (list, tuple)) else convert(made)

    def _slopes(self, given: tuple[Tensor, ...], made: Any, dys: tuple[Any, ...]) -> Any:
        if self._python is None:
            return self._gradient(*given, *dys)
        return self._python(_Call(given, made if isinstance(made, tuple) else (made,)), *dys)

    def _note(self, added: list[Operation], inputs: list[Tensor]) -> None:
        """Which tensors from outside does it read?"""
        inside = {t for op in added for t in op.outputs}.union(inputs)
        outside = dict.fromkeys(t for op in added for t in op.inputs if t not in inside)
        self.captured_inputs = list(outside)


class _Call:
    """What a Python gradient is told of a call."""

    def __init__(self, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
        self.inputs, self.outputs = inputs, outputs
