"""Functions of TensorFlow's generated modules: `gen_nn_ops._relu_grad(dy, y)`, one for each type of operation.

A name with "_" before it is a type's, whose arguments come as the type has them; without it the public name counts first.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench.tf1 as tf
from workbench.formats.reader import create_operation
from workbench.formats.twins import importers
from workbench.formats.values import attr
from workbench.tf1.missing import Namespace

__all__ = ["Generated"]

_WINDOW = "ksize strides padding data_format"
_POSITIONAL = {      # type -> (how many inputs come first, the attributes that follow them)
    **dict.fromkeys(("MaxPool", "AvgPool"), (1, _WINDOW)), "AvgPoolGrad": (2, _WINDOW), "MaxPoolGrad": (3, _WINDOW),
    "MaxPoolGradGrad": (3, _WINDOW), "Conv2D": (2, "strides padding use_cudnn_on_gpu data_format"),
    "Conv2DBackpropInput": (3, "strides padding use_cudnn_on_gpu data_format"),
    "Conv2DBackpropFilter": (3, "strides padding use_cudnn_on_gpu data_format"),
    "LRN": (1, "depth_radius bias alpha beta"), "LRNGrad": (3, "depth_radius bias alpha beta"),
    "MatMul": (2, "transpose_a transpose_b"), "BatchMatMul": (2, "adj_x adj_y"),
    "ResizeBilinearGrad": (2, "align_corners"), "ResizeNearestNeighborGrad": (2, "align_corners"),
    **dict.fromkeys(("Sum", "Prod", "Max", "Min", "Mean", "All", "Any"), (2, "keep_dims")),
    "VarHandleOp": (0, "dtype shape container shared_name"), "ReadVariableOp": (1, "dtype"),
    "ResourceGather": (2, "dtype validate_indices"), "VariableShape": (1, "out_type")}
_UPDATES = {**dict.fromkeys(("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"), "resource value"),
            "ResourceScatterAdd": "resource indices updates"}      # operations without outputs
_INPUTS = {**_UPDATES, "ReadVariableOp": "resource", "ResourceGather": "resource indices", "VarIsInitializedOp": "resource",
           "VariableShape": "input"}
"""Type -> its inputs by name, of those that may be given so."""


def _python_name(kind: str) -> str:
    """The name of a type's function: "MaxPoolGrad" is max_pool_grad, "LRNGrad" lrn_grad, "TopKV2" top_kv2."""
    found = ""
    for place, letter in enumerate(kind):
        after = kind[place + 1:place + 2]
        if place and letter.isupper() and (kind[place - 1].islower() or after.islower()):
            found += "_"
        found += letter.lower()
    return found


def _attribute(key: str, value: Any) -> Any:
    """A Python value as an AttrValue."""
    if key == "shape":
        return attr("shape", tf.TensorShape(value))
    if isinstance(value, (list, tuple)):
        return attr(f"list({_kind(value[0]) if value else 'i'})", value)
    return attr(_kind(value), value)


def _kind(value: Any) -> str:
    kinds = ((bool, "b"), (int, "i"), (np.integer, "i"), (float, "f"), (np.floating, "f"), (str, "s"), (bytes, "s"),
             (tf.TensorShape, "shape"))
    return next((kind for form, kind in kinds if isinstance(value, form)), "type")


def _flat(values: tuple[Any, ...]) -> list[Any]:
    return [one for value in values for one in (value if isinstance(value, (list, tuple)) and value and isinstance(
        value[0], tf.Tensor) else [value])]


def _function(kind: str) -> Callable[..., Any]:
    def make(*args: Any, name: str | None = None, **attrs: Any) -> Any:
        named = [attrs.pop(key) for key in _INPUTS.get(kind, "").split()[len(args):] if key in attrs]
        args = (*args, *named)
        count, order = _POSITIONAL.get(kind, (len(args), ""))
        attrs.update(zip(order.split(), args[count:]))
        made = create_operation(tf.get_default_graph(), kind, _flat(args[:count]), name, {
            key: _attribute(key, value) for key, value in attrs.items() if value is not None})
        if kind in _UPDATES:
            return made
        return made.outputs[0] if len(made.outputs) == 1 else list(made.outputs) or made
    make.__name__ = make.__qualname__ = _python_name(kind)
    make.__doc__ = f"Add one operation of type {kind}: its inputs in order, its attributes by name."
    return make


class Generated(Namespace):
    """A generated module: the names given, and a function for each type of operation that is read."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        plain = name.removeprefix("_")
        kind = next((kind for kind in importers if _python_name(kind) == plain), None)
        if kind is not None:
            return _function(kind)
        if plain in vars(self):
            return vars(self)[plain]
        return super().__getattr__(name)
