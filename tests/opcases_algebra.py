"""Rows of factorisations, complex numbers, bits and counts."""
from __future__ import annotations

from typing import Any

import numpy as np

from tests.opcase import A, Array, case, ints, positive, reals
from workbench.core.graph.build import ops

SQUARE = reals(2, 3, 3) + 3 * np.eye(3)
TALL, BROAD = reals(4, 3, seed=5) + 3 * np.eye(4, 3), reals(3, 4, seed=6) + 3 * np.eye(3, 4)
GRAM = SQUARE @ SQUARE.swapaxes(-1, -2)
HARD: dict[str, Any] = {"small": False, "rtol": 1e-3}

case("qr", TALL, value=lambda x: x, call=lambda x: ops.matmul(*ops.qr(x)), label="product", **HARD)
case("qr", SQUARE, value=lambda x: np.eye(3) + 0 * x, label="orthonormal", order=0,
     call=lambda x: ops.matmul(ops.qr(ops.stop_gradient(x)).q, ops.qr(ops.stop_gradient(x)).q, True), **HARD)
case("qr", TALL, value=lambda x: np.abs(np.linalg.qr(x)[1]), call=lambda x: ops.abs(ops.qr(x).r), label="triangle", **HARD)
for _label, _x in (("tall", TALL), ("broad", BROAD)):
    case("svd", _x, value=lambda x: np.sqrt(np.sort(np.linalg.eigvalsh(x @ x.T))[::-1][:3]), attrs={"compute_uv": False},
         label=_label, **HARD)
    case("svd", _x, value=lambda x: x, label=f"product {_label}", **HARD,
         call=lambda x: ops.matmul(ops.multiply(ops.svd(x)[1], ops.svd(x)[0]), ops.svd(x)[2], False, True))
    case("svd", _x, value=lambda x: np.linalg.svd(x, False)[0][:, :1] @ np.linalg.svd(x, False)[2][:1], label=f"first {_label}",
         call=lambda x: ops.matmul(ops.svd(x)[1][:, :1], ops.svd(x)[2][:, :1], False, True), **HARD)
_symmetric = lambda x: np.tril(x) + np.tril(x, -1).swapaxes(-1, -2)      # noqa: E731
case("self_adjoint_eigvals", SQUARE, value=lambda x: np.linalg.eigvalsh(_symmetric(x)), **HARD)
case("self_adjoint_eig", SQUARE, label="projector", **HARD,
     value=lambda x: np.einsum("bi,bj->bij", *[np.linalg.eigh(_symmetric(x))[1][..., 0]] * 2),
     call=lambda x: ops.matmul(ops.self_adjoint_eig(x)[1][:, :, :1], ops.self_adjoint_eig(x)[1][:, :, :1], False, True))
case("log_matrix_determinant", SQUARE, value=lambda x: [np.sign(np.linalg.det(x)), np.log(abs(np.linalg.det(x)))], **HARD)
case("log_matrix_determinant", SQUARE[0], value=lambda x: [np.sign(np.linalg.det(x)), np.log(abs(np.linalg.det(x)))],
     label="one matrix", **HARD)
case("logdet", SQUARE, value=lambda x: np.log(np.linalg.det(x @ x.swapaxes(-1, -2))),
     call=lambda x: ops.logdet(ops.matmul(x, x, False, True)), **HARD)


def series(x: Array) -> Array:
    total, term = np.eye(x.shape[-1]) + 0 * x, np.eye(x.shape[-1]) + 0 * x
    for k in range(1, 60):
        term = term @ x / k
        total = total + term
    return total


case("matrix_exponential", reals(2, 2, 2), value=series, small=False)
case("cholesky_solve", SQUARE, reals(2, 3, 2), value=lambda c, b: np.linalg.inv(np.tril(c) @ np.tril(c).swapaxes(1, 2)) @ b,
     **HARD)
HARD_KNOWN: dict[str, Any] = {**HARD, "unknown": False}      # which way to solve is then decided by a branch
case("matrix_solve_ls", TALL[None], reals(1, 4, 2), value=lambda a, b: np.linalg.pinv(a) @ b, **HARD_KNOWN)
case("matrix_solve_ls", BROAD, reals(3, 2), value=lambda a, b: np.linalg.pinv(a) @ b, label="broad", **HARD_KNOWN)
case("matrix_solve_ls", TALL[None], reals(1, 4, 2),
     value=lambda a, b: np.linalg.inv(a[0].T @ a[0] + 0.5 * np.eye(3)) @ a[0].T @ b, attrs={"l2_regularizer": 0.5},
     label="regular", **HARD_KNOWN)
case("smallest_least_squares", TALL, reals(4, 2), value=lambda a, b: np.linalg.inv(a.T @ a) @ a.T @ b, order=0, **HARD)
for _ord, _value in ((1, lambda x: abs(x).sum(0).max()), (np.inf, lambda x: abs(x).sum(1).max()),
                     ("fro", lambda x: np.sqrt((x * x).sum())), (2, lambda x: np.linalg.svd(x)[1][0])):
    case("norm", TALL, value=_value, attrs={"ord": _ord, "axis": (0, 1)}, label=f"matrix {_ord}", **HARD)

# complex numbers
RE, IM = reals(2, 3), reals(2, 3, seed=1)
_made = lambda f: lambda a, b: f(a + 1j * b)      # noqa: E731
_apart = lambda z: [ops.real(z), ops.imag(z)]      # noqa: E731
_parts = lambda z: [z.real, z.imag]      # noqa: E731
WIDE: dict[str, Any] = {"small": False}
case("complex", RE, IM, value=lambda a, b: a + 1j * b, order=0, **WIDE)
for _name, _function in (("real", np.real), ("imag", np.imag), ("angle", np.angle), ("abs", np.abs), ("complex_abs", np.abs)):
    case(_name, RE, IM, value=_made(_function), label="complex", **WIDE,
         call=lambda a, b, n=_name: getattr(ops, n)(ops.complex(a, b)))
case("sign", RE + 1j * IM, value=lambda z: z / abs(z), label="complex", order=0, **WIDE)      # slopes are 0, as TensorFlow's
case("conj", RE, IM, value=lambda a, b: [a, -b], call=lambda a, b: _apart(ops.conj(ops.complex(a, b))), **WIDE)
for _name, _function in {"real": lambda x: x, "imag": lambda x: 0 * x, "conj": lambda x: x,
                         "angle": lambda x: np.where(x < 0, np.pi, 0)}.items():
    case(_name, A, value=_function, order=1, label="of reals")
_ANALYTIC: dict[str, Any] = {
    "square": lambda z: z * z, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "reciprocal": lambda z: 1 / z, "negative": lambda z: -z, "rsqrt": lambda z: 1 / np.sqrt(z)}
for _name, _function in _ANALYTIC.items():
    case(_name, RE, IM, value=lambda a, b, f=_function: _parts(f(a + 1j * b)), label="complex",
         call=lambda a, b, n=_name: _apart(getattr(ops, n)(ops.complex(a, b))), **WIDE)
for _name, _function in {"multiply": lambda x, y: x * y, "divide": lambda x, y: x / y, "subtract": lambda x, y: x - y}.items():
    case(_name, RE, IM, reals(3, seed=8), value=lambda a, b, c, f=_function: _parts(f(a + 1j * b, c + 2j * c)),
         call=lambda a, b, c, n=_name: _apart(getattr(ops, n)(ops.complex(a, b), ops.complex(c, 2.0 * c))),
         label="complex", **WIDE)
case("matmul", RE, IM, reals(3, 2, seed=8), value=lambda a, b, c: _parts((a + 1j * b) @ (c + 1j * c * c)), label="complex",
     call=lambda a, b, c: _apart(ops.matmul(ops.complex(a, b), ops.complex(c, c * c))), **WIDE)
case("matrix_inverse", reals(2, 2), reals(2, 2, seed=1), value=lambda a, b: _parts(np.linalg.inv(a + 1j * b)), label="complex",
     call=lambda a, b: _apart(ops.matrix_inverse(ops.complex(a, b))), **HARD)
case("matrix_solve", reals(2, 2), reals(2, 2, seed=1), reals(2, 1), label="complex adjoint", **HARD,
     value=lambda a, b, c: _parts(np.linalg.inv((a + 1j * b).conj().T) @ (c * (1 + 2j))),
     call=lambda a, b, c: _apart(ops.matrix_solve(ops.complex(a, b), ops.complex(c, 2.0 * c), adjoint=True)))


def multiplied(s: Any, u: Any, v: Any) -> Any:
    return ops.matmul(ops.multiply(u, ops.cast(s, u.dtype)), ops.conj(v), False, True)


def first_product(found: Any) -> Any:
    """The first left times the first right singular vector, whatever their phase is."""
    return ops.matmul(found[1][:, :1], ops.conj(found[2])[:, :1], False, True)


def first_term(x: Array) -> Array:
    u, _, vh = np.linalg.svd(x, False)
    return u[:, :1] @ vh[:1]


for _label, _x in (("tall", TALL), ("broad", BROAD)):
    _y = reals(*_x.shape, seed=9)
    case("svd", _x, _y, value=lambda x, y: np.linalg.svd(x + 1j * y)[1], label=f"of complex {_label}", **HARD,
         call=lambda x, y: ops.svd(ops.complex(x, y), compute_uv=False))
    case("svd", _x, _y, value=lambda x, y: [x, y], label=f"product of complex {_label}", **HARD,
         call=lambda x, y: _apart(multiplied(*ops.svd(ops.complex(x, y)))))
    case("svd", _x, _y, value=lambda x, y: _parts(first_term(x + 1j * y)), label=f"first of complex {_label}", **HARD,
         call=lambda x, y: _apart(first_product(ops.svd(ops.complex(x, y)))))
case("reduce_sum", RE, IM, value=lambda a, b: _parts((a + 1j * b).sum(1)), attrs={"axis": 1}, label="complex",
     call=lambda a, b, axis: _apart(ops.reduce_sum(ops.complex(a, b), axis)), **WIDE)
case("cast", RE, value=lambda a: a * 3, label="complex", **WIDE,
     call=lambda a: ops.real(ops.cast(a, "complex128") * (3 + 1j)))


def dft(z: Array, inverse: bool = False) -> Array:
    """Along the last axis by its definition."""
    n = z.shape[-1]
    turn = np.exp((2j if inverse else -2j) * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    return z @ turn / (n if inverse else 1)


def dft2(z: Array, inverse: bool = False) -> Array:
    return dft(dft(z, inverse).swapaxes(-1, -2), inverse).swapaxes(-1, -2)


for _inverse in (False, True):
    _i = "i" * _inverse
    case(f"{_i}fft", RE, IM, value=lambda a, b, i=_inverse: _parts(dft(a + 1j * b, i)),
         call=lambda a, b, i=_i: _apart(getattr(ops, f"{i}fft")(ops.complex(a, b))), **WIDE)
    case(f"{_i}fft2d", RE, IM, value=lambda a, b, i=_inverse: _parts(dft2(a + 1j * b, i)),
         call=lambda a, b, i=_i: _apart(getattr(ops, f"{i}fft2d")(ops.complex(a, b))), **WIDE)
case("fft3d", reals(1, 2, 3), value=lambda a: _parts(dft2(a + 0j)), **WIDE,
     call=lambda a: _apart(ops.fft3d(ops.complex(a, ops.zeros_like(a)))))
for _n in (3, 4):
    case("rfft", RE, value=lambda a, n=_n: _parts(dft(np.pad(a, ((0, 0), (0, n - 3))))[:, :n // 2 + 1]), **WIDE, label=str(_n),
         call=lambda a, n=_n: _apart(ops.rfft(a, [n])))
    case("irfft", RE, IM, value=lambda a, b, n=_n: np.fft.irfft((a + 1j * b)[:, :n // 2 + 1], n), label=str(_n), **WIDE,
         call=lambda a, b, n=_n: ops.irfft(ops.complex(a, b), [n]))
case("rfft2d", RE, value=lambda a: _parts(dft2(a + 0j)[:, :2]), call=lambda a: _apart(ops.rfft2d(a)), unknown=False, **WIDE)
case("irfft2d", RE, IM, value=lambda a, b: np.fft.irfft2(a + 1j * b), unknown=False, **WIDE,
     call=lambda a, b: ops.irfft2d(ops.complex(a, b)))
case("fourier", RE, value=lambda a: dft(a + 0j), order=0, **WIDE,
     call=lambda a: ops.fourier(ops.stop_gradient(ops.cast(a, "complex128")), rank=1))
case("real_fourier", RE, ints(3), value=lambda a, n: dft(a + 0j)[:, :2], order=0, attrs={"rank": 1}, partial=True,
     call=lambda a, n, **o: ops.real_fourier(ops.stop_gradient(a), n, **o), **WIDE)
case("inverse_real_fourier", RE, ints(4), value=lambda a, n: np.fft.irfft(a, 4), attrs={"rank": 1}, partial=True,
     call=lambda a, n, **o: ops.inverse_real_fourier(ops.cast(a, "complex128"), n, **o), **WIDE)
def _cosines(a: Array) -> Array:
    n = a.shape[-1]
    return 2 * a @ np.cos(np.pi * np.outer(np.arange(n) + 0.5, np.arange(n)) / n)


case("cosine_transform", RE, value=_cosines, rtol=1e-4)
case("cosine_transform", RE, value=lambda a: 2 * a @ np.cos(np.pi * np.outer(np.arange(3), np.arange(3) + 0.5) / 3), rtol=1e-4,
     attrs={"turned": True}, label="turned")
case("dct", RE, value=_cosines, rtol=1e-4)
case("dct", RE, value=lambda a: _cosines(a) / np.sqrt(2 * 3) * np.array([np.sqrt(0.5), 1, 1]), rtol=1e-4,
     attrs={"norm": "ortho"}, label="orthonormal")
case("sigmoid", RE, IM, value=lambda a, b: _parts(1 / (1 + np.exp(-a - 1j * b))), label="complex",
     call=lambda a, b: _apart(ops.sigmoid(ops.complex(a, b))), **WIDE)
case("fitted", RE, ints(4, 2), value=lambda a, n: np.pad(a[:, :2], ((0, 2), (0, 0))))

# bits and counts
case("bitcast", np.array([1.0, -2.5]), value=lambda x: x.view(np.int64), order=0, small=False,
     call=lambda x: ops.bitcast(ops.cast(x, "float64"), "int64"))
case("bitcast", np.array(2.5), value=lambda x: x.view(np.int64), order=0, small=False, label="number",
     call=lambda x: ops.bitcast(ops.cast(x, "float64"), "int64"))
case("bitcast", ints(1, 258), value=lambda x: np.array([[1, 0, 0, 0], [2, 1, 0, 0]]), attrs={"type": "uint8"}, label="smaller")
case("bitcast", ints([1, 0, 0, 0], [2, 1, 0, 0], dtype=np.uint8), value=lambda x: np.array([1, 258]), attrs={"type": "int32"},
     label="larger", unknown=False)
_I, _J = ints(5, -3, 12), ints(3, 2, 1)
for _name, _function in {"bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
                         "left_shift": lambda x, y: x * 2 ** y, "right_shift": lambda x, y: x // 2 ** y}.items():
    case(_name, _I, _J, value=_function)
case("invert", _I, value=lambda x: -1 - x)
case("histogram_fixed_width_bins", A, np.array([-1.0, 1.0]), order=0, attrs={"nbins": 4}, small=False,
     value=lambda x, r: np.select([x < -0.5, x < 0, x < 0.5], [0, 1, 2], 3))
case("histogram_fixed_width", A, np.array([-1.0, 1.0]), order=0, attrs={"nbins": 2}, small=False,
     value=lambda x, r: np.array([(x < 0).sum(), (x >= 0).sum()]))
case("bincount", ints(1, 3, 1), value=lambda x: np.array([0, 2, 0, 1]), partial=True)
case("bincount", ints(1, 3, 1), positive(3), value=lambda x, w: np.array([0, w[0] + w[2], 0]), attrs={"maxlength": 3}, order=0,
     partial=True, label="weights", small=False)
case("unravel_index", ints(5, 0), ints(2, 3), value=lambda x, d: np.array([[1, 0], [2, 0]]))
case("roll", A, ints(1), ints(1), value=lambda x, s, a: x[:, [2, 0, 1]])
case("roll", A, np.array(1, np.int32), np.array(-1, np.int32), value=lambda x, s, a: x[:, [2, 0, 1]], label="scalar")
case("search_rows", np.array([[1.0, 3, 5], [2, 2, 9]]), np.array([[3.0, 0], [2, 10]]), order=0, unknown=False,
     value=lambda x, v: np.array([[1, 0], [0, 3]]))
case("searchsorted", np.array([[1.0, 3, 5], [2, 2, 9]]), np.array([[3.0, 0], [2, 10]]), attrs={"side": "right"}, order=0,
     unknown=False, value=lambda x, v: np.array([[2, 0], [2, 3]]))
case("order_along", A, value=lambda x: np.argsort(-x, 1), attrs={"axis": 1, "descending": True}, order=0, small=False)
case("argsort", A, value=lambda x: np.argsort(x, 0), attrs={"axis": 0}, order=0, small=False)
case("sort", A, value=lambda x: -np.sort(-x, 0), attrs={"axis": 0, "direction": "DESCENDING"})
case("batch_gather", A, ints([2, 0], [1, 1]), value=lambda x, i: np.take_along_axis(x, i, 1))
case("batch_gather", reals(2, 3, 2), ints([2, 0], [1, 1]), label="rest",
     value=lambda x, i: np.stack([r[j] for r, j in zip(x, i)]))
case("checked_indices", ints(0, 2), np.array(3, np.int32), value=lambda x, n: x)

# older names and small helpers
case("saturate_cast", A * 500, value=lambda x: np.clip(x, -128, 127).astype(np.int8), attrs={"dtype": "int8"}, order=0,
     small=False)
case("saturate_cast", ints(-5, 300), value=lambda x: ints(0, 255), attrs={"dtype": "uint8"}, label="int")
case("scalar_mul", np.array(3.0), A, value=lambda s, x: s * x)
case("broadcast_dims", ints(2, 1), ints(3), value=lambda x, y: ints(2, 3), partial=True)
case("broadcast_dynamic_shape", ints(2, 1), ints(4, 1, 3), value=lambda x, y: ints(4, 2, 3), partial=True)
case("parallel_stack", A, A, value=lambda x, y: np.stack([x, y]), call=lambda *v: ops.parallel_stack(v), unknown=False)
case("identity_n", A, ints(1), value=lambda x, y: [x, y], call=lambda *v: ops.identity_n(v))
case("shape_n", A, ints(1), value=lambda x, y: [ints(2, 3), ints(1)], call=lambda *v: ops.shape_n(v), order=0)
case("guarantee_const", A, value=lambda x: x)
case("div_no_nan", A, np.array([2.0, 0.0, 4.0]), value=lambda x, y: np.where(y == 0, 0, x / np.where(y == 0, 1, y)), wrt=(0,))
case("ensure_shape", A, value=lambda x: x, attrs={"shape": [None, 3]})
case("floor_div", ints(7, -7), ints(2, 2), value=lambda x, y: ints(3, -4))
