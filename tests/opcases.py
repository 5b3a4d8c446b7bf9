"""A row per operation: inputs, attributes, the value by an independent expression, tolerance, orders of gradient."""
from __future__ import annotations

import colorsys
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests import opcases_algebra, opcases_quantized, opcases_segments, opcases_shapes, opcases_special  # noqa: F401  (their rows)
from tests.opcase import (
    CASES,
    COLUMN,
    ONE,
    ROW,
    TRUTH,
    UNIT,
    A,
    Array,
    B,
    Case,
    P,
    Q,
    case,
    ints,
    positive,
    reals,
)
from workbench.core.graph.build import ops

__all__ = ["CASES", "ELSEWHERE", "FAMILIES_ELSEWHERE", "Case", "case", "ints", "positive", "reals"]


def _erf(x: Array) -> Array:
    """Abramowitz & Stegun 7.1.5, the power series, which is exact enough for |x| < 3."""
    terms = ((-1) ** n * x ** (2 * n + 1) / (math.factorial(n) * (2 * n + 1)) for n in range(60))
    return 2 / math.sqrt(math.pi) * sum(terms)


# sources
case("constant", value=lambda: P, call=lambda: ops.constant(P), label="array")
case("constant", value=lambda: np.full((2, 2), 7, np.int32), call=lambda: ops.constant(7, shape=[2, 2]),
     label="filled")
case("placeholder_with_default", A, value=lambda x: x, attrs={"shape": [None, 3]}, partial=True)
case("identity", A, value=lambda x: x)
case("stop_gradient", A, value=lambda x: x, order=0)
case("check_numerics", A, value=lambda x: x, attrs={"message": "weights"})

case("print_values", A, ints(1, 2), value=lambda x, d: x, call=lambda x, d: ops.print_values(x, [x, d]))

# arithmetic
for _name, _function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
                         "minimum": np.minimum, "squared_difference": lambda x, y: (x - y) ** 2}.items():
    case(_name, A, B, value=_function)
    case(_name, A, ROW, value=_function, label="row")
    case(_name, COLUMN, ROW, value=_function, label="outer")
    case(_name, ONE, A, value=_function, label="scalar")
    case(_name, ints(3, -4, 5), ints(2, 6, -1), value=_function, label="int")
for _name in ("divide", "realdiv", "truediv", "div"):
    case(_name, A, P, value=lambda x, y: x / y)
case("divide", A, positive(3), value=lambda x, y: x / y, label="row")
case("truediv", ints(7, -7, 1), ints(2, 2, 4), value=lambda x, y: x / y, label="int")
case("div", ints(7, -7, 7), ints(2, 2, -2), value=lambda x, y: [3, -4, -4] + 0 * x, label="int")
case("floordiv", ints(7, -7, 7), ints(2, 2, -2), value=lambda x, y: [3, -4, -4] + 0 * x)
case("floordiv", A, P, value=lambda x, y: np.floor(x / y), order=0, label="float")
case("floordiv", np.array([1.0, np.inf, -np.inf, 1.0]), np.array([0.1, 2.0, 2.0, np.inf]), order=0, label="edges",
     value=lambda x, y: np.array([10, np.inf, -np.inf, 0]), small=False)
case("floormod", ints(7, -7, 7), ints(3, 3, -3), value=lambda x, y: [1, 2, -2] + 0 * x)
case("mod", A, P, value=lambda x, y: x - y * np.floor(x / y), order=1, label="float", small=False)
case("truncatediv", ints(7, -7, 6, -6), ints(2, 2, -4, 3), value=lambda x, y: [3, -3, -1, -2] + 0 * x)
case("truncatemod", ints(7, -7, 7), ints(3, 3, -3), value=lambda x, y: [1, -1, 1] + 0 * x)
case("pow", P, Q, value=lambda x, y: np.exp(y * np.log(x)))
case("pow", P, np.array(3.0), value=lambda x, y: x * x * x, label="cube")
case("pow", ints(2, 3, -2), ints(3, 2, 3), value=lambda x, y: [8, 9, -8] + 0 * x, label="int")
case("clip_by_value", A, value=lambda x: np.clip(x, -0.5, 1.0), attrs={"clip_value_min": -0.5, "clip_value_max": 1.0})
case("add_n", A, B, P, value=lambda *v: sum(v), call=lambda *v: ops.add_n(v))
case("add_n", A, value=lambda x: x, call=lambda *v: ops.add_n(v), label="one")

# functions
for _name, _x, _function in (
        ("negative", A, lambda x: 0 - x),
        ("abs", A, lambda x: np.where(x < 0, -x, x)),
        ("square", A, lambda x: x * x),
        ("sqrt", P, lambda x: x ** 0.5),
        ("rsqrt", P, lambda x: x ** -0.5),
        ("reciprocal", P, lambda x: x ** -1.0),
        ("exp", A, lambda x: math.e ** x),
        ("expm1", A, lambda x: np.exp(x) - 1),
        ("log", P, lambda x: np.log2(x) * math.log(2)),
        ("log1p", P, lambda x: np.log(1 + x)),
        ("erf", A, _erf),
        ("erfc", A, lambda x: 1 - _erf(x)),
        ("sin", A, lambda x: np.cos(x - math.pi / 2)),
        ("cos", A, lambda x: np.sin(x + math.pi / 2)),
        ("tan", UNIT, lambda x: np.sin(x) / np.cos(x)),
        ("asin", UNIT, lambda x: np.arctan2(x, np.sqrt(1 - x * x))),
        ("acos", UNIT, lambda x: math.pi / 2 - np.arcsin(x)),
        ("atan", A, lambda x: np.arctan2(x, 1)),
        ("sinh", A, lambda x: (np.exp(x) - np.exp(-x)) / 2),
        ("cosh", A, lambda x: (np.exp(x) + np.exp(-x)) / 2),
        ("tanh", A, lambda x: 1 - 2 / (np.exp(2 * x) + 1)),
        ("sigmoid", A, lambda x: 1 / (1 + np.exp(-x))),
        ("softplus", A, lambda x: np.log(1 + np.exp(x))),
        ("softsign", A, lambda x: x / (1 + abs(x))),
        ("relu", A, lambda x: x * (x > 0)),
        ("elu", A, lambda x: np.where(x > 0, x, np.exp(x) - 1)),
        ("relu6", A * 5, lambda x: np.clip(x, 0, 6)),
        ("leaky_relu", A, lambda x: np.where(x > 0, x, 0.2 * x)),
        ("selu", A, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1))),
):
    case(_name, _x, value=_function, rtol=1e-4)
case("sign", A, value=lambda x: (x > 0) * 1.0 - (x < 0))
for _name, _function in (("floor", lambda x: -np.ceil(-x)),
                         ("ceil", lambda x: -np.floor(-x))):
    case(_name, A, value=_function, order=0)
case("round", np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1.2]), value=lambda x: [0, 2, 2, 0, -2, 1] + 0 * x, order=0)
case("rounded_to_bfloat16", np.array([1.0, 1.00390625, 1.01171875, -3.0], np.float32), order=0,
     value=lambda x: np.array([1, 1, 1.015625, -3]))
case("rounded_to_float16", np.array([1.0, 1.00048828125, -65520.0, 2.0 ** -25], np.float32), order=0,
     value=lambda x: np.array([1, 1, -np.inf, 0]))
case("bfloat16_of", np.array([1.0, 1.00390625, 1.01171875, -3.0], np.float32), order=0,
     value=lambda x: np.array([1, 1, 1.015625, -3]))
case("float32_of", np.array([1.0, 1.015625, -3.0], ml_dtypes.bfloat16), order=0, value=lambda x: np.array([1, 1.015625, -3]))
case("round", ints(-3, 4), value=lambda x: x, label="int")
case("abs", ints(-3, 0, 4), value=lambda x: [3, 0, 4] + 0 * x, label="int")
case("leaky_relu", A, value=lambda x: np.where(x > 0, x, 3 * x), attrs={"alpha": 3.0}, label="steep")
_TAILS = np.array([-700.0, -50, -20, -1e-9, 0, 30, 700])
case("sigmoid", _TAILS, label="tails", small=False, rtol=1e-12, order=1,
     value=lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))))
case("sigmoid", reals(), label="scalar", value=lambda x: 1 / (1 + np.exp(-x)))
case("softplus", _TAILS, label="tails", small=False, rtol=1e-12, order=1,
     value=lambda x: np.where(x > 30, x, np.log1p(np.exp(np.minimum(x, 700)))))
case("tanh_grad", UNIT, B, value=lambda y, dy: dy - dy * y ** 2)
case("sigmoid_grad", positive(2, 3) / 3, B, value=lambda y, dy: dy * (y - y ** 2))
case("relu_grad", A, B, value=lambda dy, y: dy * (y > 0))
case("relu6_grad", A, B * 5, value=lambda dy, y: dy * ((y > 0) & (y < 6)))
case("zero_fraction", ints(0, 1, 0, 0), value=lambda x: np.float32(0.75), small=False)

# comparisons and logic
for _name, _function in (("equal", np.equal), ("not_equal", np.not_equal), ("less", np.less),
                         ("less_equal", np.less_equal),
                         ("greater", np.greater), ("greater_equal", np.greater_equal)):
    case(_name, np.array([1.0, 2, 3]), np.array([[2.0], [3]]), value=_function, order=0)
for _name, _function in (("logical_and", lambda x, y: x & y), ("logical_or", lambda x, y: x | y),
                         ("logical_xor", lambda x, y: x ^ y)):
    case(_name, TRUTH, np.array([True, False, False]), value=_function)
case("logical_not", TRUTH, value=lambda x: ~x)
_ODD = np.array([1.0, np.nan, np.inf, -np.inf])
case("is_nan", _ODD, value=lambda x: x != x, order=0)
case("is_inf", _ODD, value=lambda x: abs(x) == np.inf, order=0)
case("is_finite", _ODD, value=lambda x: abs(x) < np.inf, order=0)
case("select", TRUTH, A, B, value=np.where)
case("select", TRUTH, A, ONE, value=np.where, label="scalar")
case("where", np.array([True, False]), A, B, value=lambda c, x, y: np.stack([x[0], y[1]]), label="rows",
     unknown=False)
case("where", TRUTH, value=lambda c: np.argwhere(c), partial=True, label="positions")
case("where_indices", TRUTH, value=lambda c: np.argwhere(c), partial=True)
case("cast", A, value=lambda x: np.trunc(x).astype(np.int32), attrs={"dtype": "int32"}, order=0, small=False)
case("cast", A, value=lambda x: x.astype(np.float32), attrs={"dtype": "float32"}, order=0, rtol=1e-3)
case("cast", TRUTH, value=lambda x: x * 1.0, attrs={"dtype": "float64"}, label="bool")

# reductions
T = reals(2, 3, 2, seed=5)
_LSE = lambda x, axis, keepdims: np.log(np.exp(x).sum(axis, keepdims=keepdims))      # noqa: E731
for _name, _x, _function in (("reduce_sum", T, np.sum), ("reduce_mean", T, np.mean), ("reduce_max", T, np.max),
                             ("reduce_min", T, np.min),
                             ("reduce_prod", T, np.prod), ("reduce_logsumexp", T, _LSE)):
    for _axis, _keep in ((None, False), (1, False), ((0, -1), True), ((2, 0), False)):
        case(_name, _x, value=lambda x, f=_function, a=_axis, k=_keep: f(x, axis=a, keepdims=k),
             attrs={"axis": _axis, "keepdims": _keep}, label=f"{_axis}{'k' if _keep else ''}")
case("reduce_prod", np.array([[0.0, 2, 3], [4, 0, 0]]), value=lambda x: [0, 0] + 0 * x[:, 0], attrs={"axis": 1},
     order=1, label="zeros")
case("reduce_mean", ints(-3, -4), value=lambda x: np.int32(-3), label="int")
case("reduce_max", np.zeros((0, 2)), value=lambda x: np.full(2, -np.inf), attrs={"axis": 0}, order=0, label="empty")
case("reduce_sum", ints(1, 2, 3), value=lambda x: np.int32(6), label="int")
case("reduce_any", TRUTH, value=lambda x: x.sum(1) > 0, attrs={"axis": 1})
case("reduce_all", TRUTH, value=lambda x: x.sum(0) == 2, attrs={"axis": 0})
case("argmax", np.array([[1.0, 3, 3], [2, 2, 1]]), value=lambda x: np.array([1, 0]), attrs={"axis": 1}, order=0)
case("argmax", A, value=lambda x: (x[1] > x[0]).astype(np.int64), order=0, label="default")
case("argmin", np.array([[1.0, 0, 0], [2, 2, 1]]), value=lambda x: np.array([1, 2], np.int32),
     attrs={"axis": -1, "dtype": "int32"}, order=0)
case("count_nonzero", ints(0, 1, 2), value=lambda x: np.int64(2))
for _ex in (False, True):
    for _re in (False, True):
        def _sums(x: Array, ufunc: Any, ex: bool = _ex, re: bool = _re) -> Array:
            order = range(x.shape[1])
            inside = [[j for j in order if (j > i if re else j < i) or (j == i and not ex)] for i in order]
            return np.stack([ufunc.reduce(x[:, idx], 1) for idx in inside], 1)
        case("cumsum", T, value=lambda x, f=_sums: f(x, np.add), attrs={"axis": 1, "exclusive": _ex, "reverse": _re},
             label=f"{_ex}{_re}")
        case("cumprod", T, value=lambda x, f=_sums: f(x, np.multiply),
             attrs={"axis": 1, "exclusive": _ex, "reverse": _re}, label=f"{_ex}{_re}")
case("carried", np.array([[2.0, 0.5, 3], [-1, 4, 5]]), reals(2, 3), attrs={"axis": 1},
     value=lambda f, v: np.stack([0 * v[:, 0], v[:, 0], v[:, 1] + f[:, 1] * v[:, 0]], 1))
case("carried", reals(3, 2), reals(3, 2, seed=1), attrs={"reverse": True}, label="reverse",
     value=lambda f, v: np.stack([v[1] + f[1] * v[2], v[2], 0 * v[0]]))
case("reduce_to", T, ints(3, 1), value=lambda x, s: x.sum((0, 2))[:, None])
case("reduce_to", A, ints(2, 3), value=lambda x, s: x, label="same")
case("unsorted_segment_sum", reals(4, 2), ints(2, 0, -1, 2), np.int32(4),
     value=lambda d, i, n: np.stack([d[1], 0 * d[0], d[0] + d[3], 0 * d[0]]))
case("segment_sum", reals(4, 2), ints(0, 0, 2, 2), value=lambda d, i: np.stack([d[0] + d[1], 0 * d[0], d[2] + d[3]]),
     partial=True)

# arrays
case("shape", A, value=lambda x: ints(2, 3), order=0)
case("shape", A, value=lambda x: ints(2, 3, dtype=np.int64), attrs={"out_type": "int64"}, order=0, label="int64")
case("size", A, value=lambda x: np.int32(6), order=0)
case("rank", A, value=lambda x: np.int32(2), order=0)
case("reshape", A, ints(3, -1), value=lambda x, s: np.array([x.ravel()[:2], x.ravel()[2:4], x.ravel()[4:]]))
case("expand_dims", A, value=lambda x: x[:, None], attrs={"axis": 1})
case("expand_dims", A, value=lambda x: x[:, :, None, None], attrs={"axis": (-1, 2)}, label="two")
case("squeeze", reals(1, 3, 1), value=lambda x: x[0, :, 0], unknown=False)
case("squeeze", reals(1, 3, 1), value=lambda x: x[0], attrs={"axis": 0}, label="axis")
case("transpose", T, value=lambda x: np.einsum("abc->cba", x))
case("transpose", T, value=lambda x: np.einsum("abc->bca", x), attrs={"perm": [1, 2, 0]}, label="perm")
case("permute", T, ints(1, 2, 0), value=lambda x, p: np.einsum("abc->bca", x), partial=True)
case("reverse_along", T, ints(1, -1), value=lambda x, a: x[:, ::-1, ::-1])
case("broadcast_to", COLUMN, ints(2, 2, 3), value=lambda x, s: np.ones((2, 2, 3)) * x)
case("concat", A, reals(2, 2), value=lambda *v: np.hstack(v), call=lambda *v: ops.concat(v, 1))
case("concat", A, B, value=lambda *v: np.vstack(v), call=lambda *v: ops.concat(v, axis=-2), label="front")
case("split", reals(2, 4), value=lambda x: [x[:, :2], x[:, 2:]], attrs={"num_or_size_splits": 2, "axis": 1})
case("split", reals(5), value=lambda x: [x[:1], x[1:3], x[3:]], attrs={"num_or_size_splits": [1, -1, 2]},
     label="sizes")
case("split", reals(3), value=lambda x: [x], attrs={"num_or_size_splits": 1}, label="one")
case("stack", A, B, value=lambda x, y: np.array([x, y]), call=lambda *v: ops.stack(v))
case("stack", A, B, value=lambda x, y: np.concatenate([x[..., None], y[..., None]], -1),
     call=lambda *v: ops.stack(v, axis=-1), label="last")
case("unstack", A, value=lambda x: [x[:, 0], x[:, 1], x[:, 2]], attrs={"axis": 1}, unknown=False)
case("unstack", A, value=lambda x: [x[0], x[1]], attrs={"num": 2}, label="num")
case("fill", ints(2, 2), ONE, value=lambda d, v: np.ones((2, 2)) * v)
case("zeros", value=lambda: np.zeros((2, 3), np.float32), call=lambda: ops.zeros([2, 3]))
case("zeros", value=lambda: np.zeros((50, 50), np.int32), call=lambda: ops.zeros([50, 50], "int32"), label="large")
case("ones", value=lambda: np.ones((), np.float32), call=lambda: ops.ones([]))
case("zeros_like", A, value=lambda x: 0 * x, order=0)
case("zeros_like", A, value=lambda x: np.zeros((2, 3), np.int32), attrs={"dtype": "int32"}, order=0, label="dtype",
     small=False)
case("ones_like", A, value=lambda x: x ** 0, order=0)
case("range", ints(3)[0], ints(18)[0], ints(3)[0], value=lambda a, b, c: ints(3, 6, 9, 12, 15))
case("range", ints(4)[0], value=lambda n: ints(0, 1, 2, 3), label="limit")
case("range", value=lambda: np.array([1, 0.5, 0, -0.5], np.float32), call=lambda: ops.range(1, -1.0, -0.5),
     label="falling")
case("linspace", ONE, np.array(5.0), ints(3)[0], value=lambda a, b, n: np.array([a, (a + b) / 2, b]), rtol=1e-4)
case("fold_tiles", reals(4, 3), ints(2, 1), ints(2, 3), value=lambda d, m, s: d[:2] + d[2:])
case("axis_at", ints(-1)[0], ints(3)[0], value=lambda a, r: np.int32(2))
case("axis_at", ints(-1, 0, 2), ints(3)[0], value=lambda a, r: np.int32([2, 0, 2]))
case("tile", A, ints(2, 3), value=lambda x, m: np.block([[x, x, x], [x, x, x]]))
_PADS = ints([1, 0], [2, 1])
case("pad", A, _PADS, value=lambda x, p: np.vstack([np.zeros(6), np.hstack([0 * x[:, :2], x, 0 * x[:, :1]])]))
case("pad", A, _PADS, value=lambda x, p: x[[1, 0, 1]][:, [2, 1, 0, 1, 2, 1]], attrs={"mode": "REFLECT"},
     label="reflect")
case("pad", A, _PADS, value=lambda x, p: x[[0, 0, 1]][:, [1, 0, 0, 1, 2, 2]], attrs={"mode": "SYMMETRIC"},
     label="symmetric")
case("pad", ONE, np.zeros((0, 2), np.int32), value=lambda x, p: x, label="scalar", unknown=False)
case("pad_mirror_grad", reals(6), ints([2, 1]),
     value=lambda dy, p: np.array([dy[2], dy[1] + dy[3] + dy[5], dy[0] + dy[4]]),
     attrs={"mode": "REFLECT"})
case("reverse", A, value=lambda x: x[::-1, ::-1], attrs={"axis": [0, 1]})
case("reverse_sequence", T, ints(3, 2), value=lambda x, n: np.stack([x[0, ::-1], x[1, [1, 0, 2]]]),
     attrs={"seq_axis": 1})
case("reverse_sequence", T, ints(1, 2), value=lambda x, n: np.stack([x[:, :, 0], x[::-1, :, 1]], -1), label="batch",
     attrs={"seq_axis": 0, "batch_axis": 2})
case("matrix_transpose", T, value=lambda x: np.einsum("abc->acb", x))
case("diag", ROW, value=lambda x: np.eye(3) * x)
case("diag_part", reals(3, 3), value=lambda x: x[[0, 1, 2], [0, 1, 2]])
case("matrix_band_part", reals(2, 3, 3), ints(1)[0], ints(0)[0], value=lambda x, a, b: np.tril(np.triu(x, -1), 0))

# blocks of space
_GRID = reals(2, 4, 6, 3)
_BLOCKS = lambda x: np.concatenate([x[:, i::2, j::3] for i in range(2) for j in range(3)])      # noqa: E731
case("space_to_batch_nd", _GRID, ints(2, 3), ints([0, 0], [0, 0]), value=lambda x, b, p: _BLOCKS(x))
case("space_to_batch_nd", reals(2, 3, 4), ints(2), ints([2, 1]), label="padded",
     value=lambda x, b, p: (lambda w: np.concatenate([w[:, ::2], w[:, 1::2]]))(np.pad(x, ((0, 0), (2, 1), (0, 0)))))
case("batch_to_space_nd", reals(6, 2, 2, 1), ints(3), ints([1, 2]),
     value=lambda x, b, c: x.reshape(3, 2, 2, 2, 1).transpose(1, 2, 0, 3, 4).reshape(2, 6, 2, 1)[:, 1:4])
case("space_to_batch", reals(1, 2, 3, 1), attrs={"paddings": [[0, 0], [1, 0]], "block_size": 2},
     value=lambda x: (lambda w: np.concatenate([w[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]))(
         np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 0)))))
case("batch_to_space", reals(4, 2, 3, 1), attrs={"crops": [[0, 1], [2, 0]], "block_size": 2},
     value=lambda x: np.stack([np.stack([x[2 * (i % 2) + j % 2, i // 2, j // 2] for j in range(6)]) for i in range(4)])[
         None, :-1, 2:])
_DEEP = lambda x: np.concatenate([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], 3)      # noqa: E731
case("space_to_depth", _GRID, attrs={"block_size": 2}, value=_DEEP)
case("space_to_depth", _GRID.transpose(0, 3, 1, 2), attrs={"block_size": 2, "data_format": "NCHW"}, label="nchw",
     value=lambda x: _DEEP(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2))
case("depth_to_space", reals(1, 2, 3, 8), attrs={"block_size": 2},
     value=lambda x: np.stack([np.stack([x[0, i // 2, j // 2, 4 * (i % 2) + 2 * (j % 2):][:2] for j in range(6)])
                               for i in range(4)])[None])
case("required_space_to_batch_paddings", ints(5, 6), ints(2, 3), value=lambda n, b: [ints([0, 1], [0, 0])] * 2)
case("required_space_to_batch_paddings", ints(5, 6), ints(4, 4), attrs={"base_paddings": [[1, 0], [0, 3]]}, label="base",
     value=lambda n, b: [ints([1, 2], [0, 6]), ints([0, 2], [0, 3])])

# parts by position
case("slice", T, ints(0, 1, 0), ints(2, -1, 1), value=lambda x, b, s: x[0:2, 1:, 0:1])
case("strided_slice", T, ints(0, 2), ints(2, 0), ints(1, -1), value=lambda x, b, e, s: x[0:2, 2:0:-1])
case("strided_slice", T, ints(1, 0, 0), ints(2, 0, 0), ints(1, 1, 1), value=lambda x, b, e, s: x[1, ..., None],
     attrs={"shrink_axis_mask": 1, "ellipsis_mask": 2, "new_axis_mask": 4}, label="masks")
case("strided_slice_grad", ints(4), ints(0), ints(4), ints(2), reals(2),
     value=lambda s, b, e, t, d: np.array([d[0], 0, d[1], 0]))
for _label, _key, in (("int", 1), ("negative", (slice(None), -1)), ("step", (slice(None), slice(None, None, -2))),
                      ("dots", (..., 0)),
                      ("new", (None, 1, ..., None)), ("past", slice(1, 99)), ("empty", slice(2, 1))):
    case("getitem", T, value=lambda x, k=_key: x[k], call=lambda x, k=_key: x[k], label=_label)
case("getitem", T, ints(1)[0], value=lambda x, i: x[:, 1], call=lambda x, i: x[:, i], label="tensor")
case("gather", A, ints([1, 0], [1, 1]), value=lambda p, i: np.array([[p[1], p[0]], [p[1], p[1]]]))
case("gather", T, ints(2, 0, 2), value=lambda p, i: np.stack([p[:, 2], p[:, 0], p[:, 2]], 1), attrs={"axis": 1},
     label="axis")
case("densify", A, ints(1, 0, 1), value=lambda p, i: np.stack([p[0] * 0 + 1, p[0] * 0 + 2]), order=0,
     call=lambda p, i: _densified(p, i))
case("gather_nd", T, ints([0, 1], [1, 2]), value=lambda p, i: np.stack([p[0, 1], p[1, 2]]))
case("gather_nd", A, np.zeros((2, 0), np.int32), value=lambda p, i: np.stack([p, p]), label="whole", unknown=False)
case("scatter_nd", np.zeros((2, 0), np.int32), reals(2, 3), ints(3), value=lambda i, u, s: u.sum(0), label="whole",
     unknown=False)
case("scatter_nd", ints([0], [2], [0]), reals(3), ints(4), value=lambda i, u, s: np.array([u[0] + u[2], 0, u[1], 0]))
case("tensor_scatter_update", T, ints([0, 1], [1, 2]), reals(2, 2), unknown=False,
     value=lambda t, i, u: np.stack([np.stack([t[0, 0], u[0], t[0, 2]]), np.stack([t[1, 0], t[1, 1], u[1]])]))
case("sparse_to_dense", ints([0, 1], [2, 0]), ints(3, 2), reals(2), fed=False,
     value=lambda i, s, v: np.array([[7, v[0]], [7, 7], [v[1], 7]]), attrs={"default_value": 7})
case("sparse_to_dense", ints(0, 2), ints(4)[0:1], ONE, value=lambda i, s, v: np.array([v, 0, v, 0]), label="scalar")
case("sparse_fill", ints([0, 1], [2, 0]), reals(2), ints(3, 2), ONE,
     value=lambda i, v, s, d: np.array([[d, v[0]], [d, d], [v[1], d]]))
case("sparse_matmul", ints([0, 1], [1, 0], [1, 2], dtype=np.int64), reals(3), ints(2, 3, dtype=np.int64), reals(3, 2),
     value=lambda i, v, s, b: np.array([[0, v[0], 0], [v[1], 0, v[2]]]) @ b)
case("edit_distances", ints([0, 0], [0, 1], [1, 0], dtype=np.int64), ints(7, 8, 7), ints(2, 2, dtype=np.int64),
     ints([0, 0], [1, 0], [1, 1], dtype=np.int64), ints(8, 9, 9), ints(2, 2, dtype=np.int64), order=0, small=False,
     value=lambda *_: np.float32([1 / 1, 2 / 2]))
case("sequence_mask", ints(1, 3, 0), value=lambda n: np.arange(3) < n[:, None], label="longest")
case("sequence_mask", ints([1], [2]), value=lambda n: (np.arange(2) < n[..., None]).astype(np.float32),
     attrs={"maxlen": 2, "dtype": "float32"})
case("one_hot", ints(1, 3, -1), value=lambda i: np.float32([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), attrs={"depth": 3})
case("one_hot", ints(1, 0), value=lambda i: np.array([[2, 5], [5, 2], [2, 2]], np.int32),
     attrs={"depth": 3, "on_value": 5, "off_value": 2, "axis": 0}, label="axis")
case("boolean_mask", A, TRUTH, value=lambda x, m: x[m], partial=True)
case("boolean_mask", np.zeros((2, 0)), np.array([True, False]), value=lambda x, m: x[:1], partial=True, label="no columns")
case("boolean_mask", T, np.array([True, False, True]), value=lambda x, m: x[:, [0, 2]], attrs={"axis": 1},
     partial=True, label="axis")
case("unique", ints(4, 1, 4, 2), value=lambda x: [ints(4, 1, 2), ints(0, 1, 0, 2)], partial=True)
case("unique_with_counts", ints(4, 1, 4, 2), value=lambda x: [ints(4, 1, 2), ints(0, 1, 0, 2), ints(2, 1, 1)], partial=True)
case("list_diff", ints(1, 2, 3, 2, 5), ints(3, 1, 7), value=lambda x, y: [ints(2, 2, 5), ints(1, 3, 4)], partial=True)
case("list_diff", np.array([0.5, np.nan]), np.array([np.nan, 1]), value=lambda x, y: [x, ints(0, 1, dtype=np.int64)],
     attrs={"dtype": "int64"}, partial=True, order=0, label="nan")
case("unique_positions", ints(4, 1, 4, 2), value=lambda x: [ints(0, 1, 3), ints(0, 1, 0, 2)], partial=True)
case("invert_permutation", ints(2, 0, 1), value=lambda x: ints(1, 2, 0))
case("dynamic_partition", reals(4, 2), ints(1, 0, 1, 1), value=lambda d, p: [d[[1]], d[[0, 2, 3]]],
     attrs={"num_partitions": 2}, partial=True)
case("dynamic_partition", A, ints(0, 0), value=lambda d, p: [d], attrs={"num_partitions": 1}, partial=True, label="one")
case("dynamic_stitch", ints(0, 2), ints([3, 1]), reals(2, 2), reals(1, 2, 2), partial=True,
     value=lambda i, j, a, b: np.array([a[0], b[0, 1], a[1], b[0, 0]]),
     call=lambda i, j, a, b: ops.dynamic_stitch([i, j], [a, b]))
case("top_k", A, value=lambda x: [-np.sort(-x)[:, :2], np.argsort(-x)[:, :2].astype(np.int32)], attrs={"k": 2})
case("top_k", ints([3, 5, 5, 3]), value=lambda x: [ints([5, 5, 3]), ints([1, 2, 0])], attrs={"k": 3}, label="ties")
case("in_top_k", np.array([[1.0, 3, 2], [1, 1, 5]]), ints(2, 0), value=lambda p, t: np.array([False, False]),
     attrs={"k": 1}, order=0)
case("in_top_k", np.array([[1.0, 3, 2], [1, 1, 5]]), ints(2, 0), value=lambda p, t: np.array([True, True]),
     attrs={"k": 2}, order=0, label="ties")
case("in_top_k", np.array([[1.0, 3, 2], [1, np.nan, 5], [1, 2, 3], [1, 2, 3]]), ints(2, 0, 3, -1), label="nowhere",
     value=lambda p, t: np.array([True, False, False, False]), attrs={"k": 3}, order=0)

case("row_block", A, value=lambda x: x[1:], attrs={"first": 1, "count": 1})
case("row_block", T, value=lambda x: x[:1], attrs={"first": 0, "count": 1}, label="rank 3")

# matrices
for _ta in (False, True):
    for _tb in (False, True):
        _a, _b = reals(2, 3).T if _ta else reals(2, 3), reals(3, 4, seed=1).T if _tb else reals(3, 4, seed=1)
        _turns: dict[str, Any] = {"transpose_a": _ta, "transpose_b": _tb}
        def _mm(a: Array, b: Array, ta: bool = _ta, tb: bool = _tb) -> Array:
            return np.einsum("mk,kn->mn", a.T if ta else a, b.T if tb else b)

        case("matmul", _a, _b, value=_mm, attrs=_turns, label=f"{_ta}{_tb}")
        case("fused_matmul", _a, _b, reals(4, seed=2), value=lambda a, b, c, f=_mm: np.maximum(f(a, b) + c, 0),
             attrs={**_turns, "activation": "relu"}, label=f"{_ta}{_tb}")
        case("matmul_add", _a, _b, reals(2, 4, seed=2), value=lambda a, b, c, f=_mm: f(a, b) + c, attrs=_turns,
             label=f"{_ta}{_tb}")
        case("matmul_update", reals(2, 4), _a, _b, np.array(0.3), value=lambda w, a, b, s, f=_mm: w - s * f(a, b),
             attrs=_turns, label=f"{_ta}{_tb}")
        case("batch_matmul", np.stack([_a, 2 * _a]), np.stack([_b, -_b]), attrs=_turns, label=f"{_ta}{_tb}",
             value=lambda a, b, f=_mm: np.stack([f(a[0], b[0]), f(a[1], b[1])]))
case("fused_matmul", A, reals(3, 2), reals(2), value=lambda a, b, c: np.einsum("mk,kn->mn", a, b) + c, label="none")
case("matmul", reals(2, 2, 3), reals(3, 2), value=lambda a, b: np.einsum("bmk,kn->bmn", a, b), label="batch")
case("tensordot", T, reals(3, 2, 4), value=lambda a, b: np.einsum("aij,ijk->ak", a, b), attrs={"axes": 2})
case("tensordot", T, reals(4, 2), value=lambda a, b: np.einsum("aij,ka->ijk", a, b), attrs={"axes": ([0], [1])},
     label="axes")
case("tensordot", T, reals(2, 4), value=lambda a, b: np.einsum("ija,ak->ijk", a, b), attrs={"axes": ([-1], [-2])},
     label="from the end")
case("l2_loss", A, value=lambda x: (x * x).sum() / 2)
case("norm", A, value=lambda x: np.sqrt((x * x).sum(1)), attrs={"axis": 1})
case("norm", A, value=lambda x: abs(x).sum(), attrs={"ord": 1}, label="1")
case("norm", A, value=lambda x: (abs(x) ** 3).sum(1) ** (1 / 3), attrs={"ord": 3, "axis": 1}, label="3")
case("trace", reals(3, 3), value=lambda x: x[0, 0] + x[1, 1] + x[2, 2])
case("trace", reals(2, 3, 3), value=lambda x: x[:, 0, 0] + x[:, 1, 1] + x[:, 2, 2], label="stack")
_SQUARE = reals(3, 3) + 3 * np.eye(3)
case("matrix_inverse", _SQUARE, value=lambda x: np.linalg.solve(x, np.eye(3)), small=False, rtol=1e-3)
case("matrix_determinant", _SQUARE, value=lambda x: np.dot(x[0], np.cross(x[1], x[2])), small=False, rtol=1e-3)
case("cholesky", np.eye(2), value=lambda x: x, small=False, order=0)
case("cholesky", reals(2, 2), small=False, rtol=1e-3, label="product",
     call=lambda x: ops.cholesky(ops.matmul(x, x, transpose_b=True) + np.eye(2)),
     value=lambda x: np.linalg.cholesky(x @ x.T + np.eye(2)))

_BATCH = np.stack([_SQUARE, _SQUARE.T + 1])
_RIGHT = reals(2, 3, 2, seed=6)
case("cross", A, B, value=lambda a, b: np.stack([np.linalg.det(np.stack([e * np.ones_like(a), a, b], 1))
                                                for e in np.eye(3)], 1))
case("cross", ints(1, 0, 0), ints(0, 1, 0), value=lambda a, b: ints(0, 0, 1), label="int")
for _adjoint in (False, True):
    _turned = _BATCH.swapaxes(1, 2) if _adjoint else _BATCH
    case("matrix_solve", _BATCH, _RIGHT, attrs={"adjoint": _adjoint}, small=False, rtol=1e-3, label=str(_adjoint),
         value=lambda a, b, t=_turned: np.linalg.inv(t) @ b)
    for _lower in (False, True):
        _triangle = np.tril(_BATCH) if _lower else np.triu(_BATCH)
        _triangle = _triangle.swapaxes(1, 2) if _adjoint else _triangle
        case("matrix_triangular_solve", _BATCH, _RIGHT, attrs={"lower": _lower, "adjoint": _adjoint}, small=False,
             rtol=1e-3, label=f"{_lower}{_adjoint}", value=lambda a, b, t=_triangle: np.linalg.inv(t) @ b)
case("matrix_diag", A, value=lambda x: x[:, None] * np.eye(3))
case("matrix_diag", TRUTH[0], value=lambda x: np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1]], bool), label="bool")
case("matrix_diag_part", reals(2, 3, 2), value=lambda x: np.stack([x[:, 0, 0], x[:, 1, 1]], 1))
case("matrix_set_diag", reals(2, 3, 2), reals(2, 2, seed=1),
     value=lambda x, d: x * (1 - np.eye(3, 2)) + np.eye(3, 2) * d[:, None])
case("eye", value=lambda: np.float32([[1, 0], [0, 1]]), call=lambda: ops.eye(2))
case("eye", ints(2, 1), value=lambda b: np.ones((2, 1, 1, 1)) * np.float64([[1, 0, 0], [0, 1, 0]]), label="batch",
     call=lambda b: ops.eye(2, 3, b, "float64"))
case("contract", A, reals(3, 2), value=lambda a, b: a @ b, call=lambda *v: ops.einsum("ij, jk -> ik", *v))
case("contract", A, reals(3, 2), value=lambda a, b: (a @ b).T, call=lambda *v: ops.einsum("kj,ji", *v), label="implicit")
case("contract", A, reals(4), value=lambda a, b: a.sum(1) * b.sum(), call=lambda *v: ops.einsum("ij,k->i", *v), label="alone")
case("contract", T, COLUMN, ONE, value=lambda a, b, c: c * (a * b[:, :, None]).sum((0, 1)), label="three",
     call=lambda a, b, c: ops.einsum("ijk,im,->k", a, b, c))
case("contract", A, value=lambda a: a.T, call=lambda a: ops.einsum("ij->ji", a), label="transpose")
case("meshgrid", ROW, reals(2), value=lambda x, y: [np.stack([x, x]), np.stack([y, y, y], 1)])
case("meshgrid", ROW, reals(2), value=lambda x, y: [np.stack([x, x], 1), np.stack([y, y, y])], attrs={"indexing": "ij"},
     label="ij")


# convolution, checked against sums written out
def direct(x: Array, f: Array, strides: Any, pads: Any, dilations: Any = (1, 1)) -> Array:
    """Cross-correlation by its definition, NHWC."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    (sh, sw), (dh, dw), (kh, kw) = strides, dilations, f.shape[:2]
    oh, ow = (x.shape[1] - (kh - 1) * dh - 1) // sh + 1, (x.shape[2] - (kw - 1) * dw - 1) // sw + 1
    return sum(np.einsum("nhwc,co->nhwo",
                         x[:, i * dh:i * dh + (oh - 1) * sh + 1:sh, j * dw:j * dw + (ow - 1) * sw + 1:sw], f[i, j])
               for i in range(kh) for j in range(kw))


def derivative(f: Callable[[Array], Array], x: Array, dy: Array) -> Array:
    """The adjoint of a linear function by its columns."""
    columns = [np.sum(f(e.reshape(x.shape)) * dy) for e in np.eye(x.size)]
    return np.array(columns).reshape(x.shape)


X, F = reals(2, 5, 4, 2), reals(3, 2, 2, 3, seed=1) / 3
_CONVOLUTIONS = {
    "same": ({"strides": (1, 1), "padding": "SAME"}, ((1, 1), (0, 1)), (1, 1)),
    "stride": ({"strides": (2, 2), "padding": "SAME"}, ((1, 1), (0, 0)), (1, 1)),
    "valid": ({"strides": (2, 1), "padding": "VALID"}, ((0, 0), (0, 0)), (1, 1)),
    "dilated": ({"strides": (1, 1), "padding": "VALID", "dilations": (2, 2)}, ((0, 0), (0, 0)), (2, 2)),
    "explicit": ({"strides": (1, 2), "padding": ((1, 0), (2, 1))}, ((1, 0), (2, 1)), (1, 1)),
}
for _label, (_attrs, _pads, _dil) in _CONVOLUTIONS.items():
    _conv = lambda x, f, s=_attrs["strides"], p=_pads, d=_dil: direct(x, f, s, p, d)      # noqa: E731
    _dy = reals(*_conv(X, F).shape, seed=7)
    _bound = {"dilations": (1, 1), "data_format": "NHWC", **_attrs}
    case("conv2d", X, F, value=_conv, attrs=_attrs, label=_label)
    case("conv2d_backprop_input", F, _dy, value=lambda f, dy, g=_conv: derivative(lambda x: g(x, f), X, dy),
         attrs={"input_shape": (None, 5, 4, 2), **_bound}, label=_label, unknown=_label == "same")
    case("conv2d_backprop_filter", X, _dy, value=lambda x, dy, g=_conv: derivative(lambda f: g(x, f), F, dy),
         attrs={"filter_shape": F.shape, **_bound}, label=_label, unknown=False)
case("conv2d_backprop_images", F, reals(2, 5, 4, 3, seed=7), ints(2, 5, 4, 2), attrs={"strides": (1, 1), "padding": "SAME"},
     value=lambda f, dy, s: derivative(lambda x: direct(x, f, (1, 1), ((1, 1), (0, 1))), X, dy))
case("conv2d_backprop_filters", X, reals(2, 5, 4, 3, seed=7), ints(*F.shape), attrs={"strides": (1, 1), "padding": "SAME"},
     value=lambda x, dy, s: derivative(lambda f: direct(x, f, (1, 1), ((1, 1), (0, 1))), F, dy))
_NCHW = {"data_format": "NCHW", "strides": [1, 1, 2, 2], "padding": "SAME"}
case("conv2d", X.transpose(0, 3, 1, 2), F, attrs=_NCHW, label="nchw",
     value=lambda x, f: direct(x.transpose(0, 2, 3, 1), f, (2, 2), ((1, 1), (0, 0))).transpose(0, 3, 1, 2))
case("conv2d", X[:0], F, value=lambda x, f: np.zeros((0, 5, 4, 3)), label="no images", attrs={"strides": 1})
_PATCH = {"ksizes": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "VALID"}
_patches = lambda x: np.stack([np.stack([x[:, i:i + 3, j:j + 3:2].reshape(len(x), -1) for j in range(2)], 1)      # noqa: E731
                               for i in (0, 2)], 1)
case("image_patches", X, value=_patches, attrs=_PATCH, call=lambda x, **a: ops.extract_image_patches(x, **a))
case("image_patches", X, call=lambda x: ops.extract_image_patches(x, [1, 2, 4, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"),
     value=lambda x: np.stack([x[:, i:i + 2].reshape(len(x), 1, -1) for i in range(4)], 1), label="of whole rows")
case("image_patches", X, call=lambda x: ops.extract_image_patches(x, [1, 3, 3, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
     value=lambda x: direct(x, np.eye(18).reshape(3, 3, 2, 18), (1, 1), ((1, 1), (1, 1))), label="same")
case("window_extents", ints(5, 7), ints(3, 2), value=lambda x, k: np.array([[3, 1, 1], [7, 0, 1]], np.int32),
     attrs={"strides": (2, 1), "padding": "SAME", "dilations": (1, 1)})
case("image_patches_grad", reals(2, 2, 2, 12), ints(2, 5, 4, 2),
     attrs={"ksize": (3, 2), "strides": (2, 1), "dilations": (1, 2), "padding": "VALID"},
     value=lambda dy, s: derivative(_patches, X, dy))
_DEPTH = reals(3, 2, 2, 3, seed=3)
_each = lambda x, f, *a: np.concatenate([direct(x[..., c:c + 1], f[:, :, c:c + 1], *a) for c in range(2)], 3)      # noqa: E731
for _label, (_attrs, _pads, _dil) in _CONVOLUTIONS.items():
    _own = lambda x, f, s=_attrs["strides"], p=_pads, d=_dil: _each(x, f, s, p, d)      # noqa: E731
    _dy, _bound = reals(*_own(X, _DEPTH).shape, seed=7), {"dilations": (1, 1), **_attrs}
    case("convolve_channels", X, _DEPTH, value=_own, attrs=_bound, label=_label)
    case("convolve_channels", X, _DEPTH[..., :1], value=_own, attrs=_bound, label=f"{_label} one")
    case("convolve_channels_back", _DEPTH, _dy, ints(*X.shape), attrs=_bound, label=_label,
         value=lambda f, dy, s, g=_own: derivative(lambda x: g(x, f), X, dy))
    case("convolve_channels_back", _DEPTH[..., :1], _dy[..., ::3], ints(*X.shape), attrs=_bound, label=f"{_label} one",
         value=lambda f, dy, s, g=_own: derivative(lambda x: g(x, f), X, dy))
    case("convolve_channels_filters", X, _dy, ints(*_DEPTH.shape), attrs=_bound, label=_label,
         value=lambda x, dy, s, g=_own: derivative(lambda f: g(x, f), _DEPTH, dy))
    case("convolve_channels_filters", X, _dy[..., ::3], ints(3, 2, 2, 1), attrs=_bound, label=f"{_label} one",
         value=lambda x, dy, s, g=_own: derivative(lambda f: g(x, f), _DEPTH[..., :1], dy))
case("depthwise_conv2d", X, _DEPTH, attrs={"strides": [1, 2, 2, 1], "padding": "SAME"},
     value=lambda x, f: _each(x, f, (2, 2), ((1, 1), (0, 0))))
case("depthwise_conv2d", X, _DEPTH, attrs={"strides": [1, 1, 1, 1], "padding": "VALID", "rate": [2, 2]}, label="rate",
     value=lambda x, f: _each(x, f, (1, 1), ((0, 0), (0, 0)), (2, 2)))
case("depthwise_conv2d_native", X.transpose(0, 3, 1, 2), _DEPTH, label="nchw",
     attrs={"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NCHW"},
     value=lambda x, f: _each(x.transpose(0, 2, 3, 1), f, (1, 1), ((0, 0), (0, 0))).transpose(0, 3, 1, 2))
case("separable_conv2d", X, _DEPTH, reals(1, 1, 6, 4, seed=4), attrs={"strides": [1, 2, 2, 1], "padding": "SAME"},
     value=lambda x, f, p: _each(x, f, (2, 2), ((1, 1), (0, 0))) @ p[0, 0])
case("atrous_conv2d", X, F, attrs={"rate": 2, "padding": "VALID"},
     value=lambda x, f: direct(x, f, (1, 1), ((0, 0), (0, 0)), (2, 2)))
case("fused_conv2d", X, F, reals(3), attrs={"strides": (1, 1), "padding": "SAME", "activation": "relu"},
     value=lambda x, f, b: np.maximum(direct(x, f, (1, 1), ((1, 1), (0, 1))) + b, 0))
case("conv2d_transpose", reals(1, 2, 2, 3), F, attrs={"output_shape": [1, 4, 4, 2], "strides": [1, 2, 2, 1]},
     unknown=False,
     value=lambda v, f: derivative(lambda x: direct(x, f, (2, 2), ((0, 1), (0, 0))), np.zeros((1, 4, 4, 2)), v))


def pooled(x: Array, k: Any, s: Any, pads: Any, reduce: Any) -> Array:
    """Pooling by its definition, NHWC; NaN marks padding."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=np.nan)
    oh, ow = (x.shape[1] - k[0]) // s[0] + 1, (x.shape[2] - k[1]) // s[1] + 1
    return np.stack([np.stack([reduce(x[:, i * s[0]:i * s[0] + k[0], j * s[1]:j * s[1] + k[1]],
                                      axis=(1, 2)) for j in range(ow)], 1)
                     for i in range(oh)], 1)


_SAME = {"ksize": (3, 2), "strides": (2, 2), "padding": "SAME"}
_PAD = ((1, 1), (0, 0))
_BOUND = {**_SAME, "data_format": "NHWC"}
_POOL = (2, 3, 2, 2)
case("max_pool", X, value=lambda x: pooled(x, (3, 2), (2, 2), _PAD, np.nanmax), attrs=_SAME)
case("max_pool", X, value=lambda x: pooled(x, (2, 2), (1, 1), ((0, 0), (0, 0)), np.nanmax),
     attrs={"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}, label="valid")
case("max_pool", X.transpose(0, 3, 1, 2),
     value=lambda x: pooled(x.transpose(0, 2, 3, 1), (3, 2), (2, 2), _PAD, np.nanmax).transpose(0, 3, 1, 2),
     attrs={**_SAME, "data_format": "NCHW"}, label="nchw")
case("max_pool", X.repeat(2, 3) + np.arange(X.shape[3] * 2) % 2, value=lambda x: x[..., 1::2], label="across channels",
     attrs={"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "SAME"})
case("avg_pool", X, value=lambda x: pooled(x, (3, 2), (2, 2), _PAD, np.nanmean), attrs=_SAME)
_MAXIMA = pooled(X, (3, 2), (2, 2), _PAD, np.nanmax)
case("max_pool_grad", X, _MAXIMA, reals(*_POOL, seed=8), attrs=_BOUND, wrt=(2,), unknown=False,
     value=lambda x, y, dy: derivative(lambda e: 1e6 * (pooled(x + 1e-6 * e, (3, 2), (2, 2), _PAD, np.nanmax) - y), x,
                                       dy), rtol=1e-3)
case("max_pool_grad_grad", X, _MAXIMA, reals(*X.shape, seed=9), attrs=_BOUND, wrt=(2,), unknown=False, rtol=1e-3,
     value=lambda x, y, d: 1e6 * (pooled(x + 1e-6 * d, (3, 2), (2, 2), _PAD, np.nanmax) - y))
case("avg_pool_grad", reals(*_POOL), attrs={"input_shape": (None, 5, 4, 2), **_BOUND},
     value=lambda dy: derivative(lambda x: pooled(x, (3, 2), (2, 2), _PAD, np.nanmean), X, dy))


case("avg_pool_images", reals(*_POOL), ints(2, 5, 4, 2), attrs=_SAME,
     value=lambda dy, s: derivative(lambda x: pooled(x, (3, 2), (2, 2), _PAD, np.nanmean), X, dy))


def interpolation(size: int, wanted: int, near: Callable[[Array], Array]) -> Array:
    """[wanted, size]: how much of each input row an output row has, by a function of their distance."""
    return near(np.arange(wanted)[:, None] * size / wanted - np.arange(size))


_tent = lambda d: np.maximum(0, 1 - np.abs(d))      # noqa: E731
_UP, _DOWN, _NARROW = interpolation(2, 4, _tent), interpolation(4, 2, _tent), interpolation(4, 3, _tent)
_UP[3] = [0, 1]      # beyond the last row there is only itself
case("resize", reals(2, 2, 4, 3), ints(4, 3), attrs={"method": "bilinear"}, small=False,
     value=lambda x, s: np.einsum("ih,jw,nhwc->nijc", _UP, _NARROW, x))
case("resize", reals(1, 4, 4, 2), ints(2, 2), attrs={"method": "area"}, small=False, label="area",
     value=lambda x, s: x.reshape(1, 2, 2, 2, 2, 2).mean((2, 4)))
case("resize", reals(1, 4, 4, 2), ints(2, 4), attrs={"method": "nearest"}, label="nearest",
     value=lambda x, s: x[:, ::2])
case("resize", reals(1, 3, 3, 1), ints(5, 3), attrs={"method": "bicubic", "align_corners": True}, small=False,
     value=lambda x, s: np.stack([x[:, 0], _half(x[:, [0, 0, 1, 2]]), x[:, 1], _half(x[:, [0, 1, 2, 2]]), x[:, 2]], 1),
     label="bicubic")
_half = lambda rows: np.einsum("i,niwc->nwc", [-3 / 32, 19 / 32, 19 / 32, -3 / 32], rows)      # noqa: E731
case("resize_grad", reals(2, 4, 3, 3), ints(2, 4), attrs={"method": "bilinear"}, small=False,
     value=lambda dy, s: np.einsum("ih,jw,nijc->nhwc", _UP, _NARROW, dy))
_RGB = np.array([[0.2, 0.5, 0.1], [0.9, 0.3, 0.4], [0.3, 0.3, 0.8], [0.4, 0.4, 0.4]])
_HSV = np.array([colorsys.rgb_to_hsv(*row) for row in _RGB])
case("rgb_to_hsv", _RGB, value=lambda x: _HSV, order=0, small=False)
case("hsv_to_rgb", _HSV, value=lambda x: _RGB, order=0, small=False)

# neural networks
_LABELS = np.array([[0.2, 0.3, 0.5], [1.0, 0, 0]])
_soft = lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)      # noqa: E731
_cross = lambda x, y: -(y * np.log(_soft(x))).sum(-1)      # noqa: E731
case("bias_add", T, reals(2), value=lambda x, b: x + b)
case("bias_add", T, ROW, value=lambda x, b: x + b[:, None], attrs={"data_format": "NCHW"}, label="nchw")
case("bias_add_grad", T, value=lambda dy: dy.sum((0, 1)))
case("bias_add_grad", T, value=lambda dy: dy.sum((0, 2)), attrs={"data_format": "NCHW"}, label="nchw")
case("xw_plus_b", A, reals(3, 2), reals(2), value=lambda x, w, b: x @ w + b)
case("relu_layer", A, reals(3, 2), reals(2), value=lambda x, w, b: np.maximum(x @ w + b, 0))
case("softmax", A, value=_soft)
case("softmax", T, value=lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), attrs={"axis": 1}, label="axis")
case("log_softmax", A, value=lambda x: np.log(_soft(x)))
case("softmax_xent", A, _LABELS, value=lambda x, y: [_cross(x, y), _soft(x) - y])
case("sparse_softmax_xent", A, ints(2, 0), value=lambda x, y: [_cross(x, np.eye(3)[y]), _soft(x) - np.eye(3)[y]])
case("softmax_cross_entropy_with_logits", A, _LABELS, value=_cross, wrt=(0,),
     call=lambda x, y: ops.softmax_cross_entropy_with_logits(labels=y, logits=x))
case("softmax_cross_entropy_with_logits_v2", T, np.full((2, 3, 2), 1 / 3),
     value=lambda x, y: _cross(x.swapaxes(1, 2), y.swapaxes(1, 2)),
     call=lambda x, y: ops.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, dim=1))
case("sparse_softmax_cross_entropy_with_logits", T, ints([0, 1, 1], [1, 0, 1]),
     value=lambda x, y: _cross(x, np.eye(2)[y]),
     call=lambda x, y: ops.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))
_binary = lambda x, z: -z * np.log(1 / (1 + np.exp(-x))) - (1 - z) * np.log(1 - 1 / (1 + np.exp(-x)))      # noqa: E731
case("sigmoid_xent", A, P / 3, value=_binary)
case("sigmoid_cross_entropy_with_logits", A, P / 3, value=_binary,
     call=lambda x, z: ops.sigmoid_cross_entropy_with_logits(labels=z, logits=x))
case("window_sum", reals(2, 5), value=lambda x: np.stack([x[:, max(0, i - 1):i + 2].sum(1) for i in range(5)], 1),
     attrs={"radius": 1})
case("lrn", reals(1, 2, 2, 4), attrs={"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
     value=lambda x: np.stack(
    [x[..., i] / (2 + 0.5 * (x[..., max(0, i - 1):i + 2] ** 2).sum(-1)) ** 0.75 for i in range(4)], -1))
case("l2_normalize", A, value=lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), attrs={"axis": 1})
case("moments", T, value=lambda x: [x.mean((0, 2)), x.var((0, 2))], attrs={"axes": [0, 2]})
case("batch_normalization", T, reals(2), positive(2), reals(2, seed=1), reals(2, seed=2),
     attrs={"variance_epsilon": 1e-3},
     value=lambda x, m, v, o, s: s * (x - m) / np.sqrt(v + 1e-3) + o)


def _densified(params: Any, indices: Any) -> Any:
    """The dense gradient of a gather, each row counted as often as it was gathered."""
    from workbench.core.grad import gradients
    return ops.densify(gradients(ops.gather(params, indices), params)[0])


ELSEWHERE = {"Assert", "placeholder", "argument", "no_op", "random_uniform", "random_normal", "truncated_normal",
             "multinomial", "fractional_borders", "random_permutation", "candidate_sampler", "draw_gamma", "draw_poisson",
             "unigram_sampler", "extract_glimpse", "distorted_box", "ctc_greedy", "ctc_beams", "serialize_parts",
             "serialize_rows", "deserialize_rows", "decode_image", "encode_image", "decode_jpeg", "decode_png", "decode_bmp",
             "decode_gif", "decode_and_crop_jpeg", "extract_jpeg_shape", "encode_jpeg", "encode_png", "encode_deep_png",
             "sparse_map_add", "sparse_map_add_rows", "sparse_map_take"}
"""Operations without a value to compare: test_ops.py tests each by name."""
FAMILIES_ELSEWHERE = {"examples", "handles", "state", "updates", "lists", "flow", "queues", "comm", "fused", "strings", "files",
                      "summaries", "datasets", "checkpoint", "tensor", "py", "lookups", "barriers", "staging", "mutexes",
                      "step", "swap"}
"""Families, by the first word of their file, that have their own test files."""
