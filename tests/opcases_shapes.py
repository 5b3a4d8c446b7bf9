"""Rows of places of sparse tensors, volumes, sequences and boxes."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.opcase import Array, case, ints, positive, reals
from workbench.core.graph.build import ops

LONG: dict[str, Any] = {"dtype": np.int64}
PLACES, SHAPE = ints([1, 0], [0, 2], [0, 0], **LONG), ints(3, 4, **LONG)
case("sparse_order", PLACES, SHAPE, value=lambda i, s: ints(2, 1, 0))
case("sparse_reshape", PLACES, SHAPE, ints(2, -1, **LONG), unknown=False,
     value=lambda i, s, n: [ints([0, 4], [0, 2], [0, 0]), ints(2, 6)])
case("sparse_union", PLACES, ints([0, 2], [2, 1], **LONG), SHAPE, partial=True,
     value=lambda a, b, s: [ints([0, 0], [0, 2], [1, 0], [2, 1]), ints(2, 1, 0, -1), ints(-1, 0, -1, 1)])
case("sparse_groups", PLACES, SHAPE, value=lambda i, s: [ints(1, 0, 0), ints([0], [1])], attrs={"kept": (0,)}, partial=True)
case("sparse_rows_filled", ints([0, 1], [2, 0], **LONG), SHAPE, partial=True,
     value=lambda i, s: [ints([0, 1], [1, 0], [2, 0]), ints(0, -1, 1), np.array([False, True, False]), ints(0, 2)])
case("rows_outside", PLACES, ints(0, 5, **LONG), value=lambda i, m: np.array([True, False, False]))
case("set_operation", ints([0, 0], [0, 1], [1, 0], **LONG), ints(3, 5, 3), ints(2, 2, **LONG),
     ints([0, 0], [1, 0], **LONG), ints(5, 4), ints(2, 1, **LONG), attrs={"operation": "a-b"}, partial=True,
     value=lambda *v: [ints([0, 0], [1, 0]), ints(3, 3), ints(2, 1)])

# volumes
X, F = reals(1, 3, 4, 3, 2), reals(2, 2, 1, 2, 3, seed=1)


def windows(x: Array, k: Any, s: Any, pads: Any, d: Any, fill: float = 0.0) -> Array:
    """[n, sizes, k, c]: every place of the whole reach, then every step of it and every tap within it."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)
    reach = tuple((a - 1) * c + 1 for a, c in zip(k, d))
    every = np.lib.stride_tricks.sliding_window_view(x, reach, (1, 2, 3))
    taken = every[:, ::s[0], ::s[1], ::s[2], :, ::d[0], ::d[1], ::d[2]]
    return np.moveaxis(taken, 4, -1)


def filtered(x: Array, f: Array, s: Any, pads: Any, d: Any = (1, 1, 1)) -> Array:
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    sizes = [(n - (a - 1) * c - 1) // b + 1 for n, a, b, c in zip(x.shape[1:4], f.shape, s, d)]
    return sum(np.einsum("npqrc,co->npqro", x[(slice(None), *(slice(p * c, p * c + (n - 1) * b + 1, b) for p, n, b, c in zip(
        place, sizes, s, d)))], f[place]) for place in np.ndindex(*f.shape[:3]))


def adjoint(f: Any, like: Array, dy: Array) -> Array:
    """Of a linear function, column by column."""
    return np.array([np.sum(f(e.reshape(like.shape)) * dy) for e in np.eye(like.size)]).reshape(like.shape)


_NONE, _SAME = ((0, 0),) * 3, ((0, 1), (0, 0), (0, 0))
for _label, _step, _padding, _pads, _dilation in (("valid", (1, 1, 1), "VALID", _NONE, (1, 1, 1)),
                                                  ("same", (1, 2, 1), "SAME", _SAME, (1, 1, 1)),
                                                  ("dilated", (1, 1, 1), "VALID", _NONE, (1, 2, 1))):
    _go = lambda x, f, s=_step, p=_pads, d=_dilation: filtered(x, f, s, p, d)      # noqa: E731
    _options = {"strides": _step, "padding": _padding, "dilations": _dilation}
    _dy = reals(*_go(X, F).shape, seed=7)
    if _label != "same":
        case("convolve_volumes", X, F, value=_go, attrs=_options, label=_label,
             call=lambda x, f, **o: ops.convolve_volumes(x, f, **o))
    else:      # a filter as large as a padded volume can be would cost minutes
        case("convolve_volumes", X, value=lambda x, g=_go: g(x, F), attrs=_options, label=_label,
             call=lambda x, **o: ops.convolve_volumes(x, ops.cast(ops.constant(F), x.dtype), **o))
    case("convolve_volumes_back", F, _dy, ints(*X.shape), value=lambda f, dy, s, g=_go: adjoint(lambda x: g(x, f), X, dy),
         attrs=_options, label=_label)
    case("convolve_volumes_filters", X, _dy, ints(*F.shape), value=lambda x, dy, s, g=_go: adjoint(lambda f: g(x, f), F, dy),
         attrs=_options, label=_label)
case("conv3d", X.transpose(0, 4, 1, 2, 3), F, attrs={"strides": [1] * 5, "padding": "VALID", "data_format": "NCDHW"},
     value=lambda x, f: filtered(x.transpose(0, 2, 3, 4, 1), f, (1, 1, 1), _NONE).transpose(0, 4, 1, 2, 3))
case("conv3d_transpose", reals(1, 2, 3, 3, 3), F,
     attrs={"output_shape": [1, 3, 4, 3, 2], "strides": [1] * 5, "padding": "VALID"},
     value=lambda v, f: adjoint(lambda x: filtered(x, f, (1, 1, 1), _NONE), X, v))
case("conv3d_backprop_filter_v2", X, ints(*F.shape), reals(1, 2, 3, 3, 3), attrs={"strides": [1] * 5, "padding": "VALID"},
     value=lambda x, s, dy: adjoint(lambda f: filtered(x, f, (1, 1, 1), _NONE), F, dy))
_POOL = {"ksize": (2, 2, 2), "strides": (1, 2, 1), "padding": "SAME", "dilations": (1, 1, 1)}
_pool = lambda x, f, fill=0.0: f(windows(x, (2, 2, 2), (1, 2, 1), ((0, 1), (0, 0), (0, 1)), (1, 1, 1), fill), axis=(4, 5, 6))      # noqa: E731
_DY = reals(1, 3, 2, 3, 2, seed=3)
_mean = lambda x: _pool(x, np.nanmean, np.nan)      # noqa: E731
case("largest_in_volumes", X, value=lambda x: _pool(x, np.max, -np.inf), attrs=_POOL)
case("mean_in_volumes", X, value=_mean, attrs=_POOL)
case("mean_in_volumes_back", _DY, ints(*X.shape), value=lambda dy, s: adjoint(_mean, X, dy), attrs=_POOL)
_EPS = 1e-6
case("largest_in_volumes_back", X, _DY, attrs=_POOL, wrt=(1,), rtol=1e-3, small=False, value=lambda x, dy: adjoint(
    lambda e: (_pool(x + _EPS * e, np.max, -np.inf) - _pool(x, np.max, -np.inf)) / _EPS, X, dy))
case("at_largest_in_volumes", X, reals(*X.shape, seed=4), attrs=_POOL, wrt=(1,), rtol=1e-3, small=False,
     value=lambda x, d: (_pool(x + _EPS * d, np.max, -np.inf) - _pool(x, np.max, -np.inf)) / _EPS)
_FIVE = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}
case("max_pool3d", X, value=lambda x: _pool(x, np.max, -np.inf), attrs=_FIVE)
case("avg_pool3d", X, value=_mean, attrs=_FIVE)
case("convolution", X[:, 0, 0], F[0, 0], value=lambda x, f: filtered(x[:, None, None], f[None, None], (1, 1, 1), _NONE)[:, 0,
                                                                                                                        0],
     attrs={"padding": "VALID"}, label="one")
case("convolution", X[:, 0], F[0], value=lambda x, f: filtered(x[:, None], f[None], (1, 1, 1), _NONE, (1, 2, 1))[:, 0],
     attrs={"padding": "VALID", "dilation_rate": [2, 1]}, label="two")
case("convolution", X, F, value=lambda x, f: filtered(x, f, (2, 1, 1), _NONE), label="three",
     attrs={"padding": "VALID", "strides": [2, 1, 1]})
case("pool", X[:, 0, 0], value=lambda x: np.maximum(x[:, :-1], x[:, 1:]), label="one",
     attrs={"window_shape": [2], "pooling_type": "MAX", "padding": "VALID"})
case("pool", X[:, 0].transpose(0, 3, 1, 2), value=lambda x: (x[:, :, :-2] + x[:, :, 2:]) / 2, label="two", attrs={
    "window_shape": [2, 1], "pooling_type": "AVG", "padding": "VALID", "dilation_rate": [2, 1], "data_format": "NCHW"})

# derivatives of convolutions, and places of largest elements
_I, _K = reals(2, 5, 4, 2), reals(3, 2, 2, 3, seed=1)


def _conv(x: Array, f: Array, s: int = 1, d: int = 1) -> Array:
    """Valid convolution by steps of s, elements d apart."""
    return filtered(x[:, None], f[None], (1, s, s), _NONE, (1, d, d))[:, 0]


def _deep(x: Array, f: Array) -> Array:
    """Each channel with its own filters."""
    each = [_conv(x[..., c:c + 1], f[:, :, c:c + 1]) for c in range(x.shape[3])]
    return np.concatenate(each, -1)


_VALID: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "VALID"}
case("conv2d_filter_gradient", _I, ints(*_K.shape), reals(2, 3, 3, 3, seed=2), attrs=_VALID,
     value=lambda x, s, dy: adjoint(lambda f: _conv(x, f), _K, dy))
case("conv2d_image_gradient", ints(*_I.shape), _K, reals(2, 3, 3, 3, seed=2), attrs=_VALID,
     value=lambda s, f, dy: adjoint(lambda x: _conv(x, f), _I, dy))
case("atrous_conv2d_transpose", reals(2, 1, 2, 3, seed=2), _K, ints(*_I.shape), attrs={"rate": 2, "padding": "VALID"},
     value=lambda dy, f, s: adjoint(lambda x: _conv(x, f, 1, 2), _I, dy))
case("depthwise_filter_gradient", _I, ints(*_K.shape), reals(2, 3, 3, 6, seed=2), attrs=_VALID,
     value=lambda x, s, dy: adjoint(lambda f: _deep(x, f), _K, dy))
case("depthwise_image_gradient", ints(*_I.shape), _K, reals(2, 3, 3, 6, seed=2), attrs=_VALID, unknown=False,
     value=lambda s, f, dy: adjoint(lambda x: _deep(x, f), _I, dy))


def _reached(x: Array, f: Array, pads: Any, s: int, d: int) -> Array:
    """Each window plus the filter: [n, h, w, 1, rows, columns, c]."""
    room = windows(x[:, None], (1, *f.shape[:2]), (1, s, s), ((0, 0), *pads), (1, d, d), -np.inf)
    return room[:, 0, :, :, 0] + f


_M = reals(2, 3, 2, seed=5) / 3
case("dilation2d", _I, _M, attrs={**_VALID, "rates": [1, 2, 1, 1]},
     value=lambda x, f: np.maximum.reduce([x[:, 2 * i:2 * i + 3, j:j + 2] + f[i, j] for i, j in np.ndindex(2, 3)]))
case("dilation2d", _I, _M, attrs={"strides": [1, 2, 2, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}, label="same",
     value=lambda x, f: np.maximum.reduce([np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), constant_values=-np.inf)[
         :, i:i + 5:2, j:j + 3:2] + f[i, j] for i, j in np.ndindex(2, 3)]))
case("erosion2d", _I, _M, attrs={**_VALID, "rates": [1, 1, 1, 1]},
     value=lambda x, f: np.minimum.reduce([x[:, i:i + 4, j:j + 2] - f[1 - i, 2 - j] for i, j in np.ndindex(2, 3)]))


def _pools(x: Array) -> list[Array]:
    """By windows of 2 x 2, padding behind."""
    found, places = np.full((2, 3, 2, 2), -np.inf), np.zeros((2, 3, 2, 2), np.int64)
    for n, i, j, c in np.ndindex(2, 5, 4, 2):
        if x[n, i, j, c] > found[n, i // 2, j // 2, c]:
            found[n, i // 2, j // 2, c], places[n, i // 2, j // 2, c] = x[n, i, j, c], (i * 4 + j) * 2 + c
    return [found, places]


_BY_TWO: dict[str, Any] = {"strides": (2, 2), "ksize": (2, 2), "padding": "SAME"}
case("largest_places", _I, value=lambda x: _pools(x)[1], attrs=_BY_TWO, small=False, order=0)
case("largest_places", _I, value=lambda x: _pools(x)[1] + np.arange(2)[:, None, None, None] * 40, small=False, order=0,
     attrs={**_BY_TWO, "batched": True}, label="batched")
case("max_pool_with_argmax", _I, value=_pools, attrs=_BY_TWO, small=False)

# sequences
LOGITS, LABELS = reals(4, 2, 3), (ints([0, 0], [1, 0], [1, 1], **LONG), ints(1, 0, 0), ints(3, 4))


def collapsed(path: Any, blank: int) -> list[int]:
    kept = [k for i, k in enumerate(path) if i == 0 or k != path[i - 1]]
    return [k for k in kept if k != blank]


def likelihoods(x: Array, i: Array, v: Array, n: Array) -> Array:
    """Over every path there is."""
    y = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return np.array([-np.log(sum(np.prod([y[t, b, k] for t, k in enumerate(path)]) for path in itertools.product(
        range(x.shape[2]), repeat=int(n[b])) if collapsed(path, x.shape[2] - 1) == v[i[:, 0] == b].tolist()))
        for b in range(x.shape[1])])


case("ctc", LOGITS, *LABELS, value=likelihoods, order=1, unknown=False, small=False,
     call=lambda *v: ops.ctc(*v, collapse=False, repeated=True, longer=False)[0])

# boxes
BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 0, 1, 0.9]])
case("non_max_suppression", BOXES, np.float32([0.9, 0.8, 0.3, 0.95]), ints(*[3])[0], np.float32(0.5), partial=True, order=0,
     value=lambda b, s, n, o: ints(3, 2))
case("bipartite_match", np.float32([[0.5, 0.1, 8], [0.2, 0.3, 8], [0, 0, 0]]), np.float32(2), order=0,
     value=lambda d, n: [ints(1, 0, -1), ints(1, 0, -1)])
case("bipartite_match", np.float32([[0.5, 0.1, 8], [0.2, 0.3, 8]]), np.float32(-1), order=0, attrs={"top_k": 1}, label="one",
     value=lambda d, n: [ints(1, -1), ints(-1, 0, -1)])
IMAGE = positive(2, 3, 4, 2).astype(np.float32)
WHOLE, WHICH = np.float32([[0, 0, 1, 1], [1, 0, 0, 1]]), ints(1, 0)
_turned = lambda x, b, i: np.stack([x[1], x[0, ::-1]])      # noqa: E731
case("crop_and_resize", IMAGE, WHOLE, WHICH, ints(3, 4), value=lambda x, b, i, n: _turned(x, b, i), rtol=1e-4)
case("crop_and_resize", IMAGE, np.float32([[0.5, 0, 1.5, 1]]), ints(0), ints(2, 4), rtol=1e-4, label="outside",
     attrs={"extrapolation_value": 7.0, "method": "nearest"}, value=lambda x, b, i, n: np.stack([np.stack([x[0, 1],
                                                                                                           0 * x[0, 1] + 7])]))
case("crop_gradient_image", IMAGE, WHOLE, WHICH, ints(2, 3, 4, 2), value=lambda dy, b, i, n: np.stack([dy[1, ::-1], dy[0]]),
     rtol=1e-4)
case("crop_gradient_boxes", np.ones((1, 2, 2, 1), np.float32), np.float32([[[[0], [1]], [[2], [3]]]]),
     np.float32([[0.1, 0.1, 0.9, 0.9]]),
     ints(0), value=lambda dy, x, b, i: np.float32([[4, 2, 4, 2]]), order=0)
_drawn = np.zeros((1, 4, 4, 1), np.float32)
_drawn[0, 1:3, 1:4] = 1
_drawn[0, 0, 0] = 0
case("draw_bounding_boxes", np.zeros((1, 4, 4, 1), np.float32), np.float32([[[0.34, 0.34, 0.67, 1.0]]]), order=0,
     value=lambda x, b: _drawn)

# paths
_STEPS = ints([[1, 2, 3], [5, 5, 5]], [[4, 5, 6], [5, 6, 7]], [[7, 8, 9], [1, 2, 3]])
_PARENTS = ints([[0, 0, 0], [0, 0, 0]], [[0, 1, 1], [2, 2, 2]], [[2, 1, 2], [0, 0, 1]])
case("tree_paths", _STEPS, _PARENTS, ints([3, 3, 2], [3, 0, 1]), np.int32(6),
     value=lambda s, p, n, e: ints([[2, 2, 2], [5, 6, 5]], [[6, 5, 6], [5, 6, 6]], [[6, 8, 6], [1, 6, 6]]))
