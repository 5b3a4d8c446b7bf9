"""Files that a SavedModel brings along: copied beside it, and their paths told to the graph that is loaded."""
from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.formats.messages import message
from workbench.formats.reader import as_message

__all__ = ["ASSETS_KEY", "add_assets", "asset_paths"]

ASSETS_KEY = "saved_model_assets"
_TYPE = "type.googleapis.com/tensorflow.AssetFileDef"


def _path(tensor: Any) -> Path:
    """What a constant says; TypeError for what is no scalar constant of text."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"SavedModel: Asset path tensor must be a Tensor; it is {tensor!r}")
    if tensor.op.kind != "constant":
        raise TypeError(f"SavedModel: Asset path tensor must be of type constant; {tensor.name!r} is a {tensor.op.type}")
    if tensor.dtype.name != "string":
        raise TypeError(f"SavedModel: Asset path tensor must be of dtype string; {tensor.name!r} is {tensor.dtype.name}")
    found = tensor.op.attrs["value"]
    if found.ndim:
        raise TypeError(f"SavedModel: Asset path tensor must be a scalar; {tensor.name!r} has shape {tensor.shape}")
    if not found.item():
        raise ValueError(f"SavedModel: Invalid asset filepath tensor {tensor.name!r}: it is empty; name a file")
    return Path(os.fsdecode(found.item()))


def add_assets(proto: Any, folder: Path, tensors: Iterable[Any]) -> None:
    """Copy the files that constants name into `folder`/assets, and note them in the MetaGraphDef `proto`.

    Of files with one name the first is kept. NotFoundError for a file that is missing, TypeError for a path that is none.
    """
    for tensor in tensors:
        source = _path(tensor)
        if not source.is_file():
            raise errors.NotFoundError(f"SavedModel: asset {str(source)!r} ({tensor.name!r}) is not a file; give the path "
                                       "of one")
        target = folder / "assets" / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copyfile(source, target)
        told = message("AssetFileDef")(filename=source.name, tensor_info=message("TensorInfo")(name=tensor.name))
        proto.collection_def[ASSETS_KEY].any_list.value.add(type_url=_TYPE, value=told.SerializeToString())


def asset_paths(proto: Any, folder: Path) -> dict[str, str]:
    """Name of a tensor -> path of the file that it is to name, of a model in `folder`. DataLossError for damage."""
    told = list(proto.asset_file_def)      # where later versions of TensorFlow note them as well
    if ASSETS_KEY in proto.collection_def:
        told += [as_message("AssetFileDef", item.value, "SavedModel: an asset")
                 for item in proto.collection_def[ASSETS_KEY].any_list.value]
    for asset in told:
        if Path(asset.filename).name != asset.filename:
            raise errors.DataLossError(f"SavedModel: asset {asset.filename!r} of {asset.tensor_info.name!r} is not a plain "
                                       "name of a file; write the model anew")
    return {asset.tensor_info.name: str(folder / "assets" / asset.filename) for asset in told}
