"""tf.contrib.graph_editor: parts of graphs are selected, copied over other tensors, joined anew."""
from __future__ import annotations

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

ge = tf.contrib.graph_editor


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def value(fetches, feeds=None, prepare=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        if prepare is not None:
            prepare(session)
        return session.run(fetches, feeds)


def names(parts):
    return [part.name for part in parts]


# -- what is selected

def chain():
    a = tf.constant([1.0, 2.0], name="a")
    with tf.name_scope("inner"):
        b = tf.square(a, name="b")
        c = tf.add(b, a, name="c")
    return a, b, c, tf.negative(c, name="d")


def test_operations_and_tensors_are_selected_by_name(graph):
    a, b, c, d = chain()
    assert ge.select_ops("^inner/", graph=graph) == [b.op, c.op] == ge.get_name_scope_ops(graph, "inner/")
    assert ge.filter_ts_from_regex([c.op, d.op], "inner|^d") == [b, c, d]
    assert ge.select_ts("(?#ts)^a", "(?#ops)^d", graph=graph) == [a]
    assert ge.select_ops_and_ts(d.op, "(?#ts)b:0$", graph=graph) == ([d.op], [b])
    assert ge.filter_ops([b.op, d.op], lambda op: op.type == "Neg") == [d.op]
    assert ge.select_ops([b, c.op], positive_filter=lambda op: op.name != "x") == [c.op]
    with pytest.raises(ValueError, match="Use the keyword argument 'graph'"):
        ge.select_ops("^inner/")


def test_lists_refuse_what_they_are_not_of(graph):
    a, b, _, _ = chain()
    assert ge.make_list_of_op(graph)[0] is a.op and ge.make_list_of_t(a) == [a]
    assert ge.get_consuming_ops([a]) == [b.op, *ge.select_ops("c$", graph=graph)] and ge.get_generating_ops([b]) == [b.op]
    for make, given in ((ge.make_list_of_op, [a]), (ge.make_list_of_t, [a.op]), (ge.make_list_of_t, ["a:0"])):
        with pytest.raises(TypeError, match="pass tensors or operations"):
            make(given)
    with pytest.raises(TypeError, match="allow_graph is False"):
        ge.make_list_of_op(graph, allow_graph=False)
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="does not belong to given graph"):
        ge.make_list_of_t([a, other])


def test_walks_stay_within_what_they_are_told():
    a, b, c, d = chain()
    with tf.control_dependencies([d]):
        late = tf.no_op("late")
    assert ge.get_forward_walk_ops([a]) == [b.op, c.op, d.op]
    assert ge.get_forward_walk_ops(b.op, inclusive=False) == [c.op, d.op]
    assert ge.get_forward_walk_ops([a.op], stop_at_ts=[c]) == [a.op, b.op, c.op]
    assert ge.get_forward_walk_ops([c.op], control_outputs=ge.ControlOutputs(a.graph)) == [c.op, d.op, late]
    assert set(ge.get_backward_walk_ops([d], within_ops=[d.op, c.op, a.op])) == {d.op, c.op, a.op}
    assert set(ge.get_backward_walk_ops(late, inclusive=False, control_inputs=True)) == {d.op, c.op, b.op, a.op}
    assert ge.get_walks_intersection_ops([b], [c]) == [c.op]
    assert set(ge.get_walks_union_ops([b], [b])) == {a.op, b.op, c.op, d.op}
    with pytest.raises(ValueError, match="control_ios should be None"):
        ge.get_walks_union_ops([b], [b], control_inputs=True, control_ios=ge.ControlOutputs(a.graph))


def test_what_lies_within_a_boundary_is_reached_both_ways(graph):
    a, b, c, d = chain()
    with tf.control_dependencies([b]):
        late = tf.no_op("late")
    known = ge.ControlOutputs(graph)
    assert set(ge.get_ops_ios(b.op)) == {a.op, c.op} and set(ge.get_ops_ios([b.op], control_ios=known)) == {a.op, c.op, late}
    assert ge.get_within_boundary_ops(graph, b.op, [c.op]) == [a.op, b.op, c.op]
    assert ge.get_within_boundary_ops(graph, [b.op], c.op, inclusive=False, control_ios=known) == [a.op, b.op, late]
    with pytest.raises(ValueError, match="Boundary is intersecting with the seeds"):
        ge.get_within_boundary_ops(graph, [d.op], [d.op])


# -- views

def test_a_view_has_what_enters_and_leaves_and_can_be_remapped(graph):
    a, b, c, d = chain()
    view = ge.sgv_scope("inner", graph)
    assert (view.ops, view.inputs, view.outputs) == ([b.op, c.op], [a], [c])
    assert view.consumers() == [d.op] and view.find_op_by_name("inner/b") is b.op and view.op(1) is c.op
    through = ge.sgv(b.op, d)
    assert names(through.outputs) == ["inner/b:0", "d:0"] and through.is_passthrough(d) and through.connected_inputs == [a]
    assert through.remap([1], [d, 0, 0]).outputs == [d, b, b] and through.remap([1]).inputs == [d]
    assert through.remap_outputs([0, 0]).remap_outputs_make_unique().outputs == [b]
    assert through.remap([], []).remap_default().inputs == [a, d] and "inputs[2]" in str(through)
    assert ge.sgv(view) is view and not ge.SubGraphView() and str(ge.SubGraphView()) == "SubGraphView: empty"
    assert ge.sgv(a.op, d.op).remap_outputs([d]).remap_inputs([]).remove_unused_ops().ops == [d.op]
    for change, text in ((lambda: through.remap_inputs([2]), r"Out of \[0, 2\[ range: 2"),
                         (lambda: through.remap_inputs([0, 0]), "Found repetition"),
                         (lambda: view.input_index(d), "Can't find d:0 in inputs"),
                         (lambda: view.find_op_by_name("d"), "d not in subgraph"),
                         (lambda: ge.sgv(a, graph=tf.Graph()), "Graph mismatch")):
        with pytest.raises(ValueError, match=text):
            change()


# -- edges laid anew

def test_readers_of_a_tensor_read_another_in_the_same_session():
    x, y = tf.placeholder(tf.float32, [2], "x"), tf.constant([10.0, 20.0])
    total = x + 1.0
    twice = total * 2.0
    with tf.Session() as session:
        assert session.run(twice, {x: [1, 2]}).tolist() == [4, 6]
        assert ge.reroute_ts([y], [x]) == 1
        assert session.run(twice).tolist() == [22, 42] and total.op.inputs[0] is y and x.consumers() == []


def test_tensors_swap_readers_even_where_one_operation_reads_both():
    a, b = tf.constant(5.0), tf.constant(3.0)
    difference, negative = a - b, -a
    assert ge.swap_ts([a], [b], cannot_modify=[negative.op]) == 2
    assert value([difference, negative]) == [-2, -5]
    assert ge.swap_ts(a, b, can_modify=[negative.op]) == 1
    assert value([difference, negative]) == [-2, -3]


def test_a_tensor_made_later_may_be_read_and_gradients_follow():
    x = tf.constant(3.0)
    y = tf.square(x)
    loss = y * 2.0
    clipped = tf.minimum(y, 4.0) * 1.0
    ge.reroute_ts(clipped, y, can_modify=[loss.op])
    assert value([loss, *tf.gradients(loss, y)]) == [8, 0]
    with pytest.raises(ValueError, match="waits for itself"):
        ge.reroute_ts(loss, x)
    assert value(loss) == 8 and y.op.inputs[0] is x


def test_an_order_of_operations_is_laid_and_taken_away():
    state = tf.Variable(0.0)
    added, read = state.assign_add(1.0), state.read_value()
    ge.add_control_inputs(read.op, [added.op])
    assert value(read) == 1 and read.op.control_inputs == [added.op]
    with pytest.raises(ValueError, match="is already a control_input"):
        ge.add_control_inputs(read.op, added.op)
    with pytest.raises(ValueError, match="waits for itself"):
        ge.add_control_inputs(added.op, read.op)
    ge.remove_control_inputs(read.op, added.op)
    assert value(read) == 0
    with pytest.raises(ValueError, match="is not a control_input"):
        ge.remove_control_inputs(read.op, added.op)
    with pytest.raises(TypeError, match=r"Expected a tf\.Operation"):
        ge.add_control_inputs(read, added.op)


@pytest.mark.parametrize(("other", "text"), [
    (lambda: tf.constant([1, 2]), "Dtypes int32 .* and float32 .* are not compatible"),
    (lambda: tf.constant([1.0]), "are not compatible.; reshape"),
    (lambda: tf.placeholder(tf.float32), "say with set_shape"),
    (lambda: [tf.constant([1.0, 2.0])] * 2, "have different sizes: 2 != 1"),
])
def test_a_tensor_of_another_kind_is_not_read_instead(other, text):
    x = tf.constant([1.0, 2.0])
    y = -x
    with pytest.raises(ValueError, match=text):
        ge.reroute_ts(other(), x)
    assert y.op.inputs[0] is x


def test_a_finished_graph_stays_as_it_is(graph):
    _, b, c, _ = chain()
    graph.finalize()
    with pytest.raises(errors.FailedPreconditionError, match="finalized and cannot be modified"):
        ge.swap_ts(b, c, cannot_modify=[c.op])


def test_parts_are_detached_and_connected():
    x = tf.constant(2.0, name="x")
    first = tf.square(x, name="first")
    second = tf.add(first, 1.0, name="second")
    part, fed, left = ge.detach(second.op)
    assert names(fed) == ["geph__first_0:0", "second/geph__y_0:0"] and left == [] and part.inputs == fed
    assert value(second, dict(zip(fed, (5.0, 6.0)))) == 11
    third = tf.negative(x, name="third")
    one, two = ge.connect(third.op, ge.sgv(second.op).remap_inputs([0]))
    assert two.inputs == [third] == one.outputs and value(second, {fed[1]: 1.0}) == -1


def test_what_is_gone_around_is_fed():
    x = tf.constant(2.0)
    middle = tf.exp(x, name="middle")
    out = middle + 1.0
    part, fed = ge.bypass(middle.op)
    assert value(out) == 3 and part.inputs == fed == list(middle.op.inputs)
    _, outside = ge.detach_outputs(part.graph.get_operations()[0])
    assert value(out, {outside[0]: 7.0}) == 8


def test_parts_change_places():
    x, y = tf.constant(1.0), tf.constant(10.0)
    double, triple = x * 2.0, y * 3.0
    after = [double + 0.5, triple + 0.25]
    one, two = ge.sgv(double.op).remap_inputs([x]), ge.sgv(triple.op).remap_inputs([y])
    ge.swap_ios(one, two)
    assert one.inputs == [y] and two.inputs == [x] and value([double, triple, *after]) == [20, 3, 3.5, 20.25]
    ge.reroute_ios(one, two)
    assert two.inputs == [y] and value([double, triple, *after]) == [20, 30, 20.5, 20.25]


def test_control_edges_of_a_part_are_cut():
    before = tf.no_op("before")
    with tf.control_dependencies([before]):
        x = tf.constant(1.0)
    with tf.control_dependencies([x]):
        after = tf.no_op("after")
    known = ge.ControlOutputs(x.graph)
    assert known.get(before) == [x.op] and known.get_all() == {before: [x.op], x.op: [after]}
    ge.detach_control_inputs(x.op)
    ge.detach_control_outputs(x.op, known)
    assert x.op.control_inputs == after.control_inputs == []


# -- copies

def test_a_copy_reads_placeholders(graph):
    x = tf.constant(2.0, name="x")
    with tf.name_scope("part"):
        y = tf.multiply(tf.square(x, name="square"), 3.0, name="y")
    tf.add_to_collection("part/made", y)
    view, info = ge.copy(ge.sgv_scope("part", graph), dst_scope="again", src_scope="part")
    made = info.transformed(y)
    assert made.name == "again/y:0" and names(view.inputs) == ["again/geph__x_0:0"] and view.outputs == [made]
    assert info.original(made.op) is y.op and info.transformed([x, y.op]) == [None, made.op]
    assert tf.get_collection("again/made") == [made] and "part/y => again/y" in str(info)
    assert value([y, made], {view.inputs[0]: 5.0}) == [12, 75]
    assert ge.copy(y.op, dst_scope="again")[0].ops[0].name == "again_1/part/y"
    with pytest.raises(ValueError, match="x does not belong to source scope: part/"):
        ge.copy(x.op, src_scope="part")
    with pytest.raises(TypeError, match="got a int"):
        info.transformed(3)


def test_a_copy_in_another_graph_has_variables_of_its_own(graph):
    w = tf.Variable([1.0, 2.0], name="w")
    y = tf.py_func(lambda v: v * 2, [w], tf.float32) + 1.0
    with tf.Graph().as_default() as other:
        _, info = ge.copy(graph, other)
        with tf.Session() as session:
            session.run(info.transformed(w.initializer))
            assert session.run(info.transformed(y)).tolist() == [3, 5]
    with pytest.raises(errors.InvalidArgumentError, match="w is a variable of another graph; copy it, too"):
        ge.copy(w.value().op, tf.Graph())
    loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    with pytest.raises(errors.UnimplementedError, match="has bodies, which stay in their graph"):
        ge.copy(loop.op.inputs[0].op, tf.Graph())


def test_targets_are_computed_from_other_tensors():
    x = tf.placeholder(tf.float32, [3], "x")
    w = tf.Variable(2.0, name="w")
    hidden = tf.nn.relu(x * w)
    loss, apart = tf.reduce_sum(hidden), tf.constant(4.0)
    other = tf.placeholder(tf.float32, [5])
    made = ge.graph_replace({"loss": [loss], apart: (apart, hidden)}, {x: other}, dst_scope="new")
    assert made[apart][0] is apart and made[apart][1].shape == [5] and made["loss"][0].name.startswith("new/")
    assert value([made["loss"][0], loss], {other: np.arange(5.0), x: np.ones(3)}) == [20, 6]
    slope, = tf.gradients(made["loss"][0], w)
    assert value(slope, {other: np.arange(5.0)}) == 10
    with pytest.raises(ValueError, match="are not connected"):
        ge.graph_replace([x], {loss: apart})


def test_a_step_of_training_is_unrolled_by_values_of_a_variable():
    w = tf.get_variable("w", initializer=3.0)
    loss = tf.square(w) * 0.5
    step = {w.value(): w - 0.5 * tf.gradients(loss, [w])[0]}
    now = step
    for _ in range(2):
        now = ge.graph_replace(step, now)
    after, = now.values()
    unrolled = ge.graph_replace(loss, now)
    assert value([after, unrolled, loss]) == [3 / 8, 9 / 128, 4.5]
    np.testing.assert_allclose(value(tf.gradients(unrolled, [w])[0]), 3 / 64)


def test_a_copied_loop_and_branch_capture_the_replacement():
    x, w = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    end = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * w), [0, x])[1]
    both = tf.cond(x > 0, lambda: end + w, lambda: w)
    scale = tf.constant(2.0) * 1.5
    made = ge.graph_replace(both, {w: scale})
    feeds = {x: 1.0, w: 10.0}
    assert value([both, made], feeds) == [1010, 30]
    assert value(tf.gradients(made, [scale, w, x])[0], feeds) == 28
    assert tf.gradients(made, [w]) == [None]
    ge.reroute_ts(scale, w)
    assert value([both, *tf.gradients(both, [scale])], feeds) == [30, 28]


# -- a program: gradients whose forward pass is computed again, by the graph editor alone

def test_a_forward_pass_is_copied_for_its_gradients():
    x = tf.constant(np.linspace(-1, 1, 4, dtype=np.float32))
    layers = [x]
    for number in range(4):
        with tf.name_scope(f"layer{number}"):
            layers.append(tf.tanh(layers[-1] * 1.5))
    loss, kept = tf.reduce_sum(layers[-1]), layers[2]
    expected, = tf.gradients(loss, x)
    forward = ge.get_forward_walk_ops([x.op], within_ops=ge.get_backward_walk_ops([loss.op]))
    behind = [op for op in ge.get_backward_walk_ops([loss.op], stop_at_ts=[kept], within_ops=forward) if op.inputs]
    cut = tf.stop_gradient(kept)
    _, info = ge.copy_with_input_replacements(ge.sgv(behind), {})
    for old, new in info._transformed_ops.items():
        new._set_device(old.device)
    copied = list(info._transformed_ops.values())
    assert ge.reroute_ts({kept: cut}.values(), {kept: cut}.keys(), can_modify=copied) == 1
    upper, = tf.gradients(info.transformed(loss), cut)
    ge.add_control_inputs(copied[0], [cut.op])
    lower, = tf.gradients(kept, x, grad_ys=upper)
    found = value([expected, lower])
    np.testing.assert_allclose(*found, rtol=1e-6)


# -- transformed piece by piece

def test_a_transformer_copies_and_what_it_is_told_otherwise_it_does(graph):
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.add_to_collection("part/mine", part := tf.square(x, name="part/square"))
    with tf.control_dependencies([part]):
        y = tf.add(part, 1.0, name="part/add")

    def noisy(info, op):
        made, outputs = ge.transform.copy_op_handler(info, op)
        if op.type != "Add":
            return made, outputs
        with info.graph_.as_default():
            return made, [tf.add(outputs[0], 10.0, name="noise")]
    transformer = ge.Transformer()
    transformer.transform_op_handler = noisy
    with tf.Graph().as_default() as other:
        view, info = transformer(ge.make_view_from_scope("part", graph), other, "new", "part")
        assert names(view.inputs) == ["new/geph__x_0:0"] and info.transformed(y).op.name == "noise"
        assert names(other.get_collection("new/mine")) == ["new/square:0"]
        assert info.original(info.transformed(part)) is part
        assert [c.name for c in info.transformed(y.op).control_inputs] == ["new/square"]
        assert value(info.transformed(y), {view.inputs[0]: [1, 2]}).tolist() == [12, 15]


def test_inputs_of_a_transformed_part_are_what_it_is_told(graph):
    *_, c, d = chain()
    transformer = ge.Transformer()
    transformer.transform_external_input_handler = lambda info, t: tf.constant([5.0, 6.0])
    _, info = transformer([c.op, d.op], graph, "again")
    assert info.transformed(d).name == "again/d:0" and value(info.transformed(d)).tolist() == [-10, -12]
    transformer.transform_op_handler = lambda info, op: (op, op.outputs)
    with pytest.raises(ValueError, match="In-place transformation not allowed"):
        transformer([d.op], graph, "again")
    with pytest.raises(ValueError, match="d does not belong to source scope: inner/"):
        ge.Transformer()([d.op], graph, "again", "inner")
