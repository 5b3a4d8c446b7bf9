"""The table that a model prints of itself."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workbench.train.keras.backend import count_params
from workbench.train.keras.base import Layer, history

__all__ = ["lines"]


def lines(model: Any, line_length: int | None = None, positions: Sequence[float] | None = None) -> Iterator[str]:
    """The lines: one row for each layer, with where it is connected unless the layers are a chain; then the sums.

    `positions` are the ends of the columns, or their shares of `line_length`.
    """
    chain = _is_chain(model)
    length = line_length or (65 if chain else 100)
    ends = list(positions or ((0.45, 0.85, 1.0) if chain else (0.33, 0.55, 0.67, 1.0)))
    if ends[-1] <= 1:
        ends = [int(length * end) for end in ends]
    titles = ["Layer (type)", "Output Shape", "Param #", "Connected to"]
    yield "_" * length
    yield _row(titles[:3 if chain else 4], ends)
    yield "=" * length
    for layer in model.layers:
        fields = [f"{layer.name} ({type(layer).__name__})", _shape(layer), layer.count_params()]
        first, *more = [[]] if chain else ([[name] for name in _sources(model, layer)] or [[""]])
        yield _row([*fields, *first], ends)
        yield from (_row(["", "", "", *one], ends) for one in more)
        yield ("=" if layer is model.layers[-1] else "_") * length
    trained = sum(map(count_params, model.trainable_weights))
    fixed = sum(map(count_params, model.non_trainable_weights))
    yield from (f"Total params: {trained + fixed:,}", f"Trainable params: {trained:,}", f"Non-trainable params: {fixed:,}",
                "_" * length)


def _is_chain(model: Any) -> bool:
    """Does each layer follow the one before, once?"""
    return type(model).__name__ == "Sequential" or all(
        len(model.calls_of(layer)) == 1 and len(model.calls_of(layer)[0].inputs) == (1 if number else 0)
        for number, layer in enumerate(model.layers))


def _row(fields: Sequence[Any], ends: Sequence[float]) -> str:
    line = ""
    for number, (field, end) in enumerate(zip(fields, ends)):
        line = f"{line[:-1]} {field}" if number else str(field)
        line = line[:int(end)].ljust(int(end))
    return line


def _shape(layer: Layer) -> Any:
    try:
        return layer.output_shape
    except AttributeError:
        return "multiple"


def _sources(model: Any, layer: Layer) -> list[str]:
    found = [history(x) for node in model.calls_of(layer) for x in node.inputs]
    return [f"{one.layer.name}[{one.node}][{one.place}]" for one in found]
