"""How loops gather the gradient of a weight: a product of listed rows where those are fewer, else a sum."""
from __future__ import annotations

import pytest

from workbench.core.grad import gradients
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import variant

pytestmark = pytest.mark.usefixtures("graph")
UNITS = 8


def weight_gradient(rows, stop=5, turn=False, shared=False, invariants=None):
    x, w = ops.placeholder(dtype="float32", shape=[rows, UNITS]), ops.placeholder(dtype="float32", shape=[UNITS, UNITS])

    def body(i, h):
        h = ops.tanh(ops.matmul(h, w, transpose_b=turn))
        return i + 1, ops.matmul(h, w) if shared else h
    h = ops.while_loop(lambda i, h: i < stop, body, [0, x], shape_invariants=invariants)[1]
    return gradients(ops.reduce_sum(h), w)[0]


def carried(gradient):
    """What the backward loop hands from one iteration to the next, of the size of the weight."""
    loops = [op for op in gradient.graph.operations if op.type == "while"]
    arrays = [t for t in loops[-1].outputs if t.dtype is not variant and t.shape.rank == 2]
    return [t for t in arrays if t.shape.as_list() == [UNITS, UNITS]]


@pytest.mark.parametrize("turn", [False, True])
def test_the_gradient_of_a_weight_is_one_product_behind_the_loop(turn):
    found = weight_gradient(2, turn=turn)
    assert found.op.type == "matmul" and not carried(found)
    assert [t.shape.as_list() for t in found.op.inputs] == [[10, UNITS]] * 2, "known: a kernel can be chosen"


def test_rows_whose_number_only_the_step_knows_are_joined_too():
    for found in weight_gradient(None), weight_gradient(2, ops.placeholder(dtype="int32", shape=())):
        assert found.op.type == "matmul" and not carried(found)
        assert {t.op.type for t in found.op.inputs} == {"list_concat"}


@pytest.mark.parametrize("case", [{"rows": 4}, {"rows": 2, "shared": True}, {"rows": 2, "invariants": [[], None]}],
                         ids=["as many rows", "used twice", "no known rank"])
def test_what_is_no_single_product_of_few_rows_is_summed(case):
    assert len(carried(weight_gradient(**case))) == 1
