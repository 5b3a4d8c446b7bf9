"""prefetch_queue: whole batches wait in a queue of their own, so that several towers take theirs from it."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import get_default_graph
from workbench.train.input.inputs import check_known
from workbench.train.input.queues import FIFOQueue, PaddingFIFOQueue, QueueBase
from workbench.train.saving import summary
from workbench.train.sessions.coordinator import QueueRunner, add_queue_runner

__all__ = ["prefetch_queue"]


def prefetch_queue(tensors: Any, capacity: int = 8, num_threads: int = 1, dynamic_pad: bool = False,
                   shared_name: str | None = None, name: str | None = None) -> QueueBase:
    """A queue of up to `capacity` of these tensors (a list, or a dictionary by name), filled by `num_threads` threads.

    With `dynamic_pad` shapes may be unknown in part; ShapeError (a ValueError) for such shapes without it.
    """
    names = list(tensors) if isinstance(tensors, Mapping) else None
    values = [convert(t) for t in (tensors.values() if isinstance(tensors, Mapping) else tensors)]
    with get_default_graph().name_scope(name or "prefetch_queue"):
        dtypes, shapes = [t.dtype for t in values], [t.shape for t in values]
        check_known("prefetch_queue", values, shapes, dynamic_pad)
        queue: QueueBase = (PaddingFIFOQueue if dynamic_pad else FIFOQueue)(
            capacity, dtypes, shapes, names, shared_name, "padding_fifo_queue" if dynamic_pad else "fifo_queue")
        enqueue = queue.enqueue(dict(zip(names, values)) if names is not None else values)
        add_queue_runner(QueueRunner(queue, [enqueue] * num_threads))
        summary.scalar(f"fraction_of_{capacity}_full", ops.cast(queue.size(), "float32") * (1.0 / capacity))
        return queue
