"""Twins of what makes, shapes, cuts and rearranges tensors."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant, constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.formats.twins import OURS, Node, exports, imports, rows
from workbench.formats.values import attr, tensor_proto

__all__: list[str] = []

INT32 = as_dtype("int32")

rows("""
    axis_at FloorMod axis rank | T:axis
    identity Identity x | T:x
    reverse_along ReverseV2 x axis | T:x Tidx:axis
""", read=False)      # `state` imports Identity
rows("""
    bitcast Bitcast input | T:input type=dtype
    stop_gradient StopGradient x | T:x
    no_op NoOp
    ones_like OnesLike x | T:x
    shape Shape x | T:x out_type=out_type
    size Size x | T:x out_type=out_type
    rank Rank x | T:x
    reshape Reshape x shape | T:x Tshape:shape
    stack Pack *values | T:values N#values axis=axis
    broadcast_to BroadcastTo x shape | T:x Tidx:shape
    gather GatherV2 params indices axis! | Tparams:params Tindices:indices Taxis:axis
    gather_nd GatherNd params indices | Tparams:params Tindices:indices
    scatter_nd ScatterNd indices updates shape | T:updates Tindices:indices
    tensor_scatter_update TensorScatterUpdate tensor indices updates | T:tensor Tindices:indices
    slice Slice x begin size | T:x Index:begin
    fill Fill dims value | T:value index_type:dims
    tile Tile x multiples | T:x Tmultiples:multiples
    range Range start limit delta | Tidx:start
    diag Diag x | T:x
    diag_part DiagPart x | T:x
    matrix_band_part MatrixBandPart x num_lower num_upper | T:x Tindex:num_lower
    linspace LinSpace start stop num | T:start Tidx:num
    reverse ReverseV2 x axis! | T:x Tidx:axis
    reverse_sequence ReverseSequence x seq_lengths | T:x Tlen:seq_lengths seq_dim=seq_axis batch_dim=batch_axis
    dynamic_partition DynamicPartition data partitions | T:data num_partitions=num_partitions
    list_diff ListDiff x y | T:x out_idx=dtype
""")
rows("""
    identity Snapshot x | T:x
    stop_gradient PreventGradient x | T:x
    gather Gather params indices | Tparams:params Tindices:indices
""", write=False)


@imports("PlaceholderWithDefault")
def _(node: Node) -> Any:
    return ops.placeholder_with_default(node.inputs[0], shape=node.needed("shape"), name=node.exact)


@exports("placeholder_with_default")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "PlaceholderWithDefault", [writer.ref(op.inputs[0])], {
        "dtype": attr("type", op.inputs[0].dtype), "shape": attr("shape", op.attrs["shape"])})


@exports("identity_together")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "IdentityN", [writer.ref(t) for t in op.inputs], {"T": attr("list(type)", [t.dtype for t in op.inputs])})


@imports("IdentityN", "ShapeN")
def _(node: Node) -> Any:
    if node.proto.op == "ShapeN":
        return [ops.shape(t, node.attr("out_type", INT32)) for t in node.inputs]
    if node.attr(OURS) == "tensor_array_place":
        handle, index, flow = node.inputs
        place = ops.tensor_array_place(handle, index, flow, dynamic=node.needed("_dynamic"))
        return ops.identity(handle), place, ops.identity(flow)
    return ops.identity_together(node.inputs, name=node.exact)


@exports("constant")
def _(writer: Any, op: Operation) -> None:
    dtype = op.attrs["dtype"]
    value = tensor_proto(op.attrs["value"], dtype)
    writer.node(op, "Const", [], {"dtype": attr("type", dtype), "value": attr("tensor", value)})


@imports("Const", "HostConst")
def _(node: Node) -> Any:
    value, dtype = node.needed("value"), node.needed("dtype")
    return constant(value, dtype, name=node.exact)


@exports("placeholder")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Placeholder", [], {"dtype": attr("type", op.attrs["dtype"]), "shape": attr("shape", op.attrs["shape"])})


@imports("Placeholder", "PlaceholderV2")
def _(node: Node) -> Any:
    shape = node.attr("shape")
    known = shape is not None and (node.proto.op == "PlaceholderV2" or shape.rank != 0 or _since_scalars(node))
    return ops.placeholder(dtype=node.needed("dtype"), shape=shape if known else None, name=node.exact)


def _since_scalars(node: Node) -> bool:
    """Before version 23 of GraphDef a placeholder of unknown shape was written as one of shape []."""
    return node.producer >= 23


@imports("ExpandDims")
def _(node: Node) -> Any:
    return ops.expand_dims(node.inputs[0], axis=_whole(node.inputs[1]), name=node.exact)


@exports("where_indices")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Where", [writer.ref(op.inputs[0])], {"T": attr("type", op.inputs[0].dtype)})


@imports("Where")
def _(node: Node) -> Any:
    return ops.where(node.inputs[0], name=node.exact)      # of numbers those that are not 0


def _whole(tensor: Any) -> Any:
    """The one number of a constant, which may be a vector of one; another tensor as it is."""
    value = constant_value(tensor)
    return tensor if value is None else int(value.reshape(-1)[0]) if value.size == 1 else value.tolist()


@exports("expand_dims")
def _(writer: Any, op: Operation) -> None:
    axes = np.atleast_1d(op.attrs["axis"])
    if not axes.size:
        writer.node(op, "Identity", [writer.ref(op.inputs[0])], {"T": attr("type", op.inputs[0].dtype)})
        return
    kind = {"T": attr("type", op.inputs[0].dtype), "Tdim": attr("type", INT32)}
    rank = op.outputs[0].shape.rank
    if len(axes) > 1:      # one after the other: from the front those counted from there, from the end the others
        axes = np.asarray(sorted((int(a) % rank if rank is not None else int(a) for a in axes), key=lambda a: (a < 0, abs(a))))
    text = writer.ref(op.inputs[0])
    for axis in axes[:-1]:
        text = writer.aux(op, "ExpandDims", [text, writer.constant(op, "dim", np.int32(axis))], kind)
    writer.node(op, "ExpandDims", [text, writer.constant(op, "dim", np.int32(axes[-1]))], kind)


@exports("squeeze")
def _(writer: Any, op: Operation) -> None:
    axis = op.attrs["axis"]
    axes = [] if axis is None else np.atleast_1d(axis).tolist()
    writer.node(op, "Squeeze", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.inputs[0].dtype), "squeeze_dims": attr("list(i)", axes)})


@imports("Squeeze")
def _(node: Node) -> Any:
    axis = node.attr("squeeze_dims") or None
    return ops.squeeze(node.inputs[0], axis=axis, name=node.exact)


@exports("checked_indices")
def _(writer: Any, op: Operation) -> None:
    """What gathers there checks for itself."""
    writer.node(op, "Identity", [writer.ref(op.inputs[0])], {"T": attr("type", op.inputs[0].dtype)})


@exports("split")
def _(writer: Any, op: Operation) -> None:
    sizes, text = op.attrs["num_or_size_splits"], writer.ref(op.inputs[0])
    axis = writer.constant(op, "split_dim", np.int32(op.attrs["axis"]))
    kind = {"T": attr("type", op.inputs[0].dtype), "num_split": attr("i", len(op.outputs))}
    if isinstance(sizes, int):
        writer.node(op, "Split", [axis, text], kind)
    else:
        lengths = writer.constant(op, "size_splits", np.asarray(sizes, np.int32))
        writer.node(op, "SplitV", [text, lengths, axis], {**kind, "Tlen": attr("type", INT32)})


@imports("Split", "SplitV")
def _(node: Node) -> Any:
    count = node.needed("num_split")
    value, sizes, axis = (node.inputs[1], count, node.inputs[0]) if node.proto.op == "Split" else node.inputs
    known = sizes if isinstance(sizes, int) else constant_value(sizes)
    if known is None:
        raise errors.UnimplementedError(f"{node.where}: the sizes are known only at run time; use dynamic slices")
    return ops.split(value, known if isinstance(known, int) else known.tolist(), axis=axis, name=node.exact)


@exports("unstack")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Unpack", [writer.ref(op.inputs[0])], {
        "T": attr("type", op.inputs[0].dtype), "num": attr("i", len(op.outputs)), "axis": attr("i", op.attrs["axis"])})


@imports("Unpack")
def _(node: Node) -> Any:
    return ops.unstack(node.inputs[0], num=node.needed("num"), axis=node.attr("axis", 0), name=node.exact)


@exports("concat")
def _(writer: Any, op: Operation) -> None:
    texts, kind = [writer.ref(t) for t in op.inputs], {"T": attr("type", op.outputs[0].dtype)}
    if len(texts) == 1:      # TensorFlow joins at least two
        writer.node(op, "Identity", texts, kind)
        return
    axis = writer.constant(op, "axis", np.int32(op.attrs["axis"]))
    writer.node(op, "ConcatV2", [*texts, axis], {**kind, "N": attr("i", len(texts)), "Tidx": attr("type", INT32)})


@imports("ConcatV2")
def _(node: Node) -> Any:
    return ops.concat(node.inputs[:-1], axis=node.inputs[-1], name=node.exact)


@imports("Concat")
def _(node: Node) -> Any:
    return ops.concat(node.inputs[1:], axis=node.inputs[0], name=node.exact)


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@exports("strided_slice", "strided_slice_grad")
def _(writer: Any, op: Operation) -> None:
    grad = op.kind == "strided_slice_grad"
    attrs = {"T": attr("type", op.outputs[0].dtype), "Index": attr("type", op.inputs[1].dtype)}
    writer.node(op, "StridedSliceGrad" if grad else "StridedSlice", [writer.ref(t) for t in op.inputs],
                attrs | {mask: attr("i", op.attrs[mask]) for mask in _MASKS})


@imports("StridedSlice", "StridedSliceGrad")
def _(node: Node) -> Any:
    kind = "strided_slice_grad" if node.proto.op.endswith("Grad") else "strided_slice"
    return raw(kind)(*node.inputs, **{mask: node.attr(mask, 0) for mask in _MASKS}, name=node.exact)


@exports("pad")
def _(writer: Any, op: Operation) -> None:
    x, paddings = op.inputs
    texts = [writer.ref(x), writer.ref(paddings)]
    kind = {"T": attr("type", x.dtype), "Tpaddings": attr("type", paddings.dtype)}
    mode, filler = str(op.attrs["mode"]).upper(), op.attrs["constant_values"]
    if mode != "CONSTANT":
        writer.node(op, "MirrorPad", texts, {**kind, "mode": attr("s", mode)})
    elif filler:
        value = writer.constant(op, "constant_values", np.asarray(filler, x.dtype.numpy), x.dtype)
        writer.node(op, "PadV2", [*texts, value], kind)
    else:
        writer.node(op, "Pad", texts, kind)


@imports("Pad", "PadV2", "MirrorPad")
def _(node: Node) -> Any:
    options: dict[str, Any] = {"mode": node.needed("mode")} if node.proto.op == "MirrorPad" else {}
    if node.proto.op == "PadV2":
        options["constant_values"] = node.inputs[2]
    return ops.pad(*node.inputs[:2], **options, name=node.exact)


@exports("select")
def _(writer: Any, op: Operation) -> None:
    shapes = [t.shape for t in op.inputs]
    alike = shapes[0].known and shapes[0] == shapes[1] == shapes[2]
    kind = "Select" if alike else "SelectV2"      # the latter broadcasts
    writer.node(op, kind, [writer.ref(t) for t in op.inputs], {"T": attr("type", op.outputs[0].dtype)})


@imports("Select", "SelectV2")
def _(node: Node) -> Any:
    choose = ops.where if node.proto.op == "Select" else ops.select
    return choose(*node.inputs, name=node.exact)


@exports("one_hot")
def _(writer: Any, op: Operation) -> None:
    dtype = op.attrs["dtype"]
    values = [writer.constant(op, "depth", np.int32(op.attrs["depth"]))]
    values += [writer.constant(op, key, np.asarray(op.attrs[key], dtype.numpy), dtype) for key in ("on_value", "off_value")]
    writer.node(op, "OneHot", [writer.ref(op.inputs[0]), *values], {
        "T": attr("type", dtype), "TI": attr("type", op.inputs[0].dtype), "axis": attr("i", op.attrs["axis"])})


@imports("OneHot")
def _(node: Node) -> Any:
    indices, depth, on, off = node.inputs
    return ops.one_hot(indices, depth, on, off, axis=node.attr("axis", -1), dtype=on.dtype, name=node.exact)


@exports("dynamic_stitch")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "DynamicStitch", [writer.ref(t) for t in op.inputs], {
        "N": attr("i", len(op.inputs) // 2), "T": attr("type", op.attrs["dtype"])})


@imports("DynamicStitch", "ParallelDynamicStitch")
def _(node: Node) -> Any:
    count = len(node.inputs) // 2
    return ops.dynamic_stitch(node.inputs[:count], node.inputs[count:], name=node.exact)


@imports("Unique", "UniqueWithCounts")
def _(node: Node) -> Any:
    unique = ops.unique if node.proto.op == "Unique" else ops.unique_with_counts
    return tuple(unique(node.inputs[0], node.attr("out_idx", INT32)))


@exports("unique_positions")
def _(writer: Any, op: Operation) -> None:
    """The first occurrences: where elements repeat, a stitch keeps the last, and so the first of the positions backwards."""
    x = op.inputs[0]
    name = writer.aux(op, "Unique", [writer.ref(x)], {"T": attr("type", x.dtype), "out_idx": attr("type", INT32)})
    kind = {"T": attr("type", INT32)}
    size = writer.aux(op, "Size", [writer.ref(x)], {"T": attr("type", x.dtype), "out_type": attr("type", INT32)})
    bounds = [writer.constant(op, "start", np.int32(0)), size, writer.constant(op, "delta", np.int32(1))]
    places = writer.aux(op, "Range", bounds, {"Tidx": attr("type", INT32)})
    axis, turned = writer.constant(op, "axis", np.asarray([0], np.int32)), {**kind, "Tidx": attr("type", INT32)}
    backwards = [writer.aux(op, "ReverseV2", [text, axis], turned) for text in (f"{name}:1", places)]
    writer.node(op, "DynamicStitch", backwards, {**kind, "N": attr("i", 1)})
    writer.rename(op.outputs[1], f"{name}:1")


@exports("fold_tiles")
def _(writer: Any, op: Operation) -> None:
    """dy with two axes for each of its own, the first of them summed over."""
    dy, multiples, shape = op.inputs
    rank = dy.shape.rank if dy.shape.rank is not None else multiples.shape.num_elements()
    if rank is None:
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} folds a tensor of unknown rank; set its shape")
    kind, index = {"T": attr("type", dy.dtype)}, {"T": attr("type", INT32)}
    texts = [writer.ref(t) if t.dtype is INT32 else writer.aux(op, "Cast", [writer.ref(t)], {
        "SrcT": attr("type", t.dtype), "DstT": attr("type", INT32)}) for t in (multiples, shape)]
    pairs = writer.aux(op, "Pack", texts, {**index, "N": attr("i", 2), "axis": attr("i", 1)})
    flat = writer.constant(op, "flat", np.asarray([-1], np.int32))
    dims = writer.aux(op, "Reshape", [pairs, flat], {**index, "Tshape": attr("type", INT32)})
    apart = writer.aux(op, "Reshape", [writer.ref(dy), dims], {**kind, "Tshape": attr("type", INT32)})
    axes = writer.constant(op, "reduction_indices", 2 * np.arange(rank, dtype=np.int32))
    writer.node(op, "Sum", [apart, axes], {**kind, "Tidx": attr("type", INT32), "keep_dims": attr("b", False)})


rows("pad_mirror_grad MirrorPadGrad dy paddings | T:dy Tpaddings:paddings mode=mode", read=False)


# sparse tensors

rows("""
    sparse_fill SparseToDense indices shape values default | T:values Tindices:indices validate_indices=validate_indices
    sparse_matmul SparseTensorDenseMatMul indices values shape b | T:values
    sparse_reshape SparseReshape indices shape new_shape
    edit_distances EditDistance a_indices a_values a_shape b_indices b_values b_shape | T:a_values normalize=normalize
""")


@imports("SparseToDense")
def _(node: Node) -> Any:
    indices, shape, values, default = node.inputs
    return ops.sparse_to_dense(indices, shape, values, default, node.attr("validate_indices", True))


# blocks of space

@imports("SpaceToBatchND", "BatchToSpaceND", "SpaceToDepth", "DepthToSpace")
def _(node: Node) -> Any:
    if node.proto.op in ("SpaceToDepth", "DepthToSpace"):
        if node.attr("data_format", "NHWC") != "NHWC":
            raise errors.UnimplementedError(f"{node.where}: data_format {node.attr('data_format')} is not offered; use NHWC")
        move = ops.space_to_depth if node.proto.op == "SpaceToDepth" else ops.depth_to_space
        return move(node.inputs[0], node.needed("block_size"), name=node.exact)
    move = ops.space_to_batch_nd if node.proto.op == "SpaceToBatchND" else ops.batch_to_space_nd
    return move(*node.inputs, name=node.exact)
