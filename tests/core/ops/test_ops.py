"""Every operation against its row in opcases.py: shape, dtype, value, two orders of gradient, buffers, fusion."""
from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import workbench.core.ops  # noqa: F401
from tests.evaluate import Moved, evaluate
from tests.opcases import CASES, ELSEWHERE, FAMILIES_ELSEWHERE, Case
from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.opdef import OpDef, registry
from workbench.core.graph.shape import Shape

# a gradient of a gather whose size is unknown may become dense here; test_densify_warns looks at that warning
pytestmark = [pytest.mark.filterwarnings('ignore:densify'), pytest.mark.usefixtures("graph")]


def rows(cases: Iterable[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", list(cases), ids=str)


ROWS, FLOATS = rows(CASES), [c for c in CASES if any(i.dtype == np.float64 for i in c.inputs)]


def inputs_of(row: Case, dtype: Any = None, shapes: str = "known") -> tuple[list[Tensor], dict[Tensor, Any]]:
    """Input tensors and feeds: floats are placeholders, other inputs constants while shapes are known."""
    tensors, feeds = [], {}
    for array in row.inputs:
        if dtype is not None and array.dtype == np.float64:
            array = array.astype(dtype)
        if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16 and shapes == "known" and not row.fed:
            tensors.append(ops.constant(array))
            continue
        shape = {"known": array.shape, "dims": [None] * array.ndim, "rank": None}[shapes]
        tensors.append(ops.placeholder(array.dtype, shape))
        feeds[tensors[-1]] = array
    return tensors, feeds


def check_static(outputs: list[Tensor], values: list[Any]) -> None:
    for tensor, value in zip(outputs, values):
        assert tensor.dtype.numpy == value.dtype, tensor
        assert tensor.shape.compatible(Shape(value.shape)), (tensor, value.shape)


@ROWS
def test_value_shape_and_dtype(row: Case) -> None:
    tensors, feeds = inputs_of(row)
    outputs = row.build(*tensors)
    values = evaluate(outputs, feeds)
    check_static(outputs, values)
    assert row.partial or all(t.shape.known for t in outputs), outputs
    expected = row.value(*row.inputs)
    expected = expected if isinstance(expected, list) else [expected]
    assert len(expected) == len(values)
    for value, wanted in zip(values, expected):
        assert value.shape == np.shape(wanted)
        np.testing.assert_allclose(value, wanted, rtol=max(row.rtol, 1e-7), atol=row.rtol * 1e-3)


@rows(FLOATS)
def test_float32(row: Case) -> None:
    tensors, feeds = inputs_of(row, np.float32)
    outputs = row.build(*tensors)
    values = evaluate(outputs, feeds)
    check_static(outputs, values)
    expected = row.value(*row.inputs)
    expected = expected if isinstance(expected, list) else [expected]
    for value, wanted in zip(values, expected):
        exact = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
        np.testing.assert_allclose(exact, wanted, rtol=1e-3, atol=1e-4)


@rows(c for c in FLOATS if c.small)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_small_floats(row: Case, dtype: Any) -> None:
    tensors, feeds = inputs_of(row, dtype)
    outputs = row.build(*tensors)
    values = evaluate(outputs, feeds)
    check_static(outputs, values)
    wide = inputs_of(row)[0]
    exact = evaluate(row.build(*wide), {w: feeds[t].astype(np.float64) for w, t in zip(wide, tensors) if t in feeds})
    if row.op in ("equal", "not_equal", "floordiv", "top_k", "in_top_k", "max_pool_grad", "max_pool_grad_grad"):
        return      # rounding may change which elements are equal or largest
    rounding = 2.0 ** -8 if dtype is ml_dtypes.bfloat16 else 2.0 ** -11      # of each operation; rows are a few of them
    for value, wanted in zip(values, exact):
        wanted = np.asarray(wanted, np.float64)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
        np.testing.assert_allclose(value.astype(np.float64), wanted, rtol=8 * rounding, atol=4 * rounding * largest)


LONG = {      # sums of so many small floats would stand still, or overflow, in their own type
    "reduce_sum": (lambda x: ops.reduce_sum(x), lambda x: x.sum()),
    "rows": (lambda x: ops.reduce_sum(ops.reshape(x, [-1, 2]), 0), lambda x: x.reshape(-1, 2).sum(0)),
    "reduce_mean": (lambda x: ops.reduce_mean(x), lambda x: x.mean()),
    "reduce_logsumexp": (lambda x: ops.reduce_logsumexp(x), lambda x: np.log(np.exp(x).sum())),
    "cumsum": (lambda x: ops.cumsum(x)[-1], lambda x: x.sum()),
    "reduce_to": (lambda x: ops.reduce_to(x, [1]), lambda x: x.sum()[None]),
    "softmax": (lambda x: ops.softmax(x) * 5000.0, lambda x: np.exp(x) / np.exp(x).sum() * 5000),
    "log_softmax": (lambda x: ops.log_softmax(x), lambda x: x - np.log(np.exp(x).sum())),
    "softmax_xent": (lambda x: ops.softmax_xent(x[None], ops.softmax(x)[None])[0],
                     lambda x: -(np.exp(x) / np.exp(x).sum() * (x - np.log(np.exp(x).sum()))).sum()[None]),
    "l2_loss": (lambda x: ops.l2_loss(x), lambda x: (x * x).sum() / 2),
    "norm": (lambda x: ops.norm(x), lambda x: np.sqrt((x * x).sum())),
    "moments": (lambda x: ops.moments(x, [0])[1] + 1.0, lambda x: x.var() + 1),
    "matmul": (lambda x: ops.matmul(x[None], x[:, None]), lambda x: (x * x).sum()[None, None]),
    "batch_matmul": (lambda x: ops.batch_matmul(x[None, None], x[None, :, None]), lambda x: (x * x).sum()[None, None, None]),
    "fused_matmul": (lambda x: ops.fused_matmul(x[None], x[:, None], x[:1]),
                     lambda x: ((x * x).sum() + x[0])[None, None]),
    "matmul_add": (lambda x: ops.matmul_add(x[None], x[:, None], ops.reshape(x[:1], [1, 1])),
                   lambda x: ((x * x).sum() + x[0])[None, None]),
    "bias_add_grad": (lambda x: ops.bias_add_grad(x[:, None]), lambda x: x.sum()[None]),
    "unsorted_segment_sum": (lambda x: ops.unsorted_segment_sum(x, np.zeros(5000, np.int32), 1), lambda x: x.sum()[None]),
    "bincount": (lambda x: ops.bincount(np.zeros(5000, np.int32), x), lambda x: x.sum()[None]),
    "scatter_nd": (lambda x: ops.scatter_nd(np.zeros((5000, 1), np.int32), x, [1]), lambda x: x.sum()[None]),
    "avg_pool": (lambda x: ops.avg_pool(ops.reshape(x, [1, 100, 50, 1]), [100, 50], 1, "VALID"),
                 lambda x: x.mean().reshape(1, 1, 1, 1)),
    "conv2d": (lambda x: ops.conv2d(ops.reshape(x, [1, 100, 50, 1]), ops.reshape(x, [100, 50, 1, 1]), 1, "VALID"),
               lambda x: (x * x).sum().reshape(1, 1, 1, 1)),
}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", LONG)
def test_sums_of_many_small_floats(name: str, dtype: Any) -> None:
    build, value = LONG[name]
    data = (np.random.default_rng(0).uniform(0.4, 0.6, 5000)).astype(dtype)
    x = ops.placeholder(dtype, [5000])
    [found] = evaluate([build(x)], {x: data})
    rounding = 2.0 ** -7 if dtype is ml_dtypes.bfloat16 else 2.0 ** -10
    np.testing.assert_allclose(found.astype(np.float64), value(data.astype(np.float64)), rtol=2 * rounding)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_products_of_many_small_floats(dtype: Any) -> None:
    """5000 factors of 1 + 2⁻⁷: in the element type each product of 1.0… with one is rounded, in float32 none is lost."""
    factor = 1 + 2.0 ** -7
    [found] = evaluate([ops.reduce_prod(ops.constant(np.full(1000, factor, dtype)))])
    np.testing.assert_allclose(float(found), factor ** 1000, rtol=2.0 ** -7)


@rows(c for c in CASES if c.unknown and c.inputs)
@pytest.mark.parametrize("shapes", ["dims", "rank"])
def test_unknown_shapes(row: Case, shapes: str) -> None:
    tensors, feeds = inputs_of(row, shapes=shapes)
    try:
        outputs = row.build(*tensors)
    except errors.ShapeError as error:
        assert (shapes == "rank" and "set_shape" in str(error)) or "known rank" in str(error), error
        return
    except errors.InvalidArgumentError as error:
        assert "known only at run time" in str(error), error
        return
    values = evaluate(outputs, feeds)
    check_static(outputs, values)
    known, known_feeds = inputs_of(row)
    for value, wanted in zip(values, evaluate(row.build(*known), known_feeds)):
        np.testing.assert_array_equal(value, wanted)


# gradients

def sources(row: Case, tensors: list[Tensor]) -> list[Tensor]:
    places = row.wrt if row.wrt is not None else range(len(tensors))
    return [tensors[i] for i in places if row.inputs[i].dtype == np.float64]


def weighted(tensors: list[Any], seed: int) -> Tensor:
    """A scalar that depends on every element of the float tensors with its own weight."""
    rng = np.random.default_rng(seed)
    parts = []
    for tensor in tensors:
        if tensor is not None and convert(tensor).dtype.is_floating:
            tensor = convert(tensor)
            if tensor.shape.known:
                weights = ops.constant(rng.uniform(0.5, 1.5, tensor.shape.static), tensor.dtype)
            else:
                size = ops.reshape(ops.cast(ops.range(ops.size(tensor)), tensor.dtype), ops.shape(tensor))
                weights = ops.cos(size) + 1.5
            parts.append(ops.reduce_sum(ops.multiply(tensor, weights)))
    return ops.add_n(parts)


def slopes(target: Tensor, xs: list[Tensor], feeds: dict[Tensor, Any]) -> list[Any]:
    """Central differences of `target` by each element of each x."""
    result = []
    for x in xs:
        slope, moves = np.zeros(feeds[x].shape), Moved(target, feeds, x)
        for index in np.ndindex(*feeds[x].shape):
            moved = []
            for step in (1e-5, -1e-5):
                value = feeds[x].copy()
                value[index] += step
                moved.append(float(moves(value)))
            slope[index] = (moved[0] - moved[1]) / 2e-5
        result.append(slope)
    return result


def check_gradients(target: Tensor, xs: list[Tensor], feeds: dict[Tensor, Any]) -> list[Any]:
    grads = gradients(target, xs)
    dense = [ops.zeros_like(x) if g is None else convert(g) for x, g in zip(xs, grads)]
    for x, value, wanted in zip(xs, evaluate(dense, feeds), slopes(target, xs, feeds)):
        assert value.shape == feeds[x].shape and value.dtype == np.float64
        np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-4)
    return grads


DIFFERENTIABLE = [c for c in FLOATS if c.order]


@rows(DIFFERENTIABLE)
def test_gradients(row: Case) -> None:
    tensors, feeds = inputs_of(row)
    xs = sources(row, tensors)
    first = check_gradients(weighted(row.build(*tensors), 1), xs, feeds)
    if row.order > 1 and any(g is not None for g in first):
        check_gradients(weighted(first, 2), xs, feeds)


@rows(c for c in DIFFERENTIABLE if c.unknown)
def test_gradients_with_unknown_dimensions(row: Case) -> None:
    tensors, feeds = inputs_of(row, shapes="dims")
    known, known_feeds = inputs_of(row)
    try:
        grads = gradients([y for y in row.build(*tensors) if y.dtype.is_floating], sources(row, tensors))
    except errors.InvalidArgumentError as error:
        assert any(part in str(error) for part in ("set_shape", "known only at run time")), error
        return
    wanted = gradients([y for y in row.build(*known) if y.dtype.is_floating], sources(row, known))
    pairs = [(g, w) for g, w in zip(grads, wanted) if w is not None]
    values = evaluate([convert(g) for g, _ in pairs], feeds)
    for value, exact in zip(values, evaluate([convert(w) for _, w in pairs], known_feeds)):
        np.testing.assert_allclose(value, exact, rtol=1e-9, atol=1e-12)


@rows(c for c in FLOATS if c.order == 0 and c.inputs[0].dtype == np.float64)
def test_no_gradient(row: Case) -> None:
    if row.op in ("cholesky", "reduce_max", "densify", "cast"):
        return
    tensors, _ = inputs_of(row)
    outputs = [t for t in row.build(*tensors) if t.dtype.is_floating]
    assert not outputs or gradients(outputs, tensors[:1]) == [None]


# kernels

def nodes_of(row: Case, **options: Any) -> list[tuple[Operation, list[Any]]]:
    """The forward operations of a row with the values of their inputs."""
    tensors, feeds = inputs_of(row, **options)
    row.build(*tensors)
    made = [op for op in ops_graph(tensors).operations if op.inputs and not op.definition.context]
    values = evaluate([t for op in made for t in op.inputs], feeds)
    arrays = iter(values)
    return [(op, [next(arrays) for _ in op.inputs]) for op in made]


def ops_graph(tensors: list[Tensor]) -> Graph:
    return get_default_graph()


def reference(op: Operation, values: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        result = op.definition.reference(*values, **op.attrs)
    return [np.asarray(r) for r in (result if isinstance(result, (tuple, list)) else [result])]


@ROWS
def test_kernels_leave_inputs_alone_and_own_their_outputs(row: Case) -> None:
    for op, values in nodes_of(row):
        for value in values:
            value.flags.writeable = False      # a kernel that writes an input fails here
        for output in reference(op, values):
            assert op.definition.view or not any(np.shares_memory(output, v) for v in values), op


@ROWS
def test_writing_into_buffers(row: Case) -> None:
    for op, values in nodes_of(row):
        d = op.definition
        if d.into is None and d.ufunc is None:
            continue
        wanted = reference(op, values)
        outs = [np.full_like(w, 1 if w.dtype.kind == "b" else 77) for w in wanted]
        with np.errstate(all="ignore"):
            if d.ufunc is not None:
                d.ufunc(*values, out=outs[0])
                np.testing.assert_array_equal(outs[0], wanted[0])
            if d.into is not None:
                d.into(*values, *outs, **op.attrs)
        for out, value in zip(outs, wanted):
            np.testing.assert_allclose(out, value, rtol=1e-12, atol=1e-14)


SCALARS = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "abs": abs,
           "floor": np.floor, "ceil": np.ceil, "erf": math.erf, "log1p": np.log1p, "expm1": np.expm1, "maximum": max,
           "minimum": min, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
           "bfloat16": lambda x: float(ml_dtypes.bfloat16(x)),
           "float16": lambda x: float(np.float16(x)) if abs(x) < 65520 else x * np.inf}


@ROWS
def test_fusion_text_means_the_same(row: Case) -> None:
    for op, values in nodes_of(row):
        text = op.definition.elementwise
        if text is None or any(v.dtype.kind == "c" for v in values):      # complex numbers are never fused
            continue
        function = np.vectorize(eval(f"lambda {', '.join(op.definition.inputs)}: {text}", dict(SCALARS)),
                                otypes=[np.float64])
        np.testing.assert_allclose(function(*values), reference(op, values)[0], rtol=1e-9, atol=1e-12)


# completeness and errors

def family(definition: OpDef) -> str:
    return definition.reference.__module__.rpartition(".")[2].partition("_")[0]


def of_the_house() -> dict[str, OpDef]:
    """The operations of this package, without those that other tests of the same process have made."""
    return {name: d for name, d in registry.items() if d.reference.__module__.startswith("workbench.")
            and family(d) not in FAMILIES_ELSEWHERE}


def test_every_operation_has_a_row() -> None:
    ours = set(of_the_house())
    missing = ours - {c.op for c in CASES} - ELSEWHERE
    assert not missing, f"operations without a row in opcases.py: {sorted(missing)}"


def test_every_operation_has_a_doc_line() -> None:
    assert not [name for name, d in registry.items() if not d.doc.strip() and d.reference.__module__.startswith("workbench.")]


def test_every_operation_has_a_gradient_or_says_that_it_has_none() -> None:
    silent = [name for name, d in of_the_house().items() if d.inputs and d.gradient_function is None and d.differentiable]
    assert not silent


@rows({c.op: c for c in CASES if c.call is None and c.op in registry}.values())
def test_wrong_dtypes_are_named(row: Case) -> None:
    types = registry[row.op].types or "T"
    if callable(types) or "any" in types.split() or row.op == "range":     # range casts its bounds
        return
    left = types.partition("->")[0].split() or ["T"]
    floats = len(row.inputs) > 1 and row.inputs[0].dtype == row.inputs[1].dtype == np.float64
    if floats and left[0][0].isupper() and len(left) == 1:
        tensors, _ = inputs_of(row)
        other = ops.placeholder("float32", tensors[1].shape)
        with pytest.raises(errors.DtypeError,
                           match=r"is float64 but .* is float32; both must have one dtype|float32 but float64"):
            row.build(tensors[0], other, *tensors[2:])
    if ":" in left[0] or left[0] in ("int", "bool"):
        tensors, _ = inputs_of(row)
        wrong = ops.placeholder("float32" if left[0] == "bool" else "bool", tensors[0].shape)
        with pytest.raises(errors.DtypeError, match=r"is (bool|float32) but"):
            row.build(wrong, *tensors[1:])


def zeros(*shape: Any) -> Tensor:
    return ops.placeholder("float32", list(shape))


WRONG = [
    (lambda: ops.matmul(zeros(2, 3), zeros(2, 4)),
     "matmul: a axis 1 is 3 but b axis 0 is 2; both are 'k' in 'a[m,k] b[k,n] -> [m,n]'"),
    (lambda: ops.matmul(zeros(2, 3), zeros(4, 2), transpose_b=True),
     "matmul: a axis 1 is 3 but b axis 1 is 2; both are 'k' in 'a[m,k] b[n,k] -> [m,n]'"),
    (lambda: ops.add(zeros(2, 3), zeros(2, 4)), "add: shapes [2,3] and [2,4] do not broadcast: axis -1 is 3 and 4"),
    (lambda: ops.add_n([zeros(2), zeros(3)]), "add_n: [2] and [3] cannot be the same shape"),
    (lambda: ops.reduce_sum(zeros(2, 3), 2), "axis: 2 is outside a tensor of rank 2; use -2 … 1"),
    (lambda: ops.argmax(zeros(2), 1), "axis: 1 is outside a tensor of rank 1"),
    (lambda: ops.reshape(zeros(2, 3), [4, 2]),
     "reshape: Cannot reshape a tensor with 6 elements (shape [2, 3]) to [4, 2], which holds 8"),
    (lambda: ops.reshape(zeros(2, 3), [4, -1]),
     "reshape: Cannot reshape a tensor with 6 elements (shape [2, 3]) to [4, -1], whose count must be evenly divisible by 4"),
    (lambda: ops.reshape(zeros(2, 3), [-1, -1]), "reshape: [-1, -1] is not a shape; write -1 at most once"),
    (lambda: ops.transpose(zeros(2, 3), [0, 0]),
     "transpose: perm [0, 0] is not an order of the 2 axes of x (shape [2,3])"),
    (lambda: ops.expand_dims(zeros(2), 3), "expand_dims: axis 3 is outside rank 2; use -2 … 1"),
    (lambda: ops.squeeze(zeros(2, 1), 0), "squeeze: axis 0 of x is 2 (shape [2,1]), not 1"),
    (lambda: ops.broadcast_to(zeros(2), [3]), "broadcast_to: x has shape [2], which does not broadcast to [3]"),
    (lambda: ops.concat([zeros(2, 3), zeros(2, 3), zeros(2, 4)], 0),
     "concat: values[0] axis 1 is 3 but values[2] axis 1 is 4; only axis 0 may differ"),
    (lambda: ops.concat([zeros(2, 3), zeros(2)], 0), "concat: values[0] has rank 2 but values[1] has rank 1"),
    (lambda: ops.split(zeros(5), 2), "split: the number of parts should evenly divide the axis, but it has 5"),
    (lambda: ops.split(zeros(5), [2, 2]), "split: the axis has 5 elements but the sizes [2, 2] add up to 4"),
    (lambda: ops.stack([zeros(2), zeros(3)]), "stack: [2] and [3] cannot be the same shape"),
    (lambda: ops.unstack(zeros(None)), "unstack: Cannot infer num from shape [?]: the length of axis 0 is unknown"),
    (lambda: ops.tile(zeros(2, 3), [2]), "tile: x has rank 2 (shape [2,3]) but multiples has 1 elements"),
    (lambda: ops.reverse(zeros(2), 1), "reverse: axis 1 is outside rank 1; use -1 … 0"),
    (lambda: zeros(2, 3)[2], "strided_slice: index 2 is outside axis 0 of 2 elements; use -2 … 1"),
    (lambda: zeros(2)[0, 0], "strided_slice: 2 indices for x of rank 1 (shape [2])"),
    (lambda: zeros(2)[1.5], "getitem: 1.5 is not an index"),
    (lambda: ops.slice(zeros(3), [2], [2]), "slice: axis 0 of x has 3 elements but begin is 2 and size 2"),
    (lambda: ops.gather(zeros(3), [0], axis=1), "gather: axis 1 is outside params of shape [3]"),
    (lambda: ops.top_k(zeros(3), 4), "top_k: x must have last dimension >= k = 4 but its shape is [3]; use"),
    (lambda: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 4, 8), 1, "SAME"),
     "conv2d: x axis 3 is 3 but filter axis 2 is 4; both are 'c' in 'x[n,h,w,c] filter[i,j,c,o] -> ?'"),
    (lambda: ops.conv2d(zeros(1, 2, 5, 3), zeros(3, 3, 3, 8), 1, "VALID"),
     "the window covers 3 elements but the axis has 2"),
    (lambda: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 3, 8), [2, 1, 1, 1], "SAME"),
     "conv2d: strides is [2, 1, 1, 1] for NHWC"),
    (lambda: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 3, 8), 1, "FULL"),
     "conv2d: padding is 'FULL'; use 'SAME', 'VALID'"),
    *[(lambda strides=strides: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 3, 8), strides, "SAME"),
       f"conv2d: strides is {strides!r}; give one number above 0, (height, width) or a list of four")
      for strides in (0, -1, 1.5, "11", None, (1, 0), (1, 1, 1))],
    (lambda: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 3, 8), 1, "SAME", dilations=0),
     "conv2d: dilations is 0; give one number"),
    (lambda: ops.max_pool(zeros(1, 5, 5, 3), 0, 1, "SAME"), "max_pool: ksize is 0; give one number above 0"),
    *[(lambda padding=padding: ops.conv2d(zeros(1, 5, 5, 3), zeros(3, 3, 3, 8), 1, padding),
       f"conv2d: padding is {padding!r}; use 'SAME', 'VALID' or ((top, bottom), (left, right)) of 0 or more")
      for padding in (None, 1, [1, 2], ((-1, 0), (0, 0)), ((0, 1.5), (0, 0)))],
    (lambda: ops.top_k(zeros(3), -1), "top_k: k is -1; Need k >= 0"),
    (lambda: ops.split(zeros(5), 0), "split: num_or_size_splits is 0; use 1 part or more"),
    (lambda: ops.split(zeros(5), [-1, -1]), "split: the sizes are [-1, -1]; one of them may be -1"),
    (lambda: ops.split(zeros(5), [8, -3]), "split: the sizes are [8, -3]; one of them may be -1"),
    (lambda: zeros(2)[::0], "strided_slice: strides[i] must be non-zero"),
    (lambda: ops.concat([], 0), "concat: its list of inputs is empty, but they tell the dtype; pass at least one"),
    (lambda: ops.add_n([]), "add_n: its list of inputs is empty"),
    (lambda: ops.conv2d_transpose(zeros(1, 2, 2, 3), zeros(3, 3, 2, 3), [1, 9, 4, 2], 2),
     "conv2d_backprop_input: the convolution of [1,9,4,2] and dy: [1,5,2,3] and [1,2,2,3] cannot be the same shape"),
    (lambda: ops.pad(zeros(2), [[-1, 0]]), "pad: paddings must be non-negative but they are [[-1, 0]]; use 0 or more"),
    (lambda: ops.pad(zeros(2), [[1, 0]], "weird"), "pad: Unknown padding mode: weird; use one of CONSTANT, REFLECT, SYMMETRIC"),
    (lambda: ops.placeholder_with_default(zeros(2), [3]),
     "placeholder_with_default: shape and the default: [3] and [2] cannot be the same shape"),
    (lambda: ops.max_pool(zeros(1, 5, 5, 3), 2, 2, "SAME", "CHWN"),
     "max_pool: data_format is 'CHWN'; use 'NHWC' or 'NCHW'"),
    (lambda: ops.bias_add(zeros(2, 3), zeros(2)), "bias_add: x axis 1 is 3 but bias axis 0 is 2; both are 'c'"),
    (lambda: ops.softmax(zeros(3), axis=1), "softmax: axis 1 is outside logits of rank 1 (shape [3])"),
    (lambda: ops.softmax_xent(zeros(2, 3), zeros(2, 4)), "softmax_xent: logits axis 1 is 3 but labels axis 1 is 4"),
    *[(lambda logits=logits, labels=labels: ops.softmax_cross_entropy_with_logits(
        labels=zeros(*labels), logits=ops.placeholder("float32", logits)),
       "and labels [" + ",".join(map(str, labels)) + "] must have the same shape; give a label for each logit")
      for logits, labels in (([None], (2, 3)), ([None], ()), ([None, 3], ()), ([2, None], (4, 2, 3)), ([None, 4], (2, 2, 3)))],
    (lambda: ops.softmax_cross_entropy_with_logits(zeros(2, 3), zeros(2, 3)),
     "labels and logits are given by position"),
    (lambda: ops.dropout(zeros(2), 0.0), "dropout: keep_prob is 0.0; use a number in (0, 1]"),
    (lambda: ops.random_uniform([2], dtype="int32"), "random_uniform: dtype is int32 but maxval is missing"),
    (lambda: ops.norm(zeros(2), ord=-1), "norm: ord is -1; use 'euclidean', a positive number or np.inf"),
    (lambda: ops.squeeze(zeros(2, 1), ops.argmax(zeros(2))),
     "axis: <Tensor argmax:0 int64[]> is known only at run time"),
    (lambda: ops.dynamic_stitch([[0], [1]], [[[1.0]], [2.0]]),
     "dynamic_stitch: rows of data[1] and of those before: [] and [1] cannot be the same shape"),
    (lambda: ops.dynamic_stitch([[0, 1]], [[1.0]]), "dynamic_stitch: data[0] and indices[0]: [1] and [2] cannot be"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_error_texts(number: int) -> None:
    build, text = WRONG[number]
    with pytest.raises(errors.Error, match=re.escape(text)):
        build()


RUNTIME = [
    (lambda: ops.gather([1.0, 2.0], [0, 2]),
     "gather: indices[1] = 2 is not in [0, 2), since the axis has 2 elements; use 0 … 1"),
    (lambda: ops.floordiv([1], [0]), "floordiv: integer division by zero"),
    (lambda: ops.pow([2], [-1]), "pow: int32 exponent -1 is negative"),
    (lambda: ops.sparse_softmax_xent([[1.0, 2.0]], [2])[0],
     "sparse_softmax_xent: Received a label value of 2 which is outside the valid range of [0, 2): it is labels[0]"),
    (lambda: ops.check_numerics([1.0, np.nan], message="loss"), "check_numerics: loss : Tensor had NaN values: 1 of 2"),
    (lambda: ops.check_numerics([np.inf, np.nan, 1.0], message="loss"), "loss : Tensor had Inf and NaN values: 2 of 3"),
    (lambda: ops.unsorted_segment_sum([1.0], [3], 2), "unsorted_segment_sum: segment_ids[0] = 3 is out of range [0, 2); raise"),
    (lambda: ops.segment_sum([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]),
     "segment_sum: segment ids are not increasing: segment_ids[2] is 0 after 1; sort them"),
    (lambda: ops.matrix_inverse([[1.0, 1.0], [1.0, 1.0]]), "matrix_inverse: x of shape [2, 2] has none"),
    (lambda: ops.invert_permutation([0, 0]), "invert_permutation: x of 2 elements is not a permutation"),
    (lambda: ops.dynamic_partition([1.0], [2], 2)[0],
     "dynamic_partition: partitions hold 2 … 2 but num_partitions is 2"),
    (lambda: ops.range(ops.placeholder_with_default(5, []), 2),
     "range: start is 5 and limit is 2 but delta is 1; pass a step that leads from start to limit"),
    (lambda: ops.reduce_sum(ops.ones([2, 3]), ops.placeholder_with_default(2, [])),
     "axis: 2 is outside a tensor of rank 2; use -2 … 1"),
    *[(lambda axis=axis: ops.reduce_sum(ops.ones([2, 3]), ops.placeholder_with_default([0, axis], [None])),
       f"axis: {axis} is outside a tensor of rank 2; use -2 … 1") for axis in (-3, 2)],
    (lambda: ops.scatter_nd([[-1]], [1.0], [3]), "flat indices[0, :] = [-1] does not index into param (shape: [3])"),
    (lambda: ops.pad([1.0, 2.0], [[0, 2]], "REFLECT"),
     "pad: paddings [[0, 2]] mirror more than x of shape [2] has; in mode REFLECT use at most [1]"),
    (lambda: ops.gather_nd([1.0], [[1]]),
     "gather_nd: Invalid indices: flat indices[0, :] = [1] does not index into param (shape: [1])"),
]


@pytest.mark.parametrize("number", range(len(RUNTIME)))
def test_runtime_error_texts(number: int) -> None:
    build, text = RUNTIME[number]
    with pytest.raises(errors.InvalidArgumentError) as caught:
        evaluate([build()])
    assert text in str(caught.value)


@pytest.mark.filterwarnings("default")
def test_densify_warns_when_the_size_is_unknown() -> None:
    params = ops.placeholder("float32", [None, 3])
    with pytest.warns(UserWarning, match=r"densify: a sparse gradient of shape \[\?,3\] becomes dense"):
        ops.densify(gradients(ops.gather(params, [0]), params)[0])


def test_gather_gradient_stays_sparse_and_sums_concatenate() -> None:
    params = ops.placeholder("float32", [5, 2])
    total = ops.reduce_sum(ops.gather(params, [1, 3])) + ops.reduce_sum(ops.gather(params, [[3]]))
    grad = gradients(total, params)[0]
    assert isinstance(grad, IndexedSlices)
    values, indices = evaluate([grad.values, grad.indices], {params: np.zeros((5, 2))})
    assert values.shape == (3, 2) and sorted(indices.tolist()) == [1, 3, 3]


def test_gradient_of_rows_of_columns() -> None:
    """The gradient that reaches the inner gather is sparse."""
    x = ops.placeholder("float32", [3, 4])
    y = ops.gather(ops.gather(x, [0, 0, 1], axis=1), [0, 2, 0])
    [slope] = evaluate([convert(gradients(y, x)[0])], {x: np.zeros((3, 4))})
    np.testing.assert_array_equal(slope, [[4, 2, 0, 0], [0, 0, 0, 0], [2, 1, 0, 0]])


def test_leaky_relu_at_its_ends() -> None:
    x = ops.constant([np.inf, -np.inf, 0.0, np.nan])
    y = ops.leaky_relu(x, 0.25)
    value, slope = evaluate([y, gradients(y, x)[0]])
    np.testing.assert_array_equal(value, np.float32([np.inf, -np.inf, 0, np.nan]))
    np.testing.assert_array_equal(slope, np.float32([1, 0.25, 0.25, 0.25]))


def test_unfed_placeholder_is_named() -> None:
    x = ops.placeholder("float32", [None, 3], name="images")
    with pytest.raises(errors.InvalidArgumentError,
                       match=r"placeholder 'images': it was not fed; .* float32 .* \[\?,3\]"):
        evaluate([x])


def test_a_false_assertion_shows_its_data() -> None:
    x = ops.placeholder("float32", [2])
    with get_default_graph().control_dependencies([ops.Assert(ops.reduce_all(x > 0.0), [x, "positive please"])]):
        y = ops.sqrt(x)
    assert evaluate([y], {x: [1.0, 4.0]})[0].tolist() == [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match=r"Assert: assertion failed: \[1 -4\] \[positive please\]"):
        evaluate([y], {x: [1.0, -4.0]})


def test_no_op_is_an_operation() -> None:
    node = ops.no_op(name="nothing")
    assert isinstance(node, Operation) and node.outputs == () and node.name == "nothing"
