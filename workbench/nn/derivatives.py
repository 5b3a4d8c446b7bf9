"""Derivatives beyond gradients: functions with gradients of their own, and Hessians."""
from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from workbench import errors
from workbench.core.grad import RegisterGradient, gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import GraphKeys, Variable

__all__ = ["custom_gradient", "hessians"]

_numbers = itertools.count()


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: `f(*tensors)` returns (result or list of results, function of their gradients), which returns the gradient
    of each argument.

    Where `f` reads variables, that function also takes them, as `variables=`, and returns (gradients of the arguments, of the
    variables); TypeError where it does not take them.
    """
    @functools.wraps(f)
    def call(*args: Any) -> Any:
        inputs = [ops.identity(convert(arg)) for arg in args]
        result, gradient = f(*inputs)
        single = not isinstance(result, (list, tuple))
        results = [convert(r) for r in ([result] if single else result)]
        read = _read_between(results, inputs)
        if read and not _takes(gradient, "variables"):
            raise TypeError(f"custom_gradient: the gradient of {getattr(f, '__name__', 'f')} must accept keyword argument "
                            f"'variables', since the function uses variables: {', '.join(v.name for v in read.values())}")
        title = f"CustomGradient-{next(_numbers)}"

        @RegisterGradient(title)
        def _(_op: Any, *dys: Any) -> list[Any]:
            given = dys[:len(results)]
            by_inputs, by_variables = gradient(*given, variables=list(read.values())) if read else (gradient(*given), [])
            return [None] * len(results) + _one_each(f, "arguments", inputs, by_inputs) + _one_each(
                f, "variables", read, by_variables)
        with get_default_graph().gradient_override_map({"identity_together": title}):
            found = ops.identity_together([*results, *inputs, *read])[:len(results)]
        return found[0] if single else type(result)(found)
    return call


def _read_between(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> dict[Tensor, Variable]:
    """Variables that are read on the way from `inputs` to `results`, by their handles where they are read."""
    seen, stack, handles = {t.op for t in inputs}, [t.op for t in results], dict[Tensor, None]()
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.kind == "read_variable":
            handles[op.inputs[0]] = None
        else:
            stack += [t.op for t in op.inputs]
    found = {handle: _variable(handle) for handle in handles}
    return {handle: variable for handle, variable in found.items() if variable is not None}


def _variable(handle: Tensor) -> Variable | None:
    """The variable of a handle, or of what stands for it in a body, that has gradients."""
    inner: Tensor | None = handle
    while inner is not None:
        outer, inner = inner, inner.graph.outside(inner)
    graph = root_graph(handle.graph)
    return next((v for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) if getattr(v, "handle", None) is outer), None)


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Has it a parameter of that name, or `**`?"""
    found = inspect.signature(function).parameters
    return name in found or any(p.kind is p.VAR_KEYWORD for p in found.values())


def _one_each(f: Any, what: str, wanted: Collection[Any], given: Any) -> list[Any]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(listed) != len(wanted):
        raise errors.InvalidArgumentError(f"custom_gradient: {getattr(f, '__name__', 'f')} takes {len(wanted)} {what} but its "
                                          f"gradient returns {len(listed)}; return one for each")
    return listed


def hessians(ys: Any, xs: Any, name: str = "hessians", colocate_gradients_with_ops: bool = False, gate_gradients: bool = False,
             aggregation_method: int | None = None) -> list[Tensor]:
    """The second derivatives of sum(ys) by each of xs: of shape [*x, *x].

    InvalidArgumentError where ys do not depend on an x.
    """
    options: dict[str, Any] = {"colocate_gradients_with_ops": colocate_gradients_with_ops, "gate_gradients": gate_gradients,
                               "aggregation_method": aggregation_method}
    with get_default_graph().name_scope(name):
        return [_hessian(ys, x, options) for x in (xs if isinstance(xs, (list, tuple)) else [xs])]


def _hessian(ys: Any, x: Any, options: dict[str, Any]) -> Tensor:
    tensor = convert(x)
    [slope] = gradients(ys, [x], **options)
    if slope is None:
        raise errors.InvalidArgumentError(f"hessians: the ys do not depend on {tensor.name}; leave it out")
    flat = ops.reshape(convert(slope), [-1])

    def row(i: Tensor) -> Tensor:
        [found] = gradients(ops.gather(flat, i), [x], **options)
        return ops.zeros_like(tensor) if found is None else convert(found)
    rows = ops.map_fn(row, ops.range(ops.size(flat)), dtype=tensor.dtype)
    shape = ops.shape(tensor)
    result = ops.reshape(rows, ops.concat([shape, shape], axis=0))
    if tensor.shape.sizes is not None:
        result.set_shape([*tensor.shape.sizes, *tensor.shape.sizes])
    return result
