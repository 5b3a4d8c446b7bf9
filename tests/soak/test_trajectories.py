"""Two hundred steps of training each network of the zoo, small: all passes and libraries go where the reference kernels go."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.nn.test_zoo import IMAGES, SMALL
from workbench.core.kernels.options import KernelOptions
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES
from workbench.nn import zoo

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800), pytest.mark.usefixtures("graph")]
STEPS, RATE = 200, 1e-4
CHAOTIC = "inception_v3"
"""Normalised 94 times over few numbers: the last bit of its images makes percents of a gradient, and after some steps another
network. Two hundred steps are those of its averages instead, the moments left as they begin, with a quarter of its filters: a
last bit stays a last bit for as long."""
EVERY = [name for name, _, _ in PASSES + DEVICE_PASSES]


def images(name: str, count: int = 2, **options: Any) -> tuple[Any, dict[Any, Any]]:
    size, channels = SMALL[name], IMAGES[name][1]
    x, labels = wb.placeholder("float32", [count, size, size, channels]), wb.placeholder("int32", [count])
    logits = getattr(zoo, name)(x, 3, **options)
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    shown = np.random.default_rng(0).standard_normal((count, size, size, channels), np.float32)
    return loss, {x: shown, labels: np.arange(count) * 2 % 3}


def narrow() -> tuple[Any, dict[Any, Any]]:
    """Inception-v3 with a quarter of the filters that each of its convolutions has."""
    class Narrow(zoo._Normalised):
        def conv(self, x: Any, filters: int, *how: Any) -> Any:
            return super().conv(x, filters // 4, *how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo, "_Normalised", Narrow)
        return images(CHAOTIC, training=False)


def language(unroll: bool, sampled: bool = False) -> tuple[Any, dict[Any, Any]]:
    words = np.random.default_rng(0).integers(0, 50, (3, 5)).astype(np.int32)
    x = wb.placeholder("int32", [3, 4])
    outputs, weights, bias = zoo.lstm_language_model(x, 50, 16, unroll=unroll)
    following = words[:, 1:].T.reshape(-1)
    if sampled:      # as many numbers are drawn with as without passes: both see the same classes
        losses = wb.nn.sampled_softmax_loss(weights, bias, following[:, None], outputs, 20, 50)
    else:
        logits = wb.matmul(outputs, weights, transpose_b=True) + bias
        losses = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=logits)
    return wb.reduce_mean(losses), {x: words[:, :-1]}


NETWORKS: dict[str, tuple[Callable[[], tuple[Any, dict[Any, Any]]], float]] = {
    **{name: (lambda name=name: images(name), RATE) for name in IMAGES if name != CHAOTIC},
    CHAOTIC: (narrow, RATE),
    **{f"language model{loop}{samples}": (lambda unroll=not loop, sampled=bool(samples): language(unroll, sampled), 0.5)
       for loop in ("", " in a loop") for samples in ("", ", sampled softmax")}}


@pytest.mark.parametrize("name", NETWORKS)
def test_two_hundred_steps_agree_with_the_reference_kernels(name: str) -> None:
    wb.set_random_seed(1)
    build, rate = NETWORKS[name]
    loss, feed = build()
    step, variables = wb.train.GradientDescentOptimizer(rate).minimize(loss), wb.trainable_variables()
    runs = []
    for session in (wb.Session(), wb.Session(disabled_passes=EVERY, kernels=KernelOptions(libraries=()))):
        with session:
            session.run(wb.global_variables_initializer())
            first = session.run(variables)
            losses = [session.run([loss, step], feed)[0] for _ in range(STEPS)]
            runs.append((losses, [now - before for now, before in zip(session.run(variables), first)]))
    (losses, found), (others, wanted) = runs
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, others, rtol=1e-3, atol=1e-3 * others[0])      # it falls to a hundredth of the first
    for variable, one, other in zip(variables, found, wanted):      # whole: units near zero may be on in one alone
        assert np.linalg.norm(one - other) <= 0.1 * np.linalg.norm(other), variable.name


def test_where_rounding_grows_libraries_are_no_further_off_than_rounding_takes_the_reference() -> None:
    wb.set_random_seed(1)
    loss, feed = images(CHAOTIC, 8)
    gradients, [x, labels] = wb.gradients(loss, wb.trainable_variables()), feed
    nudged = {x: feed[x] * np.float32(1 + 2 ** -21), labels: feed[labels]}
    reference = {"disabled_passes": EVERY, "kernels": KernelOptions(libraries=())}
    found = []
    for options, fed in ((reference, feed), (reference, nudged), ({}, feed)):
        with wb.Session(**options) as session:
            session.run(wb.global_variables_initializer())
            found.append(session.run([loss, *gradients], fed))
    wanted, rounded, ours = found
    assert ours[0] == pytest.approx(wanted[0], rel=1e-3)
    off = [np.median([np.linalg.norm(one - other) / np.linalg.norm(other) for one, other in zip(some[1:], wanted[1:])])
           for some in (ours, rounded)]
    assert off[0] <= 10 * off[1]
