"""Keras around its models: estimators of scikit-learn, descriptions in YAML, progress in a line."""
from __future__ import annotations

import numpy as np
import pytest

from workbench import errors
from workbench.train.keras import layers, models, progress, utils
from workbench.train.keras.scikit_learn import KerasClassifier, KerasRegressor

pytestmark = pytest.mark.usefixtures("graph", "keras_session")
RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4)).astype("float32")


def classifier(loss="categorical_crossentropy", units=3, metrics=("accuracy",)):
    model = models.Sequential([layers.Dense(units, "sigmoid" if units == 1 else "softmax", input_shape=(4,))])
    model.compile("adam" if units == 1 else "sgd", loss, metrics=list(metrics))
    return model


def test_a_classifier_gives_the_classes_that_it_was_taught():
    names = np.array(["low", "middle", "top"])
    y = names[np.digitize(X[:, 0], [-0.5, 0.5])]
    found = KerasClassifier(classifier, epochs=60, verbose=0)
    history = found.fit(X, y, batch_size=10)
    assert found.classes_.tolist() == names.tolist() and found.n_classes_ == 3 and len(history.history["loss"]) == 60
    assert set(found.predict(X)) <= set(names)
    share = found.score(X, y)
    assert share == pytest.approx(np.mean(found.predict(X) == y), abs=1e-6) and share > 0.6
    assert np.allclose(found.predict_proba(X).sum(1), 1, atol=1e-5)
    rows = np.eye(3)[np.searchsorted(names, y)]
    found.fit(X, rows, epochs=1)
    assert found.classes_.tolist() == [0, 1, 2] and found.score(X, rows) == pytest.approx(
        np.mean(found.predict(X) == rows.argmax(1)), abs=1e-6)


def test_one_number_stands_for_two_classes():
    class Own(KerasClassifier):
        def __call__(self, units):
            return classifier("binary_crossentropy", units)
    found = Own(units=1, verbose=0)
    found.fit(X, X[:, 0] > 0)
    sure = found.predict_proba(X)
    assert sure.shape == (60, 2) and np.allclose(sure.sum(1), 1) and found.predict(X).shape == (60, 1)
    assert found.get_params() == {"units": 1, "verbose": 0, "build_fn": None}


def test_a_regressor_scores_higher_the_nearer():
    def make(rate=0.1):
        model = models.Sequential([layers.Dense(1, input_shape=(4,))])
        model.compile("sgd", "mean_absolute_error", metrics=["mse"])
        return model
    found, y = KerasRegressor(make, verbose=0), X @ np.array([1.0, -2.0, 0.5, 0.0])
    found.set_params(epochs=1, rate=0.2).fit(X, y)
    before = found.score(X, y)
    assert before == pytest.approx(-np.abs(found.predict(X) - y).mean(), rel=1e-4) and found.predict(X).shape == (60,)
    found.fit(X, y, epochs=80)
    assert before < found.score(X, y) < 0


@pytest.mark.parametrize(("use", "text"), [
    (lambda: KerasClassifier(classifier, unit=3), "unit is not a legal parameter"),
    (lambda: KerasClassifier(classifier).set_params(epoch=3), "epoch is not a legal parameter"),
    (lambda: KerasClassifier(), "build_fn is None"),
    (lambda: KerasClassifier(classifier).fit(X, np.zeros((60, 2, 2))), r"Invalid shape for y: \(60, 2, 2\)")])
def test_wrong_uses_are_named(use, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        use()


def test_accuracy_that_is_not_measured_is_asked_for():
    found = KerasClassifier(classifier, metrics=(), verbose=0, epochs=1)
    found.fit(X, np.arange(60) % 3)
    with pytest.raises(errors.InvalidArgumentError, match="not configured to compute accuracy, it measures loss"):
        found.score(X, np.arange(60) % 3)


def test_yaml_describes_a_model_and_runs_no_code():
    a = layers.Input((4,))
    model = models.Model(a, layers.Dense(2, "tanh", kernel_regularizer="l2")(layers.Dense(3)(a)))
    again = models.model_from_yaml(model.to_yaml())
    assert again.to_json() == model.to_json()
    again.set_weights(model.get_weights())
    assert np.array_equal(again.predict(X), model.predict(X))
    for text in ("!!python/object/apply:os.system ['true']", "a: [1"):
        with pytest.raises(errors.DataLossError, match="not YAML of plain values"):
            models.model_from_yaml(text)


def test_a_bar_shows_steps_and_means(capsys, monkeypatch):
    monkeypatch.setattr(progress.time, "time", iter([0.0, 1.0, 1.01, 2.0, 4.0]).__next__)
    bar = utils.Progbar(20, width=10)
    bar.update(5, [("loss", 4.0)])
    bar.add(1, [("loss", 1.0)])      # too soon to be drawn
    bar.update(10, [("loss", 1.0)], force=True)
    bar.update(20, [("loss", 0.0)])
    lines = [line.strip("\b") for line in capsys.readouterr().out.split("\r")]
    assert lines[1].rstrip() == " 5/20 [=>........] - ETA: 3s - loss: 4.0000"
    assert lines[2].rstrip() == "10/20 [====>.....] - ETA: 2s - loss: 2.5000"
    assert lines[3].split(" - ") == ["20/20 [==========]", "4s", "loss: 1.2500     \n"] and len(lines) == 4


def test_a_bar_without_a_target_or_a_bar(capsys):
    bar = utils.Progbar(None)
    bar.update(3, [("small", 1e-5)])
    assert capsys.readouterr().out.startswith("\r - 0s - small: 1.0000e-05")
    quiet = utils.Progbar(4, verbose=2)
    quiet.update(2, [("a", 2.0)])
    assert capsys.readouterr().out == ""
    quiet.update(4, [("a", 4.0)])
    assert capsys.readouterr().out == "0s - a: 3.0000\n"


def test_arguments_of_functions_are_found():
    def some(x, *rest, key=1, **more):
        return x, rest, key, more
    assert utils.has_arg(some, "x") and utils.has_arg(some, "key") and utils.has_arg(some, "any", accept_all=True)
    assert not utils.has_arg(some, "rest") and not utils.has_arg(some, "any")
