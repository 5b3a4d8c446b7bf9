"""Callbacks that write files: the model, a line for each epoch, and what TensorBoard shows."""
from __future__ import annotations

import csv
import os
from typing import IO, Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import Variable
from workbench.train.keras import arrays, backend
from workbench.train.keras.callbacks import Callback, Logs, Watching
from workbench.train.saving import summary

__all__ = ["CSVLogger", "ModelCheckpoint", "TensorBoard"]


class ModelCheckpoint(Watching):
    """Saves the model, or its weights alone, every `period` epochs; with `save_best_only` where a number got better.

    `filepath` may name what is known: "weights.{epoch:02d}-{val_loss:.2f}.npz", where the first epoch is 0.
    InvalidArgumentError where it names what is not measured.
    """

    def __init__(self, filepath: str, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto", period: int = 1) -> None:
        super().__init__(monitor, mode)
        self.filepath, self.verbose, self.period = os.fspath(filepath), verbose, period
        self.save_best_only, self.save_weights_only, self.epochs_since_last_save = save_best_only, save_weights_only, 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Save it."""
        self.epochs_since_last_save += 1
        if self.epochs_since_last_save < self.period:
            return
        self.epochs_since_last_save = 0
        value = self._watched(logs) if self.save_best_only else None
        if self.save_best_only and (value is None or not self._better(value)):
            self._say(f"Epoch {epoch + 1}: {self.monitor} did not improve")
            return
        try:
            path = self.filepath.format(epoch=epoch, **(logs or {}))
        except KeyError as error:
            raise errors.InvalidArgumentError(f"ModelCheckpoint: filepath {self.filepath!r} names {error}, which is not "
                                              f"measured; there are epoch, {', '.join(logs or {})}") from None
        self._say(f"Epoch {epoch + 1}: saving model to {path}")
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text)


class CSVLogger(Callback):
    """Writes a line for each epoch into a file: its number and what was measured, below a line of names in their order."""

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        self.filename, self.sep, self.append = filename, separator, append

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin the file; with `append` lines follow those that are there."""
        self.keys: list[str] = []
        with self._open("a" if self.append else "w"):
            pass

    def _open(self, mode: str) -> IO[str]:
        return open(self.filename, mode, newline="", encoding="utf-8")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write the line; what is missing after training was stopped is NA."""
        row = {name: f"[{', '.join(map(str, one))}]" if np.ndim(one) else one for name, one in (logs or {}).items()}
        self.keys = self.keys or sorted(row)
        with self._open("a") as file:
            writer = csv.DictWriter(file, ["epoch", *self.keys], "NA", "ignore", delimiter=self.sep)
            if not file.tell():
                writer.writeheader()
            writer.writerow({"epoch": epoch, **row})


class TensorBoard(Callback):
    """Writes event files: each epoch what was measured, at the beginning the graph.

    With `histogram_freq` every so many epochs histograms of weights and of layers' outputs over the validation data, in
    batches of `batch_size`; with `write_grads` of gradients too, and with `write_images` weights as pictures.
    """

    def __init__(self, log_dir: str = "./logs", histogram_freq: int = 0, batch_size: int = 32, write_graph: bool = True,
                 write_grads: bool = False, write_images: bool = False) -> None:
        self.log_dir, self.histogram_freq, self.batch_size = log_dir, histogram_freq, batch_size
        self.write_graph, self.write_grads, self.write_images = write_graph, write_grads, write_images
        self._step: Any = None

    def set_model(self, model: Any) -> None:
        """Open the file, and make the summaries."""
        super().set_model(model)
        with root_graph().name_scope(None):
            if self.histogram_freq and self._step is None:
                self._step = backend.Function(model.fed(), [summary.merge(self._summaries())])
        self.writer = summary.FileWriter(self.log_dir, root_graph() if self.write_graph else None)

    def _summaries(self) -> list[Any]:
        found = []
        for layer in self.model.layers:
            for weight in layer.weights:
                found += self._of_weight(weight)
            found += [summary.histogram(f"{layer.name}_out", node.outputs[0]) for node in self.model.calls_of(layer)[:1]]
        return found

    def _of_weight(self, weight: Variable) -> list[Any]:
        name = weight.name.replace(":", "_")
        found = [summary.histogram(name, weight)]
        if self.write_grads and weight.trainable:
            grad = self.model.optimizer.get_gradients(self.model.total_loss, [weight])[0]
            found.append(summary.histogram(f"{name}_grad", grad.values if isinstance(grad, IndexedSlices) else grad))
        shape = [size for size in weight.shape.as_list() if size != 1]
        if self.write_images and 1 <= len(shape) <= 3:
            found.append(summary.image(name, _pictures(weight, shape)))
        return found

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Write it. InvalidArgumentError where histograms are asked for without validation data."""
        if self._step is not None and epoch % self.histogram_freq == 0:
            if not self.validation_data:
                raise errors.InvalidArgumentError("TensorBoard: If printing histograms, validation_data must be provided, and "
                                                  "cannot be a generator; give it to fit, or leave histogram_freq 0")
            for batch in arrays.parts(self.validation_data, self.batch_size):
                self.writer.add_summary(self._step(batch)[0], epoch)
        self.writer.add_summary(summary.numbers({
            name: value for name, value in (logs or {}).items() if name not in ("batch", "size")}), epoch)
        self.writer.flush()

    def on_train_end(self, logs: Logs = None) -> None:
        """Close the file."""
        self.writer.close()


def _pictures(weight: Variable, shape: list[Any]) -> Any:
    """A weight as grey pictures [n, height, width, 1]: a matrix lies on its side, a bias is one column, and of a kernel of
    three axes the last counts the pictures."""
    value = ops.reshape(weight.value(), shape)
    if len(shape) == 3:
        return ops.expand_dims(ops.transpose(value, [2, 0, 1]), 3)
    wide = len(shape) == 2 and shape[0] > shape[1]
    return ops.expand_dims(ops.expand_dims(ops.transpose(value), 0), 3) if wide else ops.reshape(value, [1, *shape, 1, 1][:4])
