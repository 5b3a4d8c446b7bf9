"""The layers of Keras, all in one place, and layers by name."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.train.keras import core_layers
from workbench.train.keras.base import Input, InputLayer, InputSpec, Layer
from workbench.train.keras.core_layers import *  # noqa: F403
from workbench.train.keras.registry import Kind

__all__ = ["Input", "InputLayer", "InputSpec", "Layer", *core_layers.__all__, "deserialize", "serialize"]

LAYERS = Kind("layer", InputLayer, *(getattr(module, name) for module in (core_layers,) for name in module.__all__
                                     if name[0].isupper()))
serialize = LAYERS.serialize


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The layer, or the model, that a configuration describes."""
    return LAYERS.deserialize(config, custom_objects)
