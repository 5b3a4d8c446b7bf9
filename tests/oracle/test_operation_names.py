"""Operations are called as TensorFlow calls them: the outputs of the programs that other tables compare, by name."""
from __future__ import annotations

from typing import Any

import pytest

import workbench.tf1 as ours
from tests.oracle import (
    test_arrays,
    test_language,
    test_math,
    test_networks,
    test_pieces,
    test_reductions,
    test_special,
)
from tests.oracle.harness import Row, Table, enter, flat, quiet, tensorflow

pytestmark = pytest.mark.oracle

MODULES = (test_arrays, test_language, test_math, test_networks, test_pieces, test_reductions, test_special)

SINCE = """boolean_mask gather in_top_k lin_space linspace strided_slice matrix_diag matrix_diag_part matrix_set_diag
    matrix_transpose
    eye space_to_batch batch_to_space softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits_v2 zero_fraction
    accumulate_n embedding_lookup sequence_mask searchsorted argsort
    matrix_triangular_solve"""
"""Rows of operations that releases after 1.4 made, or put into scopes, under other names: ours are those of 1.4."""

OTHERWISE = """broadcast_to concat likes pad unique unique_with_counts atrous_conv2d atrous_conv2d_transpose
    depthwise_conv2d separable_conv2d extract_image_patches meshgrid required_space_to_batch_paddings verify_tensor_all_finite
    add_n derivatives dilation2d erosion2d losses.absolute_difference losses.hinge_loss losses.huber_loss losses.log_loss
    losses.mean_squared_error losses.mean_pairwise_squared_error max_pool_with_argmax moments softmax weighted_moments
    dct hessians nn.crelu nn.swish nn.embedding_lookup_sparse nn.sufficient_statistics sparse_segment_mean sparse_segment_sqrt_n
    sparse_segment_sum count_nonzero norm outer tensordot batch_gather bincount complex linalg.adjoint
    linalg.expm lists math.bessel_i0 math.bessel_i0e math.bessel_i1 math.bessel_i1e math.erfinv math.ndtri matrix_solve_ls
    scalar_mul fused_batch_norm nn.normalize_moments histogram_fixed_width nn.silu tensor_scatter_add tensor_scatter_sub
    tensor_scatter_nd_add tensor_scatter_nd_sub"""
"""Rows whose functions are made of other operations here, so that what comes out last is another one."""


def names(tf: Any, row: Row) -> list[str]:
    """The operations of the row's outputs, in a graph of their own."""
    with quiet(), tf.Graph().as_default():
        mode = "known" if "known" in row.modes else row.modes[0]
        inputs, _ = enter(tf, row.arrays(mode), mode)
        return [getattr(y, "op", y).name for y in flat(row.program(tf, *inputs))]


def title(row: Row) -> str:
    return str(row).split()[0]


ROWS = [row for module in MODULES for table in vars(module).values() if isinstance(table, Table) for row in table]
EXCUSED = set(f"{SINCE} {OTHERWISE}".split())


@pytest.mark.parametrize("row", [row for row in ROWS if title(row) not in EXCUSED], ids=str)
def test_outputs_are_called_as_in_tensorflow(row: Row) -> None:
    assert names(ours, row) == names(tensorflow(), row)


def test_most_rows_are_compared_and_each_excuse_is_needed() -> None:
    assert sum(title(row) not in EXCUSED for row in ROWS) > 1000
    differ = {title(row) for row in ROWS if title(row) in EXCUSED and names(ours, row) != names(tensorflow(), row)}
    assert differ == EXCUSED


def inside(tf: Any) -> list[str]:
    """What operations of branches and loops are called, and constants of arguments below scopes."""
    found: list[Any] = []

    def noted(tensor: Any) -> Any:
        found.append(tensor.op.name)
        return tensor

    def double(x: Any) -> Any:
        with tf.name_scope("twice"):
            return noted(noted(x * 2.0) + x)

    with quiet(), tf.Graph().as_default() as graph:
        x, p = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.bool, [])
        noted(tf.cond(p, lambda: double(noted(x + 1.0)), lambda: noted(noted(x + 2.0) + noted(tf.constant(3.0)))))
        noted(tf.while_loop(lambda i: noted(i < noted(x)), lambda i: tf.cond(
            p, lambda: noted(noted(i) + x), lambda: noted(i - 1.0)), [x], name="outer"))
        with tf.name_scope("scope"):
            noted(x * 5.0)
        return [*found, *sorted(op.name for op in graph.get_operations() if op.name.startswith("scope"))]


def test_operations_of_branches_and_loops_are_called_as_in_tensorflow(in_frames: None) -> None:
    assert inside(ours) == inside(tensorflow())


def templated(tf: Any) -> list[Any]:
    """The names of templates' operations, variables and scopes, made at once or where they are first called."""
    def inner(x: float) -> list[str]:
        y = tf.add(x, tf.get_variable("w", [], initializer=tf.zeros_initializer()))
        with tf.variable_scope("inner"):
            v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        return [y.op.name, tf.multiply(y, v).op.name, v.op.name]
    found: list[Any] = []
    for now in (True, False):
        for unique in (None, "own"):
            with quiet(), tf.Graph().as_default(), tf.variable_scope("out"):
                first, second = (tf.make_template("foo", inner, create_scope_now_=now, unique_name_=unique and unique + end)
                                 for end in ("", "2"))
                found += [first.variable_scope_name, now and first.variable_scope.original_name_scope]
                found += [made(1.0) for made in (first, first, second, second)]
                with tf.name_scope("below"), tf.variable_scope(None, "foo"):
                    found += [first(2.0), first.variable_scope_name, tf.no_op().name]
    return found


def test_templates_name_what_they_make_as_in_tensorflow() -> None:
    assert templated(ours) == templated(tensorflow())
