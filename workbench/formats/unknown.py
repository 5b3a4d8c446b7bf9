"""Operations of types that nobody here knows, as create_op adds them: they stand in graphs and GraphDefs, no step runs them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.opdef import OpDef
from workbench.core.graph.shape import Shape
from workbench.formats.twins import exports

__all__ = ["create_unknown"]


def _not_registered(context: Any, *_values: Any, type: str, **_attributes: Any) -> Any:
    raise errors.NotFoundError(f"operation {context.node!r}: Op type not registered '{type}'; leave it out of what is run")


_UNKNOWN = OpDef("unknown", "*values? -> ?", _not_registered, types=lambda _given, attrs: attrs["dtypes"],
                 shape=lambda _inputs, attrs: [Shape(None)] * len(attrs["dtypes"]), stateful=True, context=True,
                 differentiable=False, variadic="values")


def create_unknown(graph: Graph, kind: str, inputs: Sequence[Any], dtypes: Sequence[Any], name: str | None,
                   attributes: Mapping[str, Any]) -> Operation:
    """Add an operation of the unknown type `kind` over `inputs`, whose outputs have these dtypes and unknown shapes.

    `attributes` are AttrValue messages. NotFoundError in a step that needs it.
    """
    return graph.create(_UNKNOWN, [convert(x) for x in inputs], {
        "type": kind, "dtypes": [as_dtype(dtype) for dtype in dtypes], "attributes": dict(attributes)}, name or kind)


@exports("unknown")
def _write(writer: Any, op: Operation) -> None:
    writer.node(op, op.attrs["type"], [writer.ref(t) for t in op.inputs], op.attrs["attributes"])
