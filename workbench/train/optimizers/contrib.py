"""Optimizers of tf.contrib.opt: lazy and Nesterov's Adam, averages, clipped variables, stale gradients, SciPy's minimizers."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, convert, ops
from workbench.core.graph.entered import default_session
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.initializers import Zeros
from workbench.nn.scatters import scatter_update
from workbench.nn.scopes import get_variable
from workbench.nn.variables import Variable, global_variables, group, trainable_variables
from workbench.train.optimizers.averages import ExponentialMovingAverage
from workbench.train.optimizers.optimizer import GradientsAndVariables, Optimizer, distinct
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.pushing import pushed_to_tasks
from workbench.train.saving.saver import Saver, default_saver
from workbench.train.saving.summary import scalar

__all__ = ["DropStaleGradientOptimizer", "ExternalOptimizerInterface", "LazyAdamOptimizer", "MovingAverageOptimizer",
           "NadamOptimizer", "ScipyOptimizerInterface", "VariableClippingOptimizer"]


class _Adam(Optimizer):
    """What the rules of Adam share: two moments of each element, and the powers of the decays."""

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 use_locking: bool = False, name: str = "Adam") -> None:
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._powers: tuple[Variable, Variable] | None = None

    def _slots_of(self) -> dict[str, float]:
        return {"m": 0.0, "v": 0.0}

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        if self._powers is None:
            made = [Variable(np.float32(beta), trainable=False, name=f"beta{i}_power")
                    for i, beta in enumerate((self._beta1, self._beta2), 1)]
            self._powers = made[0], made[1]
            self._extra += made
        super()._create_slots(variables)

    def _get_beta_accumulators(self) -> tuple[Variable, Variable] | None:
        """The variables that hold the powers of both decays, None before apply_gradients."""
        return self._powers

    def _moments(self, grad: Tensor, m: Tensor, v: Tensor, var: Variable) -> tuple[Any, Any, Any, Any, Any]:
        one, two = self._number(self._beta1, var), self._number(self._beta2, var)
        powers = [self._number(p.value(), var) for p in self._powers or ()]
        rate = self._number(self._lr, var) * ops.sqrt(1 - powers[1]) / (1 - powers[0])
        return one, rate, m * one + grad * (1 - one), v * two + ops.square(grad) * (1 - two), self._number(self._epsilon, var)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Operation:
        with get_default_graph().control_dependencies(update_ops):
            made = [power.assign(power.value() * beta).op
                    for power, beta in zip(self._powers or (), (self._beta1, self._beta2))]
        return group(*update_ops, *made, name=name_scope)


class LazyAdamOptimizer(_Adam):
    """Adam that of a sparse gradient updates moments and values of its rows alone."""

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        _, rate, m, v, epsilon = self._moments(grad, slots[0], slots[1], var)
        return [value - rate * m / (ops.sqrt(v) + epsilon), m, v]


class NadamOptimizer(_Adam):
    """Adam with Nesterov's momentum. Source: Dozat 2015.

    A sparse gradient changes its rows of the variable; the moments of the others fade meanwhile.
    """

    def __init__(self, learning_rate: Any = 0.001, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-8,
                 use_locking: bool = False, name: str = "Nadam") -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _rule(self, var: Variable, grad: Tensor, value: Tensor, *slots: Tensor) -> list[Tensor]:
        one, rate, m, v, epsilon = self._moments(grad, slots[0], slots[1], var)
        return [value - rate * (m * one + grad * (1 - one)) / (ops.sqrt(v) + epsilon), m, v]

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor:
        rows = grad.indices
        states, decays = self._ruled(var), [self._number(beta, var) for beta in (self._beta1, self._beta2)]
        first, *rest = self._rule(var, grad.values, *[state.gather(rows) for state in states])
        with get_default_graph().control_dependencies(rest):
            faded = [state.assign(state.value() * decay).op for state, decay in zip(states[1:], decays)]
        with get_default_graph().control_dependencies(faded):
            moved = [scatter_update(state, rows, new).op for state, new in zip(states[1:], rest)]
        with get_default_graph().control_dependencies(moved):
            return scatter_update(var, rows, first)


class _Around(Optimizer):
    """An optimizer that does more in each step of another."""

    _inner: Optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the other optimizer's."""
        return self._inner.compute_gradients(*args, **kwargs)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """As the other optimizer's."""
        return self._inner.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """As the other optimizer's."""
        return self._inner.get_slot_names()


class MovingAverageOptimizer(_Around):
    """Another optimizer, after each step of which the moving averages of its variables are brought up to date."""

    def __init__(self, opt: Optimizer, average_decay: float = 0.9999, num_updates: Any = None,
                 sequential_update: bool = True) -> None:
        super().__init__(False, "MovingAverage")
        self._inner, self._sequential = opt, sequential_update
        self._ema = ExponentialMovingAverage(average_decay, num_updates)
        self._averaged: list[Variable] | None = None

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The step of the other optimizer, then the averages."""
        pairs = list(grads_and_vars)
        self._averaged = [v for _, v in pairs]
        return pushed_to_tasks(lambda: self._apply(pairs, global_step, name))

    def _apply(self, pairs: GradientsAndVariables, global_step: Any, name: str | None) -> Operation:
        step = self._inner.apply_gradients(pairs, global_step, name)
        with get_default_graph().control_dependencies([step] if self._sequential else []):
            return group(step, self._ema.apply([v for _, v in pairs]))

    def average(self, var: Variable) -> Variable | None:
        """The moving average of a variable."""
        return self._ema.average(var)

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> Saver:
        """A Saver that keeps moving averages under the names of their variables, and these under those of the averages: what
        evaluates restores averages with any other. `var_list` (default: all variables) as Saver's, as `kwargs`.

        RuntimeError before apply_gradients or minimize.
        """
        if self._averaged is None:
            raise RuntimeError("swapping_saver: Must call apply_gradients or minimize before creating the swapping_saver")
        pairs = [(v, self._ema.average(v)) for v in self._averaged]
        other = {id(a): b for one, two in pairs for a, b in ((one, two), (two, one))}
        given = global_variables() if var_list is None else var_list
        named = given if isinstance(given, dict) else {v.op.name: v for v in given}
        return default_saver({key: other.get(id(v), v) for key, v in named.items()}, name=name, **kwargs)


class VariableClippingOptimizer(_Around):
    """Another optimizer, after each step of which variables are clipped: `vars_to_clip_dims` maps each to the axes over which
    its Euclidean norm is at most `max_norm`. With `colocate_clip_ops_with_vars` they are clipped where they are."""

    def __init__(self, opt: Optimizer, vars_to_clip_dims: dict[Variable, Sequence[int]], max_norm: float,
                 use_locking: bool = False, colocate_clip_ops_with_vars: bool = False, name: str = "VariableClipping") -> None:
        super().__init__(use_locking, name)
        self._inner, self._axes, self._most = opt, vars_to_clip_dims, max_norm
        self._near = colocate_clip_ops_with_vars

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Operation:
        """The step of the other optimizer, then the clipping."""
        pairs = list(grads_and_vars)
        return pushed_to_tasks(lambda: self._apply(pairs, global_step, name))

    def _apply(self, pairs: GradientsAndVariables, global_step: Any, name: str | None) -> Operation:
        with get_default_graph().control_dependencies([self._inner.apply_gradients(pairs, global_step, name)]):
            return group(*[self._clip(g, v) for g, v in pairs if g is not None and v in self._axes])

    def _clip(self, grad: Any, var: Variable) -> Tensor:
        axes = list(self._axes[var])
        with root_graph().colocate_with(var.op) if self._near else nullcontext():
            if isinstance(grad, IndexedSlices) and 0 not in axes:
                rows, _ = distinct(grad)
                return scatter_update(var, rows, self._clipped(var.gather(rows), axes))
            return var.assign(self._clipped(var.value(), axes))

    def _clipped(self, value: Tensor, axes: list[int]) -> Tensor:
        norm = ops.sqrt(ops.reduce_sum(ops.square(value), axis=axes, keepdims=True))
        return value * self._most / ops.maximum(norm, self._most)


class DropStaleGradientOptimizer(_Around):
    """Another optimizer that applies gradients only while the global step is at most `staleness` above what it was when they
    were computed. The variable "stale_counter" counts those that were left out, and a summary has their share of all."""

    def __init__(self, opt: Optimizer, staleness: int, use_locking: bool = False, name: str = "DropStaleGradient") -> None:
        super().__init__(use_locking, name)
        self._inner, self._staleness = opt, staleness
        self._began: Tensor | None = None

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        """As the other optimizer's, of a loss that waits for a look at the global step."""
        step = get_global_step()
        if step is None:
            raise errors.InvalidArgumentError("DropStaleGradientOptimizer: there is no global step, by which gradients are "
                                              "stale; make one with create_global_step()")
        with get_default_graph().colocate_with(convert(loss).op):
            self._began = step.value() + 0
        with get_default_graph().control_dependencies([self._began]):
            return self._inner.compute_gradients(ops.identity(loss), *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """The step of the other optimizer, or none: what leads to it gives the number of those left out.

        ValueError (InvalidArgumentError) without a global step, or before compute_gradients.
        """
        if global_step is None or self._began is None:
            raise errors.InvalidArgumentError("DropStaleGradientOptimizer: apply_gradients needs global_step= and what "
                                              "compute_gradients gave; pass both")
        pairs = list(grads_and_vars)
        dropped = get_variable("stale_counter", [], initializer=Zeros(), trainable=False)
        made = [g.values if isinstance(g, IndexedSlices) else convert(g) for g, _ in pairs if g is not None]
        with get_default_graph().control_dependencies(made):
            age = ops.reshape(global_step.value() - self._began, [])

        def accept() -> Tensor:
            with get_default_graph().control_dependencies([self._inner.apply_gradients(pairs, global_step, name)]):
                return ops.identity(0.0)
        counted = dropped.assign_add(ops.cond(age <= self._staleness, accept, lambda: ops.constant(1.0)))
        scalar("Gradient staleness percentage", dropped / ops.cast(global_step + 1, "float32"))
        return counted


class ExternalOptimizerInterface:
    """Minimises a loss by a function outside of the graph, over all its variables as one vector.

    `var_to_bounds` maps variables to (least, greatest). A subclass defines `_minimize`.
    """

    def __init__(self, loss: Any, var_list: Sequence[Variable] | None = None, equalities: Any = None, inequalities: Any = None,
                 var_to_bounds: dict[Variable, Any] | None = None, **optimizer_kwargs: Any) -> None:
        self._loss, self._vars = convert(loss), list(var_list or trainable_variables())
        self._equal, self._above = list(equalities or ()), list(inequalities or ())
        self.optimizer_kwargs = optimizer_kwargs
        self._bounds = None if var_to_bounds is None else [
            pair for var in self._vars for pair in self._pairs(var, var_to_bounds.get(var, (-np.inf, np.inf)))]
        self._slopes = [self._slope(f) for f in (self._loss, *self._equal, *self._above)]

    @staticmethod
    def _pairs(var: Variable, bounds: Any) -> list[Any]:
        low, high = (np.broadcast_to(b, var.shape.static).reshape(-1) for b in bounds)
        return list(zip(low, high))

    def _slope(self, function: Any) -> Tensor:
        found = [ops.zeros_like(v.value()) if g is None else convert(g)
                 for g, v in zip(gradients(function, self._vars), self._vars)]
        return ops.concat([ops.reshape(g, [-1]) for g in found], axis=0)

    def minimize(self, session: Any = None, feed_dict: Any = None, fetches: Any = None, step_callback: Any = None,
                 loss_callback: Any = None, **run_kwargs: Any) -> None:
        """Leave the variables at the minimum; `step_callback` sees each vector, `loss_callback` the values of `fetches`."""
        session, feeds, more = session or default_session(), dict(feed_dict or {}), list(fetches or ())
        sizes = [int(np.prod(v.shape.static)) for v in self._vars]

        def load(x: Any) -> None:
            for var, part in zip(self._vars, np.split(x, np.cumsum(sizes)[:-1])):
                var.load(part.reshape(var.shape.static).astype(var.dtype.as_numpy_dtype), session)

        def at(wanted: list[Tensor], callback: Any = None) -> Callable[[Any], list[Any]]:
            def values(x: Any) -> list[Any]:
                load(x)
                found = session.run([*wanted, *more], feeds, **run_kwargs)
                if callback is not None:
                    callback(*found[len(wanted):])
                return found[:len(wanted)]
            return values
        start = np.concatenate([np.reshape(session.run(v), [-1]) for v in self._vars])
        count = 1 + len(self._equal)
        parts = {"equality": zip(self._equal, self._slopes[1:count]), "inequality": zip(self._above, self._slopes[count:])}
        pairs = {name: [(at([f]), at([slope])) for f, slope in part] for name, part in parts.items()}
        functions = {f"{name}_{kind}": [pair[number] for pair in pairs[name]]
                     for name in pairs for number, kind in enumerate(("funcs", "grad_funcs"))}
        load(self._minimize(initial_val=start, loss_grad_func=at([self._loss, self._slopes[0]], loss_callback), **functions,
                            packed_bounds=self._bounds, step_callback=step_callback, optimizer_kwargs=self.optimizer_kwargs))

    def _minimize(self, initial_val: Any, loss_grad_func: Any, equality_funcs: Any, equality_grad_funcs: Any,
                  inequality_funcs: Any, inequality_grad_funcs: Any, packed_bounds: Any, step_callback: Any,
                  optimizer_kwargs: Any) -> Any:
        raise errors.UnimplementedError(f"{type(self).__name__}: _minimize(…) is missing; define it")


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimises by scipy.optimize.minimize: L-BFGS-B, or SLSQP with constraints, unless `method` names another."""

    def _minimize(self, initial_val: Any, loss_grad_func: Any, equality_funcs: Any, equality_grad_funcs: Any,
                  inequality_funcs: Any, inequality_grad_funcs: Any, packed_bounds: Any, step_callback: Any,
                  optimizer_kwargs: Any) -> Any:
        from scipy.optimize import minimize
        options = dict(optimizer_kwargs)
        constraints = [{"type": kind, "fun": f, "jac": slope} for kind, functions, slopes in (
            ("eq", equality_funcs, equality_grad_funcs), ("ineq", inequality_funcs, inequality_grad_funcs))
            for f, slope in zip(functions, slopes)]
        method = options.pop("method", "SLSQP" if constraints else "L-BFGS-B")

        def loss(x: Any) -> tuple[Any, Any]:      # in double precision, which the methods ask for
            value, slope = loss_grad_func(x)
            return np.float64(value), np.asarray(slope, np.float64)
        return minimize(loss, initial_val.astype(np.float64), jac=True, method=method, bounds=packed_bounds,
                        constraints=constraints, callback=None if method == "SLSQP" else step_callback, **options).x
