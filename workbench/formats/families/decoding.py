"""Twins of what decodes: texts, records, sparse tensors as strings, sequences of labels."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops, raw
from workbench.core.graph.graph import Operation
from workbench.formats.twins import Node, exporters, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []

rows("""
    decode_base64 DecodeBase64 input
    encode_base64 EncodeBase64 input | pad=pad
    decode_compressed DecodeCompressed bytes | compression_type=compression_type
    decode_json_example DecodeJSONExample json_examples
    regex_replace RegexReplace input pattern!string rewrite!string | replace_global=replace_global
    string_strip StringStrip input
    string_length StringLength input | unit=unit
    string_lower StringLower input | encoding=encoding
    string_upper StringUpper input | encoding=encoding
    regex_full_match RegexFullMatch input pattern!string
    substr Substr input pos len | T:pos
    serialize_parts SerializeSparse indices values shape | T:values
    serialize_rows SerializeManySparse indices values shape | T:values
    set_operation SparseToSparseSetOperation ai av ashape bi bv bshape | T:av set_operation=operation
""")
rows("""
    join_axes ReduceJoin inputs axis! | keep_dims=keepdims separator=separator
    join_axes_at ReduceJoin inputs axis | keep_dims=keepdims separator=separator
""", read=False)
for _kind in ("", "V2"):      # V2 checks its second argument here as there: TensorFlow 2 calls it so
    rows(f"substr Substr{_kind} input pos len | T:pos", write=False)


@imports("DeserializeManySparse")
def _(node: Node) -> Any:
    return list(raw("deserialize_rows")(node.inputs[0], dtype=node.needed("dtype"), name=node.exact))


@exports("deserialize_rows")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "DeserializeManySparse", [writer.ref(op.inputs[0])], {"dtype": attr("type", op.outputs[1].dtype)})


@exports("decode_csv")
def _(writer: Any, op: Operation) -> None:
    found = op.attrs
    attrs = {"OUT_TYPE": attr("list(type)", [t.dtype for t in op.outputs]), "field_delim": attr("s", found["field_delim"]),
             "use_quote_delim": attr("b", found["use_quote_delim"])}
    if found["na_value"]:
        attrs["na_value"] = attr("s", found["na_value"])
    writer.node(op, "DecodeCSV", [writer.ref(t) for t in op.inputs], attrs)


@imports("DecodeCSV")
def _(node: Node) -> Any:
    options = {key: node.attr(key, default) for key, default in (
        ("field_delim", ","), ("use_quote_delim", True), ("na_value", ""))}
    found = raw("decode_csv")(node.inputs[0], node.inputs[1:], **options, name=node.exact)
    return list(found) if isinstance(found, (list, tuple)) else found


_HASHES = {"murmur": "StringToHashBucket", "farm": "StringToHashBucketFast", "sip": "StringToHashBucketStrong"}


@exports("hash_buckets")
def _(writer: Any, op: Operation) -> None:
    attrs = {"num_buckets": attr("i", op.attrs["num_buckets"])}
    if op.attrs["kind"] == "sip":
        attrs["key"] = attr("list(i)", op.attrs["key"])
    writer.node(op, _HASHES[op.attrs["kind"]], [writer.ref(op.inputs[0])], attrs)


@imports(*_HASHES.values())
def _(node: Node) -> Any:
    kind = next(kind for kind, theirs in _HASHES.items() if theirs == node.proto.op)
    return raw("hash_buckets")(node.inputs[0], num_buckets=node.needed("num_buckets"), kind=kind,
                               key=tuple(node.attr("key", ())), name=node.exact)


rows("""
    ctc CTCLoss inputs indices values lengths | preprocess_collapse_repeated=collapse ctc_merge_repeated=repeated \
ignore_longer_outputs_than_inputs=longer
    ctc_greedy CTCGreedyDecoder inputs lengths | merge_repeated=merge
""")
_plain = {kind: exporters[kind] for kind in ("ctc", "ctc_greedy")}


@exports(*_plain)
def _(writer: Any, op: Operation) -> None:
    _narrow(op)
    _plain[op.kind](writer, op)


def _narrow(op: Operation) -> None:
    if op.inputs[0].dtype.name != "float32":
        raise errors.UnimplementedError(f"as_graph_def: {op.name!r} takes {op.inputs[0].dtype.name}, where TensorFlow has "
                                        "float32 alone; cast it")


@exports("ctc_beams")
def _(writer: Any, op: Operation) -> None:
    _narrow(op)
    writer.node(op, "CTCBeamSearchDecoder", [writer.ref(t) for t in op.inputs], {
        "beam_width": attr("i", op.attrs["width"]), "top_paths": attr("i", op.attrs["top"]),
        "merge_repeated": attr("b", op.attrs["merge"])})


@imports("CTCBeamSearchDecoder")
def _(node: Node) -> Any:
    return list(raw("ctc_beams")(*node.inputs, width=node.needed("beam_width"), top=node.needed("top_paths"),
                                 merge=node.attr("merge_repeated", True), name=node.exact))


@imports("SparseReorder")
def _(node: Node) -> Any:
    order = ops.sparse_order(node.inputs[0], node.inputs[2])
    return [ops.gather(node.inputs[0], order), ops.gather(node.inputs[1], order)]
