"""SavedModel: folders with meta graphs by tags, signatures and variables; written and loaded."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Operation
from workbench.core.graph.subgraph import root_graph
from workbench.formats import bundle
from workbench.formats.assets import add_assets, asset_paths
from workbench.formats.messages import message, parse_text
from workbench.formats.meta import meta_graph, write_message
from workbench.formats.reader import as_message
from workbench.formats.saver import Saver, import_meta_graph
from workbench.nn.framework import control_dependencies
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import GraphKeys, global_variables, global_variables_initializer, group
from workbench.train.estimators.signatures import DEFAULT_KEY, predict_signature_def
from workbench.train.saving.pieces import pieces_of

__all__ = ["Builder", "load", "main_op", "main_op_with_restore", "maybe_saved_model_directory", "read", "simple_save",
           "tag_sets"]

_FILES = ("saved_model.pb", "saved_model.pbtxt")
_MAIN, _LEGACY = "saved_model_main_op", "legacy_init_op"


class Builder:
    """Writes a SavedModel into a folder that must not exist yet; the variables are those of the first meta graph."""

    def __init__(self, export_dir: Any) -> None:
        self._folder = Path(os.fsdecode(export_dir))
        if self._folder.exists() and any(self._folder.iterdir()):
            raise AssertionError(f"Export directory {self._folder} already exists, and isn't empty; choose another")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._proto = message("SavedModel")(saved_model_schema_version=1)
        self._began = False

    def add_meta_graph_and_variables(self, sess: Any, tags: Sequence[str], signature_def_map: Mapping[str, Any] | None = None,
                                     assets_collection: Any = None, legacy_init_op: Any = None, clear_devices: bool = False,
                                     main_op: Any = None, strip_default_attrs: bool = False, saver: Any = None) -> None:
        """The graph of `sess`, the values of its variables, or of those of `saver` alone, and the files that constants in
        `assets_collection` name, which `legacy_init_op` and `main_op` find in the model when it is loaded. NotFoundError for a
        file that is missing, AssertionError for a second call, and the errors of `add_meta_graph`."""
        if self._began:
            raise AssertionError("Graph state including variables and assets has already been saved; add_meta_graph adds "
                                 "further graphs")
        _check_signatures(signature_def_map or {})
        with sess.graph.as_default():
            _check_init_op(legacy_init_op if main_op is None else None)
            if global_variables():
                (saver or Saver(write_version=2)).save(sess, str(self._folder / "variables" / "variables"),
                                                       write_meta_graph=False, write_state=False)
            self._add(tags, signature_def_map, assets_collection, legacy_init_op, clear_devices, main_op, saver)
        self._began = True

    def add_meta_graph(self, tags: Sequence[str], signature_def_map: Mapping[str, Any] | None = None,
                       assets_collection: Any = None, legacy_init_op: Any = None, clear_devices: bool = False,
                       main_op: Any = None, strip_default_attrs: bool = False, saver: Any = None) -> None:
        """The default graph under other tags, with the variables that were saved; `saver` says how they are called there.

        AssertionError before `add_meta_graph_and_variables`, for a signature of tensors without name or type, and for a
        `legacy_init_op` where the graph has one in its collection; TypeError for a `main_op` that is no operation.
        """
        if not self._began:
            raise AssertionError("Graph state including variables and assets has not been saved yet; call "
                                 "add_meta_graph_and_variables first")
        _check_signatures(signature_def_map or {})
        _check_init_op(legacy_init_op if main_op is None else None)
        self._add(tags, signature_def_map, assets_collection, legacy_init_op, clear_devices, main_op, saver)

    def _add(self, tags: Sequence[str], signature_def_map: Mapping[str, Any] | None, assets_collection: Any,
             legacy_init_op: Any, clear_devices: bool, main_op: Any, saver: Saver | None) -> None:
        proto = (meta_graph(root_graph(), pieces_of(global_variables()), clear_devices=clear_devices) if saver is None
                 else saver.export_meta_graph(clear_devices=clear_devices))
        proto.meta_info_def.tags.extend(tags)
        for key, signature in (signature_def_map or {}).items():
            proto.signature_def[key].CopyFrom(as_message("SignatureDef", signature, "SavedModel"))
        add_assets(proto, self._folder, assets_collection or ())
        key, op = (_LEGACY, legacy_init_op) if main_op is None else (_MAIN, main_op)
        if op is not None:
            if not isinstance(op, Operation):
                raise TypeError(f"SavedModel: {key} needs to be an Operation; it is {op!r}; pass what tf.group gives")
            proto.collection_def[key].node_list.value.append(op.name)
        self._proto.meta_graphs.add().CopyFrom(proto)

    def save(self, as_text: bool = False) -> bytes:
        """Write the model; gives the path."""
        if not self._proto.meta_graphs:
            raise errors.FailedPreconditionError("SavedModel: it has 0 graphs; call add_meta_graph_and_variables first")
        return write_message(self._folder / _FILES[as_text], self._proto, as_text).encode()


def _check_signatures(signature_def_map: Mapping[str, Any]) -> None:
    for key, given in signature_def_map.items():
        signature = as_message("SignatureDef", given, "SavedModel")
        for name, info in (*signature.inputs.items(), *signature.outputs.items()):
            for field, there in (("name", info.name or info.HasField("coo_sparse")), ("dtype", info.dtype)):
                if not there:
                    raise AssertionError("All TensorInfo protos used in the SignatureDefs must have the name and dtype fields "
                                         f"set: {name!r} of signature {key!r} has no {field}; use build_tensor_info")


def _check_init_op(op: Any) -> None:
    there = [] if op is None else root_graph().get_collection(_LEGACY)
    if there:
        raise AssertionError(f"graph already contains one or more legacy init ops under the collection {_LEGACY}: "
                             f"{there[0].name!r}; {op.name!r} would be another")


def simple_save(session: Any, export_dir: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any],
                legacy_init_op: Any = None) -> None:
    """The graph of a session as a model that serves predictions, under the tag "serve"."""
    builder = Builder(export_dir)
    builder.add_meta_graph_and_variables(session, ["serve"], {DEFAULT_KEY: predict_signature_def(inputs, outputs)},
                                         session.graph.get_collection(GraphKeys.ASSET_FILEPATHS), legacy_init_op)
    builder.save()


def main_op() -> Any:
    """An operation that gives all variables their initial values and fills tables, for `main_op` of a builder."""
    return group(global_variables_initializer(), local_initializer())


def main_op_with_restore(restore_op_name: Any) -> Any:
    """main_op, and after it an operation that restores: itself, or its name."""
    with control_dependencies([main_op()]):
        return group(root_graph().as_graph_element(restore_op_name, allow_tensor=False))


def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Is there a SavedModel in the folder?"""
    return any((Path(os.fsdecode(export_dir)) / name).is_file() for name in _FILES)


def tag_sets(saved_model_dir: Any) -> list[list[str]]:
    """The tags of each meta graph of the model in a folder; the errors of `read`."""
    return [list(found.meta_info_def.tags) for found in read(saved_model_dir).meta_graphs]


def read(export_dir: Any) -> Any:
    """The SavedModel message of a folder, as bytes or text. MissingFileError where there is none, DamagedFileError for a file
    that is none."""
    folder = Path(os.fsdecode(export_dir))
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        raise errors.MissingFileError(f"SavedModel file does not exist at: {folder}/{{{_FILES[1]}|{_FILES[0]}}}; give the "
                                      "folder that a builder wrote")
    where = f"SavedModel: Cannot parse file {str(file)!r}"
    try:
        if file.suffix == ".pbtxt":
            return parse_text("SavedModel", file.read_text(), where)
        return as_message("SavedModel", file.read_bytes(), where)
    except errors.DataLossError as error:
        raise errors.DamagedFileError(str(error)) from None


def load(sess: Any, tags: Sequence[str], export_dir: Any, import_scope: str | None = None, **saver_kwargs: Any) -> Any:
    """Add the meta graph with exactly these tags to the session's graph and restore its variables; gives the MetaGraphDef.
    `saver_kwargs` are further arguments of `import_meta_graph`.

    MissingFileError for a folder without a model, RuntimeError for tags that it has not and for several operations that
    are to run first, DamagedFileError and DataLossError for damage.
    """
    folder = Path(os.fsdecode(export_dir))
    proto = read(folder)
    found = next((g for g in proto.meta_graphs if set(g.meta_info_def.tags) == set(tags)), None)
    if found is None:
        there = "; ".join(", ".join(g.meta_info_def.tags) for g in proto.meta_graphs)
        raise RuntimeError(f"MetaGraphDef associated with tags {', '.join(map(repr, tags))} could not be found in SavedModel; "
                           f"it has {there}")
    with sess.graph.as_default():
        saver = import_meta_graph(found, import_scope=import_scope, **saver_kwargs)
        path = folder / "variables" / "variables"
        if saver is not None and bundle.is_tensorflow(path):
            saver.restore(sess, str(path))
        prefix = f"{import_scope}/" if import_scope else ""
        feeds = {prefix + name: path for name, path in asset_paths(found, folder).items()}
        key = _MAIN if _MAIN in found.collection_def else _LEGACY
        names = found.collection_def[key].node_list.value if key in found.collection_def else ()
        if len(names) > 1:
            raise RuntimeError(f"SavedModel: expected exactly one {key}, found {', '.join(names)}; write the model with one")
        for name in names:
            sess.run(sess.graph.as_graph_element(prefix + name), feeds)
    return found
