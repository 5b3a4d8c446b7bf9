"""tf.contrib.learn beside its estimators: monitors, experiments, scikit-learn's methods, data of pandas, small models."""
from __future__ import annotations

import json
import re

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
LEARN = tf.contrib.learn
RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 2)).astype(np.float32)
LABELS = (X[:, 0] > X[:, 1]).astype(np.int64)
LINE = X @ np.float32([2, -1]) + 0.5


def classifier(folder, every=5):
    return LEARN.DNNClassifier([8], LEARN.infer_real_valued_columns_from_input(X), str(folder), 2,
                               optimizer=tf.train.AdamOptimizer(0.05),
                               config=LEARN.RunConfig(save_checkpoints_steps=every, tf_random_seed=1))


def test_predictions_of_constants_are_one_batch_and_those_of_an_input_go_to_its_end(tmp_path):
    def model(features, labels, mode):
        weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(features * weight)
        return {"y": features * weight}, loss, tf.train.GradientDescentOptimizer(0.0).minimize(
            loss, tf.train.get_global_step())
    made = tf.contrib.learn.Estimator(model, str(tmp_path))
    made.fit(input_fn=lambda: (tf.constant([1.0]), None), steps=1)
    assert [row["y"] for row in made.predict(input_fn=lambda: tf.constant([1.0, 2.0]))] == [1, 2]
    assert [row["y"] for row in made.predict(input_fn=lambda: tf.train.limit_epochs(tf.constant([1.0, 2.0]), 2))] == [1, 2] * 2

    def batches():
        return tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0]).batch(2).make_one_shot_iterator().get_next()
    assert [row["y"] for row in made.predict(input_fn=batches)] == [1, 2, 3]


def test_training_is_watched_and_stops_early(tmp_path):
    told = []

    class Told(LEARN.monitors.EveryN):
        def every_n_step_begin(self, step):
            return ["global_step"]

        def every_n_step_end(self, step, outputs):
            told.append(step)
            return False
    kept = LEARN.monitors.CaptureVariable("dnn/logits/biases", every_n=10)
    watch = LEARN.monitors.ValidationMonitor(X, 1 - LABELS, every_n_steps=5, early_stopping_rounds=15,
                                             early_stopping_metric="accuracy", early_stopping_metric_minimize=False)
    made = classifier(tmp_path)
    made.fit(X, LABELS, steps=400, monitors=[Told(10), kept, watch])
    assert watch.early_stopped and watch.best_step < 40 and watch.best_value >= 0.3      # wrong labels: it becomes worse
    step = made.get_variable_value("global_step")
    assert step - watch.best_step >= 15 and step < 100 and watch.best_metrics["accuracy"] == watch.best_value
    assert told[0] == 1 and set(np.diff(told)) == {10} and set(kept.values) == set(told)
    assert next(iter(kept.values.values())).shape == (1,)


def test_a_monitor_needs_an_estimator_and_input():
    with pytest.raises(ValueError, match="Either x or input_fn should be provided"):
        LEARN.monitors.ValidationMonitor()
    with pytest.raises(ValueError, match="Missing call to set_estimator"):
        LEARN.monitors.ValidationMonitor(X).every_n_step_end(1, {})
    with pytest.raises(NotImplementedError, match="every_n_step_end"):
        LEARN.monitors.EveryN().every_n_step_end(1, {})


def test_tensors_are_told_every_so_many_steps(caplog):
    step = tf.train.get_or_create_global_step()
    x = tf.identity(tf.cast(step, tf.float32) * 2, name="twice")
    more = tf.assign_add(step, 1)
    with caplog.at_level("INFO", logger="workbench"), tf.train.MonitoredSession(
            hooks=[LEARN.monitors.PrintTensor({"two": x}, every_n=2), LEARN.monitors.StopAtStep(5)]) as session:
        while not session.should_stop():
            session.run(more)
    lines = [r.message for r in caplog.records if "two" in r.message]
    assert len(lines) == 3 and lines[0].startswith("step 1: two = ")


@pytest.mark.parametrize("older", [True, False])
def test_experiments_run_by_their_schedules(tmp_path, older: bool):
    def feed(labels=LABELS):
        return tf.estimator.inputs.numpy_input_fn({"x": X}, labels, 30, None, shuffle=False)

    def build(run_config, hparams):
        columns = [tf.feature_column.numeric_column("x", 2)]
        made = LEARN.DNNClassifier([hparams["units"]], columns, run_config.model_dir, config=run_config) if older else (
            tf.estimator.DNNClassifier([hparams["units"]], columns, run_config.model_dir, config=run_config))
        metrics = {"again": LEARN.MetricSpec(tf.metrics.accuracy, "classes")} if older else None
        return LEARN.Experiment(made, feed(), feed(), metrics, train_steps=30, eval_steps=3, min_eval_frequency=None if older
                                else 10)
    config = LEARN.RunConfig(model_dir=str(tmp_path), save_checkpoints_steps=10, tf_random_seed=1)
    found, made = LEARN.learn_runner.run(build, run_config=config, hparams={"units": 4})
    assert found["global_step"] == 30 and made == [] and found.get("again", found["accuracy"]) == found["accuracy"]
    assert LEARN.learn_runner.run(build, run_config=config, hparams={"units": 4}, schedule="evaluate")["global_step"] == 30
    assert LEARN.learn_runner.run(lambda folder: build(config, {"units": 4}), str(tmp_path), "test")["global_step"] == 31


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: LEARN.Experiment(3, None, None), ValueError, "`estimator` must implement Evaluable and Trainable"),
    (lambda: LEARN.learn_runner.run(3, "there"), TypeError, "is not callable"),
    (lambda: LEARN.learn_runner.run(len, ""), ValueError, "Must specify an output directory"),
    (lambda: LEARN.learn_runner.run(len, "there", hparams={}), ValueError, "Must set `hparams` as None"),
    (lambda: LEARN.learn_runner.run(len, "there", run_config=LEARN.RunConfig()), ValueError, "Cannot provide both"),
    (lambda: LEARN.learn_runner.run(len, run_config=LEARN.RunConfig()), ValueError, "Must specify a model directory"),
    (lambda: LEARN.learn_runner.run(len, run_config=3), ValueError, "`run_config` must be `tf.contrib.learn.RunConfig`"),
    (lambda: LEARN.learn_runner.run(lambda folder: 3), ValueError, "Must set value for `output_dir` or `run_config`"),
    (lambda: LEARN.learn_runner.run(lambda folder: 3, "there"), TypeError, "did not return an Experiment instance"),
    (lambda: LEARN.SKCompat(3), errors.InvalidArgumentError, "pass one of tf.contrib.learn")])
def test_what_no_experiment_is(make, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_a_schedule_is_a_method(tmp_path):
    made = LEARN.Experiment(classifier(tmp_path), lambda: 0, lambda: 0)
    with pytest.raises(ValueError, match="Schedule references non-existent task nothing: use one of"):
        LEARN.learn_runner.run(lambda folder: made, str(tmp_path), "nothing")
    with pytest.raises(TypeError, match="non-callable member train_steps"):
        LEARN.learn_runner.run(lambda folder: made, str(tmp_path), "train_steps")


def experiment(folder, **options):
    """Trains and evaluates on all rows."""
    config = LEARN.RunConfig(model_dir=str(folder), tf_random_seed=1)
    made = tf.estimator.DNNClassifier([4], [tf.feature_column.numeric_column("x", 2)], config=config)
    return LEARN.Experiment(made, *[tf.estimator.inputs.numpy_input_fn({"x": X}, LABELS, 30, None, shuffle=False)] * 2,
                            eval_steps=1, **options)


def test_experiments_train_and_evaluate_by_turns(tmp_path):
    seen = []
    found, made = experiment(tmp_path / "a", train_steps=20, train_steps_per_iteration=10).continuous_train_and_eval(
        lambda metrics: seen.append(metrics and metrics["global_step"]) or True)
    assert found["global_step"] == 20 and made == [] and seen == [None, 10, 20]
    assert experiment(tmp_path / "b").continuous_train_and_eval(lambda metrics: False) == (None, None)
    with pytest.raises(ValueError, match="`continuous_eval_predicate_fn` must be a callable"):
        experiment(tmp_path / "b").continuous_train_and_eval(3)
    with pytest.raises(ValueError, match="`train_steps_per_iteration` must be an integer"):
        experiment(tmp_path / "b", train_steps_per_iteration="10")


def test_experiments_evaluate_each_checkpoint_until_training_is_over(tmp_path):
    whole = experiment(tmp_path, train_steps=5, continuous_eval_throttle_secs=0)
    seen = []

    def again(metrics):
        seen.append(metrics and metrics["global_step"])
        if metrics == {}:      # nothing to evaluate yet
            whole.train()
        return True
    whole.continuous_eval(continuous_eval_predicate_fn=again)
    assert seen == [None, {}, 5]
    seen.clear()
    whole.continuous_eval_on_train_data(continuous_eval_predicate_fn=lambda metrics: seen.append(metrics) or len(seen) < 2)
    assert seen[0] is None and seen[1]["global_step"] == 5
    assert {"eval_continuous", "eval_continuous_on_train_data"} <= {path.name for path in tmp_path.iterdir()}


def test_what_a_program_saved_itself_is_evaluated_too(tmp_path):
    class Own(LEARN.Evaluable, LEARN.Trainable):
        model_dir, seen = str(tmp_path), ()

        def evaluate(self, **options):
            self.seen = (*self.seen, options["checkpoint_path"])
            return {"global_step": 5}
    v, made, turns = tf.Variable(1.0), Own(), []
    with tf.Session() as session:
        session.run(v.initializer)
        path = tf.train.Saver([v]).save(session, str(tmp_path / "model.ckpt"), 5)
    LEARN.Experiment(made, None, len, train_steps=5, continuous_eval_throttle_secs=0).continuous_eval(
        continuous_eval_predicate_fn=lambda metrics: turns.append(metrics) or len(turns) < 4)
    assert made.seen == (path,) and turns == [None, {"global_step": 5}]


def test_hyperparameters_are_tuned_by_whoever_knows_how(tmp_path):
    class Tuner:
        def __init__(self):
            self.trials = [1, 2]

        def next_trial(self):
            return bool(self.trials)

        def run_experiment(self, build):
            trial = self.trials.pop()
            config = LEARN.RunConfig(model_dir=str(tmp_path / str(trial)), tf_random_seed=1)
            found.append(build(config, {"steps": trial}).test())
    found: list[dict[str, float]] = []
    LEARN.learn_runner.tune(lambda run_config, hparams: experiment(run_config.model_dir, train_steps=hparams["steps"]), Tuner())
    assert [metrics["global_step"] for metrics in found] == [1, 1]
    with pytest.raises(RuntimeError, match="is expected to be used by the `Estimator`"):
        LEARN.learn_runner.run(lambda run_config, hparams: experiment(tmp_path / "other"),
                               run_config=LEARN.RunConfig(model_dir=str(tmp_path)))


@pytest.mark.parametrize(("task", "schedule"), [(None, "train_and_evaluate"), ("worker", "train"), ("ps", None)])
def test_the_schedule_follows_the_task(tmp_path, monkeypatch, task, schedule):
    if task is not None:
        monkeypatch.setenv("TF_CONFIG", json.dumps({
            "cluster": {"ps": ["a:1"], "worker": ["c:1"]}, "task": {"type": task, "index": 0}}))

    class Noted(LEARN.Experiment):
        def train(self, delay_secs=None):
            return "train"

        def train_and_evaluate(self):
            return "train_and_evaluate"
    made = Noted(experiment(tmp_path).estimator, None, None)
    if schedule is None:
        with pytest.raises(ValueError, match="No default schedule for task type: ps"):
            LEARN.learn_runner.run(lambda folder: made, str(tmp_path))
    else:
        assert LEARN.learn_runner.run(lambda folder: made, str(tmp_path)) == schedule


def test_estimators_as_scikit_learns(tmp_path):
    made = LEARN.SKCompat(classifier(tmp_path, None))
    assert made.fit(X, LABELS, batch_size=30, steps=100) is made
    assert made.score(X, LABELS)["accuracy"] > 0.9
    assert (made.predict(X) == LABELS).mean() > 0.9


def test_wide_and_deep_models_over_arrays():
    columns = LEARN.infer_real_valued_columns_from_input(X)
    made = LEARN.DNNLinearCombinedClassifier(linear_feature_columns=columns, dnn_feature_columns=columns, dnn_hidden_units=[8])
    made.fit(X, LABELS, steps=60)
    assert made.evaluate(X, LABELS)["accuracy"] > 0.9
    both = LEARN.DNNLinearCombinedRegressor(linear_feature_columns=columns, dnn_feature_columns=columns, dnn_hidden_units=[8],
                                            dnn_optimizer=tf.train.AdamOptimizer(0.05))
    both.fit(X, LINE, steps=100)
    assert abs(both.predict(X, as_iterable=False) - LINE).mean() < 0.5


class Frame:
    """What is used of a DataFrame of pandas: its columns' names and types, and its values as an array."""

    def __init__(self, **columns) -> None:
        self._columns = {key: np.asarray(values) for key, values in columns.items()}
        self.columns, self.dtypes = list(columns), [v.dtype for v in self._columns.values()]

    def __array__(self, dtype=None, copy=None):
        return np.stack(list(self._columns.values()), axis=1).astype(dtype)


class Column(np.ndarray):
    """What is used of a Series of pandas."""

    iloc = ()


def test_data_of_pandas():
    frame = Frame(a=[1, 2], b=[0.5, 1.5])
    assert LEARN.extract_pandas_data(frame).tolist() == [[1, 0.5], [2, 1.5]] and LEARN.extract_pandas_data([1]) == [1]
    assert LEARN.extract_pandas_matrix(frame).shape == (2, 2) and LEARN.extract_pandas_matrix([1]) == [1]
    assert LEARN.extract_pandas_labels(np.array([1, 2]).view(Column)).tolist() == [1, 2]
    assert LEARN.extract_pandas_labels(Frame(a=[1, 2])).tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="Only one column for labels is allowed"):
        LEARN.extract_pandas_labels(frame)
    with pytest.raises(ValueError, match="Found: a is object"):
        LEARN.extract_pandas_data(Frame(a=np.array(["x"], object)))


def test_columns_of_an_input_function():
    def build():
        return {"b": tf.zeros([5, 3]), "a": tf.zeros([5], tf.int32)}, tf.zeros([5])
    found = LEARN.infer_real_valued_columns_from_input_fn(build)
    assert [c.key for c in found] == ["a", "b"] and [list(c.shape) for c in found] == [[1], [3]]


def test_small_models():
    x, y = tf.constant(X), tf.one_hot(LABELS, 2)
    line, loss = LEARN.models.linear_regression(x, tf.constant(LINE))
    shares, entropy = LEARN.models.logistic_regression(x, y, class_weight=[1.0, 2.0], init_mean=0.0)
    step = tf.train.AdamOptimizer(0.1).minimize(loss + entropy)
    assert tf.get_variable_scope().name == "" and [v.op.name for v in tf.trainable_variables()] == [
        "linear_regression/weights", "linear_regression/bias", "logistic_regression/weights", "logistic_regression/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(150):
            session.run(step)
        assert session.run(loss) < 0.1 and (session.run(shares).argmax(1) == LABELS).mean() > 0.9
        assert line.shape.as_list() == [90] and session.run(LEARN.ops.one_hot_matrix([1, 0], 3)).tolist() == [
            [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("kind", [tf.estimator.RunConfig, tf.contrib.learn.RunConfig])
def test_a_configuration_of_a_program_says_its_seed_by_a_property(kind, tmp_path):
    """As programs of 2017 gave the seed, for which the constructor had no argument."""
    class Seeded(kind):
        @property
        def tf_random_seed(self):
            return 7

    config = Seeded(model_dir=str(tmp_path))
    assert (config.tf_random_seed, config.model_dir, config.is_chief) == (7, str(tmp_path), True)
    assert config.replace(save_summary_steps=3).save_summary_steps == 3 and config.replace(model_dir="m").tf_random_seed == 7

    def model(features, labels, mode, config):
        assert config.tf_random_seed == tf.get_default_graph().seed == 7
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=tf.assign_add(tf.train.get_global_step(), 1))

    tf.estimator.Estimator(model, config=config).train(lambda: (tf.constant([1.0]), None), steps=1)
