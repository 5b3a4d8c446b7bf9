"""Twins of strings, files, assertions and summaries."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops, raw
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation
from workbench.core.graph.shape import Shape
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    as_string AsString input | T:input precision=precision scientific=scientific shortest=shortest width=width fill=fill
    string_join StringJoin *inputs | N#inputs separator=separator
    string_to_number StringToNumber string_tensor | out_type=out_type
    decode_raw DecodeRaw bytes | out_type=out_type little_endian=little_endian
    matching_files MatchingFiles pattern
    read_file ReadFile filename
    write_file WriteFile filename contents
    serialize_tensor SerializeTensor tensor | T:tensor
    parse_tensor ParseTensor serialized | out_type=out_type
    merge_summary MergeSummary *values | N#values
""")
rows("string_add Add x y | T:x", read=False)      # what is read as Add may be numbers


@exports("Assert")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "Assert", [writer.ref(t) for t in op.inputs], {
        "T": attr("list(type)", [t.dtype for t in op.inputs[1:]]), "summarize": attr("i", op.attrs["summarize"] or 3)})


@imports("Assert")
def _(node: Node) -> Any:
    return ops.Assert(node.inputs[0], node.inputs[1:], summarize=node.attr("summarize", 3), name=node.exact)


@exports("print_values")
def _(writer: Any, op: Operation) -> None:
    found = op.attrs
    writer.node(op, "Print", [writer.ref(t) for t in op.inputs], {
        "T": attr("type", op.inputs[0].dtype), "U": attr("list(type)", [t.dtype for t in op.inputs[1:]]),
        "message": attr("s", found["message"] or ""),
        "first_n": attr("i", -1 if found["first_n"] is None else found["first_n"]),
        "summarize": attr("i", found["summarize"] or 3)})


@imports("Print")
def _(node: Node) -> Any:
    first = node.attr("first_n", -1)
    return raw("print_values")(node.inputs[0], node.inputs[1:], message=node.attr("message", ""),
                               first_n=None if first < 0 else first, summarize=node.attr("summarize", 3), name=node.exact)


@exports("string_split")
def _(writer: Any, op: Operation) -> None:
    delimiter = writer.constant(op, "delimiter", np.asarray(str(op.attrs["delimiter"]).encode(), object))
    writer.node(op, "StringSplit", [writer.ref(op.inputs[0]), delimiter], {"skip_empty": attr("b", op.attrs["skip_empty"])})


@imports("StringSplit")
def _(node: Node) -> Any:
    delimiter = constant_value(node.inputs[1])
    text = node.inputs[1] if delimiter is None else delimiter.item().decode()
    return list(raw("string_split")(node.inputs[0], delimiter=text, skip_empty=node.attr("skip_empty", True), name=node.exact))


_SUMMARIES = {"scalar_summary": "ScalarSummary", "histogram_summary": "HistogramSummary", "image_summary": "ImageSummary",
              "audio_summary": "AudioSummaryV2"}
_SEVERAL = ("image_summary", "audio_summary")      # with a most


def _tag(writer: Any, op: Operation) -> str:
    return str(writer.constant(op, "tag", np.asarray(str(op.attrs["tag"]).encode(), object), as_dtype("string")))


@exports(*_SUMMARIES)
def _(writer: Any, op: Operation) -> None:
    attrs = {} if op.kind == "audio_summary" else {"T": attr("type", op.inputs[0].dtype)}
    if op.kind in _SEVERAL:
        attrs["max_images" if op.kind == "image_summary" else "max_outputs"] = attr("i", op.attrs["max_outputs"])
    writer.node(op, _SUMMARIES[op.kind], [_tag(writer, op), *(writer.ref(t) for t in op.inputs)], attrs)


@imports(*_SUMMARIES.values())
def _(node: Node) -> Any:
    ours = next(name for name, theirs in _SUMMARIES.items() if theirs == node.proto.op)
    options = {"max_outputs": node.attr("max_images", None) or node.attr("max_outputs", 3)} if ours in _SEVERAL else {}
    return raw(ours)(*node.inputs[1:], tag=_known(node, 0), **options, name=node.exact)


def _known(node: Node, number: int) -> str:
    """A word that the summary's operation has as an attribute here. UnimplementedError where only the step knows it."""
    found = constant_value(node.inputs[number])
    if found is None:
        raise errors.UnimplementedError(f"import_graph_def: the tag of {node.proto.name!r} is computed by the graph; summaries "
                                        "have constant tags here")
    return str(found.item().decode())


@exports("tensor_summary")
def _(writer: Any, op: Operation) -> None:
    text = as_dtype("string")
    metadata = writer.constant(op, "metadata", np.asarray(op.attrs["metadata"], object), text)
    writer.node(op, "TensorSummaryV2", [_tag(writer, op), writer.ref(op.inputs[0]), metadata],
                {"T": attr("type", op.inputs[0].dtype)})


@imports("TensorSummaryV2")
def _(node: Node) -> Any:
    found = constant_value(node.inputs[2])
    return raw("tensor_summary")(node.inputs[1], tag=_known(node, 0), metadata=b"" if found is None else found.item(),
                                 name=node.exact)


# examples: TensorFlow gives the indices, values and shapes of all sparse features, and then the dense ones

@exports("parse_example")
def _(writer: Any, op: Operation) -> None:
    rows = op.attrs["features"]
    sparse, dense = ([row for row in rows if (row[1] == "variable") is wanted] for wanted in (True, False))
    keys = [writer.constant(op, "key", np.asarray(row[0].encode(), object), as_dtype("string")) for row in (*sparse, *dense)]
    defaults = [writer.constant(op, "default", _default(row), as_dtype(row[2])) for row in dense]
    shapes = [Shape([None, *row[3]] if row[1] == "sequence" else row[3]) for row in dense]
    writer.node(op, "ParseExample", [*(writer.ref(t) for t in op.inputs), *keys, *defaults], {
        "Nsparse": attr("i", len(sparse)), "Ndense": attr("i", len(dense)), "dense_shapes": attr("list(shape)", shapes),
        "sparse_types": attr("list(type)", [as_dtype(row[2]) for row in sparse]),
        "Tdense": attr("list(type)", [as_dtype(row[2]) for row in dense])})
    parts, place = list(op.outputs), {id(row): number for number, row in enumerate((*sparse, *dense))}
    for row in rows:
        number = place[id(row)]
        places = ([number + k * len(sparse) for k in range(3)] if row[1] == "variable" else [number + 2 * len(sparse)])
        for index in places:
            writer.rename(parts.pop(0), f"{op.name}:{index}" if index else op.name)


def _default(row: Any) -> Any:
    _, kind, dtype, shape, given = row
    numpy = as_dtype(dtype).numpy
    if given is None:
        return np.zeros([0], numpy)
    values = np.empty(len(given), numpy)
    values[:] = given
    return values.reshape(()) if kind == "sequence" else np.broadcast_to(
        values.reshape(shape if len(values) > 1 else [1] * len(shape)), shape)


@imports("ParseExample")
def _(node: Node) -> Any:
    sparse, dense = node.needed("Nsparse"), node.needed("Ndense")
    keys = [_known(node, 2 + number) for number in range(sparse + dense)]
    rows: list[Any] = [(key, "variable", dtype, (), None) for key, dtype in zip(keys, node.attr("sparse_types", []))]
    shapes = [shape.sizes for shape in node.attr("dense_shapes", [])]
    for key, dtype, dims, filler in zip(keys[sparse:], node.attr("Tdense", []), shapes, node.inputs[2 + sparse + dense:]):
        value = constant_value(filler)
        given = None if value is None or not value.size else tuple(value.ravel().tolist())
        open_ended = bool(dims) and dims[0] is None
        rows.append((key, "sequence" if open_ended else "fixed", dtype, tuple(dims[1:] if open_ended else dims), given))
    parts = list(raw("parse_example")(node.inputs[0], node.inputs[1], features=tuple(rows), name=node.exact))
    return [*(parts[3 * n + k] for k in range(3) for n in range(sparse)), *parts[3 * sparse:]]
