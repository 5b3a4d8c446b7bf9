"""What the tests of TensorFlow's training ask of modules that are not public, in its simplest form."""
from __future__ import annotations

import glob
import os
from types import SimpleNamespace
from typing import Any

import workbench.tf1 as tf


class FakeSummaryWriter:
    """Keeps summaries, by step, instead of writing them."""

    _replaced: Any = None

    @classmethod
    def install(cls) -> None:
        raise NotImplementedError("writers are not shared between hooks here")

    uninstall = install

    def __init__(self, logdir: Any, graph: Any = None) -> None:
        self._logdir, self._summaries, self._graphs = logdir, dict[int, list[Any]](), [] if graph is None else [graph]

    @property
    def summaries(self) -> dict[int, list[Any]]:
        return self._summaries

    def add_summary(self, summ: Any, current_global_step: int) -> None:
        made = tf.Summary.FromString(summ) if isinstance(summ, bytes) else summ
        self._summaries.setdefault(current_global_step, []).append(made)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        self._graphs.append(graph)

    def assert_summaries(self, test_case: Any, expected_logdir: Any = None, expected_graph: Any = None,
                         expected_summaries: Any = None, **_others: Any) -> None:
        """That these numbers, by step and tag, were written; how fast steps follow each other is not asked."""
        if expected_logdir is not None:
            test_case.assertEqual(expected_logdir, self._logdir)
        if expected_graph is not None:
            test_case.assertIs(expected_graph, self._graphs[0])
        for step, wanted in (expected_summaries or {}).items():
            found = {value.tag: value.simple_value for made in self._summaries[step] for value in made.value}
            found.pop("global_step/sec", None)
            test_case.assertEqual(wanted, found)

    def flush(self) -> None:
        """There is nothing to write."""

    close = reopen = flush


def latest_summaries(base_dir: str) -> list[Any]:
    """The events with summaries of the newest event file of a folder."""
    newest = max(glob.glob(os.path.join(base_dir, "events*")), key=os.path.getmtime)
    return [event for event in tf.train.summary_iterator(newest) if event.HasField("summary")]


def increment_global_step(increment: int, graph: Any = None) -> Any:
    """Counts the global step up, made where there is none."""
    with (graph or tf.get_default_graph()).as_default():
        return tf.assign_add(tf.train.get_or_create_global_step(), increment)


class SaverPart:
    """A saver's inner class, which some tests derive theirs from."""


METRIC_KEYS = SimpleNamespace(
    LOSS="loss", LOSS_MEAN="average_loss", ACCURACY="accuracy", ACCURACY_BASELINE="accuracy_baseline", AUC="auc",
    AUC_PR="auc_precision_recall", LABEL_MEAN="label/mean", PREDICTION_MEAN="prediction/mean",
    ACCURACY_AT_THRESHOLD="accuracy/positive_threshold_%g", PRECISION_AT_THRESHOLD="precision/positive_threshold_%g",
    RECALL_AT_THRESHOLD="recall/positive_threshold_%g")
PREDICTION_KEYS = SimpleNamespace(**{name.upper(): name for name in (
    "classes", "class_ids", "logistic", "logits", "predictions", "probabilities")})
TRAINING = {"metric_keys.MetricKeys": METRIC_KEYS, "prediction_keys.PredictionKeys": PREDICTION_KEYS,
            "_increment_global_step": increment_global_step,
            "initialize_resources": lambda resource_list, name="init": tf.variables_initializer(resource_list, name=name),
            "shared_resources": tf.global_variables, "BaseSaverBuilder": SimpleNamespace(SaveableObject=SaverPart),
            "fake_summary_writer": SimpleNamespace(FakeSummaryWriter=FakeSummaryWriter),
            "util_test": SimpleNamespace(latest_summaries=latest_summaries)}
"""Name of a module's content -> what stands in for it."""
