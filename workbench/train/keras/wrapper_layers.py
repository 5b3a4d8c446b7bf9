"""Layers around a layer: over each time step, and over time in both directions."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.train.keras.base import LAYERS, Layer, as_list
from workbench.train.keras.core_layers import known_shape

__all__ = ["Bidirectional", "TimeDistributed", "Wrapper"]


class Wrapper(Layer):
    """Base of a layer around `layer`, whose weights it has."""

    def __init__(self, layer: Layer, **options: Any) -> None:
        if not isinstance(layer, Layer):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: it wraps a layer; found {layer!r}")
        super().__init__(**options)
        self.layer = layer
        self._within.append(layer)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Wrapper:
        """The wrapper around the layer of a configuration."""
        return cls(**{**config, "layer": LAYERS.deserialize(config["layer"])})


class TimeDistributed(Wrapper):
    """`layer` for each time step of [batch, time, …]."""

    def __init__(self, layer: Layer, **options: Any) -> None:
        super().__init__(layer, **options)
        self.supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Tensor:
        """The steps' results, [batch, time, …]."""
        static, sizes = known_shape(self, inputs), ops.shape(inputs)
        dims = [sizes[axis] if size is None else size for axis, size in enumerate(static)]
        rows = ops.reshape(inputs, [-1, *dims[2:]])
        rows.set_shape([None, *static[2:]])
        takes = {} if training is None else {"training": training}
        found = self.layer.computed(rows, **takes)
        inner, shape = ops.shape(found), known_shape(self.layer, found)[1:]
        last = [inner[axis + 1] if size is None else size for axis, size in enumerate(shape)]
        made: Tensor = ops.reshape(found, [*dims[:2], *last])
        made.set_shape([*static[:2], *shape])
        return made


class Bidirectional(Wrapper):
    """A recurrent `layer` and its like backwards; `merge_mode` is concat, sum, mul, ave, or None for both in a list."""

    def __init__(self, layer: Layer, merge_mode: str | None = "concat", **options: Any) -> None:
        if merge_mode not in _MERGES:
            raise errors.InvalidArgumentError(f"Bidirectional: Invalid merge mode {merge_mode!r}; use one of concat, sum, mul, "
                                              "ave, None")
        if layer._given_shape is not None:
            options.setdefault("batch_input_shape", layer._given_shape)
        super().__init__(layer, **options)
        config = layer.get_config()
        self.forward_layer: Any = layer
        self.backward_layer: Any = type(layer).from_config({
            **config, "name": f"backward_{layer.name}", "go_backwards": not config["go_backwards"]})
        self._within.append(self.backward_layer)
        self.merge_mode, self.supports_masking, self.stateful = merge_mode, True, layer.stateful      # type: ignore[attr-defined]

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Both, merged."""
        options = {} if training is None else {"training": training}
        if mask is not None:
            options["mask"] = mask
        first, other = (as_list(layer.computed(inputs, **options)) for layer in (self.forward_layer, self.backward_layer))
        back = ops.reverse(other[0], [1]) if self.forward_layer.return_sequences else other[0]
        merged = _MERGES[self.merge_mode](first[0], back)
        states = [*first[1:], *other[1:]]
        return [*as_list(merged), *states] if states else merged

    def compute_mask(self, _inputs: Any, mask: Any = None) -> Any:
        """That of the time steps, where these are given back."""
        found = mask if self.forward_layer.return_sequences else None
        return found if self.merge_mode is not None else [found, found]

    def reset_states(self) -> None:
        """Both begin from zeros again."""
        self.forward_layer.reset_states()
        self.backward_layer.reset_states()


_MERGES: dict[Any, Any] = {
    "concat": lambda one, other: ops.concat([one, other], axis=one.shape.rank - 1), "sum": lambda one, other: one + other,
    "mul": lambda one, other: one * other, "ave": lambda one, other: (one + other) / 2, None: lambda one, other: [one, other]}
