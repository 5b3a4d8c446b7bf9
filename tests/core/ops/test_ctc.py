"""Sequences that the CTC loss leaves out, and those that no path spells."""
from __future__ import annotations

import itertools
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


def test_sequences_of_a_batch_are_as_alone() -> None:
    """Different lengths and numbers of labels, some none, beside a step of NaN behind the end of the first."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal([7, 5, 4])
    x[5:, 0] = np.nan
    labels, lengths = [[1, 1, 2], [], [0], [2, 1, 2, 0], [0, 0, 0, 0]], [5, 7, 3, 7, 6]
    with wb.Graph().as_default(), wb.Session() as session:
        def found(rows: list[int]) -> Any:
            inputs = wb.constant(x[:, rows])
            given = [labels[row] for row in rows]
            places = np.array([(i, j) for i, row in enumerate(given) for j in range(len(row))], np.int64).reshape(-1, 2)
            wanted = wb.SparseTensor(places, np.array([k for row in given for k in row], np.int32), [len(rows), 4])
            loss = wb.nn.ctc_loss(wanted, inputs, [lengths[row] for row in rows], ignore_longer_outputs_than_inputs=True)
            return session.run([loss, wb.gradients(loss, inputs)[0]])
        losses, slopes = found([0, 1, 2, 3, 4])
        for row in range(5):
            loss, slope = found([row])
            np.testing.assert_allclose(losses[row], loss[0], rtol=1e-12)
            np.testing.assert_allclose(slopes[:, row], slope[:, 0], rtol=1e-9, atol=1e-14)
    assert losses[4] == np.inf and np.isfinite(losses[:4]).all() and not slopes[5:, 0].any()


@pytest.mark.parametrize("labels", [[], [1], [1, 1], [0, 1]])
def test_the_loss_is_that_of_all_paths(labels: list[int]) -> None:
    """The sum of the probabilities of every sequence of classes that spells the labels."""
    with wb.Graph().as_default(), wb.Session() as session:
        x = np.random.default_rng(5).standard_normal([4, 1, 3])
        wanted = wb.SparseTensor(np.int64([[0, i] for i in range(len(labels))]).reshape(-1, 2), np.int32(labels), [1, 2])
        loss = session.run(wb.nn.ctc_loss(wanted, wb.constant(x), [4]))
    share = np.exp(x[:, 0]) / np.exp(x[:, 0]).sum(1, keepdims=True)
    spelt = [path for path in itertools.product(range(3), repeat=4)
             if [k for k, _ in itertools.groupby(path) if k != 2] == labels]
    np.testing.assert_allclose(loss, [-np.log(sum(np.prod(share[range(4), path]) for path in spelt))], rtol=1e-12)
