"""Mixed precision: scales of losses against TensorFlow's, products of bfloat16 and a training with them against PyTorch's."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import reals
from tests.oracle.harness import agree, quiet, tensorflow, told

pytestmark = pytest.mark.oracle

FACTORS = [1.0, 2.0, np.inf, 0.5, 1.5, 1.0, np.nan, -np.inf, 1.0, 0.25, 1e30, 1.0]
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.5),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
}


def scaled(kind: str, scale: float | None, growth: int, factors: list[float]) -> Callable[[Any], Any]:
    """Weights, counted steps and the scale of the next step after each of `factors`; a scale of None is dynamic."""
    def story(tf: Any) -> Any:
        optimizer = OPTIMIZERS[kind](tf)
        if tf is ours:
            mixed = tf.mixed_precision("float16", scale, growth)
        else:
            names = tf.mixed_precision
            mixed = names.DynamicLossScale(2.0 ** 15, growth) if scale is None else names.FixedLossScale(scale)
            optimizer = names.MixedPrecisionLossScaleOptimizer(optimizer, mixed)
        w, step = tf.Variable(np.array([1.0, -2.0, 0.5], "f")), tf.train.get_or_create_global_step()
        x = tf.placeholder("float32", [])
        train, found = optimizer.minimize(tf.reduce_sum(tf.square(w * x)), step), []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for factor in factors:
                session.run(train, {x: factor})
                found.append(session.run([w, step, mixed.scale if tf is ours else mixed()]))
        return found
    return story


def same_steps(story: Callable[[Any], Any]) -> list[float]:
    """The scales after each step, which both libraries agree about, as about the weights and the steps that count."""
    with quiet():
        wanted = told(tensorflow(), story)
    agree(told(ours, story), wanted, 1e-6)
    return [float(scale) for scale in wanted[2::3]]


@pytest.mark.parametrize("growth", [1, 2, 3])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_dynamic_scales_and_steps_left_out_are_tensorflows(kind: str, growth: int) -> None:
    scales = same_steps(scaled(kind, None, growth, FACTORS))
    assert {b / a for a, b in itertools.pairwise(scales)} == ({0.5, 2.0} if growth == 1 else {0.5, 1.0, 2.0})


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_steps_of_a_fixed_scale_are_tensorflows(kind: str) -> None:
    """Of finite gradients: TensorFlow applies others with a fixed scale, and we leave them out with any."""
    assert set(same_steps(scaled(kind, 1024.0, 1, [f for f in FACTORS if abs(f) < 1e9]))) == {1024.0}


# products in bfloat16: TensorFlow rewrites graphs so for GPUs alone, so PyTorch's autocast on CPUs is the truth

A, B = reals(6, 5).astype("f"), reals(5, 4, seed=1).astype("f")
IMAGES, FILTERS = reals(2, 6, 6, 3, seed=2).astype("f"), reals(3, 3, 3, 4, seed=3).astype("f")
PRODUCTS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any], Any, Any]] = {
    "matmul": (lambda a, b: ours.matmul(a, b), lambda torch, a, b: a @ b, A, B),
    "batch": (lambda a, b: ours.matmul(a, b), lambda torch, a, b: torch.bmm(a, b), np.stack([A, 2 * A]), np.stack([B, -B])),
    "convolution": (lambda a, b: ours.nn.conv2d(a, b, [1, 1, 1, 1], "SAME"),
                    lambda torch, a, b: channels_last(torch.conv2d(a.permute(0, 3, 1, 2), b.permute(3, 2, 0, 1), padding=1)),
                    IMAGES, FILTERS),
}


def channels_last(images: Any) -> Any:
    return images.permute(0, 2, 3, 1)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_their_gradients_are_torchs(name: str) -> None:
    """Sums of rounded values, so that they are nearer to one another than to the sums of float32."""
    torch = pytest.importorskip("torch")
    mine, theirs, left, right = PRODUCTS[name]
    given = [torch.tensor(array, requires_grad=True) for array in (left, right)]
    with torch.autocast("cpu", torch.bfloat16):
        product = theirs(torch, *given)
    assert product.dtype == torch.bfloat16
    product.float().sum().backward()
    wanted = [product.detach().float().numpy(), *(array.grad.numpy() for array in given)]
    found = {}
    for precision in ("bfloat16", "float32"):
        with ours.Graph().as_default(), ours.Session() as session:
            ours.mixed_precision(precision)
            xs = [ours.placeholder("float32", array.shape) for array in (left, right)]
            y = mine(*xs)
            found[precision] = session.run([y, *ours.gradients(y, xs)], dict(zip(xs, (left, right))))
    agree(found["bfloat16"], wanted, 2.0 ** -7)
    for got, exact, full in zip(found["bfloat16"], wanted, found["float32"], strict=True):
        assert np.abs(got - exact).mean() < 0.25 * np.abs(full - exact).mean()


def test_a_training_in_bfloat16_is_torchs() -> None:
    """Variables stay float32 in both; 20 steps of a network of two layers."""
    torch = pytest.importorskip("torch")
    inputs, labels = reals(32, 8, seed=4).astype("f"), reals(32, 1, seed=5).astype("f")
    kernels = [0.5 * reals(8, 16, seed=6).astype("f"), 0.5 * reals(16, 1, seed=7).astype("f")]
    weights = [torch.tensor(kernel, requires_grad=True) for kernel in kernels]
    wanted = []
    for _ in range(20):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = torch.relu(torch.tensor(inputs) @ weights[0]) @ weights[1]
        loss = torch.mean(torch.square(outputs.float() - torch.tensor(labels)))
        slopes = torch.autograd.grad(loss, weights)
        weights = [(w - 0.05 * slope).detach().requires_grad_() for w, slope in zip(weights, slopes)]
        wanted.append(loss.item())
    with ours.Graph().as_default(), ours.Session() as session:
        ours.mixed_precision("bfloat16")
        variables = [ours.Variable(kernel) for kernel in kernels]
        predicted = ours.matmul(ours.nn.relu(ours.matmul(ours.constant(inputs), variables[0])), variables[1])
        error = ours.reduce_mean(ours.square(predicted - labels))
        train = ours.train.GradientDescentOptimizer(0.05).minimize(error)
        session.run(ours.global_variables_initializer())
        found = [session.run([error, train])[0] for _ in range(20)]
        trained = session.run(variables)
    agree(found, [np.float32(value) for value in wanted], 1e-2)
    agree(trained, [weight.detach().numpy() for weight in weights], 1e-2)
    assert found[-1] < 0.5 * found[0]
