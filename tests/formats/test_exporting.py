"""Estimators as SavedModels: signatures, receivers, training and exporting by turns; what they refuse."""
from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
EXPORT = tf.estimator.export
RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2)).astype(np.float32)
LABELS = (X[:, 0] > X[:, 1]).astype(np.int64)
SPEC = {"x": tf.FixedLenFeature([2], tf.float32)}
COLUMNS = [tf.feature_column.numeric_column("x", 2)]


def inputs(epochs=1):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, LABELS, 20, epochs, shuffle=False)


def classifier(folder):
    return tf.estimator.DNNClassifier([8], COLUMNS, str(folder), label_vocabulary=None,
                                      optimizer=tf.train.AdamOptimizer(0.05))


def examples(rows):
    return [tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=row))})).SerializeToString() for row in rows]


def ask(folder, signature, **feeds):
    """What a saved model answers."""
    with tf.Session(graph=tf.Graph()) as session:
        found = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder).signature_def[signature]
        return session.run({k: info.name for k, info in found.outputs.items()},
                           {found.inputs[k].name: value for k, value in feeds.items()}), found.method_name


def test_a_classifier_is_exported_with_its_signatures(tmp_path):
    made = classifier(tmp_path / "model").train(inputs(None), steps=60)
    folder = made.export_savedmodel(str(tmp_path / "served"), EXPORT.build_parsing_serving_input_receiver_fn(SPEC))
    assert isinstance(folder, bytes) and [p.name for p in (tmp_path / "served").iterdir()] == [folder.decode().split("/")[-1]]
    folder, rows = folder.decode(), examples(X[:5])
    wanted = [row["probabilities"] for row in made.predict(tf.estimator.inputs.numpy_input_fn({"x": X[:5]}, shuffle=False))]
    scores, method = ask(folder, "serving_default", inputs=rows)
    assert method == tf.saved_model.signature_constants.CLASSIFY_METHOD_NAME
    np.testing.assert_allclose(scores["scores"], wanted, rtol=1e-5)
    assert scores["classes"].tolist() == [[b"0", b"1"]] * 5
    number, method = ask(folder, "regression", inputs=rows)
    assert method == tf.saved_model.signature_constants.REGRESS_METHOD_NAME
    np.testing.assert_allclose(number["outputs"][:, 0], np.array(wanted)[:, 1], rtol=1e-5)
    answer, _ = ask(folder, "predict", examples=rows)
    assert set(answer) == {"logits", "probabilities", "class_ids", "classes", "logistic"}


def test_raw_features_are_fed_as_they_are(tmp_path):
    made = tf.estimator.LinearRegressor(COLUMNS, str(tmp_path / "model")).train(inputs(), steps=2)
    receive = EXPORT.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [7, 2], name="features/x")})
    folder = made.export_savedmodel(tmp_path / "served", receive, as_text=True, assets_extra={"deep/words": __file__})
    folder = folder.decode()
    answer, method = ask(folder, "predict", x=X[:3])
    assert answer["predictions"].shape == (3, 1) and method == tf.saved_model.signature_constants.PREDICT_METHOD_NAME
    with pytest.raises(KeyError):      # a regression takes serialized examples: there are none here
        ask(folder, "regression", x=X)["outputs"]
    assert (tmp_path / "served" / folder.split("/")[-1] / "assets.extra" / "deep" / "words").exists()


def test_tables_of_words_are_served_from_the_files_in_the_model(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("red\ngreen\nblue\n")

    def model(features, labels, mode):
        number = tf.contrib.lookup.index_table_from_file(str(words)).lookup(features["word"])
        step = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, {"number": number}, tf.constant(0.0), step, export_outputs={
            "serving_default": EXPORT.PredictOutput({"number": number})})
    made = tf.estimator.Estimator(model, str(tmp_path / "model"))
    made.train(lambda: {"word": tf.constant(["red"])}, steps=1)
    receive = EXPORT.build_raw_serving_input_receiver_fn({"word": tf.placeholder(tf.string, [1])})
    folder = made.export_savedmodel(tmp_path / "served", receive).decode()
    words.unlink()
    assert ask(folder, "serving_default", word=["blue", "black"])[0]["number"].tolist() == [2, -1]


def test_models_of_ones_own_export_what_they_say(tmp_path):
    def model(features, labels, mode):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"y": features["a"] * w}, export_outputs={
                "scaled": EXPORT.PredictOutput(features["a"] * w)} if offered else None)
        step = tf.assign_add(tf.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features["a"] * w), train_op=step)
    offered = True
    made = tf.estimator.Estimator(model, str(tmp_path / "model"))
    made.train(lambda: ({"a": tf.constant([1.0])}, None), steps=1)
    assert made.get_variable_names() == ["global_step", "w"] and made.get_variable_value("w") == 3

    def receive():
        text = tf.placeholder(tf.string, [None])
        numbers = tf.string_to_number(text)
        return EXPORT.ServingInputReceiver({"a": numbers}, text, {"numbers": {"given": numbers}})
    folder = made.export_savedmodel(tmp_path / "served", receive).decode()
    assert ask(folder, "serving_default", input=[b"2", b"5"])[0]["output"].tolist() == [6, 15]
    assert ask(folder, "numbers:scaled", given=[4.0])[0]["output"].tolist() == [12]
    offered = False
    with pytest.raises(ValueError, match="export_outputs must be defined in order to export a model"):
        made.export_savedmodel(tmp_path / "served", receive)


def test_training_and_evaluation_by_turns(tmp_path):
    made, receive = classifier(tmp_path), EXPORT.build_parsing_serving_input_receiver_fn(SPEC)
    exporters = [tf.estimator.LatestExporter("newest", receive, exports_to_keep=2), tf.estimator.FinalExporter("last", receive)]
    found, paths = tf.estimator.train_and_evaluate(
        made, tf.estimator.TrainSpec(inputs(None), max_steps=4),
        tf.estimator.EvalSpec(inputs(), steps=2, name="held", exporters=exporters, throttle_secs=0))
    assert found["global_step"] == 4 and 0 <= found["accuracy"] <= 1
    kept = sorted(int(p.name) for p in (tmp_path / "export" / "newest").iterdir())
    assert len(kept) == 2 and paths[0].endswith(str(kept[-1]).encode())
    assert [str(p).encode() for p in (tmp_path / "export" / "last").iterdir()] == [paths[1]]
    steps = [e.step for file in sorted((tmp_path / "eval_held").glob("events*")) for e in tf.train.summary_iterator(str(file))
             if e.summary.value]
    assert sorted(steps) == [1, 2, 3, 4]


def test_of_several_exports_in_a_second_the_newest_has_the_greatest_number(tmp_path, monkeypatch):
    """Also when an older one was removed, whose number is free."""
    made = classifier(tmp_path)
    made.train(inputs(), max_steps=1)
    monkeypatch.setattr(time, "time", lambda: 1500000000.5)
    exporter = tf.estimator.LatestExporter("newest", EXPORT.build_parsing_serving_input_receiver_fn(SPEC), exports_to_keep=2)
    for number in range(4):
        path = exporter.export(made, str(tmp_path / "export"), made.latest_checkpoint(), {}, False)
        assert Path(path.decode()).is_dir() and path.endswith(str(1500000000 + number).encode())
    assert sorted(p.name for p in (tmp_path / "export").iterdir()) == ["1500000002", "1500000003"]


def test_the_end_of_the_input_ends_training(tmp_path):
    found, paths = tf.estimator.train_and_evaluate(classifier(tmp_path), tf.estimator.TrainSpec(inputs(2)),
                                                   tf.estimator.EvalSpec(inputs(), steps=None))
    assert found["global_step"] == 6 and paths == []


def test_listeners_and_hooks_are_told(tmp_path):
    told = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            told.append(global_step_value)

    class Hook(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            told.append("run")
    made = tf.estimator.DNNClassifier([4], COLUMNS, str(tmp_path), config=tf.estimator.RunConfig(
        save_checkpoints_steps=2, keep_checkpoint_max=2))
    made.train(inputs(None), steps=5, saving_listeners=[Listener()])
    assert told == [0, 2, 4, 5] and len(list(tmp_path.glob("*.ckpt-*.json"))) == 2
    told.clear()
    made.evaluate(inputs(), steps=2, hooks=[Hook()])
    assert told == ["run"] * 2
    told.clear()
    assert len(list(made.predict(inputs(), hooks=[Hook()]))) == 60 and "run" in told


def test_configurations_are_copied_with_other_values():
    first = tf.estimator.RunConfig(save_checkpoints_steps=3)
    second = first.replace(save_checkpoints_secs=9, model_dir="there")
    assert (second.save_checkpoints_steps, second.save_checkpoints_secs, second.model_dir) == (None, 9, "there")
    assert (first.save_checkpoints_steps, first.is_chief, first.task_type, first.cluster_spec.jobs) == (3, True, "worker", [])
    with pytest.raises(ValueError, match=r"RunConfig\.replace: Replacing nothing is not supported"):
        first.replace(nothing=1)


def test_what_examples_hold_beside_the_columns():
    found = tf.estimator.classifier_parse_example_spec(COLUMNS, "y", weight_column="w")
    assert sorted(found) == ["w", "x", "y"] and found["y"].dtype == tf.int64 and list(found["y"].shape) == [1]
    assert tf.estimator.regressor_parse_example_spec(COLUMNS, "y", label_dimension=3)["y"].dtype == tf.float32
    with pytest.raises(ValueError, match=r"label should not be used as feature\. label_key: x"):
        tf.estimator.classifier_parse_example_spec(COLUMNS, "x")


def test_an_operation_gives_all_variables_values():
    w = tf.Variable(2.0)
    local = tf.Variable(3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    start = tf.saved_model.main_op.main_op()
    both = tf.saved_model.main_op.main_op_with_restore(tf.no_op(name="restore").name)
    with tf.Session() as session:
        session.run(start)
        assert session.run([w, local]) == [2, 3]
    with tf.Session() as session:
        session.run(both)
        assert session.run([w, local]) == [2, 3]


NUMBERS = lambda: tf.placeholder(tf.float32, [None])      # noqa: E731
WORDS = lambda: tf.placeholder(tf.string, [None])      # noqa: E731
UTILS = tf.saved_model.signature_def_utils


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: EXPORT.ClassificationOutput(), ValueError, "At least one of scores and classes must be set."),
    (lambda: EXPORT.ClassificationOutput(classes=NUMBERS()), ValueError, "Classification classes must be a string Tensor"),
    (lambda: EXPORT.RegressionOutput("three"), ValueError, "Regression output value must be a float32 Tensor; got three"),
    (lambda: EXPORT.PredictOutput({"a": 3}), ValueError, "Prediction output value must be a Tensor; got 3."),
    (lambda: EXPORT.PredictOutput({1: NUMBERS()}), ValueError, "Prediction output key must be a string; got 1."),
    (lambda: EXPORT.ServingInputReceiver(None, WORDS()), ValueError, "features must be defined."),
    (lambda: EXPORT.ServingInputReceiver({"a": 1}, WORDS()), ValueError, "features a must be a Tensor or SparseTensor"),
    (lambda: EXPORT.TensorServingInputReceiver({"a": WORDS()}, WORDS()), ValueError, "feature must be a Tensor"),
    (lambda: UTILS.classification_signature_def(WORDS(), None, None), ValueError, "cannot both be None"),
    (lambda: UTILS.classification_signature_def(None, WORDS(), None), ValueError, "examples cannot be None"),
    (lambda: UTILS.regression_signature_def(NUMBERS(), NUMBERS()), ValueError,
     "Regression examples must be string but it is float32; cast it"),
    (lambda: UTILS.predict_signature_def({}, {"a": WORDS()}), ValueError, "Prediction inputs cannot be None or empty."),
    (lambda: tf.estimator.TrainSpec(inputs(), max_steps=0), ValueError, "Must specify max_steps > 0, given: 0"),
    (lambda: tf.estimator.TrainSpec(3), TypeError, "`input_fn` must be callable, given: 3"),
    (lambda: tf.estimator.EvalSpec(inputs(), throttle_secs=-1), ValueError, "Must specify throttle_secs >= 0, given: -1"),
    (lambda: tf.estimator.EvalSpec(inputs(), hooks=[3]), TypeError, "All hooks must be `SessionRunHook` instances"),
    (lambda: tf.estimator.EvalSpec(inputs(), exporters=3), TypeError, "int"),
    (lambda: tf.estimator.EvalSpec(inputs(), exporters=[tf.estimator.FinalExporter("a", NUMBERS)] * 2), ValueError,
     "`exporters` must have unique names, given: ['a', 'a']"),
    (lambda: tf.estimator.LatestExporter("a", NUMBERS, exports_to_keep=0), ValueError, "must be positive number"),
    (lambda: tf.estimator.train_and_evaluate(3, 4, 5), TypeError, "expected Estimator, given int"),
    (lambda: tf.estimator.Exporter().name, NotImplementedError, "Exporter.name is missing; define it")])
def test_what_is_refused(make, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_several_outputs_need_a_default():
    from workbench.train.estimators.signatures import signatures
    outputs = {name: EXPORT.PredictOutput(NUMBERS()) for name in "ab"}
    with pytest.raises(ValueError, match="none of them is specified as the default"):
        signatures(WORDS(), outputs)


def test_models_answer_as_functions(tmp_path):
    predictor = tf.contrib.predictor
    made = classifier(tmp_path / "model").train(inputs(None), steps=20)
    receive = EXPORT.build_parsing_serving_input_receiver_fn(SPEC)
    folder, rows = made.export_savedmodel(str(tmp_path / "served"), receive).decode(), examples(X[:5])
    wanted = [row["probabilities"] for row in made.predict(tf.estimator.inputs.numpy_input_fn({"x": X[:5]}, shuffle=False))]
    for ask_it in (predictor.from_saved_model(folder), predictor.from_estimator(made, receive)):
        with ask_it.session:
            np.testing.assert_allclose(ask_it({"inputs": rows})["scores"], wanted, rtol=1e-5)
            assert set(ask_it.feed_tensors) == {"inputs"} and ask_it.graph.get_collection("variables")
            with pytest.raises(ValueError, match=r"Got unexpected keys in input_dict: \{'x'\}"):
                ask_it({"x": rows})
    with predictor.from_saved_model(folder, "predict").session as session:
        assert len(session.graph.get_collection("variables")) > 4
    with pytest.raises(ValueError, match=r'Got signature_def_key "other". Available signatures are \['):
        predictor.from_saved_model(folder, "other")
    with pytest.raises(ValueError, match="at most one of signature_def_key OR signature_def"):
        predictor.from_saved_model(folder, "other", object())
    with pytest.raises(KeyError, match=r"output_key must be one of .*; got other"):
        predictor.from_estimator(made, receive, "other")
