"""What a graph brings beside its operations for the viewers of TensorBoard: files of each plugin."""
from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from workbench import errors
from workbench.core.graph.graph import Graph, get_default_graph

__all__ = ["PluginAsset", "get_all_plugin_assets", "get_plugin_asset", "write_plugin_assets"]

_KEY = "__plugin_assets"      # TensorFlow's name of the collection


class PluginAsset:
    """Files of one plugin, kept with a graph; a subclass has a `plugin_name` and says what `assets` there are."""

    plugin_name: str | None = None

    def assets(self) -> dict[str, str]:
        """Name of a file -> its text."""
        raise errors.UnimplementedError(f"{type(self).__name__}.assets: it does not say which files there are; give the "
                                        "subclass a method that returns {name: text}")


T = TypeVar("T", bound=PluginAsset)


def get_plugin_asset(plugin_asset_cls: type[T], graph: Graph | None = None) -> T:
    """The graph's (the default one's) asset of this class, made when it is first asked for.

    ValueError for a class without a `plugin_name`, or with the name of another class's.
    """
    name = plugin_asset_cls.plugin_name
    if not name:
        raise ValueError(f"Class {plugin_asset_cls.__name__} has no plugin_name; give it one")
    kept = (graph or get_default_graph()).get_collection_ref(_KEY)
    for asset in kept:
        if asset.plugin_name == name:
            if not isinstance(asset, plugin_asset_cls):
                raise ValueError(f"Plugin {name!r} is {type(asset).__name__} in this graph, not {plugin_asset_cls.__name__}; "
                                 "choose another plugin_name")
            return asset
    kept.append(plugin_asset_cls())
    made: T = kept[-1]
    return made


def get_all_plugin_assets(graph: Graph | None = None) -> list[PluginAsset]:
    """The assets that were made for the graph, the default one when None."""
    return list((graph or get_default_graph()).get_collection(_KEY))


def write_plugin_assets(graph: Graph, folder: Path) -> None:
    """Write the files of all plugins where TensorBoard looks for them: plugins/NAME/FILE."""
    for asset in get_all_plugin_assets(graph):
        place = folder / "plugins" / str(asset.plugin_name)
        place.mkdir(parents=True, exist_ok=True)
        for name, text in asset.assets().items():
            (place / name).write_text(text, encoding="utf-8")
