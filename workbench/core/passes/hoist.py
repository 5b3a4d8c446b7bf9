"""What the steps of a recurrence multiply by one weight, but know before it begins or need after it ends, is one product."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.core.graph.dtype import float32, int32
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program, topological
from workbench.core.passes.rewrite import Rewrite, single_readers
from workbench.core.passes.waits import CONTROL_FLOW, waits

__all__ = ["FEWEST", "MOST_ROWS", "SMALLEST", "hoist", "reshaped"]

FEWEST = 8              # steps: fewer are as often replicas of a model as steps of a recurrence
MOST_ROWS = 96          # of one step: more fill the processor alone
SMALLEST = 1 << 14      # elements of the weight: below, a step costs no more than what is saved


def hoist(program: Program) -> Program:
    """`concat(xᵢ, hᵢ) @ w` becomes `hᵢ @ wₕ + zᵢ`, where z is one product of all xᵢ, which no step makes.

    And the gradient `split(dzᵢ @ wᵀ)` becomes `dzᵢ @ wₕᵀ` and one product of all dzᵢ where no step reads the gradient
    of its xᵢ. A product of the few rows of one step reads a weight larger than the caches for little work, so half a weight
    takes half the time, and the product of all rows runs as fast as the processor computes.
    """
    groups = _groups(program)
    if not groups:
        return program
    state = Rewrite(op.name for op in program.graph.operations)
    instead = {op: group for group in groups for op in group.replaced()}
    for node in _order(program, groups):
        if not isinstance(node, Operation):
            node.begin(state)
        elif node in instead:
            instead[node].replace(node, state)
        else:
            state.place(node, state.inputs(node), _restacked(node, state))
    return state.program(program)


@dataclass(eq=False)
class _Group:
    """The products of one weight whose side `free` is done at once; kinds are subclasses."""

    products: list[Operation]
    free: int                                  # 0 or 1: which part of the weight's rows
    widths: tuple[int, int]
    _parts: dict[int, Tensor] = field(default_factory=dict)
    _blocks: list[Tensor] = field(default_factory=list)

    def part(self, side: int, state: Rewrite) -> Tensor:
        """The rows of the weight that belong to one side, in the new graph."""
        if side not in self._parts:
            first, like = (0, self.widths[0])[side], self.products[0]
            weight = state.tensors[like.inputs[1]]
            attrs = {"first": first, "count": self.widths[side]}
            self._parts[side] = state.create("row_block", [weight], attrs, f"{like.name}/weight", like).outputs[0]
        return self._parts[side]

    def blocks(self, whole: Tensor, state: Rewrite) -> list[Tensor]:
        """`whole` cut into the rows of each product."""
        first, found = 0, []
        for product in self.products:
            count = product.outputs[0].shape.static[0]
            found.append(state.create("row_block", [whole], {"first": first, "count": count}, f"{product.name}/rows",
                                      product).outputs[0])
            first += count
        return found

    def replaced(self) -> list[Operation]:
        """The operations that `replace` is asked for."""
        raise NotImplementedError

    def before(self) -> list[Operation]:
        """What `begin` needs."""
        raise NotImplementedError

    def after(self) -> Iterator[Operation]:
        """What needs `begin`."""
        raise NotImplementedError

    def begin(self, state: Rewrite) -> None:
        """Add the product of all rows."""
        raise NotImplementedError

    def replace(self, op: Operation, state: Rewrite) -> None:
        """Add what is left of one of `replaced`."""
        raise NotImplementedError


@dataclass(eq=False)
class _Forward(_Group):
    """Products of concat(x, h); `ends` are the additions of one bias behind them, or the products themselves."""

    ends: list[Operation] = field(default_factory=list)

    def replaced(self) -> list[Operation]:
        return list(dict.fromkeys([*self.products, *self.ends]))

    def before(self) -> list[Operation]:
        first = self.ends[0]
        return [*(t.op for t in self.known()), self.products[0].inputs[1].op, *(t.op for t in first.inputs[1:])]

    def after(self) -> Iterator[Operation]:
        yield from self.ends

    def known(self) -> list[Tensor]:
        return [product.inputs[0].op.inputs[self.free] for product in self.products]

    def begin(self, state: Rewrite) -> None:
        like, end = self.products[0], self.ends[0]
        rows = _joined(self.known(), state, like)
        sides = [rows, self.part(self.free, state)]
        whole = state.create("matmul", sides, dict(like.attrs), f"{like.name}/all", like).outputs[0]
        if end is not like:
            bias = state.tensors[end.inputs[1]]
            whole = state.create(end.kind, [whole, bias], dict(end.attrs), f"{end.name}/all", end).outputs[0]
        self._blocks = self.blocks(whole, state)

    def replace(self, op: Operation, state: Rewrite) -> None:
        if op not in self.ends:
            state.operations[op] = ()      # its only reader is the addition of its bias
            return
        position = self.ends.index(op)
        product = self.products[position]
        own = state.tensors[product.inputs[0].op.inputs[1 - self.free]]
        made = state.create("matmul_add", [own, self.part(1 - self.free, state), self._blocks[position]], dict(product.attrs),
                            op.name, op)
        state.place(op, [], made.outputs)


@dataclass(eq=False)
class _Backward(_Group):
    """Products with the turned weight, each read by the split of its columns in `splits` alone."""

    splits: list[Operation] = field(default_factory=list)
    readers: list[Operation] = field(default_factory=list)     # of the columns that are done at once

    def replaced(self) -> list[Operation]:
        return [*self.products, *self.splits]

    def before(self) -> list[Operation]:
        return [self.products[0].inputs[1].op, *(p.inputs[0].op for p in self.products)]

    def after(self) -> Iterator[Operation]:
        yield from self.readers

    def begin(self, state: Rewrite) -> None:
        like = self.products[0]
        rows = _joined([p.inputs[0] for p in self.products], state, like)
        sides = [rows, self.part(self.free, state)]
        whole = state.create("matmul", sides, dict(like.attrs), f"{like.name}/all", like).outputs[0]
        for split, block in zip(self.splits, self.blocks(whole, state)):
            state.tensors[split.outputs[self.free]] = block

    def replace(self, op: Operation, state: Rewrite) -> None:
        state.operations[op] = ()          # its only reader is its split
        if op in self.splits:
            product, side = op.inputs[0].op, 1 - self.free
            own = state.create("matmul", [state.tensors[product.inputs[0]], self.part(side, state)], dict(product.attrs),
                               product.name, product)
            state.tensors[op.outputs[side]] = own.outputs[0]


def _joined(parts: Sequence[Tensor], state: Rewrite, like: Operation) -> Tensor:
    """The rows of `parts`, of the old graph, one below the other."""
    maker = parts[0].op
    if maker.kind == "unstack" and maker.attrs["axis"] == 0 and tuple(parts) == maker.outputs:
        return reshaped(state.tensors[maker.inputs[0]], (-1, parts[0].shape.static[1]), state, like)
    return state.create("concat", [state.tensors[t] for t in parts], {"axis": 0}, f"{like.name}/joined", like).outputs[0]


def reshaped(tensor: Tensor, shape: Sequence[int], state: Rewrite, like: Operation, name: str = "") -> Tensor:
    """`tensor`, of the new graph, under another shape."""
    wanted = np.array(shape, np.int32)
    wanted.flags.writeable = False
    constant = state.create("constant", (), {"value": wanted, "dtype": int32}, f"{like.name}/shape", like).outputs[0]
    return state.create("reshape", [tensor, constant], {}, name or f"{like.name}/reshaped", like).outputs[0]


def _restacked(op: Operation, state: Rewrite) -> list[Tensor] | None:
    """The rows of a product stacked or joined again, in order and all of them, are the product."""
    if op.kind not in ("stack", "concat") or op.attrs["axis"] != 0 or op.controls:
        return None
    rows = [state.tensors[t] for t in op.inputs]
    source, first = rows[0].op.inputs[0] if rows[0].op.kind == "row_block" else None, 0
    for tensor in rows:
        made = tensor.op
        if made.kind != "row_block" or made.inputs[0] is not source or made.attrs["first"] != first:
            return None
        first += made.attrs["count"]
    if source is None or first != source.shape.static[0]:
        return None
    return [reshaped(source, op.outputs[0].shape.static, state, op)]


# which products

Key = tuple[Tensor, str, tuple[int, int], object]


def _groups(program: Program) -> list[_Group]:
    """Groups that can all be done at once: none waits for itself, also not through another."""
    products = [op for op in program.graph.operations if op.kind == "matmul"]
    if len(products) < FEWEST or any(op.kind in CONTROL_FLOW for op in program.graph.operations):
        return []
    order = topological(program.graph.operations)
    links = _Links(order, program)
    found = []
    for (_, kind, widths, _), members in links.candidates(products).items():
        for free in (0, 1):
            group = (_forward if kind == "forward" else _backward)(members, free, widths, links)
            if group is not None:
                links.add(group)
                found.append(group)
                break
    return found


class _Links:
    """Who reads what, and which operations need which."""

    def __init__(self, order: Sequence[Operation], program: Program) -> None:
        self.waits = waits(order)
        self.single = single_readers(program)
        self.claimed = {before for op in order for before in op.controls}.union(program.roots)
        self.readers: dict[Tensor, list[Operation]] = {}
        self.next: dict[Operation | _Group, list[Operation | _Group]] = {}
        for op in order:
            for tensor in op.inputs:
                self.readers.setdefault(tensor, []).append(op)
            for before in (*(t.op for t in op.inputs), *op.controls):
                self.next.setdefault(before, []).append(op)

    def candidates(self, products: Iterable[Operation]) -> dict[Key, list[Operation]]:
        """Products of few rows by their weight and by how their sides came together, where those are enough."""
        found: dict[Key, list[Operation]] = {}
        for op in products:
            if op.controls or op.attrs["transpose_a"] or not all(t.shape.known for t in (*op.inputs, *op.outputs)):
                continue
            weight, rows = op.inputs[1], op.outputs[0].shape.static[0]
            if weight.dtype is not float32 or rows > MOST_ROWS or weight.shape.num_elements() < SMALLEST:      # type: ignore[operator]
                continue
            side = self._split(op) if op.attrs["transpose_b"] else self._concat(op)
            if side is not None:
                kind = "backward" if op.attrs["transpose_b"] else "forward"
                found.setdefault((weight, kind, side, self.waits.get(op)), []).append(op)
        return {key: members for key, members in found.items() if len(members) >= FEWEST}

    def _concat(self, op: Operation) -> tuple[int, int] | None:
        """The columns of the two matrices that a product's left side is joined of."""
        made = op.inputs[0].op
        if made.kind != "concat" or made.attrs["axis"] not in (1, -1) or len(made.inputs) != 2 or made.controls:
            return None
        first, second = (t.shape.static[1] for t in made.inputs)
        return first, second

    def _split(self, op: Operation) -> tuple[int, int] | None:
        """The columns of the two pieces into which the only reader of a product splits it."""
        if op.outputs[0] not in self.single:
            return None
        [reader] = self.readers[op.outputs[0]]
        if reader.kind != "split" or reader.attrs["axis"] not in (1, -1) or len(reader.outputs) != 2 or (
                reader.controls or reader in self.claimed):
            return None
        first, second = (t.shape.static[1] for t in reader.outputs)
        return first, second

    def behind(self, start: Iterable[Operation]) -> set[Operation | _Group]:
        """Everything that needs one of `start`."""
        seen: set[Operation | _Group] = set()
        stack: list[Operation | _Group] = list(start)
        while stack:
            for later in self.next.get(stack.pop(), ()):
                if later not in seen:
                    seen.add(later)
                    stack.append(later)
        return seen

    def add(self, group: _Group) -> None:
        for before in group.before():
            self.next.setdefault(before, []).append(group)
        self.next.setdefault(group, []).extend(group.after())


def _forward(products: list[Operation], free: int, widths: tuple[int, int], links: _Links) -> _Group | None:
    """What is done at once may need none of the products."""
    ends = _biases(products, links) or products
    group = _Forward(products, free, widths, ends=ends)
    return None if not links.behind(products).isdisjoint(group.before()) else group


def _biases(products: Sequence[Operation], links: _Links) -> list[Operation] | None:
    """The additions of one bias, where they are all that reads the products."""
    if not links.single.issuperset(p.outputs[0] for p in products):
        return None
    ends = [links.readers[p.outputs[0]][0] for p in products]
    like = ends[0]
    alike = all(e.kind == like.kind and e.inputs[0] is p.outputs[0] and e.inputs[1:] == like.inputs[1:] and not e.controls
                and e.attrs == like.attrs for e, p in zip(ends, products))
    flat = like.kind in ("add", "bias_add") and like.inputs[1].shape.rank == 1
    return ends if alike and flat and not links.behind(products).intersection([like.inputs[1].op]) else None


def _backward(products: list[Operation], free: int, widths: tuple[int, int], links: _Links) -> _Group | None:
    """None of the products may need what is done at once."""
    splits = [links.readers[p.outputs[0]][0] for p in products]
    readers = [op for split in splits for op in links.readers.get(split.outputs[free], ())]
    if not links.behind(readers).union(readers).isdisjoint(products):
        return None
    if len(set(readers)) == 1:      # in the order of the only reader, which may take the product as it is
        places = {t: i for i, t in enumerate(readers[0].inputs)}
        pairs = sorted(zip(products, splits), key=lambda pair: places.get(pair[1].outputs[free], 0))
        products, splits = [p for p, _ in pairs], [s for _, s in pairs]
    return _Backward(products, free, widths, splits=splits, readers=readers)


def _order(program: Program, groups: Sequence[_Group]) -> list[Operation | _Group]:
    """The operations in an order they can run in, each group between what it needs and what needs it."""
    first: dict[Operation, list[_Group]] = {}
    for group in groups:
        for op in group.after():
            first.setdefault(op, []).append(group)
    found: dict[Operation | _Group, None] = {}
    for root in topological(program.graph.operations):
        stack: list[tuple[Operation | _Group, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                found[node] = None
            elif node not in found:
                before = [*node.controls, *(t.op for t in node.inputs), *first.get(node, ())] if isinstance(
                    node, Operation) else node.before()
                stack += [(node, True), *((one, False) for one in before if one not in found)]
    return list(found)
