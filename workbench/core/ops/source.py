"""Where values enter a graph and pass through it unchanged: constants, placeholders, identities, finite values."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph import build
from workbench.core.graph.build import front, ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import as_shape


@op("-> ?", types="-> @dtype", shape=lambda inputs, attrs: [as_shape(attrs["value"].shape)])
def constant(*, value, dtype):
    """The same array at every step."""
    return value


@front("constant")
def _(_builder, value, dtype=None, shape=None, name=None):
    """A tensor with a fixed value: a number, a nested list or an array, as `dtype` (default: that of the value).

    `shape` arranges the values in order, and repeats the last where it holds more. Python numbers become float32,
    int32 (int64 where needed) or bool. Raises DtypeError when the value does not fit the dtype, ShapeError when it is more
    than the shape holds.
    """
    return build.constant(value, dtype, shape, name)      # a builder would make a tuple of the array, as of any attribute


def _declared(inputs, attrs):
    return [as_shape(attrs["shape"])]


@op("-> ?", types="-> @dtype", shape=_declared, context=True)
def placeholder(context, *, dtype, shape=None):
    """A value of `dtype` and `shape` that every run feeds; None stands for dimensions, or a rank, that may differ.

    A step that needs it raises InvalidArgumentError when it is not fed.
    """
    raise errors.InvalidArgumentError(
        f"placeholder {context.node!r}: it was not fed; pass feed_dict={{{context.node}: a {dtype.name} value of shape "
        f"{as_shape(shape)}}}")


def _default_fits(inputs, attrs):
    declared = as_shape(attrs["shape"])
    declared.merge(inputs[0].shape, "placeholder_with_default: shape and the default")
    return [declared]


# NOTE: stateful keeps it from being folded into its default before somebody may feed it.
@op("input? -> ?", types="T -> T", shape=_default_fits, stateful=True, view=True)
def placeholder_with_default(input, *, shape):
    """`input` unless a run feeds another value of a compatible shape."""
    return input


@placeholder_with_default.gradient
def _(node, dy):
    return dy


@op("-> ?", types="-> @dtype", shape=_declared, context=True)
def argument(context, *, dtype, shape=None):
    """A parameter of a branch or loop body; whoever runs the body supplies it."""
    raise errors.InternalError(f"argument {context.node!r}: a body ran without its arguments; please report")


@op("x[...] -> [...]", view=True)
def identity(x):
    """The same value under another name."""
    return x


@identity.gradient
def _(node, dy):
    return dy


@op("x[...] -> [...]", view=True, differentiable=False)
def stop_gradient(x):
    """The same value, a constant to `gradients`."""
    return x


@op("->", types="->")
def no_op():
    """Nothing; a place for control dependencies to meet."""
    return ()


@op("x[...] -> [...]", types="T:float -> T")      # no view: it has to look at the values
def check_numerics(x, *, message=""):
    """`x`, or InvalidArgumentError with `message` when it holds a NaN or an infinity."""
    finite = np.isfinite(x)
    if not finite.all():
        kinds = [kind for kind, found in (("Inf", np.isinf), ("NaN", np.isnan)) if found(x).any()]
        raise errors.InvalidArgumentError(f"check_numerics: {message} : Tensor had {' and '.join(kinds)} values: "
                                          f"{x.size - int(finite.sum())} of {x.size} elements; find the first operation that "
                                          "makes one")
    return np.array(x)


@check_numerics.gradient
def _(node, dy):
    return ops.check_numerics(dy, message=f"gradient of {node.attrs['message']}")
