"""tf.profiler: parameters, arithmetic, time and bytes of a graph, added up by name scopes, by types or by lines."""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench import errors
from workbench.core.compile.cost import cost
from workbench.core.graph.graph import Graph, Operation, get_default_graph
from workbench.formats.messages import message
from workbench.formats.values import shape_proto
from workbench.nn.variables import GraphKeys
from workbench.tf1.missing import Namespace
from workbench.tf1.profiler_options import TRAINABLE, ProfileOptionBuilder

__all__ = ["profiler", "tfprof"]

ROOT = "_TFProfRoot"
_MOVED = frozenset(("cast", "constant", "concat", "split", "stack", "unstack", "transpose", "gather", "variable", "tile",
                    "pad"))


@dataclass
class _Node:
    """What one operation costs, or several under one title; `whole` is that of all below it too."""

    title: str
    params: int = 0
    float_ops: int = 0
    micros: int = 0
    bytes: int = 0
    occurrence: int = 0
    types: set[str] = field(default_factory=set)
    shapes: list[Any] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    whole: dict[str, int] = field(default_factory=dict)

    def add(self, other: _Node) -> None:
        for key in _COUNTS:
            setattr(self, key, getattr(self, key) + getattr(other, key))
        self.types |= other.types


_COUNTS = ("params", "float_ops", "micros", "bytes", "occurrence")


def _arithmetic(op: Operation) -> int:
    """Multiplications, additions and functions, 0 for what only moves numbers or whose shapes are known in the step alone."""
    if op.kind in _MOVED or op.definition.view or not op.inputs or not any(t.dtype.is_floating for t in op.outputs):
        return 0
    found = cost(op)
    return 0 if found is None else int(found.operations)


def _measured(runs: Iterable[Any]) -> dict[str, list[Any]]:
    """Operation -> its records in the runs."""
    found: dict[str, list[Any]] = {}
    for run in runs:
        for device in run.step_stats.dev_stats:
            for stats in device.node_stats:
                found.setdefault(stats.node_name, []).append(stats)
    return found


def _single(graph: Graph, runs: Iterable[Any]) -> list[_Node]:
    """A node for each operation, as yet without children."""
    trained = {v.op for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    measured, nodes = _measured(runs), []
    for op in graph.get_operations():
        stats, held = measured.get(op.name, []), op.kind == "variable"
        shapes = [op.attrs["shape"]] if held else [t.shape for t in op.outputs]
        nodes.append(_Node(
            op.name, params=shapes[0].num_elements() or 0 if held else 0, float_ops=_arithmetic(op),
            micros=sum(s.all_end_rel_micros for s in stats),
            bytes=sum((t.shape.num_elements() or 0) * t.dtype.size for t in op.outputs) if stats else 0, occurrence=1,
            types={op.kind, op.type, op.device} | ({TRAINABLE} if op in trained else set()), shapes=shapes))
    return nodes


def _fits(text: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns)


def _accounted(nodes: Iterable[_Node], options: Mapping[str, Any]) -> list[_Node]:
    return [n for n in nodes if any(_fits(kind, options["account_type_regexes"]) for kind in n.types)]


# views

def _scopes(nodes: Iterable[_Node], options: Mapping[str, Any]) -> _Node:
    root = _Node(ROOT)
    known: dict[str, _Node] = {"": root}

    def at(path: str) -> _Node:
        if path not in known:
            known[path] = _Node(path)
            at(path.rpartition("/")[0]).children.append(known[path])
        return known[path]
    for node in _accounted(nodes, options):
        place = at(node.title)
        place.add(node)
        place.shapes = node.shapes
    return _shown(root, options, 0)


def _shown(node: _Node, options: Mapping[str, Any], depth: int) -> _Node:
    """`node` with those of its descendants that are shown, and the sums of all or of these."""
    deeper = depth < options["max_depth"] and not (depth and _fits(node.title, options["trim_name_regexes"]))
    below = [_shown(child, options, depth + 1) for child in node.children]
    shown = [child for child in below if deeper and _visible(child, options)]
    counted = shown if options["account_displayed_op_only"] else below
    node.whole = {key: getattr(node, key) + sum(child.whole[key] for child in counted) for key in _COUNTS}
    node.children = _ordered(shown, options)
    return node


def _visible(node: _Node, options: Mapping[str, Any]) -> bool:
    if _fits(node.title, options["hide_name_regexes"]) or not _fits(node.title, options["show_name_regexes"]):
        return bool(node.children)
    return all(node.whole[key] >= options.get(f"min_{key}", 0) for key in _COUNTS)


def _ordered(nodes: list[_Node], options: Mapping[str, Any]) -> list[_Node]:
    key = options["order_by"]
    return sorted(nodes, key=lambda n: (-n.whole[key] if key in _COUNTS else 0, n.title))


def _groups(of: Callable[[_Node], str]) -> Callable[[list[_Node], Mapping[str, Any]], _Node]:
    def view(nodes: list[_Node], options: Mapping[str, Any]) -> _Node:
        root, known = _Node(ROOT), dict[str, _Node]()
        for node in _accounted(nodes, options):
            known.setdefault(of(node), _Node(of(node))).add(node)
        root.children = list(known.values())
        return _shown(root, options, 0)
    return view


def _by_lines(graph: Graph) -> Callable[[list[_Node], Mapping[str, Any]], _Node]:
    lines = {op.name: op.source for op in graph.get_operations()}
    return _groups(lambda node: lines[node.title])


def _by_types(graph: Graph) -> Callable[[list[_Node], Mapping[str, Any]], _Node]:
    kinds = {op.name: op.type for op in graph.get_operations()}
    return _groups(lambda node: kinds[node.title])


_VIEWS: dict[str, Callable[[Graph], Callable[[list[_Node], Mapping[str, Any]], _Node]]] = {
    "scope": lambda graph: _scopes, "op": _by_types, "code": _by_lines}


# what comes out

def _proto(node: _Node, kind: str) -> Any:
    found = message(kind)(name=node.title, exec_micros=node.micros, requested_bytes=node.bytes, parameters=node.params,
                          float_ops=node.float_ops, cpu_exec_micros=node.micros, total_exec_micros=node.whole["micros"],
                          total_cpu_exec_micros=node.whole["micros"], total_requested_bytes=node.whole["bytes"],
                          total_parameters=node.whole["params"], total_float_ops=node.whole["float_ops"])
    if kind == "GraphNodeProto":
        found.total_definition_count = node.whole["occurrence"]
        for shape in node.shapes:
            if shape.sizes is not None:
                found.shapes.add().CopyFrom(shape_proto(shape))
    found.children.extend(_proto(child, kind) for child in node.children)
    return found


def _lines(node: _Node, options: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    told = [f"{key} {getattr(node, key)}/{node.whole[key]}" for key in _COUNTS if key in options["select"]]
    yield "  " * depth + f"{node.title} ({', '.join(told)})"
    for child in node.children:
        yield from _lines(child, options, depth + 1)


def _write(node: _Node, options: Mapping[str, Any]) -> None:
    kind, _, target = str(options["output"]).partition(":")
    text = "\n".join(["name (itself/with all below it)", *_lines(node, options)]) + "\n"
    if kind == "stdout":
        print(text)
    elif kind == "file":
        with open(target.removeprefix("outfile="), "w", encoding="utf-8") as file:
            file.write(text)


class Profiler:
    """Profiles of a graph and of the runs that were added; `op_log` (OpLogProto) adds arithmetic that is not known here."""

    def __init__(self, graph: Graph | None = None, op_log: Any = None) -> None:
        self._graph, self._log = graph or get_default_graph(), op_log
        self._runs: dict[int, Any] = {}

    def add_step(self, step: int, run_meta: Any) -> None:
        """The RunMetadata of a run."""
        self._runs[step] = run_meta

    def _nodes(self, step: int) -> list[_Node]:
        nodes = _single(self._graph, [run for number, run in self._runs.items() if step in (-1, number)])
        told = {entry.name: entry for entry in self._log.log_entries} if self._log is not None else {}
        for node in nodes:
            if node.title in told:
                node.float_ops = told[node.title].float_ops or node.float_ops
                node.types |= set(told[node.title].types)
        return nodes

    def _profile(self, view: str, options: Mapping[str, Any]) -> Any:
        if view not in _VIEWS:
            raise errors.InvalidArgumentError(f"profile: cmd is {view!r}; use {', '.join(_VIEWS)}")
        chosen = {**ProfileOptionBuilder().build(), **options}
        found = _VIEWS[view](self._graph)(self._nodes(chosen["step"]), chosen)
        _write(found, chosen)
        return _proto(found, "GraphNodeProto" if view == "scope" else "MultiGraphNodeProto")

    def profile_name_scope(self, options: Mapping[str, Any]) -> Any:
        """By name scopes: a GraphNodeProto."""
        return self._profile("scope", options)

    def profile_operations(self, options: Mapping[str, Any]) -> Any:
        """By types of operations: a MultiGraphNodeProto."""
        return self._profile("op", options)

    def profile_python(self, options: Mapping[str, Any]) -> Any:
        """By the lines that made the operations: a MultiGraphNodeProto."""
        return self._profile("code", options)

    def advise(self, options: Mapping[str, Any] | None = None) -> Any:
        """What takes most of the time of the runs, as an AdviceProto."""
        found, chosen = message("AdviceProto")(), {**ProfileOptionBuilder().build(), "order_by": "micros"}
        if options is None or "ExpensiveOperationChecker" in options:
            reports = found.checkers["ExpensiveOperationChecker"].reports
            top = _by_types(self._graph)(self._nodes(-1), chosen)
            reports.extend(f"{node.title}: {node.whole['micros']} of {top.whole['micros']} microseconds in "
                           f"{node.occurrence} operations" for node in top.children[:3] if node.whole["micros"])
        return found


def profile(graph: Graph | None = None, run_meta: Any = None, op_log: Any = None, cmd: str = "scope",
            options: Any = 0) -> Any:
    """What a graph costs, written as `options` say (default: parameters of trainable variables) and given back.

    `cmd` adds up by "scope" (a GraphNodeProto), by "op", types of operations, or by "code", lines of the program
    (MultiGraphNodeProto), InvalidArgumentError for others. `run_meta` is the RunMetadata of a traced run, for times and bytes.
    """
    made = Profiler(graph, op_log)
    if run_meta is not None:
        made.add_step(0, run_meta)
    return made._profile(cmd, options or ProfileOptionBuilder.trainable_variables_parameter())


def advise(graph: Graph | None = None, run_meta: Any = None, options: Any = 0) -> Any:
    """Which types of operations take most of the time of a run: an AdviceProto."""
    made = Profiler(graph)
    if run_meta is not None:
        made.add_step(0, run_meta)
    return made.advise(options or None)


def write_op_log(graph: Graph, log_dir: str, op_log: Any = None, run_meta: Any = None, add_trace: bool = True) -> None:
    """Write what is known of each operation as an OpLogProto, the file `tfprof_log` in a folder; `add_trace` where it was
    made too."""
    found = message("OpLogProto")()
    if op_log is not None:
        found.CopyFrom(op_log)
    sources = {op.name: op.source for op in graph.get_operations()}
    for node in _single(graph, [] if run_meta is None else [run_meta]):
        if node.float_ops or TRAINABLE in node.types or add_trace:
            entry = found.log_entries.add(name=node.title, float_ops=node.float_ops)
            entry.types.extend([TRAINABLE] if TRAINABLE in node.types else [])
            if add_trace:
                path, _, line = sources[node.title].rpartition(":")
                entry.code_def.traces.add(file=path, lineno=int(line))
    with open(os.path.join(log_dir, "tfprof_log"), "wb") as file:
        file.write(found.SerializeToString())


def _print_model_analysis(graph: Graph, run_meta: Any = None, op_log: Any = None, tfprof_cmd: str = "scope",
                          tfprof_options: Any = 0) -> Any:
    """`profile` by its older name, whose options may name the file to write in `dump_to_file`."""
    options = dict(tfprof_options or ProfileOptionBuilder.trainable_variables_parameter())
    file = options.pop("dump_to_file", "")
    return profile(graph, run_meta, op_log, tfprof_cmd, {**options, **({"output": f"file:outfile={file}"} if file else {})})


class _Profiler(Namespace):
    """The functions, and the messages when one is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name in ("AdviceProto", "GraphNodeProto", "MultiGraphNodeProto", "OpLogProto"):
            return message(name)
        return super().__getattr__(name)


profiler = _Profiler(ProfileOptionBuilder=ProfileOptionBuilder, Profiler=Profiler, profile=profile, advise=advise,
                     write_op_log=write_op_log)

_analyzer = Namespace(
    print_model_analysis=_print_model_analysis, Profiler=Profiler, advise=advise,
    TRAINABLE_VARS_PARAMS_STAT_OPTIONS={**ProfileOptionBuilder.trainable_variables_parameter(), "dump_to_file": ""},
    FLOAT_OPS_OPTIONS={**ProfileOptionBuilder.float_operation(), "dump_to_file": ""},
    PRINT_ALL_TIMING_MEMORY={**ProfileOptionBuilder.time_and_memory(), "dump_to_file": ""})
tfprof = Namespace(**vars(_analyzer), model_analyzer=_analyzer, tfprof_logger=Namespace(write_op_log=write_op_log))
"""`tf.contrib.tfprof`, the profiler before it had a place of its own."""
