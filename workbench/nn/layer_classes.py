"""Layers as objects: made once, called as often as wanted, with the variables of the first call."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.nn import layers, layers_1d, layers_3d
from workbench.nn.blocks import full_name
from workbench.nn.layer_base import InputSpec, Layer
from workbench.nn.scopes import VariableScope, chained, free_scope, get_variable_scope
from workbench.nn.variables import GraphKeys, Variable, get_collection

__all__ = ["AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "BatchNormalization", "Conv1D", "Conv2D",
           "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense", "Dropout", "Flatten", "Input", "InputSpec", "Layer",
           "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "SeparableConv1D", "SeparableConv2D"]


class _FunctionLayer(Layer):
    """A layer whose work a function of `layers` does."""

    _function: Callable[..., Any]
    _late: Sequence[str] = ()      # arguments of the function that a call gives, not the layer

    def __init__(self, *args: Any, **options: Any) -> None:
        own = {key: options.pop(key) for key in ("dtype", "_reuse", "_scope") if key in options}
        bound = _parameters(self._function, self._late).bind(*args, **options)
        given = dict(bound.arguments)
        bound.apply_defaults()
        super().__init__(given.pop("trainable", True), given.pop("name", None), **own)
        self._named = bound.arguments.get("name") is not None
        self._options = given
        self._by_title: dict[str, Any] = {}      # its variables by the names that it asked for, whatever a getter made of them
        for key, value in bound.arguments.items():
            if key not in ("name", "trainable"):
                setattr(self, key, value)

    def __getattr__(self, name: str) -> Any:
        """A variable by the name that the layer asked for, such as `kernel`; None for one that the layer does without."""
        if isinstance(getattr(type(self), name, None), property):
            return object.__getattribute__(self, name)      # it said why there is none
        found = vars(self).get("_by_title", {})
        if name in found or (name in _VARIABLES and found):
            return found.get(name)
        raise AttributeError(f"{type(self).__name__}: it has no {name!r}; its variables are made by its first call")

    def build(self, _input_shape: Any) -> None:
        """Make the variables, for inputs of a shape."""
        self(ops.placeholder(self.dtype or "float32", _input_shape))
        self._calls.clear()

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for `inputs`; `training` where the layer has it."""
        self._check_graph()
        x = convert(inputs, self.dtype if isinstance(inputs, (list, tuple, float, int)) else None)
        options = {**self._options, **dict(zip(self._late, args)), **kwargs}
        scope = options.pop("scope", None)
        takes = inspect.signature(self._function).parameters
        if "trainable" in takes:
            options["trainable"] = self.trainable
        if "reuse" in takes:
            options["reuse"] = True if self.built else self._reuse
        kept: dict[str, list[Any]] = {key: [] for key in (
            GraphKeys.GLOBAL_VARIABLES, GraphKeys.UPDATE_OPS, GraphKeys.REGULARIZATION_LOSSES)}
        before = {key: len(get_collection(key)) for key in kept}
        title = self._title("reuse" in takes, scope)
        with _got_by(self._variable, title if isinstance(title, VariableScope) else get_variable_scope()):
            result = type(self)._function(x, **options, name=title)
        for key, found in kept.items():
            found += get_collection(key)[before[key]:]
        self._made += kept[GraphKeys.GLOBAL_VARIABLES]
        self._updates += [(update, x) for update in kept[GraphKeys.UPDATE_OPS]]
        self._losses += [(loss, None) for loss in kept[GraphKeys.REGULARIZATION_LOSSES]]
        self._place(self._made)
        self.built, self.dtype = True, self.dtype or x.dtype
        self._calls.append((x, result))
        return result

    def _variable(self, getter: Callable[..., Any], name: str, constraint: Any = None, **options: Any) -> Any:
        """What the first call got for this name; a getter of the program is told of a constraint if there is one."""
        title = name.rpartition("/")[2]
        if title not in self._by_title:
            self._by_title[title] = getter(name, **options, **({} if constraint is None else {"constraint": constraint}))
        return self._by_title[title]

    def _title(self, has_variables: bool, scope: Any) -> Any:
        """What the function is called: the scope of the first call; at that a name, numbered where it was taken before."""
        if self._scope is not None and has_variables:
            return self._scope
        asked = self._given if scope is None else scope
        if asked is not None and (has_variables or not isinstance(asked, VariableScope)):
            return asked
        if not self._named:
            return None
        return free_scope(self._base) if has_variables and not self._reuse else self._base

    def _place(self, made: list[Variable]) -> None:
        """Where are the variables that the first call made?"""
        if made and self._scope is None:
            self._scope = VariableScope(True, full_name(made[0]).rpartition("/")[0], dtype=made[0].dtype)


@contextmanager
def _got_by(getter: Callable[..., Any], scope: VariableScope) -> Iterator[None]:
    """Within, that function gets the variables of the scope, and of those that are opened in it, by the scope's own getter."""
    before = scope.custom_getter
    scope.set_custom_getter(chained(getter, before))
    try:
        yield
    finally:
        scope.set_custom_getter(before)


_VARIABLES = ("kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance", "depthwise_kernel", "pointwise_kernel")


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
SeparableConv1D: Any = _made("SeparableConv1D", layers_1d.separable_conv1d)
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
