"""Assertions about tensors: what is known fails while the graph is built, where its language says so, the rest in a step."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.variables import global_variables, group, local_variables

__all__ = [
    "add_check_numerics_ops", "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer", "assert_less",
    "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative", "assert_non_positive", "assert_none_equal",
    "assert_positive", "assert_proper_iterable", "assert_rank", "assert_rank_at_least", "assert_rank_in",
    "assert_same_float_dtype", "assert_scalar", "assert_type", "assert_variables_initialized", "is_non_decreasing",
    "is_numeric_tensor", "is_strictly_increasing", "verify_tensor_all_finite",
]

Check = Callable[..., Operation]
_DOCUMENTED = ("Empty tensors pass. The error carries `message` and the first `summarize` (3) elements of `data`, by default "
               "{} known it is raised at once.")


def _held(where: str, condition: Tensor, rule: str, shown: dict[str, Tensor], data: Any, summarize: int | None,
          message: str | None) -> Operation:
    """The operation that asserts `condition`, raised at once where it is known to be false, unless the language waits."""
    graph = get_default_graph()
    with graph.name_scope(where):
        holds = ops.reduce_all(condition)
        if data is None:
            data = [message or "", f"Condition {rule} did not hold element-wise:"]
            data += [part for name, x in shown.items() for part in (f"{name} ({x.name}) = ", x)]
        known = constant_value(holds)
        if known is None or (not known and graph.language.assertions_run and rule != "x == y"):
            return ops.Assert(holds, list(data), summarize=summarize)
        if not known:
            values = ", ".join(f"{name} = {_listed(x, summarize)} ({x.name})" for name, x in shown.items())
            raise errors.InvalidArgumentError(f"{where}: {message or 'the assertion fails'}: Condition {rule} did not hold "
                                              f"element-wise: {values}; both are known now, so it can never hold")
        return ops.no_op()


def _listed(x: Tensor, summarize: int | None) -> str:
    value = constant_value(x)
    flat = np.asarray(value).reshape(-1)
    most = 3 if summarize is None else summarize if summarize >= 0 else flat.size
    return str(flat[:most].tolist())[:-1] + (f", … of {flat.size}]" if flat.size > most else "]")


def _comparison(name: str, operation: str, rule: str, doc: str) -> Check:
    """Makes assert_equal and the other comparisons: `operation` must hold for every pair of elements, after broadcasting."""
    def check(x: Any, y: Any, data: Sequence[Any] | None = None, summarize: int | None = None, message: str | None = None,
              name: str | None = None) -> Operation:
        where = name or check.__name__
        compared = getattr(ops, operation)(x, y)
        left, right = compared.op.inputs
        return _held(where, compared, rule, {"x": left, "y": right}, data, summarize, message)
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""An operation that raises InvalidArgumentError unless {doc} for all elements of x and y, broadcast.

    {_DOCUMENTED.format("x and y. Where both are")} ShapeError or DtypeError where they cannot be compared.
    """
    return check


assert_equal = _comparison("assert_equal", "equal", "x == y", "x = y")
assert_none_equal = _comparison("assert_none_equal", "not_equal", "x != y", "x ≠ y")
assert_less = _comparison("assert_less", "less", "x < y", "x < y")
assert_less_equal = _comparison("assert_less_equal", "less_equal", "x <= y", "x ≤ y")
assert_greater = _comparison("assert_greater", "greater", "x > y", "x > y")
assert_greater_equal = _comparison("assert_greater_equal", "greater_equal", "x >= y", "x ≥ y")


def _sign(name: str, operation: str, symbol: str) -> Check:
    """Makes assert_positive and the other checks that compare every element with 0."""
    def check(x: Any, data: Sequence[Any] | None = None, summarize: int | None = None, message: str | None = None,
              name: str | None = None) -> Operation:
        x = convert(x)
        compared = getattr(ops, operation)(x, np.zeros((), x.dtype.numpy))
        return _held(name or check.__name__, compared, f"x {symbol} 0", {"x": x}, data, summarize, message)
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""An operation that raises InvalidArgumentError unless x {symbol} 0 for all elements of x.

    {_DOCUMENTED.format("x. Where it is")}
    """
    return check


assert_positive = _sign("assert_positive", "greater", ">")
assert_negative = _sign("assert_negative", "less", "<")
assert_non_negative = _sign("assert_non_negative", "greater_equal", ">=")
assert_non_positive = _sign("assert_non_positive", "less_equal", "<=")


def assert_near(x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Sequence[Any] | None = None,
                summarize: int | None = None, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that raises InvalidArgumentError unless |x - y| < atol + rtol · |y| for all elements.

    Both tolerances are 10 times the distance from 1 to the next number of x's dtype unless given.
    """
    distance = ops.abs(ops.subtract(x, y))
    left, right = distance.op.inputs[0].op.inputs
    eps = 10 * (2.0 ** -7 if left.dtype.name == "bfloat16" else float(np.finfo(left.dtype.numpy).eps))
    rtol, atol = (convert(eps if t is None else t, left.dtype) for t in (rtol, atol))
    near = ops.less(distance, ops.add(atol, ops.multiply(rtol, ops.abs(right))))
    return _held(name or "assert_near", near, "|x - y| < atol + rtol * |y|", {"x": left, "y": right, "rtol": rtol,
                                                                            "atol": atol}, data, summarize, message)


# ranks

def _ranked(where: str, x: Any, ranks: Sequence[Any], fits: Callable[[Any, Any], Any], rule: str, data: Any,
            summarize: int | None, message: str | None) -> Operation:
    x = convert(x)
    wanted = [_rank(where, rank) for rank in ranks]
    known = [constant_value(rank) for rank in wanted]
    shown = ", ".join("?" if k is None else str(int(k)) for k in known)
    if x.shape.rank is not None and all(k is not None for k in known):
        if not any(fits(x.shape.rank, int(k)) for k in known if k is not None):
            raise errors.ShapeError(f"{where}: {message or 'the assertion fails'}: {x.name} has rank {x.shape.rank} (shape "
                                    f"{x.shape}) but must have {rule} {shown}; reshape it")
        return ops.no_op(name=where)
    with get_default_graph().name_scope(where):
        actual = ops.rank(x)
        holds = ops.reduce_any(ops.stack([fits(actual, ops.cast(rank, "int32")) for rank in wanted]))
        if data is None:
            data = [message or "", f"Tensor {x.name} must have {rule}", *wanted, "Received shape: ", ops.shape(x)]
        return ops.Assert(holds, list(data), summarize=summarize)


def _rank(where: str, rank: Any) -> Tensor:
    rank = convert(rank)
    if rank.dtype.kind != "int":
        raise errors.DtypeError(f"{where}: rank is {rank.dtype.name} but an integer type is needed: it must be of type <dtype: "
                                "'int32'>; cast it")
    if rank.shape.rank not in (0, None):
        raise errors.ShapeError(f"{where}: rank has shape {rank.shape} but a scalar is needed. Rank must be a scalar: pass one "
                                "number")
    return rank


def assert_rank(x: Any, rank: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
                message: str | None = None, name: str | None = None) -> Operation:
    """An operation that raises InvalidArgumentError unless x has `rank` axes; ShapeError (a ValueError) at once where both
    are known."""
    return _ranked(name or "assert_rank", x, [rank], _same, "rank", data, summarize, message)


def assert_rank_at_least(x: Any, rank: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
                         message: str | None = None, name: str | None = None) -> Operation:
    """An operation that raises InvalidArgumentError unless x has at least `rank` axes; ShapeError (a ValueError) at once
    where both are known."""
    return _ranked(name or "assert_rank_at_least", x, [rank], lambda a, b: a >= b, "rank at least", data, summarize,
                   message)


def assert_rank_in(x: Any, ranks: Sequence[Any], data: Sequence[Any] | None = None, summarize: int | None = None,
                   message: str | None = None, name: str | None = None) -> Operation:
    """An operation that raises InvalidArgumentError unless the number of axes of x is one of `ranks`; ShapeError (a
    ValueError) at once where they are known."""
    return _ranked(name or "assert_rank_in", x, list(ranks), _same, "a rank of", data, summarize, message)


def _same(a: Any, b: Any) -> Any:
    return ops.equal(a, b) if isinstance(a, Tensor) else a == b


def assert_scalar(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor; ShapeError (a ValueError) unless it is known to be a scalar."""
    tensor = convert(tensor)
    if tensor.shape.rank != 0:
        raise errors.ShapeError(f"{name or 'assert_scalar'}: {tensor.name} has shape {tensor.shape} but a scalar is needed. "
                                "Expected scalar shape: reshape it or use set_shape")
    return tensor


# types

def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing; DtypeError (a TypeError) at once unless `tensor` has dtype `tf_type`."""
    tensor, wanted = convert(tensor), as_dtype(tf_type)
    if tensor.dtype is not wanted:
        raise errors.DtypeError(f"{name or 'assert_type'}: {message or 'the assertion fails'}: {tensor.name} is "
                                f"{tensor.dtype.name} but must be {wanted.name}; cast it")
    return ops.no_op(name=name or "assert_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing; DtypeError (a TypeError) at once unless x is of an integer type."""
    x = convert(x)
    if x.dtype.kind != "int":
        raise errors.DtypeError(f"{name or 'assert_integer'}: {message or 'the assertion fails'}: {x.name} is {x.dtype.name} "
                                "but must be an integer type. Expected an integer type: cast it")
    return ops.no_op(name=name or "assert_integer")


def is_numeric_tensor(tensor: Any) -> bool:
    """Is it a tensor of integer, floating or complex numbers?"""
    return isinstance(tensor, Tensor) and tensor.dtype.kind in ("int", "float", "complex")


def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: Any = None) -> DType:
    """The one dtype of `tensors` and `dtype` (float32 when neither says); DtypeError (a ValueError) when they differ or it
    is no floating type."""
    found = None if dtype is None else as_dtype(dtype)
    for tensor in tensors or ():
        if tensor is None:
            continue
        own = tensor.dtype
        if found is not None and own is not found:
            raise errors.DtypeError(f"assert_same_float_dtype: {getattr(tensor, 'name', tensor)} is {own.name} but "
                                    f"{found.name} is needed; cast it")
        found = own
    found = found or as_dtype("float32")
    if not found.is_floating:
        raise errors.DtypeError(f"assert_same_float_dtype: the dtype is {found.name}; use a floating type")
    return found


def assert_proper_iterable(values: Any) -> None:
    """DtypeError (a TypeError) unless `values` is something to go through that is not itself one value: no tensor, array
    or text."""
    if isinstance(values, (Tensor, np.ndarray, str, bytes)) or hasattr(values, "dense_shape") or hasattr(
            values, "__tensor__") or not isinstance(values, Iterable):
        raise errors.DtypeError(f"assert_proper_iterable: {type(values).__name__} is not a list of values; put it in a list "
                                "(expected a proper iterable; something that is not iterable is expected to be iterable)")


# order

def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """A bool scalar: is each element of x, row by row, at least the one before it? True for fewer than two."""
    return _ordered(x, ops.greater_equal, name or "is_non_decreasing")


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """A bool scalar: is each element of x, row by row, larger than the one before it? True for fewer than two."""
    return _ordered(x, ops.greater, name or "is_strictly_increasing")


def _ordered(x: Any, compare: Callable[..., Tensor], name: str) -> Tensor:
    with get_default_graph().name_scope(name):
        flat = ops.reshape(convert(x), [-1])
        return ops.reduce_all(compare(flat[1:], flat[:-1]))


# state and finite values

def assert_variables_initialized(var_list: Iterable[Any] | None = None) -> Operation | None:
    """An operation that raises FailedPreconditionError unless the variables (default: all of the graph) are initialized;
    None where there are none."""
    found = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    return group(*(v.value().op for v in found), name="assert_variables_initialized") if found else None


def verify_tensor_all_finite(t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None,
                             message: str | None = None) -> Tensor:
    """`t`, float; the step raises InvalidArgumentError with `msg` where it holds a NaN or an infinity. `x` and `message`
    are later names of the two."""
    value, text = t if t is not None else x, msg if msg is not None else message
    if value is None or text is None:
        raise errors.InvalidArgumentError("verify_tensor_all_finite: the tensor or the message is missing; pass t and msg")
    return ops.check_numerics(value, message=text, name=name or "VerifyFinite")


def add_check_numerics_ops() -> Operation:
    """An operation that checks every floating tensor of the graph, in the order they were built, for NaN and infinities.

    Running it with a step raises InvalidArgumentError that names the first such tensor; gradients are covered when they
    were built before. Bodies of cond and while_loop are not looked into.
    """
    graph = get_default_graph()
    last: list[Tensor] = []
    for op in list(graph.operations):
        for tensor in op.outputs:
            if tensor.dtype.is_floating:
                with graph.control_dependencies(last):
                    last = [ops.check_numerics(tensor, message=tensor.name)]
    return group(*last, name="check_numerics_ops")
