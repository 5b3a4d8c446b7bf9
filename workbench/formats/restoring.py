"""Variables that begin with values of a checkpoint: of all names, of some, or of other names and scopes."""
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.shape import as_shape
from workbench.formats.folders import load_checkpoint
from workbench.formats.saver import Saver
from workbench.nn.blocks import full_name
from workbench.nn.contrib.framework import assign_from_values
from workbench.nn.partitions import variable_parts
from workbench.nn.variables import Variable, global_variables

__all__ = ["assign_from_checkpoint", "assign_from_checkpoint_fn", "init_from_checkpoint"]

logger = logging.getLogger("workbench")


def _by_name(var_list: Any) -> dict[str, list[Variable]]:
    """Name in the checkpoint -> a variable or the parts of one, of a list of variables or of such a dictionary."""
    if isinstance(var_list, Mapping):
        return {name: variable_parts(found) for name, found in var_list.items()}
    wanted: dict[str, list[Variable]] = {}
    for variable in var_list:
        wanted.setdefault(full_name(variable), []).append(variable)
    return wanted


def _known(reader: Any, wanted: Mapping[str, list[Variable]], path: Any) -> dict[str, list[Variable]]:
    """Those that the checkpoint has; the others are logged."""
    for name in (name for name in wanted if not reader.has_tensor(name)):
        logger.warning("Variable %s missing in checkpoint %s", name, path)
    return {name: v for name, v in wanted.items() if reader.has_tensor(name)}


def assign_from_checkpoint(model_path: Any, var_list: Any, ignore_missing_vars: bool = False) -> tuple[Any, dict[Any, Any]]:
    """(operation, feeds) that give variables (a list, or a dictionary by names in the checkpoint) the checkpoint's values.

    InvalidArgumentErrors (ValueErrors) where the checkpoint lacks one, unless those are ignored, or has another size of it.
    """
    reader, wanted = load_checkpoint(model_path), _by_name(var_list)
    known = _known(reader, wanted, model_path) if ignore_missing_vars else wanted
    values = {}
    for name, variables in known.items():
        if not reader.has_tensor(name):
            raise errors.InvalidArgumentError(f"assign_from_checkpoint: Checkpoint is missing variable [{name}]; leave it out, "
                                              "or pass ignore_missing_vars=True")
        whole = reader.get_tensor(name)
        for variable in variables:
            part = variable._get_save_slice_info()
            value = whole[part.block] if part else whole
            if variable.shape.known and np.size(value) != variable.shape.num_elements():
                raise errors.InvalidArgumentError(f"assign_from_checkpoint: Total size of new array must be unchanged for "
                                                  f"{name}: it is {np.shape(value)} in the checkpoint but {variable.shape} in "
                                                  "the graph; leave it out")
            values[variable.op.name] = value
    return assign_from_values(values)


def assign_from_checkpoint_fn(model_path: Any, var_list: Any, ignore_missing_vars: bool = False,
                              reshape_variables: bool = False) -> Callable[[Any], None] | None:
    """A function of a session that restores these variables; None where there are none."""
    wanted = _by_name(var_list)
    if ignore_missing_vars:
        wanted = _known(load_checkpoint(model_path), wanted, model_path)
    if not wanted:
        logger.warning("No Variables to restore")
        return None
    saver = Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Mapping[str, Any]) -> None:
    """Let initializers give variables the values of a checkpoint, read when they run.

    `assignment_map` leads from names there to variables or their names, or from scopes ("there/") to scopes ("here/"); "/" is
    the outermost one. InvalidArgumentErrors (ValueErrors) for names that one of the two has not, and where shapes differ.
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    for source, target in assignment_map.items():
        for name, parts in _assigned(reader, source, target):
            _begin_with(reader, name, parts)


def _assigned(reader: Any, source: str, target: Any) -> list[tuple[str, list[Any]]]:
    if isinstance(target, str) and target.endswith("/"):
        return _scope(reader, source, target)
    if isinstance(target, str):
        found = _by_name(global_variables()).get(target)
        if found is None:
            raise errors.InvalidArgumentError(f"init_from_checkpoint: Variable {target} is not found among the graph's; make "
                                              "it first")
    else:
        found = variable_parts(target)
    _check_there(reader, source)
    return [(source, found)]


def _check_there(reader: Any, name: str) -> None:
    if not reader.has_tensor(name):
        raise errors.InvalidArgumentError(f"init_from_checkpoint: Tensor {name} is not found in {reader.path} checkpoint; it "
                                          "lists its tensors by list_variables")


def _scope(reader: Any, source: str, target: str) -> list[tuple[str, list[Any]]]:
    """Every variable below `target`, with its name below `source`."""
    inside = "" if target == "/" else target
    below = "" if source == "/" else source
    found = [(below + name.removeprefix(inside), parts) for name, parts in _by_name(global_variables()).items()
             if name.startswith(inside)]
    for name, _ in found:
        _check_there(reader, name)
    return found


def _begin_with(reader: Any, name: str, parts: Sequence[Any]) -> None:
    """Let a variable, or the parts of one, begin as the tensor `name`."""
    shape = list(reader.get_variable_to_shape_map()[name])
    for part in parts:
        told = part._get_save_slice_info()
        wanted = as_shape(list(told.full_shape)) if told else part.shape
        if not wanted.compatible(as_shape(shape)):
            raise errors.InvalidArgumentError(
                f"init_from_checkpoint: Shape of variable {part.op.name} ({wanted}) doesn't match with shape of tensor {name} "
                f"({shape}) from checkpoint reader.; map it to another")
        key, held = (told.block, list(told.var_shape)) if told else (..., shape)
        _begin(part, lambda key=key, dtype=part.dtype.numpy: np.asarray(reader.get_tensor(name)[key], dtype), held)


def _begin(variable: Any, read: Any, shape: list[int]) -> None:
    with variable.graph.as_default(), variable.graph.control_dependencies(None):
        value = ops.py_func(read, [], variable.dtype)
        value.set_shape(shape)
        variable.initializer = variable.assign(value).op
