"""Exported models in numbered folders, and the small models and parts of tf.contrib.learn."""
from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from workbench.tf1.contrib.learn.python.learn.utils import gc, saved_model_export_utils
from workbench.tf1.python.estimator import gc as gc_of_estimators
from workbench.tf1.python.estimator.export import export

import workbench.tf1 as tf

LEARN = tf.contrib.learn


def paths(*numbers):
    return [gc.Path("/a", number) for number in numbers]


def test_which_models_are_kept():
    known = paths(None, 0, 1, 3, 5, 6, 7, 8, 33)
    for kept, numbers in ((gc.largest_export_versions(2), (8, 33)), (gc.one_of_every_n_export_versions(3), (3, 6, 8, 33)),
                          (gc.mod_export_version(3), (0, 3, 6, 33)), (gc.largest_export_versions(0), ()),
                          (gc.union(gc.mod_export_version(7), gc.largest_export_versions(1)), (0, 7, 33)),
                          (gc_of_estimators._largest_export_versions(1), (33,))):
        assert kept(known) == paths(*numbers)
    assert gc.negation(gc.mod_export_version(3))(paths(3, 4, 5, 6)) == paths(4, 5)
    assert gc.one_of_every_n_export_versions(3)(paths(0, 4, 5)) == paths(0, 5)


def test_folders_of_models(tmp_path):
    for name in ("8", "9", "10", "temp-11", "other"):
        (tmp_path / name).mkdir()
    assert saved_model_export_utils.get_most_recent_export(str(tmp_path)).export_version == 10
    saved_model_export_utils.garbage_collect_exports(str(tmp_path), 2)
    assert sorted(os.listdir(tmp_path)) == ["10", "9", "other", "temp-11"]
    found = gc.get_paths(os.fsencode(tmp_path), lambda path: path._replace(export_version=len(path.path)) if path.path.endswith(
        "9") else None)
    assert found == [(str(tmp_path / "9"), len(str(tmp_path / "9")))]
    assert saved_model_export_utils.get_most_recent_export(str(tmp_path / "other")) is None
    made = []
    for _ in range(3):
        made.append(export.get_timestamped_export_dir(os.fsencode(tmp_path)))
        os.mkdir(made[-1])
    assert sorted(made, key=lambda path: int(os.path.basename(path))) == made and len(set(made)) == 3
    assert export.get_temp_export_dir(b"/a/17") == b"/a/temp-17"


@pytest.mark.usefixtures("graph")
def test_parts_of_small_models():
    table, ids = np.random.default_rng(1).normal(size=(10, 5)), np.array([[[1], [9]], [[0], [3]]])
    x, weights, biases = np.float32([[0.2, 0.3], [1, -1]]), np.float32([[0.1, 0.4], [0.2, -0.3]]), np.float32([0.2, 0.3])
    labels = np.float32([[0, 1], [1, 0]])
    share, loss = LEARN.ops.softmax_classifier(tf.constant(x), tf.constant(labels), weights, biases)
    line, error = LEARN.ops.mean_squared_error_regressor(tf.constant(x), tf.constant([1.0, 2.0]), weights[:, :1], biases[:1])
    embedded = LEARN.ops.categorical_variable(tf.constant([[1, 2]]), 5, 3, "cat")
    [start, zero] = LEARN.models.linear_regression_zero_init(tf.constant(x), tf.constant([1.0, 3.0]))
    [even, entropy] = LEARN.models.logistic_regression_zero_init(tf.constant(x), tf.constant(labels))
    assert next(variable.op.name for variable in tf.global_variables()) == "cat/cat_embeddings"
    assert embedded.shape.as_list() == [1, 2, 3]
    logits = x @ weights + biases
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(LEARN.ops.embedding_lookup(table, ids)), table[ids])
        np.testing.assert_allclose(session.run(share), shares, rtol=1e-5)
        assert session.run(loss) == pytest.approx(-np.log((shares * labels).sum(1)).mean(), rel=1e-5)
        assert session.run(line) == pytest.approx((x @ weights[:, :1] + biases[0])[:, 0], rel=1e-5)
        assert session.run(error) == pytest.approx((((x @ weights[:, :1] + biases[0])[:, 0] - [1, 2]) ** 2).mean(), rel=1e-5)
        assert session.run([zero, entropy]) == pytest.approx([5.0, np.log(2)], rel=1e-5)
        assert not session.run(start).any() and session.run(even) == pytest.approx(np.full((2, 2), 0.5))


def test_arrays_by_name_for_features_and_labels():
    def model(features, labels, mode):
        assert labels["labels"].shape.as_list()[1:] == [1]      # to predict too: placeholders like those of the training
        found, loss = LEARN.models.linear_regression_zero_init(features["input"], labels["labels"])
        return found, loss, tf.contrib.layers.optimize_loss(loss, tf.train.get_global_step(), 0.5, "SGD")
    x, y = {"input": np.float32([[0], [1], [2], [3]])}, {"labels": np.float32([[1], [3], [5], [7]])}
    made = LEARN.Estimator(model)
    made.fit(x, y, steps=1)
    found = np.stack(list(itertools.islice(made.predict(x), 4)))
    slope, start = 2 * (x["input"] * y["labels"]).mean(), 2 * y["labels"].mean()      # one step from 0 at a rate of a half
    np.testing.assert_allclose(found, 0.5 * (slope * x["input"] + start), rtol=1e-5)
    scores = made.evaluate(x, y, metrics={"MSE": tf.contrib.metrics.streaming_mean_squared_error})
    assert scores["MSE"] == pytest.approx(((found - y["labels"]) ** 2).mean(), rel=1e-5) and scores["global_step"] == 1


def received():
    return LEARN.InputFnOps({"x": tf.placeholder("float32", [None, 1])}, None, {"x": tf.placeholder("float32", [None, 1])})


def test_strategies_of_exports(tmp_path):
    column = tf.contrib.layers.real_valued_column("x")
    for made in (LEARN.LinearRegressor([column], str(tmp_path / "learn")),
                 tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], str(tmp_path / "core"))):
        made.train(lambda: ({"x": tf.ones([2, 1])}, tf.ones([2, 1])), steps=1)
        strategy = saved_model_export_utils.make_parsing_export_strategy([column], exports_to_keep=1)
        first, second = (strategy.export(made, str(tmp_path / f"{made.config.model_dir}_out")) for _ in range(2))
        assert os.path.isdir(second) and not os.path.exists(first)
    with pytest.raises(ValueError, match="default_output_alternative_key is not supported in core Estimator"):
        LEARN.make_export_strategy(received, "head").export(made, str(tmp_path / "no"))
    with pytest.raises(ValueError, match="not supported in core Estimator"):
        saved_model_export_utils.make_parsing_export_strategy([column], "head", target_core=True)
    plain = LEARN.ExportStrategy("Servo", lambda estimator, base, checkpoint_path=None: f"{base}/a")
    extended = saved_model_export_utils.extend_export_strategy(plain, lambda made: made + "/b", "more")
    assert (extended.name, extended.export(None, "/base")) == ("more", "/base/a/b")


def test_the_best_model_is_exported(tmp_path):
    class Told:
        """An estimator that remembers which checkpoints it exported."""

        def export_savedmodel(self, base, serving_input_fn, assets_extra=None, as_text=False, checkpoint_path=None):
            os.makedirs(base)
            return f"{base}/{checkpoint_path}"
    strategy = saved_model_export_utils.make_best_model_export_strategy(received)
    found = [strategy.export(Told(), str(tmp_path), f"c{i}", {"loss": loss}) for i, loss in enumerate((100, 101, 10, 20))]
    assert found == [f"{tmp_path}/c0/c0", "", f"{tmp_path}/c2/c2", ""]
    for checkpoint, evaluation in (("", None), ("c4", None), ("c4", {"accuracy": 1})):
        with pytest.raises(ValueError, match="empty"):
            strategy.export(Told() if checkpoint else made_without_checkpoints(), str(tmp_path), checkpoint, evaluation)
    exporter = tf.estimator.FinalExporter("last", received)
    assert exporter.export(Told(), str(tmp_path / "last"), "c9", {}, True) == f"{tmp_path}/last/c9"


def made_without_checkpoints():
    return tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")])
