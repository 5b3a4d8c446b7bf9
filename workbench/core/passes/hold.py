"""When large tensors travel: what a device needs only after others that are on their way stays with its sender meanwhile."""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from graphlib import TopologicalSorter
from operator import and_

import numpy as np

from workbench.core.graph.dtype import int32, resource
from workbench.core.graph.graph import Operation
from workbench.core.graph.program import Program, has_effect, topological
from workbench.core.graph.shape import Shape
from workbench.core.passes.rewrite import Rewrite
from workbench.core.passes.waits import CONTROL_FLOW

__all__ = ["HOLD", "LARGE", "hold"]

HOLD = ("hold", "Large tensors that are needed later stay with their senders until there is room for them.")
AHEAD = 64 << 20      # bytes that may travel, or lie unused, ahead of who uses them
LARGE = 1 << 20       # bytes from which a tensor is worth a message of its own, and the driver's keeping count of its readers

_TOKEN = np.zeros((), np.int32)


@dataclass
class _Transfer:
    """A large tensor on its way; `users` read it, or what is made of it alone."""

    send: Operation
    receive: Operation
    users: list[Operation]
    bit: int = 0      # of who depends on its first use

    @property
    def nbytes(self) -> int:
        return _nbytes(self.receive)


@dataclass
class _Token:
    """`after` has run: what one sender holds for that may go."""

    after: Operation
    held: list[Operation] = field(default_factory=list)      # operations that send


def hold(programs: Sequence[Program], ahead: int = AHEAD, large: int = LARGE) -> list[Program]:
    """The devices' shares of a step, in which receives are delayed until just before need (white paper §5.2).

    Of the tensors of `large` bytes or more that a device uses one after the other, because each use depends on the one
    before, so many travel or lie unused at a time as make `ahead` bytes, and two at least: one that is awaited next, and one
    behind it. Another one is sent when the use of an earlier one, which made room, has told its sender.

    Nothing depends on anything new but the transfers themselves and what is made of their tensors alone: whoever uses a
    held tensor depended before on the use that lets it go. So no circle arises, not through queues either. Shares with
    control flow that spans devices are returned as they are, as are those that stay within `ahead`.
    """
    operations = [op for program in programs for op in program.graph.operations]
    arriving: Counter[str] = Counter()
    for op in operations:
        arriving[op.device] += _nbytes(op) if op.kind == "receive" and _nbytes(op) >= large else 0
    if max(arriving.values(), default=0) <= ahead or any(op.kind in CONTROL_FLOW for op in operations):
        return list(programs)
    tokens = _tokens(operations, ahead, large)
    return [_waiting(program, tokens) for program in programs]


def _nbytes(receive: Operation) -> int:
    """0 where only the step knows."""
    tensor = receive.outputs[0]
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size


def _ends(op: Operation) -> tuple[str, str, str]:
    """What a send and its receive have in common."""
    return op.attrs["tensor"], op.attrs["source"], op.attrs["target"]


def _tokens(operations: Sequence[Operation], ahead: int, large: int) -> list[_Token]:
    sends = {_ends(op): op for op in operations if op.kind == "send"}
    before = {op: [*(t.op for t in op.inputs), *op.controls, *([sends[_ends(op)]] if op.kind == "receive" else ())]
              for op in operations}
    order = {op: place for place, op in enumerate(TopologicalSorter(before).static_order())}
    readers: dict[Operation, list[Operation]] = defaultdict(list)
    for op in order:
        for earlier in dict.fromkeys(before[op]):
            readers[earlier].append(op)
    found = [_Transfer(sends[_ends(op)], op, sorted(users, key=order.__getitem__)) for op in order
             if op.kind == "receive" and _nbytes(op) >= large and (users := _users(op, readers))]
    found.sort(key=lambda one: order[one.users[0]])
    uses: Counter[Operation] = Counter()
    for number, transfer in enumerate(found):
        transfer.bit = 1 << number
        uses[transfer.users[0]] |= transfer.bit
    known: dict[Operation, int] = {}      # bits of the first uses that come before an operation
    for op in order:
        known[op] = reduce(lambda bits, earlier: bits | known[earlier] | uses[earlier], before[op], 0)
    return _chosen(found, known, ahead)


def _users(receive: Operation, readers: Mapping[Operation, list[Operation]]) -> list[Operation]:
    users, stack = dict[Operation, None](), [receive]
    while stack:
        for op in readers[stack.pop()]:
            if _made_alone(op) and readers[op]:
                stack.append(op)
            else:
                users[op] = None
    return list(users)


def _made_alone(op: Operation) -> bool:
    """Does it only make something of one tensor, such as another type of it? Then it may run at any time."""
    return (len(op.inputs) == 1 and not op.controls and op.inputs[0].dtype is not resource
            and not has_effect(op) and not op.definition.blocking)


def _chosen(transfers: Sequence[_Transfer], known: Mapping[Operation, int], ahead: int) -> list[_Token]:
    """`transfers` are in the order of their first use."""
    tokens: dict[tuple[Operation, str], _Token] = {}
    for number, one in enumerate(transfers):
        common = reduce(and_, [known[user] for user in one.users])
        chain = [other for other in transfers[:number] if other.bit & common and other.receive.device == one.receive.device]
        free, room = len(chain), ahead - one.nbytes      # those behind `free` have room beside it
        while free and room >= chain[free - 1].nbytes:
            free -= 1
            room -= chain[free].nbytes
        free = min(free, len(chain) - 1)
        if free > 0 and not known[one.send] & chain[free - 1].bit:
            after = chain[free - 1].users[0]
            tokens.setdefault((after, one.send.device), _Token(after)).held.append(one.send)
    return list(tokens.values())


def _waiting(program: Program, tokens: Sequence[_Token]) -> Program:
    """`program` with the ends of tokens that it has."""
    own = set(program.graph.operations)
    leaving: dict[Operation, list[_Token]] = defaultdict(list)
    for token in tokens:
        if token.after in own:
            leaving[token.after].append(token)
    awaited = {send: token for token in tokens for send in token.held if send in own}
    if not leaving and not awaited:
        return program
    state, received = Rewrite(op.name for op in program.graph.operations), dict[int, Operation]()
    for op in topological(program.graph.operations):
        if op in awaited:
            token = awaited[op]
            if id(token) not in received:
                received[id(token)] = state.create("receive", (), {**_attrs(token), "dtype": int32, "shape": Shape(())},
                                                   f"receive/hold/{token.after.name}", op)
            state.operations[op] = (state.create("send", state.inputs(op), op.attrs, op.name, op, (received[id(token)],)),)
            continue
        state.place(op, state.inputs(op))
        for token in leaving[op]:
            said = state.create("constant", (), {"value": _TOKEN, "dtype": int32}, f"hold/{op.name}", op, state.operations[op])
            sent = state.create("send", said.outputs, _attrs(token), f"send/hold/{op.name}", op)
            state.operations[token.held[0]] = (sent,)      # stands for it among the targets
    told = [token.held[0] for each in leaving.values() for token in each]
    return state.program(replace(program, targets=(*program.targets, *told)))


def _attrs(token: _Token) -> dict[str, str]:
    return {"tensor": f"^hold/{token.after.name}", "source": token.after.device, "target": token.held[0].device}
