"""Saver by TensorFlow's rules: reads checkpoints of either kind, writes TensorFlow's where asked, and meta graphs."""
from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.core.state import checkpoint
from workbench.core.state.shards import Part
from workbench.formats import bundle
from workbench.formats.folders import get_checkpoint_mtimes, update_checkpoint_state
from workbench.formats.graph_util import write_graph
from workbench.formats.messages import message
from workbench.formats.meta import add_saver, meta_graph, read_meta, write_message
from workbench.formats.newest import newest_first, state_of
from workbench.formats.reader import as_message
from workbench.formats.savers import keys_of
from workbench.formats.scoped import UNBOUND
from workbench.nn.variables import GraphKeys, Variable
from workbench.train.saving import saver as native

__all__ = ["Saver", "export_meta_graph", "export_scoped_meta_graph", "import_meta_graph", "import_scoped_meta_graph"]

V1, V2 = 1, 2
_log = logging.getLogger("workbench")


def _check(saver_def: Any) -> None:
    """TypeError for what is no SaverDef, ValueError for one that TensorFlow would not take."""
    if getattr(getattr(saver_def, "DESCRIPTOR", None), "name", None) != "SaverDef":
        raise TypeError(f"Saver: saver_def must be a saver_pb2.SaverDef but is a {type(saver_def).__name__}; pass what "
                        "as_saver_def() gave")
    for name in ("save_tensor_name", "restore_op_name"):
        if not getattr(saver_def, name):
            raise errors.InvalidArgumentError(f"Saver: saver_def must specify the {name}; pass what as_saver_def() gave")


class Saver(native.Saver):
    """Saver of TensorFlow 1.x. It writes TensorFlow's files (`.index`, `.data-…`, `.meta`, and the state file `checkpoint`), a
    data file for each device where it is `sharded`, or with `write_version=SaverDef.V1` the one file of its older format; where
    the path is a URL the files are ours. What trains by itself (MonitoredTrainingSession, Estimator) writes ours, in which
    tasks, input and generators stand besides, and TensorFlow's beside them. All are restored. A `saver_def`, of a meta graph
    for example, says how many checkpoints stay and in which format they are; the nodes that it names are not needed.
    """

    def __init__(self, var_list: Any = None, *args: Any, write_version: Any = None, save_relative_paths: bool = False,
                 saver_def: Any = None, **options: Any) -> None:
        if saver_def is not None:
            _check(saver_def)
            write_version = saver_def.version or V1
            options.update({key: getattr(saver_def, key) for key in ("max_to_keep", "keep_checkpoint_every_n_hours")})
        super().__init__(var_list, *args, **options)
        self._given = var_list
        self._sharded = bool(options.get("sharded", args[1] if len(args) > 1 else False))
        self._version, self._relative, self._formless = write_version or V2, save_relative_paths, False
        self._meta: tuple[tuple[int, ...], Any] | None = None      # how large the graph was, and its meta graph

    @property
    def max_to_keep(self) -> int:
        return self._max

    @property
    def _var_list(self) -> Any:
        """The variables, as the program gave them, or else all of them."""
        return [piece.variable for piece in self._pieces] if self._given is None else self._given

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[Any]) -> None:
        """Take over those of these checkpoints that are still there, with the times when they were written."""
        there = [(path, written) for path in checkpoint_paths for written in get_checkpoint_mtimes([path])]
        self.set_last_checkpoints_with_time(there)

    @property
    def hours(self) -> float:
        return self._hours

    def save(self, sess: Any, save_path: Any, global_step: Any = None, latest_filename: str | None = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True) -> str | None:
        """As train.Saver.save, with the meta graph beside the checkpoint, which a log message replaces where an operation of
        the graph has no form in TensorFlow's; the values pass through this process, read in one step."""
        if "://" in os.fsdecode(save_path):
            return super().save(sess, save_path, global_step, latest_filename, meta_graph_suffix, write_meta_graph, write_state)
        step = self._step(sess, global_step)
        if self._nothing:
            return None
        path = os.fsdecode(save_path) if step is None else f"{os.fsdecode(save_path)}-{step:0{8 if self._pad else 1}d}"
        state = latest_filename or "checkpoint"
        if os.path.split(state)[0]:
            raise errors.InvalidArgumentError(f"Saver.save: 'latest_filename' must not contain path components: {state!r}")
        if os.path.basename(path) == state:
            raise errors.InvalidArgumentError(f"Saver.save: 'latest_filename' collides with 'save_path': {state!r} and "
                                              f"{path!r}; choose another name")
        with self._lock:
            self._write(path, self._values(sess))
            if write_meta_graph:
                self._beside(sess.graph, path, meta_graph_suffix)
            if write_state:
                self.keep(path)
                update_checkpoint_state(str(Path(path).parent), path, self.last_checkpoints, latest_filename, self._relative)
        return path

    def _write(self, path: str, values: Sequence[Mapping[str, Any]]) -> None:
        if self._version == V1:
            whole = dict[str, Any]()
            for found in values:
                for key, value in found.items():
                    whole[key] = whole[key] + value if key in whole else value
            bundle.write_old(path, whole)
        else:
            bundle.write(path, *values)
        if checkpoint.exists(path):      # of before
            super()._remove(path)

    def describe(self, graph: Graph, path: str) -> None:
        """Write beside a checkpoint of ours, in a local folder, TensorFlow's of the same values, with the meta graph."""
        self._beside(graph, path, "meta")
        if "://" not in path:
            keys = dict.fromkeys([*(piece.key for piece in self._pieces), *(s.name for one in self.objects for s in one.specs)])
            bundle.write(path, _Read(bundle.own(path), list(keys)))
            update_checkpoint_state(str(Path(path).parent), path, self.last_checkpoints, None, self._relative)

    # what there is
    @staticmethod
    def state(folder: Any) -> Any:
        """The CheckpointState of a folder, None where its newest checkpoint is gone."""
        return state_of(folder)

    @staticmethod
    def candidates(folder: Any) -> list[str]:
        """The checkpoints of a folder, newest first: those that its state file names, and ours."""
        return newest_first(folder)

    @staticmethod
    def names(path: Any) -> list[str]:
        """The names of the tensors of a checkpoint."""
        return sorted(bundle.open_checkpoint(path).kinds)

    @staticmethod
    def value(path: Any, name: str) -> Any:
        """A tensor of a checkpoint; NotFoundError where it has none of that name."""
        return bundle.open_checkpoint(path).get_tensor(name)

    def write_graph(self, graph: Graph, folder: Any) -> None:
        """Write the graph as text into a local folder: `graph.pbtxt`."""
        self._attempt(os.fsdecode(folder), lambda: write_graph(graph, folder, "graph.pbtxt"))

    def _beside(self, graph: Graph, path: str, suffix: str) -> None:
        self._attempt(path, lambda: self._write_meta(graph, f"{path}.{suffix}"))

    def _attempt(self, path: str, write: Callable[[], Any]) -> None:
        """Write what the graph may have no form for."""
        if "://" in path or self._formless:
            return
        try:
            write()
        except errors.UnimplementedError as error:
            self._formless = True      # which it stays: said once, not at each checkpoint
            _log.warning("Saver.save: no meta graph is written beside %s: %s", path, error.message)

    def _write_meta(self, graph: Graph, file: str) -> None:
        """Of a graph and collections that did not grow or change the same one again: who trains for days writes it often."""
        size = (len(graph.operations), graph.mutations,
                *(len(graph.get_collection(key)) for key in graph.get_all_collection_keys()))
        if self._meta is None or self._meta[0] != size:
            with graph.as_default():
                self._meta = size, self.export_meta_graph()
        write_message(file, self._meta[1], as_text=False)

    def _values(self, sess: Any) -> list[dict[str, Any]]:
        """What is saved, in parts as it is written: one, or one for each device."""
        devices = list(self.groups) if self._sharded else []
        parts: list[dict[str, Any]] = [{} for _ in range(max(1, len(devices)))]
        values, objects = sess.run([[piece.variable for piece in self._pieces], self.object_tensors])
        parts[0].update(zip((spec.name for one in self.objects for spec in one.specs), objects))
        for piece, value in zip(self._pieces, values):
            found = parts[devices.index(piece.variable.op.device)] if devices else parts[0]
            value, block = np.asarray(value, piece.variable.dtype.numpy), piece.block
            if block is None:
                found[piece.key] = value
            else:
                found.setdefault(piece.key, []).append(Part(value, tuple(block.var_offset), tuple(block.full_shape)))
        return parts

    def _remove(self, path: str) -> None:
        if "://" in path or checkpoint.exists(path):
            super()._remove(path)
        if "://" not in path:
            bundle.remove(path)

    def restore(self, sess: Any, save_path: Any) -> None:
        """As train.Saver.restore, from checkpoints of any kind: of ours, where that stands there besides."""
        if save_path is None or self._nothing or not bundle.is_tensorflow(save_path) or checkpoint.exists(save_path):
            super().restore(sess, save_path)
            return
        reader = bundle.open_checkpoint(save_path)
        waiting = [(piece.variable, self._fitting(piece, reader)) for piece in self._pieces]
        while waiting:      # a run cannot feed one initial value twice: variables that share it follow in the next
            feeds: dict[Any, Any] = {}
            later, starts = [], []
            for variable, value in waiting:
                source = variable.initializer.inputs[1]
                if source in feeds:
                    later.append((variable, value))
                else:
                    feeds[source] = value
                    starts.append(variable.initializer)
            sess.run(starts, feeds)
            waiting = later
        for one, (made, tensors) in zip(self.objects, self._imports):
            sess.run(made, {tensor: reader.get_tensor(spec.name) for tensor, spec in zip(tensors, one.specs)})

    def _fitting(self, piece: Any, reader: bundle.Reader) -> Any:
        value, variable = reader.get_tensor(piece.key), piece.variable
        if piece.block is not None:
            value = value[piece.block.block]
        if self._reshape and variable.shape.known and value.size == math.prod(variable.shape.static):
            value = value.reshape(variable.shape.static)
        if value.dtype != variable.dtype.numpy or not variable.shape.compatible(Shape(value.shape)):
            raise errors.InvalidArgumentError(
                f"Saver.restore: variable {variable.op.name!r} is {variable.dtype.name}{variable.shape} but the checkpoint "
                f"{reader.path} holds {value.dtype}{Shape(value.shape)}; build the model that was saved "
                "(Assign requires shapes of both tensors to match.)")
        return value

    # graphs
    def export_meta_graph(self, filename: Any = None, collection_list: Sequence[str] | None = None, as_text: bool = False,
                          export_scope: str | None = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
                          strip_default_attrs: bool = False) -> Any:
        """The MetaGraphDef of the default graph with this saver, also written to `filename` where that is given; of what stands
        below `export_scope` alone it has no saver, as TensorFlow's nodes of savers stand outside of scopes."""
        found = meta_graph(get_default_graph(), () if export_scope else self._pieces, collection_list, clear_devices, self,
                           export_scope)
        if filename is not None:
            write_message(filename, found, as_text)
        return found

    def as_saver_def(self) -> Any:
        """The SaverDef that the nodes of an exported graph have."""
        return add_saver(message("GraphDef")(), self._pieces, self)

    @property
    def saver_def(self) -> Any:
        """What as_saver_def gives."""
        return self.as_saver_def()

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaverDef; None with an `export_scope`, outside of which the nodes of savers stand."""
        return None if export_scope else self.as_saver_def()

    @staticmethod
    def from_proto(saver_def: Any, import_scope: str | None = None) -> Saver:
        """A saver of all variables, as a SaverDef says; of those below `import_scope` alone, which checkpoints name without
        it."""
        if not import_scope:
            return Saver(saver_def=saver_def)
        inside = _by_name(root_graph().get_collection("variables"), import_scope)
        return Saver(_named({name.partition(":")[0]: variable for name, variable in inside.items()}), saver_def=saver_def)


class _Read(Mapping[str, Any]):
    """Tensors of a checkpoint, each read when it is asked for."""

    def __init__(self, reader: bundle.Reader, names: Sequence[str]) -> None:
        self._reader, self._names = reader, names

    def __getitem__(self, name: str) -> Any:
        return self._reader.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def export_meta_graph(filename: Any = None, meta_info_def: Any = None, graph_def: Any = None, saver_def: Any = None,
                      collection_list: Sequence[str] | None = None, as_text: bool = False, graph: Any = None,
                      export_scope: str | None = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
                      strip_default_attrs: bool = False) -> Any:
    """The MetaGraphDef of `graph` (the default graph), also written to `filename` where that is given.

    With `export_scope` it is the part below that scope, without the scope in its names; what the part reads from outside is
    called "$unbound_inputs_<name>", listed in the collection "unbound_inputs", and given as `input_map` when it is imported.
    """
    return export_scoped_meta_graph(filename, graph_def, graph, export_scope, as_text, clear_devices=clear_devices,
                                    saver_def=saver_def, meta_info_def=meta_info_def, collection_list=collection_list)[0]


def export_scoped_meta_graph(filename: Any = None, graph_def: Any = None, graph: Any = None, export_scope: str | None = None,
                             as_text: bool = False, unbound_inputs_col_name: str | None = UNBOUND,
                             clear_devices: bool = False, saver_def: Any = None, clear_extraneous_savers: bool = False,
                             meta_info_def: Any = None, collection_list: Sequence[str] | None = None) -> tuple[Any, Any]:
    """(what export_meta_graph gives, global variables below `export_scope` by their names without it)."""
    graph = graph or root_graph()
    found = meta_graph(graph, (), collection_list, clear_devices, scope=export_scope, nodes=graph_def,
                       unbound=unbound_inputs_col_name)
    for name, given in (("meta_info_def", meta_info_def), ("saver_def", saver_def)):
        if given is not None:
            getattr(found, name).ParseFromString(given.SerializeToString())
    if filename is not None:
        write_message(filename, found, as_text)
    return found, _by_name(graph.get_collection("variables"), export_scope)


def _by_name(variables: Sequence[Variable], scope: str | None) -> dict[str, Variable]:
    prefix = f"{scope}/" if scope else ""
    return {v.name.removeprefix(prefix): v for v in variables if v.name.startswith(prefix)}


def _named(variables: Mapping[str, Variable], keys: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Variables by their names in checkpoints: by `keys`, or those that they have in a graph without the scope of an import."""
    found: dict[str, Any] = {}
    for name, variable in variables.items():
        scope, part = variable.op.name.removesuffix(name), variable._get_save_slice_info()
        if part is None:
            found[(keys or {}).get(name, name)] = variable
        else:
            found.setdefault((keys or {}).get(name, part.full_name.removeprefix(scope)), []).append(variable)
    return found


def _saver_of(proto: Any, saver_def: Any, variables: Mapping[str, Variable]) -> Saver | None:
    """A Saver of the variables that the nodes of a SaverDef restore, of global ones where they do not say; None of none."""
    keys, known = keys_of(proto.graph_def, saver_def), root_graph().get_collection("variables")
    chosen = {name: v for name, v in variables.items() if (name in keys if keys else v in known)}
    if not chosen:
        return None
    options = {key: getattr(saver_def, key) for key in ("max_to_keep", "keep_checkpoint_every_n_hours")}
    return Saver(_named(chosen, keys), **options, write_version=V2)


def _add_savers(proto: Any, variables: Mapping[str, Variable]) -> None:
    """The savers of the collection of a meta graph."""
    kept = proto.collection_def[GraphKeys.SAVERS].bytes_list.value if GraphKeys.SAVERS in proto.collection_def else ()
    for data in kept:
        made = _saver_of(proto, as_message("SaverDef", data, "import_meta_graph: a saver"), variables)
        if made is not None:
            root_graph().add_to_collection(GraphKeys.SAVERS, made)


def import_scoped_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False, graph: Any = None,
                             import_scope: str | None = None, input_map: Mapping[str, Any] | None = None,
                             unbound_inputs_col_name: str | None = UNBOUND) -> dict[str, Variable]:
    """Add a meta graph to `graph` (the default graph), below `import_scope`; gives its global variables by name."""
    graph = graph or root_graph()
    with graph.as_default():
        proto, variables = read_meta(meta_graph_or_file, clear_devices, import_scope, input_map, unbound_inputs_col_name)
        _add_savers(proto, variables)
        kept = graph.get_collection("variables")
    return _by_name([v for v in variables.values() if v in kept], import_scope)


def import_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None,
                      graph: Any = None, input_map: Mapping[str, Any] | None = None,
                      unbound_inputs_col_name: str | None = UNBOUND) -> Saver | None:
    """Add a meta graph (a file, a message or its bytes) to `graph` (the default graph), below `import_scope`; gives a Saver of
    its variables by the names that they have in checkpoints, None when it has none."""
    graph = graph or get_default_graph()
    with graph.as_default():
        proto, variables = read_meta(meta_graph_or_file, clear_devices, import_scope, input_map, unbound_inputs_col_name)
        _add_savers(proto, variables)
        told = proto.saver_def if proto.HasField("saver_def") else message("SaverDef")(
            max_to_keep=5, keep_checkpoint_every_n_hours=10000.0)
        return _saver_of(proto, told, variables)
