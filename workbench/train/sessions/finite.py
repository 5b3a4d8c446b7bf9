"""Where a loss stopped being a number: the operation that made the first value that is not finite, also within loops."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.run.session import Session

__all__ = ["Origin", "first_not_finite"]

_STATE = ("variable", "read_variable")
_TURNS = 10_000      # of a loop that are computed again


@dataclass(frozen=True)
class Origin:
    """What made a value that is not finite of values that are."""

    op: Operation
    turn: int = 0            # of the loop that it is in, from 1 on; 0 outside loops
    loop: str = ""

    @property
    def words(self) -> str:
        """"'tower/log' (log), built at line.py:3"."""
        within = f" in turn {self.turn} of {self.loop!r}" if self.turn else ""
        spoilt = ", which an update has made so" if self.op.kind in _STATE else ""
        return f"{self.op.name!r} ({self.op.kind}){within}{spoilt}, built at {self.op.source}"


def first_not_finite(session: Session, value: Tensor, feed: Mapping[Any, Any]) -> Origin | None:
    """Where what is not finite in `value` comes from when it is computed once more with `feed`; None when it is finite now.

    Values are followed backwards from `value` to operations that made infinity or NaN of finite values; of several the
    first one. An infinity that the program itself wrote down (a mask) is as good as a number: whoever makes NaN of it is
    named. What is fed comes first, then the order of computation.
    """
    order = sorted(_before(value.op), key=lambda op: op.kind != "placeholder")
    tensors = [tensor for op in order for tensor in op.outputs if tensor.dtype.is_floating]
    values = dict(zip(tensors, session.run(tensors, dict(feed))))
    found = _origin(value, values, order)
    if found is None or found.kind != "while":
        return None if found is None else Origin(found)
    return _within(found, session.run(list(found.inputs), dict(feed))) or Origin(found)


def _origin(value: Tensor, values: Mapping[Tensor, Any], order: Sequence[Operation]) -> Operation | None:
    """The first of the operations on bad ways to `value` none of whose inputs is bad."""
    if not _bad(value, values):
        return None
    reached, stack, origins = {value.op}, [value.op], set()
    while stack:
        op = stack.pop()
        sources = {tensor.op for tensor in op.inputs if _bad(tensor, values)}
        if not sources:
            origins.add(op)
        stack += sources - reached
        reached |= sources
    return next(op for op in order if op in origins)


def _bad(tensor: Tensor, values: Mapping[Tensor, Any]) -> bool:
    found = values.get(tensor)
    if found is None:
        return False
    return bool(np.isnan(found).any()) if tensor.op.kind == "constant" else not np.isfinite(found).all()


def _before(last: Operation) -> list[Operation]:
    """What leads to `last`, and itself, each after what it needs."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack = [(last, False)]
    while stack:
        op, needed = stack.pop()
        if needed:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in op.inputs]
    return order


# loops: their bodies are computed turn by turn, with the kernels that define the operations

def _within(loop: Operation, given: Sequence[Any]) -> Origin | None:
    """The operation in a loop's body, and its turn; None when the body cannot be computed here."""
    condition, body = loop.attrs["cond_graph"], loop.attrs["body_graph"]
    state = list(given)
    for turn in range(1, _TURNS):
        going = _computed(condition, state)
        values = _computed(body, state)
        if going is None or values is None or not going[condition.results[0]]:
            return None
        for result in body.results:
            op = _origin(result, values, [one for one in body.operations if one.outputs])
            if op is not None:
                return Origin(op, turn, loop.name)
        state[: len(body.results)] = [values[result] for result in body.results]
    return None


def _computed(body: Graph, given: Iterable[Any]) -> dict[Tensor, Any] | None:
    """The value of each tensor of a body; None where it holds what has no kernel of its own (state, loops in loops)."""
    values: dict[Tensor, Any] = dict(zip(body.arguments, given))      # type: ignore[attr-defined]
    for op in body.operations:
        if op.kind == "argument":
            continue
        kind = op.definition
        if kind.stateful or kind.blocking or kind.context or op.has_bodies:
            return None
        if op.kind == "constant":
            values[op.outputs[0]] = op.attrs["value"]
            continue
        try:
            with np.errstate(all="ignore"):
                made = kind.reference(*(values[tensor] for tensor in op.inputs), **op.attrs)
        except (errors.Error, ValueError, LookupError, ArithmeticError):
            return None
        values.update(zip(op.outputs, made if isinstance(made, (tuple, list)) else (made,)))
    return values
