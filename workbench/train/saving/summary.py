"""Summaries: named values of a step, collected in one fetch, for a FileWriter."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.formats.messages import message, parse_json
from workbench.nn.variables import GraphKeys, get_collection
from workbench.train.saving.events import FileWriter, FileWriterCache
from workbench.train.saving.plugin_assets import PluginAsset, get_all_plugin_assets, get_plugin_asset
from workbench.train.saving.tags import clean, collected, scope

__all__ = ["FileWriter", "FileWriterCache", "PluginAsset", "audio", "get_all_plugin_assets", "get_plugin_asset",
           "get_summary_description", "histogram", "image", "merge", "merge_all", "scalar", "tensor_summary", "text"]

# also offered, as protocol buffers
_MESSAGES = ("Event", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata")


def __getattr__(name: str) -> Any:
    """The protocol buffers, whose library is loaded when one is asked for."""
    if name not in _MESSAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return message(name)


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A number of each step (a scalar tensor of a real type) as a series; gives a string scalar for FileWriter.add_summary.

    Its tag is `name` below the name scopes around it, with a number where that is taken.
    """
    with scope(name, family) as (tag, title):
        return collected(ops.scalar_summary(convert(tensor), tag=tag, name=title), collections)


def numbers(values: Mapping[str, Any]) -> Any:
    """A Summary of those of the values that are single numbers, by their names as tags."""
    made = message("Summary")()
    for tag, value in values.items():
        if isinstance(value, (int, float, np.number, np.ndarray)) and np.ndim(value) == 0:      # states and texts are no curve
            made.value.add(tag=tag, simple_value=float(value))
    return made


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The distribution of a tensor's elements in a step. InvalidArgumentError when run, for values that are not finite."""
    with scope(name, family) as (tag, title):
        return collected(ops.histogram_summary(convert(values), tag=tag, name=title), collections)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Up to `max_outputs` pictures of images [n, height, width, 1, 3 or 4], uint8 or floats (scaled to be visible)."""
    with scope(name, family) as (tag, title):
        return collected(ops.image_summary(convert(tensor), tag=tag, max_outputs=max_outputs, name=title), collections)


def audio(name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None,
          family: str | None = None) -> Tensor:
    """Up to `max_outputs` sounds of float32 [clips, frames] or [clips, frames, channels] in [-1, 1]; `sample_rate` in Hertz."""
    with scope(name, family) as (tag, title):
        return collected(ops.audio_summary(convert(tensor, "float32"), convert(sample_rate, "float32"), tag=tag,
                                            max_outputs=max_outputs, name=title), collections)


def tensor_summary(name: str, tensor: Any, summary_description: str | None = None, collections: Any = None,
                   summary_metadata: Any = None, family: str | None = None, display_name: str | None = None) -> Tensor:
    """A tensor as it is, with what a plugin of TensorBoard needs to show it (a SummaryMetadata)."""
    kept = message("SummaryMetadata")()
    if summary_metadata is not None:
        kept.MergeFromString(summary_metadata.SerializeToString())
    if display_name is not None:
        kept.display_name = display_name
    if summary_description is not None:
        kept.summary_description = summary_description
    with scope(name, family) as (tag, title):
        return collected(ops.tensor_summary(convert(tensor), tag=tag, metadata=kept.SerializeToString(), name=title),
                          collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Text of a step, from a string tensor. ValueError for a tensor of another type."""
    found = convert(tensor)
    if found.dtype != as_dtype("string"):
        raise errors.DtypeError(f"summary.text: Expected tensor {found.name} to have dtype string, got {found.dtype.name}; "
                                "as_string makes text of numbers")
    plugin = message("SummaryMetadata.PluginData")(plugin_name="text")
    return tensor_summary(name, found, collections=collections, summary_metadata=message("SummaryMetadata")(plugin_data=plugin))


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries as one string scalar. InvalidArgumentError when run, where two have one tag."""
    return collected(ops.merge_summary(list(inputs), name=clean(name)), collections, ())


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None) -> Tensor | None:
    """All summaries of the graph as one string scalar, None when there are none."""
    found = get_collection(key, scope)
    return merge(found) if found else None


def get_summary_description(node_def: Any) -> Any:
    """The SummaryDescription that the NodeDef of a TensorSummary tells in JSON. ValueError for a node of another kind."""
    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    return parse_json("SummaryDescription", node_def.attr["description"].s.decode() or "{}", f"node {node_def.name!r}")
