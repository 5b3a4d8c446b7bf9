"""The loops of training over arrays and generators, with their callbacks."""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.train.keras import arrays, callbacks

__all__ = ["Course", "evaluate_generator", "fit", "fit_generator", "given", "measured"]


class Course(NamedTuple):
    """How long to train, what to print, and whom to tell."""

    epochs: int
    first: int
    verbose: int
    callbacks: Sequence[callbacks.Callback]


def _told(model: Any, course: Course, held: Sequence[np.ndarray],
          **params: Any) -> tuple[callbacks.CallbackList, callbacks.History]:
    """All callbacks as one, and the history among them."""
    history = callbacks.History()
    shown = [callbacks.ProgbarLogger()] if course.verbose else []
    told = callbacks.CallbackList([callbacks.BaseLogger(), *shown, *course.callbacks, history])
    names = list(model.metrics_names)
    told.set_params({"epochs": course.epochs, "verbose": course.verbose, **params,
                     "metrics": names + [f"val_{name}" for name in names] if params["do_validation"] else names})
    told.set_model(model)
    for one in told.callbacks:
        one.validation_data = list(held)
    model.history, model.stop_training = history, False
    return told, history


def _step(model: Any, told: callbacks.CallbackList, number: int, values: Sequence[np.ndarray]) -> None:
    logs: dict[str, Any] = {"batch": number, "size": len(values[0])}
    told.on_batch_begin(number, logs)
    logs.update(zip(model.metrics_names, map(float, model.run("train", values))))
    told.on_batch_end(number, logs)


def measured(model: Any, batches: Iterable[list[np.ndarray]]) -> list[float]:
    """The loss and the metrics of batches of inputs, targets and weights."""
    return arrays.means(lambda batch: model.run("test", batch), batches)


def _validated(model: Any, found: Sequence[float]) -> dict[str, float]:
    return {f"val_{name}": value for name, value in zip(model.metrics_names, found)}


def fit(model: Any, data: Sequence[np.ndarray], held: Sequence[np.ndarray], size: int, course: Course,
        shuffle: Any) -> callbacks.History:
    """Train on the rows of arrays in batches of `size`, shuffled unless told otherwise ("batch": whole batches)."""
    count = arrays.rows(data)
    told, history = _told(model, course, held, samples=count, batch_size=size, do_validation=bool(held))
    told.on_train_begin({})
    for epoch in range(course.first, course.epochs):
        told.on_epoch_begin(epoch, {})
        order = np.arange(count)
        edges = list(arrays.batches(count, size))
        if shuffle == "batch":
            np.random.shuffle(edges)
        elif shuffle:
            np.random.shuffle(order)
        for number, (first, end) in enumerate(edges):
            _step(model, told, number, arrays.taken(data, order[first:end]))
            if model.stop_training:
                break
        logs = _validated(model, measured(model, arrays.parts(held, size))) if held else {}
        told.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    told.on_train_end({})
    return history


def given(source: Any, steps: float | None, shuffle: bool = False) -> Iterator[Any]:
    """`steps` batches of a generator, or of a Sequence, which is read by numbers and knows how many it has.

    InvalidArgumentError where nobody says how many, or there are fewer.
    """
    steps = None if steps is None else math.ceil(steps)      # programs divide numbers of rows by sizes of batches
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        order = np.arange(len(source))
        if shuffle:
            np.random.shuffle(order)
        return (source[int(number)] for number in np.resize(order, steps or len(order)))
    if steps is None:
        raise errors.InvalidArgumentError("keras: a generator does not know its end; pass the number of steps")
    return _counted(iter(source), steps)


def _counted(source: Iterator[Any], steps: int) -> Iterator[Any]:
    for number in range(steps):
        try:
            yield next(source)
        except StopIteration:
            raise errors.OutOfRangeError(f"keras: the generator ended after {number} batches, but {steps} were asked for; let "
                                         "it run on, or ask for fewer") from None


def _parts(batch: Any) -> tuple[Any, ...]:
    if not isinstance(batch, tuple) or len(batch) not in (2, 3):
        raise errors.InvalidArgumentError("keras: Output of generator should be a tuple (x, y, sample_weight) or (x, y); "
                                          "found "
                                          f"{type(batch).__name__}{f' of {len(batch)}' if isinstance(batch, tuple) else ''}")
    return batch


def evaluate_generator(model: Any, source: Any, steps: int | None) -> list[float]:
    """What the model measures of the batches: the mean by their sizes."""
    return measured(model, (model.arrays(*_parts(batch)) for batch in given(source, steps)))


def fit_generator(model: Any, source: Any, steps: int | None, course: Course, validation: Any, validation_steps: int | None,
                  class_weight: Any, shuffle: bool) -> callbacks.History:
    """Train on batches that are made one after another; one generator goes on from epoch to epoch."""
    held = model.arrays(*validation) if isinstance(validation, tuple) else []
    told, history = _told(model, course, held, steps=steps or len(source), do_validation=validation is not None)
    whole = hasattr(source, "__getitem__")
    stream: Iterable[Any] = source if whole else iter(source)
    told.on_train_begin({})
    for epoch in range(course.first, course.epochs):
        told.on_epoch_begin(epoch, {})
        for number, batch in enumerate(given(stream, steps, shuffle)):
            x, y, sample_weight = (*_parts(batch), None)[:3]
            _step(model, told, number, model.arrays(x, y, sample_weight, class_weight))
            if model.stop_training:
                break
        logs: dict[str, float] = {}
        if held:
            logs = _validated(model, measured(model, arrays.parts(held, 32)))
        elif validation is not None:
            logs = _validated(model, evaluate_generator(model, validation, validation_steps))
        told.on_epoch_end(epoch, logs)
        if whole and hasattr(source, "on_epoch_end"):
            source.on_epoch_end()
        if model.stop_training:
            break
    told.on_train_end({})
    return history
