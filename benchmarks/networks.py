"""The networks of workbench.nn.zoo in the words of the peers: written once, over what each framework calls a convolution."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["IMAGES", "NETWORKS", "initial", "peer"]

IMAGES = {"mlp": (784,), "lenet": (28, 28, 1), "alexnet": (224, 224, 3), "overfeat": (231, 231, 3), "vgg_a": (224, 224, 3),
          "googlenet": (224, 224, 3), "inception_v3": (299, 299, 3)}
EPSILON = 1e-3


def initial(rng: np.random.Generator, shape: Sequence[int]) -> Any:
    """The first value of a parameter: weights keep the scale of signals through ReLUs, the rest is zero."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (rng.standard_normal(shape) * np.sqrt(2.0 / np.prod(shape[:-1]))).astype(np.float32)


class Words:
    """What networks are written with; `values` are their parameters in the order of use, made at the first."""

    def __init__(self, module: Any) -> None:
        self.module, self.rng = module, np.random.default_rng(1)
        self.values: list[Any] = []
        self.at = 0

    def again(self, values: list[Any] | None = None) -> None:
        """The next use begins with the first parameter, by default of those there are."""
        self.values, self.at = self.values if values is None else values, 0

    def take(self, *shape: int) -> Any:
        if self.at == len(self.values):
            self.values.append(self.leaf(initial(self.rng, shape)))
        self.at += 1
        return self.values[self.at - 1]

    # what a framework defines; images are [batch, height, width, channels] or as it likes them
    images: Callable[[Any], Any]
    leaf: Callable[[Any], Any]
    channels: Callable[[Any], int]
    conv: Callable[..., Any]
    shift: Callable[[Any, Any], Any]
    normal: Callable[[Any, Any], Any]
    relu: Callable[[Any], Any]
    largest: Callable[..., Any]
    mean3: Callable[[Any], Any]
    mean: Callable[[Any], Any]
    join: Callable[[Sequence[Any]], Any]
    flat: Callable[[Any], Any]

    # what follows from it
    def layer(self, x: Any, filters: int, size: int, stride: int = 1, pad: int = 0) -> Any:
        y = self.conv(x, self.take(size, size, self.channels(x), filters), stride, (pad, pad))
        return self.relu(self.shift(y, self.take(filters)))

    def normed(self, x: Any, *steps: Sequence[Any]) -> Any:
        """Convolutions (filters, size, stride, "valid" or nothing) with batch normalisation."""
        for filters, size, *rest in steps:
            height, width = (size, size) if isinstance(size, int) else size
            pad = (0, 0) if "valid" in rest else (height // 2, width // 2)
            y = self.conv(x, self.take(height, width, self.channels(x), filters), rest[0] if rest else 1, pad)
            x = self.relu(self.normal(y, self.take(filters)))
        return x

    def dense(self, x: Any, units: int, relu: bool = False) -> Any:
        y = x @ self.take(int(x.shape[-1]), units) + self.take(units)
        return self.relu(y) if relu else y

    def classified(self, x: Any, *hidden: int) -> Any:
        x = self.flat(x)
        for units in hidden:
            x = self.dense(x, units, True)
        return self.dense(x, 1000)


def mlp(f: Any, x: Any) -> Any:
    return f.dense(f.dense(f.dense(x, 512, True), 512, True), 10)


def alexnet(f: Any, x: Any) -> Any:
    x = f.largest(f.layer(x, 64, 11, 4, 2), 3, 2)
    x = f.largest(f.layer(x, 192, 5, 1, 2), 3, 2)
    for filters in (384, 256, 256):
        x = f.layer(x, filters, 3, 1, 1)
    return f.classified(f.largest(x, 3, 2), 4096, 4096)


def overfeat(f: Any, x: Any) -> Any:
    x = f.largest(f.layer(x, 96, 11, 4), 2, 2)
    x = f.largest(f.layer(x, 256, 5), 2, 2)
    for filters in (512, 1024, 1024):
        x = f.layer(x, filters, 3, 1, 1)
    return f.classified(f.largest(x, 2, 2), 3072, 4096)


def vgg_a(f: Any, x: Any) -> Any:
    for widths in ([64], [128], [256, 256], [512, 512], [512, 512]):
        for width in widths:
            x = f.layer(x, width, 3, 1, 1)
        x = f.largest(x, 2, 2)
    return f.classified(x, 4096, 4096)


def googlenet(f: Any, x: Any) -> Any:
    from workbench.nn.zoo import _GOOGLENET
    x = f.largest(f.layer(x, 64, 7, 2, 3), 3, 2, 1)
    x = f.largest(f.layer(f.layer(x, 64, 1), 192, 3, 1, 1), 3, 2, 1)
    for widths in _GOOGLENET:
        if widths is None:
            x = f.largest(x, 3, 2, 1)
            continue
        one, reduce3, three, reduce5, five, behind = widths
        x = f.join([f.layer(x, one, 1), f.layer(f.layer(x, reduce3, 1), three, 3, 1, 1),
                    f.layer(f.layer(x, reduce5, 1), five, 5, 1, 2), f.layer(f.largest(x, 3, 1, 1), behind, 1)])
    return f.dense(f.mean(x), 1000)


def inception_v3(f: Any, x: Any) -> Any:
    end, across, down = (3, 2, "valid"), (1, 7), (7, 1)
    x = f.largest(f.normed(x, (32, *end), (32, 3, 1, "valid"), (64, 3)), 3, 2)
    x = f.largest(f.normed(x, (80, 1, 1, "valid"), (192, 3, 1, "valid")), 3, 2)
    for behind in (32, 64, 64):
        x = f.join([f.normed(x, (64, 1)), f.normed(x, (48, 1), (64, 5)), f.normed(x, (64, 1), (96, 3), (96, 3)),
                    f.normed(f.mean3(x), (behind, 1))])
    x = f.join([f.normed(x, (384, *end)), f.normed(x, (64, 1), (96, 3), (96, *end)), f.largest(x, 3, 2)])
    for w in (128, 160, 160, 192):
        x = f.join([f.normed(x, (192, 1)), f.normed(x, (w, 1), (w, across), (192, down)),
                    f.normed(x, (w, 1), (w, down), (w, across), (w, down), (192, across)), f.normed(f.mean3(x), (192, 1))])
    x = f.join([f.normed(x, (192, 1), (320, *end)), f.normed(x, (192, 1), (192, across), (192, down), (192, *end)),
                f.largest(x, 3, 2)])
    for _ in range(2):
        sides = f.normed(x, (384, 1)), f.normed(x, (448, 1), (384, 3))
        split = [f.normed(side, (384, size)) for side in sides for size in ((1, 3), (3, 1))]
        x = f.join([f.normed(x, (320, 1)), *split, f.normed(f.mean3(x), (192, 1))])
    return f.dense(f.mean(x), 1000)


NETWORKS = {"mlp": mlp, "alexnet": alexnet, "overfeat": overfeat, "vgg_a": vgg_a, "googlenet": googlenet,
            "inception_v3": inception_v3}


class Torch(Words):
    """Channels first in name, last in memory."""

    def images(self, x: Any) -> Any:
        tensor = self.module.from_numpy(x)
        return tensor if x.ndim == 2 else tensor.permute(0, 3, 1, 2).contiguous(memory_format=self.module.channels_last)

    def leaf(self, value: Any) -> Any:
        tensor = self.module.from_numpy(value)
        if value.ndim == 4:
            tensor = tensor.permute(3, 2, 0, 1).contiguous(memory_format=self.module.channels_last)
        return tensor.requires_grad_()

    def channels(self, x: Any) -> int:
        return int(x.shape[1])

    def conv(self, x: Any, w: Any, stride: int, pad: tuple[int, int]) -> Any:
        return self.module.nn.functional.conv2d(x, w, None, stride, pad)

    def shift(self, x: Any, b: Any) -> Any:
        return x + b[:, None, None]

    def layer(self, x: Any, filters: int, size: int, stride: int = 1, pad: int = 0) -> Any:
        w, b = self.take(size, size, self.channels(x), filters), self.take(filters)
        return self.relu(self.module.nn.functional.conv2d(x, w, b, stride, pad))

    def normal(self, x: Any, b: Any) -> Any:
        ones = self.module.ones_like(b, requires_grad=False)
        return self.module.nn.functional.batch_norm(x, None, None, ones, b, True, 0.0, EPSILON)

    def relu(self, x: Any) -> Any:
        return self.module.relu(x)

    def largest(self, x: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self.module.nn.functional.max_pool2d(x, size, stride, pad)

    def mean3(self, x: Any) -> Any:
        return self.module.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3))

    def join(self, parts: Sequence[Any]) -> Any:
        return self.module.cat(list(parts), 1)

    def flat(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)


class Last(Words):
    """What frameworks share that keep channels last."""

    def images(self, x: Any) -> Any:
        return x

    def channels(self, x: Any) -> int:
        return int(x.shape[-1])

    def shift(self, x: Any, b: Any) -> Any:
        return x + b

    def flat(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1)


class Jax(Last):
    def leaf(self, value: Any) -> Any:
        return self.module.numpy.asarray(value)

    def conv(self, x: Any, w: Any, stride: int, pad: tuple[int, int]) -> Any:
        return self.module.lax.conv_general_dilated(x, w, (stride, stride), [(p, p) for p in pad],
                                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normal(self, x: Any, b: Any) -> Any:
        jnp = self.module.numpy
        return (x - x.mean((0, 1, 2))) * self.module.lax.rsqrt(jnp.var(x, (0, 1, 2)) + EPSILON) + b

    def relu(self, x: Any) -> Any:
        return self.module.nn.relu(x)

    def _window(self, x: Any, start: float, combine: Any, size: int, stride: int, pad: int) -> Any:
        sides = [(0, 0), (pad, pad), (pad, pad), (0, 0)]
        return self.module.lax.reduce_window(x, start, combine, (1, size, size, 1), (1, stride, stride, 1), sides)

    def largest(self, x: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self._window(x, -np.inf, self.module.lax.max, size, stride, pad)

    def mean3(self, x: Any) -> Any:
        add, ones = self.module.lax.add, self.module.numpy.ones_like(x[:1, :, :, :1])
        return self._window(x, 0.0, add, 3, 1, 1) / self._window(ones, 0.0, add, 3, 1, 1)

    def mean(self, x: Any) -> Any:
        return x.mean((1, 2))

    def join(self, parts: Sequence[Any]) -> Any:
        return self.module.numpy.concatenate(list(parts), -1)


class Flow(Last):
    """TensorFlow, in its graphs of version 1."""

    def leaf(self, value: Any) -> Any:
        v1 = self.module.compat.v1
        return v1.Variable(v1.placeholder_with_default(value, value.shape), use_resource=True)

    def conv(self, x: Any, w: Any, stride: int, pad: tuple[int, int]) -> Any:
        return self.module.nn.conv2d(x, w, stride, [[0, 0], [pad[0]] * 2, [pad[1]] * 2, [0, 0]])

    def shift(self, x: Any, b: Any) -> Any:
        return self.module.nn.bias_add(x, b)

    def normal(self, x: Any, b: Any) -> Any:
        ones = self.module.ones_like(b)
        return self.module.compat.v1.nn.fused_batch_norm(x, ones, b, epsilon=EPSILON, is_training=True)[0]

    def relu(self, x: Any) -> Any:
        return self.module.nn.relu(x)

    def largest(self, x: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self.module.nn.max_pool2d(x, size, stride, [[0, 0], [pad] * 2, [pad] * 2, [0, 0]])

    def mean3(self, x: Any) -> Any:
        return self.module.nn.avg_pool2d(x, 3, 1, "SAME")

    def mean(self, x: Any) -> Any:
        return self.module.reduce_mean(x, [1, 2])

    def join(self, parts: Sequence[Any]) -> Any:
        return self.module.concat(list(parts), -1)

    def flat(self, x: Any) -> Any:
        return self.module.reshape(x, [x.shape[0], -1])


def peer(name: str, module: Any) -> Words:
    """The words of a framework."""
    return {"torch": Torch, "torch.compile": Torch, "JAX jit": Jax, "TF1 session": Flow}[name](module)
