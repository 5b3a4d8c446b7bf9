"""Losses over many classes that look at a few sampled ones: noise-contrastive estimation, sampled softmax (paper §4.2)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.arguments import refuse
from workbench.nn.embedding import embedding_lookup
from workbench.nn.partitions import PartitionedVariable

__all__ = ["compute_accidental_hits", "nce_loss", "sampled_softmax_loss"]


def compute_accidental_hits(true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None,
                            name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(rows int32 [h], positions int64 [h], weights float32 [h]) of sampled classes that are true classes of a row.

    `true_classes` is int64 [batch, num_true], `sampled_candidates` int64 [sampled]; the weights are the most negative
    float32, to be added to the logits. Raises InvalidArgumentError when `num_true` is not the number of columns, and
    UnimplementedError for a `seed`: nothing is random here.
    """
    refuse("compute_accidental_hits", "leave it out: the hits follow from the classes", seed=seed)
    true, drawn = convert(true_classes), convert(sampled_candidates)
    _check_columns("compute_accidental_hits", true, num_true)
    with get_default_graph().name_scope(name or "compute_accidental_hits"):
        same = ops.reduce_any(ops.equal(ops.expand_dims(true, 2), drawn), axis=1)
        places = ops.where(same)
        weights = ops.fill(ops.shape(places)[:1], np.finfo(np.float32).min)
        return ops.cast(places[:, 0], "int32"), places[:, 1], weights


def nce_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
             num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = False,
             partition_strategy: str = "mod", name: str = "nce_loss") -> Tensor:
    """Noise-contrastive estimation: per example, the logistic loss of its true and of the sampled classes.

    `weights` [classes, d] and `biases` [classes] are variables or lists of their parts, `inputs` float [batch, d],
    `labels` int64 [batch, num_true]; gives [batch]. `sampled_values` is what a candidate sampler returned; by default
    log_uniform_candidate_sampler draws `num_sampled` different classes a step, so order classes by falling frequency.
    Source: Gutmann & Hyvärinen 2010.
    """
    with get_default_graph().name_scope(name):
        logits, targets = _logits("nce_loss", weights, biases, labels, inputs, num_sampled, num_classes, num_true,
                                  sampled_values, remove_accidental_hits, partition_strategy)
        losses = ops.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
        return ops.reduce_sum(losses, axis=1)


def sampled_softmax_loss(weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
                         num_true: int = 1, sampled_values: Any = None, remove_accidental_hits: bool = True,
                         partition_strategy: str = "mod", name: str = "sampled_softmax_loss",
                         seed: int | None = None) -> Tensor:
    """Softmax cross entropy over the true and the sampled classes alone; for training, an underestimate of the full one.

    Arguments and result as for nce_loss. Source: Jean et al. 2014.
    """
    with get_default_graph().name_scope(name):
        logits, targets = _logits("sampled_softmax_loss", weights, biases, labels, inputs, num_sampled, num_classes,
                                  num_true, sampled_values, remove_accidental_hits, partition_strategy, seed)
        return ops.softmax_cross_entropy_with_logits_v2(labels=ops.stop_gradient(targets), logits=logits)


def _check_columns(where: str, labels: Tensor, num_true: int) -> None:
    columns = labels.shape.as_list()[1] if labels.shape.rank == 2 else None
    if labels.shape.rank != 2 or columns not in (None, num_true):
        raise errors.InvalidArgumentError(f"{where}: labels have shape {labels.shape} but num_true is {num_true}; pass "
                                          f"[batch, {num_true}] class numbers")


def _sampled(labels: Tensor, given: Any, num_true: int, num_sampled: int, num_classes: int,
             seed: int | None) -> Sequence[Tensor]:
    if given is None:
        given = ops.log_uniform_candidate_sampler(true_classes=labels, num_true=num_true, num_sampled=num_sampled,
                                                  unique=True, range_max=num_classes, seed=seed)
    return [ops.stop_gradient(convert(part)) for part in given]


def _logits(where: str, weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int,
            num_true: int, given: Any, remove_hits: bool, strategy: str, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """(logits, targets), both [batch, num_true + num_sampled], corrected by how often each class was expected."""
    labels, inputs = ops.cast(convert(labels), "int64"), convert(inputs)
    _check_columns(where, labels, num_true)
    drawn, true_expected, drawn_expected = _sampled(labels, given, num_true, num_sampled, num_classes, seed)
    drawn = ops.cast(drawn, "int64")
    wanted = ops.concat([ops.reshape(labels, [-1]), drawn], axis=0)
    rows = embedding_lookup(_parts(weights), wanted, strategy)
    offsets = embedding_lookup(_parts(biases), wanted, strategy)
    count, width = ops.size(labels), rows.shape.as_list()[1]
    shape = ops.stack([-1, num_true, ops.shape(rows)[1] if width is None else width])
    true_logits = ops.reduce_sum(ops.expand_dims(inputs, 1) * ops.reshape(rows[:count], shape), axis=2)
    true_logits += ops.reshape(offsets[:count], [-1, num_true])
    drawn_logits = ops.matmul(inputs, rows[count:], transpose_b=True) + offsets[count:]
    if remove_hits:
        hits = ops.reduce_any(ops.equal(ops.expand_dims(labels, 2), drawn), axis=1)
        drawn_logits += ops.cast(hits, inputs.dtype) * np.finfo(np.float32).min
    true_logits -= ops.log(ops.cast(true_expected, inputs.dtype))
    drawn_logits -= ops.log(ops.cast(drawn_expected, inputs.dtype))
    targets = [ops.ones_like(true_logits) / float(num_true), ops.zeros_like(drawn_logits)]
    return ops.concat([true_logits, drawn_logits], axis=1), ops.concat(targets, axis=1)


def _parts(table: Any) -> list[Any]:
    return list(table) if isinstance(table, (list, tuple, PartitionedVariable)) else [table]
