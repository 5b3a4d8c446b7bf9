"""Optimizer: from a loss to gradients, from gradients to updates of variables and their slots."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.scatters import scatter_update
from workbench.nn.variables import GraphKeys, Variable, group, near, trainable_variables
from workbench.train.optimizers.loss_scale import loss_scale_of
from workbench.train.optimizers.slots import create_slot, create_slot_with_initializer, create_zeros_slot
from workbench.train.pushing import pushed_to_tasks

__all__ = ["GradientsAndVariables", "Optimizer", "distinct", "scaled_gradients"]

GradientsAndVariables = Sequence[tuple[Any, Variable]]


def _var_key(var: Any) -> tuple[Any, str]:
    """What a variable is called in the tables of an optimizer: its graph and its name."""
    return var.op.graph, var.op.name


class Optimizer:
    """Base of all optimizers; a new one defines `_rule`, and in `_slots_of` its slots with their first values, or else
    `_apply_dense`, `_apply_sparse` and, if it has state, `_create_slots`, with `_zeros_slot` and others, `_prepare` and
    `_finish`, as TensorFlow's do. Those of tf.train are its direct subclasses, as programs ask.

    Everything here is graph built from public operations: the engine knows no optimizer (paper §4.1). Learning rates
    and other numbers may be scalar tensors or functions. `use_locking`, `gate_gradients` and
    `aggregation_method` have no effect: updates are atomic. Gradients are placed where their forward operations are,
    unless device scopes in force say otherwise; with `colocate_gradients_with_ops` these are not asked. Where the graph has a
    LossScale (`mixed_precision`), steps are left out whose gradients are not finite.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    def __init__(self, use_locking: bool = False, name: str | None = None) -> None:
        self._name = name or type(self).__name__.removesuffix("Optimizer")
        self._use_locking = use_locking      # for what rules of programs pass on
        self._slots: dict[str, dict[Any, Variable]] = {}
        self._extra: list[Variable] = []

    def get_name(self) -> str:
        """The name scope of its operations."""
        return self._name

    # what users call
    def minimize(self, loss: Any, global_step: Variable | None = None, var_list: Iterable[Variable] | None = None,
                 gate_gradients: int = GATE_OP, aggregation_method: Any = None,
                 colocate_gradients_with_ops: bool = False,
                 name: str | None = None, grad_loss: Any = None) -> Operation:
        """One step: an operation that computes the gradients of `loss` (its elements are summed) and applies them.

        `var_list` is by default the trainable variables; `global_step` is increased by 1 afterwards. A step that also fetches
        `loss` records its value, for the views. Raises InvalidArgumentError naming the variables when none of them leads to
        the loss.
        """
        if isinstance(loss, Tensor):
            root_graph().follow(loss)
        pairs = self.compute_gradients(loss, var_list, colocate_gradients_with_ops=colocate_gradients_with_ops,
                                       grad_loss=grad_loss)
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(self, loss: Any, var_list: Iterable[Variable] | None = None, gate_gradients: int = GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> list[tuple[Any, Variable]]:
        """(gradient of `loss`, variable) pairs; the gradient is a tensor of the variable's shape and dtype,
        IndexedSlices, or None where no path leads.

        Raises InvalidArgumentError when there are no variables.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise errors.InvalidArgumentError(f"{self._name}: gate_gradients must be one of: Optimizer.GATE_NONE, "
                                              f"Optimizer.GATE_OP, Optimizer.GATE_GRAPH. Not {gate_gradients}; use one")
        chosen = [var_list] if isinstance(var_list, Variable) else list(var_list or trainable_variables())
        if not chosen:
            raise errors.InvalidArgumentError(f"{self._name}: there are 0 variables to optimize; make one with "
                                              "trainable=True or pass var_list (No variables to optimize.)")
        with root_graph().device(None) if colocate_gradients_with_ops else contextlib.nullcontext():
            return list(zip(scaled_gradients(loss, chosen, grad_loss), chosen))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], global_step: Variable | None = None,
                        name: str | None = None) -> Operation:
        """An operation that applies the gradients and then, if given, adds 1 to `global_step`; pairs with None are
        left out. The collection TRAIN_OP gets it.

        Raises InvalidArgumentError when every gradient is None.
        """
        pairs = [(g, v) for g, v in grads_and_vars]
        live = [(g if isinstance(g, IndexedSlices) else convert(g), v) for g, v in pairs if g is not None]
        if not live:
            names = ", ".join(v.name for _, v in pairs) or "none at all"
            raise errors.InvalidArgumentError(f"{self._name}: no gradient reaches any of the variables ({names}); "
                                              "check that the loss depends on them (No gradients provided for any variable)")
        for tensor in (v for _, v in live if isinstance(v, Tensor)):
            raise errors.UnimplementedError(f"{self._name}: Trying to update a Tensor {tensor.name}; give variables")
        with root_graph().as_default() as root, root.control_dependencies(None):      # a branch may hold the updates, not these
            self._create_slots([v for _, v in live])
        with get_default_graph().name_scope(name or self._name) as scope:
            scaling = loss_scale_of()
            made = pushed_to_tasks(lambda: self._apply_live(live, global_step, scope)) if scaling is None else scaling.guarded(
                [g for g, _ in live], lambda: self._apply_live(live, global_step, "step"), scope)
        if made.graph is root_graph() and made not in made.graph.get_collection(GraphKeys.TRAIN_OP):
            made.graph.add_to_collection(GraphKeys.TRAIN_OP, made)
        return made

    def _apply_live(self, live: GradientsAndVariables, global_step: Variable | None, scope: str) -> Operation:
        """The operation `scope`, which applies the gradients."""
        self._prepare()
        updates = [self._update(g, v) for g, v in live]
        if global_step is None:
            return self._finish(updates, scope)
        with get_default_graph().control_dependencies([self._finish(updates, "update")]):
            return global_step.assign_add(1, name=scope).op

    def _update(self, grad: Any, variable: Variable) -> Tensor:
        with get_default_graph().name_scope(f"update_{variable.op.name.replace('/', '_')}"), near(variable):
            sparse = isinstance(grad, IndexedSlices)
            step = (self._apply_sparse_duplicate_indices if sparse else self._apply_dense)(grad, variable)
            if variable.constraint is None:
                return step
            with get_default_graph().control_dependencies([step]):
                return variable.assign(variable.constraint(variable.value()))

    # slots
    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """The slot variable `name` of `var`, None before apply_gradients or where there is none."""
        return self._slots.get(name, {}).get(_var_key(var))

    def get_slot_names(self) -> list[str]:
        """Names of the state it keeps for each variable, such as "momentum"."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Slots and other state of this optimizer."""
        return [*self._extra, *(v for slots in self._slots.values() for v in slots.values())]

    def _slot(self, var: Variable, name: str) -> Variable:
        return self._slots[name][_var_key(var)]

    def _make_slot(self, var: Variable, name: str, value: float = 0.0, title: str | None = None) -> Variable:
        """The slot `name` of `var`: its shape, filled with `value`, on its device; named after `title`, or the optimizer."""
        if not var.shape.known:
            return self._get_or_make_slot(var, lambda: ops.zeros_like(var.initial_value) + value, name, title or self._name)
        return self._get_or_make_slot(
            var, lambda: ops.fill(list(var.shape.static), ops.constant(value, var.dtype)), name, title or self._name)

    # what optimizers of programs make their state with
    def _slot_dict(self, slot_name: str) -> dict[Any, Variable]:
        """The slots `slot_name`, by `_var_key` of their variables."""
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Variable, val: Any, slot_name: str, op_name: str) -> Variable:
        """The slot `slot_name` of `var`, made with the first value `val` and named after `op_name` where there is none."""
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = create_slot(var, val, op_name)
        return slots[_var_key(var)]

    def _get_or_make_slot_with_initializer(self, var: Variable, initializer: Any, shape: Any, dtype: Any, slot_name: str,
                                           op_name: str) -> Variable:
        """The slot `slot_name` of `var`, which begins as an initializer makes it."""
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = create_slot_with_initializer(var, initializer, shape, dtype, op_name)
        return slots[_var_key(var)]

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        """The slot `slot_name` of `var`, which begins as zeros."""
        slots = self._slot_dict(slot_name)
        if _var_key(var) not in slots:
            slots[_var_key(var)] = create_zeros_slot(var, op_name)
        return slots[_var_key(var)]

    # what optimizers define: a rule, or the methods below
    def _slots_of(self) -> dict[str, float]:
        """Slot -> the value it is filled with."""
        return {}

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        """[new value of the variable, new value of each slot], all of the shape of `grad`, from the values now. A sparse
        gradient applies the rule to its distinct rows alone."""
        raise errors.UnimplementedError(f"{self._name}: _rule(var, grad, value, *slots) is missing; define it")

    def _ruled(self, var: Variable) -> list[Variable]:
        return [var, *(self._slot(var, name) for name in self._slots_of())]

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        """Make the state needed for `variables`; called before each apply_gradients."""
        for var in variables:
            for name, value in self._slots_of().items():
                self._make_slot(var, name, value)

    def _prepare(self) -> None:
        """Make tensors that all updates share."""

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        """The operation `name_scope` that stands for the step: `update_ops` and what belongs to it besides."""
        return group(*update_ops, name=name_scope)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        if type(self)._rule is Optimizer._rule:
            return self._resource_apply_dense(grad, var)
        states = self._ruled(var)
        first, *rest = self._rule(var, grad, *[state.value() for state in states])
        with get_default_graph().control_dependencies([state.assign(new).op for state, new in zip(states[1:], rest)]):
            return var.assign(first)

    def _resource_apply_dense(self, grad: Tensor, handle: Variable) -> Any:
        raise errors.UnimplementedError(f"{self._name}: _apply_dense(grad, var) is missing; define it")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        """A gradient that may name a row more than once: the sum of each row's goes to `_apply_sparse`."""
        rows, total = distinct(grad)
        return self._apply_sparse(IndexedSlices(total, rows, grad.dense_shape), var)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        """By default through the dense update, with the rows summed into a gradient of the variable's full shape."""
        if type(self)._rule is not Optimizer._rule:
            rows, states = grad.indices, self._ruled(var)
            first, *rest = self._rule(var, grad.values, *[state.gather(rows) for state in states])
            with get_default_graph().control_dependencies([scatter_update(s, rows, new).op
                                                           for s, new in zip(states[1:], rest)]):
                return scatter_update(var, rows, first)
        whole = ops.unsorted_segment_sum(grad.values, grad.indices, ops.shape(var.value())[0])
        return self._apply_dense(whole, var)

    def _number(self, value: Any, var: Variable) -> Tensor:
        """A hyperparameter (number, tensor or function) in the variable's dtype."""
        value = value() if callable(value) and not hasattr(value, "__tensor__") else value
        if isinstance(value, (Tensor, Variable)):
            tensor = convert(value)
            return tensor if tensor.dtype is var.dtype else ops.cast(tensor, var.dtype)
        return convert(value, var.dtype)


def scaled_gradients(loss: Any, variables: list[Variable], grad_loss: Any = None) -> list[Any]:
    """The gradients of `loss`, made from a multiple of it where the graph has a LossScale."""
    scaling = loss_scale_of()
    if scaling is None:
        return list(gradients(loss, variables, None if grad_loss is None else [grad_loss]))
    return scaling.gradients(loss, grad_loss, lambda seed: list(gradients(loss, variables, [seed])))


def distinct(grad: IndexedSlices) -> tuple[Tensor, Tensor]:
    """Distinct row numbers of a sparse gradient, and the sum of its rows of each."""
    rows, places = ops.unique(grad.indices)
    return rows, ops.unsorted_segment_sum(grad.values, places, ops.size(rows))
