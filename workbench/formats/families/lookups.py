"""Twins of lookup tables: their handles, what fills them, what they find."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.build import raw
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.formats.twins import Node, exports, imports, rows
from workbench.formats.values import attr

__all__: list[str] = []


@exports("hash_table")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "HashTableV2", [], {
        "container": attr("s", op.attrs["container"]), "shared_name": attr("s", op.attrs["shared_name"]),
        "use_node_name_sharing": attr("b", True), "key_dtype": attr("type", op.attrs["key_dtype"]),
        "value_dtype": attr("type", op.attrs["value_dtype"])})


@imports("HashTableV2", "HashTable")
def _(node: Node) -> Any:
    attrs = {"key_dtype": node.needed("key_dtype"), "value_dtype": node.needed("value_dtype"),
             "shared_name": node.attr("shared_name", ""), "container": node.attr("container", "")}
    return get_default_graph().create("hash_table", (), attrs, node.exact).outputs[0]


@exports("table_fill")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "InitializeTableV2", [writer.ref(t) for t in op.inputs], {
        "Tkey": attr("type", op.inputs[1].dtype), "Tval": attr("type", op.inputs[2].dtype)})


@imports("InitializeTableV2", "InitializeTable", handles=1)
def _(node: Node) -> Any:
    return get_default_graph().create("table_fill", node.inputs, {}, node.exact)


_COLUMNS = ("key_index", "value_index", "vocab_size")


@exports("table_fill_from_file")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "InitializeTableFromTextFileV2", [writer.ref(t) for t in op.inputs], {
        **{key: attr("i", op.attrs[key]) for key in _COLUMNS}, "delimiter": attr("s", op.attrs["delimiter"])})


@imports("InitializeTableFromTextFileV2", "InitializeTableFromTextFile", handles=1)
def _(node: Node) -> Any:
    attrs = {**{key: node.needed(key) for key in _COLUMNS[:2]}, "vocab_size": node.attr("vocab_size", -1),
             "delimiter": node.attr("delimiter", "\t")}
    return get_default_graph().create("table_fill_from_file", node.inputs, attrs, node.exact)


@exports("table_find")
def _(writer: Any, op: Operation) -> None:
    writer.node(op, "LookupTableFindV2", [writer.ref(t) for t in op.inputs], {
        "Tin": attr("type", op.inputs[1].dtype), "Tout": attr("type", op.attrs["value_dtype"])})


@imports("LookupTableFindV2", "LookupTableFind", handles=1)
def _(node: Node) -> Any:
    return raw("table_find")(*node.inputs, value_dtype=node.inputs[2].dtype, name=node.exact)


rows("table_size LookupTableSizeV2 handle", handles=1)
rows("table_size LookupTableSize handle", handles=1, write=False)
