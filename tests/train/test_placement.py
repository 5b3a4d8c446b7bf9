"""Where replicas put their variables: in turn, or by bytes."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors


def devices(setter, shapes) -> list[str]:
    with wb.Graph().as_default(), wb.device(setter):
        made = [wb.get_variable(f"v{number}", shape) for number, shape in enumerate(shapes)]
        assert (made[0] + 1.0).device == "/job:worker"
        return [variable.device for variable in made]


def test_in_turn_or_by_bytes():
    shapes = [[100], [10], [10], [200], [10]]
    assert devices(wb.train.replica_device_setter(2), shapes) == [f"/job:ps/task:{i}" for i in (0, 1, 0, 1, 0)]
    greedy = wb.train.GreedyLoadBalancingStrategy(2, wb.train.byte_size_load_fn)
    setter = wb.train.replica_device_setter(cluster={"ps": ["a:1", "b:1"]}, ps_strategy=greedy, ps_ops=["VariableV2"])
    assert devices(setter, shapes) == [f"/job:ps/task:{i}" for i in (0, 1, 1, 1, 0)]
    assert greedy.loads == [440.0, 880.0]


def test_what_has_no_bytes():
    with wb.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match=(
            r"byte_size_load_fn: 'constant' is a constant; it is for variables of known shape")):
        wb.train.byte_size_load_fn(wb.constant(1.0).op)
    with pytest.raises(errors.InvalidArgumentError, match="num_tasks is 0; use 1 or more"):
        wb.train.GreedyLoadBalancingStrategy(0, wb.train.byte_size_load_fn)
