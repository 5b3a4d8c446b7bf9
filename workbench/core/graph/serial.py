"""Programs as bytes and back: typed msgpack, no code inside, everything checked on the way in."""
from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from workbench import errors
from workbench.core.graph.dimension import Length
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.opdef import registry
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import Subgraph

__all__ = ["dump", "dump_values", "load", "load_values"]

_VERSION = 1
_ARRAY, _DTYPE, _SHAPE, _TUPLE, _GRAPH, _OBJECTS, _ORDERED = 1, 2, 3, 4, 5, 6, 7


def dump(program: Program) -> bytes:
    """The program as msgpack; `load` gives an equal one in any process of the same workbench version."""
    graph = program.graph
    return _pack({
        "version": _VERSION, "graph": _graph(graph), "feeds": [t.name for t in program.feeds],
        "fetches": [t.name for t in program.fetches], "targets": [op.name for op in program.targets]})


def load(data: bytes | memoryview) -> Program:
    """Read what `dump` wrote; DataLossError on anything else. Only registered operations are built."""
    try:
        return _read(_unpack(data))
    except (errors.Error, MemoryError):
        raise
    except Exception as error:      # whatever damaged bytes make a reader stumble over
        raise errors.DataLossError(f"program: {len(data)} bytes are not a workbench program ({error}); send what dump() "
                                   "wrote") from error


def dump_values(values: Any) -> bytes:
    """What attributes hold, in lists and dictionaries, as bytes; InvalidArgumentError for what has no form."""
    return _pack(values)


def load_values(data: bytes) -> Any:
    """What `dump_values` was given."""
    return _unpack(data)


def _read(raw: Any) -> Program:
    if not isinstance(raw, dict) or raw.get("version") != _VERSION:
        found = raw.get("version") if isinstance(raw, dict) else type(raw).__name__
        raise errors.DataLossError(f"program: version {found!r} but {_VERSION} is needed; run one workbench version on "
                                   "all tasks")
    graph = _read_graph(raw["graph"], Graph())
    return Program(graph, tuple(map(graph.tensor, raw["feeds"])), tuple(map(graph.tensor, raw["fetches"])),
                   tuple(map(graph.operation, raw["targets"])))


def _graph(graph: Graph) -> list[Any]:
    return [[op.kind, op.name, [t.name for t in op.inputs], [c.name for c in op.controls], op.attrs, op.device,
             sorted(op.colocation), op.source, [t.shape for t in op.outputs]] for op in graph.operations]


def _read_graph(rows: list[Any], graph: Graph) -> Graph:
    late: list[tuple[str, int, str]] = []
    for kind, name, inputs, controls, attrs, device, colocation, source, shapes in rows:
        if kind not in registry:
            raise errors.UnimplementedError(f"program: {name} is an operation {kind!r}, which this process has not; if it is "
                                            "your own, import the module that defines it in the processes of the cluster too "
                                            "(client.upload_file, then client.run, or dask worker --preload)")
        tensors: list[Tensor] = []
        for position, text in enumerate(inputs):
            if graph.has(text.rpartition(":")[0]):
                tensors.append(graph.tensor(text))
            else:
                late.append((name, position, text))
                tensors.append(tensors[0])
        op = graph.create(kind, tensors, attrs, name + "/", [graph.operation(c) for c in controls], device=device,
                          colocation=frozenset(colocation), source=source)
        for tensor, shape in zip(op.outputs, shapes):
            tensor.shape = tensor.shape.merge(shape)
    for name, position, text in late:
        op = graph.operation(name)
        op.inputs = (*op.inputs[:position], graph.tensor(text), *op.inputs[position + 1:])
    return graph


def _pack(value: Any) -> bytes:
    return msgpack.packb(value, default=_encode, use_bin_type=True, strict_types=True)      # type: ignore[no-any-return]


def _unpack(data: bytes | memoryview) -> Any:
    return msgpack.unpackb(data, ext_hook=_decode, raw=False, strict_map_key=False, use_list=True)


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype != object:
        body = [as_dtype(value.dtype).name, list(value.shape), np.ascontiguousarray(value).tobytes()]
        return msgpack.ExtType(_ARRAY, _pack(body))
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_OBJECTS, _pack([list(value.shape), value.ravel().tolist()]))
    if isinstance(value, Length):
        return value.value
    if isinstance(value, DType):
        return msgpack.ExtType(_DTYPE, value.name.encode())
    if isinstance(value, Shape):
        return msgpack.ExtType(_SHAPE, _pack(None if value.sizes is None else list(value.sizes)))
    if isinstance(value, tuple):
        return msgpack.ExtType(_TUPLE, _pack(list(value)))
    if isinstance(value, Subgraph):
        return msgpack.ExtType(_GRAPH, _pack([value.name, _graph(value), [t.name for t in value.arguments],
                                              [t.name for t in value.results]]))
    raise errors.InvalidArgumentError(f"program: attribute value {value!r} ({type(value).__name__}) cannot travel; use "
                                      "numbers, text, tuples, arrays, dtypes or shapes")


def _decode(code: int, data: bytes) -> Any:
    if code == _DTYPE:
        return as_dtype(data.decode())
    body = _unpack(data)
    if code == _ARRAY:
        name, shape, raw = body
        return np.frombuffer(raw, as_dtype(name).numpy).reshape(shape)
    if code == _OBJECTS:
        shape, items = body
        array = np.empty(len(items), object)
        array[:] = items
        return array.reshape(shape)
    if code == _SHAPE:
        return Shape(body)
    if code == _TUPLE:
        return tuple(body)
    if code == _GRAPH:
        name, rows, arguments, results = body
        graph = Subgraph(Graph(), name)
        _read_graph(rows, graph)
        graph.arguments = [graph.tensor(t) for t in arguments]
        graph.results = [graph.tensor(t) for t in results]
        return graph
    raise errors.DataLossError(f"program: unknown element kind {code}; the data is damaged or of another version")
