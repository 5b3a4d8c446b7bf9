"""Rounding to few bits in training, and its slopes by inputs and limits."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.opcases import reals
from tests.oracle.harness import Row, Table, check

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


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)
