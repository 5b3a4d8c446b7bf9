"""Estimators: a model function of one's own, canned ones, the elders of contrib.learn; input functions; errors."""
from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import errors, train
from workbench.nn.partitions import fixed_size_partitioner
from workbench.train.estimators import canned, feature_columns, feature_models
from workbench.train.estimators.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, numpy_input_fn, pandas_input_fn
from workbench.train.estimators.specs import EvalSpec, TrainSpec
from workbench.train.estimators.tasks import train_and_evaluate
from workbench.train.input.data import Dataset
from workbench.train.learn import estimator as learn
from workbench.train.learn import ready as learn_ready
from workbench.train.sessions.hooks_more import NanLossDuringTrainingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)).astype(np.float32)
INSIDE = ((X ** 2).sum(1) > 1.2).astype(np.int64)
LINE = X @ np.float32([2, -1]) + 0.5


def linear(features, labels, mode, params):
    """A linear model in the form that users write."""
    y = wb.squeeze(wb.layers.dense(features["x"], 1), [1])
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": y, "twice": y * 2.0})
    loss = wb.losses.mean_squared_error(labels, y)
    step = train.GradientDescentOptimizer(params["rate"]).minimize(loss, train.get_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=step, eval_metric_ops={
        "rmse": wb.metrics.root_mean_squared_error(labels, y)})


def batches(epochs=None, shuffle=True, size=30):
    return numpy_input_fn({"x": X}, LINE, size, epochs, shuffle)


class Servers(RunConfig):
    """Of a program with two parameter servers."""

    num_ps_replicas = property(lambda self: 2)


@pytest.mark.parametrize(("kind", "more", "parts"), [
    (canned.LinearRegressor, {"partitioner": fixed_size_partitioner(3)}, [3]),
    (canned.LinearClassifier, {"config": Servers()}, [1]),
    (canned.DNNRegressor, {"hidden_units": [40000], "config": Servers()}, [1, 2]),
    (canned.DNNClassifier, {"hidden_units": [4], "input_layer_partitioner": fixed_size_partitioner(3)}, [3, 1]),
    (canned.DNNLinearCombinedRegressor, {"dnn_hidden_units": [4], "input_layer_partitioner": fixed_size_partitioner(2)},
     [2, 1, 2])])
def test_tables_of_the_input_are_cut_as_asked(kind, more, parts, graph):
    words = feature_columns.categorical_column_with_hash_bucket("words", 10)
    dense, flat = feature_columns.embedding_column(words, 4), words
    columns = ({"feature_columns": [flat if "Linear" in kind.__name__ else dense]} if "dnn_hidden_units" not in more else
               {"dnn_feature_columns": [dense], "linear_feature_columns": [flat]})
    kind(**columns, **more)._model({"words": wb.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1])},
                                   wb.constant([[1], [0]]), ModeKeys.EVAL)
    names = [v.op.name for v in wb.trainable_variables()]
    found = [sum(word in name for name in names) for word in (
        "words_embedding", "hiddenlayer_0/kernel", "linear/linear_model/words")]
    assert [count for count in found if count] == parts, names


def test_a_model_of_ones_own_is_trained_evaluated_and_asked(tmp_path):
    estimator = Estimator(linear, tmp_path, RunConfig(save_checkpoints_steps=20, save_summary_steps=10), {"rate": 0.1})
    with pytest.raises(errors.InvalidArgumentError, match=r"Could not find trained model in model_dir: .*; train first"):
        estimator.evaluate(batches(1))
    assert estimator.train(batches(), steps=30) is estimator
    estimator.train(batches(), max_steps=60)
    estimator.train(batches(), max_steps=50)      # done already
    found = estimator.evaluate(batches(1, False, 50))
    assert found["global_step"] == 60 and found["rmse"] < 0.05 and found["loss"] < 0.01
    rows = list(estimator.predict(numpy_input_fn({"x": X[:3]}, shuffle=False)))
    np.testing.assert_allclose([r["y"] for r in rows], LINE[:3], atol=0.1)
    assert list(next(iter(estimator.predict(numpy_input_fn({"x": X}, shuffle=False), predict_keys="twice")))) == ["twice"]
    whole = next(estimator.predict(numpy_input_fn({"x": X}, shuffle=False, batch_size=7), yield_single_examples=False))
    assert whole["y"].shape == (7,)
    events = [e for file in tmp_path.glob("events.out.tfevents.*") for e in wb.train.summary_iterator(file)]
    assert {v.tag for e in events for v in e.summary.value} == {"loss"}


def test_training_to_the_end_of_the_input_and_hooks(tmp_path):
    seen = []

    class Count(train.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(1)
    estimator = Estimator(linear, tmp_path, params={"rate": 0.1})
    estimator.train(lambda: Dataset.from_tensor_slices(({"x": X}, LINE)).repeat(2).batch(40), hooks=[Count()])
    assert len(seen) == 6 and estimator.latest_checkpoint().endswith("model.ckpt-6")
    assert estimator.evaluate(batches(), steps=2)["global_step"] == 6


def test_an_evaluation_beside_the_training_goes_on_with_the_newer_checkpoint(tmp_path, monkeypatch):
    """The training may be quicker, and keep no more than the newest."""
    trained = Estimator(linear, tmp_path, RunConfig(keep_checkpoint_max=1), {"rate": 0.1}).train(batches(), steps=4)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}))
    begun = []

    def inputs():
        begun.append(Path(trained.latest_checkpoint()).name)
        if len(begun) == 1:
            trained.train(batches(), steps=4)
        return batches(1)()
    beside = Estimator(linear, tmp_path, params={"rate": 0.1})
    found, _ = train_and_evaluate(beside, TrainSpec(batches(), 8), EvalSpec(inputs, start_delay_secs=0, throttle_secs=0))
    assert found["global_step"] == 8 and begun == ["model.ckpt-4", "model.ckpt-8"]

    def nothing():
        raise errors.NotFoundError("no such input")
    with pytest.raises(errors.NotFoundError, match="no such input"):
        train_and_evaluate(beside, TrainSpec(batches(), 8), EvalSpec(nothing, start_delay_secs=0))


def test_batches_run_on_across_epochs():
    with wb.Graph().as_default(), wb.Session() as session:
        element = numpy_input_fn(np.arange(5), None, 4, 2, False)()
        assert [session.run(element).tolist() for _ in range(3)] == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]


def test_a_loss_that_is_no_number_stops_training(tmp_path):
    with pytest.raises(NanLossDuringTrainingError, match="NaN loss during training"):
        Estimator(linear, tmp_path, params={"rate": 1e9}).train(batches(), steps=50)


def test_functions_take_what_they_name_and_partial_ones_know_the_rest(tmp_path):
    def model(features, labels, mode, params, config, width):
        assert width == 3 and config.model_dir == str(tmp_path) and params == {"rate": 0.1}
        return linear(features, labels, mode, params)

    class Input:
        def __call__(self, params, config):
            assert params == {"rate": 0.1} and config.save_checkpoints_steps == 2
            return batches(1, False)()
    estimator = Estimator(functools.partial(model, width=3), tmp_path, RunConfig(save_checkpoints_steps=2), {"rate": 0.1})
    found = estimator.train(Input(), steps=2).evaluate(Input())
    assert found["global_step"] == 2
    with pytest.raises(errors.InvalidArgumentError, match=r"Expected to run at least one output from \['y', 'twice'\]"):
        next(estimator.predict(Input(), predict_keys=["none"]))

    def uneven(features, labels, mode):
        train.get_global_step()
        return EstimatorSpec(mode, {"a": features["x"][:2], "b": wb.Variable(1.0) + features["x"][:3]})
    with pytest.raises(errors.InvalidArgumentError, match=r"Batch length of predictions should be same\. They are .*2.*3"):
        with wb.Graph().as_default():
            wb.Variable(1.0, name="Variable"), train.create_global_step()
            with wb.Session() as session:
                session.run(wb.global_variables_initializer())
                path = train.Saver().save(session, str(tmp_path / "uneven"))
        next(Estimator(uneven, tmp_path / "more").predict(batches(1, False), checkpoint_path=path))


def test_places_of_operations_bend_to_the_machine_and_taken_names_are_refused(tmp_path):
    def model(features, labels, mode, params):
        with wb.device("/gpu:7"):
            spec = linear(features, labels, mode, params)
        if params["taken"] and mode == ModeKeys.EVAL:
            spec.eval_metric_ops["loss"] = wb.metrics.mean(spec.loss)
        return spec
    Estimator(model, tmp_path, params={"rate": 0.1, "taken": False}).train(batches(), steps=1)
    with pytest.raises(errors.InvalidArgumentError, match="Metric with name `loss` is not allowed, because Estimator already"):
        Estimator(model, tmp_path, params={"rate": 0.1, "taken": True}).evaluate(batches(1))


# canned

COLUMNS = [feature_columns.numeric_column("x", 2)]


@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(tmp_path, classes: int):
    labels = INSIDE if classes == 2 else INSIDE + (X[:, 0] > 1)
    made = canned.DNNClassifier([16, 8], COLUMNS, tmp_path, classes, dropout=0.1)
    made.train(numpy_input_fn({"x": X}, labels, 30, None, True), steps=200)
    found = made.evaluate(numpy_input_fn({"x": X}, labels, shuffle=False))
    assert found["accuracy"] > 0.85 and abs(found["loss"] - found["average_loss"] * 120) < 1e-3 * found["loss"]
    assert set(found) == {"accuracy", "average_loss", "global_step", "loss"} | ({
        "accuracy_baseline", "auc", "auc_precision_recall", "label/mean", "prediction/mean"} if classes == 2 else set())
    assert found["loss"].shape == () and found["loss"].dtype == np.float32 and found["global_step"].dtype == np.int64
    row = next(made.predict(numpy_input_fn({"x": X}, shuffle=False)))
    assert row["probabilities"].shape == (classes,) and abs(row["probabilities"].sum() - 1) < 1e-5
    assert row["class_ids"] == row["probabilities"].argmax() and row["classes"][0] == b"%d" % row["class_ids"][0]


@pytest.mark.parametrize("kind", [canned.LinearRegressor, lambda c, d: canned.DNNRegressor([8], c, d)])
def test_regressors(tmp_path, kind):
    made = kind(COLUMNS, tmp_path)
    made.train(numpy_input_fn({"x": X}, LINE, 40, None, True), steps=300)
    found = made.evaluate(numpy_input_fn({"x": X}, LINE, shuffle=False))
    assert found["average_loss"] < 0.1 * LINE.var() and set(found) == {"average_loss", "loss", "global_step"}
    assert next(made.predict(numpy_input_fn({"x": X}, shuffle=False)))["predictions"].shape == (1,)


def test_columns_side_by_side():
    with wb.Graph().as_default(), wb.Session() as session:
        columns = [feature_columns.numeric_column("b", normalizer_fn=lambda v: v * 10.0),
                   feature_columns.numeric_column("a", [2, 1])]
        found = feature_models.input_layer({"a": np.ones((2, 2, 1)), "b": np.array([1, 2])}, columns)
        assert session.run(found).tolist() == [[1, 1, 10], [1, 1, 20]] and columns[0].name == "b"
        with pytest.raises(errors.InvalidArgumentError, match=r"Feature b is not in features dictionary\.; there are 'a'"):
            feature_models.input_layer({"a": np.ones((2, 2))}, columns)


# contrib.learn

def test_classifiers_over_plain_arrays():
    columns = learn.infer_real_valued_columns_from_input(X)
    made = learn_ready.DNNClassifier([16], columns, n_classes=2, optimizer=train.AdamOptimizer(0.05))
    assert made.fit(X, INSIDE, steps=150, batch_size=40) is made
    found = made.evaluate(X, INSIDE, metrics={"again": learn.MetricSpec(wb.metrics.accuracy, "classes")})
    assert found["accuracy"] == found["again"] > 0.85
    classes = made.predict(X, as_iterable=False)
    assert (classes == INSIDE).mean() == pytest.approx(found["accuracy"], abs=1e-6)
    assert list(made.predict_classes(X[:2])) == classes[:2].tolist()
    assert made.predict_proba(X, as_iterable=False).shape == (120, 2)


def test_regressors_over_plain_arrays():
    made = learn_ready.LinearRegressor(learn.infer_real_valued_columns_from_input({"x": X}))
    made.fit({"x": X}, LINE, max_steps=200)
    assert abs(made.predict({"x": X}, as_iterable=False) - LINE).mean() < 0.5
    assert [c.key for c in learn.infer_real_valued_columns_from_input({"b": X, "a": X[:, 0]})] == ["a", "b"]


@pytest.mark.parametrize("operations", [False, True])
def test_model_functions_of_contrib(operations: bool):
    def with_operations(features, targets, mode):
        predictions, loss, step = plain(features, targets)
        return learn.ModelFnOps(mode, predictions, loss, step)

    def plain(features, targets):
        y = wb.squeeze(wb.layers.dense(features, 1), [1])
        if targets is None:
            return y, None, None
        loss = wb.losses.mean_squared_error(targets, y)
        return y, loss, train.AdamOptimizer(0.1).minimize(loss, train.get_global_step())
    made = learn.Estimator(with_operations if operations else plain)
    made.fit(X, LINE, steps=100)
    found = made.evaluate(X, LINE, metrics={"mse": learn.MetricSpec(lambda predictions, labels: wb.metrics.mean_squared_error(
        labels, predictions))})
    assert found["loss"] == pytest.approx(found["mse"], rel=1e-5) and found["loss"] < 0.1
    assert made.predict(X, as_iterable=False).shape == (120,)


@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: numpy_input_fn(X), errors.DtypeError, "numpy_input_fn: shuffle must be explicitly set as boolean; it is None"),
    (lambda: numpy_input_fn({"x": X}, LINE[:3], shuffle=True), errors.InvalidArgumentError, "the arrays have 3, 120 rows"),
    (lambda: Estimator(lambda x: x), errors.InvalidArgumentError, "model_fn takes x; it may take features, labels, mode"),
    (lambda: Estimator(linear).train(batches(), steps=1, max_steps=1), errors.InvalidArgumentError, "Can not provide both"),
    (lambda: Estimator(linear, params={}).train(batches(), steps=0), errors.InvalidArgumentError, "Must specify steps > 0"),
    (lambda: Estimator(linear, config="x"), errors.InvalidArgumentError, "config must be an instance of RunConfig, but provid"),
    (lambda: Estimator(linear, "a", RunConfig("b")), errors.InvalidArgumentError, "with different values: a and b; give one"),
    (lambda: Estimator(None), errors.InvalidArgumentError, "model_fn must be provided to Estimator"),
    (lambda: Estimator(lambda features: 3, params={}), errors.InvalidArgumentError, "does not include params argument, but"),
    (lambda: Estimator(lambda features: 3).train(batches()), errors.InvalidArgumentError, "does not take labels, but input_fn"),
    (lambda: Estimator(linear).train(lambda: (1, 2, 3)), errors.InvalidArgumentError, "as a len 2 tuple.; it returned 3 parts"),
    (lambda: Estimator(linear).train(batches(), ["x"]), TypeError, "Hooks must be a SessionRunHook, given: x"),
    (lambda: Estimator(linear).train(batches(), saving_listeners=["x"]), TypeError, "a list of CheckpointSaverListener, given"),
    (lambda: Estimator(linear, params={"rate": 0.1}, config=RunConfig(save_checkpoints_secs=None)).train(
        batches(), saving_listeners=[train.CheckpointSaverListener()]), errors.InvalidArgumentError,
     "There should be a CheckpointSaverHook to use saving_listeners"),
    (lambda: Estimator(lambda features, labels: 3).train(batches()), errors.InvalidArgumentError,
     "model_fn should return an EstimatorSpec. It returned a int"),
    (lambda: RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1), errors.InvalidArgumentError, "give one"),
    (lambda: feature_columns.numeric_column("x", 0),
     errors.InvalidArgumentError, "shape dimensions must be greater than 0. shape: [0], key: x"),
    (lambda: canned.LinearClassifier([]), errors.InvalidArgumentError, "LinearClassifier: feature_columns is []; pass feature"),
    (lambda: canned.LinearClassifier(COLUMNS, n_classes=1), errors.InvalidArgumentError, "n_classes is 1; use 2 or more"),
    (lambda: canned.LinearClassifier(COLUMNS, optimizer="Best").train(batches(), steps=1), errors.InvalidArgumentError,
     "estimator: Unsupported optimizer name: Best"),
    (lambda: learn_ready.LinearRegressor(COLUMNS).fit(X, LINE), errors.InvalidArgumentError, "give steps or max_steps"),
    (lambda: learn_ready.LinearRegressor(COLUMNS).fit(steps=1), errors.InvalidArgumentError,
     "give either x (and y) or input_fn"),
    (lambda: learn.Estimator(lambda x: x), errors.InvalidArgumentError, "model_fn takes 1 arguments; it may take features"),
    (lambda: learn.MetricSpec(None, "a").create_metric_ops(None, 1, {"b": 1, "c": 2}), errors.InvalidArgumentError,
     "MetricSpec: prediction_key is 'a' but there are 'b', 'c'; name one of them")])
def test_what_cannot_be(action, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        action()


# columns of words, both models at once, frames

WORDS = np.array(["far", "near"])[1 - INSIDE]


def test_wide_and_deep_over_words(tmp_path):
    wb.set_random_seed(3)
    place = feature_columns.categorical_column_with_vocabulary_list("place", ["far", "near"])
    made = canned.DNNLinearCombinedClassifier(
        tmp_path, [place], train.FtrlOptimizer(0.2), [feature_columns.embedding_column(place, 4), *COLUMNS],
        train.AdagradOptimizer(0.05), [8], label_vocabulary=["out", "in"], weight_column="weight",
        config=RunConfig(tf_random_seed=3))
    features = {"x": X, "place": WORDS.astype(object), "weight": np.ones(120, np.float32)}
    labels = np.array(["in", "out"], object)[1 - INSIDE]
    made.train(numpy_input_fn(features, labels, 30, None, True), steps=60)
    found = made.evaluate(numpy_input_fn(features, labels, shuffle=False))
    assert found["accuracy"] > 0.95 and found["global_step"] == 60
    row = next(made.predict(numpy_input_fn(features, shuffle=False)))
    assert row["classes"][0] == (b"in" if INSIDE[0] else b"out")


def test_weights_choose_the_examples_that_count(tmp_path):
    features = {"x": X, "weight": np.concatenate([np.ones(60), np.zeros(60)]).astype(np.float32)}
    spoilt = np.concatenate([LINE[:60], LINE[60:] + 100]).astype(np.float32)
    made = canned.LinearRegressor(COLUMNS, tmp_path, weight_column="weight", config=RunConfig(tf_random_seed=1))
    made.train(numpy_input_fn(features, spoilt, 40, None, True), steps=300)
    assert made.evaluate(numpy_input_fn(features, spoilt, shuffle=False))["average_loss"] < 0.1 * LINE.var()


class Index(list):
    equals = list.__eq__


class Series(list):
    index = Index([0, 1, 2])


class Frame(dict):
    """As much of a DataFrame as an input function reads: columns by name, an index."""

    index, columns = Index([0, 1, 2]), ("a", "b")


def test_frames_are_columns_by_name():
    frame = Frame(a=Series([1, 2, 3]), b=Series(["x", "y", "z"]))
    with wb.Graph().as_default(), wb.Session() as session:
        features, labels = pandas_input_fn(frame, Series([4, 5, 6]), 2, shuffle=False)()
        found = session.run([features, labels])
        assert found[0]["a"].tolist() == [1, 2] and found[0]["b"].tolist() == [b"x", b"y"] and found[1].tolist() == [4, 5]
    other = Series([4, 5, 6])
    other.index = Index([7, 8, 9])
    with pytest.raises(errors.InvalidArgumentError, match="Index for x and y are mismatched"):
        pandas_input_fn(frame, other, shuffle=False)
    with pytest.raises(errors.InvalidArgumentError, match="Cannot use name a for target column"):
        pandas_input_fn(frame, other, shuffle=False, target_column="a")


def test_rows_that_mask_a_number_are_refused():
    rows = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(errors.InvalidArgumentError, match="numpy_input_fn: 'x': 1 of 2 elements are masked"):
        numpy_input_fn({"x": rows}, shuffle=False)()
