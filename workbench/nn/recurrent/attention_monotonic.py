"""Attention that moves through its memory in one direction only. Source: Raffel, Luong, Liu, Weiss, Eck 2017."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.initializers import Constant
from workbench.nn.recurrent.attention import BahdanauAttention, LuongAttention
from workbench.nn.scopes import get_variable

__all__ = ["BahdanauMonotonicAttention", "LuongMonotonicAttention", "monotonic_attention", "monotonic_probability_fn",
           "safe_cumprod"]


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """cumprod of x in [0, 1], whose other arguments it takes, by logarithms: small factors do not make it 0 too early."""
    x = convert(x)
    tiny = float(np.finfo(x.dtype.numpy).tiny)
    made: Tensor = ops.exp(ops.cumsum(ops.log(ops.clip_by_value(x, tiny, 1.0)), *args, **kwargs))
    return made


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Tensor:
    """[batch, time]: the weights of a memory whose elements are chosen with probability `p_choose_i`, walking on from where
    `previous_attention` was; both [batch, time].

    `mode` "recursive" is exact, "parallel" quicker and less so where probabilities are near 0 or 1, "hard" is for
    probabilities that are 0 or 1. InvalidArgumentError for another.
    """
    p, before = convert(p_choose_i), convert(previous_attention)
    if mode == "recursive":
        passed = ops.transpose(ops.concat([ops.ones_like(p[:, :1]), 1.0 - p[:, :-1]], axis=1))
        walked = ops.scan(lambda q, given: given[0] * q + given[1], (passed, ops.transpose(before)),
                          initializer=ops.zeros_like(before[:, 0]))
        return p * ops.transpose(walked)
    if mode == "parallel":
        passed = safe_cumprod(1.0 - p, axis=1, exclusive=True)
        made: Tensor = p * passed * ops.cumsum(before / ops.clip_by_value(passed, 1e-10, 1.0), axis=1)
        return made
    if mode == "hard":
        reached = p * ops.cumsum(before, axis=1)
        return reached * ops.cumprod(1.0 - reached, axis=1, exclusive=True)
    raise errors.InvalidArgumentError(f"monotonic_attention: mode is {mode!r}; mode must be 'recursive', 'parallel', or 'hard'")


def monotonic_probability_fn(score: Any, previous_alignments: Any, sigmoid_noise: float, mode: str,
                             seed: int | None = None) -> Tensor:
    """monotonic_attention with the sigmoid of a score [batch, time], to which noise of deviation `sigmoid_noise` is added;
    for "hard" what is above 0 is chosen."""
    score = convert(score)
    if sigmoid_noise > 0:
        score = score + sigmoid_noise * ops.random_normal(ops.shape(score), dtype=score.dtype, seed=seed)
    chosen = ops.cast(score > 0.0, score.dtype) if mode == "hard" else ops.sigmoid(score)
    return monotonic_attention(chosen, previous_alignments, mode)


class _Monotonic:
    """What both mechanisms add: a trained bias of the score, weights from those of the step before, a first element."""

    _start: float
    _noise: tuple[float, str, int | None]
    alignments_size: Any

    def _with(self, score_bias_init: float, sigmoid_noise: float, mode: str, seed: int | None) -> None:
        self._start, self._noise = score_bias_init, (sigmoid_noise, mode, seed)

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Tensor:
        """All weight on the first element: [batch, time]."""
        zeros = ops.zeros(ops.stack([batch_size]), "int32")
        made: Tensor = ops.one_hot(zeros, self.alignments_size, dtype=dtype)
        return made

    def _shifted(self, score: Tensor) -> Tensor:
        return score + get_variable("attention_score_bias", [], score.dtype, Constant(self._start))

    def _weights(self, score: Tensor, before: Any) -> Tensor:
        noise, mode, seed = self._noise
        return monotonic_probability_fn(score, before, noise, mode, seed)


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """LuongAttention that never goes back: `mode` as for monotonic_attention, `sigmoid_noise` to train for "hard" decisions,
    `score_bias_init` negative where the memory is long."""

    _scope = "luong_monotonic_attention"

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, scale: bool = False,
                 score_mask_value: Any = -np.inf, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
                 score_bias_init: float = 0.0, mode: str = "parallel", name: str = "LuongMonotonicAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, scale, None, score_mask_value, name)
        self._with(score_bias_init, sigmoid_noise, mode, sigmoid_noise_seed)

    def _score(self, query: Tensor) -> Tensor:
        return self._shifted(super()._score(query))


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """BahdanauAttention that never goes back; its arguments are explained at LuongMonotonicAttention."""

    _scope = "bahdanau_monotonic_attention"

    def __init__(self, num_units: int, memory: Any, memory_sequence_length: Any = None, normalize: bool = False,
                 score_mask_value: Any = -np.inf, sigmoid_noise: float = 0.0, sigmoid_noise_seed: int | None = None,
                 score_bias_init: float = 0.0, mode: str = "parallel", name: str = "BahdanauMonotonicAttention") -> None:
        super().__init__(num_units, memory, memory_sequence_length, normalize, None, score_mask_value, name)
        self._with(score_bias_init, sigmoid_noise, mode, sigmoid_noise_seed)

    def _score(self, query: Tensor) -> Tensor:
        return self._shifted(super()._score(query))
