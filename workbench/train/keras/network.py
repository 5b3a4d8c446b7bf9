"""Network: layers between given inputs and outputs, read off the tensors, as one layer with weights and a description."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Tensor
from workbench.nn.variables import Variable
from workbench.train.keras import layers, saving, summary
from workbench.train.keras.base import Layer, Node, as_list, history
from workbench.train.keras.registry import described

__all__ = ["Network"]


class Network(Layer):
    """The layers that lead from `inputs` to `outputs` (a tensor or a list of them). Called with other tensors it is a layer.

    InvalidArgumentError where an output does not come from the inputs, or two layers have one name.
    """

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, trainable: bool = True) -> None:
        super().__init__(name=name, trainable=trainable)
        self._wire(as_list(inputs), as_list(outputs))

    def _wire(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Find the layers between; the first call is what they are already."""
        self.inputs, self.outputs, self.built = inputs, outputs, True
        self.input_layers = [history(x).layer for x in inputs]
        self._order = _ordered(inputs, outputs)
        self._within[:] = dict.fromkeys(node.layer for node in self._order)
        names = [layer.name for layer in self._within]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise errors.InvalidArgumentError(f"{self._name}: the name {twice[0]!r} is used {names.count(twice[0])} times; All "
                                              "layer names should be unique: give each layer another")
        self.input_names = [layer.name for layer in self.input_layers]
        self.output_names = [history(x).layer.name for x in outputs]
        self._nodes[:] = []
        self._calls[:] = [(_one(inputs), _one(outputs))]
        self._nodes.append(Node(self, 0, [], outputs, {}))

    @property
    def layers(self) -> list[Layer]:
        """The layers, from the inputs on."""
        return list(dict.fromkeys(node.layer for node in self._order))

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """The layer of a name, or of a place among `layers`. InvalidArgumentError where there is none."""
        if name is None and index is not None and -len(self.layers) <= index < len(self.layers):
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise errors.InvalidArgumentError(f"{self._name}: there is no layer {name if index is None else index!r}; its "
                                          f"{len(self.layers)} layers are {', '.join(layer.name for layer in self.layers)}")

    def call(self, inputs: Any) -> Any:
        """The outputs for other inputs, through the same layers."""
        values = {id(x): given for x, given in zip(self.inputs, as_list(inputs))}
        for node in self._order:
            if all(id(x) in values for x in node.outputs):
                continue
            given = [values[id(x)] for x in node.inputs]
            several = isinstance(node.layer.get_input_at(node.number), (list, tuple))
            made = node.layer.computed(given if several else given[0], **node.options)
            values.update(zip(map(id, node.outputs), as_list(made)))
        return _one([values[id(x)] for x in self.outputs])

    def compute_mask(self, _inputs: Any, mask: Any = None) -> Any:
        """None: masks end with the model."""
        return None

    @property
    def weights(self) -> list[Variable]:
        """The weights of its layers, layer by layer."""
        return list({id(v): v for layer in self.layers for v in layer.weights}.values())

    variables = weights

    @property
    def updates(self) -> list[Any]:
        """What a training step does besides; nothing where `trainable` is false."""
        return self._all("updates") if self.trainable or self.stateful else []

    @property
    def state_updates(self) -> list[Any]:
        """What keeps the states of recurrent layers between batches."""
        return [one for layer in self.layers if getattr(layer, "stateful", False) for one in layer.updates]

    @property
    def stateful(self) -> bool:
        """Does a layer keep its state between batches?"""
        return any(getattr(layer, "stateful", False) for layer in self.layers)

    def reset_states(self) -> None:
        """Recurrent layers begin from zeros again."""
        for layer in self.layers:
            reset = getattr(layer, "reset_states", None)
            if reset is not None and getattr(layer, "stateful", False):
                reset()

    # as data
    def get_config(self) -> dict[str, Any]:
        """Its layers, their arguments and how they are connected."""
        places = {layer: self.calls_of(layer) for layer in self.layers}
        return {"name": self._name, "layers": [{
            "name": layer.name, "class_name": type(layer).__name__, "config": layer.get_config(),
            "inbound_nodes": [[_whence(x, places, node.options) for x in node.inputs] for node in kept if node.inputs],
        } for layer, kept in places.items()], "input_layers": [_whence(x, places)[:3] for x in self.inputs],
            "output_layers": [_whence(x, places)[:3] for x in self.outputs]}

    def calls_of(self, layer: Layer) -> list[Node]:
        """The calls of a layer that are part of this."""
        return [node for node in self._order if node.layer is layer]

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Any:
        """The model that get_config described, with new weights."""
        made = {layer["name"]: layers.deserialize({
            "class_name": layer["class_name"], "config": {**layer["config"], "name": layer["name"]}}, custom_objects)
            for layer in config["layers"]}
        return cls._wired(config, made, {})

    @classmethod
    def _wired(cls, config: Mapping[str, Any], made: Mapping[str, Layer], given: Mapping[Any, Tensor]) -> Any:
        """The model of layers by name, connected as get_config says; `given` are inputs by layer, call and place."""
        tensors = dict(given)
        waiting = [(layer["name"], number, node) for layer in config["layers"]
                   for number, node in enumerate(layer["inbound_nodes"] or [None]) if (layer["name"], number, 0) not in given]
        while waiting:
            ready = [one for one in waiting if all(tuple(x[:3]) in tensors for x in one[2] or ())]
            if not ready:
                raise errors.InvalidArgumentError(f"{config.get('name')}: the layers {', '.join(one[0] for one in waiting)} "
                                                  "wait for inputs that no layer gives; the configuration is damaged")
            for name, number, node in sorted(ready, key=lambda one: one[1]):
                tensors.update(_again(made[name], name, number, node, tensors))
            waiting = [one for one in waiting if one not in ready]
        return cls(inputs=[tensors[tuple(x)] for x in config["input_layers"]],
                   outputs=[tensors[tuple(x)] for x in config["output_layers"]], name=config.get("name"))

    def to_json(self, **options: Any) -> str:
        """get_config as JSON text, with the class; models.model_from_json reads it."""
        return json.dumps({"class_name": type(self).__name__, "config": described(self.get_config()),
                           "keras_version": "2.0.8-tf", "backend": "tensorflow"}, **options)

    def to_yaml(self, **options: Any) -> str:
        """The same as YAML text, of plain values alone; models.model_from_yaml reads it."""
        import yaml
        made: str = yaml.safe_dump(json.loads(self.to_json()), **options)
        return made

    def summary(self, line_length: int | None = None, positions: Sequence[float] | None = None, print_fn: Any = None) -> None:
        """Print a table of the layers, their output shapes and numbers of weights."""
        for line in summary.lines(self, line_length, positions):
            (print_fn or print)(line)

    def save(self, filepath: str, overwrite: bool = True, include_optimizer: bool = True) -> None:
        """Write the model, its weights and how it trains, for models.load_model: by its name HDF5 or NumPy's .npz."""
        saving.save_model(self, filepath, overwrite, include_optimizer)

    def save_weights(self, filepath: str, overwrite: bool = True) -> None:
        """Write the weights alone: HDF5 where the name ends in .h5 or .hdf5, NumPy's .npz otherwise."""
        saving.save_weights(self, filepath, overwrite)

    def load_weights(self, filepath: str, by_name: bool = False) -> None:
        """Read the weights that save_weights wrote; with `by_name` those of layers of the same names alone."""
        saving.load_weights(self, filepath, by_name)


def _one(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else found


def _whence(x: Any, places: Mapping[Layer, list[Node]], options: Mapping[str, Any] | None = None) -> list[Any]:
    """[name of the layer, number of its call, place, arguments of the call] for a configuration."""
    layer, index, place = history(x)
    return [layer.name, [node.number for node in places[layer]].index(index), place, described(dict(options or {}))]


def _again(layer: Layer, name: str, number: int, node: Any, tensors: Mapping[Any, Tensor]) -> Iterator[tuple[Any, Tensor]]:
    """The tensors of one call of a layer, by its name, the number of the call and their place."""
    if node is None:
        made = layer.output
    else:
        given = [tensors[tuple(x[:3])] for x in node]
        made = layer(given if len(given) > 1 or getattr(layer, "takes_list", False) else given[0], **node[0][3])
    return (((name, number, place), x) for place, x in enumerate(as_list(made)))


def _ordered(inputs: list[Any], outputs: list[Any]) -> list[Node]:
    """The calls between inputs and outputs, those farthest from the outputs first; as Keras orders a model's layers."""
    ends = {id(x) for x in inputs}
    seen: dict[int, Node] = {}
    done: list[Node] = []
    first: dict[Layer, int] = {}

    def visit(x: Any) -> None:
        layer, index, _ = history(x)
        node = layer._nodes[index]
        if id(node) in seen:
            return
        seen[id(node)] = node
        first.setdefault(layer, len(first))
        if id(x) not in ends:
            if not node.inputs:
                raise errors.InvalidArgumentError(f"Model: Graph disconnected: {x.name} of layer {layer.name} is needed, but "
                                                  "it is not among the inputs; add it to inputs=[…]")
            for one in node.inputs:
                visit(one)
        done.append(node)
    for x in outputs:
        visit(x)
    for x in inputs:
        visit(x)
    depths: dict[int, int] = {}
    levels: dict[Layer, int] = {}
    for node in reversed(done):
        depth = depths[id(node)] = levels[node.layer] = max(depths.get(id(node), 0), levels.get(node.layer, 0))
        for x in node.inputs if not {id(o) for o in node.outputs} & ends else []:
            before = id(history(x).layer._nodes[history(x).node])
            depths[before] = max(depths.get(before, 0), depth + 1)
    deepest = max(depths.values(), default=0)
    for x in inputs:
        depths[id(history(x).layer._nodes[history(x).node])] = deepest
    return sorted(done, key=lambda node: (-depths[id(node)], first[node.layer]))
