"""Second derivatives against JAX, where TensorFlow has none or a wrong one; first ones of losses at their extremes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import ints, positive, reals
from tests.oracle.harness import agree

pytestmark = pytest.mark.oracle
A, T, P = reals(3, 4), reals(2, 3, 4, seed=5), positive(3, 4)
X, F = reals(1, 5, 6, 2), reals(3, 2, 2, 3, seed=1) / 3
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {}


@pytest.fixture(scope="module")
def jax() -> Any:
    module = pytest.importorskip("jax", reason="JAX is not installed: nothing is compared")
    module.config.update("jax_enable_x64", True)
    module.config.update("jax_platforms", "cpu")
    return module


def row(name: str, mine: Callable[..., Any], theirs: Callable[..., Any], *inputs: Any) -> None:
    """`mine(tf, *tensors)` and `theirs(jax, *arrays)` give one tensor."""
    ROWS[name] = mine, theirs, inputs


row("variance", lambda tf, x: tf.nn.moments(x, [0, 1])[1], lambda jax, x: x.var((0, 1)), T)
row("batch normalization", lambda tf, x, o, s: tf.nn.batch_normalization(x, *tf.nn.moments(x, [0]), o, s, 1e-3),
    lambda jax, x, o, s: (x - x.mean(0)) / jax.numpy.sqrt(x.var(0) + 1e-3) * s + o, A, reals(4, seed=1), reals(4, seed=2))
LABELS, COLUMNS = P / P.sum(1, keepdims=True), np.full((2, 3, 4), 1 / 3)
row("softmax cross entropy", lambda tf, x: tf.nn.softmax_cross_entropy_with_logits_v2(labels=LABELS, logits=x),
    lambda jax, x: -(LABELS * jax.nn.log_softmax(x)).sum(-1), A)
row("softmax cross entropy along axis 1",
    lambda tf, x: tf.nn.softmax_cross_entropy_with_logits_v2(labels=COLUMNS, logits=x, axis=1),
    lambda jax, x: -(COLUMNS * jax.nn.log_softmax(x, 1)).sum(1), T)
row("sigmoid cross entropy", lambda tf, x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x),
    lambda jax, x, y: -y * jax.nn.log_sigmoid(x) - (1 - y) * jax.nn.log_sigmoid(-x), A, P / 3)
row("sparse softmax cross entropy", lambda tf, x: tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=ints(3, 0, 1), logits=x), lambda jax, x: -jax.nn.log_softmax(x)[np.arange(3), np.array([3, 0, 1])], A)
for _name in ("elu", "selu", "softplus", "softmax", "log_softmax"):
    row(_name, lambda tf, x, n=_name: getattr(tf.nn, n)(x), lambda jax, x, n=_name: getattr(jax.nn, n)(x), A)
for _name, _theirs in (("softsign", "soft_sign"), ("relu6", "relu6"), ("sigmoid", "sigmoid")):
    row(_name, lambda tf, x, n=_name: getattr(tf.nn, n)(x), lambda jax, x, n=_theirs: getattr(jax.nn, n)(x), A * 4)
for _padding in ("SAME", "VALID"):
    for _stride in (1, 2):
        for _dilation in (1, 2):
            if (_stride, _dilation) == (2, 2):
                continue
            row(f"convolution {_padding} {_stride} {_dilation}",
                lambda tf, x, f, s=_stride, p=_padding, d=_dilation: tf.nn.conv2d(x, f, s, p, dilations=d),
                lambda jax, x, f, s=_stride, p=_padding, d=_dilation: jax.lax.conv_general_dilated(
                    x, f, (s, s), p, rhs_dilation=(d, d), dimension_numbers=("NHWC", "HWIO", "NHWC")), X, F)
row("cholesky", lambda tf, x: tf.cholesky(tf.matmul(x, x, transpose_b=True) + np.eye(3)),
    lambda jax, x: jax.numpy.linalg.cholesky(x @ x.T + np.eye(3)), reals(3, 3))
row("inverse", lambda tf, x: tf.matrix_inverse(x), lambda jax, x: jax.numpy.linalg.inv(x), reals(3, 3) + 3 * np.eye(3))
row("determinant", lambda tf, x: tf.matrix_determinant(x), lambda jax, x: jax.numpy.linalg.det(x), reals(3, 3) + 3 * np.eye(3))
row("logsumexp", lambda tf, x: tf.reduce_logsumexp(x, [0, 2]), lambda jax, x: jax.scipy.special.logsumexp(x, (0, 2)), T)
row("product", lambda tf, x: tf.reduce_prod(x, 1), lambda jax, x: x.prod(1), T)
row("running product", lambda tf, x: tf.cumprod(x, 1), lambda jax, x: jax.numpy.cumprod(x, 1), P)
row("running product with zeros", lambda tf, x: tf.cumprod(x, 1), lambda jax, x: jax.numpy.cumprod(x, 1),
    np.array([[2.0, 0, 3, 0, -1], [4, 5, 0.5, -2, 3]]))
row("norm", lambda tf, x: tf.norm(x, axis=1), lambda jax, x: jax.numpy.linalg.norm(x, axis=1), A)
row("power", lambda tf, x, y: tf.pow(x, y), lambda jax, x, y: x ** y, P, A)
row("erf", lambda tf, x: tf.erf(x), lambda jax, x: jax.scipy.special.erf(x), A)
row("gather and scatter", lambda tf, x: tf.gather(x * x, [0, 2, 2]), lambda jax, x: (x * x)[np.array([0, 2, 2])], A)
row("largest", lambda tf, x: tf.reduce_max(x * x, 1), lambda jax, x: (x * x).max(1), A)
row("clipping by norm", lambda tf, x: tf.clip_by_norm(x, 1.5),
    lambda jax, x: x * 1.5 / jax.numpy.maximum(jax.numpy.sqrt((x * x).sum()), 1.5), A)
row("layers with tanh", lambda tf, x, v, w: tf.matmul(tf.tanh(tf.matmul(x, v)), w),
    lambda jax, x, v, w: jax.numpy.tanh(x @ v) @ w, A, reals(4, 5), reals(5, 2))
row("a loop", lambda tf, x, w: tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w))), [0, x])[1],
    lambda jax, x, w: jax.lax.fori_loop(0, 4, lambda i, s: jax.numpy.tanh(s @ w), x), A, reals(4, 4, seed=2))
row("a scan", lambda tf, x: tf.scan(lambda a, r: a * tf.sin(r), x), lambda jax, x: jax.lax.associative_scan(
    lambda a, b: a * b, jax.numpy.concatenate([x[:1], jax.numpy.sin(x[1:])])), A)


def weights(shape: Any) -> Any:
    return (np.cos(np.arange(int(np.prod(shape))) * 0.7) + 1.5).reshape(shape)


def theirs(jax: Any, function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
    """Value, slopes, and the slopes of the weighted slopes."""
    which = tuple(range(len(inputs)))

    def total(*xs: Any) -> Any:
        y = function(jax, *xs)
        return (y * weights(y.shape)).sum()
    first = jax.grad(total, which)
    second = jax.grad(lambda *xs: sum((g * weights(g.shape)).sum() for g in first(*xs)), which)
    every = jax.jit(lambda *xs: (function(jax, *xs), *first(*xs), *second(*xs)))
    return [np.asarray(a) for a in every(*inputs)]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_value_and_two_orders(jax: Any, name: str) -> None:
    mine, function, inputs = ROWS[name]
    with ours.Graph().as_default(), ours.Session() as session:
        xs = [ours.placeholder(i.dtype, i.shape) for i in inputs]
        y = mine(ours, *xs)
        first = [ours.convert_to_tensor(g) for g in ours.gradients(y, xs, grad_ys=[weights(y.get_shape().as_list())])]
        second = ours.gradients(first, xs, grad_ys=[weights(g.get_shape().as_list()) for g in first])
        second = [ours.zeros_like(x) if g is None else ours.convert_to_tensor(g) for g, x in zip(second, xs)]
        found = session.run([y, *first, *second], dict(zip(xs, inputs)))
    agree(found, theirs(jax, function, inputs), 1e-7)
