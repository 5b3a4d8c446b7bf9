"""Models of Keras as Estimators: what they predict and measure, and how they train, is what the models do."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors
from workbench.train.keras import layers, models, optimizers

pytestmark = pytest.mark.usefixtures("keras_session")

made = tf.keras.estimator.model_to_estimator
RNG = np.random.default_rng(5)
X = RNG.normal(size=(24, 4)).astype("float32")
CLASSES = (X[:, 0] > 0).astype("int64")


def chain() -> models.Sequential:
    """A compiled model whose layers differ between training and use."""
    model = models.Sequential([layers.Dense(6, activation="tanh", input_shape=(4,), name="first"),
                               layers.BatchNormalization(name="even"), layers.Dense(2, activation="softmax", name="last")])
    model.compile(optimizers.SGD(0.2, momentum=0.5, decay=0.1), "sparse_categorical_crossentropy", ["accuracy"])
    return model


def rows(x, y=None, epochs=1):
    return tf.estimator.inputs.numpy_input_fn(x, y, batch_size=8, num_epochs=epochs, shuffle=False)


def test_it_begins_with_the_weights_of_the_model(tmp_path):
    model = chain()
    model.train_on_batch(X, CLASSES)
    estimator = made(model, model_dir=tmp_path)
    found = list(estimator.predict(rows({"first_input": X})))
    np.testing.assert_allclose([one["last"] for one in found], model.predict(X), rtol=1e-5)
    measured = estimator.evaluate(rows({"first_input": X}, CLASSES))
    loss, accuracy = model.evaluate(X, CLASSES, 8, verbose=0)
    assert measured["loss"] == pytest.approx(loss, rel=1e-5) and measured["accuracy"] == pytest.approx(accuracy)
    assert measured["global_step"] == 0


def test_it_trains_as_the_model_does_and_goes_on_where_it_was(tmp_path):
    model = chain()
    estimator = made(model, model_dir=tmp_path)
    before = model.get_weights()
    estimator.train(rows(X, CLASSES))                           # the tensor itself: there is one input
    assert all(np.array_equal(one, other) for one, other in zip(before, model.get_weights()))
    again = made(model, model_dir=tmp_path).train(rows(X, CLASSES))      # its checkpoint goes before the model's weights
    for _ in range(2):
        for first in range(0, 24, 8):
            model.train_on_batch(X[first:first + 8], CLASSES[first:first + 8])
    for name in ("first/kernel", "even/moving_mean", "last/bias"):
        wanted = {v.op.name: value for v, value in zip(model.weights, model.get_weights())}[name]
        np.testing.assert_allclose(again.get_variable_value(name), wanted, rtol=1e-4, atol=1e-6)
    assert again.get_variable_value("global_step") == 6


def test_several_inputs_and_outputs_are_told_apart_by_name(tmp_path):
    left, right = layers.Input((4,), name="left"), layers.Input((4,), name="right")
    both = layers.Dense(1, name="sum")(layers.Add()([left, right])), layers.Dense(1, name="copy")(left)
    model = models.Model([left, right], list(both))
    model.compile("adam", "mse", ["mae", "mse"], loss_weights={"sum": 2.0})
    estimator = made(model, model_dir=tmp_path)
    sums = X.sum(1)                                             # vectors are columns
    measured = estimator.evaluate(rows({"right": X * 2, "left": X}, {"copy": sums, "sum": sums * 3}))
    loss, *_, sum_mae, sum_mse, copy_mae, copy_mse = model.evaluate([X, X * 2], [sums * 3, sums], 8, verbose=0)
    assert measured == pytest.approx({"loss": loss, "mae_sum": sum_mae, "mse_sum": sum_mse, "mae_copy": copy_mae,
                                      "mse_copy": copy_mse, "global_step": 0}, rel=1e-5)
    with pytest.raises(errors.InvalidArgumentError, match="Cannot find input with name 'middle' both in the model"):
        next(estimator.predict(rows({"left": X, "right": X, "middle": X})))
    with pytest.raises(errors.InvalidArgumentError, match="Cannot find output with name 'copy' both in the model"):
        estimator.train(rows({"left": X, "right": X}, {"sum": sums}))


def test_a_saved_model_with_a_layer_of_its_own(tmp_path):
    class Doubled(layers.Layer):
        def call(self, inputs):
            return inputs * 2.0

    model = models.Sequential([layers.Dense(1, input_shape=(4,), name="only"), Doubled(name="twice")])
    model.compile("sgd", "mse")
    path = str(tmp_path / "model.npz")
    model.save(path)
    estimator = made(keras_model_path=path, custom_objects={"Doubled": Doubled}, model_dir=tmp_path / "run")
    found = [one["twice"] for one in estimator.predict(rows(X))]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-5)


def test_one_compiled_model_is_needed():
    for given in ({}, {"keras_model": chain(), "keras_model_path": "model.npz"}):
        with pytest.raises(errors.InvalidArgumentError, match="Either keras_model or keras_model_path needs to be provided"):
            made(**given)
    with pytest.raises(errors.InvalidArgumentError, match="Given keras model has not been compiled yet"):
        made(models.Sequential([layers.Dense(1, input_shape=(4,))]))


def test_targets_that_are_tensors_are_not_fed():
    model, other = (models.Sequential([layers.Dense(1, input_shape=(4,), kernel_initializer="ones")]) for _ in range(2))
    model.compile(optimizers.SGD(0.1), "mse", ["mae"], target_tensors=tf.constant(CLASSES))
    other.compile(optimizers.SGD(0.1), "mse", ["mae"])
    for _ in range(3):
        np.testing.assert_allclose(model.train_on_batch(X, None), other.train_on_batch(X, CLASSES), rtol=1e-5)
    with pytest.raises(errors.InvalidArgumentError, match="target"):
        model.train_on_batch(X, CLASSES)
