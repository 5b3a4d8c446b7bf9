"""Layers of sequences against NumPy; both data formats; errors."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench.nn import layers_1d

pytestmark = pytest.mark.usefixtures("graph")
X = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
def test_sequences_are_filtered(stride, dilation):
    y = layers_1d.conv1d(X, 4, 3, stride, dilation_rate=dilation, activation=wb.nn.relu, bias_initializer=wb.ones_initializer())
    kernel, bias = wb.trainable_variables()
    found, k = run([y, kernel])
    steps = range(0, 6 - 2 * dilation, stride)
    expected = [[sum(X[b, s + i * dilation] @ k[i] for i in range(3)) + 1 for s in steps] for b in range(2)]
    assert (kernel.name, bias.name) == ("conv1d/kernel:0", "conv1d/bias:0")
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_windows_are_pooled_and_channels_may_come_second():
    most = layers_1d.max_pooling1d(X, 2, 2)
    mean = layers_1d.average_pooling1d(X.transpose(0, 2, 1), [3], [3], data_format="channels_first")
    a, b = run([most, mean])
    np.testing.assert_array_equal(a, X.reshape(2, 3, 2, 3).max(2))
    np.testing.assert_allclose(b, X.reshape(2, 2, 3, 3).mean(2).transpose(0, 2, 1), rtol=1e-5, atol=1e-6)


def test_what_is_no_sequence_is_refused():
    with pytest.raises(ValueError, match="sequences have rank 3: reshape it"):
        layers_1d.max_pooling1d(X[0], 2, 2)
    with pytest.raises(ValueError, match="data_format 'NCW' is unknown"):
        layers_1d.conv1d(X, 1, 1, data_format="NCW")
