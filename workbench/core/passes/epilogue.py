"""Fold what follows a product into it: bias, ReLU, and the gradient-descent update of its result."""
from __future__ import annotations

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.passes.rewrite import Rewrite, rewrite, single_readers

__all__ = ["epilogue"]

_FUSED = {"matmul": "fused_matmul", "conv2d": "fused_conv2d"}
_FOLLOWERS = frozenset({"add", "bias_add", "relu", "apply_gradient_descent"})
_LONG, _SLIM = 1024, 4      # rows that a weight's gradient sums, and how often they hold its longer side


def epilogue(program: Program) -> Program:
    """`relu(product + bias)` becomes one operation, and `w -= rate * (a @ b)` another, when nothing else reads them.

    The libraries apply bias, ReLU and the update while the product is still in cache.
    """
    if not any(op.kind in _FUSED for op in program.graph.operations):
        return program
    single = single_readers(program)

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.kind not in _FOLLOWERS or (op.controls and op.kind != "apply_gradient_descent"):
            return None
        alone = [new for old, new in zip(op.inputs, inputs) if old in single]
        for rule in (_bias, _relu, _update):
            found = rule(op, inputs, state, alone)
            if found is not None:
                return found
        return None
    return rewrite(program, visit)


def _bias(op: Operation, inputs: list[Tensor], state: Rewrite, alone: list[Tensor]) -> list[Tensor] | None:
    if op.kind not in ("add", "bias_add") or len(inputs) != 2:
        return None
    product, bias = inputs
    if op.kind == "add" and product.op.kind not in _FUSED:
        product, bias = bias, product
    made = product.op
    if made.kind not in _FUSED or made.controls or product not in alone or bias.shape.rank != 1:
        return None
    if not product.shape.known or product.shape != op.outputs[0].shape or product.dtype.name != "float32":
        return None
    if not _last_axis(op, made, product, bias):
        return None
    attrs = {**made.attrs, "activation": "none"}
    return [state.create(_FUSED[made.kind], [*made.inputs, bias], attrs, op.name, op).outputs[0]]


def _last_axis(op: Operation, made: Operation, product: Tensor, bias: Tensor) -> bool:
    """The bias runs along the channels of the product."""
    formats = {op.attrs.get("data_format", "NHWC"), made.attrs.get("data_format", "NHWC")}
    if len(formats) != 1:
        return False
    if formats == {"NCHW"}:
        return op.kind == "bias_add" and bias.shape[0] == product.shape[1]
    return bool(bias.shape[0] == product.shape[-1])


def _relu(op: Operation, inputs: list[Tensor], state: Rewrite, alone: list[Tensor]) -> list[Tensor] | None:
    made = inputs[0].op if op.kind == "relu" else None
    if made is None or made.kind not in _FUSED.values() or made.attrs["activation"] != "none":
        return None
    if inputs[0] not in alone:
        return None
    return [state.create(made.kind, made.inputs, {**made.attrs, "activation": "relu"}, op.name, op).outputs[0]]


def _update(op: Operation, inputs: list[Tensor], state: Rewrite, alone: list[Tensor]) -> list[Tensor] | None:
    if op.kind != "apply_gradient_descent":
        return None
    handle, rate, gradient = inputs
    product = gradient.op
    if product.kind != "matmul" or gradient not in alone or product.controls or (
            gradient.dtype.name != "float32" or not gradient.shape.known or gradient.shape.rank != 2):
        return None
    if _is_slim(product) or not all([tensor.shape.known for tensor in product.inputs]):      # no kernel of both is made then
        return None
    attrs = {"transpose_a": product.attrs["transpose_a"], "transpose_b": product.attrs["transpose_b"]}
    return [state.create("apply_matmul_descent", [handle, rate, *product.inputs], attrs, op.name, op).outputs[0]]


def _is_slim(product: Operation) -> bool:
    """Is a gradient small beside what it is made of? Then storing it costs nothing, and it can be made before the error goes on
    down, whereas an update must wait for that: the product's scratch would stand beside one more matrix of all rows."""
    depth = product.inputs[0].shape[0 if product.attrs["transpose_a"] else 1].value or 0
    return depth >= max(_LONG, _SLIM * max(product.outputs[0].shape.static))
