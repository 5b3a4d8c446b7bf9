"""Options of variable scopes: getters, constraints, partitions, devices; templates."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors, train
from workbench.nn.partitions import (
    PartitionedVariable,
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from workbench.nn.templates import make_template

pytestmark = pytest.mark.usefixtures("graph")
SEED = 1


def test_a_getter_is_asked_with_the_full_name_and_may_change_what_is_made():
    asked = []

    def zeros(getter, name, **options):
        asked.append((name, options["shape"], options["reuse"]))
        return getter(name, **{**options, "initializer": wb.zeros_initializer()}) + 1.0
    with wb.variable_scope("a", custom_getter=zeros):
        with wb.variable_scope("b"):
            found = wb.get_variable("w", [2])
        own = wb.get_variable("v", [1], custom_getter=lambda getter, name, **o: getter(name, **o))
    assert asked == [("a/b/w", [2], False)] and isinstance(own, wb.Variable) and own.name == "a/v:0"
    assert run(found).tolist() == [1, 1]


def test_the_getter_of_an_inner_scope_calls_that_of_the_outer():
    def added(amount):
        return lambda getter, *args, **options: getter(*args, **options) + amount
    with wb.variable_scope("a", custom_getter=lambda getter, *a, **o: getter(*a, **o) * 10.0), \
            wb.variable_scope("b", custom_getter=added(5.0)):
        found = wb.get_variable("w", initializer=wb.constant(1.0))
    assert run(found) == 15


def test_optimizers_apply_constraints():
    w = wb.get_variable("w", initializer=wb.constant([1.0, -1.0]), constraint=lambda v: wb.clip_by_value(v, 0.0, 0.5))
    with wb.variable_scope("s", constraint=lambda v: v * 0.0):
        u = wb.get_variable("u", initializer=wb.constant([3.0]))
    step = train.GradientDescentOptimizer(0.1).minimize(wb.reduce_sum(w) + wb.reduce_sum(u))
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        session.run(step)
        assert [v.tolist() for v in session.run([w, u])] == [[0.5, 0.0], [0.0]]
    with pytest.raises(ValueError, match="constraint 3 must be callable"):
        wb.Variable(1.0, constraint=3)


def test_variables_in_parts_are_one_tensor():
    with wb.variable_scope("s", partitioner=fixed_size_partitioner(3)):
        w = wb.get_variable("w", [5, 2], initializer=wb.ones_initializer())
        scalar = wb.get_variable("b", [])
    assert isinstance(w, PartitionedVariable) and [p.name for p in w] == [f"s/w/part_{i}:0" for i in range(3)]
    assert [p.shape.as_list() for p in w] == [[2, 2], [2, 2], [1, 2]] and w.shape == [5, 2] and isinstance(scalar, wb.Variable)
    total = wb.reduce_sum(w * 2.0)
    grads = wb.gradients(total, list(w))
    assert [g.tolist() for g in run(grads)] == [[[2, 2]] * 2, [[2, 2]] * 2, [[2, 2]]] and run(total) == 20
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    v = wb.get_variable("v", [2, 3], initializer=values, partitioner=fixed_size_partitioner(2, axis=1))
    assert [p.tolist() for p in run(list(v))] == [[[0, 1], [3, 4]], [[2], [5]]]
    assert run(v.as_tensor()).tolist() == values.tolist()
    with pytest.raises(ValueError, match=r"of shape \[2, 3\] is asked in \[2, 2\] parts; cut it along one axis"):
        wb.get_variable("x", [2, 3], partitioner=lambda shape, dtype: [2, 2])


@pytest.mark.parametrize(("partitioner", "shape", "parts"), [
    (fixed_size_partitioner(4), [2, 9], [2, 1]), (fixed_size_partitioner(4, axis=1), [2, 9], [1, 4]),
    (variable_axis_size_partitioner(64), [8, 4], [2, 1]), (variable_axis_size_partitioner(64, max_shards=1), [8, 4], [1, 1]),
    (variable_axis_size_partitioner(1), [3, 4], [3, 1]), (min_max_variable_partitioner(3, min_slice_size=16), [8, 1], [2, 1]),
    (min_max_variable_partitioner(3, min_slice_size=16), [80, 1], [3, 1])])
def test_partitioners(partitioner, shape, parts):
    assert partitioner(shape=wb.TensorShape(shape), dtype=wb.float32) == parts


def test_a_scope_asks_for_variables_and_changes_its_defaults():
    with wb.variable_scope("s") as scope:
        scope.set_initializer(wb.ones_initializer())
        scope.set_dtype("float64")
        w = wb.get_variable("w", [1])
    again = scope.get_variable("v", [1])
    assert w.dtype is wb.float64 and again.name == "s/v:0" and run(again).tolist() == [1]


def test_templates_share_their_variables():
    def line(x, units):
        return x * wb.get_variable("w", [units], initializer=wb.ones_initializer())
    first, second = make_template("line", line, units=2), make_template("line", line, units=3)
    a, b, c = first(1.0), first(2.0), second(1.0)
    assert [v.name for v in wb.global_variables()] == ["line/w:0", "line_1/w:0"]
    assert [v.tolist() for v in run([a, b, c])] == [[1, 1], [2, 2], [1, 1, 1]]
    assert [v.name for v in first.variables] == ["line/w:0"] == [v.name for v in first.trainable_variables]
    assert first.variable_scope_name == "line/" and make_template("later", line).variable_scope_name is None


def test_templates_name_operations_by_their_calls():
    """A scope made now takes no name: the first call has that of the variables. One made unique is so among names too."""
    def line(x):
        return wb.add(x, wb.get_variable("w", [1]), name="sum")
    now = make_template("now", line, create_scope_now_=True)
    assert now.variable_scope_name == "now/" and now.variable_scope.original_name_scope == "now" and not now.variables
    assert [now(1.0).name for _ in range(2)] == ["now/sum:0", "now_1/sum:0"]
    first, second = make_template("line", line), make_template("line", line)
    assert [made(1.0).name for made in (first, first, second)] == ["line/sum:0", "line_1/sum:0", "line_2/sum:0"]
    assert [v.name for v in wb.global_variables()] == ["now/w:0", "line/w:0", "line_1/w:0"]


def test_a_template_that_asks_for_more_later_is_an_error():
    names = iter(["a", "b"])
    grows = make_template("grows", lambda: wb.get_variable(next(names), [1]))
    grows()
    with pytest.raises(ValueError, match="'grows/b' does not exist but reuse=True"):
        grows()
    with pytest.raises(errors.InvalidArgumentError, match="name cannot be None"):
        make_template(None, lambda: 0)


def test_a_template_keeps_its_first_scope_lists_its_variables_and_makes_none_later():
    def function():
        return wb.Variable(1.0) + wb.get_variable("v", []) + wb.get_local_variable("w", [])
    made = make_template("s", function)
    assert made.local_variables == [] == made.variables
    assert made().op.name.startswith("s/")
    assert [v.op.name for v in made.variables] == ["s/Variable", "s/v"] and [v.op.name for v in made.local_variables] == ["s/w"]
    with pytest.raises(ValueError, match="New variable created when calling a template after the first time"):
        made()
