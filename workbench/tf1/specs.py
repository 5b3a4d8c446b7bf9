"""What a tensor is to be: its shape, its dtype, the bounds of its elements."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.shape import as_shape

__all__ = ["BoundedTensorSpec", "TensorSpec"]


class TensorSpec:
    """A shape, a dtype and a name: what a tensor is to be."""

    def __init__(self, shape: Any, dtype: Any = "float32", name: str | None = None) -> None:
        self.shape, self.dtype, self.name = as_shape(shape), as_dtype(dtype), name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> Any:
        """Of another spec, or of an array's."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> Any:
        """What a tensor is."""
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Has it this dtype and a shape that may be this one?"""
        return bool(self.dtype == spec_or_tensor.dtype and self.shape.is_compatible_with(spec_or_tensor.shape))

    def _parts(self) -> tuple[Any, ...]:
        return self.shape, self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and type(self) is type(other) and str(self._parts()) == str(other._parts())

    def __hash__(self) -> int:
        return hash(str(self._parts()))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


class BoundedTensorSpec(TensorSpec):
    """A spec with the least and the largest value of the elements."""

    def __init__(self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: str | None = None) -> None:
        super().__init__(shape, dtype, name)
        if minimum is None or maximum is None:
            raise ValueError(f"minimum and maximum must be provided; they are {minimum}, {maximum}")
        self.minimum, self.maximum = (np.array(one, self.dtype.as_numpy_dtype) for one in (minimum, maximum))

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> Any:
        """Of another bounded spec; bounds that it lacks are those of its dtype."""
        kind = as_dtype(spec.dtype)
        return cls(spec.shape, spec.dtype, getattr(spec, "minimum", kind.min), getattr(spec, "maximum", kind.max),
                   name or getattr(spec, "name", None))

    def _parts(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.minimum.tolist(), self.maximum.tolist()
