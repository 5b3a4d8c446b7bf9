"""Copies of tensors with other elements in places that index vectors name."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import op
from workbench.core.ops.sets import _check


@op("tensor? indices[...,d] updates? -> ?", types="T I:int T -> T", shape=lambda inputs, attrs: [inputs[0].shape])
def tensor_scatter_update(tensor, indices, updates):
    """A copy of `tensor` with the updates in the places of the index vectors; of equal places the last counts."""
    where, depth = list(indices.shape[:-1]), indices.shape[-1]
    if depth > tensor.ndim or list(updates.shape) != [*where, *tensor.shape[depth:]]:
        raise errors.ShapeError(f"tensor_scatter_update: indices of shape {list(indices.shape)} into {list(tensor.shape)} and "
                                f"updates of shape {list(updates.shape)} do not fit; updates has shape {where} and then the "
                                "axes that no index names")
    _check("tensor_scatter_update", indices, tensor.shape)
    out = np.array(tensor)
    out[tuple(np.moveaxis(indices, -1, 0))] = updates
    return out


@tensor_scatter_update.gradient
def _(node, dy):
    _, indices, updates = node.inputs
    return ops.tensor_scatter_update(dy, indices, ops.zeros_like(updates)), None, ops.gather_nd(dy, indices)
