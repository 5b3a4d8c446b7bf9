"""Sequences that the CTC loss leaves out, and those that no path spells."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb


def loss_and_slope(labels: list[int], steps: int) -> tuple[Any, Any]:
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.constant(np.linspace(-1, 1, 16, dtype="f").reshape(4, 1, 4))
        wanted = wb.SparseTensor([[0, i] for i in range(len(labels))], np.int32(labels), [1, len(labels)])
        loss = wb.nn.ctc_loss(wanted, x, [steps], ignore_longer_outputs_than_inputs=True)
        return tuple(session.run([loss[0], wb.gradients(loss, x)[0][:, 0]]))


@pytest.mark.parametrize(("labels", "steps"), [([1, 0, 2], 2), ([1, 1, 0], 2), ([1], 0)])
def test_more_labels_than_steps_cost_nothing(labels: list[int], steps: int) -> None:
    loss, slope = loss_and_slope(labels, steps)
    assert loss == 0 and not slope.any()


def test_repeated_labels_that_no_path_spells_cost_infinitely_much() -> None:
    loss, slope = loss_and_slope([1, 1], 2)
    assert loss == np.inf
    np.testing.assert_allclose(slope.sum(1), [1, 1, 0, 0], rtol=1e-6)
