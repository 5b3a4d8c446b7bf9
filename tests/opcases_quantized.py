"""Rows of operations on integers that stand for numbers of a range: what is right follows from their places on the grid."""
from __future__ import annotations

from typing import Any

import numpy as np

from tests.opcase import case, ints
from workbench.core.graph.build import ops

BYTES, FINE = np.array([[0, 3, 128], [200, 254, 255]], np.uint8), {"order": 0, "small": False, "unknown": False}


def _bytes(q: Any) -> Any:
    return ops.bitcast(q, "quint8")


def _wide(q: Any) -> Any:
    return ops.bitcast(q, "qint32")


_LIMITS = np.float32(-1), np.float32(2)
case("quantize_v2", np.array([-1.0, -5, 0, 1.0, 2, 7], np.float32), value=lambda x: [
    np.array([0, 0, 85, 170, 255, 255], np.uint8), *_LIMITS], call=lambda x: ops.quantize_v2(x, -1.0, 2.0, "quint8"), **FINE)
case("quantize_v2", np.array([-1.0, 0, 2.0, 9], np.float32), label="first", value=lambda x: [
    np.array([-128, -43, 127, 127], np.int8), *_LIMITS], **FINE,
    call=lambda x: ops.quantize_v2(x, -1.0, 2.0, "qint8", "MIN_FIRST"))
case("quantize_v2", np.array([-1.0, 0, 1.27, 0.014], np.float32), label="scaled", value=lambda x: [
    np.array([-100, 0, 127, 1], np.int8), np.float32(-1.28), np.float32(1.27)],
    call=lambda x: ops.quantize_v2(x, -1.0, 1.27, "qint8", "SCALED"), **FINE)
for _mode in ("MIN_COMBINED", "MIN_FIRST"):
    case("dequantize", BYTES, value=lambda q: (q / 255 * 3 - 1).astype(np.float32), label=_mode.lower(),
         call=lambda q, m=_mode: ops.dequantize(_bytes(q), -1.0, 2.0, m), **FINE)
case("dequantize", BYTES, value=lambda q: (q / 255 * 2).astype(np.float32), label="scaled",
     call=lambda q: ops.dequantize(_bytes(q), 0.0, 2.0, "SCALED"), **FINE)
case("requantization_range", ints(-2**31, 0, 2**30), value=lambda q: [np.float32(-1), np.float32(0.5)],
     call=lambda q: ops.requantization_range(_wide(q), -1.0, 1.0), **FINE)
case("requantize", ints(-2**31, 0, 2**31 - 1), value=lambda q: [
    np.array([0, 128, 255], np.uint8), np.float32(-1), np.float32(1)],
     call=lambda q: ops.requantize(_wide(q), -1.0, 1.0, -1.0, 1.0), **FINE)
case("quantize_down_and_shrink_range", ints(0, 2**21, 2**23), value=lambda q: [np.array([0, 64, 255], np.uint8), np.float32(0),
     np.float32(1 / 256)], call=lambda q: ops.quantize_down_and_shrink_range(_wide(q), -1.0, 1.0), **FINE)
case("quantized_joined", BYTES, value=lambda q: [np.concatenate([q, q, q]), np.float32(0), np.float32(2)],
     call=lambda q: ops.quantized_concat(0, [_bytes(q), _bytes(q), _bytes(q)], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]), **FINE)
case("quantized_matmul", BYTES, value=lambda q: [q.astype(np.int32) @ q.T.astype(np.int32), np.float32(-2.0**31),
     np.float32(2.0**31)], call=lambda q: ops.quantized_matmul(_bytes(q), _bytes(q), 0.0, 255.0, 0.0, 255.0, transpose_b=True),
     **FINE)
case("quantized_conv2d", BYTES.reshape(1, 2, 3, 1), value=lambda q: [q.astype(np.int32) * 2 - 256, np.float32(-2.0**31),
     np.float32(2.0**31)], call=lambda q: ops.quantized_conv2d(
         _bytes(q), _bytes(ops.constant(np.full((1, 1, 1, 1), 2, np.uint8))), -128.0, 127.0, 0.0, 255.0, [1, 1, 1, 1], "SAME"),
     **FINE)
case("quantized_bias_add", BYTES, value=lambda q: [(q.astype(np.int32) - 125) * 128, np.float32(-2**24), np.float32(2**24)],
     call=lambda q: ops.quantized_bias_add(_bytes(q), _bytes(ops.constant(np.full(3, 131, np.uint8))), -128.0, 127.0, -128.0,
                                           127.0), **FINE)
for _relu, _top in (("quantized_relu", 255), ("quantized_relu6", 134)):
    case(_relu, BYTES, value=lambda q, top=_top: [np.clip(q, 128, top), np.float32(-128), np.float32(127)],
         call=lambda q, f=_relu: getattr(ops, f)(_bytes(q), -128.0, 127.0), **FINE)
case("quantized_relu_x", BYTES, value=lambda q: [np.clip(q, 128, 138), np.float32(-128), np.float32(127)],
     call=lambda q: ops.quantized_relu_x(_bytes(q), 10.0, -128.0, 127.0), **FINE)
for _pool, _found in (("quantized_max_pool", [[200, 254, 255]]), ("quantized_avg_pool", [[100, 128, 191]])):
    case(_pool, BYTES.reshape(1, 2, 3, 1), value=lambda q, found=_found: [np.array(found, np.uint8).reshape(1, 1, 3, 1),
         np.float32(0), np.float32(255)],
         call=lambda q, f=_pool: getattr(ops, f)(_bytes(q), 0.0, 255.0, [1, 2, 1, 1], [1, 1, 1, 1], "VALID"), **FINE)
