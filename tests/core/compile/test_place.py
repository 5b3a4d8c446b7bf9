"""Which operation goes where: requests, state, colocation, and what is said when they cannot all be had."""
from __future__ import annotations

import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile.place import Policy, place
from workbench.core.graph.opdef import registry
from workbench.core.passes.prune import prune
from workbench.train.config import ConfigProto

pytestmark = pytest.mark.usefixtures("graph")
DEVICES = ("/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0", "/job:worker/task:0/device:CPU:0",
           "/job:worker/task:0/device:CPU:1", "/job:worker/task:1/device:CPU:0")
HOME = DEVICES[2]


def placed(*fetches, home=HOME, devices=DEVICES) -> dict[str, str]:
    graph = fetches[0].graph
    return place(prune(graph, fetches, [], {}), devices, home, whole=graph)


def test_without_requests_everything_is_at_home():
    x = wb.constant(1.0) + 2.0
    assert set(placed(x).values()) == {HOME}
    assert set(place(prune(x.graph, [x], [], {}), DEVICES).values()) == {DEVICES[0]}, "the first device by default"


@pytest.mark.parametrize("request_, device", [
    ("/job:ps/task:1", DEVICES[1]), ("/job:ps", DEVICES[0]), ("/task:1", DEVICES[4]), ("/cpu:1", DEVICES[3]),
    ("/job:worker/task:1/device:CPU:0", DEVICES[4]), ("", HOME)])
def test_partial_requests_hold_and_the_nearest_is_taken(request_, device):
    with wb.device(request_):
        x = wb.identity(wb.constant(1.0), name="x")
    assert placed(x)["x"] == device


def test_the_innermost_scope_wins_field_by_field():
    with wb.device("/job:ps/task:1"), wb.device("/task:0"):
        x = wb.constant(1.0, name="x")
    assert placed(x)["x"] == DEVICES[0]


def test_state_and_the_operations_on_it_share_a_device():
    with wb.device("/job:ps/task:1"):
        v = wb.Variable(1.0, name="v")
    with wb.device("/job:worker/task:1"):
        y = wb.multiply(v, 2.0, name="y")
    found = placed(y, wb.assign_add(v, y, name="more"))
    assert found["v"] == found["more"] == DEVICES[1] and found["y"] == DEVICES[4]
    assert {found[n] for n in found if n.startswith("v/read")} == {DEVICES[1]}


def test_operations_on_two_variables_bring_them_together():
    with wb.device("/job:ps"):
        a, b = wb.Variable(1.0, name="a"), wb.Variable(1.0, name="b")
    with wb.device("/job:ps/task:1"), wb.colocate_with(a.op):
        marker = wb.identity(wb.constant(0.0), name="marker")
    found = placed(marker, a.read_value(), b.read_value())
    assert found["a"] == found["marker"] == DEVICES[1] and found["b"] == DEVICES[0]


def test_colocation_groups_are_transitive():
    a = wb.identity(wb.constant(1.0), name="a")
    with wb.colocate_with(a.op):
        b = wb.identity(wb.constant(1.0), name="b")
    with wb.colocate_with(b.op), wb.device("/job:ps/task:1"):
        c = wb.identity(wb.constant(1.0), name="c")
    found = placed(a, b, c)
    assert found["a"] == found["b"] == found["c"] == DEVICES[1]


def test_what_a_step_lacks_still_has_its_place_and_company():
    """Asked for by an operation itself, by what it lies with, and by the state it uses; an old name of nothing is void."""
    with wb.device("/job:ps/task:1"):
        v = wb.Variable(1.0, name="v")
        a = wb.identity(wb.constant(1.0), name="a")
    with wb.colocate_with(a.op):
        b = wb.identity(wb.constant(1.0), name="b")
    read = v.value()
    with wb.colocate_with(b.op):
        c = wb.identity(wb.constant(1.0), name="c")
    with wb.colocate_with(read.op):
        d = wb.identity(wb.constant(1.0), name="d")
    found = placed(c, d)
    assert not {"a", "b", "v"} & set(found) and found["c"] == found["d"] == DEVICES[1]
    assert place(prune(c.graph, [c], [], {}), DEVICES, HOME)["c"] == HOME


def test_two_that_are_to_lie_with_what_a_step_lacks_lie_together():
    a = wb.identity(wb.constant(1.0), name="a")
    with wb.colocate_with(a.op):
        b = wb.identity(wb.constant(1.0), name="b")
        with wb.device("/job:ps/task:1"):
            c = wb.identity(wb.constant(1.0), name="c")
    found = placed(b, c)
    assert found["b"] == found["c"] == DEVICES[1]


def test_a_gradient_follows_its_operation_unless_it_was_placed_elsewhere():
    x = wb.placeholder_with_default(wb.constant([1.0, 2.0]), [2])
    with wb.device("/job:worker/task:1"):
        y = wb.exp(x, name="y")
    slope, = wb.gradients(y, [x])
    assert placed(slope)[slope.op.name] == DEVICES[4]


def test_a_gradient_follows_its_operation_also_when_nobody_needs_that():
    """A product's value is needed by nobody when only its gradient is fetched."""
    x = wb.placeholder_with_default(wb.constant([1.0, 2.0]), [2])
    with wb.device("/job:worker/task:1"):
        y = wb.multiply(x, x, name="y")
    slope, = wb.gradients(y, [x], [wb.constant([1.0, 1.0])])
    program = prune(slope.graph, [slope], [], {})
    assert not program.graph.has("y")
    found = place(program, DEVICES, HOME, whole=slope.graph)
    assert {found[op.name] for op in program.graph.operations if op.derived} == {DEVICES[4]}


def test_a_gradient_follows_its_operation_to_what_that_lies_with():
    with wb.device("/job:ps/task:1"):
        v = wb.Variable([1.0, 2.0], name="v")
    with wb.colocate_with(v.op):
        y = wb.multiply(v.value(), 3.0, name="y")
    slope, = wb.gradients(y, [v], [wb.constant([1.0, 1.0])])
    program = prune(slope.graph, [slope, v.value()], [], {})
    assert not program.graph.has("y")
    found = place(program, DEVICES, HOME, whole=slope.graph)
    assert {found[op.name] for op in program.graph.operations if op.derived} == {DEVICES[1]}


def test_only_gradients_follow_softly_whatever_their_names():
    """Names say nothing: a user's operation may be called like a gradient."""
    v = wb.Variable(1.0, name="v")
    with wb.device("/job:ps"):
        a = wb.identity(wb.constant(1.0), name="a")
    one = wb.constant(1.0)
    with wb.device("/job:worker"), wb.colocate_with(a.op):
        mine = wb.identity(one, name="my_grad")
    with pytest.raises(errors.PlacementError) as error:
        placed(a, mine, v.read_value())
    assert text(error).startswith("place: 'a' must be with 'my_grad' (colocate_with) but asks for /job:ps ")


def test_a_gradient_placed_elsewhere_goes_there():
    x = wb.placeholder_with_default(wb.constant([1.0, 2.0]), [2])
    with wb.device("/job:worker/task:1"):
        y = wb.exp(x, name="y")
    with wb.device("/job:ps/task:1"):
        slope, = wb.gradients(y, [x])
    assert slope.op.derived and placed(slope)[slope.op.name] == DEVICES[1]


def text(error) -> str:
    return str(error.value).partition("\n")[0]


@pytest.mark.parametrize("lacking", [True, False], ids=["the step lacks it", "the step has it"])
def test_conflict_names_both_and_who_asked(lacking):
    with wb.device("/job:ps"):
        v = wb.Variable(1.0, name="v")
    one = wb.constant(1.0)
    with wb.device("/job:worker"), wb.colocate_with(v.op):
        y = wb.identity(one, name="y")
    with pytest.raises(errors.PlacementError) as error:
        placed(*[y] if lacking else [y, v.read_value()])
    assert text(error) == ("place: 'v' must be with 'y' (colocate_with) but asks for /job:ps (from 'v') while "
                           "/job:worker is asked by 'y'; make the job equal")


def test_conflict_over_state():
    with wb.device("/job:ps/task:0"):
        v = wb.Variable(1.0, name="v")
    with wb.device("/job:ps/task:1"):
        y = v.graph.create("read_variable", [v.handle], {"dtype": wb.float32, "shape": ()}, "y").outputs[0]
    with pytest.raises(errors.PlacementError) as error:
        placed(y)
    assert text(error) == ("place: 'v' must be with 'y' (it uses its state) but asks for /job:ps/task:0 (from 'v') "
                           "while /job:ps/task:1 is asked by 'y'; make the task equal")


def test_infeasible_request_lists_what_there_is():
    one = wb.constant(1.0)
    with wb.device("/job:worker/task:7"):
        y = wb.identity(one, name="y")
    with pytest.raises(errors.PlacementError) as error:
        placed(y, devices=DEVICES[:2], home=DEVICES[0])
    assert str(error.value).startswith(
        "place: 'y' asks for /job:worker/task:7 but there are only /job:ps/task:0/device:CPU:0, "
        "/job:ps/task:1/device:CPU:0; ask for one of them or start the session with more devices\n  built at: ")


# kernels decide what is feasible

HERE = ("/job:localhost/task:0/device:CPU:0", "/job:localhost/task:0/device:NPU:0")


@pytest.fixture
def kernels(monkeypatch):
    """add and exp have kernels on an NPU: exp for float32 alone."""
    for name, dtypes in (("add", None), ("exp", ["float32"])):
        monkeypatch.setitem(registry[name].kernels, "NPU", [])
        registry[name].kernel("npu", dtypes)(lambda *values: None)


def there(*fetches, **options) -> dict[str, str]:
    return place(prune(fetches[0].graph, fetches, [], {}), HERE, None, Policy(**options))


def test_an_operation_goes_where_it_has_a_kernel(kernels):
    x = wb.constant([1.0, 2.0])
    with wb.device("/device:NPU:0"):
        y = wb.exp(wb.add(x, x, name="sum"), name="y")
    found = there(wb.tanh(y, name="z"))
    assert found["sum"] == found["y"] == HERE[1] and found["z"] == HERE[0]


@pytest.mark.parametrize("dtype, missing", [("float32", None), ("float64", "float64")])
def test_a_missing_kernel_is_said_in_a_sentence(kernels, dtype, missing):
    with wb.device("/device:NPU:0"):
        y = (wb.exp if missing else wb.tanh)(wb.constant([1.0], dtype), name="y")
    with pytest.raises(errors.PlacementError) as error:
        there(y)
    assert text(error) == (
        f"place: 'y' asks for /device:NPU:0 but {y.op.type} (of 'y') has no NPU kernel for {dtype}; register one with "
        ".kernel('npu'), place it elsewhere, or use ConfigProto(allow_soft_placement=True)")
    assert there(y, soft=True)["y"] == HERE[0]


def test_colocation_needs_a_type_that_all_can_share(kernels):
    with wb.device("/device:NPU:0"):
        a = wb.exp(wb.constant([1.0]), name="a")
    one = wb.constant([1.0])
    with wb.colocate_with(a.op):
        b = wb.tanh(one, name="b")
    with pytest.raises(errors.PlacementError) as error:
        there(a, b)
    assert text(error) == ("place: 'a' asks for /device:NPU:0 but tanh (of 'b') has no NPU kernel for float32; register one "
                           "with .kernel('npu'), place it elsewhere, or use ConfigProto(allow_soft_placement=True)")
    found = there(a, b, soft=True)
    assert found["a"] == found["b"] == HERE[0]


def test_a_gradient_without_a_kernel_does_not_follow(kernels):
    x = wb.placeholder_with_default(wb.constant([1.0]), [1])
    with wb.device("/device:NPU:0"):
        y = wb.exp(x, name="y")
    slope, = wb.gradients(y, [x])
    found = there(y, slope)
    assert found["y"] == HERE[1] and found[slope.op.name] == HERE[0]


def test_a_type_that_is_not_there_is_made_up_for_softly():
    one = wb.constant([1.0])
    with wb.device("/job:worker/task:1/device:GPU:0"):
        y = wb.exp(one, name="y")
    with pytest.raises(errors.PlacementError, match="'y' asks for /job:worker/task:1/device:GPU:0 but there are only"):
        placed(y)
    program = prune(y.graph, [y], [], {})
    assert place(program, DEVICES, HOME, Policy(soft=True))["y"] == DEVICES[4], "on the task that it asked for"
    with wb.device("/job:nobody"):
        z = wb.exp(wb.constant([1.0]), name="z")
    with pytest.raises(errors.PlacementError, match="asks for /job:nobody but"):
        place(prune(z.graph, [z], [], {}), DEVICES, HOME, Policy(soft=True))


def test_where_operations_went_is_logged_when_asked_for(caplog):
    y = wb.exp(wb.constant([1.0], name="x"), name="y")
    there(y)
    assert caplog.text == ""
    there(y, log=True)
    assert [r.getMessage() for r in caplog.records] == [f"x: (constant): {HERE[0]}", f"y: (exp): {HERE[0]}"]


def test_sessions_place_as_their_config_says(caplog):
    zero = wb.constant([0.0])
    with wb.device("/gpu:0"):
        y = wb.exp(zero, name="y")
    with wb.Session() as s, pytest.raises(errors.PlacementError, match="'y' asks for /device:GPU:0"):
        s.run(y)
    with wb.Session(config=ConfigProto(allow_soft_placement=True, log_device_placement=True)) as s:
        assert s.run(y) == [1.0]
    assert any(r.getMessage().endswith(f": {HERE[0]}") for r in caplog.records)
