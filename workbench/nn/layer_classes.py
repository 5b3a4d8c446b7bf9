"""Layers as objects: made once, called as often as wanted, with the variables of the first call."""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.nn import layers, layers_1d, layers_3d
from workbench.nn.scopes import VariableScope, get_variable, variable_scope
from workbench.nn.variables import GraphKeys, Variable, get_collection

__all__ = ["AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "BatchNormalization", "Conv1D", "Conv2D",
           "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense", "Dropout", "Flatten", "Input", "InputSpec", "Layer",
           "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "SeparableConv2D"]


class InputSpec:
    """What a layer takes: a dtype, a shape, a rank or its bounds, and the lengths of some axes."""

    def __init__(self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
                 min_ndim: int | None = None, axes: dict[int, int] | None = None) -> None:
        self.dtype, self.shape = dtype, shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim, self.min_ndim, self.axes = max_ndim, min_ndim, axes or {}


class Layer:
    """A base for layers of one's own: `build` makes variables with add_variable at the first call, `call` computes.

    `name` is made unique in the scope of the first call where none is given. Later calls, wherever they stand, use the same
    variables. `activity_regularizer` of the result goes to the collection REGULARIZATION_LOSSES.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, activity_regularizer: Any = None,
                 _scope: Any = None, _reuse: Any = None) -> None:
        self.trainable, self.built = trainable, False
        self.dtype = None if dtype is None else as_dtype(dtype)
        self._given, self._reuse = (name if _scope is None else _scope), _reuse
        self._activity = activity_regularizer
        self._scope: VariableScope | None = None
        self._made: list[Variable] = []
        self._updates: list[Operation] = []
        self._losses: list[Tensor] = []
        self.input: Any = None
        self.output: Any = None

    def build(self, _input_shape: Shape) -> None:
        """Make the variables, for the static shape of the first call's inputs; a subclass says which."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes; a subclass says it."""
        raise errors.UnimplementedError(f"{type(self).__name__}: it has no call(inputs); define it")

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for `inputs`, in the layer's scope."""
        again, losses = self._scope is not None, len(get_collection(GraphKeys.REGULARIZATION_LOSSES))
        with variable_scope(self._scope if again else self._given, _snake(type(self).__name__),
                            reuse=self.built or self._reuse) as scope:
            self._scope = self._scope or scope
            x = convert(inputs) if not isinstance(inputs, (list, tuple)) else [convert(i) for i in inputs]
            if not self.built:
                self.dtype = self.dtype or (x[0] if isinstance(x, list) else x).dtype
                self.build(x.shape if isinstance(x, Tensor) else [i.shape for i in x])      # type: ignore[arg-type]
                self.built = True
            self.input, self.output = x, layers._finish(self.call(x, *args, **kwargs), None, self._activity)
        self._losses += get_collection(GraphKeys.REGULARIZATION_LOSSES)[losses:]
        return self.output

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as calling it."""
        return self(inputs, *args, **kwargs)

    def add_variable(self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                     trainable: bool = True, constraint: Any = None) -> Variable:
        """A variable of the layer, for `build`."""
        made: Variable = get_variable(name, shape, dtype or self.dtype or "float32", initializer, regularizer,
                                      trainable and self.trainable, constraint=constraint)
        self._made.append(made)
        return made

    add_weight = add_variable

    def add_update(self, updates: Any) -> None:
        """Operations that a training step should wait for; they go to the collection UPDATE_OPS."""
        found = list(updates) if isinstance(updates, (list, tuple)) else [updates]
        self._updates += found
        for update in found:
            update.graph.add_to_collection(GraphKeys.UPDATE_OPS, update)

    @property
    def name(self) -> str | None:
        """Its name: the last part of its scope once it was called."""
        return self.scope_name.rpartition("/")[2] if self._scope is not None else self._given

    @property
    def scope_name(self) -> str:
        """The scope of its variables. FailedPreconditionError before the first call."""
        if self._scope is None:
            raise errors.FailedPreconditionError(f"{type(self).__name__}: it has no scope before its first call; call it")
        return self._scope.name

    @property
    def variables(self) -> list[Variable]:
        """All its variables."""
        return list(self._made)

    weights = variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimizers change."""
        return [v for v in self._made if v.trainable]

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """The others, such as moving averages."""
        return [v for v in self._made if not v.trainable]

    non_trainable_weights = non_trainable_variables

    @property
    def updates(self) -> list[Any]:
        """What a training step should wait for."""
        return list(self._updates)

    @property
    def losses(self) -> list[Tensor]:
        """The regularization losses that its calls made."""
        return list(self._losses)

    def count_params(self) -> int:
        """How many numbers its variables hold."""
        return sum(v.shape.num_elements() or 0 for v in self._made)


class _FunctionLayer(Layer):
    """A layer whose work a function of `layers` does."""

    _function: Callable[..., Any]
    _late: Sequence[str] = ()      # arguments of the function that a call gives, not the layer

    def __init__(self, *args: Any, **options: Any) -> None:
        own = {key: options.pop(key) for key in ("dtype", "_reuse", "_scope") if key in options}
        given = _parameters(self._function, self._late).bind(*args, **options).arguments
        super().__init__(given.pop("trainable", True), given.pop("name", None), **own)
        self._options = given
        for key, value in given.items():
            setattr(self, key, value)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for `inputs`; `training` where the layer has it."""
        x = convert(inputs, self.dtype if isinstance(inputs, (list, tuple, float, int)) else None)
        options = {**self._options, **dict(zip(self._late, args)), **kwargs}
        takes = inspect.signature(self._function).parameters
        if "trainable" in takes:
            options["trainable"] = self.trainable
        if "reuse" in takes:
            options["reuse"] = True if self.built else self._reuse
        title = self._scope if self._scope is not None else self._given
        if "reuse" not in takes:      # it has no variables, so no scope
            title = self._given
        kept: dict[str, list[Any]] = {GraphKeys.GLOBAL_VARIABLES: self._made, GraphKeys.UPDATE_OPS: self._updates,
                GraphKeys.REGULARIZATION_LOSSES: self._losses}
        before = {key: len(get_collection(key)) for key in kept}
        self.input, self.output = x, type(self)._function(x, **options, name=title)
        for key, found in kept.items():
            found += get_collection(key)[before[key]:]
        self._place(self._made)
        self.built = True
        return self.output

    def _place(self, made: list[Variable]) -> None:
        """Where are the variables that the first call made?"""
        if made and self._scope is None:
            self._scope = VariableScope(True, made[0].op.name.rpartition("/")[0], dtype=made[0].dtype)


def _snake(name: str) -> str:
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def _parameters(function: Callable[..., Any], late: Sequence[str]) -> inspect.Signature:
    """The parameters of a function without the inputs and what a call gives."""
    known = list(inspect.signature(function).parameters.values())[1:]
    return inspect.Signature([p for p in known if p.name not in ("reuse", *late)])


def _made(name: str, function: Callable[..., Any], *late: str) -> Any:
    """The class of a layer."""
    signature = _parameters(function, late)
    more = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    doc = f"{function.__name__} as an object; arguments are those of the function without its inputs.\n\n{function.__doc__}"
    return type(name, (_FunctionLayer,), {
        "_function": staticmethod(function), "_late": late, "__doc__": doc, "__module__": __name__,
        "__signature__": signature.replace(parameters=[*signature.parameters.values(), *more])})


AveragePooling1D: Any = _made("AveragePooling1D", layers_1d.average_pooling1d)
AveragePooling2D: Any = _made("AveragePooling2D", layers.average_pooling2d)
AveragePooling3D: Any = _made("AveragePooling3D", layers_3d.average_pooling3d)
BatchNormalization: Any = _made("BatchNormalization", layers.batch_normalization, "training")
Conv1D: Any = _made("Conv1D", layers_1d.conv1d)
Conv2D: Any = _made("Conv2D", layers.conv2d)
Conv2DTranspose: Any = _made("Conv2DTranspose", layers.conv2d_transpose)
Conv3D: Any = _made("Conv3D", layers_3d.conv3d)
Conv3DTranspose: Any = _made("Conv3DTranspose", layers_3d.conv3d_transpose)
Dense: Any = _made("Dense", layers.dense)
Dropout: Any = _made("Dropout", layers.dropout, "training")
Flatten: Any = _made("Flatten", layers.flatten)
MaxPooling1D: Any = _made("MaxPooling1D", layers_1d.max_pooling1d)
MaxPooling2D: Any = _made("MaxPooling2D", layers.max_pooling2d)
MaxPooling3D: Any = _made("MaxPooling3D", layers_3d.max_pooling3d)
SeparableConv2D: Any = _made("SeparableConv2D", layers_3d.separable_conv2d)


def Input(shape: Any = None, batch_size: int | None = None, name: str | None = None, dtype: Any = "float32",
          sparse: bool = False, tensor: Any = None) -> Tensor:
    """A placeholder of `shape` behind a batch dimension, or `tensor` itself. UnimplementedError for sparse ones: use
    sparse_placeholder."""
    if sparse:
        raise errors.UnimplementedError("Input: sparse=True is not offered; use sparse_placeholder")
    if tensor is not None:
        return convert(tensor)
    if shape is None:
        raise errors.InvalidArgumentError("Input: neither shape nor tensor is given; pass one")
    made: Tensor = ops.placeholder(as_dtype(dtype), [batch_size, *shape], name=name or "input")
    return made
