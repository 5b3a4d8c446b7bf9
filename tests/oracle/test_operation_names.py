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
    dct hessians nn.crelu nn.embedding_lookup_sparse nn.sufficient_statistics sparse_segment_mean sparse_segment_sqrt_n
    sparse_segment_sum count_nonzero norm outer tensordot batch_gather bincount complex linalg.adjoint linalg.eigvalsh
    linalg.expm lists math.bessel_i0 math.bessel_i0e math.bessel_i1 math.bessel_i1e math.erfinv math.ndtri matrix_solve_ls
    scalar_mul self_adjoint_eigvals fused_batch_norm nn.normalize_moments histogram_fixed_width"""
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
