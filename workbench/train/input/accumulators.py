"""Accumulators as objects of a program: gradients of many workers gathered, stale ones dropped (paper §4.4)."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import as_shape

__all__ = ["ConditionalAccumulator", "SparseConditionalAccumulator"]


class ConditionalAccumulator:
    """Gathers dense gradients of one dtype and shape; those of older steps are dropped (paper §4.4).

    `reduction_type` is "MEAN" or "SUM", InvalidArgumentError else. A gradient of another dtype or shape is one too,
    in its step.
    """

    def __init__(self, dtype: Any, shape: Any = None, shared_name: str | None = None,
                 name: str = "conditional_accumulator", reduction_type: str = "MEAN") -> None:
        self.dtype, self.shape = as_dtype(dtype), as_shape(shape)
        self.accumulator_ref: Tensor = self._make(reduction_type, shared_name, name)

    def _make(self, reduction_type: str, shared_name: str | None, name: str) -> Tensor:
        if reduction_type not in self._reductions:
            raise errors.InvalidArgumentError(f"accumulator: reduction_type {reduction_type!r} is unknown; use one of "
                                              f"{', '.join(self._reductions)}")
        return getattr(ops, self._kind)(
            dtype=self.dtype, shape=self.shape, reduction_type=reduction_type, shared_name=shared_name or "", name=name)

    @property
    def name(self) -> str:
        """That of its operation."""
        return self.accumulator_ref.op.name

    _kind = "conditional_accumulator"
    _reductions: tuple[str, ...] = ("MEAN", "SUM")

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None, worker: str = "") -> Operation:
        """Add a gradient computed at `local_step` (int64 scalar); never waits; dropped when a newer step has been taken.

        Of a named `worker` one gradient counts per local step, so that a step that is retried counts once.
        """
        return ops.accumulator_apply_gradient(
            self.accumulator_ref, convert(local_step, None), [convert(grad, self.dtype)], worker=worker, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """The mean (or sum) of the gathered gradients; the step waits until there are `num_required`. Gathers anew
        from then on."""
        return ops.accumulator_take_gradient(
            self.accumulator_ref, num_required, dtype=self.dtype, shape=self.shape, name=name)

    def set_members(self, members: Any, name: str | None = None) -> Operation:
        """So many workers are left: takes, also those that wait, ask for no more gradients than that."""
        return ops.accumulator_set_members(self.accumulator_ref, members, name=name)

    def num_dropped(self, name: str | None = None) -> Tensor:
        """Gradients that came too late or twice: int64 scalar."""
        return ops.accumulator_num_dropped(self.accumulator_ref, name=name)

    def arrivals(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """(workers: string [n], seconds: float64 [n]) of the newest gradients, dropped ones too: how long each took."""
        workers, seconds = ops.accumulator_arrivals(self.accumulator_ref, name=name)
        return workers, seconds

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Gradients gathered since the last take: int32 scalar."""
        return ops.accumulator_num_accumulated(self.accumulator_ref, name=name)

    def begin(self, step: Any, name: str | None = None) -> Operation:
        """Training begins at `step`, perhaps anew: then what an earlier life of it left here is forgotten."""
        return ops.accumulator_begin(self.accumulator_ref, step, name=name)

    def close(self, name: str | None = None) -> Operation:
        """Who waits for gradients, or will, gets CancelledError until training begins anew."""
        return ops.accumulator_close(self.accumulator_ref, name=name)

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Drop gradients older than this step from now on."""
        return ops.accumulator_set_global_step(self.accumulator_ref, new_global_step, name=name)


class SparseConditionalAccumulator(ConditionalAccumulator):
    """Gathers IndexedSlices of one dtype and row shape; gives IndexedSlices with sorted distinct indices.

    `shape` is the beginning of the dense gradient's: rows may have more axes. The mean is that of the dense gradients; with
    `reduction_type` "ROW_MEAN" each row's is over the gradients that have it.
    """

    _kind, _reductions = "sparse_conditional_accumulator", ("MEAN", "SUM", "ROW_MEAN")

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None,
                                  worker: str = "") -> Operation:
        """Add a sparse gradient computed at `local_step`."""
        return self.apply_grad(grad.indices, grad.values, local_step=local_step, name=name, worker=worker)

    def apply_grad(self, grad_indices: Any, grad_values: Any, grad_shape: Any = None,      # type: ignore[override]
                   local_step: Any = 0, name: str | None = None, worker: str = "") -> Operation:
        """Add a sparse gradient given by its parts: ints [n], values [n, row]; `grad_shape`, where it is known while
        building, must fit the accumulator's (ShapeError)."""
        known = None if grad_shape is None else constant_value(convert(grad_shape))
        wanted: tuple[Any, ...] = () if known is None else self.shape.sizes or ()
        lengths = [] if known is None else known.tolist()
        if len(wanted) > len(lengths):
            raise errors.ShapeError("sparse_conditional_accumulator: Shape mismatch: expected shape rank at least "
                                    f"{len(wanted)}, got {len(lengths)}; pass the shape of the dense gradient")
        for axis, size in enumerate(wanted):
            if size not in (None, lengths[axis]):
                raise errors.ShapeError(f"sparse_conditional_accumulator: Shape mismatch: expected shape dim {axis} to be "
                                        f"{size}, got {lengths[axis]} in grad_shape {lengths}; pass the shape of "
                                        "the dense gradient")
        parts = [convert(grad_indices), convert(grad_values, self.dtype)]
        return ops.accumulator_apply_gradient(self.accumulator_ref, local_step, parts, worker=worker, name=name)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """The mean (or sum) as IndexedSlices; the step waits until there are `num_required` gradients."""
        indices, values = ops.sparse_accumulator_take_gradient(
            self.accumulator_ref, num_required, dtype=self.dtype, shape=self.shape, name=name)
        if self.shape.known and self.shape.sizes:
            return IndexedSlices(values, indices, ops.constant(self.shape.static, "int64"))
        rows = self.shape.sizes[0] if self.shape.sizes else None
        lengths = ops.cast(ops.shape(values), "int64")
        return IndexedSlices(values, indices, ops.concat([[-1 if rows is None else rows], lengths[1:]], 0))

    take_grad = take_indexed_slices_grad
