"""Run as a program: digests of what rows of operations, and larger ones of what BLAS and LAPACK would compute, give in a
deterministic session, one per line, for comparison between processes."""
from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import workbench as wb
from tests.opcases import CASES, Case
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor

FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
Inputs = Sequence[Any]


def digest(values: Sequence[Any]) -> str:
    found = hashlib.sha256()
    for value in values:
        array = np.asarray(value)
        found.update(repr(array.tolist()).encode() if array.dtype.kind in "OSU" else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def shown(name: str, build: Callable[..., Sequence[Any]], inputs: Inputs, dtype: Any, fed: bool = True) -> None:
    """One line: the digest of what `build` gives and of its gradients, or why there is none."""
    with wb.Graph().as_default(), wb.Session() as session, np.errstate(all="ignore"):
        wb.set_random_seed(1)
        try:
            tensors, feeds = [], {}
            for array in inputs:
                array = array.astype(dtype) if array.dtype == np.float64 else array
                if fed or array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16:
                    tensors.append(wb.placeholder(array.dtype, array.shape))
                    feeds[tensors[-1]] = array
                else:
                    tensors.append(ops.constant(array))
            outputs = [y for y in build(*tensors) if isinstance(y, Tensor)]
            session.run(wb.global_variables_initializer())
            print(f"{name}: {digest(session.run(outputs, feeds))}")
            slopes = [y for y in outputs if y.dtype.is_floating or y.dtype.is_complex]
            found = wb.gradients([wb.square(wb.abs(y)) for y in slopes], list(feeds)) if slopes and feeds else []
            found = [dx for dx in found if isinstance(dx, Tensor)]
            if found:
                print(f"{name}, gradients: {digest(session.run(found, feeds))}")
        except (errors.Error, LookupError, TypeError, ValueError) as error:
            print(f"{name}, refused: {type(error).__name__}")


def rows(growths: dict[str, Any]) -> Iterator[tuple[str, Case, Inputs]]:
    from tests.core.ops.test_seams import grown
    for place, growth in growths.items():
        row = CASES[int(place)]
        for size, longer in {"small": [], **growth}.items():
            if size != "empty":
                yield f"{place} {row} {size}", row, grown(row, longer)


def large(kind: str) -> Iterator[tuple[str, Callable[..., Sequence[Any]], Inputs]]:
    """Of sizes at which libraries cut sums, batches of several matrices among them."""
    def random(*shape: int) -> Any:
        numbers = np.random.default_rng(zlib.crc32(repr(shape).encode())).standard_normal((2, *shape))
        return numbers[0] + 1j * numbers[1] if kind == "complex" else numbers[0]

    def regular(*shape: int) -> Any:
        return random(*shape) + shape[-1] * np.eye(shape[-1])
    for m, k, n in ((1, 3000, 50), (40, 1000, 33), (130, 300, 70), (3, 20_000, 2)):
        yield f"matmul {m} x {k} x {n}", lambda a, b: [wb.matmul(a, b)], [random(m, k), random(k, n)]
    for a, b in ((True, False), (False, True), (True, True)):
        yield (f"matmul turned {a} {b}", lambda x, y, a=a, b=b: [wb.matmul(x, y, a, b)],
               [random(300, 45) if a else random(45, 300), random(70, 300) if b else random(300, 70)])
    yield "batch_matmul", lambda a, b: [wb.matmul(a, b)], [random(3, 1, 20, 400), random(5, 400, 30)]
    yield "tensordot", lambda a, b: [wb.tensordot(a, b, 2)], [random(20, 30, 40), random(30, 40, 15)]
    for text, shapes in (("ijk,kl->ijl", ((9, 20, 300), (300, 40))), ("bij,bkj->bik", ((4, 20, 300), (4, 30, 300))),
                         ("ij,jk,kl->il", ((30, 200), (200, 100), (100, 20))), ("i,i->", ((5000,), (5000,))),
                         ("ij,ij->i", ((20, 3000), (20, 3000))), ("ij->", ((300, 300),)), ("i,j->ij", ((50,), (60,)))):
        yield f"einsum {text}", lambda *x, text=text: [wb.einsum(text, *x)], [random(*shape) for shape in shapes]
    if kind not in ("float16", "bfloat16"):
        yield "matrix_inverse", lambda x: [wb.matrix_inverse(x)], [regular(2, 100, 100)]
        yield "matrix_determinant", lambda x: [wb.matrix_determinant(x)], [regular(3, 20, 20) / 10]
        yield "log_matrix_determinant", lambda x: [*ops.log_matrix_determinant(x)], [regular(2, 70, 70)]
        yield "matrix_solve", lambda a, b: [wb.matrix_solve(a, b)], [regular(2, 100, 100), random(2, 100, 7)]
        yield ("matrix_triangular_solve", lambda a, b: [wb.matrix_triangular_solve(a, b)],
               [regular(2, 100, 100), random(2, 100, 7)])
        yield "qr", lambda x: [*wb.qr(x)], [random(2, 120, 70)]
        yield "matrix_exponential", lambda x: [ops.matrix_exponential(x)], [random(2, 40, 40) / 5]
        yield "svd", lambda x: [wb.svd(x)[0]], [random(2, 70, 40)]
        yield "self_adjoint_eigvals", lambda x: [wb.self_adjoint_eigvals(x)], [random(40, 40)]
        yield "matrix_solve_ls", lambda a, b: [wb.matrix_solve_ls(a, b)], [random(2, 120, 40), random(2, 120, 3)]
        yield ("smallest_least_squares", lambda a, b: [wb.matrix_solve_ls(a, b, fast=False)],
               [random(2, 120, 40), random(2, 120, 3)])
    if kind == "complex":
        return
    if kind not in ("float16", "bfloat16"):
        yield ("cholesky", lambda x: [wb.cholesky(wb.matmul(x, x, transpose_b=True) + wb.eye(100, dtype=x.dtype))],
               [random(2, 100, 100)])
    yield "l2_loss", lambda x: [wb.nn.l2_loss(x)], [random(300, 500)]
    yield "norm", lambda x: [wb.norm(x), wb.norm(x, axis=1)], [random(300, 500)]
    yield ("sparse_tensor_dense_matmul", lambda v, b: [wb.sparse_tensor_dense_matmul(
        wb.SparseTensor([[i, i * 7 % 200] for i in range(90)], v, [90, 200]), b)], [random(90), random(200, 60)])
    for size, inner, outer, width, stride in ((14, 1, 32, 5, 1), (14, 32, 64, 5, 1), (28, 64, 64, 1, 1), (33, 20, 24, 3, 2)):
        yield (f"conv2d {size}, {inner} to {outer}", lambda x, w, s=stride: [wb.nn.conv2d(x, w, [1, s, s, 1], "SAME")],
               [random(3, size, size, inner), random(width, width, inner, outer)])
    for strides in ([1, 1, 1, 1], [1, 2, 2, 1]):
        yield (f"depthwise_conv2d {strides}", lambda x, w, s=strides: [wb.nn.depthwise_conv2d(x, w, s, "SAME")],
               [random(3, 27, 27, 40), random(3, 3, 40, 2)])
        yield (f"conv3d {strides}", lambda x, w, s=strides: [wb.nn.conv3d(x, w, [1, *s], "SAME")],
               [random(2, 9, 14, 14, 20), random(3, 3, 3, 20, 24)])
    yield ("conv2d_transpose", lambda x, w: [wb.nn.conv2d_transpose(x, w, [3, 28, 28, 16], [1, 2, 2, 1])],
           [random(3, 14, 14, 40), random(3, 3, 16, 40)])
    yield "bias_add", lambda x, b: [wb.nn.bias_add(x, b)], [random(5000, 7), random(7)]


def main(file: str, kinds: Sequence[str]) -> None:
    """Rows where a file says how their inputs grow, else the larger ones, in each of the kinds of numbers."""
    if not file:
        for kind in kinds:
            for name, build, inputs in large(kind):
                shown(f"{kind} {name}", build, inputs, FLOATS.get(kind, np.complex128))
        return
    for name, row, inputs in rows(json.loads(Path(file).read_text())):
        for kind in kinds:
            if row.small or kind in ("float32", "float64"):
                shown(f"{kind} {name}", row.build, inputs, FLOATS[kind], row.fed)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
