"""Formulas that overflow or cancel become functions that do neither: log(softmax(x)), log(1 + x), exp(x) - 1, √x²."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import broadcast
from workbench.core.passes.algebra import Constants
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["stable"]

_DIVISIONS = ("divide", "realdiv", "truediv")


def stable(program: Program) -> Program:
    """The same functions by formulas whose error is not larger for any argument, in forward and gradient graphs.

    Where the formula as written gives a finite value, the new one gives the same but for rounding; where it gives an
    infinity or NaN on the way to a finite value (log of a softmax that is 0), the new one gives that value. Cross
    entropies written by hand, -Σ labels · log(softmax(x)), are such a logarithm.
    """
    constants = Constants()

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        if op.controls or op.kind not in _RULES or not op.outputs[0].dtype.is_floating:
            return None
        found = _RULES[op.kind](_Place(op, inputs, state, constants))
        return None if found is None else [found]
    return rewrite(program, visit)


class _Place:
    """An operation, what it reads in the new graph, and the means to write another formula in its place."""

    def __init__(self, op: Operation, inputs: list[Tensor], state: Rewrite, constants: Constants) -> None:
        self.op, self.inputs, self.state, self.constants = op, inputs, state, constants

    def is_number(self, tensor: Tensor, number: float) -> bool:
        value = self.constants.value(tensor)
        return value is not None and bool(value == number)

    def beside(self, number: float, inputs: Sequence[Tensor]) -> Tensor | None:
        """Of two terms the one that has the shape of the sum, if the other is the constant `number`."""
        for one, other in (inputs, inputs[::-1]):
            if self.is_number(other, number) and _keeps(one, other):
                return one
        return None

    def last(self, type: str, *inputs: Tensor, **attrs: object) -> Tensor:
        """The operation that stands for the place's own, under its name."""
        return self.state.create(type, inputs, attrs, self.op.name, self.op).outputs[0]

    def more(self, type: str, *inputs: Tensor, **attrs: object) -> Tensor:
        """An operation that the last one needs."""
        return self.state.create(type, inputs, attrs, f"{self.op.name}/{type}", self.op).outputs[0]


def _keeps(one: Tensor, other: Tensor) -> bool:
    """Has what is computed of both, element by element, the shape of `one`?"""
    return other.shape.rank == 0 or (one.shape.known and broadcast([one.shape, other.shape]) == one.shape)


def _made(tensor: Tensor, *types: str) -> tuple[Tensor, ...] | None:
    """The inputs of the operation that makes `tensor` if it is of one of these types."""
    op = tensor.op
    return op.inputs if op.kind in types and not op.controls else None


# logarithms

def _log(place: _Place) -> Tensor | None:
    [argument] = place.inputs
    if found := _made(argument, "softmax"):
        return place.last("log_softmax", *found, axis=argument.op.attrs["axis"])
    if found := _made(argument, "sigmoid"):
        return place.last("negative", place.more("softplus", place.more("negative", *found)))
    if found := _made(argument, "add"):
        return _log_of_sum(place, found)
    found = _made(argument, "subtract")
    inner = _made(found[1], "sigmoid") if found else None
    if found and inner and place.is_number(found[0], 1) and _keeps(found[1], found[0]):
        return place.last("negative", place.more("softplus", *inner))
    return None


def _log1p(place: _Place) -> Tensor | None:
    found = _made(place.inputs[0], "exp")
    return place.last("softplus", *found) if found else None


def _log_of_sum(place: _Place, terms: Sequence[Tensor]) -> Tensor | None:
    term = place.beside(1, terms)
    if term is None:
        return None
    inner = _made(term, "exp")
    return place.last("log1p", term) if inner is None else place.last("softplus", *inner)


# exponentials and roots

def _difference(place: _Place) -> Tensor | None:
    """exp(x) - 1"""
    found = _made(place.inputs[0], "exp")
    return place.last("expm1", *found) if found and place.is_number(place.inputs[1], 1) and _keeps(*place.inputs) else None


def _sum(place: _Place) -> Tensor | None:
    """exp(x) + -1"""
    term = place.beside(-1, place.inputs)
    found = None if term is None else _made(term, "exp")
    return place.last("expm1", *found) if found else None


def _root(place: _Place) -> Tensor | None:
    """√x² neither overflows nor vanishes as |x|."""
    found = _made(place.inputs[0], "square")
    return place.last("abs", *found) if found else None


# gradients, as the rules of these operations write them

def _sigmoid_gradient(place: _Place) -> Tensor | None:
    """dy · s · (1 - s) where dy was divided by s, or by 1 - s, as the logarithm's gradient does."""
    s, dy = place.inputs
    argument = _made(s, "sigmoid")
    if argument is None:
        return None
    if (found := _made(dy, *_DIVISIONS)) and found[1] is s:
        return place.last("multiply", found[0], place.more("sigmoid", place.more("negative", *argument)))
    if (turned := _made(dy, "negative")) and (found := _made(turned[0], *_DIVISIONS)):
        below = _made(found[1], "subtract")
        if below and below[1] is s and place.is_number(below[0], 1):
            return place.last("negative", place.more("multiply", found[0], s))
    return None


def _product(place: _Place) -> Tensor | None:
    for one, other in (place.inputs, place.inputs[::-1]):
        for rule in (_softmax_gradient, _softplus_gradient):
            found = rule(place, one, other)
            if found is not None:
                return found
    return None


def _softmax_gradient(place: _Place, difference: Tensor, y: Tensor) -> Tensor | None:
    """(d - Σ d · y) · y with d = dy / y, the gradient of log(softmax(x)), is dy - y · Σ dy."""
    terms = _made(difference, "subtract") if _made(y, "softmax") else None
    quotient = _made(terms[0], *_DIVISIONS) if terms else None
    total = _made(terms[1], "reduce_sum") if terms and quotient and quotient[1] is y else None
    inner = _made(total[0], "multiply") if total else None
    if not (terms and quotient and total and inner) or {*inner} != {terms[0], y}:
        return None
    if quotient[0].shape != y.shape or not y.shape.known:
        return None
    weight = place.more("reduce_sum", quotient[0], *total[1:], **terms[1].op.attrs)
    return place.last("subtract", quotient[0], place.more("multiply", weight, y))


def _softplus_gradient(place: _Place, quotient: Tensor, e: Tensor) -> Tensor | None:
    """dy / (1 + e) · e with e = exp(x), the gradient of log(1 + exp(x)), is dy · sigmoid(x)."""
    argument, found = _made(e, "exp"), _made(quotient, *_DIVISIONS)
    below = _made(found[1], "add") if argument and found else None
    if not (argument and found and below) or place.beside(1, below) is not e:
        return None
    return place.last("multiply", found[0], place.more("sigmoid", *argument))


_RULES: dict[str, Callable[[_Place], Tensor | None]] = {
    "log": _log, "log1p": _log1p, "subtract": _difference, "add": _sum, "sqrt": _root, "sigmoid_grad": _sigmoid_gradient,
    "multiply": _product,
}
