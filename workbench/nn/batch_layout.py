"""Which numbers batch normalization takes one mean and variance of: along one axis or several, over virtual batches."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor

__all__ = ["Layout"]


class Layout:
    """`x`, what is normalized, and `shape`, that of the variables: [length of the axis] for one axis alone, else of the rank of
    `x` with 1 in all dimensions that are no axis. `over` are the dimensions that moments are taken over.

    A virtual batch of `virtual` examples has moments of its own: `x` is [virtual, batches, …] then. InvalidArgumentError
    (ValueError) for axes that there are not, twice the same, or the first with virtual batches, ShapeError where a length is
    not known.
    """

    def __init__(self, inputs: Any, axis: int | Sequence[int], virtual: int | None = None) -> None:
        given = convert(inputs)
        rank = given.shape.rank or 0
        axes = [axis] if isinstance(axis, int) else list(axis)
        found = [a + rank if a < 0 else a for a in axes]
        if not all(0 <= a < rank for a in found) or len(set(found)) < len(found):
            raise errors.InvalidArgumentError(f"batch_normalization: Invalid axis: {axes}, or Duplicate axis, of inputs "
                                              f"{given.name} {given.shape}; give each once, from {-rank} to {rank - 1}")
        for a in found:
            if given.shape.as_list()[a] is None:
                raise errors.ShapeError(f"batch_normalization: inputs {given.name} has shape {given.shape}; axis {a} must be "
                                        "known: set_shape it")
        self.x, self._given, self.virtual = given, given, virtual
        if virtual is not None:
            self.x = self._divided(given, virtual, found)
            found = [a + 1 for a in found]
        self.axes = sorted(found)
        lengths: list[Any] = [d if i in found else 1 for i, d in enumerate(self.x.shape.as_list())]
        self.alone = len(found) == 1 and virtual is None
        self.shape = [lengths[found[0]]] if self.alone else lengths
        self.over = [i for i in range(len(lengths)) if i not in found and not (virtual is not None and i == 1)]

    @staticmethod
    def _divided(given: Tensor, virtual: int, axes: Sequence[int]) -> Tensor:
        if virtual <= 0 or 0 in axes:
            raise errors.InvalidArgumentError(f"batch_normalization: virtual_batch_size is {virtual} with axes {list(axes)}; "
                                              "it must be a positive integer that divides the batch, which is not an axis then")
        rest = given.shape.as_list()[1:]
        if rest.count(None):
            raise errors.ShapeError(f"batch_normalization: inputs {given.name} has shape {given.shape}; with "
                                    "virtual_batch_size all but its first length must be known: set_shape it")
        divided: Tensor = ops.reshape(given, [virtual, -1, *rest])
        return divided

    def moments(self) -> list[Tensor]:
        """[mean, variance] of the batch or of each virtual batch."""
        found: list[Tensor] = ops.moments(self.x, self.over, keep_dims=not self.alone)
        return found

    def taken(self, moment: Any) -> Any:
        """What moving averages take in of a moment: the mean over virtual batches."""
        return moment if self.virtual is None else ops.reduce_mean(moment, 1, True)

    def seen(self, vector: Any) -> Any:
        """A variable or moment as it broadcasts against `x`; None for None."""
        if vector is None:
            return None
        rank = self.x.shape.rank or 0
        if not self.alone or self.axes == [rank - 1]:
            return convert(vector)
        return ops.reshape(convert(vector), [-1 if i in self.axes else 1 for i in range(rank)])

    def back(self, normalized: Tensor) -> Tensor:
        """The result, in the shape of the inputs."""
        if self.virtual is None:
            return normalized
        found: Tensor = ops.reshape(normalized, [-1, *self._given.shape.as_list()[1:]])
        found.set_shape(self._given.shape)
        return found
