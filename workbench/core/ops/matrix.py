"""Products of matrices and small linear algebra."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.algebra import algebra
from workbench.core.graph.arrays import multiplied, wide
from workbench.core.graph.build import convert, front, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.ordered import product


def _product(out, lead=""):
    """The signature of a product by the transpositions asked for."""
    def text(*, transpose_a, transpose_b, **others):
        a, b = ("k,m" if transpose_a else "m,k"), ("n,k" if transpose_b else "k,n")
        return out.format(a=f"a[{lead}{a}]", b=f"b[{lead}{b}]", y=f"[{lead}m,n]")
    return text


def _turn(a, flag):
    return a.swapaxes(-1, -2) if flag else a


def _matmul_into(a, b, out, *, transpose_a, transpose_b):
    multiplied(_turn(a, transpose_a), _turn(b, transpose_b), out)


@op(_product("{a} {b} -> {y}"), name="matmul", types="T:number -> T", into=_matmul_into)
def matmul_(a, b, *, transpose_a=False, transpose_b=False):
    """The matrix product a b; `transpose_a` and `transpose_b` turn an argument first."""
    return multiplied(_turn(a, transpose_a), _turn(b, transpose_b))


def _product_gradient(multiply):
    """The gradients of a product that `multiply(x, y, transpose_x, transpose_y)` computes."""
    def gradient(node, dy):
        a, b = node.inputs[:2]
        turned_a, turned_b = node.attrs["transpose_a"], node.attrs["transpose_b"]
        da = multiply(b, dy, turned_b, True) if turned_a else multiply(dy, b, False, not turned_b)
        db = multiply(dy, a, True, turned_a) if turned_b else multiply(a, dy, not turned_a, False)
        return da, db
    return gradient


_matmul_gradient = _product_gradient(lambda *arguments: ops.matmul(*arguments))
matmul_.gradient(_matmul_gradient)


@op(_product("{a} {b} -> {y}", "...,"), types="T:number -> T", into=_matmul_into)
def batch_matmul(a, b, *, transpose_a=False, transpose_b=False):
    """Matrix products of the last two axes; leading axes count the matrices and broadcast."""
    return multiplied(_turn(a, transpose_a), _turn(b, transpose_b))


@batch_matmul.gradient
def _(node, dy):
    a, b = node.inputs
    da, db = _product_gradient(ops.batch_matmul)(node, dy)
    return ops.unbroadcast(da, a, b), ops.unbroadcast(db, b, a)


@front("matmul")
def _(matmul, a, b, transpose_a=False, transpose_b=False, name=None):
    """The matrix product a · b of [m, k] and [k, n]: [m, n]; `transpose_a` and `transpose_b` turn an argument first.

    With more axes the last two are matrices and the others count them: [..., m, k] · [..., k, n], the leading axes
    broadcast. Both have one number type. Raises ShapeError, naming both axes, where the inner dimensions differ, and
    DtypeError.
    """
    first = convert(a) if hasattr(a, "op") or hasattr(a, "__tensor__") else None
    b = convert(b, None if first is None or hasattr(b, "dtype") else first.dtype)
    a = convert(a, None if hasattr(a, "dtype") else b.dtype) if first is None else first
    plain = a.shape.rank == 2 if b.shape.rank is None else b.shape.rank == 2 and a.shape.rank in (2, None)
    small = None not in (a.shape.rank, b.shape.rank) and max(a.shape.rank, b.shape.rank) <= 2
    return (matmul if plain or small else ops.batch_matmul)(a, b, transpose_a, transpose_b, name=name)


_ACTIVATIONS = ("none", "relu")


def _fused_matmul_into(a, b, bias, out, *, transpose_a, transpose_b, activation):
    multiplied(_turn(a, transpose_a), _turn(b, transpose_b), out)
    np.add(out, bias, out=out)
    if activation == "relu":
        np.maximum(out, 0, out=out)


@op(_product("{a} {b} bias[n] -> {y}"), types="T:float -> T", into=_fused_matmul_into)
def fused_matmul(a, b, bias, *, transpose_a=False, transpose_b=False, activation="none"):
    """activation(a b + bias) in one pass; the activation is "none" or "relu"."""
    if activation not in _ACTIVATIONS:
        raise errors.InvalidArgumentError(f"fused_matmul: activation is {activation!r}; use one of {_ACTIVATIONS}")
    out = multiplied(_turn(a, transpose_a), _turn(b, transpose_b)) + bias
    return np.maximum(out, 0) if activation == "relu" else out


@fused_matmul.gradient
def _(node, dy):
    if node.attrs["activation"] == "relu":
        dy = ops.relu_grad(dy, node.outputs[0])
    return *_matmul_gradient(node, dy), ops.bias_add_grad(dy)


def _matmul_add_into(a, b, c, out, *, transpose_a, transpose_b):
    multiplied(_turn(a, transpose_a), _turn(b, transpose_b), out)
    np.add(out, c, out=out)


@op(_product("{a} {b} c[m,n] -> {y}"), types="T:float -> T", into=_matmul_add_into)
def matmul_add(a, b, c, *, transpose_a=False, transpose_b=False):
    """a b + c in one pass, c as large as the product."""
    return multiplied(_turn(a, transpose_a), _turn(b, transpose_b)) + c


@matmul_add.gradient
def _(node, dy):
    return *_matmul_gradient(node, dy), dy


def _matmul_update_text(*, transpose_a, transpose_b, **others):
    a, b = ("k,m" if transpose_a else "m,k"), ("n,k" if transpose_b else "k,n")
    return f"w[m,n] a[{a}] b[{b}] scale[] -> [m,n]"


def _matmul_update_into(w, a, b, scale, out, *, transpose_a, transpose_b, sign):
    change = multiplied(_turn(a, transpose_a), _turn(b, transpose_b))
    change *= np.asarray(sign * scale, w.dtype)
    np.add(w, change, out=out)


@op(_matmul_update_text, types="T:float -> T", into=_matmul_update_into)
def matmul_update(w, a, b, scale, *, transpose_a=False, transpose_b=False, sign=-1.0):
    """w + sign · scale · (a b): the step of gradient descent on a weight matrix."""
    return w + np.asarray(sign * scale, w.dtype) * multiplied(_turn(a, transpose_a), _turn(b, transpose_b))


@matmul_update.gradient
def _(node, dy):
    _w, a, b, scale = node.inputs
    turns = node.attrs["transpose_a"], node.attrs["transpose_b"]
    signed = ops.multiply(dy, node.attrs["sign"])
    scaled = ops.multiply(signed, scale)
    da = ops.matmul(b, scaled, turns[1], True) if turns[0] else ops.matmul(scaled, b, False, not turns[1])
    db = ops.matmul(scaled, a, True, turns[0]) if turns[1] else ops.matmul(a, scaled, not turns[0], False)
    return dy, da, db, ops.reduce_sum(ops.multiply(signed, ops.matmul(a, b, *turns)))


@composed
def tensordot(a, b, axes, name=None):
    """Sums of products over the last `axes` axes of a and the first of b, or over axes=(axes of a, axes of b).

    The result has the other axes of a, then those of b. Raises ShapeError where dimensions differ.
    """
    a, b = convert(a), convert(b)
    late = hasattr(axes, "op") or (not isinstance(axes, int) and any(hasattr(v, "op") for v in axes))
    if late or None in (a.shape.rank, b.shape.rank):
        return _tensordot_late(a, b, axes, name)
    over_a, over_b = _contracted(axes, a.shape.rank, b.shape.rank)
    free_a = [i for i in range(a.shape.rank) if i not in over_a]
    free_b = [i for i in range(b.shape.rank) if i not in over_b]
    left = _flattened(a, free_a + over_a, len(free_a))
    right = _flattened(b, over_b + free_b, len(over_b))
    dims = [_dims(a, free_a), _dims(b, free_b)]
    return ops.reshape(ops.matmul(left, right), ops.concat(dims, 0), name=name)


def _tensordot_late(a, b, axes, name):
    """tensordot where the step alone knows which axes are meant, or how many there are."""
    rank_a, rank_b = ops.rank(a), ops.rank(b)
    if isinstance(axes, int):
        over_a, over_b = ops.range(rank_a - axes, rank_a), ops.range(axes)
    else:
        over_a, over_b = (ops.axis_at(ops.reshape(ops.cast(axes[i], "int32"), [-1]), rank)
                          for i, rank in ((0, rank_a), (1, rank_b)))
    free_a, free_b = ops.setdiff1d(ops.range(rank_a), over_a)[0], ops.setdiff1d(ops.range(rank_b), over_b)[0]
    left, right = ops.transpose(a, ops.concat([free_a, over_a], 0)), ops.transpose(b, ops.concat([over_b, free_b], 0))
    rows, columns = ops.gather(ops.shape(a), free_a), ops.gather(ops.shape(b), free_b)
    left = ops.reshape(left, ops.stack([ops.reduce_prod(rows), ops.reduce_prod(ops.gather(ops.shape(a), over_a))]))
    right = ops.reshape(right, ops.stack([ops.reduce_prod(ops.gather(ops.shape(b), over_b)), ops.reduce_prod(columns)]))
    return ops.reshape(ops.matmul(left, right), ops.concat([rows, columns], 0), name=name)


def _contracted(axes, rank_a, rank_b):
    """The axes of a and of b to sum over, counted from the front."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise errors.ShapeError(f"tensordot: axes is {axes} but the ranks are {rank_a} and {rank_b}; use 0 … "
                                    f"{min(rank_a, rank_b)}")
        return list(range(rank_a - axes, rank_a)), list(range(axes))
    return _counted(axes[0], rank_a, "a"), _counted(axes[1], rank_b, "b")


def _counted(axes, rank, name):
    found = [int(i) for i in np.atleast_1d(axes)]
    wrong = [i for i in found if not -rank <= i < rank]
    if wrong:
        raise errors.ShapeError(f"tensordot: axis {wrong[0]} of {name} is outside its rank {rank}; "
                                + (f"use {-rank} … {rank - 1}" if rank else "a scalar has no axis"))
    return [i % rank for i in found]


def _flattened(x, order, split):
    """x with its axes in `order`, as a matrix of the first `split` axes by the others."""
    moved = ops.transpose(x, order)
    rows = ops.reduce_prod(_dims(x, order[:split]))
    return ops.reshape(moved, ops.stack([rows, ops.reduce_prod(_dims(x, order[split:]))]))


def _dims(x, axes):
    return ops.gather(ops.shape_vector(x), np.asarray(axes, np.int32))


@op("x? -> []", types="T:float -> T")
def l2_loss(x):
    """Σ x² / 2, a scalar."""
    flat = x.reshape(-1).astype(wide(x.dtype), copy=False)
    return np.asarray(product(flat[None], flat[:, None])[0, 0] * 0.5).astype(x.dtype, copy=False)


@l2_loss.gradient
def _(node, dy):
    return ops.multiply(node.inputs[0], dy)


@composed
def norm(tensor, ord="euclidean", axis=None, keepdims=False, name=None, keep_dims=False):
    """The norm of vectors over `axis` (None = of all elements, an int), or of matrices over a pair of axes.

    Of vectors "euclidean", np.inf, or a positive number p for (Σ |x|ᵖ)^(1/p); of matrices "fro" or "euclidean" for the root
    of the sum of squares, 1 and np.inf for the largest sum of a column and of a row, 2 for the largest singular value.
    `keepdims` (or `keep_dims`) keeps the axes with size 1. The euclidean norm of complex numbers is a complex number.
    InvalidArgumentError for another `ord` or three axes.
    """
    keep, x = bool(keepdims or keep_dims), convert(tensor)
    pair = isinstance(axis, (list, tuple)) and len(axis) == 2
    if isinstance(axis, (list, tuple)) and not pair and len(axis) != 1:
        raise errors.InvalidArgumentError(f"norm: axis is {axis!r}; use None, one axis or a pair of two ('axis' must be None, "
                                          "an integer, or a tuple of 2 unique integers)")
    if ord not in ("euclidean", "fro", 1, 2, np.inf) and (pair or isinstance(ord, str) or not ord > 0):
        raise errors.InvalidArgumentError(f"norm: ord is {ord!r}; use 'euclidean', " + (
            "'fro', 1, 2 or np.inf of matrices" if pair else "a positive number or np.inf") + (
            f" ('ord' must be a supported {'matrix' if pair else 'vector'} norm)"))
    if ord == "fro" and not pair:
        raise errors.InvalidArgumentError("norm: ord is 'fro' but axis names no matrix; pass a pair of axes ('ord' must be a "
                                          "supported vector norm)")
    if pair and ord in (1, 2, np.inf):
        return _matrix_norm(x, ord, axis, keep, name)
    size = ops.abs(x)
    if ord == 1:
        return ops.reduce_sum(size, axis, keep, name=name)
    if ord == np.inf:
        return ops.reduce_max(size, axis, keep, name=name)
    if ord not in ("euclidean", "fro", 2):
        return ops.pow(ops.reduce_sum(ops.pow(size, ord), axis, keep), 1 / ord, name=name)
    if x.dtype.is_complex:
        return ops.cast(ops.sqrt(ops.reduce_sum(ops.square(size), axis, keep)), x.dtype, name=name)
    return ops.sqrt(ops.reduce_sum(ops.square(x), axis, keep), name=name)


def _matrix_norm(x, ord, axis, keep, name):
    down, right = axis
    if ord == 2:
        last = ops.transpose(x, _last_two(x, axis))
        largest = ops.reduce_max(ops.svd(last, compute_uv=False), -1, True)
        y = ops.expand_dims(largest, -1)
        back = ops.transpose(y, tuple(int(i) for i in np.argsort(_last_two(x, axis))))
    else:
        summed, other = (down, right) if ord == 1 else (right, down)
        back = ops.reduce_max(ops.reduce_sum(ops.abs(x), summed, True), other, True)
    return ops.identity(back, name=name) if keep else ops.squeeze(back, axis=list(axis), name=name)


def _last_two(x, axis):
    """The order of axes in which the pair stands last."""
    if x.shape.rank is None:
        raise errors.ShapeError("norm: ord 2 of matrices needs the rank of the tensor but it is unknown; use set_shape")
    pair = [a % x.shape.rank for a in axis]
    return [i for i in range(x.shape.rank) if i not in pair] + pair


@composed
def trace(x, name=None):
    """The sum of the diagonal of each matrix of the last two axes: [..., m, n] to [...]."""
    return ops.reduce_sum(ops.matrix_band_part(x, 0, 0), (-2, -1), name=name)


def _matrix_transpose_into(x, out):
    np.copyto(out, x.swapaxes(-1, -2))


@op("x[...,m,n] -> [...,n,m]", into=_matrix_transpose_into)
def matrix_transpose(x):
    """Each matrix of the last two axes turned."""
    return x.swapaxes(-1, -2).copy(order="C")


@front("matrix_transpose")
def _(matrix_transpose, x, name=None, conjugate=False):
    """Each matrix of the last two axes turned, [..., m, n] to [..., n, m]; with `conjugate` its complex conjugate."""
    x = convert(x)
    if x.shape.rank is not None and x.shape.rank < 2:
        raise errors.ShapeError(f"matrix_transpose: x should be a (batch) matrix, of rank 2 or more, but has shape {x.shape}; "
                                "use expand_dims")
    return matrix_transpose(ops.conj(x) if conjugate else x, name=name)


@matrix_transpose.gradient
def _(node, dy):
    return ops.matrix_transpose(dy)


# factorisations

def _solvable(where, function, x, otherwise):
    try:
        return np.asarray(function(x)).astype(x.dtype, copy=False)
    except np.linalg.LinAlgError as error:
        raise errors.InvalidArgumentError(f"{where}: x of shape {list(x.shape)} has none: {error}; check its rank or add a "
                                          f"small multiple of the identity ({otherwise})") from None


@op("x[...,n,n] -> [...,n,n]", types="T:differentiable -> T")
def matrix_inverse(x):
    """The inverse of each square matrix; InvalidArgumentError for a singular one."""
    return _solvable("matrix_inverse", algebra().inv, x, "Input is not invertible.")


@matrix_inverse.gradient
def _(node, dy):
    y = node.outputs[0]
    return ops.negative(ops.matmul(ops.matmul(y, dy, True), y, False, True))


@front("matrix_inverse")
def _(matrix_inverse, x, adjoint=False, name=None):
    """The inverse of each square matrix, with `adjoint` its conjugate transpose; InvalidArgumentError for a singular one."""
    y = matrix_inverse(x, name=name)
    return ops.matrix_transpose(y, conjugate=True) if adjoint else y


@op("x[...,n,n] -> [...]", types="T:differentiable -> T")
def matrix_determinant(x):
    """The determinant of each square matrix."""
    return np.asarray(algebra().det(x)).astype(x.dtype, copy=False)


@matrix_determinant.gradient
def _(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    turned = ops.matrix_transpose(ops.matrix_inverse(x))
    return ops.multiply(ops.expand_dims(ops.multiply(dy, y), (-2, -1)), turned)


@op("x[...,n,n] -> [...,n,n]", types="T:differentiable -> T")
def cholesky(x):
    """The lower triangular L with L Lᵀ = x for each symmetric positive definite matrix."""
    return _solvable("cholesky", algebra().cholesky, x,
                     "Cholesky decomposition was not successful. The input might not be valid.")


@cholesky.gradient
def _(node, dy):
    """Murray, Differentiation of the Cholesky decomposition, 2016: L⁻ᵀ Φ(Lᵀ dL) L⁻¹, made symmetric."""
    y = node.outputs[0]
    inner = ops.matrix_band_part(ops.matmul(y, dy, True), -1, 0)
    inner = ops.subtract(inner, ops.multiply(ops.matrix_band_part(inner, 0, 0), 0.5))
    inverse = ops.matrix_inverse(y)
    half = ops.matmul(ops.matmul(inverse, inner, True), inverse)
    return ops.multiply(ops.add(half, ops.matrix_transpose(half)), 0.5)
