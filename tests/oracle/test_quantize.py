"""Rounding to few bits in training, and its slopes by inputs and limits."""
from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import reals
from tests.oracle.harness import Row, Table, check, compared, quiet, tensorflow

pytestmark = pytest.mark.oracle
ROWS = Table()
X, DY = 4 * reals(3, 4), reals(3, 4, seed=1)
LOW, HIGH = np.array([-1.0, -2.0, 0.0, -0.3]), np.array([1.0, 0.5, 3.0, 2.0])
ONCE: dict[str, Any] = {"order": 1, "modes": ("float32",)}

for _bits in (2, 8):
    for _narrow in (False, True):
        _o = {"num_bits": _bits, "narrow_range": _narrow}
        _t = f"{_bits} {_narrow}"
        ROWS.row(f"fake_quant_with_min_max_args {_t}", lambda tf, x, o=_o: tf.fake_quant_with_min_max_args(x, -1.5, 2.0, **o),
                 X, **ONCE)
        ROWS.row(f"fake_quant_with_min_max_vars {_t}", lambda tf, x, a, b, o=_o: tf.fake_quant_with_min_max_vars(x, a, b, **o),
                 X, np.array(-1.5), np.array(2.0), **ONCE)
        ROWS.row(f"fake_quant_with_min_max_vars_per_channel {_t}",
                 lambda tf, x, a, b, o=_o: tf.fake_quant_with_min_max_vars_per_channel(x, a, b, **o), X, LOW, HIGH, **ONCE)
ROWS.row("fake_quant_with_min_max_args_gradient", lambda tf, x, dy: tf.fake_quant_with_min_max_args_gradient(dy, x, -1.5, 2.0),
         X, DY, order=0, modes=("float32",))
ROWS.row("fake_quant_with_min_max_vars_gradient", lambda tf, x, dy, a, b: list(tf.fake_quant_with_min_max_vars_gradient(
    dy, x, a, b)), X, DY, np.array(-1.5), np.array(2.0), order=0, modes=("float32",))
ROWS.row("fake_quant_with_min_max_vars_per_channel_gradient",
         lambda tf, x, dy, a, b: list(tf.fake_quant_with_min_max_vars_per_channel_gradient(dy, x, a, b)), X, DY, LOW, HIGH,
         order=0, modes=("float32",))

# integers that stand for numbers of a range
BYTES = np.array([[0, 3, 128], [200, 254, 255]], np.uint8)
PLAIN: dict[str, Any] = {"order": 0, "modes": ("known",)}


def _bytes(tf: Any, q: Any, dtype: str = "quint8") -> Any:
    return tf.bitcast(q, getattr(tf, dtype))


def _plain(tf: Any, made: Any) -> list[Any]:
    """Integers as TensorFlow can fetch and compare them, and their range."""
    kind = {"quint8": tf.uint8, "qint8": tf.int8, "quint16": tf.uint16, "qint16": tf.int16, "qint32": tf.int32}
    return [tf.bitcast(made[0], kind[made[0].dtype.name]), *made[1:]]


for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
    for _kind in ("quint8", "qint8", "quint16", "qint16"):
        for _low, _high in ((-1.0, 2.0), (0.0, 3.0), (1.0, 1.0), (-2.0, -0.5)):
            if (_mode == "MIN_FIRST" and _kind.endswith("16")) or (_low < 0 and _mode == "SCALED" and _kind.startswith("qu")):
                continue      # TensorFlow has no kernel for them, or no meaning
            _o = (_low, _high, _kind, _mode)
            ROWS.row(f"quantize_v2 {_mode} {_kind} {_low} {_high}", lambda tf, x, o=_o: _plain(tf, tf.quantize_v2(
                x, o[0], o[1], getattr(tf, o[2]), o[3])), X, order=0, modes=("float32",))
    ROWS.row(f"dequantize {_mode}", lambda tf, q, m=_mode: tf.dequantize(_bytes(tf, q), -0.3 if m != "SCALED" else 0.0, 2.5, m),
             BYTES, **PLAIN)
    ROWS.row(f"dequantize {_mode} signed", lambda tf, q, m=_mode: tf.dequantize(_bytes(tf, q, "qint8"), -1.3, 2.5, m), BYTES,
             **PLAIN)
ROWS.row("quantized_concat", lambda tf, q: _plain(tf, tf.quantized_concat(1, [_bytes(tf, q)] * 2, [-1.1, 0.0], [1.05, 3.07])),
         BYTES, **PLAIN)
for _padding in ("SAME", "VALID"):
    for _stride in (1, 2):
        ROWS.row(f"nn.quantized_conv2d {_padding} {_stride}", lambda tf, x, w, p=_padding, s=_stride: _plain(
            tf, tf.nn.quantized_conv2d(_bytes(tf, x), _bytes(tf, w), -0.5, 2.0, -1.0, 0.7, [1, s, s, 1], p)),
            np.arange(0, 240, 2, np.uint8).reshape(2, 5, 4, 3), np.arange(7, 247, 5, np.uint8).reshape(2, 2, 3, 4), **PLAIN)
    for _pool in ("quantized_max_pool", "quantized_avg_pool"):
        ROWS.row(f"nn.{_pool} {_padding}", lambda tf, x, p=_padding, k=_pool: _plain(tf, getattr(tf.nn, k)(
            _bytes(tf, x), -0.5, 2.0, [1, 2, 2, 1], [1, 2, 2, 1], p)),
            np.arange(0, 120, 2, np.uint8).reshape(1, 5, 4, 3), **PLAIN)


@pytest.mark.parametrize(("name", "inputs", "attrs"), [
    ("QuantizedMatMul", (BYTES, BYTES.T.copy(), -1.0, 2.0, 0.0, 3.0), {}),
    ("QuantizedBiasAdd", (BYTES, BYTES[0], -1.0, 2.0, 0.0, 3.0), {"out_type": "qint32"}),
    ("QuantizedRelu", (BYTES, -1.0, 2.0), {}), ("QuantizedRelu6", (BYTES, -10.0, 20.0), {}),
    ("RequantizationRange", (np.array([-2**20, 2**22], np.int32), -3.0, 3.0), {}),
    ("Requantize", (np.array([-2**20, 2**22, 2**30], np.int32), -3.0, 3.0, -1.0, 2.0), {"out_type": "quint8"}),
    ("QuantizeDownAndShrinkRange", (np.array([-2**20, 2**22, 2**30], np.int32), -3.0, 3.0), {"out_type": "quint8"}),
    ("QuantizedReshape", (BYTES, np.array([3, 2], np.int32), -1.0, 2.0), {})], ids=lambda v: v if isinstance(v, str) else "")
def test_a_quantized_graph_that_tensorflow_wrote_computes_the_same_here(name: str, inputs: tuple[Any, ...],
                                                                        attrs: dict[str, Any]) -> None:
    tf = tensorflow()
    kinds = {np.uint8: tf.quint8, np.int32: tf.qint32}
    with quiet(), tf.Graph().as_default() as graph, tf.Session() as session:
        given = [tf.bitcast(v, kinds[v.dtype.type]) if isinstance(v, np.ndarray) and v.tolist() != [3, 2] else tf.constant(v)
                 for v in inputs]
        found = getattr(tf.raw_ops, name)(**dict(zip(
            inspect.signature(getattr(tf.raw_ops, name)).parameters, given)), **{k: getattr(tf, v) for k, v in attrs.items()})
        named = [tf.identity(t, name=f"result{i}") for i, t in enumerate(_plain(tf, found) if len(found) == 3 else found)]
        exact, text = session.run(named), graph.as_graph_def().SerializeToString()
    with ours.Graph().as_default(), ours.Session() as session:
        again = ours.import_graph_def(ours.GraphDef.FromString(text), return_elements=[t.name for t in named], name="")
        got = session.run(again)
    compared("values", len(exact))
    for one, other in zip(got, exact):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, 1e-6, atol=1 if other.dtype == np.uint8 else 0)


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
