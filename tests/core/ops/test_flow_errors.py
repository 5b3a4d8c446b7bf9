"""What cond, while_loop, case, the primitives and lists say to wrong use."""
from __future__ import annotations

import numpy as np
import pytest

from tests.core.flow_evaluator import evaluate
from workbench import errors
from workbench.core.grad import gradients
from workbench.core.graph.build import ops
from workbench.core.ops.flow import set_back_edge

pytestmark = pytest.mark.usefixtures("graph")


def number(shape=(), dtype="float32"):
    return ops.placeholder(dtype=dtype, shape=shape, name="x")


def says(error, *parts):
    text = str(error.value)
    for part in parts:
        assert part in text, text
    return text


def test_cond_structures_differ():
    x = number()
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(x > 0.0, lambda: (x, x), lambda: [x])
    says(error, "cond 'cond': true_fn returns tuple(*, *) but false_fn returns list(*); return the same structure")


def test_cond_dtypes_differ():
    x, n = number(), number((), "int32")
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(x > 0.0, lambda: x, lambda: n, name="choice")
    says(error, "cond 'choice': true_fn returns x:0 of float32 but false_fn returns x_1:0 of int32; cast one of them")


@pytest.mark.parametrize("pred", [lambda: number(), lambda: number([2], "bool")])
def test_cond_needs_one_bool(pred):
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(pred(), lambda: 1.0, lambda: 2.0)
    says(error, "cond 'cond': the predicate x:0 is ", "but one bool is needed; compare it, or reduce it")


def test_cond_needs_functions():
    x = number()
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(x > 0.0, x, lambda: x)
    says(error, "is not a function; pass functions, for example lambda: x + 1")


def test_cond_operation_beside_tensor():
    x = number()
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(x > 0.0, lambda: ops.no_op(), lambda: x)
    says(error, "return a tensor from both or an operation from both")


def test_value_leaks_out_of_a_branch():
    x, kept = number(), []
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.cond(x > 0.0, lambda: kept.append(x + 1.0) or x, lambda: kept[0])
    says(error, "cond/else: cond/then/add:0 lives in another body or graph; a value leaves a branch or loop only as "
                "its result: return it there")
    with pytest.raises(errors.InvalidArgumentError, match="belongs to another graph"):
        kept[0].graph.outer.create("identity", [kept[0]])


def test_case_without_pairs():
    with pytest.raises(errors.InvalidArgumentError, match="case: there are 0 pairs; pass at least one"):
        ops.case([])


def test_while_structures_differ():
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda i, j: i < 3, lambda i, j: (i + 1, (j, j)), [0, 0])
    says(error, "while_loop 'while': loop_vars are list(*, *) but body returns tuple(*, tuple(*, *)); "
                "return one new value for each loop variable")


def test_while_dtypes_differ():
    x = number()
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, i), [0, x])
    says(error, "while_loop 'while': loop variable 1 (x:0) is float32 but body returns while/body/constant", "of int32",
         "cast it")


def test_while_shapes_differ():
    x = number([1])
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda v: v[0] < 3.0, lambda v: ops.concat([v, v], axis=0), [x])
    says(error, "while_loop 'while': loop variable x:0 has shape [1] but comes back as", "with [2]; pass "
         "shape_invariants with None where a dimension changes, or set_shape")


def test_while_invariants_contradict():
    x = number([2])
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda v: v[0] < 3.0, lambda v: v, [x], shape_invariants=[[3]])
    says(error, "loop variable x:0 has shape [3] but enters with [2]")


def test_while_invariants_without_structure():
    x = number([2])
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda v, w: v[0] < 3.0, lambda v, w: (v, w), [x, x], shape_invariants=[[3]])
    says(error, "shape_invariants: [[3]] does not follow the structure list(*, *); give one entry for each")


def test_while_condition_is_no_bool():
    with pytest.raises(errors.InvalidArgumentError) as error:
        ops.while_loop(lambda i: i, lambda i: i, [0])
    says(error, "while_loop 'while': the predicate", "is int32[] but one bool is needed")
    with pytest.raises(errors.InvalidArgumentError, match=r"cond returns tuple\(\*, \*\) but one bool is needed"):
        ops.while_loop(lambda i: (i < 1, i < 2), lambda i: i, [0])


def test_while_without_variables():
    with pytest.raises(errors.InvalidArgumentError, match="there are 0 loop variables; pass at least one"):
        ops.while_loop(lambda: True, lambda: [], [])
    with pytest.raises(errors.InvalidArgumentError, match="pass a list or tuple of values"):
        ops.while_loop(lambda i: i < 3, lambda i: i, 0)
    with pytest.raises(errors.InvalidArgumentError, match="parallel_iterations is 0; pass 1 or more"):
        ops.while_loop(lambda i: i < 3, lambda i: i, [0], parallel_iterations=0)


def test_loops_need_an_axis():
    with pytest.raises(errors.InvalidArgumentError, match=r"map_fn: elems is .* pass tensors with a first axis"):
        ops.map_fn(lambda v: v, number())
    with pytest.raises(errors.ShapeError, match=r"scan: elems have first axes \[2, 3\]; make them equally long"):
        ops.scan(lambda a, v: a, (number([2]), number([3])))
    with pytest.raises(errors.InvalidArgumentError, match="foldl: elems have 0 elements; pass initializer="):
        ops.foldl(lambda a, v: a, number([0]))


def test_gradient_after_finalize(graph):
    x = number()
    y = ops.while_loop(lambda v: v < 3.0, lambda v: v * v, [x])
    graph.finalize()
    with pytest.raises(errors.FailedPreconditionError, match="finalize"):
        gradients(y, x)


def test_back_edges_are_checked():
    x = number([2])
    merge = ops.merge([x, x])[0]
    with pytest.raises(errors.DtypeError, match=r"x:0 is|merge:0 is float32 but .* is int32; cast the value"):
        set_back_edge(merge, ops.constant([1, 2]))
    with pytest.raises(errors.ShapeError, match=r"merge:0 has shape \[2\] but .* has \[3\]; give enter the more"):
        set_back_edge(merge, ops.constant([1.0, 2.0, 3.0]))
    with pytest.raises(errors.InvalidArgumentError, match="'x' is a placeholder with 0 inputs and position is 1"):
        set_back_edge(x, x)


def test_loop_of_primitives_has_no_gradient():
    x = number()
    entered = ops.enter(x, frame_name="loop")
    merged, _ = ops.merge([entered, entered])
    again, done = ops.switch(merged, ops.loop_cond(merged < 3.0))[::-1]
    set_back_edge(merged, ops.next_iteration(again * 2.0))
    with pytest.raises(errors.UnimplementedError, match=r"has no gradient|write the loop with while_loop"):
        gradients(ops.exit(done), x)


@pytest.mark.parametrize(("build", "text"), [
    (lambda: ops.list_pop(ops.list_new(), dtype="float32", shape=())[1], "list_pop: the list is empty"),
    (lambda: ops.list_get(ops.list_from_tensor([1, 2]), 2, dtype="int32", shape=()),
     "list_get: index 2 is outside a list of 2"),
    (lambda: ops.list_get(ops.list_set(ops.list_new(), 1, 5), 0, dtype="int32", shape=()),
     "list_get: element 0 was never written; write it first"),
    (lambda: ops.list_stack(ops.list_set(ops.list_new(), 1, 5), dtype="int32", shape=()),
     "list_stack: element 0 of 2 was never written; write it first"),
    (lambda: ops.list_length(ops.list_set(ops.list_new(), -1, 5)), "list_set: index -1 is negative"),
    (lambda: ops.list_stack(ops.list_new(), dtype="int32", shape=[None]),
     r"list_stack: the list is empty and its elements have shape \[\?\]; give the full shape"),
])
def test_lists(graph, build, text):
    value = build()
    with pytest.raises(errors.Error, match=text):
        evaluate(graph, {}, [value])


def test_bodies_have_no_kernel(graph):
    y = ops.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    with pytest.raises(errors.InternalError, match="while: its bodies are compiled or lowered by the planner"):
        y.op.definition.reference(np.int32(0), **y.op.attrs)
    with pytest.raises(errors.InternalError, match="switch: it has no kernel, because the executor carries it out"):
        ops.switch(1.0, True)[0].op.definition.reference(1.0, True)
