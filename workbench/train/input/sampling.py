"""Examples chosen by chance on their way into a batch: by acceptance, by class, by rate."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.initializers import Zeros
from workbench.nn.scopes import get_variable, variable_scope
from workbench.nn.variables import GraphKeys, Variable
from workbench.train.input.inputs import batch, maybe_batch
from workbench.train.optimizers.averages import assign_moving_average

__all__ = ["rejection_sample", "resample_at_rate", "stratified_sample", "weighted_resample"]


def _singles(tensors: Sequence[Any], many: bool, capacity: int, threads: int) -> list[Tensor]:
    """Examples one by one, also where they come in batches."""
    found = [convert(t) for t in tensors]
    if not many:
        return found
    taken = batch(found, 1, threads, capacity, enqueue_many=True)
    return [ops.squeeze(t, axis=[0]) for t in (taken if isinstance(taken, list) else [taken])]


def rejection_sample(tensors: Sequence[Any], accept_prob_fn: Callable[[list[Tensor]], Tensor], batch_size: Any,
                     queue_threads: int = 1, enqueue_many: bool = False, prebatch_capacity: int = 16, prebatch_threads: int = 1,
                     runtime_checks: bool = False, name: str | None = None) -> list[Tensor]:
    """A batch of examples, each of which was kept with the probability `accept_prob_fn(tensors)`, a float scalar.

    With `enqueue_many` the first dimension of `tensors` counts examples. With `runtime_checks` a probability outside of
    [0, 1] is an InvalidArgumentError when run.
    """
    with get_default_graph().name_scope(name or "rejection_sample"):
        single = _singles(tensors, enqueue_many, prebatch_capacity, prebatch_threads)
        chance = convert(accept_prob_fn(single))
        if runtime_checks:
            right = ops.logical_and(chance >= 0.0, chance <= 1.0)
            checked = ops.Assert(right, ["rejection_sample: the probability is", chance])
            with get_default_graph().control_dependencies([checked]):
                chance = ops.identity(chance)
        keep = ops.random_uniform([], dtype=chance.dtype) < chance
        taken = maybe_batch(single, keep, batch_size, queue_threads)
    return taken if isinstance(taken, list) else [taken]


def stratified_sample(tensors: Sequence[Any], labels: Any, target_probs: Any, batch_size: Any, init_probs: Any = None,
                      enqueue_many: bool = False, queue_capacity: int = 16, threads_per_queue: int = 1,
                      name: str | None = None) -> tuple[list[Tensor], Tensor]:
    """(batches of tensors, of labels) where the classes come with the probabilities `target_probs` [classes].

    Of classes that are more frequent in the input, with `init_probs` (by default counted on the way), examples are left
    out. `labels` is an int scalar, a vector with `enqueue_many`. InvalidArgumentError for probabilities that do not sum to 1,
    or are wanted of a class that never comes.
    """
    wanted = _probabilities("target_probs", target_probs)
    with get_default_graph().name_scope(name or "stratified_sample"):
        single = _singles([*tensors, labels], enqueue_many, queue_capacity, threads_per_queue)
        label = ops.cast(single[-1], "int32")
        if init_probs is None:
            seen = _counted(label, wanted.shape.as_list()[0])
        else:
            seen = _probabilities("init_probs", init_probs)
            _possible(wanted, seen)
        ratio = ops.where(wanted > 0.0, wanted / ops.maximum(seen, 1e-30), ops.zeros_like(wanted))
        chance = ops.gather(ratio / ops.reduce_max(ratio), label)
        taken = maybe_batch(single, ops.random_uniform([]) < chance, batch_size, threads_per_queue)
    return taken[:-1], taken[-1]


def _probabilities(what: str, given: Any) -> Tensor:
    found = ops.cast(convert(given), "float32")
    known = constant_value(found)
    if known is not None and (abs(float(np.sum(known)) - 1) > 1e-5 or (known < 0).any()):
        raise errors.InvalidArgumentError(f"stratified_sample: {what} sum to {float(np.sum(known)):g}; give probabilities that "
                                          "sum to 1")
    return found


def _possible(wanted: Tensor, seen: Tensor) -> None:
    want, have = constant_value(wanted), constant_value(seen)
    if want is not None and have is not None:
        for number in np.flatnonzero((want > 0) & (have == 0))[:1]:
            raise errors.InvalidArgumentError(f"stratified_sample: target_probs[{number}] is {want[number]:g} but init_probs "
                                              "is 0 there; leave the class out, or begin with examples of it")


def _counted(label: Tensor, classes: Any) -> Tensor:
    """The share of each class among the examples so far; each counts once before the first."""
    counts = Variable(np.ones(classes, np.int64), trainable=False, name="examples_per_class_seen",
                      collections=[GraphKeys.LOCAL_VARIABLES])
    total = ops.cast(counts.assign_add(ops.one_hot(label, classes, 1, 0, dtype="int64")), "float32")
    return total / ops.reduce_sum(total)


# whole batches

def resample_at_rate(inputs: Sequence[Any], rates: Any, scope: str | None = None, seed: int | None = None,
                     back_prop: bool = False) -> list[Tensor]:
    """Each row of `inputs` as often as a draw from Poisson's distribution with its rate (`rates` [n]) says, in order."""
    with get_default_graph().name_scope(scope or "resample_at_rate"):
        given = [convert(t) for t in inputs]
        times = ops.random_poisson(ops.cast(convert(rates), "float32"), [], dtype="int32", seed=seed)
        mask = ops.sequence_mask(times, ops.maximum(ops.reduce_max(times), 0))      # of no rows there is no largest
        numbers = ops.expand_dims(ops.range(ops.shape(times)[0]), 1) + ops.zeros_like(ops.cast(mask, "int32"))
        rows = ops.boolean_mask(numbers, mask)
        return [ops.gather(t, rows) if back_prop else ops.stop_gradient(ops.gather(t, rows)) for t in given]


def weighted_resample(inputs: Sequence[Any], weights: Any, overall_rate: Any, scope: str | None = None,
                      mean_decay: float = 0.999, seed: int | None = None) -> tuple[list[Tensor], Tensor]:
    """(rows of `inputs` resampled, the rate of each row that came) where the rate is `overall_rate` times the row's weight
    (`weights` [n]) by the mean weight, a moving average of which is kept."""
    with variable_scope(scope, "weighted_resample"):
        given = ops.cast(convert(weights), "float32")
        kept = get_variable("estimated_mean", [], "float32", Zeros(), trainable=False)
        mean = assign_moving_average(kept, ops.reduce_mean(given), mean_decay, zero_debias=True)
        rates = given * ops.cast(convert(overall_rate), "float32") / mean
        found = resample_at_rate([rates, *inputs], rates, seed=seed, back_prop=False)
    return found[1:], found[0]
