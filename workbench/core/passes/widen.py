"""Products of 16-bit values that no library computes: of the same values as float32, by the libraries that serve those."""
from __future__ import annotations

from workbench.core.graph.dtype import DType, bfloat16, float16, float32
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.kernels.onednn_short import SERVED, leaks, native
from workbench.core.kernels.options import kernel_options
from workbench.core.passes.precision import LOWERED, number
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["widen"]

_ROUNDING = {bfloat16: "rounded_to_bfloat16", float16: "rounded_to_float16"}
_SHORT, _WIDE = "bfloat16_of", "float32_of"      # casts that compiled loops know


def widen(program: Program) -> Program:
    """Products of float32 values that were cast to 16 bits become products of float32 values that were rounded to those
    numbers, rounded in turn: the sums were float32's before. What is cast there and back is rounded.

    Values thus stay float32: rounding is elementwise, and joins what computes them, while NumPy would bring every operand to
    float32 and the product back to 16 bits.
    """
    if not any(t.dtype in _ROUNDING for op in program.graph.operations for t in op.outputs):      # as in most graphs
        return program
    made: dict[Tensor, Tensor] = {}      # 16 bits -> the same numbers in float32

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        dtype = op.outputs[0].dtype if op.outputs else float32
        if op.kind == "cast" and not op.controls:
            if dtype is float32 and _rounds(inputs[0]):
                return [_same(inputs[0], made, state)]
            kind = {(float32, bfloat16): _SHORT, (bfloat16, float32): _WIDE}.get((inputs[0].dtype, dtype))
            return None if kind is None else [state.create(kind, inputs, {}, op.name, op).outputs[0]]
        if _wanted(op, dtype) and all(_rounds(t) for t in inputs if t.dtype is dtype):
            wide = [_same(t, made, state) if t.dtype is dtype else t for t in inputs]
            product = state.create(op.kind, wide, dict(op.attrs), f"{op.name}/float32", op).outputs[0]
            return [_short(_rounded(product, dtype, op, state), dtype, op, state)]
        return None
    return rewrite(program, visit)


def _wanted(op: Operation, dtype: DType) -> bool:
    """Is it a product of 16 bits, for which this machine has no instructions that serve?"""
    return op.kind in LOWERED and dtype in _ROUNDING and not (
        op.kind in SERVED and "onednn" in kernel_options().libraries and native(dtype.name) and not _leaks(op))


def _leaks(op: Operation) -> bool:
    kernel = op.inputs[1 if op.kind == "conv2d" else 0].shape
    return op.kind in ("conv2d", "conv2d_backprop_input") and kernel.known and leaks(op.kind, kernel.static)


def _rounds(tensor: Tensor) -> bool:
    """Is it float32, cast to 16 bits, or a constant of 16 bits?"""
    made = tensor.op
    if tensor.dtype not in _ROUNDING or made.controls:
        return False
    return made.kind in ("constant", _SHORT) or (made.kind == "cast" and made.inputs[0].dtype is float32)


def _same(short: Tensor, made: dict[Tensor, Tensor], state: Rewrite) -> Tensor:
    """The numbers of `short`, cast from float32 or constant, in float32."""
    if short.op.kind == "constant":
        if short not in made:
            made[short] = number(short.op, float32, state)
        return made[short]
    source = short.op.inputs[0]
    if source.op.kind == _ROUNDING[short.dtype]:
        return source
    if short not in made:
        made[short] = _rounded(source, short.dtype, short.op, state)
    return made[short]


def _rounded(tensor: Tensor, dtype: DType, like: Operation, state: Rewrite) -> Tensor:
    return state.create(_ROUNDING[dtype], [tensor], {}, f"{like.name}/rounded", like).outputs[0]


def _short(tensor: Tensor, dtype: DType, op: Operation, state: Rewrite) -> Tensor:
    if dtype is bfloat16:
        return state.create(_SHORT, [tensor], {}, op.name, op).outputs[0]
    return state.create("cast", [tensor], {"dtype": dtype}, op.name, op).outputs[0]
