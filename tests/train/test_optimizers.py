"""Optimizers through a session against the published update rules written in NumPy; sparse, scalar and wrong uses."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf1
from workbench import errors
from workbench.train.optimizers import slots
from workbench.train.optimizers.optimizer import Optimizer

pytestmark = pytest.mark.usefixtures("graph")
RNG = np.random.default_rng(11)
START = RNG.normal(size=(3, 2))
SCALES = RNG.uniform(0.5, 2, size=(3, 2))


def adadelta(value: Any, grad: Callable[[Any], Any], count: int) -> Any:
    accum, moved = np.zeros_like(value), np.zeros_like(value)
    for _ in range(count):
        g = grad(value)
        accum = 0.95 * accum + 0.05 * g * g
        step = np.sqrt(moved + 1e-6) / np.sqrt(accum + 1e-6) * g
        moved = 0.95 * moved + 0.05 * step * step
        value = value - 1.0 * step
    return value


def ftrl(value: Any, grad: Callable[[Any], Any], count: int) -> Any:
    accum, linear = np.full_like(value, 0.1), np.zeros_like(value)
    for _ in range(count):
        g = grad(value)
        total = accum + g * g
        linear += g - (np.sqrt(total) - np.sqrt(accum)) / 0.5 * value
        curve = np.sqrt(total) / 0.5 + 2 * 0.02
        value = np.where(np.abs(linear) > 0.01, (np.sign(linear) * 0.01 - linear) / curve, 0)
        accum = total
    return value


def simple(rule: Callable[..., Any], *slots: float) -> Callable[..., Any]:
    """A rule (value, g, t, *slots) -> (value, *slots) applied `count` times."""
    def run(value: Any, grad: Callable[[Any], Any], count: int) -> Any:
        state = [np.full_like(value, s) for s in slots]
        for t in range(1, count + 1):
            value, *state = rule(value, grad(value), t, *state)
        return value
    return run


def momentum(nesterov: bool) -> Callable[..., Any]:
    def rule(w: Any, g: Any, t: int, a: Any) -> Any:
        a = 0.9 * a + g
        return w - 0.05 * (g + 0.9 * a if nesterov else a), a
    return simple(rule, 0.0)


def adam(w: Any, g: Any, t: int, m: Any, v: Any) -> Any:
    m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g * g
    return w - 0.1 * np.sqrt(1 - 0.99**t) / (1 - 0.8**t) * m / (np.sqrt(v) + 1e-7), m, v


def adagrad(w: Any, g: Any, t: int, a: Any) -> Any:
    a = a + g * g
    return w - 0.3 * g / np.sqrt(a), a


def rms_prop(w: Any, g: Any, t: int, ms: Any, mom: Any) -> Any:
    ms = 0.8 * ms + 0.2 * g * g
    mom = 0.5 * mom + 0.05 * g / np.sqrt(ms + 1e-6)
    return w - mom, ms, mom


def centered(w: Any, g: Any, t: int, ms: Any, mg: Any, mom: Any) -> Any:
    ms, mg = 0.8 * ms + 0.2 * g * g, 0.8 * mg + 0.2 * g
    mom = 0.5 * mom + 0.05 * g / np.sqrt(ms - mg * mg + 1e-6)
    return w - mom, ms, mg, mom


def shrunk(value: Any, by: Any) -> Any:
    return np.sign(value) * np.maximum(np.abs(value) - by, 0)


def proximal(w: Any, g: Any, t: int) -> Any:
    return (shrunk(w - 0.1 * g, 0.1 * 0.3) / (1 + 0.1 * 0.2),)


def proximal_adagrad(w: Any, g: Any, t: int, a: Any) -> Any:
    a = a + g * g
    rate = 0.2 / np.sqrt(a)
    return shrunk(w - rate * g, rate * 0.3) / (1 + rate * 0.2), a


def dual_averaging(w: Any, g: Any, t: int, total: Any, squares: Any) -> Any:
    total, squares = total + g, squares + g * g
    return -0.3 * shrunk(total, 0.01 * t) / (0.02 * t * 0.3 + np.sqrt(squares)), total, squares


CASES = {
    "gradient descent": (lambda: wb.train.GradientDescentOptimizer(0.1), simple(lambda w, g, t: (w - 0.1 * g,))),
    "momentum": (lambda: wb.train.MomentumOptimizer(0.05, 0.9), momentum(False)),
    "nesterov": (lambda: wb.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True), momentum(True)),
    "adam": (lambda: wb.train.AdamOptimizer(0.1, 0.8, 0.99, 1e-7), simple(adam, 0.0, 0.0)),
    "adagrad": (lambda: wb.train.AdagradOptimizer(0.3, 0.2), simple(adagrad, 0.2)),
    "rms prop": (lambda: wb.train.RMSPropOptimizer(0.05, 0.8, 0.5, 1e-6), simple(rms_prop, 1.0, 0.0)),
    "centered rms prop": (lambda: wb.train.RMSPropOptimizer(0.05, 0.8, 0.5, 1e-6, centered=True),
                          simple(centered, 1.0, 0.0, 0.0)),
    "proximal": (lambda: wb.train.ProximalGradientDescentOptimizer(0.1, 0.3, 0.2), simple(proximal)),
    "proximal adagrad": (lambda: wb.train.ProximalAdagradOptimizer(0.2, 0.1, 0.3, 0.2), simple(proximal_adagrad, 0.1)),
    "dual averaging": (lambda: wb.train.AdagradDAOptimizer(0.3, wb.train.get_or_create_global_step(), 0.1, 0.01, 0.02),
                       simple(dual_averaging, 0.0, 0.1)),
    "adadelta": (lambda: wb.train.AdadeltaOptimizer(1.0, 0.95, 1e-6), adadelta),
    "ftrl": (lambda: wb.train.FtrlOptimizer(0.5, l1_regularization_strength=0.01,
                                               l2_regularization_strength=0.02), ftrl),
}


@pytest.mark.parametrize("dtype", [wb.float32, wb.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_ten_steps_follow_the_published_rule(name: str, dtype: wb.DType):
    make, rule = CASES[name]
    w = wb.Variable(START, dtype=dtype, name="w")
    step = wb.train.get_or_create_global_step()
    train = make().minimize(wb.reduce_sum(wb.constant(SCALES, dtype) * w * w), step)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(10):
            session.run(train)
        np.testing.assert_allclose(session.run(w), rule(START, lambda v: 2 * SCALES * v, 10),
                                   rtol=2e-4 if dtype is wb.float32 else 1e-9, atol=1e-9)
        assert int(session.run(step)) == 10


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_rule_reduces_a_loss_with_sparse_gradients_and_leaves_other_rows_alone(name: str):
    table = wb.Variable(np.ones((4, 2), np.float32))
    loss = wb.reduce_sum(wb.square(table.gather([1, 3, 1])))
    train = CASES[name][0]().minimize(loss)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        before = float(session.run(loss))
        for _ in range(5):
            session.run(train)
        assert float(session.run(loss)) < before
        assert session.run(table)[[0, 2]].tolist() == [[1, 1], [1, 1]]


def test_a_scalar_variable_and_a_rate_that_is_a_tensor():
    w, rate = wb.Variable(1.0), wb.placeholder(wb.float32, [])
    train = wb.train.GradientDescentOptimizer(rate).minimize(w * w)
    with wb.Session() as session:
        session.run(w.initializer)
        session.run(train, {rate: 0.25})
        assert float(session.run(w)) == 0.5
        session.run(train, {rate: 0.0})
        assert float(session.run(w)) == 0.5


def test_gradients_can_be_changed_before_they_are_applied():
    a, b, unused = wb.Variable(3.0), wb.Variable(4.0), wb.Variable(1.0)
    optimizer = wb.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(3.0 * a + 4.0 * b)
    assert [g is None for g, _ in pairs] == [False, False, True] and pairs[2][1] is unused
    clipped, norm = wb.clip_by_global_norm([g for g, _ in pairs], 1.0)
    train = optimizer.apply_gradients(zip(clipped, [a, b, unused]))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert float(session.run(norm)) == 5
        session.run(train)
        np.testing.assert_allclose(session.run([a, b, unused]), [2.4, 3.2, 1.0], rtol=1e-6)


def test_slots_are_variables_beside_the_variable():
    with wb.device("/job:ps/task:1"):
        w = wb.Variable([1.0, 2.0], name="w")
    optimizer = wb.train.AdamOptimizer()
    assert optimizer.get_slot(w, "m") is None
    train = optimizer.minimize(wb.reduce_sum(w * w), var_list=[w])
    m, v = optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")
    assert optimizer.get_slot_names() == ["m", "v"] and (m.name, v.name) == ("w/Adam:0", "w/Adam_1:0")
    assert m.device == v.device == "/job:ps/task:1" and not m.trainable
    assert len(optimizer.variables()) == 4 and m in wb.global_variables() and m not in wb.trainable_variables()
    assert train.name == "Adam" and all(
        op.device == "/job:ps/task:1" for op in w.graph.operations if op.type == "apply_adam")


def test_the_name_of_the_step_can_be_chosen_and_is_unique():
    w = wb.Variable(1.0)
    optimizer = wb.train.GradientDescentOptimizer(0.1)
    assert optimizer.minimize(w * w, name="step").name == "step"
    assert [optimizer.minimize(w * w).name for _ in range(2)] == ["GradientDescent", "GradientDescent_1"]


def test_a_new_optimizer_is_a_few_lines():
    class SignDescent(Optimizer):
        def _apply_dense(self, grad: Any, var: wb.Variable) -> Any:
            return var.assign_sub(0.5 * wb.sign(grad))
    w = wb.Variable([1.0, -2.0])
    train = SignDescent().minimize(wb.reduce_sum(w * w))
    with wb.Session() as session:
        session.run(w.initializer)
        session.run(train)
        assert session.run(w).tolist() == [0.5, -1.5]
    assert train.name == "SignDescent"


def test_ftrl_shrinks_by_a_gradient_that_its_accumulator_does_not_count():
    w = wb.Variable([1.0, 2.0], name="w")
    optimizer = wb.train.FtrlOptimizer(3.0, l1_regularization_strength=0.001, l2_regularization_strength=2.0,
                                       l2_shrinkage_regularization_strength=0.1, accum_name="seen", linear_name="line")
    train = optimizer.apply_gradients([(wb.constant([0.1, 0.2]), w)])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        for _ in range(10):
            session.run(train)
        assert session.run(w).tolist() == pytest.approx([-0.22578996, -0.44345795], rel=1e-5)      # by hand, in NumPy
        assert session.run(optimizer.get_slot(w, "accum")).tolist() == pytest.approx([0.2, 0.5])
    assert [optimizer.get_slot(w, slot).op.name for slot in ("accum", "linear")] == ["w/seen", "w/line"]


@pytest.mark.parametrize(("build", "text"), [
    (lambda w: wb.train.AdamOptimizer().minimize(wb.constant(1.0)), r"Adam: no gradient reaches any of the variables "
                                                                    r"\(w:0\); check that the loss depends on them"),
    (lambda w: wb.train.AdamOptimizer().apply_gradients([]), r"no gradient reaches any of the variables \(none at "
                                                              r"all\)"),
    (lambda w: wb.train.AdagradOptimizer(0.1, 0.0), "Adagrad: initial_accumulator_value is 0.0; use a positive number"),
    (lambda w: wb.train.FtrlOptimizer(0.1, learning_rate_power=1.0), "Ftrl: learning_rate_power is 1.0"),
    (lambda w: wb.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=-1.0), "l2 shrinkage -1.0; use"),
    (lambda w: Optimizer().minimize(w * w), r"_apply_dense\(grad, var\) is missing; define it"),
    (lambda w: wb.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=-1.0),
     "ProximalAdagrad: l1_regularization_strength is -1.0; use 0 or more"),
    (lambda w: wb.train.AdagradDAOptimizer(0.1, 0, 0.0), "AdagradDA: initial_gradient_squared_accumulator_value is 0.0"),
])
def test_mistakes_are_named(build: Any, text: str):
    w = wb.Variable(1.0, name="w")
    with pytest.raises(errors.Error, match=text):
        build(w)


def test_without_variables_there_is_nothing_to_optimize():
    with pytest.raises(errors.InvalidArgumentError, match="there are 0 variables to optimize; make one with"):
        wb.train.AdamOptimizer().minimize(wb.constant(1.0))


class Largest(Optimizer):
    """Descent divided by the largest gradient so far, as programs of the time write an optimizer."""

    def __init__(self, learning_rate: float = 0.5, use_locking: bool = False, name: str = "Largest") -> None:
        super().__init__(use_locking, name)
        self._lr, self.seen = learning_rate, list[Any]()

    def _prepare(self) -> None:
        self._lr_t = wb.convert_to_tensor(self._lr, name="learning_rate")

    def _create_slots(self, var_list: Any) -> None:
        for v in var_list:
            self._zeros_slot(v, "most", self._name)
            self._get_or_make_slot(v, wb.ones_like(v.initialized_value()), "count", "steps")
            self._get_or_make_slot_with_initializer(v, wb.constant_initializer(2.0), [1], "float32", "two", "two")

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        most = self.get_slot(handle, "most")
        now = most.assign(wb.maximum(most, wb.abs(grad)))
        counted = self.get_slot(handle, "count").assign_add(wb.ones_like(grad), use_locking=self._use_locking)
        return wb.group(handle.assign_sub(self._lr_t * grad / now), counted)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        self.seen.append((grad.indices, grad.values))
        return wb.scatter_sub(var, grad.indices, grad.values)

    def _finish(self, update_ops: Any, name_scope: str) -> Any:
        with wb.control_dependencies(update_ops):
            return wb.group(wb.assign_add(self.done, 1), *update_ops, name=name_scope)


def test_an_optimizer_of_a_program_makes_its_state_prepares_and_finishes_a_step():
    w, rows = wb.Variable([1.0, -4.0], name="w"), wb.Variable([[1.0], [2.0], [3.0]], name="rows")
    step = wb.train.get_or_create_global_step()
    optimizer = Largest()
    optimizer.done = wb.Variable(0)      # type: ignore[attr-defined]
    train = optimizer.minimize(wb.reduce_sum(w * w) + wb.reduce_sum(wb.gather(rows, [2, 0, 2])), step)
    assert train.name == "Largest" and optimizer.get_slot_names() == ["count", "most", "two"]
    assert optimizer.get_slot(w, "count").op.name == "w/steps" and optimizer.get_slot(w, "most").op.name == "w/Largest"
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(train)
        assert session.run([w, rows]) == [pytest.approx([0.5, -3.5]), pytest.approx(np.array([[0.0], [2.0], [1.0]]))]
        assert session.run([step, optimizer.done]) == [1, 1]      # type: ignore[attr-defined]
        assert session.run(optimizer.get_slot(w, "two")).tolist() == [2.0]
        assert session.run(optimizer.get_slot(w, "count")).tolist() == [2.0, 2.0]
        ((indices, values),) = session.run(optimizer.seen)
        assert dict(zip(indices.tolist(), values[:, 0].tolist())) == {2: 2.0, 0: 1.0}


def test_state_of_optimizers_is_named_by_the_scopes_in_force_as_tensorflow_names_it():
    w = wb.Variable([1.0], name="w")
    with wb.name_scope("names"):
        wb.train.AdamOptimizer().minimize(w * w)
    with wb.variable_scope("both"):
        adam = wb.train.AdamOptimizer()
        adam.minimize(w * w)
        wb.train.MomentumOptimizer(0.1, 0.9).minimize(w * w)
    assert [v.op.name for v in wb.global_variables()] == [
        "w", "names/beta1_power", "names/beta2_power", "w/Adam", "w/Adam_1", "both/beta1_power", "both/beta2_power",
        "both/w/Adam", "both/w/Adam_1", "both/w/Momentum"]
    assert [v.op.name for v in adam._get_beta_accumulators() or ()] == ["both/beta1_power", "both/beta2_power"]


def test_slots_stand_beside_variables_and_tensors():
    with wb.variable_scope("scope"):
        w = wb.Variable([1.0, 2.5], name="w")
        beside = slots.create_slot(w, w.initialized_value(), "slot")
    x = wb.placeholder("float64", name="x")
    zeros = slots.create_zeros_slot(w, "zeros", "float64")
    made = slots.create_slot_with_initializer(wb.constant(1.0, name="c"), wb.constant_initializer(3.0), wb.TensorShape([2]),
                                              "float32", "made", colocate_with_primary=False)
    assert [v.op.name for v in (beside, zeros, made)] == ["scope/scope/w/slot", "scope/w/zeros", "c/made"]
    assert not {beside, zeros, made} & set(wb.trainable_variables())
    unknown = slots.create_zeros_slot(x, "unknown")
    with wb.Session() as session:
        session.run([v.initializer for v in (w, zeros, made)])
        session.run(beside.initializer)
        session.run(unknown.initializer, {x: [[1.0]]})
        assert session.run([beside, zeros, made, unknown])[1].dtype == np.float64
        assert [v.tolist() for v in session.run([beside, zeros, made, unknown])] == [[1.0, 2.5], [0, 0], [3, 3], [[0]]]


def test_steps_are_collected_but_those_of_branches():
    w = wb.Variable(3.0)
    optimizer = wb.train.GradientDescentOptimizer(1.0)
    first, second = optimizer.minimize(w * 1.0), optimizer.minimize(w * 2.0, name="again")
    wb.cond(w > 0.0, lambda: wb.group(optimizer.minimize(w * 3.0)), lambda: wb.no_op())
    assert wb.get_collection("train_op") == [first, second]


def test_the_optimizers_of_tf_train_are_direct_subclasses_of_optimizer():
    """GPflow makes a class of its own of each and refuses others."""
    found = [value for name, value in vars(tf1.train).items() if name.endswith("Optimizer") and name != "Optimizer"]
    assert len(found) > 10 and {one.__base__ for one in found} == {tf1.train.Optimizer}


def test_programs_find_the_state_of_adam_among_its_attributes():
    """GPflow initializes what is found so, beside the slots."""
    with wb.Graph().as_default(), wb.Session() as session:
        v = wb.Variable([1.0, 2.0])
        adam = wb.train.AdamOptimizer(0.1)
        step = adam.minimize(wb.reduce_sum(v * v), var_list=[v])
        slots_of = [adam.get_slot(v, name) for name in adam.get_slot_names()]
        found = [value for value in vars(adam).values() if isinstance(value, wb.Variable)]
        session.run([one.initializer for one in [v, *slots_of, *found]])
        session.run(step)
        assert {one.op.name for one in found} == {"beta1_power", "beta2_power"} and session.run(v).tolist() != [1, 2]


def test_slots_are_listed_by_names_that_can_be_sorted():
    """As in TensorFlow: by the graph and the name of the variable; programs that save them go through both levels in order."""
    with wb.Graph().as_default() as graph:
        b, a = wb.Variable([1.0], name="b"), wb.Variable([2.0], name="a")
        optimizer = wb.train.MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(wb.reduce_sum(a * b))
        assert sorted(optimizer._slots["momentum"]) == [(graph, "a"), (graph, "b")]
        assert [optimizer._slots[slot][key] for slot in optimizer._slots for key in sorted(optimizer._slots[slot])] == [
            optimizer.get_slot(a, "momentum"), optimizer.get_slot(b, "momentum")]
