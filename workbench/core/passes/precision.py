"""Mixed precision: products and convolutions of float32 values in 16 bits, what is between them and all state in float32."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.core.graph.dtype import DType, as_dtype, float32
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["LOWERED", "SENTENCE", "number", "precision"]

SENTENCE = "Products and convolutions are computed from 16-bit values and added up in float32."

LOWERED = frozenset({"matmul", "batch_matmul", "conv2d", "conv2d_backprop_input", "conv2d_backprop_images",
                     "conv2d_backprop_filter", "conv2d_backprop_filters"})


def precision(name: str) -> Callable[[Program], Program]:
    """The pass that computes in "bfloat16" or "float16".

    Variables, updates, sums, softmax and losses stay in float32: the weights of the graph are the masters, of which each
    step rounds copies (Micikevicius et al. 2018, mixed precision training). Optimizers see to gradients that vanish in float16.
    """
    dtype = as_dtype(name)
    shorts: dict[Tensor, Tensor] = {}

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind not in LOWERED or op.outputs[0].dtype is not float32:
            return None
        return [_lowered(op, inputs, state, dtype, shorts)]
    return lambda program: rewrite(program, visit)


def _lowered(op: Operation, inputs: list[Tensor], state: Rewrite, dtype: DType, shorts: dict[Tensor, Tensor]) -> Tensor:
    short = [_cast(t, dtype, op, state, shorts) if t.dtype is float32 else t for t in inputs]
    product = state.create(op.kind, short, dict(op.attrs), f"{op.name}/{dtype.name}", op).outputs[0]
    return state.create("cast", [product], {"dtype": float32}, op.name, op).outputs[0]


def _cast(tensor: Tensor, dtype: DType, op: Operation, state: Rewrite, shorts: dict[Tensor, Tensor]) -> Tensor:
    """`tensor` rounded, once, where it was made; what was just made from the same type is taken as it was."""
    made = tensor.op
    if made.kind == "constant":      # in a frame of a loop constants are there without entering it, what is made of them is not
        return number(made, dtype, state)
    if made.kind == "cast" and made.inputs[0].dtype is dtype and not made.controls:
        return made.inputs[0]
    if made.controls:
        return state.create("cast", [tensor], {"dtype": dtype}, f"{op.name}/cast", op).outputs[0]
    if tensor not in shorts:
        shorts[tensor] = state.create("cast", [tensor], {"dtype": dtype}, f"{op.name}/cast", made).outputs[0]
    return shorts[tensor]


def number(constant: Operation, dtype: DType, state: Rewrite) -> Tensor:
    """The constant in another type."""
    value = np.asarray(constant.attrs["value"]).astype(dtype.numpy)
    value.flags.writeable = False
    return state.create("constant", (), {"value": value, "dtype": dtype}, f"{constant.name}/{dtype.name}", constant).outputs[0]
