"""The full softmax over classes whose weights lie in columns on several parameter servers (paper §4.2)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.variables import Variable, near

__all__ = ["sharded_softmax_cross_entropy"]


def sharded_softmax_cross_entropy(weights: Sequence[Variable], biases: Sequence[Variable], labels: Any, inputs: Any,
                                  name: str = "sharded_softmax") -> Tensor:
    """Cross entropy [batch] of the softmax over all classes; each slice of the classes is computed beside its weights.

    `weights` are variables [d, classes of the slice], `biases` [classes of the slice], in order of the classes (lists, or
    PartitionedVariables along the last axis); `inputs` float [batch, d], `labels` int [batch]. A slice gets the inputs and
    gives two numbers for each example, and its gradient is computed where it is: no logits travel. (In a device scope ask the
    optimizer for `colocate_gradients_with_ops`.)
    """
    columns, offsets = list(weights), list(biases)
    if not columns or len(columns) != len(offsets):
        raise errors.InvalidArgumentError(f"sharded_softmax_cross_entropy: there are {len(columns)} slices of weights and "
                                          f"{len(offsets)} of biases; pass one of each for each slice")
    with get_default_graph().name_scope(name):
        labels, inputs, first = ops.cast(convert(labels), "int64"), convert(inputs), 0
        totals, chosen = [], []
        for part, offset in zip(columns, offsets):
            classes = part.get_shape().as_list()[1] or 0
            if offset.get_shape().as_list() != [classes]:
                raise errors.ShapeError(f"sharded_softmax_cross_entropy: weights of shape {part.get_shape()} have biases of "
                                        f"shape {offset.get_shape()}; cut both at the same classes")
            with near(part):
                logits = ops.matmul(inputs, part) + offset
                totals.append(ops.reduce_logsumexp(logits, axis=1))
                chosen.append(_chosen(logits, totals[-1], labels - first, classes))
            first += classes
        return ops.reduce_logsumexp(ops.stack(totals, axis=1), axis=1) - ops.add_n(chosen)


def _chosen(logits: Tensor, total: Tensor, column: Tensor, classes: int) -> Tensor:
    """For each row of `logits` its element in `column`; 0 where that is none of the slice's.

    By the slice's own softmax: the gradient of a look-up would be made where the caller is, for it needs no logits.
    """
    here = ops.logical_and(column >= 0, column < classes)
    own = ops.select(here, column, ops.zeros_like(column))
    found = total - ops.sparse_softmax_cross_entropy_with_logits(labels=own, logits=logits)
    return found * ops.cast(here, logits.dtype)
