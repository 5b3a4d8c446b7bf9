"""Models of layers: how they are built, trained, measured, described and kept, and what they say of wrong uses."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.train.keras import backend, callbacks, layers, models, optimizers, utils

pytestmark = pytest.mark.usefixtures("graph", "keras_session")


def blobs(count=240):
    """Points around three centres, and which it is."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 3, count)
    return (rng.normal(0, 0.5, (count, 4)) + 2 * np.eye(4)[numbers]).astype("float32"), numbers


def classifier(**options):
    return models.Sequential([layers.Dense(16, activation="relu", input_shape=(4,), **options), layers.Dropout(0.2),
                              layers.Dense(3, activation="softmax")])


def test_a_classifier_trains_is_measured_and_predicts():
    x, y = blobs()
    model = classifier(kernel_regularizer="l2")
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=25, verbose=0, validation_split=0.25)
    assert set(history.history) == {"loss", "acc", "val_loss", "val_acc"} and history.epoch == list(range(25))
    assert history.history["loss"][-1] < history.history["loss"][0] / 2
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert loss < 0.8 and accuracy > 0.95 and model.metrics_names == ["loss", "acc"]
    shares = model.predict(x, batch_size=50)
    assert shares.shape == (240, 3) and np.allclose(shares.sum(1), 1, atol=1e-5)
    assert np.mean(model.predict_classes(x) == y) == pytest.approx(accuracy, abs=1e-6)
    assert np.array_equal(model.predict(x), model.predict(x))      # nothing is dropped


def test_values_are_those_of_numpy():
    x, y = blobs(12)
    model = classifier()
    model.compile("sgd", "categorical_crossentropy", metrics=["categorical_accuracy", "mse"])
    first, offset, second, last = model.get_weights()
    hidden = np.maximum(x @ first + offset, 0) @ second + last
    shares = np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True)
    targets = utils.to_categorical(y, 3)
    weights = np.linspace(0, 2, 12)
    assert np.allclose(model.predict(x), shares, atol=1e-5)
    loss, accuracy, squares = model.evaluate(x, targets, batch_size=5, verbose=0)
    assert loss == pytest.approx(-np.log(shares[range(12), y]).mean(), rel=1e-4)
    assert accuracy == pytest.approx((shares.argmax(1) == y).mean())
    assert squares == pytest.approx(((shares - targets) ** 2).mean(), rel=1e-4)
    by_row = model.test_on_batch(x, targets, sample_weight=weights)[0]
    assert by_row == pytest.approx((-np.log(shares[range(12), y]) * weights).sum() / np.sum(weights != 0), rel=1e-4)


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adagrad", "adadelta", "adam", "adamax", "nadam"])
def test_every_optimizer_moves_down_and_is_described(name):
    x, y = blobs(60)
    model = classifier()
    made = optimizers.get(name)
    model.compile(made, "sparse_categorical_crossentropy")
    losses = [float(model.train_on_batch(x, y)) for _ in range(20)]
    assert losses[-1] < losses[0] and int(backend.get_value(made.iterations)) == 20
    again = optimizers.deserialize(optimizers.serialize(made))
    assert again.get_config() == made.get_config()
    values = made.get_weights()
    made.set_weights([np.zeros_like(one) for one in values])
    assert all(not one.any() for one in made.get_weights())


def test_momentum_and_decay_follow_their_rule():
    x = layers.Input((1,))
    y = layers.Dense(1, use_bias=False, kernel_initializer="ones")(x)
    model = models.Model(x, y)
    model.compile(optimizers.SGD(0.1, momentum=0.5, decay=0.1, nesterov=True, clipvalue=3.0), "mse")
    weight = velocity = 0.0
    model.set_weights([np.zeros([1, 1])])
    for step in range(6):
        model.train_on_batch(np.ones([4, 1]), np.ones([4, 1]))
        rate, slope = 0.1 / (1 + 0.1 * step), np.clip(2 * (weight - 1), -3, 3)
        velocity = 0.5 * velocity - rate * slope
        weight += 0.5 * velocity - rate * slope
        assert model.get_weights()[0][0, 0] == pytest.approx(weight, rel=1e-5)


def test_several_inputs_and_outputs_with_a_shared_layer():
    a, b = layers.Input((3,), name="a"), layers.Input((3,), name="b")
    shared = layers.Dense(2, name="shared")
    first, second = shared(a), shared(b)
    total = layers.Lambda(lambda both: both[0] + both[1], name="total")([first, second])
    model = models.Model(inputs=[a, b], outputs=[total, first])
    model.compile("sgd", {"total": "mse", "shared": "mae"}, loss_weights=[1.0, 0.5])
    x, y = np.ones([5, 3], "float32"), np.zeros([5, 2], "float32")
    loss, of_total, of_shared = model.test_on_batch({"a": x, "b": x}, {"total": y, "shared": y})
    assert loss == pytest.approx(of_total + 0.5 * of_shared, rel=1e-5)
    assert model.metrics_names == ["loss", "total_loss", "shared_loss"] and len(model.get_weights()) == 2
    assert model.get_layer("shared") is shared and model.get_layer(index=-1).name == "total"
    before = model.predict([x, x])[0]
    inner = layers.Input((3,))
    outer = models.Model(inner, model([inner, inner])[0])      # a model as a layer
    assert np.allclose(outer.predict(x), before) and len(outer.trainable_weights) == 2
    assert model.output_shape == [(None, 2), (None, 2)]


def test_a_clone_has_weights_of_its_own_and_may_begin_with_other_tensors():
    class Own(layers.Layer):
        def call(self, inputs):
            return inputs * 3.0

    a, b = layers.Input((4,), name="a"), layers.Input((4,), name="b")
    shared = layers.Dense(4, name="shared")
    model = models.Model([a, b], layers.add([shared(a), Own(name="own")(shared(b))]))
    x, y = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f")
    clone = models.clone_model(model)
    assert [layer.name for layer in clone.layers] == [layer.name for layer in model.layers]
    assert not set(clone.weights) & set(model.weights)
    clone.set_weights(model.get_weights())
    assert np.array_equal(clone.predict([x, y]), model.predict([x, y]))
    given = wb.constant(x), layers.Input((4,), name="c")
    other = models.clone_model(model, list(given))
    other.set_weights(model.get_weights())
    assert other.inputs[1] is given[1]
    chain = models.Sequential([layers.Dense(2, input_shape=(4,)), layers.Dropout(0.5)])
    for made in (models.clone_model(chain), models.clone_model(chain, layers.Input((4,)))):
        made.set_weights(chain.get_weights())
        assert np.array_equal(made.predict(x), chain.predict(x)) and made.weights[0] is not chain.weights[0]
    for wrong, options in ((3, {}), (chain, {"input_tensors": [a, b]}), (chain, {"input_tensors": shared(a)})):
        with pytest.raises(ValueError, match="clone_model: "):
            models.clone_model(wrong, **options)


def test_the_summary_is_a_table():
    lines = []
    classifier().summary(print_fn=lines.append)
    assert lines[3].split() == ["dense_1", "(Dense)", "(None,", "16)", "80"] and len(set(map(len, lines[:9]))) == 1
    assert lines[9:12] == ["Total params: 131", "Trainable params: 131", "Non-trainable params: 0"]


def test_a_description_makes_the_like_and_runs_no_code():
    x, _ = blobs(5)
    model = classifier(kernel_regularizer="l2", kernel_constraint="max_norm")
    again = models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    assert np.array_equal(again.predict(x), model.predict(x)) and again.to_json() == model.to_json()
    a = layers.Input((4,), name="a")
    shared = layers.Dense(4)
    wide = models.Model(a, shared(shared(a)))
    twin = models.Model.from_config(wide.get_config())
    twin.set_weights(wide.get_weights())
    assert np.array_equal(twin.predict(x), wide.predict(x)) and len(twin.layers) == 2
    by_function = models.Sequential([layers.Lambda(np.negative, input_shape=(4,))])
    with pytest.raises(errors.InvalidArgumentError, match="Lambda: its function 'negative' is not among custom_objects"):
        models.model_from_json(by_function.to_json())
    found = models.model_from_json(by_function.to_json(), {"negative": wb.negative})
    assert np.array_equal(found.predict(x), -x)
    twin = models.clone_model(by_function)
    assert np.array_equal(twin.predict(x), -x)
    told = utils.serialize_keras_object(layers.Dense(3))
    assert utils.deserialize_keras_object(told, {"Dense": layers.Dense}).units == 3


def test_weights_travel_through_a_file(tmp_path):
    x, _ = blobs(5)
    model, other = classifier(), classifier()
    model.save_weights(tmp_path / "weights.npz")
    other.load_weights(tmp_path / "weights.npz")
    assert np.array_equal(model.predict(x), other.predict(x))
    smaller = models.Sequential([layers.Dense(2, input_shape=(4,))])
    with pytest.raises(errors.InvalidArgumentError, match="has 2 layers with weights, sequential_3 1"):
        smaller.load_weights(tmp_path / "weights.npz")
    (tmp_path / "bad.npz").write_bytes(b"no file of arrays")
    with pytest.raises(errors.DataLossError, match="is not a file that save or save_weights wrote"):
        smaller.load_weights(tmp_path / "bad.npz")
    with pytest.raises(errors.NotFoundError, match="there is no file"):
        smaller.load_weights(tmp_path / "none.npz")


def test_layers_that_do_not_train_stay_and_generators_feed():
    x, y = blobs(60)
    model = classifier()
    model.layers[0].trainable = False
    model.compile("sgd", "sparse_categorical_crossentropy")
    fixed, moved = model.get_weights()[0], model.get_weights()[2]

    class Batches(utils.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return x[20 * index:20 * index + 20], y[20 * index:20 * index + 20]

    history = model.fit_generator(Batches(), epochs=2, verbose=0, validation_data=(x, y))
    assert len(history.history["val_loss"]) == 2 and np.array_equal(model.get_weights()[0], fixed)
    assert not np.array_equal(model.get_weights()[2], moved)
    whole = model.evaluate(x, y, verbose=0)
    assert model.evaluate_generator(Batches()) == pytest.approx(whole, rel=1e-5)
    assert np.allclose(model.predict_generator(iter([x[:20], x[20:]]), 2), model.predict(x), atol=1e-6)
    older = {"max_q_size": 4, "pickle_safe": True}
    assert model.fit_generator(Batches(), verbose=0, **older).epoch == [0]
    assert model.evaluate_generator(Batches(), **older) == model.evaluate_generator(Batches())
    assert model.predict_generator(iter([x[:20]]), 1, **older).shape == (20, 3)
    with pytest.raises(TypeError, match=r"fit_generator.. got an unexpected keyword argument 'nb_epoch'"):
        model.fit_generator(Batches(), nb_epoch=3)
    with pytest.raises(errors.OutOfRangeError, match="ended after 0 batches, but 1 were asked"):
        model.evaluate_generator(iter([]), 1)


def test_what_is_trained_is_settled_by_compile():
    x, _ = blobs(20)
    judge = models.Sequential([layers.Dense(3, activation="tanh", input_shape=(2,)), layers.Dense(1, activation="sigmoid")])
    judge.compile("sgd", "binary_crossentropy")
    source = layers.Input((4,))
    maker = models.Sequential([layers.Dense(2, input_shape=(4,))])
    judge.trainable = False
    both = models.Model(source, judge(maker(source)))
    both.compile("sgd", "binary_crossentropy")

    def moved(step):
        before = [one.get_weights()[0] for one in (judge, maker)]
        step()
        return [not np.array_equal(one.get_weights()[0], old) for one, old in zip((judge, maker), before)]
    ones = np.ones((20, 1))
    assert moved(lambda: judge.train_on_batch(x[:, :2], ones)) == [True, False]
    assert moved(lambda: both.train_on_batch(x, ones)) == [False, True]


def test_layers_may_bring_all_of_the_loss():
    class Apart(layers.Layer):
        def call(self, inputs):
            self.add_loss(wb.reduce_mean(wb.square(inputs[0] - inputs[1])), inputs=inputs)
            return inputs[1]

    x = layers.Input((4,))
    model = models.Model(x, Apart()([x, layers.Dense(4)(x)]))
    model.compile(optimizers.SGD(0.2), None)
    found = model.fit(blobs(40)[0], epochs=40, verbose=0).history["loss"]
    assert found[-1] < 0.1 * found[0] and model.predict(blobs(3)[0]).shape == (3, 4)


def test_the_line_of_an_epoch_counts_rows_or_steps(capsys):
    for mode, count in (("samples", "60/60 - loss: 0.5000"), ("steps", "4/4 - loss: 0.5000")):
        logger = callbacks.ProgbarLogger(count_mode=mode)
        logger.set_params({"epochs": 2, "metrics": ["loss"], "samples": 60, "steps": 4})
        logger.on_epoch_begin(0)
        logger.on_epoch_end(0, {"loss": 0.5})
        assert capsys.readouterr().out == f"Epoch 1/2\n{count}\n"
    with pytest.raises(errors.InvalidArgumentError, match="Unknown `count_mode`: 'rows'; use 'samples' or 'steps'"):
        callbacks.ProgbarLogger("rows")


def test_callbacks_stop_schedule_and_see_every_event():
    x, y = blobs(60)
    model = classifier()
    model.compile("sgd", "sparse_categorical_crossentropy")
    rates, events = [], []

    def schedule(epoch):
        rates.append(epoch)
        return 0.1 / (epoch + 1)
    told = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: events.append((epoch, sorted(logs))),
                                    on_batch_end=lambda batch, logs: events.append(batch))
    model.fit(x, y, 30, 2, 0, [told, callbacks.LearningRateScheduler(schedule)])
    assert rates == [0, 1] and events == [0, 1, (0, ["loss"]), 0, 1, (1, ["loss"])]
    assert float(backend.get_value(model.optimizer.lr)) == pytest.approx(0.05)
    stopping = callbacks.EarlyStopping("loss", min_delta=100.0, patience=1)
    assert model.fit(x, y, epochs=9, verbose=0, callbacks=[stopping]).epoch == [0, 1, 2] and stopping.stopped_epoch == 2
    plateau = callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, epsilon=100.0)
    found = model.fit(x, y, epochs=3, verbose=0, callbacks=[plateau]).history["lr"]
    assert found == pytest.approx([0.05, 0.05, 0.025])
    ended = model.fit(np.full_like(x, np.nan), y, epochs=3, verbose=0, callbacks=[callbacks.TerminateOnNaN()])
    assert ended.epoch == [0]


def test_time_steps_have_weights_of_their_own_or_count_alike():
    rng = np.random.default_rng(3)
    x, y, weights = rng.normal(size=(6, 3, 2)), rng.normal(size=(6, 3, 1)), rng.uniform(size=(6, 3)) * [1, 0, 2]
    model = models.Sequential([layers.TimeDistributed(layers.Dense(1), input_shape=(3, 2))])
    model.compile("sgd", "mse", sample_weight_mode="temporal")
    wrong = ((model.predict(x) - y) ** 2)[..., 0]
    assert model.evaluate(x, y, verbose=0) == pytest.approx(wrong.mean(), rel=1e-5)
    found = model.evaluate(x, y, verbose=0, sample_weight=weights)
    assert found == pytest.approx((wrong * weights).mean() / (weights != 0).mean(), rel=1e-5)
    assert len(model.fit(x, y, epochs=2, verbose=0).epoch) == 2
    with pytest.raises(errors.InvalidArgumentError, match=r"has shape \(6,\) but rank 2 is needed"):
        model.evaluate(x, y, verbose=0, sample_weight=weights[:, 0])
    model.compile("sgd", "mse")
    with pytest.raises(errors.InvalidArgumentError, match="rank 1 is needed; compile with sample_weight_mode"):
        model.evaluate(x, y, verbose=0, sample_weight=weights)


def test_a_chain_is_built_already_and_trains_for_ten_passes():
    x, y = blobs(20)
    model = classifier()
    model.build()
    model.build((None, *model.inputs[0].shape.as_list()[1:]))
    with pytest.raises(wb.errors.ShapeError, match="its first layer takes"):
        model.build((None, 77, 3))
    model.compile("sgd", "sparse_categorical_crossentropy")
    assert model.built and model.fit(x, y, verbose=0).epoch == list(range(10))
    assert models.Model(model.inputs, model.outputs).fit.__func__ is not type(model).fit
    with pytest.raises(TypeError, match="model is empty"):
        models.Sequential().build()


@pytest.mark.parametrize(("use", "text"), [
    (lambda: models.Sequential([layers.Dense(3)]), "dense_1 says no shape; The first layer"),
    (lambda: layers.Dense(3, activation="rellu"), "Unknown activation function: 'rellu'; the nearest names are relu"),
    (lambda: classifier().compile("adam", "msee"), "Unknown loss function: 'msee'; the nearest names are mse"),
    (lambda: classifier().compile("adamm", "mse"), "Unknown optimizer: 'adamm'; the nearest names are adam"),
    (lambda: classifier().compile("adam", None), "it has no loss to optimize"),
    (lambda: models.Model(layers.Input((2,)), layers.Input((2,))), "Graph disconnected"),
    (lambda: models.Model(wb.zeros([2, 2]), layers.Input((2,))), "was not made by a layer; begin with Input"),
    (lambda: classifier().get_layer("x"), "there is no layer 'x'; its 3 layers are dense_1, dropout_1, dense_2"),
    (lambda: classifier().set_weights([np.zeros(3)]), "1 arrays are given for 4 weights"),
    (lambda: classifier().predict(np.zeros([2, 5])),
     "expected dense_1_input to have shape (None, 4) but got array with shape (2, 5)"),
    (lambda: classifier().predict(np.ma.masked_less(np.zeros([2, 4]), 1)),
     "keras: the model's input: 8 of 8 elements are masked but a tensor has no mask"),
    (lambda: utils.to_categorical([1, 5], 3), "the classes are 1 to 5, but num_classes is 3"),
    (lambda: backend.set_floatx("int8"), "Unknown floatx type: 'int8'")])
def test_wrong_uses_are_named(use, text):
    with pytest.raises(errors.InvalidArgumentError) as error:
        use()
    assert text in str(error.value)


def test_layers_are_numbered_one_after_the_other():
    model = models.Sequential([layers.Dense(3, input_shape=(4,))])
    for layer in (layers.Dense(3), layers.BatchNormalization(), layers.Dense(2)):
        model.add(layer)
    assert [layer.name for layer in model.layers] == ["dense_1", "dense_2", "batch_normalization_1", "dense_3"]
    assert model.get_layer("dense_2").kernel.shape.as_list() == [3, 3] and backend.get_uid("dense") == 4
    backend.reset_uids()
    assert layers.Dense(1).name == "dense_1"


def test_what_is_not_understood_or_not_ready_is_said():
    with pytest.raises(TypeError, match="Dense: Keyword argument not understood: unit"):
        layers.Dense(3, unit=2)
    with pytest.raises(errors.FailedPreconditionError, match="You must compile your model before using it"):
        classifier().fit(*blobs(6))


def test_a_layer_of_ones_own_trains():
    class Scaled(layers.Layer):
        def build(self, input_shape):
            self.scale = self.add_weight("scale", [input_shape[-1]], initializer="ones")
            super().build(input_shape)

        def call(self, inputs):
            return inputs * self.scale

    model = models.Sequential([Scaled(input_shape=(2,))])
    model.compile(optimizers.SGD(0.5), "mse")
    x = np.ones([8, 2], "float32")
    for _ in range(30):
        model.train_on_batch(x, 3 * x)
    assert np.allclose(model.get_weights()[0], 3, atol=1e-2)
