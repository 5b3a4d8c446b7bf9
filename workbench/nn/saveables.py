"""What is saved beside variables: tensors by name, and the operation that takes them back."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Tensor

__all__ = ["SaveSpec", "SaveableObject"]


class SaveSpec(NamedTuple):
    """A tensor that is saved whole (`slice_spec` is "") under a name."""

    tensor: Tensor
    slice_spec: str
    name: str


class SaveableObject:
    """State that is no variable: `specs` are saved, and `restore` of a derived class takes them back.

    `op` is what holds the state, `name` what a saver calls it. Those in the collection SAVEABLE_OBJECTS are saved by default.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op, self.specs, self.name = op, list(specs), name

    @property
    def device(self) -> str:
        """Where its first tensor is made, as far as its operation or the state that this reads asks for a device: what saves it
        stands in steps without them."""
        made = self.specs[0].tensor.op
        asked = [made.device, *(tensor.op.device for tensor in made.inputs if tensor.dtype is resource)]
        return next(filter(None, asked), "")

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """An operation that gives the state the values that were saved, in the order of `specs`."""
        raise NotImplementedError(f"{type(self).__name__}: restore(tensors, shapes) is missing; define it")
