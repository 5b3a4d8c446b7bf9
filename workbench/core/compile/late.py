"""Kernels of libraries for operations of whose shapes only the step knows: chosen when values of these shapes first come."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.compile.values import aligned, packer
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.kernels.choice import Choice, Layout, Select, Spec, reorders
from workbench.core.kernels.fallback import announce, ask
from workbench.core.kernels.options import KernelOptions, kernel_options, using

__all__ = ["Late", "worth_asking"]

KEPT = 32
"""Shapes for which an operation keeps its kernels, as many as have plans of their own; the oldest goes first."""

Shapes = tuple[tuple[int, ...], ...]
Call = Callable[..., Any]


def worth_asking(library: str, op: Operation) -> bool:
    """May a kernel of `library` for each shape be worth its making? One of oneDNN takes longer to make than NumPy needs for
    what it does in a pass, and for products, which its BLAS computes as fast from values in C order: but not with the same bits
    on any number of threads."""
    if op.kind == "matmul" and kernel_options().deterministic:
        return True
    return library != "onednn" or not (op.definition.elementwise or op.kind in ("bias_add", "matmul"))


class Late:
    """The kernel of one operation in one instance: arrays to new arrays, by the first of `offers` that serves their shapes,
    by `reference` where none does. Values come and go in C order: private layouts are made and undone inside."""

    def __init__(self, op: Operation, offers: Sequence[tuple[str, Select]], options: KernelOptions, reference: Call) -> None:
        self._op, self._offers, self._options, self._reference = op, offers, options, reference
        self._calls: dict[Shapes, Call] = {}

    def __call__(self, *arrays: Any) -> Any:
        shapes = tuple([array.shape for array in arrays])
        call = self._calls.get(shapes)
        if call is None:
            if len(self._calls) >= KEPT:
                del self._calls[next(iter(self._calls))]
            call = self._calls[shapes] = self._chosen(shapes) or self._reference
        return call(*arrays)

    def _chosen(self, shapes: Shapes) -> Call | None:
        """None where no library serves, or where the shapes of the results do not follow from those of the inputs."""
        op = self._op
        try:
            made = op.graph.infer(op, [Tensor(t.op, t.index, t.dtype, Shape(s)) for t, s in zip(op.inputs, shapes)])
        except errors.Error:      # the reference says what is wrong with the values
            return None
        if not all(t.shape.known for t in made):
            return None
        inputs = [Spec(shape, t.dtype.numpy) for t, shape in zip(op.inputs, shapes)]
        outputs = [Spec(t.shape.static, t.dtype.numpy) for t in made]
        with using(self._options):
            for library, select in self._offers:
                choice = ask(library, select, op.kind, op.attrs, inputs, outputs, [False] * len(outputs))
                if choice is not None and not any(choice.outputs):
                    try:
                        return _called(choice, inputs, outputs)
                    except Exception as error:      # whatever is wrong in a library: the operation can be computed without it
                        announce(library, op.kind, error)
        return None


def _called(choice: Choice, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Call:
    """The kernel of `choice` as a function that gives its results, of which one comes by itself."""
    room = [choice.scratch] if choice.scratch else []
    kernel = choice.make((False,) * (len(inputs) + len(outputs) + len(room)))
    brought = [_brought(spec, layout) for spec, layout in zip(inputs, choice.inputs)]

    def call(*arrays: Any) -> Any:
        results = [np.empty(spec.shape, spec.dtype) for spec in outputs]
        given = [bring(array) for bring, array in zip(brought, arrays)]
        kernel(*given, *results, *map(aligned, room))
        return results if len(results) > 1 else results[0]
    return call


def _brought(spec: Spec, layout: Layout | None) -> Call:
    """What brings a value in C order into `layout`."""
    if layout is None:
        return _as_it_is
    target = replace(spec, layout=layout)
    return packer(reorders[layout.library](spec, target), target)


def _as_it_is(array: Any) -> Any:
    return array
