"""Keras's files: models that are saved, and callbacks that write."""
from __future__ import annotations

import csv
import zipfile

import numpy as np
import pytest

from workbench import errors
from workbench.train.keras import backend, callbacks, file_callbacks, layers, losses, models, optimizers
from workbench.train.optimizers.rules import GradientDescentOptimizer
from workbench.train.saving.events import summary_iterator

pytestmark = pytest.mark.usefixtures("keras_session")


def data(count=24):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, 4)).astype("float32")
    return x, x @ rng.normal(size=(4, 2)).astype("float32")


def net(loss="mse", optimizer="adam", **options):
    model = models.Sequential([layers.Dense(5, activation="tanh", input_shape=(4,)), layers.Dense(2, name="end")])
    model.compile(optimizer, loss, **options)
    return model


def twisted(y_true, y_pred):
    return losses.mse(y_true, y_pred) + 1.0


def test_a_saved_model_goes_on_where_it_was(tmp_path):
    x, y = data()
    model, path = net(twisted, metrics=["mae"]), tmp_path / "model.npz"
    model.fit(x, y, epochs=2, verbose=0, shuffle=False)
    model.save(path)
    again = models.load_model(path, {"twisted": twisted})
    assert np.array_equal(again.predict(x), model.predict(x)) and again.metrics_names == ["loss", "mean_absolute_error"]
    told = [one.fit(x, y, epochs=3, verbose=0, shuffle=False).history["loss"] for one in (model, again)]
    assert told[0] == pytest.approx(told[1], rel=1e-5)
    assert float(backend.get_value(again.optimizer.iterations)) == 5
    with pytest.raises(errors.InvalidArgumentError, match="Unknown loss function: 'twisted'"):
        models.load_model(path)
    with pytest.raises(errors.AlreadyExistsError, match="pass overwrite=True"):
        model.save(path, overwrite=False)


def test_how_a_model_trains_is_left_out_where_it_is_not_known(tmp_path):
    x, _ = data()
    model, path = net(), str(tmp_path / "model.npz")
    models.save_model(model, path, include_optimizer=False)
    with pytest.warns(UserWarning, match="does not say how the model trains; call compile"):
        assert models.load_model(path).total_loss is None
    assert np.array_equal(models.load_model(path, compile=False).predict(x), model.predict(x))
    with pytest.warns(UserWarning, match="GradientDescentOptimizer has no configuration"):
        net(optimizer=GradientDescentOptimizer(0.1)).save(path)


def test_files_that_are_none_are_refused(tmp_path):
    model = net()
    model.save_weights(tmp_path / "weights.npz")
    with pytest.raises(errors.InvalidArgumentError, match="No model found in config file"):
        models.load_model(tmp_path / "weights.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "weights.npz").read_bytes()[:200])
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as file:
        file.writestr("a/b/c.txt", "no array")
    for name in ("cut.npz", "other.npz"):
        with pytest.raises(errors.DataLossError, match="is not a file that save or save_weights wrote"):
            model.load_weights(tmp_path / name)
    with pytest.raises(errors.NotFoundError, match="there is no file"):
        models.load_model(tmp_path / "none.npz")


def test_a_state_that_does_not_fit_is_told(tmp_path):
    model, path = net(), tmp_path / "model.npz"
    model.fit(*data(), verbose=0)
    model.save(path)
    arrays = dict(np.load(path))
    arrays["optimizer/1"] = np.zeros(3)
    np.savez(path, **arrays)
    with pytest.warns(UserWarning, match="the state of the optimizer .* does not fit"):
        models.load_model(path)


def test_checkpoints_are_saved_as_told(tmp_path):
    x, y = data()
    model = net(optimizer=optimizers.SGD(0.05))
    every = file_callbacks.ModelCheckpoint(str(tmp_path / "{epoch:02d}.npz"), save_weights_only=True, period=2)
    best = file_callbacks.ModelCheckpoint(tmp_path / "best.npz", monitor="loss", save_best_only=True, verbose=1)
    worsens = callbacks.LearningRateScheduler(lambda epoch: 0.05 if epoch < 3 else 50.0)
    model.fit(x, y, epochs=4, verbose=0, shuffle=False, callbacks=[every, best, worsens])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01.npz", "03.npz", "best.npz"]
    assert best.best < 3 and models.load_model(tmp_path / "best.npz").evaluate(x, y, verbose=0) < 1e3
    net().load_weights(tmp_path / "03.npz")
    with pytest.raises(errors.InvalidArgumentError, match="names 'val_acc', which is not measured; there are epoch, loss"):
        model.fit(x, y, verbose=0, callbacks=[file_callbacks.ModelCheckpoint("{val_acc}.npz")])


def test_lines_of_a_training(tmp_path):
    x, y = data()
    path = tmp_path / "log.csv"
    model = net(metrics=["mae"])
    for append in (False, True):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[file_callbacks.CSVLogger(path, ";", append)])
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert [row["epoch"] for row in rows] == ["0", "1", "0", "1"]
    assert list(rows[0]) == ["epoch", "loss", "mean_absolute_error"] and all(float(row["loss"]) > 0 for row in rows)


def test_what_tensorboard_shows(tmp_path):
    x, y = data()
    model = net()
    told = file_callbacks.TensorBoard(tmp_path, histogram_freq=2, write_grads=True, write_images=True)
    model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[told])
    events = list(summary_iterator(next(tmp_path.iterdir())))
    kinds = {(event.step, value.tag): value.WhichOneof("value") for event in events for value in event.summary.value}
    assert kinds[0, "loss"] == kinds[1, "val_loss"] == "simple_value" and any(event.graph_def for event in events)
    assert kinds[0, "end/kernel_0"] == kinds[0, "end/kernel_0_grad"] == kinds[0, "end_out"] == "histo"
    assert "image" in kinds.values() and (1, "end_out") not in kinds
    with pytest.raises(errors.InvalidArgumentError, match="validation_data must be provided"):
        model.fit(x, y, verbose=0, callbacks=[told])
    told.writer.close()
