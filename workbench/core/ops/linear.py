"""Linear algebra beyond products: cross products, systems of equations, diagonals of matrices, sums by index."""
from __future__ import annotations

import re

import numpy as np

from workbench import errors
from workbench.core.graph.algebra import algebra
from workbench.core.graph.build import convert, front, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.ordered import contracted
from workbench.core.graph.shape import Shape, as_shape


def _alike(inputs, attrs):
    return [inputs[0].shape.merge(inputs[1].shape, "cross: a and b")]


@op("a[...,3] b[...,3] -> ?", types="T:real -> T", shape=_alike)
def cross(a, b):
    """The vector products a × b of vectors of three elements along the last axis; a and b have one shape."""
    if a.shape != b.shape:
        raise errors.ShapeError(f"cross: a has shape {list(a.shape)} but b {list(b.shape)}; make them equal")
    one, two = [1, 2, 0], [2, 0, 1]
    product = a[..., one] * b[..., two] - a[..., two] * b[..., one]
    return np.ascontiguousarray(product)      # NumPy lays out what lists of columns choose by columns


@cross.gradient
def _(node, dy):
    a, b = node.inputs
    return ops.cross(b, dy), ops.cross(dy, a)


# systems of equations

def _solution(where, matrix, rhs):
    """By LAPACK, which knows no type below float32."""
    wide = np.promote_types(matrix.dtype, np.float32) if matrix.dtype.kind in "fc" else np.dtype(np.float32)
    if matrix.shape[:-2] != rhs.shape[:-2]:
        raise errors.ShapeError(f"{where}: matrix has shape {list(matrix.shape)} but rhs {list(rhs.shape)}; all axes but the "
                                "last two must agree")
    try:
        return algebra().solve(matrix.astype(wide), rhs.astype(wide)).astype(rhs.dtype, copy=False)
    except np.linalg.LinAlgError:
        raise errors.InvalidArgumentError(f"{where}: matrix of shape {list(matrix.shape)} is singular, so the equations have "
                                          "no single solution; check its rank (Input matrix is not invertible.)") from None


@op("matrix[...,m,m] rhs[...,m,k] -> [...,m,k]", types="T:differentiable -> T", analytic=False)
def matrix_solve(matrix, rhs, *, adjoint=False):
    """The x with matrix · x = rhs for each square matrix, or with its transpose if `adjoint`."""
    return _solution("matrix_solve", matrix.conj().swapaxes(-1, -2) if adjoint else matrix, rhs)


@matrix_solve.gradient
def _(node, dy):
    solved = ops.matrix_solve(node.inputs[0], dy, not node.attrs["adjoint"])
    return _matrix_gradient(node, solved), solved


def _matrix_gradient(node, solved):
    x, conj = node.outputs[0], ops.conj
    return ops.negative(ops.matmul(x, conj(solved), False, True) if node.attrs["adjoint"]
                        else ops.matmul(solved, conj(x), False, True))


@op("matrix[...,m,m] rhs[...,m,k] -> [...,m,k]", types="T:differentiable -> T", analytic=False)
def matrix_triangular_solve(matrix, rhs, *, lower=True, adjoint=False):
    """The x with T · x = rhs, where T is the lower (else upper) triangle of each matrix, or its transpose if `adjoint`."""
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    return _solution("matrix_triangular_solve", triangle.conj().swapaxes(-1, -2) if adjoint else triangle, rhs)


@matrix_triangular_solve.gradient
def _(node, dy):
    lower = node.attrs["lower"]
    solved = ops.matrix_triangular_solve(node.inputs[0], dy, lower, not node.attrs["adjoint"])
    band = (-1, 0) if lower else (0, -1)
    return ops.matrix_band_part(_matrix_gradient(node, solved), *band), solved


# diagonals

@op("diagonal[...,n] -> [...,n,n]")
def matrix_diag(diagonal):
    """Square matrices with the vectors of the last axis on their diagonals, zeros (False) elsewhere."""
    size = diagonal.shape[-1]
    out = np.zeros((*diagonal.shape, size), diagonal.dtype)
    out[..., np.arange(size), np.arange(size)] = diagonal
    return out


@matrix_diag.gradient
def _(node, dy):
    return ops.matrix_diag_part(dy)


def _diagonal(matrix):
    """The shape of the diagonals of matrices of this shape."""
    dims = matrix.sizes
    if dims is None:
        return Shape(None)
    if len(dims) < 2:
        return Shape([None])      # the signature refuses it
    return Shape([*dims[:-2], None if None in dims[-2:] else min(dims[-2:])])


@op("input[...,m,n] -> ?", shape=lambda inputs, attrs: [_diagonal(inputs[0].shape)])
def matrix_diag_part(input):
    """The diagonal of each matrix of the last two axes, min(m, n) elements long."""
    return np.diagonal(input, axis1=-2, axis2=-1).copy()


@matrix_diag_part.gradient
def _(node, dy):
    return ops.matrix_set_diag(ops.zeros_like(node.inputs[0]), dy)


def _replaced(inputs, attrs):
    diagonal = _diagonal(inputs[0].shape).merge(inputs[1].shape, "matrix_set_diag: the diagonals of input and diagonal")
    if diagonal.sizes is None:
        return [inputs[0].shape]
    return [inputs[0].shape.merge(Shape([*diagonal.sizes[:-1], None, None]), "matrix_set_diag: input and diagonal")]


@op("input[...,m,n] diagonal[...,d] -> ?", shape=_replaced)
def matrix_set_diag(input, diagonal):
    """`input` with the diagonal of each matrix of its last two axes replaced by the vectors of `diagonal`."""
    wanted = (*input.shape[:-2], min(input.shape[-2:]))
    if diagonal.shape != wanted:
        raise errors.ShapeError(f"matrix_set_diag: diagonal has shape {list(diagonal.shape)} but input of shape "
                                f"{list(input.shape)} has diagonals {list(wanted)}; make them equal")
    out, places = input.copy(), np.arange(wanted[-1])
    out[..., places, places] = diagonal
    return out


@matrix_set_diag.gradient
def _(node, dy):
    return ops.matrix_set_diag(dy, ops.zeros_like(node.inputs[1])), ops.matrix_diag_part(dy)


@composed
def eye(num_rows, num_columns=None, batch_shape=None, dtype="float32", name=None):
    """[*batch_shape, num_rows, num_columns]: ones on the diagonals, zeros elsewhere; square without `num_columns`.

    The sizes are numbers or int scalar tensors, `batch_shape` a list of them or an int vector.
    """
    lead = convert([] if batch_shape is None else batch_shape, "int32") if not hasattr(batch_shape, "op") else batch_shape
    rows = ops.cast(convert(num_rows), lead.dtype)
    columns = rows if num_columns is None else ops.cast(convert(num_columns), lead.dtype)
    short = ops.ones(ops.concat([lead, ops.expand_dims(ops.minimum(rows, columns), 0)], 0), dtype)
    if num_columns is None:
        return ops.matrix_diag(short, name=name)
    return ops.matrix_set_diag(ops.zeros(ops.concat([lead, ops.stack([rows, columns])], 0), dtype), short, name=name)


# sums by index

_EQUATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?")


def _terms(equation, count):
    """(letters of each input, letters of the result) of "ij,jk->ik"; without an arrow, those that occur once, in order."""
    text = equation.replace(" ", "")
    if not _EQUATION.fullmatch(text):
        raise errors.InvalidArgumentError(f"einsum: {equation!r} is not an equation; write letters, commas and one arrow, such "
                                          "as 'ij,jk->ik'")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not arrow:
        result = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if len(terms) != count:
        raise errors.InvalidArgumentError(f"einsum: {equation!r} has {len(terms)} terms but {count} inputs are given; make "
                                          "them equal")
    for term in (*terms, result):
        if len(set(term)) != len(term):
            raise errors.InvalidArgumentError(f"einsum: {term!r} of {equation!r} names an axis twice; take the diagonal first")
    if unknown := set(result) - set(left):
        raise errors.InvalidArgumentError(f"einsum: {equation!r} has {''.join(sorted(unknown))!r} in its result alone; every "
                                          "letter there must be one of an input")
    return terms, result


def _contracted(inputs, attrs):
    terms, result = _terms(attrs["equation"], len(inputs))
    known: dict[str, int | None] = {}
    for number, (term, tensor) in enumerate(zip(terms, inputs)):
        if tensor.shape.sizes is None:
            continue
        if len(tensor.shape) != len(term):
            raise errors.ShapeError(f"einsum: inputs[{number}] has rank {len(tensor.shape)} (shape {tensor.shape}) but its "
                                    f"term is {term!r}; give a letter for each axis")
        for letter, dim in zip(term, tensor.shape.sizes):
            before = known.setdefault(letter, dim)
            if None not in (before, dim) and before != dim:
                raise errors.ShapeError(f"einsum: axis {letter!r} of {attrs['equation']!r} is {before} but {dim} in "
                                        f"inputs[{number}]; make them equal")
            known[letter] = dim if before is None else before
    return [as_shape([known.get(letter) for letter in result])]


@op("*inputs? -> ?", types="T:number -> T", name="contract", shape=_contracted)
def contract(*inputs, equation):
    """Σ of the products of the inputs over the letters that the result leaves out."""
    small = inputs[0].dtype.itemsize == 2
    exact = [x.astype(np.float32) for x in inputs] if small else inputs
    return contracted(equation, *exact).astype(inputs[0].dtype, order="C")


@contract.gradient
def _(node, dy):
    """Of each input: dy times the others, summed to its letters; along letters that it has alone, the same everywhere."""
    terms, result = _terms(node.attrs["equation"], len(node.inputs))
    slopes = []
    for number, (term, x) in enumerate(zip(terms, node.inputs)):
        others = [(t, value) for i, (t, value) in enumerate(zip(terms, node.inputs)) if i != number]
        alone = [letter for letter in term if letter not in result + "".join(t for t, _ in others)]
        shape = ops.shape_vector(x) if alone else None
        others += [(letter, ops.ones(ops.getitem(shape, slice(at, at + 1)), x.dtype))
                   for letter in alone for at in [term.index(letter)]]
        equation = ",".join([result, *(t for t, _ in others)]) + "->" + term
        slopes.append(ops.contract([dy, *(value for _, value in others)], equation=equation))
    return tuple(slopes)


@composed
def einsum(equation, *inputs, name=None):
    """The sum of products that `equation` describes: einsum("ij,jk->ik", a, b) is the matrix product.

    A letter names an axis; letters that the result leaves out are summed over. Without an arrow the result has the letters
    that occur once, in alphabetical order. Raises InvalidArgumentError for a wrong equation, also one that names an axis
    twice in a term, and ShapeError where ranks or dimensions differ.
    """
    terms, result = _terms(equation, len(inputs))
    return ops.contract(list(inputs), equation=",".join(terms) + "->" + result, name=name)


@composed
def meshgrid(*args, indexing="xy", name=None):
    """A list of as many tensors as vectors are given: each vector repeated along the axes of the others.

    With "xy" the first two axes are swapped: vectors of 3 and 2 elements give [2, 3]; with "ij" [3, 2].
    """
    if indexing not in ("xy", "ij"):
        raise errors.InvalidArgumentError(f"meshgrid: indexing is {indexing!r}; use 'xy' or 'ij'")
    vectors = [ops.reshape(convert(x), [-1]) for x in args]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    dims = ops.stack([ops.size(vectors[i]) for i in order]) if order else None
    return [ops.broadcast_to(ops.reshape(x, [-1 if i == at else 1 for i in order]), dims,
                             name=None if name is None else f"{name}_{at}")
            for at, x in enumerate(vectors)]


@op("x[...,m,n] num_lower[] num_upper[] -> [...,m,n]", types="T:number I:int I -> T")
def matrix_band_part(x, num_lower, num_upper):
    """x with zeros outside the band of `num_lower` diagonals below and `num_upper` above (negative = all).

    InvalidArgumentError for more diagonals than the matrices have rows or columns.
    """
    for name, number, what, size in (("num_lower", num_lower, "rows", x.shape[-2]),
                                     ("num_upper", num_upper, "columns", x.shape[-1])):
        if number > size:
            raise errors.InvalidArgumentError(f"matrix_band_part: {name} is {number} but x has shape {list(x.shape)}; {name} "
                                              f"must be negative or less or equal to number of {what} ({size}) got: {number}")
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    inside = ((num_lower < 0) | (rows - columns <= num_lower)) & ((num_upper < 0) | (columns - rows <= num_upper))
    return np.where(inside, x, x.dtype.type(0))


@matrix_band_part.gradient
def _(node, dy):
    return ops.matrix_band_part(dy, *node.inputs[1:]), None, None


@front("matrix_band_part")
def _(matrix_band_part, x, num_lower, num_upper, name=None):
    """x with zeros outside the band of `num_lower` diagonals below and `num_upper` above (negative = all), integers."""
    lower, upper = (ops.cast(v, "int64") if hasattr(v, "op") else convert(v, "int64") for v in (num_lower, num_upper))
    return matrix_band_part(x, lower, upper, name=name)
