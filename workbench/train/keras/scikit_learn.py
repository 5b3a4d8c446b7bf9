"""Keras models as estimators of scikit-learn: parameters that can be searched, fit, predict and score."""
from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras.models import Sequential
from workbench.train.keras.utils import to_categorical

__all__ = ["BaseWrapper", "KerasClassifier", "KerasRegressor"]


def _taken(function: Callable[..., Any]) -> set[str]:
    """The names of a function's parameters."""
    return {p.name for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


class BaseWrapper:
    """An estimator whose model `build_fn` makes and compiles: a function, an object that can be called, or, where it is None,
    the `__call__` of a subclass.

    `sk_params` are arguments of build_fn, and of the model's fit, predict, predict_classes and evaluate; what a call gives
    itself goes before them. InvalidArgumentError for a name that none of these takes.
    """

    def __init__(self, build_fn: Any = None, **sk_params: Any) -> None:
        self.build_fn, self.sk_params = build_fn, sk_params
        self.check_params(sk_params)

    @property
    def _maker(self) -> Callable[..., Any]:
        made: Any = self if self.build_fn is None else self.build_fn
        if not callable(made):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: build_fn is None and the class has no __call__; give a "
                                              "function that returns a compiled model")
        found: Callable[..., Any] = made
        return found

    def check_params(self, params: Any) -> None:
        """InvalidArgumentError for a parameter that nothing takes."""
        known = {name for function in (Sequential.fit, Sequential.predict, Sequential.predict_classes, Sequential.evaluate,
                                       self._maker) for name in _taken(function)}
        for name in params:
            if name not in known:
                raise errors.InvalidArgumentError(f"{type(self).__name__}: {name} is not a legal parameter; the methods of "
                                                  f"the model and build_fn take {', '.join(sorted(known - {'self'}))}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, copies of them where `deep`, and build_fn."""
        return {**(copy.deepcopy(self.sk_params) if deep else self.sk_params), "build_fn": self.build_fn}

    def set_params(self, **params: Any) -> BaseWrapper:
        """Give parameters other values; gives itself. InvalidArgumentError for names that nothing takes."""
        if "build_fn" in params:
            self.build_fn = params.pop("build_fn")
        self.check_params(params)
        self.sk_params.update(params)
        return self

    def filter_sk_params(self, fn: Callable[..., Any], override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Those parameters that a function takes, with what `override` says instead."""
        takes = _taken(fn)
        return {**{name: value for name, value in self.sk_params.items() if name in takes}, **(override or {})}

    def fit(self, x: Any, y: Any, **options: Any) -> Any:
        """Make a model and train it on rows `x` [n, …] and targets `y` [n] or [n, k]; gives its History."""
        self.model = self._maker(**self.filter_sk_params(self._maker))
        return self.model.fit(x, self._targets(y), **{**copy.deepcopy(self.filter_sk_params(Sequential.fit)), **options})

    def _targets(self, y: Any) -> Any:
        """Numbers of classes as rows, where the loss asks for rows."""
        name = getattr(self.model.loss, "__name__", self.model.loss)
        return to_categorical(y) if name == "categorical_crossentropy" and np.ndim(y) != 2 else y


class KerasClassifier(BaseWrapper):
    """A classifier: `classes_` are the classes that fit saw, in order."""

    def fit(self, x: Any, y: Any, **options: Any) -> Any:
        """Make a model and train it on classes `y` [n] or [n, 1], of any kind, or on rows [n, classes]; gives its History.

        InvalidArgumentError for another shape.
        """
        y = np.array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim in (1, 2):
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        else:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: Invalid shape for y: {y.shape}; give [n] or "
                                              "[n, classes]")
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **options)

    def predict(self, x: Any, **options: Any) -> np.ndarray:
        """The class of each row."""
        found: np.ndarray = self.classes_[self.model.predict_classes(
            x, **self.filter_sk_params(Sequential.predict_classes, options))]
        return found

    def predict_proba(self, x: Any, **options: Any) -> np.ndarray:
        """The probability of each class, [n, classes], of two where the model gives one number."""
        found: np.ndarray = self.model.predict_proba(x, **self.filter_sk_params(Sequential.predict_proba, options))
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def score(self, x: Any, y: Any, **options: Any) -> float:
        """The share of rows whose class is right. InvalidArgumentError where the model does not measure accuracy."""
        y = np.array(y)
        numbers = y if y.ndim == 2 and y.shape[1] > 1 else np.searchsorted(self.classes_, y)
        found = self.model.evaluate(x, self._targets(numbers), **self.filter_sk_params(Sequential.evaluate, options))
        measured = dict(zip(self.model.metrics_names, found if isinstance(found, list) else [found]))
        if "acc" not in measured:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: The model is not configured to compute accuracy, it "
                                              f"measures {', '.join(measured)}; pass metrics=['accuracy'] to its compile")
        return float(measured["acc"])


class KerasRegressor(BaseWrapper):
    """A regressor: numbers for rows; the score is the loss with its sign turned, so that more is better."""

    def predict(self, x: Any, **options: Any) -> np.ndarray:
        """The number of each row, [n], or numbers [n, k]."""
        return np.squeeze(self.model.predict(x, **self.filter_sk_params(Sequential.predict, options)))

    def score(self, x: Any, y: Any, **options: Any) -> float:
        """The loss for rows and targets, less than 0 the further off."""
        found = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, options))
        return -float(found[0] if isinstance(found, list) else found)
