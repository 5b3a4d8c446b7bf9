"""Well-known networks of their time, as functions from images or words to logits, written with the public layers."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn import layers
from workbench.nn.embedding import embedding_lookup
from workbench.nn.initializers import VarianceScaling
from workbench.nn.recurrent.rnn import dynamic_rnn, static_rnn
from workbench.nn.recurrent.rnn_cell import BasicLSTMCell
from workbench.nn.scopes import get_variable, variable_scope

__all__ = ["alexnet", "googlenet", "inception_v3", "lenet", "lstm_language_model", "overfeat", "vgg_a"]

_HE = VarianceScaling(2.0)      # keeps the scale of signals through ReLUs; He et al. 2015


def _padded(x: Tensor, pad: int) -> Tensor:
    return ops.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]]) if pad else x


def _conv(x: Any, filters: int, size: int, stride: int = 1, pad: int = 0) -> Tensor:
    """A convolution with `pad` zeros around the images, and a ReLU; same padding where the stride is 1 and it fits."""
    same = stride == 1 and size == 2 * pad + 1
    return layers.conv2d(x if same else _padded(convert(x), pad), filters, size, stride, "same" if same else "valid",
                         activation=ops.relu, kernel_initializer=_HE)


def _pool(x: Tensor, size: int, stride: int, pad: int = 0) -> Tensor:
    """The largest of each window; what stands around the images never is."""
    return ops.max_pool(x, size, stride, ((pad, pad), (pad, pad)))


def _classified(x: Tensor, hidden: Sequence[int], classes: int) -> Tensor:
    x = layers.flatten(x)
    for units in hidden:
        x = layers.dense(x, units, ops.relu, kernel_initializer=_HE)
    return layers.dense(x, classes)


def lenet(images: Any, classes: int = 10) -> Tensor:
    """Logits [batch, classes] of a network like LeNet-5 with ReLUs, for images [batch, 28, 28, 1]."""
    with variable_scope("lenet"):
        x = _pool(_conv(images, 32, 5, 1, 2), 2, 2)
        return _classified(_pool(_conv(x, 64, 5, 1, 2), 2, 2), [1024], classes)


def alexnet(images: Any, classes: int = 1000) -> Tensor:
    """Logits of AlexNet as in A. Krizhevsky, "One weird trick", 2014, for images [batch, 224, 224, 3]."""
    with variable_scope("alexnet"):
        x = _pool(_conv(images, 64, 11, 4, 2), 3, 2)
        x = _pool(_conv(x, 192, 5, 1, 2), 3, 2)
        x = _conv(_conv(_conv(x, 384, 3, 1, 1), 256, 3, 1, 1), 256, 3, 1, 1)
        return _classified(_pool(x, 3, 2), [4096, 4096], classes)


def overfeat(images: Any, classes: int = 1000) -> Tensor:
    """Logits of Overfeat's fast model, P. Sermanet et al. 2013, for images [batch, 231, 231, 3]."""
    with variable_scope("overfeat"):
        x = _pool(_conv(images, 96, 11, 4), 2, 2)
        x = _pool(_conv(x, 256, 5), 2, 2)
        x = _conv(_conv(_conv(x, 512, 3, 1, 1), 1024, 3, 1, 1), 1024, 3, 1, 1)
        return _classified(_pool(x, 2, 2), [3072, 4096], classes)


def vgg_a(images: Any, classes: int = 1000) -> Tensor:
    """Logits of configuration A of K. Simonyan and A. Zisserman 2014, for images [batch, 224, 224, 3]."""
    with variable_scope("vgg_a"):
        x = images
        for widths in ([64], [128], [256, 256], [512, 512], [512, 512]):
            for width in widths:
                x = _conv(x, width, 3, 1, 1)
            x = _pool(x, 2, 2)
        return _classified(x, [4096, 4096], classes)


_GOOGLENET = (      # 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, behind the pool; None is a pool that halves the image
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128))


def googlenet(images: Any, classes: int = 1000) -> Tensor:
    """Logits of C. Szegedy et al., "Going deeper with convolutions", table 1, without side branches and local response
    normalisation, for images [batch, 224, 224, 3]."""
    with variable_scope("googlenet"):
        x = _pool(_conv(images, 64, 7, 2, 3), 3, 2, 1)
        x = _pool(_conv(_conv(x, 64, 1), 192, 3, 1, 1), 3, 2, 1)
        for widths in _GOOGLENET:
            x = _pool(x, 3, 2, 1) if widths is None else _inception(x, *widths)
        return layers.dense(ops.reduce_mean(x, [1, 2]), classes)


def _inception(x: Tensor, one: int, reduce3: int, three: int, reduce5: int, five: int, behind: int) -> Tensor:
    return ops.concat([
        _conv(x, one, 1), _conv(_conv(x, reduce3, 1), three, 3, 1, 1), _conv(_conv(x, reduce5, 1), five, 5, 1, 2),
        _conv(_pool(x, 3, 1, 1), behind, 1)], 3)


class _Normalised:
    """Convolutions without biases, batch normalisation and a ReLU: what Inception-v3 is made of."""

    def __init__(self, training: Any) -> None:
        self.training = training

    def conv(self, x: Any, filters: int, size: Any, stride: int = 1, padding: str = "same") -> Tensor:
        y = layers.conv2d(x, filters, size, stride, padding, use_bias=False, kernel_initializer=_HE)
        return ops.relu(layers.batch_normalization(y, momentum=0.9997, scale=False, training=self.training))

    def chain(self, x: Any, *steps: tuple[Any, ...]) -> Tensor:
        for step in steps:
            x = self.conv(x, *step)
        return x

    def averaged(self, x: Tensor, filters: int) -> Tensor:
        return self.conv(layers.average_pooling2d(x, 3, 1, "same"), filters, 1)

    def stem(self, x: Any) -> Tensor:
        x = self.chain(x, (32, 3, 2, "valid"), (32, 3, 1, "valid"), (64, 3))
        x = self.chain(layers.max_pooling2d(x, 3, 2), (80, 1, 1, "valid"), (192, 3, 1, "valid"))
        return layers.max_pooling2d(x, 3, 2)

    def wide(self, x: Tensor, behind: int) -> Tensor:
        """35x35."""
        return ops.concat([self.conv(x, 64, 1), self.chain(x, (48, 1), (64, 5)),
                           self.chain(x, (64, 1), (96, 3), (96, 3)), self.averaged(x, behind)], 3)

    def middle(self, x: Tensor, width: int) -> Tensor:
        """17x17: 7x7 filters as 1x7 and 7x1."""
        across, down = (1, 7), (7, 1)
        return ops.concat([self.conv(x, 192, 1), self.chain(x, (width, 1), (width, across), (192, down)),
                           self.chain(x, (width, 1), (width, down), (width, across), (width, down), (192, across)),
                           self.averaged(x, 192)], 3)

    def narrow(self, x: Tensor) -> Tensor:
        """8x8: 3x3 filters as 1x3 beside 3x1."""
        sides = self.conv(x, 384, 1), self.chain(x, (448, 1), (384, 3))
        split = [self.conv(side, 384, size) for side in sides for size in ((1, 3), (3, 1))]
        return ops.concat([self.conv(x, 320, 1), *split, self.averaged(x, 192)], 3)

    def halved(self, x: Tensor, *branches: Sequence[tuple[Any, ...]]) -> Tensor:
        return ops.concat([*(self.chain(x, *branch) for branch in branches), layers.max_pooling2d(x, 3, 2)], 3)


def inception_v3(images: Any, classes: int = 1000, training: Any = True) -> Tensor:
    """Logits of C. Szegedy et al., "Rethinking the Inception architecture", 2015, without the side branch, for images
    [batch, 299, 299, 3]; batch normalisation behind every convolution.

    While `training` (a bool or bool tensor) batches are normalised by their own moments; make the training step depend on
    the operations in the collection UPDATE_OPS, which keep the averages for later.
    """
    net, end = _Normalised(training), (3, 2, "valid")
    with variable_scope("inception_v3"):
        x = net.stem(images)
        for behind in (32, 64, 64):
            x = net.wide(x, behind)
        x = net.halved(x, [(384, *end)], [(64, 1), (96, 3), (96, *end)])
        for width in (128, 160, 160, 192):
            x = net.middle(x, width)
        x = net.halved(x, [(192, 1), (320, *end)], [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, *end)])
        x = net.narrow(net.narrow(x))
        return layers.dense(ops.reduce_mean(x, [1, 2]), classes)


def lstm_language_model(words: Any, vocabulary: int = 40_000, units: int = 512, unroll: bool = True) -> tuple[Tensor, Any, Any]:
    """Outputs [steps · batch, units], output weights [vocabulary, units] and bias [vocabulary] of LSTM-512-512 (paper
    §6.4), for integer `words` [batch, steps]; row t · batch + b belongs to word t of text b.

    Logits are `matmul(outputs, weights, transpose_b=True) + bias`; sampled_softmax_loss takes the three as they are.
    `unroll` repeats the cell in the graph for each step, which must be known; else the graph loops over them.
    """
    with variable_scope("language_model"):
        table = get_variable("embedding", [vocabulary, units])
        x = ops.transpose(embedding_lookup(table, words), (1, 0, 2))
        cell = BasicLSTMCell(units)
        if unroll:
            outputs = ops.concat(static_rnn(cell, ops.unstack(x, axis=0), dtype="float32")[0], 0)
        else:
            outputs = ops.reshape(dynamic_rnn(cell, x, dtype="float32", time_major=True)[0], [-1, units])
        return outputs, get_variable("softmax/weights", [vocabulary, units]), get_variable("softmax/bias", [vocabulary])
