"""Callbacks: what is told of training as it goes on, and may change or stop it."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras import backend

__all__ = ["BaseLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback", "LearningRateScheduler",
           "ProgbarLogger", "ReduceLROnPlateau", "TerminateOnNaN"]

Logs = Mapping[str, Any] | None


class Callback:
    """Base: `model`, `params` and `validation_data` are set, and a method is called at each event, with what was measured."""

    model: Any = None
    validation_data: Sequence[np.ndarray] = ()      # inputs, targets and weights
    params: Mapping[str, Any] = {}

    def set_params(self, params: Mapping[str, Any]) -> None:
        """How long the training is, and what it measures."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """The model that is trained."""
        self.model = model

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Before a pass over the data."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """After a pass over the data, and its validation."""

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Before a step."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """After a step."""

    def on_train_begin(self, logs: Logs = None) -> None:
        """Before all."""

    def on_train_end(self, logs: Logs = None) -> None:
        """After all."""


class CallbackList(Callback):
    """Several callbacks as one, told in their order."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = list(callbacks)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Pass it on."""
        for one in self.callbacks:
            one.set_params(params)

    def set_model(self, model: Any) -> None:
        """Pass it on."""
        for one in self.callbacks:
            one.set_model(model)


def _passed_on(event: str) -> Callable[..., None]:
    def tell(self: CallbackList, *args: Any) -> None:
        for one in self.callbacks:
            getattr(one, event)(*args)
    tell.__name__, tell.__doc__ = event, "Pass it on."
    return tell


for _event in ("on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end", "on_train_begin", "on_train_end"):
    setattr(CallbackList, _event, _passed_on(_event))


class BaseLogger(Callback):
    """Puts the means over an epoch, by the sizes of its batches, into the logs."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Begin sums."""
        self._rows, self._sums = 0, dict.fromkeys(self.params["metrics"], 0.0)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Add a batch."""
        rows = (logs or {}).get("size", 0)
        self._rows += rows
        for name, value in (logs or {}).items():
            if name in self._sums:
                self._sums[name] += value * rows

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The means."""
        logs.update({name: total / max(self._rows, 1) for name, total in self._sums.items()
                     if name not in logs and not name.startswith("val_")})


class History(Callback):
    """Keeps what every epoch measured: `history` has a list for each name, `epoch` their numbers."""

    def on_train_begin(self, logs: Logs = None) -> None:
        """Nothing yet."""
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Keep it."""
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class ProgbarLogger(Callback):
    """Prints a line for each epoch: its number, and what it measured; `count_mode` "samples" or "steps" says what it counts."""

    def __init__(self, count_mode: str = "samples") -> None:
        if count_mode not in ("samples", "steps"):
            raise errors.InvalidArgumentError(f"ProgbarLogger: Unknown `count_mode`: {count_mode!r}; use 'samples' or 'steps'")
        self._counted = count_mode

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Print its number."""
        print(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Print what it measured."""
        count = self.params.get(self._counted) or self.params.get("samples") or self.params.get("steps")
        print(" - ".join([f"{count}/{count}", *(f"{name}: {(logs or {})[name]:.4f}" for name in self.params["metrics"]
                                              if name in (logs or {}))]))


class TerminateOnNaN(Callback):
    """Stops training where a loss is no number."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Look at the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class LambdaCallback(Callback):
    """Functions as events: on_epoch_begin, on_epoch_end, on_batch_begin, on_batch_end, on_train_begin, on_train_end."""

    def __init__(self, on_epoch_begin: Any = None, on_epoch_end: Any = None, on_batch_begin: Any = None,
                 on_batch_end: Any = None, on_train_begin: Any = None, on_train_end: Any = None) -> None:
        for name, function in {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_batch_begin": on_batch_begin,
                               "on_batch_end": on_batch_end, "on_train_begin": on_train_begin,
                               "on_train_end": on_train_end}.items():
            if function is not None:
                setattr(self, name, function)


class Watching(Callback):
    """Base of what waits for a number to get better: `mode` is min, max or auto, which reads it off the name."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: mode is {mode!r}; use 'auto', 'min' or 'max'")
        up = mode == "max" or (mode == "auto" and ("acc" in monitor or monitor.startswith("fmeasure")))
        self.monitor, self.mode, self.min_delta, self._sign = monitor, mode, abs(min_delta), 1.0 if up else -1.0
        self.best = -self._sign * np.inf

    def _better(self, value: float) -> bool:
        """Is it better than the best so far, by more than min_delta? Then it is the best."""
        better = bool(self._sign * (value - self.best) > self.min_delta)
        if better:
            self.best = value
        return better

    def _watched(self, logs: Logs) -> Any:
        """The number, None where it is not measured, which is said."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            print(f"{type(self).__name__}: {self.monitor} is not measured; there are {', '.join(logs or {})}")
        return value


class EarlyStopping(Watching):
    """Stops after `patience` epochs in which the number did not get better."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto") -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose = patience, verbose

    def on_train_begin(self, logs: Logs = None) -> None:
        """Nothing seen yet."""
        self.wait = self.stopped_epoch = 0
        self.best = -self._sign * np.inf

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Count epochs that were no better."""
        value = self._watched(logs)
        if value is None:
            return
        if self._better(value):
            self.wait = 0
            return
        if self.wait >= self.patience:
            self.stopped_epoch, self.model.stop_training = epoch, True
        self.wait += 1

    def on_train_end(self, logs: Logs = None) -> None:
        """Say where it stopped."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch + 1}: early stopping")


class LearningRateScheduler(Callback):
    """Sets the rate of each epoch to what a function of its number, from 0, returns."""

    def __init__(self, schedule: Callable[[int], float]) -> None:
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Set it. InvalidArgumentError where the function returns no number."""
        rate = self.schedule(epoch)
        if not isinstance(rate, (float, int, np.floating)):
            raise errors.InvalidArgumentError(f"LearningRateScheduler: schedule({epoch}) returned {rate!r}; return a float")
        _set_rate(self.model, float(rate))


class ReduceLROnPlateau(Watching):
    """Multiplies the rate by `factor` after `patience` epochs without a better number, down to `min_lr`."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0, mode: str = "auto",
                 epsilon: float = 1e-4, cooldown: int = 0, min_lr: float = 0) -> None:
        if factor >= 1:
            raise errors.InvalidArgumentError(f"ReduceLROnPlateau: factor is {factor}; it does not support a factor >= 1.0")
        super().__init__(monitor, mode, epsilon)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr

    def on_train_begin(self, logs: Logs = None) -> None:
        """Nothing seen yet."""
        self.wait = self.cooldown_counter = 0
        self.best = -self._sign * np.inf

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count epochs that were no better."""
        rate = _rate(self.model)
        logs["lr"] = rate
        value = self._watched(logs)
        if value is None:
            return
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.wait = 0
        if self._better(value):
            self.wait = 0
        elif not self.cooldown_counter:
            if self.wait >= self.patience and rate > self.min_lr:
                _set_rate(self.model, max(rate * self.factor, self.min_lr))
                self.cooldown_counter, self.wait = self.cooldown, 0
                if self.verbose:
                    print(f"Epoch {epoch + 1}: reducing learning rate to {_rate(self.model):g}")
            self.wait += 1


def _lr(model: Any) -> Any:
    if not hasattr(model.optimizer, "lr"):
        raise errors.InvalidArgumentError(f"{type(model.optimizer).__name__}: Optimizer must have a \"lr\" attribute; use one "
                                          "of keras.optimizers")
    return model.optimizer.lr


def _rate(model: Any) -> float:
    return float(backend.get_value(_lr(model)))


def _set_rate(model: Any, rate: float) -> None:
    backend.set_value(_lr(model), rate)
