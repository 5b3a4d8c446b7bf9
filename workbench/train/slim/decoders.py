"""What slim makes of a serialized example: handlers turn its features into items, a decoder knows the handlers by name."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor as GraphTensor
from workbench.nn import image
from workbench.nn import sparse as sparse_tensors
from workbench.nn.sparse_ops import sparse_reshape
from workbench.train.input.examples import FixedLenFeature, parse_single_example

__all__ = ["BackupHandler", "BoundingBox", "DataDecoder", "Image", "ItemHandler", "ItemHandlerCallback", "LookupTensor",
           "SparseTensor", "TFExampleDecoder", "Tensor"]

Features = Mapping[str, Any]


class DataDecoder:
    """Makes items of data: programs derive theirs from it."""

    def decode(self, data: Any, items: Sequence[str]) -> list[Any]:
        """The tensors of these items; InvalidArgumentError (a ValueError) where one is not to be had."""
        raise NotImplementedError

    def list_items(self) -> list[str]:
        """The names of the items that it makes."""
        raise NotImplementedError


class ItemHandler:
    """Makes one item of the features under `keys` (one name, or several)."""

    def __init__(self, keys: Any) -> None:
        self._keys = list(keys) if isinstance(keys, (list, tuple)) else [keys]

    @property
    def keys(self) -> list[str]:
        """The names of the features that it needs."""
        return self._keys

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """The item, made of parsed features."""
        raise NotImplementedError


class ItemHandlerCallback(ItemHandler):
    """An item is what a function makes of the features."""

    def __init__(self, keys: Any, func: Callable[[Features], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """What the function gives."""
        return self._func(keys_to_tensors)


def _dense(feature: Any, default_value: Any = None) -> Any:
    return sparse_tensors.sparse_tensor_to_dense(feature, default_value) if isinstance(
        feature, sparse_tensors.SparseTensor) else feature


class BoundingBox(ItemHandler):
    """Four features as boxes [boxes, 4]; InvalidArgumentError (a ValueError) unless there are four keys.

    `prefix` stands before each key: ymin, xmin, ymax and xmax unless others are named.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str | None = None) -> None:
        names = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(names) != 4:
            raise errors.InvalidArgumentError(f"BoundingBox expects 4 keys but got {len(names)}: {names}")
        super().__init__([f"{prefix or ''}{name}" for name in names])

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """Boxes, a row each, in the order of the keys."""
        sides = [keys_to_tensors[key] for key in self._keys]
        return ops.stack([side.values if isinstance(side, sparse_tensors.SparseTensor) else side for side in sides], axis=1)


class Tensor(ItemHandler):
    """A feature as a dense tensor, of a shape that is given or stands in other features.

    InvalidArgumentError (a ValueError) where both are named. Where a sparse feature has no value, `default_value` stands.
    """

    def __init__(self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0) -> None:
        if shape_keys and shape is not None:
            raise errors.InvalidArgumentError(f"Tensor: Cannot specify both shape_keys ({shape_keys}) and shape ({shape}) "
                                              "parameters.; leave one out")
        others = list(shape_keys or []) if not isinstance(shape_keys, str) else [shape_keys]
        super().__init__([tensor_key, *others])
        self._shape, self._default_value = shape, default_value

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """The dense tensor."""
        key, *others = self._keys
        found, shape = keys_to_tensors[key], self._shape
        if others:
            shape = ops.reshape(ops.stack([_dense(keys_to_tensors[other]) for other in others]), [-1])
        if isinstance(found, sparse_tensors.SparseTensor):
            return _dense(found if shape is None else sparse_reshape(found, shape), self._default_value)
        return found if shape is None else ops.reshape(found, shape)


class LookupTensor(Tensor):
    """As Tensor, and then what a table has for its values."""

    def __init__(self, tensor_key: str, table: Any, shape_keys: Any = None, shape: Any = None, default_value: Any = "") -> None:
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """What the table has."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """A handler, and another whose item counts where the first one's is empty; InvalidArgumentErrors (ValueErrors) for what
    is no handler."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for kind, one in (("Primary", handler), ("Backup", backup)):
            if not isinstance(one, ItemHandler):
                raise errors.InvalidArgumentError(f"{kind} handler is of type {type(one)} instead of ItemHandler; "
                                                  "pass a handler")
        super().__init__([*handler.keys, *backup.keys])
        self._handler, self._backup = handler, backup

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """The first item that is not empty."""
        item = convert(self._handler.tensors_to_item(keys_to_tensors))
        return ops.cond(ops.equal(ops.size(item), 0), lambda: self._backup.tensors_to_item(keys_to_tensors), lambda: item)


class SparseTensor(ItemHandler):
    """Two features, the last indices and the values, as a sparse tensor; dense, with `default_value` elsewhere, where asked.

    Its shape stands in another feature, or is given, or is that of the indices.
    """

    def __init__(self, indices_key: str | None = None, values_key: str | None = None, shape_key: str | None = None,
                 shape: Any = None, densify: bool = False, default_value: Any = 0) -> None:
        super().__init__([indices_key or "indices", values_key or "values", *([shape_key] if shape_key else [])])
        self._shape, self._densify, self._default_value = shape, densify, default_value

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """The sparse tensor, or the dense one."""
        indices, values, *shapes = [keys_to_tensors[key] for key in self._keys]
        shape = _dense(shapes[0]) if shapes else self._shape if self._shape else indices.dense_shape
        rank = ops.shape(indices.indices)[1]
        kept = ops.slice(indices.indices, [0, 0], ops.stack([-1, rank - 1]))
        last = ops.reshape(ops.cast(indices.values, "int64"), [-1, 1])
        found = sparse_tensors.SparseTensor(ops.concat([kept, last], 1), values.values, ops.cast(convert(shape), "int64"))
        return _dense(found, self._default_value) if self._densify else found


class Image(ItemHandler):
    """A feature that holds a file of an image, or its bytes where the feature of the format says "raw".

    The item is [height, width, channels] of `shape` where that is given; `repeated` images are [n, height, width, channels].
    """

    def __init__(self, image_key: str | None = None, format_key: str | None = None, shape: Any = None, channels: int = 3,
                 dtype: Any = "uint8", repeated: bool = False) -> None:
        super().__init__([image_key or "image/encoded", format_key or "image/format"])
        self._shape, self._channels, self._dtype, self._repeated = shape, channels, dtype, repeated

    def tensors_to_item(self, keys_to_tensors: Features) -> Any:
        """The image, or the images."""
        files, form = [keys_to_tensors[key] for key in self._keys]
        if self._repeated:
            return ops.map_fn(lambda file: self._decoded(file, form), files, dtype=self._dtype)
        return self._decoded(files, form)

    def _decoded(self, file: GraphTensor, form: GraphTensor) -> GraphTensor:
        raw = ops.logical_or(ops.equal(form, "raw"), ops.equal(form, "RAW"))
        found = ops.cond(raw, lambda: ops.decode_raw(file, out_type=self._dtype),
                         lambda: ops.cast(image.decode_image(file, self._channels), self._dtype))
        if self._shape is not None:
            return ops.reshape(found, self._shape)
        found.set_shape([None, None, self._channels])
        return found


class TFExampleDecoder(DataDecoder):
    """Parses serialized examples into features, and makes items of them."""

    def __init__(self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]) -> None:
        self._features, self._handlers = keys_to_features, items_to_handlers

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """The tensors of these items (of all where none are named) of one serialized example: string scalar."""
        found = parse_single_example(serialized_example, self._features)
        for key, feature in sorted(self._features.items()):
            if isinstance(feature, FixedLenFeature):
                found[key] = ops.reshape(found[key], feature.shape)
        handlers = [self._handlers[item] for item in items or self._handlers]
        return [handler.tensors_to_item({key: found[key] for key in handler.keys}) for handler in handlers]
