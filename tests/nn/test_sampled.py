"""Sampled losses against their definition, with given and with drawn classes; gradients; errors."""
from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
SEED = 5
RNG = np.random.default_rng(3)
W, B = RNG.normal(size=(10, 4)).astype(np.float32), RNG.normal(size=10).astype(np.float32)
X, LABELS = RNG.normal(size=(3, 4)).astype(np.float32), np.int64([[1, 2], [3, 4], [7, 0]])
DRAWN = (np.int64([1, 5, 7]), np.float32([[0.5, 0.4], [0.3, 0.3], [0.1, 0.9]]), np.float32([0.5, 0.2, 0.1]))


def logits(remove: bool):
    """float64 [3, 2 + 3], with classes that are true ones taken out of the drawn."""
    true = np.einsum("bd,btd->bt", X, W[LABELS]) + B[LABELS] - np.log(DRAWN[1])
    drawn = X @ W[DRAWN[0]].T + B[DRAWN[0]] - np.log(DRAWN[2])
    if remove:
        drawn = np.where((LABELS[:, :, None] == DRAWN[0]).any(1), -np.inf, drawn)
    return np.concatenate([true, drawn], 1).astype(np.float64)


@pytest.mark.parametrize("remove", [False, True])
def test_nce_is_logistic_over_true_and_drawn(remove: bool):
    found = run(wb.nn.nce_loss(W, B, LABELS, X, 3, 10, 2, sampled_values=DRAWN, remove_accidental_hits=remove))
    x, z = logits(remove), np.array([0.5, 0.5, 0, 0, 0])
    x = np.maximum(x, -500)      # where it is -inf, the loss is 0
    expected = (z * np.log1p(np.exp(-x)) + (1 - z) * np.log1p(np.exp(x))).sum(1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("remove", [False, True])
def test_sampled_softmax_is_cross_entropy_over_true_and_drawn(remove: bool):
    found = run(wb.nn.sampled_softmax_loss(W, B, LABELS, X, 3, 10, 2, sampled_values=DRAWN,
                                           remove_accidental_hits=remove))
    x = logits(remove)
    expected = np.log(np.exp(x).sum(1)) - x[:, :2].mean(1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_tables_may_be_sharded_and_get_sparse_gradients():
    whole = [wb.Variable(W), wb.Variable(B)]
    shards = [[wb.Variable(t[i::2]) for i in range(2)] for t in (W, B)]
    losses = [wb.nn.nce_loss(*tables, LABELS, X, 3, 10, 2, sampled_values=DRAWN) for tables in (whole, shards)]
    gradients = [wb.gradients(losses[0], whole[0])[0], *wb.gradients(losses[1], shards[0])]
    assert all(isinstance(g, wb.IndexedSlices) for g in gradients)
    found = run([*losses, *[wb.convert_to_tensor(g) for g in gradients]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    np.testing.assert_allclose(found[2][1::2], found[4], rtol=1e-5, atol=1e-7)


def test_classes_are_drawn_anew_each_step_and_the_full_loss_is_a_bound():
    loss = wb.reduce_sum(wb.nn.sampled_softmax_loss(W, B, LABELS[:, :1], X, 4, 10))
    with wb.Session() as session:
        found = [float(session.run(loss)) for _ in range(300)]
    full = X @ W.T + B
    exact = (np.log(np.exp(full).sum(1)) - full[np.arange(3), LABELS[:, 0]]).sum()
    assert len(set(found)) > 50 and 0.5 * exact < np.mean(found) < exact


def test_accidental_hits():
    rows, places, weights = run(wb.nn.compute_accidental_hits(LABELS, DRAWN[0], 2))
    assert rows.tolist() == [0, 2] and places.tolist() == [0, 2] and (weights == np.finfo(np.float32).min).all()


def test_labels_of_another_shape_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match=re.escape(
            "nce_loss: labels have shape [3,2] but num_true is 1; pass [batch, 1] class numbers")):
        wb.nn.nce_loss(W, B, LABELS, X, 3, 10)
    with pytest.raises(errors.InvalidArgumentError, match="11 different classes are wanted of 10; sample fewer"):
        wb.nn.nce_loss(W, B, LABELS, X, 11, 10, 2)
