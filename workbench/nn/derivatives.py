"""Derivatives beyond gradients: functions with gradients of their own, and Hessians."""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.core.grad import RegisterGradient, gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["custom_gradient", "hessians"]

_numbers = itertools.count()


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: `f(*tensors)` returns (result or list of results, function of their gradients), which returns the gradient
    of each argument."""
    @functools.wraps(f)
    def call(*args: Any) -> Any:
        inputs = [ops.identity(convert(arg)) for arg in args]
        result, gradient = f(*inputs)
        single = not isinstance(result, (list, tuple))
        results = [convert(r) for r in ([result] if single else result)]
        title = f"CustomGradient-{next(_numbers)}"

        @RegisterGradient(title)
        def _(_op: Any, *dys: Any) -> list[Any]:
            found = gradient(*dys[:len(results)])
            listed = list(found) if isinstance(found, (list, tuple)) else [found]
            if len(listed) != len(inputs):
                raise errors.InvalidArgumentError(f"custom_gradient: {getattr(f, '__name__', 'f')} takes {len(inputs)} "
                                                  f"arguments but its gradient returns {len(listed)}; return one for each")
            return [None] * len(results) + listed
        with get_default_graph().gradient_override_map({"identity_together": title}):
            found = ops.identity_together([*results, *inputs])[:len(results)]
        return found[0] if single else type(result)(found)
    return call


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
