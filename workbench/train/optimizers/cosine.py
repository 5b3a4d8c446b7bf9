"""Learning rates along a cosine: with restarts, with a falling line, with noise."""
from __future__ import annotations

import math
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.core.graph.subgraph import root_graph

__all__ = ["cosine_decay", "cosine_decay_restarts", "linear_cosine_decay", "noisy_linear_cosine_decay"]


def _share(global_step: Any, decay_steps: Any, dtype: Any) -> Tensor:
    """min(global_step, decay_steps) / decay_steps, in `dtype`."""
    steps = ops.cast(convert(decay_steps), dtype)
    found: Tensor = ops.minimum(ops.cast(convert(global_step), dtype), steps) / steps
    return found


def _wave(share: Tensor) -> Tensor:
    """From 1 at 0 to 0 at 1, along half a period."""
    found: Tensor = 0.5 * (1.0 + ops.cos(math.pi * share))
    return found


def cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0,
                 name: str = "CosineDecay") -> Tensor:
    """From `learning_rate` to alpha · learning_rate in `decay_steps`, along half a cosine: a scalar of the rate's dtype.

    `global_step` is an int scalar. Source: Loshchilov & Hutter 2016, "SGDR".
    """
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        return rate * ((1.0 - alpha) * _wave(_share(global_step, decay_steps, rate.dtype)) + alpha)


def cosine_decay_restarts(learning_rate: Any, global_step: Any, first_decay_steps: Any, t_mul: float = 2.0,
                          m_mul: float = 1.0, alpha: float = 0.0, name: str = "SGDRDecay") -> Tensor:
    """cosine_decay that begins again after `first_decay_steps`, each time over `t_mul` times as many steps and from `m_mul`
    times the rate: a scalar of the rate's dtype. Source: Loshchilov & Hutter 2016, "SGDR"."""
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        done = ops.cast(convert(global_step), rate.dtype) / ops.cast(convert(first_decay_steps), rate.dtype)
        if t_mul == 1.0:
            turn = ops.floor(done)
            done = done - turn
        else:
            turn = ops.floor(ops.log(1.0 - done * (1.0 - t_mul)) / math.log(t_mul))
            length = ops.pow(convert(t_mul, rate.dtype), turn)
            done = (done - (1.0 - length) / (1.0 - t_mul)) / length
        height = ops.pow(convert(m_mul, rate.dtype), turn)
        return rate * ((1.0 - alpha) * height * _wave(done) + alpha)


def linear_cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, num_periods: float = 0.5,
                        alpha: float = 0.0, beta: float = 0.001, name: str = "LinearCosineDecay") -> Tensor:
    """learning_rate · ((alpha + line) · wave + beta), a scalar: the line falls from 1 to 0 in `decay_steps`, the wave has
    `num_periods` cosines in them. Source: Bello et al. 2017, "Neural Optimizer Search"."""
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        share = _share(global_step, decay_steps, rate.dtype)
        return rate * ((alpha + 1.0 - share) * _wave(2.0 * num_periods * share) + beta)


def noisy_linear_cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, initial_variance: float = 1.0,
                              variance_decay: float = 0.55, num_periods: float = 0.5, alpha: float = 0.0,
                              beta: float = 0.001, name: str = "NoisyLinearCosineDecay") -> Tensor:
    """linear_cosine_decay with normal noise on the line, of variance initial_variance / (1 + step) ^ variance_decay, where
    the step counts up to `decay_steps`: a scalar. Source: Bello et al. 2017."""
    with root_graph().name_scope(name):
        rate = convert(learning_rate)
        share = _share(global_step, decay_steps, rate.dtype)
        steps = share * ops.cast(convert(decay_steps), rate.dtype)
        spread = ops.sqrt(initial_variance / ops.pow(1.0 + steps, convert(variance_decay, rate.dtype)))
        noise = ops.random_normal([], dtype=rate.dtype) * spread
        return rate * ((alpha + 1.0 - share + noise) * _wave(2.0 * num_periods * share) + beta)
