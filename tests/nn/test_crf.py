"""Conditional random fields against all sequences of tags, one by one."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench.nn.recurrent import crf

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(5)
X, TABLE = RNG.normal(size=(3, 4, 3)).astype(np.float32), RNG.normal(size=(3, 3)).astype(np.float32)
LENGTHS, TAGS = np.array([4, 2, 1], np.int32), RNG.integers(0, 3, (3, 4)).astype(np.int32)


def score(row, tags):
    return sum(X[row, i, t] for i, t in enumerate(tags)) + sum(TABLE[a, b] for a, b in itertools.pairwise(tags))


def every(row):
    return list(itertools.product(range(3), repeat=int(LENGTHS[row])))


def test_scores_and_norms():
    found = run([crf.crf_sequence_score(X, TAGS, LENGTHS, TABLE), crf.crf_log_norm(X, LENGTHS, TABLE)])
    np.testing.assert_allclose(found[0], [score(r, TAGS[r, :n]) for r, n in enumerate(LENGTHS)], rtol=1e-5)
    np.testing.assert_allclose(found[1], [np.log(sum(np.exp(score(r, t)) for t in every(r))) for r in range(3)], rtol=1e-5)


def test_likelihoods_train_transitions():
    likelihood, transitions = crf.crf_log_likelihood(wb.constant(X), TAGS, LENGTHS)
    assert [v.name for v in wb.trainable_variables()] == ["transitions:0"]
    assert (run(likelihood) < 0).all()
    [slope] = wb.gradients(likelihood, transitions)
    assert np.isfinite(run(wb.convert_to_tensor(slope))).all()


def test_the_best_sequence():
    best = [max(every(r), key=lambda tags, r=r: score(r, tags)) for r in range(3)]
    tags, scores = run(crf.crf_decode(X, TABLE, LENGTHS))
    for row, expected in enumerate(best):
        assert tags[row].tolist() == [*expected, *[0] * (4 - len(expected))]
        assert scores[row] == pytest.approx(score(row, expected), rel=1e-5)
    alone, value = crf.viterbi_decode(X[0], TABLE)
    assert alone == list(best[0]) and value == pytest.approx(score(0, best[0]), rel=1e-5)


def test_steps_of_the_field_are_cells():
    forwards, last = wb.nn.dynamic_rnn(crf.CrfForwardRnnCell(TABLE), X[:, 1:], LENGTHS - 1, X[:, 0])
    pointers, best = wb.nn.dynamic_rnn(crf.CrfDecodeForwardRnnCell(TABLE), X[:, 1:], LENGTHS - 1, X[:, 0])
    found = run([forwards, wb.reduce_logsumexp(last, axis=1), crf.crf_log_norm(X, LENGTHS, TABLE), pointers, best])
    np.testing.assert_allclose(found[1], found[2], rtol=1e-5)
    assert found[0].shape == (3, 3, 3) and found[3].dtype == np.int32
    np.testing.assert_array_equal(found[3][:2, 0], (X[:2, 0, :, None] + TABLE).argmax(1))
    np.testing.assert_allclose(found[4].max(1), [max(score(r, t) for t in every(r)) for r in range(3)], rtol=1e-5)
    cell = crf.CrfDecodeBackwardRnnCell(3)
    tags, state = cell(np.array([[2, 0, 1], [1, 1, 0]], np.int32), np.array([[0], [2]], np.int32))
    assert run([tags, state])[0].tolist() == [[2], [0]]
    assert (cell.state_size, crf.CrfForwardRnnCell(TABLE).output_size) == (1, 3)
