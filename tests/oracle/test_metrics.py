"""Streaming metrics against TensorFlow: value and update after each of three batches, weighted and not."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.harness import same_story

pytestmark = pytest.mark.oracle

RNG = np.random.default_rng(3)
CLASSES, OTHERS = RNG.integers(0, 4, (3, 8)), RNG.integers(0, 4, (3, 8))
BOOLS, FOUND = CLASSES > 1, OTHERS > 1
REALS, NEAR = RNG.normal(size=(3, 8, 3)).astype("f"), RNG.normal(size=(3, 8, 3)).astype("f")
SCORES = RNG.random((3, 8)).astype("f")
TABLE = RNG.random((3, 8, 5)).astype("f")
BEST = np.argsort(-TABLE, axis=-1)[..., :2]
WEIGHTS = RNG.random((3, 8)).astype("f")
THRESHOLDS = [-0.1, 0.2, 0.5, 0.7, 1.1]

Metric = Callable[[Any, list[Any], dict[str, Any]], Any]
PAIRS: dict[str, tuple[Metric, tuple[Any, ...]]] = {
    "accuracy": (lambda m, x, w: m.accuracy(*x, **w), (CLASSES, OTHERS)),
    "mean": (lambda m, x, w: m.mean(*x, **w), (SCORES,)),
    "mean_tensor": (lambda m, x, w: m.mean_tensor(*x, **w), (SCORES,)),
    "mean_cosine_distance": (lambda m, x, w: m.mean_cosine_distance(*x, 1, **w), (REALS, NEAR)),
    "mean_iou": (lambda m, x, w: m.mean_iou(*x, 4, **w), (CLASSES, OTHERS)),
    "mean_per_class_accuracy": (lambda m, x, w: m.mean_per_class_accuracy(*x, 4, **w), (CLASSES, OTHERS)),
    "mean_relative_error": (lambda m, x, w: m.mean_relative_error(x[0], x[1], x[2], **w), (SCORES, WEIGHTS, SCORES + 1)),
    "percentage_below": (lambda m, x, w: m.percentage_below(*x, 0.4, **w), (SCORES,)),
    "recall_at_k": (lambda m, x, w: m.recall_at_k(*x, 2, **w), (CLASSES[..., None], TABLE)),
    "recall_at_k of one class": (lambda m, x, w: m.recall_at_k(*x, 3, class_id=2, **w), (CLASSES[..., None], TABLE)),
    "sparse_precision_at_k": (lambda m, x, w: m.sparse_precision_at_k(*x, 2, **w), (CLASSES[..., None], TABLE)),
    "precision_at_top_k": (lambda m, x, w: m.precision_at_top_k(*x, class_id=2, **w), (CLASSES[..., None], BEST)),
    "recall_at_top_k": (lambda m, x, w: m.recall_at_top_k(*x, **w), (CLASSES[..., None], BEST)),
    "sparse_average_precision_at_k": (lambda m, x, w: m.sparse_average_precision_at_k(*x, 3, **w), (CLASSES[..., None], TABLE)),
    **{name: (lambda m, x, w, n=name: getattr(m, n)(*x, **w), (BOOLS, FOUND)) for name in (
        "precision", "recall", "true_positives", "true_negatives", "false_positives", "false_negatives")},
    **{name: (lambda m, x, w, n=name: getattr(m, n)(*x, THRESHOLDS, **w), (BOOLS, SCORES)) for name in (
        "precision_at_thresholds", "recall_at_thresholds", "true_positives_at_thresholds", "true_negatives_at_thresholds",
        "false_positives_at_thresholds", "false_negatives_at_thresholds")},
    "sensitivity_at_specificity": (lambda m, x, w: m.sensitivity_at_specificity(*x, 0.6, **w), (BOOLS, SCORES)),
    "specificity_at_sensitivity": (lambda m, x, w: m.specificity_at_sensitivity(*x, 0.6, **w), (BOOLS, SCORES)),
    "auc": (lambda m, x, w: m.auc(*x, **w), (BOOLS, SCORES)),
    "auc of precision": (lambda m, x, w: m.auc(*x, curve="PR", summation_method="minoring", **w), (BOOLS, SCORES)),
    "auc majoring": (lambda m, x, w: m.auc(*x, summation_method="majoring", **w), (BOOLS, SCORES)),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", PAIRS)
def test_streams(name: str, weighted: bool) -> None:
    metric, arrays = PAIRS[name]

    def story(tf: Any) -> Any:
        inputs = [tf.placeholder(a.dtype, a.shape[1:]) for a in arrays]
        w = tf.placeholder("float32", [8])
        given = tf.expand_dims(w, 1) if name == "mean_cosine_distance" else w
        value, update = metric(tf.metrics, inputs, {"weights": given} if weighted else {})
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            told = [session.run(value)]
            for step in range(3):
                feeds = {**{t: a[step] for t, a in zip(inputs, arrays)}, w: WEIGHTS[step]}
                told += [session.run(update, feeds), session.run(value)]
            return told
    same_story(story, 2e-5)


def test_confusion_matrix() -> None:
    def story(tf: Any) -> Any:
        made = [tf.confusion_matrix(CLASSES[0], OTHERS[0]), tf.confusion_matrix(CLASSES[0], OTHERS[0], 6, "int64"),
                tf.confusion_matrix(CLASSES[0], OTHERS[0], weights=WEIGHTS[0], dtype="float32")]
        with tf.Session() as session:
            return session.run(made)
    same_story(story)
