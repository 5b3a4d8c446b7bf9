"""Estimators of tf.contrib.learn under heads, their variables, exports and tasks; graphs trained by hand; files of records."""
from __future__ import annotations

import copy
import json
import re

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
SEED = 3
LEARN = tf.contrib.learn
RNG = np.random.default_rng(8)
X = RNG.normal(size=(80, 2)).astype(np.float32)
LABELS = (X[:, 0] > X[:, 1]).astype(np.int64)
COLUMNS = [tf.contrib.layers.real_valued_column("x", 2)]


def config(**more):
    return LEARN.RunConfig(tf_random_seed=2, **more)


def test_parts_of_a_model_have_the_names_of_tensorflows(tmp_path):
    made = LEARN.DNNLinearCombinedClassifier(str(tmp_path), linear_feature_columns=COLUMNS, dnn_feature_columns=COLUMNS,
                                             dnn_hidden_units=[3], enable_centered_bias=True, config=config())
    made.fit({"x": X}, LABELS, steps=2, batch_size=20)
    assert set(made.get_variable_names()) >= {
        "dnn/hiddenlayer_0/weights", "dnn/hiddenlayer_0/biases", "dnn/logits/weights", "linear/x/weight", "linear/bias_weight",
        "binary_logistic_head/centered_bias_weight", "global_step"}
    assert made.get_variable_value("global_step") == 2


class Servers(LEARN.RunConfig):
    """Of a program with two parameter servers."""

    num_ps_replicas = property(lambda self: 2, lambda self, number: None)


@pytest.mark.parametrize(("make", "expected"), [
    (lambda c: LEARN.DNNClassifier([3], c, config=Servers()), {"words": 1, "hiddenlayer_0/weights": 1}),
    (lambda c: LEARN.DNNClassifier([3], c, config=Servers(), input_layer_min_slice_size=1), {"words": 2,
                                                                                             "hiddenlayer_0/weights": 1}),
    (lambda c: LEARN.DNNRegressor([3], c, config=config(), input_layer_min_slice_size=1), {"words": 1}),
    (lambda c: LEARN.DNNLinearCombinedRegressor(dnn_feature_columns=c, dnn_hidden_units=[3], config=Servers(),
                                                input_layer_min_slice_size=1), {"words": 2}),
    (lambda c: LEARN.DNNLinearCombinedEstimator(LEARN.regression_head(), dnn_feature_columns=c, dnn_hidden_units=[70000],
                                                input_layer_partitioner=tf.fixed_size_partitioner(3), config=Servers()),
     {"words": 3, "hiddenlayer_0/weights": 2})])
def test_tables_of_the_input_are_cut_for_parameter_servers(make, expected, fresh=GRAPH):
    words = tf.contrib.layers.sparse_column_with_hash_bucket("words", 10)
    made = make([tf.contrib.layers.embedding_column(words, 4)])
    with fresh().as_default():
        tf.train.create_global_step()
        made._model({"words": tf.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1])}, tf.constant([[1], [0]]), "train",
                    None, None)
        names = [v.op.name for v in tf.trainable_variables()]
    for part, count in expected.items():
        assert sum(part in name for name in names) == count, names


def test_configurations_that_say_the_same_have_one_text(monkeypatch):
    made = LEARN.RunConfig(model_dir="a", tf_random_seed=1)
    assert made.uid() == LEARN.RunConfig(model_dir="a", tf_random_seed=2, save_summary_steps=7).uid()
    assert made.uid() != LEARN.RunConfig(model_dir="b", tf_random_seed=1).uid()
    assert made.uid(["model_dir"]) == LEARN.RunConfig(model_dir="b", tf_random_seed=1).uid(["model_dir"])
    assert made.uid([]) != LEARN.RunConfig(model_dir="a", tf_random_seed=2).uid([])
    assert copy.deepcopy(made).uid([]) == made.uid([])
    found = []
    for jobs in (["worker", "ps"], ["ps", "worker"], ["ps", "worker", "master"]):
        told = {"cluster": {job: [f"{job}:1"] for job in jobs}, "task": {"type": "worker", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(told))
        found.append(LEARN.RunConfig().uid())
    assert found[0] == found[1] != found[2]


def test_model_fn_ops_as_an_estimator_spec():
    heads = {"a": (1, {"probabilities": tf.constant([[0.5, 0.5]]), "classes": tf.constant([["x", "y"]])}),
             "b": (2, {"scores": tf.constant([1.0])}), "c": (0, {"more": tf.constant([2.0])})}
    loss, step, rate = tf.constant(1.0), tf.no_op(), tf.metrics.mean(tf.constant(3.0))
    made = LEARN.ModelFnOps("train", {"p": loss}, loss, step, {"loss": rate, "rate": rate}, heads)
    spec = made.estimator_spec("b")
    assert (spec.mode, spec.loss, spec.train_op) == (tf.estimator.ModeKeys.TRAIN, loss, step)
    assert list(spec.eval_metric_ops) == ["rate"]
    export = tf.estimator.export
    assert {name: type(output) for name, output in spec.export_outputs.items()} == {
        "a": export.ClassificationOutput, "b": export.RegressionOutput, "c": export.PredictOutput,
        "serving_default": export.RegressionOutput}
    assert spec.export_outputs["a"].classes is heads["a"][1]["classes"]
    assert LEARN.ModelFnOps("train", None, [2.0], step).loss.shape.as_list() == []
    with pytest.raises(ValueError, match="Loss must be scalar"):
        LEARN.ModelFnOps("train", None, [2.0, 3.0], step)
    assert made._replace(output_alternatives=None).estimator_spec().export_outputs is None
    with pytest.raises(ValueError, match="default_serving_output_alternative_key is None but there are the heads"):
        made.estimator_spec()
    with pytest.raises(ValueError, match="Unknown problem_type=7"):
        made._replace(output_alternatives={"a": (7, {})}).estimator_spec()


def test_any_head_stands_on_a_model(tmp_path):
    heads = LEARN.multi_head([LEARN.regression_head("sum", head_name="sum"),
                              LEARN.multi_class_head(2, "side", head_name="side")])
    made = LEARN.DNNEstimator(heads, [8], COLUMNS, str(tmp_path), tf.train.AdamOptimizer(0.05), config=config())

    def feed():
        return {"x": tf.constant(X)}, {"sum": tf.constant(X.sum(1)), "side": tf.constant(LABELS)}
    made.fit(input_fn=feed, steps=120)
    found = made.evaluate(input_fn=feed, steps=1)
    assert found["accuracy/side"] > 0.9 and found["loss/sum"] < 0.3
    assert found["loss"] == pytest.approx(found["loss/sum"] + found["loss/side"], rel=1e-4)


def test_weights_words_and_own_outputs(tmp_path):
    words = np.array(["left", "right", "none"], object)[LABELS]
    made = LEARN.LinearClassifier(COLUMNS, str(tmp_path), 3, "w", tf.train.FtrlOptimizer(0.5),
                                  label_keys=["left", "right", "none"], config=config())
    feeds = {"x": X, "w": np.ones(80, np.float32)}
    made.fit(feeds, words, steps=60)
    assert made.evaluate(feeds, words)["accuracy"] > 0.9
    assert set(made.predict(feeds, as_iterable=False)) <= {b"left", b"right"}
    row = next(made.predict(feeds, outputs=["probabilities"]))
    assert set(row) == {"probabilities"} and row["probabilities"].shape == (3,)


def test_several_numbers_and_prepared_features(tmp_path):
    targets = np.stack([X.sum(1), X[:, 0]], 1)
    made = LEARN.LinearRegressor(COLUMNS, str(tmp_path), optimizer=tf.train.AdamOptimizer(0.1), label_dimension=2,
                                 config=config(), feature_engineering_fn=lambda features, labels: (
                                     {"x": features["raw"] * 1.0}, labels))
    made.fit({"raw": X}, targets, steps=150)
    assert made.predict_scores({"raw": X}, as_iterable=False) == pytest.approx(targets, abs=0.1)


def test_one_table_for_all_identifiers(tmp_path):
    words = tf.contrib.layers.sparse_column_with_keys("word", ["a", "b"])
    more = tf.contrib.layers.sparse_column_with_integerized_feature("number", 3)
    made = LEARN.LinearClassifier([words, more], str(tmp_path), _joint_weight=True, config=config())

    def feed():
        return {"word": tf.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1]),
                "number": tf.SparseTensor([[0, 0], [1, 0]], [2, 1], [2, 1])}, tf.constant([[1], [0]])
    made.fit(input_fn=feed, steps=20)
    assert made.get_variable_value("linear/linear_weights/weights").shape == (5, 1)
    assert made.evaluate(input_fn=feed, steps=1)["accuracy"] == 1


def test_a_logistic_regressor_judges_probabilities(tmp_path):
    def model(features, labels, mode):
        shares = tf.squeeze(tf.layers.dense(features, 1, tf.sigmoid), [1])
        loss = tf.losses.log_loss(tf.cast(labels, tf.float32), shares) if labels is not None else None
        step = None if labels is None else tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return shares, loss, step
    made = LEARN.LogisticRegressor(model, [0.5, 0.9], str(tmp_path), config())
    found = made.fit(X, LABELS, steps=80).evaluate(X, LABELS)
    assert found["auc"] > 0.9 and found["accuracy/threshold_0.500000_mean"] > 0.9
    assert found["recall/positive_threshold_0.900000_mean"] <= found["recall/positive_threshold_0.500000_mean"]


def test_models_are_exported_by_their_heads(tmp_path):
    made = LEARN.DNNClassifier([4], COLUMNS, str(tmp_path / "model"), config=config())
    made.fit({"x": X}, LABELS, steps=3)
    serve = LEARN.build_parsing_serving_input_fn(tf.contrib.layers.create_feature_spec_for_parsing(COLUMNS))
    strategy = LEARN.make_export_strategy(serve, exports_to_keep=1)
    assert strategy.name == "Servo"
    folders = [strategy.export(made, str(tmp_path / "out")).decode() for _ in range(2)]
    assert [str(path) for path in (tmp_path / "out").iterdir()] == folders[1:]
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=X[0]))})).SerializeToString()
    with tf.Graph().as_default(), tf.Session() as session:
        graph = tf.saved_model.loader.load(session, ["serve"], folders[1])
        served = graph.signature_def["serving_default"]
        shares = session.run(served.outputs["scores"].name, {served.inputs["inputs"].name: [example]})
    assert shares[0] == pytest.approx(next(made.predict_proba({"x": X[:1]})), rel=1e-5)
    whole = LEARN.Experiment(made, lambda: ({"x": tf.constant(X)}, tf.constant(LABELS)), lambda: (
        {"x": tf.constant(X)}, tf.constant(LABELS)), train_steps=4, eval_steps=1, export_strategies=strategy)
    found, [folder] = whole.train_and_evaluate()
    assert found["global_step"] == 4 and folder.decode().startswith(str(tmp_path / "model" / "export" / "Servo"))
    with pytest.raises(ValueError, match="`export_strategies` must be an ExportStrategy"):
        LEARN.Experiment(made, None, None, export_strategies=["none"])
    with pytest.raises(ValueError, match="Requested default_output_alternative: other"):
        made.export_savedmodel(str(tmp_path / "out"), serve, default_output_alternative_key="other")
    with pytest.raises(ValueError, match="An export_fn accepting eval_result must also accept checkpoint_path"):
        LEARN.ExportStrategy("a", lambda estimator, path, eval_result: path).export(made, "there")


def test_the_task_is_what_the_environment_tells(monkeypatch):
    told = {"cluster": {"ps": ["a:1", "b:1"], "worker": ["c:1", "d:1", "e:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(told))
    made = LEARN.RunConfig()
    assert (made.task_type, made.task_id, made.master, made.is_chief) == ("worker", 1, "grpc://d:1", False)
    assert (made.num_ps_replicas, made.num_worker_replicas) == (2, 3) and made.cluster_spec.as_dict() == told["cluster"]
    assert LEARN.RunConfig(master="here").master == "here" and LEARN.RunConfig.get_task_id() == 1
    for task, text in (({"type": "boss"}, "boss is not a valid task_type"),
                       ({"type": "ps", "index": 5}, "5 is not a valid task_id")):
        monkeypatch.setenv("TF_CONFIG", json.dumps({**told, "task": task}))
        with pytest.raises(ValueError, match=text):
            LEARN.RunConfig()
        assert LEARN.RunConfig(master="here").master == "here"      # who says where needs no address
    monkeypatch.setenv("TF_CONFIG", json.dumps({"model_dir": "one"}))
    assert LEARN.RunConfig().model_dir == "one" and LEARN.RunConfig().is_chief
    with pytest.raises(ValueError, match="must have the same value as the model_dir in TF_CONFIG"):
        LEARN.RunConfig(model_dir="two")


@pytest.mark.parametrize(("action", "text"), [
    (lambda: LEARN.Estimator(lambda features, labels: 0, params={}), "does not have a params argument"),
    (lambda: LEARN.DNNLinearCombinedEstimator(LEARN.regression_head()), "Either linear_feature_columns or dnn_feature_columns"),
    (lambda: LEARN.DNNLinearCombinedEstimator(LEARN.regression_head(), dnn_feature_columns=COLUMNS),
     "dnn_hidden_units must be"),
    (lambda: LEARN.LinearRegressor(COLUMNS).fit(X, LABELS, steps=1, max_steps=2), "Can not provide both steps and max_steps"),
    (lambda: LEARN.LinearEstimator(COLUMNS, LEARN.regression_head(), weight_column_name="w"), "give it to the head"),
    (lambda: LEARN.LinearRegressor(COLUMNS, optimizer="Best").fit({"x": X}, LABELS, steps=1), "Unsupported optimizer name")])
def test_what_no_estimator_is(action, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        action()


# graphs trained by hand

def counted():
    step = tf.train.get_or_create_global_step()
    x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
    loss = tf.square(x - 3.0)
    return loss, tf.train.GradientDescentOptimizer(0.25).minimize(loss, step)


def test_a_graph_is_trained_evaluated_and_run(graph, tmp_path):
    loss, step = counted()
    last = LEARN.train(graph, str(tmp_path), step, loss, steps=4, log_every_steps=1)
    assert last == pytest.approx(9 * 0.25 ** 3)
    with tf.Graph().as_default() as again:
        loss, step = counted()
        values, number = LEARN.evaluate(again, str(tmp_path / "eval"), str(tmp_path), {"loss": loss}, max_steps=2)
        assert number == 4 and values["loss"] == pytest.approx(9 * 0.25 ** 4) and list((tmp_path / "eval").iterdir())
        newest = tf.train.latest_checkpoint(str(tmp_path))
        assert LEARN.infer(newest, {"loss": loss})["loss"] == values["loss"]
        assert [row["loss"] for row in LEARN.run_n({"loss": loss}, n=2)] == [9, 9]
    with tf.Graph().as_default() as third:
        loss, step = counted()
        assert LEARN.train(third, str(tmp_path), step, loss, max_steps=5) == pytest.approx(9 * 0.25 ** 4)


def test_feeds_one_after_the_other_and_the_end_of_input(graph, tmp_path):
    tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [])
    assert LEARN.run_feeds({"double": x * 2}, [{x: 1.0}, {x: 4.0}]) == [{"double": 2.0}, {"double": 8.0}]
    values = iter([1.0, 2.0])
    total = tf.contrib.metrics.streaming_mean(x)
    found, step = LEARN.evaluate(graph, str(tmp_path), None, {"mean": total[0]}, total[1], feed_fn=lambda: {x: next(values)},
                                 log_every_steps=1)
    assert step == 0 and found["mean"] == 1.5
    for action, text in ((lambda: LEARN.run_feeds({}, [None]), "output_dict is invalid"),
                         (lambda: LEARN.run_feeds({"x": x}, []), "feed_dicts is invalid"),
                         (lambda: LEARN.train(graph, "", x, x), "Output directory should be non-empty"),
                         (lambda: LEARN.train(graph, "a", None, x), "Missing train_op")):
        with pytest.raises(ValueError, match=text):
            action()


# files of records

def test_records_are_read_in_batches(tmp_path):
    for number in range(2):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"part-{number}")) as writer:
            for row in range(3):
                writer.write(tf.train.Example(features=tf.train.Features(feature={"v": tf.train.Feature(
                    int64_list=tf.train.Int64List(value=[10 * number + row]))})).SerializeToString())
    spec = {"v": tf.FixedLenFeature([1], tf.int64)}
    keys, found = LEARN.read_keyed_batch_features(str(tmp_path / "part-*"), 4, spec, tf.TFRecordReader, False, 1,
                                                  reader_num_threads=1)
    mixed = LEARN.read_batch_record_features(str(tmp_path / "part-*"), 6, spec, num_epochs=1)
    texts = LEARN.read_batch_examples([str(tmp_path / "part-0")], 2, tf.TFRecordReader, False, 1, parse_fn=lambda one: {
        "size": tf.size(tf.decode_raw(one, tf.uint8))})
    with tf.train.MonitoredSession() as session:
        names, first = session.run([keys, found["v"]])
        assert first[:, 0].tolist() == [0, 1, 2, 10] and [b"part-0" in name for name in names] == [True, True, True, False]
        assert session.run(found["v"])[:, 0].tolist() == [11, 12]
        assert sorted(session.run(mixed["v"])[:, 0]) == [0, 1, 2, 10, 11, 12]
        assert session.run(texts)["size"].shape == (2,)


@pytest.mark.parametrize(("given", "text"), [
    (("none-*", 2), "No files match none-*."), (([], 2), "No files given"), (("here", 0), "Invalid batch_size 0"),
    (("here", 2, False, 0), "Invalid num_epochs 0"), (("here", 2, False, None, 0), "Invalid queue_capacity 0")])
def test_what_cannot_be_read(tmp_path, monkeypatch, given, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("")
    with pytest.raises(ValueError, match=re.escape(text)):
        LEARN.read_keyed_batch_examples(given[0], given[1], tf.TextLineReader, *given[2:])


class Gathered:
    """What is used of a frame of dask: it is computed."""

    dask, npartitions = {}, 2

    def compute(self):
        return np.ones((3, 1))


def test_data_of_dask():
    assert LEARN.extract_dask_data(Gathered()).shape == (3, 1) and LEARN.extract_dask_data([1]) == [1]
    assert LEARN.extract_dask_labels(Gathered()).shape == (3, 1) and LEARN.extract_dask_labels([1]) == [1]
