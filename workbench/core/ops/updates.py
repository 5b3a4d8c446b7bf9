"""The update rules of optimizers, each one atomic operation on a variable and its slots, dense or by rows."""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import add_rows, check_rows, multiplied
from workbench.core.graph.opdef import op
from workbench.core.graph.program import told
from workbench.core.graph.shape import Shape
from workbench.core.state.together import update_together
from workbench.core.state.variables import VariableState, at_once, updates

Array = np.ndarray[Any, Any]


def _dense(states: int, grad: int) -> Callable[..., list[Shape]]:
    """Shape rule: the gradient and the slots have the variable's shape."""
    def rule(inputs: Sequence[Any], attrs: Any) -> list[Shape]:
        shape = inputs[grad].shape
        for handle in inputs[:states]:
            if handle.op.kind == "variable":
                made = handle.op
                if made.attrs["dtype"] is not inputs[grad].dtype:
                    raise errors.DtypeError(f"update: variable {made.name!r} is {made.attrs['dtype'].name} but the "
                                            f"gradient {inputs[grad].name} is {inputs[grad].dtype.name}; cast it")
                shape = told(made).merge(shape, f"update: {made.name!r} and {inputs[grad].name}")
        return [shape]
    return rule


def _sparse(inputs: Sequence[Any], attrs: Any) -> list[Shape]:
    return [told(inputs[0].op if inputs[0].op.kind == "variable" else None)]


def _kernel(function: Callable[..., None]) -> Callable[..., None]:
    updates[function.__name__.strip("_")] = function
    return function


def _same_shape(where: str, state: VariableState, grad: Array) -> None:
    held = state.dims()
    if grad.shape != held:
        raise _misfit(where, state, held, grad)


def _misfit(where: str, state: VariableState, held: tuple[int, ...], grad: Array) -> errors.ShapeError:
    return errors.ShapeError(f"{where}: variable {state.name!r} has shape {list(held)} but its gradient has "
                             f"{list(grad.shape)}; reshape the gradient")


def _check_rows(where: str, state: VariableState, indices: Array) -> None:
    check_rows(where, indices, state.dims()[0], f"variable {state.name!r} has {{}} rows")


def _summed(indices: Array, grad: Array) -> tuple[Array, Array]:
    found, inverse = np.unique(indices, return_inverse=True)
    if found.size == indices.size:
        return indices, grad
    total = np.zeros((found.size, *grad.shape[1:]), grad.dtype)
    add_rows(total, inverse.reshape(-1), grad)
    return found, total


def _rows_too(states: int, grad: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Beside a rule for whole variables, `<rule>_rows` for some of their rows: kernel(*olds, rows, *other inputs, *outs).

    Of the other inputs number `grad` is the gradient of the rows; those of a row that is named again add up (paper §4.2).
    """
    def register(dense: Callable[..., None]) -> Callable[..., None]:
        name = _kernel(dense).__name__.strip("_")

        def on_rows(*given: Any) -> None:
            olds, arguments, outs = given[:states], [*given[states + 1:-states]], given[-states:]
            rows, arguments[grad] = _summed(given[states], arguments[grad])
            parts = [old[rows] for old in olds]
            updates[name](*parts, *arguments, *parts)
            for old, out in zip(olds, outs):
                if out is not old:
                    np.copyto(out, old)
            at_once(*((operator.setitem, out, rows, part) for out, part in zip(outs, parts)))
        updates[f"{name}_rows"] = on_rows
        return dense
    return register


# gradient descent

@_kernel
def _apply_gradient_descent(old: Array, lr: Array, grad: Array, out: Array) -> None:
    step = np.multiply(grad, lr, out=np.empty_like(old))
    np.subtract(old, step, out=out)


@op("handle[] lr[] grad? -> ?", types="resource T:float T -> T", shape=_dense(1, 2), stateful=True,
    differentiable=False)
def apply_gradient_descent(handle: VariableState, lr: Array, grad: Array) -> Array:
    """variable -= lr · grad; gives the new value."""
    _same_shape("apply_gradient_descent", handle, grad)
    return handle.update(updates["apply_gradient_descent"], lr, grad)


def _product(inputs: Sequence[Any], attrs: Any) -> list[Shape]:
    return [told(inputs[0].op if inputs[0].op.kind == "variable" else None)]


@op("handle[] lr[] a? b? -> ?", types="resource T:float T T -> T", shape=_product, stateful=True,
    differentiable=False)
def apply_matmul_descent(handle: VariableState, lr: Array, a: Array, b: Array, *, transpose_a: bool = False,
                         transpose_b: bool = False) -> Array:
    """variable -= lr · (a @ b), made by passes/epilogue.py from a weight's gradient and its update."""
    grad = multiplied(a.T if transpose_a else a, b.T if transpose_b else b)
    _same_shape("apply_matmul_descent", handle, grad)
    return handle.update(updates["apply_gradient_descent"], lr, grad)


@_kernel
def _descend_rows(old: Array, rows: Array, lr: Array, grad: Array, out: Array) -> None:
    found, total = _summed(rows, grad)
    part = old[found]
    updates["apply_gradient_descent"](part, lr, total, part)
    if out is not old:
        np.copyto(out, old)
    out[found] = part


@op("handle[] lr[] grad? indices[n] -> ?", types="resource T:float T int -> T", shape=_sparse, stateful=True,
    differentiable=False)
def sparse_apply_gradient_descent(handle: VariableState, lr: Array, grad: Array, indices: Array) -> Array:
    """variable[indices[i]] -= lr · grad[i]; repeated indices add up."""
    _check_rows("sparse_apply_gradient_descent", handle, indices)
    return handle.update(updates["descend_rows"], indices, lr, grad, rows=indices)


# momentum

@_rows_too(2, 1)
def _apply_momentum(old: Array, old_accum: Array, lr: Array, grad: Array, momentum: Array, use_nesterov: bool,
                    out: Array, accum: Array) -> None:
    step = np.empty_like(old)
    ahead = [(np.multiply, accum, momentum, step), (np.add, step, grad, step), (np.multiply, step, lr, step)]
    at_once((np.multiply, old_accum, momentum, accum), (np.add, accum, grad, accum),
            *(ahead if use_nesterov else [(np.multiply, accum, lr, step)]),
            (np.subtract, old, step, out))


@op("handle[] accum[] lr[] grad? momentum[] -> ?", types="resource resource T:float T T -> T", shape=_dense(2, 3),
    stateful=True, differentiable=False)
def apply_momentum(handle: VariableState, accum: VariableState, lr: Array, grad: Array, momentum: Array, *,
                   use_nesterov: bool = False) -> Array:
    """accum = momentum · accum + grad; variable -= lr · accum (Nesterov: lr · (grad + momentum · accum))."""
    _same_shape("apply_momentum", handle, grad)
    return update_together((handle, accum), updates["apply_momentum"], lr, grad, momentum, use_nesterov)


@op("handle[] accum[] lr[] grad? indices[n] momentum[] -> ?", types="resource resource T:float T int T -> T",
    shape=_sparse, stateful=True, differentiable=False)
def sparse_apply_momentum(handle: VariableState, accum: VariableState, lr: Array, grad: Array, indices: Array,
                          momentum: Array, *, use_nesterov: bool = False) -> Array:
    """apply_momentum on the rows of `indices` alone; other rows of accum do not decay."""
    _check_rows("sparse_apply_momentum", handle, indices)
    return update_together((handle, accum), updates["apply_momentum_rows"], indices, lr, grad, momentum, use_nesterov,
                           rows=indices)


# Adam

@_kernel
def _apply_adam(old: Array, old_m: Array, old_v: Array, beta1_power: Array, beta2_power: Array, lr: Array, beta1: Array,
                beta2: Array, epsilon: Array, grad: Array, out: Array, m: Array, v: Array) -> None:
    rate = float(lr) * float(np.sqrt(1 - float(beta2_power))) / (1 - float(beta1_power))
    part = np.empty_like(old)
    at_once((np.subtract, grad, old_m, part), (np.multiply, part, 1 - float(beta1), part), (np.add, old_m, part, m),
            (np.multiply, grad, grad, part), (np.subtract, part, old_v, part),
            (np.multiply, part, 1 - float(beta2), part), (np.add, old_v, part, v),
            (np.sqrt, v, part), (np.add, part, epsilon, part), (np.divide, m, part, part),
            (np.multiply, part, rate, part), (np.subtract, old, part, out))


@_kernel
def _adam_table(old: Array, old_m: Array, old_v: Array, beta1_power: Array, beta2_power: Array, lr: Array, beta1: Array,
                beta2: Array, epsilon: Array, grad: Array, rows: Array, out: Array, m: Array, v: Array) -> None:
    whole = np.zeros_like(old)
    add_rows(whole, rows, grad)
    updates["apply_adam"](old, old_m, old_v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, whole, out, m, v)


_ADAM = "handle[] m[] v[] beta1_power[] beta2_power[] lr[] beta1[] beta2[] epsilon[] grad?"
_ADAM_TYPES = "resource resource resource T:float T T T T T T"


@op(f"{_ADAM} -> ?", types=f"{_ADAM_TYPES} -> T", shape=_dense(3, 9), stateful=True, differentiable=False)
def apply_adam(handle: VariableState, m: VariableState, v: VariableState, beta1_power: Array, beta2_power: Array,
               lr: Array, beta1: Array, beta2: Array, epsilon: Array, grad: Array) -> Array:
    """Adam (Kingma & Ba 2015, the form before section 2.1); `beta*_power` are beta* to the power of the step number.

    m += (1 - beta1)(grad - m); v += (1 - beta2)(grad² - v);
    variable -= lr · √(1 - beta2_power) / (1 - beta1_power) · m / (√v + epsilon).
    """
    _same_shape("apply_adam", handle, grad)
    return update_together((handle, m, v), updates["apply_adam"], beta1_power, beta2_power, lr, beta1, beta2, epsilon,
                           grad)


@op(f"{_ADAM} indices[n] -> ?", types=f"{_ADAM_TYPES} int -> T", shape=_sparse, stateful=True, differentiable=False)
def sparse_apply_adam(handle: VariableState, m: VariableState, v: VariableState, beta1_power: Array, beta2_power: Array,
                      lr: Array, beta1: Array, beta2: Array, epsilon: Array, grad: Array, indices: Array) -> Array:
    """apply_adam with a gradient that is zero outside `indices`: all rows move, because their moments decay."""
    _check_rows("sparse_apply_adam", handle, indices)
    return update_together((handle, m, v), updates["adam_table"], beta1_power, beta2_power, lr, beta1, beta2, epsilon,
                           grad, indices)


# Adagrad

@_rows_too(2, 1)
def _apply_adagrad(old: Array, old_accum: Array, lr: Array, grad: Array, out: Array, accum: Array) -> None:
    step = np.multiply(grad, grad, out=np.empty_like(old))
    at_once((np.add, old_accum, step, accum), (np.sqrt, accum, step), (np.divide, grad, step, step),
            (np.multiply, step, lr, step), (np.subtract, old, step, out))


@op("handle[] accum[] lr[] grad? -> ?", types="resource resource T:float T -> T", shape=_dense(2, 3), stateful=True,
    differentiable=False)
def apply_adagrad(handle: VariableState, accum: VariableState, lr: Array, grad: Array) -> Array:
    """accum += grad²; variable -= lr · grad / √accum (Duchi et al. 2011)."""
    _same_shape("apply_adagrad", handle, grad)
    return update_together((handle, accum), updates["apply_adagrad"], lr, grad)


@op("handle[] accum[] lr[] grad? indices[n] -> ?", types="resource resource T:float T int -> T", shape=_sparse,
    stateful=True, differentiable=False)
def sparse_apply_adagrad(handle: VariableState, accum: VariableState, lr: Array, grad: Array, indices: Array) -> Array:
    """apply_adagrad on the rows of `indices` alone; repeated indices are summed before they are squared."""
    _check_rows("sparse_apply_adagrad", handle, indices)
    return update_together((handle, accum), updates["apply_adagrad_rows"], indices, lr, grad, rows=indices)


# RMSProp

@_rows_too(3, 4)
def _apply_rms_prop(old: Array, old_ms: Array, old_mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array,
                    grad: Array, out: Array, ms: Array, mom: Array) -> None:
    step = np.multiply(grad, grad, out=np.empty_like(old))
    np.subtract(step, old_ms, out=step)
    np.multiply(step, 1 - float(rho), out=step)
    at_once((np.add, old_ms, step, ms), (np.add, ms, epsilon, step), (np.sqrt, step, step),
            (np.divide, grad, step, step), (np.multiply, step, lr, step),
            (np.multiply, old_mom, momentum, mom), (np.add, mom, step, mom), (np.subtract, old, mom, out))


_RMS = "handle[] ms[] mom[] lr[] rho[] momentum[] epsilon[] grad?"
_RMS_TYPES = "resource resource resource T:float T T T T"


@op(f"{_RMS} -> ?", types=f"{_RMS_TYPES} -> T", shape=_dense(3, 7), stateful=True, differentiable=False)
def apply_rms_prop(handle: VariableState, ms: VariableState, mom: VariableState, lr: Array, rho: Array,
                   momentum: Array, epsilon: Array, grad: Array) -> Array:
    """ms = rho · ms + (1 - rho) grad²; mom = momentum · mom + lr · grad / √(ms + epsilon); variable -= mom."""
    _same_shape("apply_rms_prop", handle, grad)
    return update_together((handle, ms, mom), updates["apply_rms_prop"], lr, rho, momentum, epsilon, grad)


@op(f"{_RMS} indices[n] -> ?", types=f"{_RMS_TYPES} int -> T", shape=_sparse, stateful=True, differentiable=False)
def sparse_apply_rms_prop(handle: VariableState, ms: VariableState, mom: VariableState, lr: Array, rho: Array,
                          momentum: Array, epsilon: Array, grad: Array, indices: Array) -> Array:
    """apply_rms_prop on the rows of `indices` alone."""
    _check_rows("sparse_apply_rms_prop", handle, indices)
    return update_together((handle, ms, mom), updates["apply_rms_prop_rows"], indices, lr, rho, momentum, epsilon,
                           grad, rows=indices)


# many variables by one rule

DENSE = {"apply_gradient_descent": (1, 2), "apply_momentum": (2, 3), "apply_adagrad": (2, 3), "apply_rms_prop": (3, 7),
         "apply_adam": (3, 9)}
"""Rule for whole variables -> how many states it has, and which of its inputs is the gradient."""


class Parts(NamedTuple):
    """What several updates by one rule are given: states of all, one after the other, and what they share beside gradients."""

    olds: Sequence[Array]
    before: Sequence[Any]      # inputs of the rule between its states and the gradient
    grads: Sequence[Array]
    after: Sequence[Any]
    outs: Sequence[Array]

    @classmethod
    def of(cls, rule: str, count: int, given: Sequence[Any]) -> Parts:
        """`given` are (*olds, *other inputs, *outs)."""
        states, grad = DENSE[rule]
        end, first = states * count, states * count + grad - states
        return cls(given[:end], given[end:first], given[first:first + count], given[first + count:-end], given[-end:])


@_kernel
def _apply_together(rule: str, count: int, *given: Any) -> None:
    found, states = Parts.of(rule, count, given), DENSE[rule][0]
    news = [np.empty_like(old) for old in found.olds]
    for at, grad in zip(range(0, len(news), states), found.grads):
        updates[rule](*found.olds[at:at + states], *found.before, grad, *found.after, *news[at:at + states])
    at_once(*((np.copyto, out, new) for out, new in zip(found.outs, news)))


@op("*inputs? ->", types="any ->", stateful=True, differentiable=False, counts=True)
def apply_together(*inputs: Any, rule: str, count: int, options: tuple[Any, ...] = (), names: tuple[str, ...] = ()) -> None:
    """`count` updates by the operation `rule`, `names`, made of them by passes/together.py: all variables change, or none.

    The inputs are those of `rule`, with the handles of all variables and their slots, one variable after the other, in the
    place of its handles and all gradients in the place of its gradient; `options` are the values of its attributes.
    """
    states, grad = DENSE[rule]
    handles, others = inputs[:states * count], inputs[states * count:]

    def kernel(*given: Any) -> None:
        slopes = others[grad - states:grad - states + count]
        wrong = [i for i in range(count) if given[states * i].shape != slopes[i].shape]
        if wrong:
            raise _misfit(rule, handles[states * wrong[0]], given[states * wrong[0]].shape, slopes[wrong[0]])
        run(*given)
    run = functools.partial(updates["apply_together"], rule, count)
    update_together(handles, kernel, *others, *options)
