"""Special functions, segments, factorisations, complex numbers, bits and counts against TensorFlow."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check, same_story

# a gradient of a gather whose size is unknown may become dense here
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()

A, B, P = reals(3, 4), reals(3, 4, seed=1), positive(3, 4)
UNIT = reals(3, 4, low=-0.95, high=0.95)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, -2.0, 171.0, 1e5])

# special functions
ROWS.each("lgamma digamma", np.concatenate([P, -P - 0.1]))
ROWS.each("lgamma", ODD, label="of odd numbers", order=0)
ROWS.each("digamma", ODD[[0, 1, 4, 7, 8]], label="of odd numbers", order=0)
ROWS.row("polygamma", lambda tf, x: [tf.polygamma(tf.constant(n, x.dtype), x) for n in (0.0, 1.0, 2.0, 5.0)], P)
ROWS.row("zeta", lambda tf, x: [tf.zeta(tf.constant(n, x.dtype), x) for n in (1.5, 2.0, 7.0)], P)
ROWS.each("igamma igammac", P + 0.5, P.T.reshape(3, 4) * 2, order=1, tolerance=1e-6, modes=("known", "dims", "constant"))
ROWS.each("igamma igammac", positive(3, 1), positive(4, seed=2), label="broadcast", order=1, tolerance=1e-6,
          modes=("known", "dims"))
ROWS.each("igamma igammac", np.array([0.0, 1.0, -1.0, 2.0]), np.array([1.0, 0.0, 1.0, -1.0]), label="outside", order=0)
ROWS.row("betainc", lambda tf, a, b, x: tf.betainc(a, b, x), P, P[::-1] + 0.3, (UNIT + 1) / 2, order=1, tolerance=1e-6,
         modes=("known", "dims", "constant"))
ROWS.each("lbeta", P)
ROWS.each("math.erfinv", UNIT)
ROWS.each("math.ndtri", (UNIT + 1) / 2)
ROWS.each("math.bessel_i0 math.bessel_i1 math.bessel_i0e math.bessel_i1e", A)
ROWS.each("asinh", A)
ROWS.each("acosh", P + 1)
ROWS.each("atanh", UNIT)
ROWS.each("atan2", A, B)
ROWS.each("log_sigmoid", A)
ROWS.each("realdiv", A, P)
ROWS.row("scalar_mul", lambda tf, x: tf.scalar_mul(3.0, x), A)
ROWS.row("div_no_nan", lambda tf, x, y: tf.div_no_nan(x, y), A, np.array([1.0, 0.0, 2.0, -1.0]), order=1)
ROWS.row("saturate_cast", lambda tf, x: [tf.saturate_cast(x, t) for t in ("int8", "uint8", "uint16")], A * 300, order=0)

# segments
ROWS.each("segment_sum segment_mean segment_max segment_min", reals(5, 2), ints(0, 0, 1, 3, 3))
ROWS.each("segment_prod", reals(5, 2), ints(0, 0, 1, 3, 3), order=1)
ROWS.each("segment_sum segment_mean segment_prod segment_max segment_min", ints([1, 2], [4, 5], [-7, 1]), ints(0, 0, 2),
          label="of ints", order=0)
_KINDS = "sum mean prod max min sqrt_n"
for _kind in _KINDS.split():
    ROWS.row(f"unsorted_segment_{_kind}", lambda tf, x, i, k=_kind: getattr(tf, f"unsorted_segment_{k}")(x, i, 3), reals(5, 2),
             ints(2, 0, -1, 2, 0), order=1, modes=("known", "constant", "float32"))
    ROWS.row(f"unsorted_segment_{_kind} of pairs", lambda tf, x, i, k=_kind: getattr(tf, f"unsorted_segment_{k}")(x, i, 2),
             reals(2, 3, 2), ints([1, 0, 1], [0, 0, 1]), order=1, modes=("known", "constant", "float32"))
ROWS.row("unsorted_segment_prod with zeros", lambda tf, x: tf.unsorted_segment_prod(x, [0, 0, 1, 1, 1], 2),
         np.array([0.0, 2.0, 0.0, 0.0, 3.0]), order=1)
for _kind in ("sum", "mean", "sqrt_n"):
    ROWS.row(f"sparse_segment_{_kind}", lambda tf, x, i, s, k=_kind: getattr(tf, f"sparse_segment_{k}")(x, i, s), reals(5, 2),
             ints(4, 0, 2, 4), ints(0, 0, 1, 3), order=1)
    ROWS.row(f"sparse_segment_{_kind} with num_segments", lambda tf, x, i, s, k=_kind: getattr(tf, f"sparse_segment_{k}")(
        x, i, s, num_segments=6), reals(5, 2), ints(4, 0, 2, 4), ints(0, 0, 1, 3), order=1)

# factorisations: what does not depend on signs
S = reals(2, 3, 3) + 3 * np.eye(3)
TALL, BROAD = reals(2, 4, 3, seed=5), reals(2, 3, 4, seed=6)
NEAR: dict[str, Any] = {"tolerance": 1e-6, "modes": ("known", "constant")}
ROWS.row("qr", lambda tf, x: tf.abs(tf.qr(x)[1]), TALL, order=1, **NEAR)
ROWS.row("qr full", lambda tf, x: [tf.abs(tf.qr(x, full_matrices=True)[1]), tf.shape(tf.qr(x, full_matrices=True)[0])], TALL,
         order=0, **NEAR)
for _label, _x in (("square", S), ("tall", TALL), ("broad", BROAD)):
    ROWS.row(f"svd {_label}", lambda tf, x: tf.svd(x, compute_uv=False), _x, order=1, **NEAR)
    ROWS.row(f"svd product {_label}", lambda tf, x: tf.matmul(tf.abs(tf.svd(x)[1]), tf.abs(tf.svd(x)[2]), transpose_b=True), _x,
             order=1, **NEAR)
    ROWS.row(f"svd full {_label}", lambda tf, x: [tf.shape(t) for t in tf.svd(x, full_matrices=True)], _x, order=0, **NEAR)
ROWS.row("self_adjoint_eig", lambda tf, x: [tf.self_adjoint_eig(x)[0], tf.abs(tf.self_adjoint_eig(x)[1])],
         S + S.swapaxes(1, 2), order=1, **NEAR)
ROWS.each("self_adjoint_eigvals linalg.eigvalsh", S + S.swapaxes(1, 2), order=1, **NEAR)
ROWS.row("logdet", lambda tf, x: tf.linalg.logdet(tf.matmul(x, x, transpose_b=True)), S, **NEAR)
ROWS.each("linalg.slogdet linalg.det linalg.inv linalg.expm linalg.adjoint linalg.trace", S / 3, order=1, **NEAR)
ROWS.row("cholesky_solve", lambda tf, x, b: tf.cholesky_solve(tf.cholesky(tf.matmul(x, x, transpose_b=True)), b), S,
         reals(2, 3, 2), order=1, **NEAR)
for _fast in (True, False):
    ROWS.row(f"matrix_solve_ls {_fast}", lambda tf, a, b, f=_fast: tf.matrix_solve_ls(a, b, fast=f), TALL, reals(2, 4, 2),
             order=int(_fast), **NEAR)
    ROWS.row(f"matrix_solve_ls broad {_fast}", lambda tf, a, b, f=_fast: tf.matrix_solve_ls(a, b, fast=f), BROAD,
             reals(2, 3, 2), order=int(_fast), **NEAR)
ROWS.row("matrix_solve_ls regular", lambda tf, a, b: tf.matrix_solve_ls(a, b, l2_regularizer=0.5), TALL, reals(2, 4, 2),
         order=1, **NEAR)
for _ord in ("euclidean", "fro", 1, np.inf):
    ROWS.row(f"norm of matrices {_ord}", lambda tf, x, o=_ord: [tf.norm(x, o, [-2, -1]), tf.norm(x, o, [1, 2], keepdims=True)],
             TALL, order=1)
for _ord in ("euclidean", 1, 2, 3, np.inf):
    ROWS.row(f"norm of vectors {_ord}", lambda tf, x, o=_ord: [tf.norm(x, o), tf.norm(x, o, -1)], TALL, order=1)

C = reals(4, 2) + 1j * reals(4, 2, seed=1)
ROWS.row("matrices of complex", lambda tf, a, b: [tf.norm(tf.complex(a, b), axis=0), tf.norm(tf.complex(a, b)), tf.norm(
    tf.complex(a, b), ord=1, axis=1)], A, B, order=0)
ROWS.row("matrix_solve_ls of complex", lambda tf: [tf.matrix_solve_ls(m, r) for m, r in ((C, C[:, :1]), (C.T, C[:2]))], order=0)
GRAM = C.conj().T @ C
ROWS.row("self-adjoint complex", lambda tf: [tf.self_adjoint_eigvals(GRAM), tf.linalg.logdet(GRAM)], order=0)

for _label, _x in (("tall", TALL), ("broad", BROAD)):
    ROWS.row(f"svd of complex {_label}", lambda tf, a, b: tf.svd(tf.complex(a, b), compute_uv=False), _x[0], _x[1], order=1,
             **NEAR)
    ROWS.row(f"svd product of complex {_label}", lambda tf, a, b: tf.matmul(tf.abs(tf.svd(tf.complex(a, b))[1]), tf.abs(tf.svd(
        tf.complex(a, b))[2]), transpose_b=True), _x[0], _x[1], order=1, **NEAR)
ROWS.row("self_adjoint_eigvals of complex", lambda tf, a, b: tf.real(tf.self_adjoint_eigvals(tf.complex(
    a + tf.transpose(a), b - tf.transpose(b)))), S[0], S[1], order=1, **NEAR)

# complex numbers
ROWS.row("complex", lambda tf, a, b: [tf.real(tf.complex(a, b)), tf.imag(tf.complex(a, b)), tf.abs(tf.complex(a, b)),
                                      tf.angle(tf.complex(a, b)), tf.complex(a, b), tf.conj(tf.complex(a, b))], A, B, order=1)
ROWS.row("real of reals", lambda tf, a: [tf.real(a), tf.conj(a), tf.abs(a)], A, order=1)
for _name in ["square", "exp", "log", "sqrt", "sin", "cos", "tanh", "reciprocal", "negative", "rsqrt"]:
    ROWS.row(f"{_name} of complex", lambda tf, a, b, n=_name: [f(getattr(tf, n)(tf.complex(a, b))) for f in (
        tf.real, tf.imag)], A, B, order=1)
for _name in ["multiply", "divide", "subtract", "pow"]:
    ROWS.row(f"{_name} of complex", lambda tf, a, b, c, n=_name: [f(getattr(tf, n)(tf.complex(a, b), tf.complex(c, c * 2.0)))
                                                                 for f in (tf.real, tf.imag)], A, B, reals(4, seed=3), order=1)
ROWS.row("matmul of complex", lambda tf, a, b: tf.abs(tf.matmul(tf.complex(a, b), tf.complex(b, a), transpose_b=True)), A, B,
         order=1)
ROWS.row("slogdet of complex", lambda tf, a, b: tf.real(tf.linalg.slogdet(tf.complex(a, b))[1]), S / 3, S[::-1] / 5, order=1,
         **NEAR)
ROWS.row("slogdet of complex, both", lambda tf, a, b: [f(part) for part in tf.linalg.slogdet(tf.complex(a, b)) for f in (
    tf.real, tf.imag)], S / 3, S[::-1] / 5, order=0, **NEAR)
ROWS.row("sums of complex", lambda tf, a, b: [tf.abs(tf.reduce_sum(tf.complex(a, b), 1)), tf.abs(tf.reduce_mean(
    tf.complex(a, b)))], A, B, order=1)
for _rank in ("", "2d", "3d"):
    for _way in ("fft", "ifft"):
        ROWS.row(f"{_way}{_rank}", lambda tf, a, b, n=_way + _rank: [getattr(tf, n)(tf.complex(a, b)), tf.abs(getattr(
            tf.spectral, n)(tf.complex(a, b)))], reals(2, 3, 4), reals(2, 3, 4, seed=1), order=1, tolerance=2e-5)
    ROWS.row(f"rfft{_rank}", lambda tf, a, n=_rank: getattr(tf.spectral, f"rfft{n}")(a), reals(2, 3, 4), order=0,
             tolerance=2e-5, modes=("float32",))
    ROWS.row(f"irfft{_rank}", lambda tf, a, b, n=_rank: getattr(tf.spectral, f"irfft{n}")(tf.complex(a, b)), reals(2, 3, 4),
             reals(2, 3, 4, seed=1), order=0, tolerance=2e-5, modes=("float32",))
for _norm in (None, "ortho"):
    ROWS.row(f"dct {_norm}", lambda tf, a, n=_norm: tf.spectral.dct(a, norm=n), reals(2, 3, 4), order=1, tolerance=2e-5,
             modes=("float32",))
ROWS.row("sigmoid of complex", lambda tf, a, b: [f(tf.sigmoid(tf.complex(a, b))) for f in (tf.real, tf.imag)], A, B, order=1)
for _n in (3, 4, 6):      # TensorFlow's own gradients need lengths that the axis has
    ROWS.row(f"rfft of {_n}", lambda tf, a, n=_n: tf.abs(tf.spectral.rfft(a, [n])), A, order=int(_n == 4), tolerance=2e-4,
             modes=("float32",))
    ROWS.row(f"irfft of {_n}", lambda tf, a, b, n=_n: tf.spectral.irfft(tf.complex(a, b), [n]), A, B,
             order=int(_n == 6), tolerance=2e-4, modes=("float32",))

# bits and counts
BITS, MORE = ints(5, -3, 12, 255), ints(3, 2, 1, 7)
ROWS.each("bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor bitwise.left_shift bitwise.right_shift", BITS, MORE,
          order=0)
ROWS.each("bitwise.invert", BITS, order=0)
ROWS.row("bitcast", lambda tf, x: [tf.bitcast(x, "float32"), tf.bitcast(x, "uint8"),
                                      tf.bitcast(tf.bitcast(x, "int16"), "int32")],
         BITS, order=0, modes=("known", "constant"))
ROWS.row("histogram_fixed_width", lambda tf, x: [tf.histogram_fixed_width(x, [-1.0, 1.5], 5), tf.histogram_fixed_width(
    x, [0.0, 1.0], dtype="int64"), tf.histogram_fixed_width_bins(x, [0.0, 1.0], 4)], A, order=0, modes=("float32",))
ROWS.row("bincount", lambda tf, x: [tf.bincount(x), tf.bincount(x, minlength=9), tf.bincount(x, maxlength=3), tf.bincount(
    x, dtype="int64"), tf.bincount(x, weights=tf.cast(x, "float32"))], ints(1, 3, 1, 5), order=0)
ROWS.row("bincount of nothing", lambda tf: [tf.bincount(tf.zeros([0], "int32")), tf.bincount(tf.zeros([0], "int32"),
                                                                                       minlength=2)], order=0)
ROWS.row("unravel_index", lambda tf, x: tf.unravel_index(x, [2, 3]), ints(5, 0, 2), order=0)
ROWS.row("roll", lambda tf, x: [tf.roll(x, 1, 0), tf.roll(x, [1, -2], [0, 1]), tf.manip.roll(x, 5, -1)], A)
ROWS.row("searchsorted", lambda tf, x, v: [tf.searchsorted(x, v), tf.searchsorted(x, v, side="right", out_type="int64")],
         np.array([[1.0, 3, 5], [2, 2, 9]]), np.array([[3.0, 0], [2, 10]]), order=0)
ROWS.row("argsort", lambda tf, x: [tf.argsort(x), tf.argsort(x, 0, "DESCENDING"), tf.sort(x), tf.sort(x, 0, "DESCENDING")], A,
         order=1, modes=("known", "constant"))
ROWS.row("batch_gather", lambda tf, x: [tf.batch_gather(x, [[2, 0], [1, 1], [3, 0]]), tf.batch_gather(x[0], [1, 2])], A)
ROWS.row("broadcast shapes", lambda tf: [tf.broadcast_dynamic_shape([2, 1], [4, 1, 3]), tf.constant(
    tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([4, 1, 3])).as_list())], order=0)
ROWS.row("lists", lambda tf, x, y: [*tf.identity_n([x, y]), *tf.shape_n([x, y]), tf.parallel_stack([x, y]),
                                    tf.guarantee_const(x), tf.ensure_shape(x, [None, 4]), tf.floor_div(x, y)], A, P, order=1,
         modes=("known", "constant", "float32"))
ROWS.row("complex casts", lambda tf, x: [tf.to_complex64(x), tf.to_complex128(x)], A, order=1)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


SCATTERS = ["scatter_add", "scatter_sub", "scatter_mul", "scatter_div", "scatter_min", "scatter_max", "scatter_update",
            "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update"]


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatters(name: str, dtype: str) -> None:
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            v = tf.Variable(tf.constant([[8, 2], [6, 9], [-5, 4]], dtype))
            at = [2, 0] if "nd" not in name else [[2], [0]]
            change = getattr(tf, name)(v, at, tf.constant([[3, 7], [2, 1]], dtype))
            session.run(tf.global_variables_initializer())
            found = [session.run(change), session.run(v)]
            if "nd" in name:
                found.append(session.run(getattr(tf, name)(v, [[1, 1], [0, 0]], tf.constant([3, 4], dtype))))
            else:
                found.append(session.run(getattr(tf, name)(v, [[1]], tf.constant([[[3, 4]]], dtype))))
            return found
    same_story(story)
