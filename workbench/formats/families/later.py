"""Nodes that versions of TensorFlow after 1.4 write for what programs of its time ask for."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.graph import Tensor
from workbench.formats.twins import Node, imports

__all__: list[str] = []


def _main_diagonal(node: Node, place: int, padding: int | None) -> None:
    """UnimplementedError where the node is about other diagonals than the main one, or pads with other than zeros."""
    found = constant_value(node.inputs[place])
    if found is None or found.any():
        raise errors.UnimplementedError(f"{node.where}: its diagonals are {found} (None: not known) but only the main one, 0, "
                                        "is offered; take it with matrix_diag")
    value = None if padding is None else constant_value(node.inputs[padding])
    if padding is not None and (value is None or value.any()):
        raise errors.UnimplementedError(f"{node.where}: it pads with {'an unknown value' if value is None else value}; use 0")


@imports("MatrixDiagV2", "MatrixDiagV3")
def _(node: Node) -> Any:
    _main_diagonal(node, 1, 4)
    for place, what in ((2, "num_rows"), (3, "num_cols")):
        size, own = constant_value(node.inputs[place]), node.inputs[0].shape.sizes
        if size is None or (int(size) != -1 and (own is None or int(size) != own[-1])):
            raise errors.UnimplementedError(f"{node.where}: {what} is {size} but only square matrices are offered; use -1")
    return ops.matrix_diag(node.inputs[0], name=node.exact)


@imports("MatrixDiagPartV2", "MatrixDiagPartV3")
def _(node: Node) -> Any:
    _main_diagonal(node, 1, None)
    return ops.matrix_diag_part(node.inputs[0], name=node.exact)


@imports("MatrixSetDiagV2", "MatrixSetDiagV3")
def _(node: Node) -> Any:
    _main_diagonal(node, 2, None)
    return ops.matrix_set_diag(*node.inputs[:2], name=node.exact)


@imports("SegmentMean")
def _(node: Node) -> Any:
    return ops.segment_mean(*node.inputs, name=node.exact)


@imports("ClipByValue")
def _(node: Node) -> Any:
    return ops.clip_by_value(*node.inputs, name=node.exact)


@imports("AdjustContrastv2")
def _(node: Node) -> Any:
    images, factor = node.inputs
    mean = ops.reduce_mean(images, axis=[-3, -2], keepdims=True)
    return ops.add(ops.multiply(images - mean, ops.cast(factor, images.dtype)), mean, name=node.exact)


@imports("ReduceJoin")
def _(node: Node) -> Any:
    return ops.reduce_join(*node.inputs, keep_dims=node.attr("keep_dims", False), separator=node.attr("separator", b""),
                           name=node.exact)


def _cells(x: Tensor) -> list[Tensor]:
    """Indices, values and shape of a sparse tensor of all elements."""
    places = ops.where_indices(ops.fill(ops.shape(x), True))
    return [places, ops.gather_nd(x, places), ops.cast(ops.shape(x), "int64")]


@imports("DenseToDenseSetOperation", "DenseToSparseSetOperation")
def _(node: Node) -> Any:
    """Beside the checks that functions make, what `tf.sets` writes."""
    dense, *other = node.inputs
    theirs = other if len(other) == 3 else _cells(*other)
    return list(ops.set_operation(*_cells(dense), *theirs, operation=node.needed("set_operation")))
