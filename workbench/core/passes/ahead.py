"""What the iterations of a loop multiply by one weight, but is known before it or needed only behind it, is one product."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from workbench.core.graph.dtype import float32, variant
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import Subgraph
from workbench.core.ops.flow_trips import trips
from workbench.core.passes.bodies import changed
from workbench.core.passes.hoist import FEWEST, MOST_ROWS, SMALLEST, reshaped
from workbench.core.passes.invariant import with_arguments
from workbench.core.passes.rewrite import Rewrite, rewrite

__all__ = ["ahead"]


def ahead(program: Program) -> Program:
    """`hoist` for loops: of `concat(x, h) @ w`, where x comes from the rows of a known array, the half with x is one product
    before the loop, and of the gradient `split(dz @ wᵀ)` the half that is only listed is one product behind it.

    A loop takes rows from a list that is made of an array, and its gradient puts rows on a list that began empty; both have
    as many as known beforehand. The bodies are those that the other passes have left.
    """
    if not any(op.kind == "while" for op in program.graph.operations):
        return program
    stacked: dict[Tensor, Tensor] = {}      # list in the new graph -> its elements, stacked

    def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
        takes = op.kind in ("list_stack", "list_concat") and not op.controls and not op.attrs.get("reverse")
        if takes and inputs[0] in stacked:
            found = stacked[inputs[0]]
            return [found if op.kind == "list_stack" else reshaped(found, op.outputs[0].shape.static, state, op)]
        if op.kind != "while":
            return None
        loop = _Loop(op)
        return loop.rewritten(inputs, state, stacked) if loop.forward or loop.backward else None
    return rewrite(program, visit)


@dataclass(frozen=True)
class _Product:
    """A product in the body whose side `free` of two is done at once; `weight` is the number of the body's argument."""

    op: Operation
    weight: int
    free: int
    widths: tuple[int, int]
    bias: int | None = None                # forwards: the number of an argument
    listed: int | None = None              # the loop variable that the rows come from or go to
    split: Operation | None = None         # backwards: its only reader

    def part(self, side: int, inputs: Sequence[Tensor], state: Rewrite) -> Tensor:
        """The rows of the weight that belong to one side, before the loop."""
        attrs = {"first": (0, self.widths[0])[side], "count": self.widths[side]}
        weight = inputs[self.weight]
        return state.create("row_block", [weight], attrs, f"{self.op.name}/weight", weight.op).outputs[0]


@dataclass
class _Loop:
    """A loop and those of its products that can be done partly outside."""

    op: Operation
    forward: list[_Product] = field(default_factory=list)
    backward: list[_Product] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.body: Subgraph = self.op.attrs["body_graph"]
        self.count = len(self.op.outputs)
        self.number = {t: i for i, t in enumerate(self.body.arguments)}
        self.inside = _readers(self.body.operations)
        self.awaited = {before for op in self.body.operations for before in op.controls}
        turns = trips(self.op)
        self.trips = turns if turns is not None and turns >= FEWEST else None
        for op in self.body.operations:
            found = self._known_before(op) or self._needed_behind(op)
            if found is not None:
                (self.backward if found.split else self.forward).append(found)

    # which products

    def _suits(self, op: Operation) -> bool:
        """A product of few rows by a large weight that the loop does not change."""
        if op.kind not in ("matmul", "fused_matmul") or op.controls or op.attrs["transpose_a"] or (
                op.attrs.get("activation", "none") != "none" or op in self.awaited):
            return False
        weight = op.inputs[1]
        known = weight.dtype is float32 and all(t.shape.known for t in (*op.inputs, *op.outputs))
        return (known and op.outputs[0].shape.static[0] <= MOST_ROWS and (weight.shape.num_elements() or 0) >= SMALLEST
                and all(self.number.get(t, 0) >= self.count for t in op.inputs[1:]))

    def _known_before(self, op: Operation) -> _Product | None:
        """One side of what is multiplied was popped from the rows of an array."""
        if not self._suits(op) or op.attrs["transpose_b"]:
            return None
        made = op.inputs[0].op
        if made.kind != "concat" or made.attrs["axis"] not in (1, -1) or len(made.inputs) != 2:
            return None
        first, second = (t.shape.static[1] for t in made.inputs)
        bias = self.number[op.inputs[2]] if op.kind == "fused_matmul" else None
        for free in (0, 1):
            position = self._popped(made.inputs[free])
            if position is not None:
                return _Product(op, self.number[op.inputs[1]], free, (first, second), bias, position)
        return None

    def _popped(self, row: Tensor) -> int | None:
        """The loop variable that began as the list of an array's rows, one of which every iteration takes: this one."""
        node = row.op
        position = self.number.get(node.inputs[0], self.count) if node.kind == "list_pop" else self.count
        if position >= self.count or row.index != 1 or self.body.results[position] is not node.outputs[0]:
            return None
        source = self.op.inputs[position].op
        if source.kind != "list_from_tensor" or source.inputs[0].shape.rank != 3 or not source.inputs[0].shape.known:
            return None
        shape = source.inputs[0].shape.static
        return position if shape[0] >= FEWEST and shape[1:] == row.shape.static else None

    def _needed_behind(self, op: Operation) -> _Product | None:
        """The only reader splits the product, and a part goes to a list of known length, or nowhere."""
        if not self._suits(op) or not op.attrs["transpose_b"] or op.kind != "matmul" or op.outputs[0] in self.body.results:
            return None
        readers = self.inside.get(op.outputs[0], [])
        if len(readers) != 1 or readers[0].kind != "split" or readers[0].attrs["axis"] not in (1, -1) or (
                len(readers[0].outputs) != 2 or readers[0].control_inputs or readers[0] in self.awaited):
            return None
        split = readers[0]
        first, second = (t.shape.static[1] for t in split.outputs)
        for free in (0, 1):
            if split.outputs[free] in self.body.results:
                continue
            uses = self.inside.get(split.outputs[free], [])
            position = self._pushed(uses[0]) if len(uses) == 1 and self.trips is not None else None
            if position is not None or not uses:
                return _Product(op, self.number[op.inputs[1]], free, (first, second), None, position, split)
        return None

    def _pushed(self, op: Operation) -> int | None:
        """The loop variable that began as an empty list and to which `op` adds one element in each iteration."""
        position = self.number.get(op.inputs[0], self.count) if op.kind == "list_push" else self.count
        if position >= self.count or self.body.results[position] is not op.outputs[0] or op.controls:
            return None
        alone = self.inside[op.inputs[0]] == [op] and not self.inside.get(op.outputs[0]) and op not in self.awaited
        return position if alone and self.op.inputs[position].op.kind == "list_new" else None

    # the loop without them

    def rewritten(self, inputs: list[Tensor], state: Rewrite, stacked: dict[Tensor, Tensor]) -> list[Tensor]:
        """The outputs of the loop that is left, in the new graph."""
        lists = [self._before(product, inputs, state) for product in self.forward]
        weights = [p.part(1 - p.free, inputs, state) for p in (*self.forward, *self.backward)]
        graphs = {"cond_graph": with_arguments(self.op.attrs["cond_graph"], [*lists, *weights], {}),
                  "body_graph": changed(self.body, self._without)}
        for graph in graphs.values():      # a loop's variables stand before what it only reads
            own, more = graph.arguments[:self.count], graph.arguments[len(self.body.arguments):]
            graph.arguments = [*own, *more[:len(lists)], *graph.arguments[self.count:len(self.body.arguments)],
                               *more[len(lists):]]
        given = [*inputs[:self.count], *lists, *inputs[self.count:], *weights]
        outputs = state.copy(self.op, given, {**self.op.attrs, **graphs})
        for product in self.backward:
            if product.listed is not None:
                outputs[product.listed] = self._behind(product, outputs[self._multiplied(product)], inputs, state, stacked)
        return outputs

    def _before(self, product: _Product, inputs: list[Tensor], state: Rewrite) -> Tensor:
        """The list of what all iterations add to their products."""
        assert product.listed is not None
        source, like = inputs[product.listed].op, self.op
        steps, rows, width = source.inputs[0].shape.static
        flat = reshaped(source.inputs[0], (steps * rows, width), state, like)
        attrs = {"transpose_a": False, "transpose_b": False}
        name = product.op.name
        whole = state.create("matmul", [flat, product.part(product.free, inputs, state)], attrs, f"{name}/all", like).outputs[0]
        if product.bias is not None:
            whole = state.create("add", [whole, inputs[product.bias]], {}, f"{name}/bias", like).outputs[0]
        cut = reshaped(whole, (steps, rows, whole.shape.static[1]), state, like)
        return state.create("list_from_tensor", [cut], dict(source.attrs), f"{name}/rows", like).outputs[0]

    def _multiplied(self, product: _Product) -> int:
        """The number of a list of what is multiplied: one that there was, for the gradient of the weight, or the new one."""
        rows = product.op.inputs[0]
        pushed = [self._pushed(op) for op in self.inside[rows] if op.kind == "list_push" and op.inputs[1] is rows]
        assert product.listed is not None
        return next((position for position in pushed if position is not None), product.listed)

    def _behind(self, product: _Product, listed: Tensor, inputs: list[Tensor], state: Rewrite,
                stacked: dict[Tensor, Tensor]) -> Tensor:
        """The list that the loop would have made, from the list of what it would have multiplied."""
        rows, depth = product.op.inputs[0].shape.static
        like, name = self.op, product.op.name
        if listed not in stacked:
            attrs = {"dtype": float32, "shape": Shape([rows, depth]), "reverse": False, "length": self.trips}
            stacked[listed] = state.create("list_stack", [listed], attrs, f"{name}/stacked", like).outputs[0]
        assert self.trips is not None
        flat = reshaped(stacked[listed], (self.trips * rows, depth), state, like)
        whole = state.create("matmul", [flat, product.part(product.free, inputs, state)], dict(product.op.attrs), f"{name}/all",
                             like).outputs[0]
        cut = reshaped(whole, (self.trips, rows, product.widths[product.free]), state, like)
        return state.create("list_from_tensor", [cut], {"reverse": False}, f"{name}/rows", like).outputs[0]

    def _without(self, program: Program) -> Program:
        """The body with a list more to take from for each of `forward`, and with parts of the weights as arguments."""
        products = {p.op: p for p in (*self.forward, *self.backward)}
        splits = {p.split: p for p in self.backward}
        weights: dict[Operation, Tensor] = {}
        lists: dict[Operation, Tensor] = {}
        rests: dict[Operation, Tensor] = {}

        def visit(op: Operation, inputs: list[Tensor], state: Rewrite) -> list[Tensor] | None:
            if op in splits:      # a list takes what was to be multiplied
                product, own, rows = splits[op], inputs[0], state.tensors[splits[op].op.inputs[0]]
                return [rows, own] if product.free == 0 else [own, rows]
            if op not in products:
                return None
            product = products[op]
            shape = Shape([product.widths[1 - product.free], op.inputs[1].shape.static[1]])
            weights[op] = _argument(state, op, "weight", {"dtype": float32, "shape": shape})
            if product.split is not None:
                return list(state.create("matmul", [inputs[0], weights[op]], dict(op.attrs), op.name, op).outputs)
            lists[op] = _argument(state, op, "list", {"dtype": variant, "shape": Shape(())})
            own = state.tensors[op.inputs[0].op.inputs[1 - product.free]]
            taken = {"dtype": float32, "shape": op.outputs[0].shape}
            rests[op], row = state.create("list_pop", [lists[op]], taken, f"{op.name}/row", op).outputs
            attrs = {"transpose_a": False, "transpose_b": False}
            return list(state.create("matmul_add", [own, weights[op], row], attrs, op.name, op).outputs)
        new = rewrite(program, visit)
        more = [*(lists[p.op] for p in self.forward), *(weights[p.op] for p in (*self.forward, *self.backward))]
        return replace(new, feeds=(*new.feeds, *more), fetches=(*new.fetches, *(rests[p.op] for p in self.forward)))


def _argument(state: Rewrite, like: Operation, name: str, attrs: dict[str, object]) -> Tensor:
    return state.create("argument", (), attrs, f"{like.name}/{name}", like).outputs[0]


def _readers(operations: Sequence[Operation]) -> dict[Tensor, list[Operation]]:
    found: dict[Tensor, list[Operation]] = {}
    for op in operations:
        for tensor in op.inputs:
            found.setdefault(tensor, []).append(op)
    return found
