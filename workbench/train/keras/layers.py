"""The layers of Keras, all in one place, and layers by name."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.train.keras import (
    conv_recurrent_layers,
    core_layers,
    image_layers,
    local_layers,
    more_layers,
    recurrent_layers,
    wrapper_layers,
)
from workbench.train.keras.base import LAYERS, Input, InputLayer, InputSpec, Layer
from workbench.train.keras.conv_recurrent_layers import *  # noqa: F403
from workbench.train.keras.core_layers import *  # noqa: F403
from workbench.train.keras.image_layers import *  # noqa: F403
from workbench.train.keras.local_layers import *  # noqa: F403
from workbench.train.keras.more_layers import *  # noqa: F403
from workbench.train.keras.recurrent_layers import *  # noqa: F403
from workbench.train.keras.wrapper_layers import *  # noqa: F403

_PARTS = (conv_recurrent_layers, core_layers, image_layers, local_layers, more_layers, recurrent_layers, wrapper_layers)

__all__ = ["Input", "InputLayer", "InputSpec", "Layer", "deserialize", "serialize"]
__all__ += [name for part in _PARTS for name in part.__all__ if name not in ("known_shape", "rnn")]

LAYERS.names |= {"InputLayer": InputLayer, **{
    name: getattr(part, name) for part in _PARTS for name in part.__all__ if name[0].isupper()}}
serialize = LAYERS.serialize


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The layer, or the model, that a configuration describes."""
    return LAYERS.deserialize(config, custom_objects)
