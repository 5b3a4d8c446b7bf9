"""Losses of tf.contrib.losses.metric_learning against their definitions, written as loops."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
losses = tf.contrib.losses.metric_learning
LABELS = np.array([0, 1, 0, 2, 1, 0])
ROWS = np.random.default_rng(4).standard_normal((6, 3)).astype(np.float32)
OTHERS = np.random.default_rng(5).standard_normal((6, 3)).astype(np.float32)


def gap(i: int, j: int) -> float:
    return float(np.sum((ROWS[i].astype(float) - ROWS[j]) ** 2))


def test_triplets_take_the_nearest_row_beyond_the_positive_one():
    terms = []
    for a, p in itertools.permutations(range(6), 2):
        if LABELS[a] == LABELS[p]:
            others = [gap(a, n) for n in range(6) if LABELS[n] != LABELS[a]]
            beyond = [d for d in others if d > gap(a, p)]
            terms.append(max(1.5 + gap(a, p) - (min(beyond) if beyond else max(others)), 0.0))
    np.testing.assert_allclose(run(losses.triplet_semihard_loss(LABELS, ROWS, 1.5)), np.mean(terms), rtol=1e-5)


def test_lifted_structures_weigh_all_other_rows_of_both():
    terms = []
    for i, j in itertools.permutations(range(6), 2):
        if LABELS[i] == LABELS[j]:
            near = sum(np.exp(1.0 - np.sqrt(gap(one, n))) for one in (i, j) for n in range(6) if LABELS[n] != LABELS[i])
            terms.append(max(np.sqrt(gap(i, j)) + np.log(near), 0.0) ** 2)
    np.testing.assert_allclose(run(losses.lifted_struct_loss(LABELS, ROWS)), np.mean(terms) / 2, rtol=1e-5)


def test_contrasts_are_of_pairs():
    same = np.array([1, 0, 1, 0, 0, 1])
    d = np.sqrt(np.sum((ROWS - OTHERS) ** 2, 1))
    wanted = np.mean(same * d ** 2 + (1 - same) * np.maximum(3.0 - d, 0) ** 2)
    np.testing.assert_allclose(run(losses.contrastive_loss(same, ROWS, OTHERS, 3.0)), wanted, rtol=1e-5)


def pairs_loss(alike, strength: float) -> float:
    logits = (ROWS @ OTHERS.T).astype(float)
    log = logits - np.log(np.sum(np.exp(logits), 1, keepdims=True))
    cross = -np.mean(np.sum(alike / alike.sum(1, keepdims=True) * log, 1))
    return cross + strength * 0.25 * (np.mean(np.sum(ROWS ** 2, 1)) + np.mean(np.sum(OTHERS ** 2, 1)))


def test_pairs_are_told_by_products_with_one_label_or_several(capfd):
    alike = (LABELS[:, None] == LABELS).astype(float)
    found = losses.npairs_loss(LABELS, ROWS, OTHERS, 0.1, print_losses=True)
    np.testing.assert_allclose(run(found), pairs_loss(alike, 0.1), rtol=1e-5)
    assert "npairs_loss" in capfd.readouterr().err
    sets = [{0}, {1, 2}, {0, 2}, {3}, {1}, {0, 1, 2}]
    labels = [tf.SparseTensor([[v] for v in sorted(s)], np.ones(len(s), kind), [4]) for s, kind in zip(sets, "fd?fii")]
    shared = np.array([[float(len(a & b)) for b in sets] for a in sets])
    np.testing.assert_allclose(run(losses.npairs_loss_multilabel(labels, ROWS, OTHERS)), pairs_loss(shared, 0.002), rtol=1e-5)


@pytest.mark.parametrize("loss", [losses.triplet_semihard_loss, losses.lifted_struct_loss])
def test_rows_that_are_equal_have_gradients(loss):
    rows = tf.constant(np.concatenate([ROWS[:2], ROWS[:2]]))
    [gradient] = tf.gradients(loss(np.array([0, 1, 0, 1]), rows), [rows])
    assert np.isfinite(run(gradient)).all()


def test_wrong_labels_are_refused():
    with pytest.raises(errors.ShapeError, match="pass one for each row"):
        losses.triplet_semihard_loss(np.zeros((2, 2)), ROWS[:2])
    with pytest.raises(TypeError, match="must be a list of SparseTensors"):
        losses.npairs_loss_multilabel([1, 2], ROWS[:2], ROWS[:2])
