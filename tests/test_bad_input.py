"""What is done wrong -> the error and its whole text; the session and its variables stay usable after each.

Truncated data files: tests/io/test_idx.py. Corrupt checkpoints: tests/core/state/test_checkpoint.py. Garbage at the data
port, killed and stopped processes: tests/cluster/test_failure.py. Misuse of cond and while_loop:
tests/core/ops/test_flow_errors.py.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.control_c import control_c
from workbench import errors
from workbench.core.device.interface import missing
from workbench.settings import Settings
from workbench.train.config import ConfigProto, RunMetadata, RunOptions

Action = Callable[[SimpleNamespace], Any]
NO_GPU = f" (GPU: {lacking})" if (lacking := missing("GPU")) else ""
PLACES = "\n  operation: {op}\n  inputs: {inputs}\n  built at: HERE"


def furnished(session: Callable[[], wb.Session]) -> SimpleNamespace:
    """Placeholders x [?,3], n, any and a variable v [3,2] in the default graph; a session in which v is all ones."""
    w = SimpleNamespace()
    w.x, w.n = wb.placeholder("float32", [None, 3], name="x"), wb.placeholder("int32", [], name="n")
    w.any = wb.placeholder("float32", None, name="any")
    w.v = wb.Variable(np.ones((3, 2), np.float32), name="v")
    w.add = wb.assign_add(w.v, np.ones((3, 2), np.float32))
    w.blank = wb.Variable(np.zeros(2, np.float32), name="blank")
    with wb.Graph().as_default():
        w.foreign = wb.constant(1.0, name="foreign")
    w.session = session()
    w.run = w.session.run
    w.run(w.v.initializer)
    return w


@pytest.fixture(params=[1, 2], ids=["one device", "two devices"])
def world(request) -> Iterator[SimpleNamespace]:
    with wb.Graph().as_default():
        w = furnished(lambda: wb.Session(devices=request.param))
        w.devices = request.param
        yield w
        w.session.close()


def far(device: str) -> Action:
    def action(w: SimpleNamespace) -> Any:
        with wb.device(device):
            y = wb.identity(w.x, name="far")
        return w.run(y, {w.x: np.ones((1, 3))})
    return action


def together(w: SimpleNamespace) -> Any:
    with wb.device("/cpu:0"):
        a = wb.multiply(w.x, 2.0, name="a")
    with wb.device("/cpu:1"), wb.colocate_with(a.op):
        b = wb.identity(a, name="b")
    return w.run(b, {w.x: np.ones((1, 3))})


CPUS = {1: "/job:localhost/task:0/device:CPU:0",
        2: "/job:localhost/task:0/device:CPU:0, /job:localhost/task:0/device:CPU:1"}

TABLE: dict[str, tuple[Action, type[errors.Error], str]] = {
    "shapes that do not fit at construction": (
        lambda w: wb.matmul(w.x, wb.zeros([4, 5], name="z"), name="product"), errors.ShapeError,
        "matmul: a axis 1 is 3 but b axis 0 is 4; both are 'k' in 'a[m,k] b[k,n] -> [m,n]' "
        "(Dimensions must be equal, but are 3 and 4)"
        + PLACES.format(op="'product'", inputs="x:0 float32[?,3], z:0 float32[4,5]")),
    "dtypes that do not fit at construction": (
        lambda w: wb.add(w.x, w.n, name="sum"), errors.DtypeError,
        "add: x is float32 but y is int32; both must have one dtype: cast one of them"
        + PLACES.format(op="'sum'", inputs="x:0 float32[?,3], n:0 int32[]")),
    "ragged constant": (
        lambda w: wb.constant([[1], [2, 3]]), errors.ShapeError,
        "constant: [[1], [2, 3]] has rows of different lengths; pass numbers of one rectangular shape (setting an array "
        "element with a sequence: it must be a dense array)"),
    "a name that is none": (
        lambda w: wb.constant(1.0, name="a b"), errors.InvalidArgumentError,
        "graph: 'a b' is not an operation name; use letters, digits, _ . - /"),
    "an operation that does not exist": (
        lambda w: wb.ops.matmull, errors.UnimplementedError,
        "ops.matmull: no such operation; did you mean matmul, matmul_add, fused_matmul?"),
    "tensors of two graphs in one operation": (
        lambda w: w.x + w.foreign, errors.InvalidArgumentError,
        "graph: foreign:0 belongs to another graph; build both operations in one graph (with graph.as_default())"),
    "a tensor as a condition": (
        lambda w: 1 if w.n else 0, errors.DtypeError,
        "bool: <Tensor n:0 int32[]> has no value while the graph is built; use cond / logical_and, or Session.run it "
        "first"),
    "unfed placeholder": (
        lambda w: w.run(w.x * 2.0), errors.InvalidArgumentError,
        "placeholder 'x': it has no value (float32[?,3]); pass feed_dict={…: value} for it (You must feed a value for "
        "placeholder tensor 'x' with dtype float)\n  built at: HERE"),
    "unfed placeholder that is fetched": (
        lambda w: w.run([w.n]), errors.InvalidArgumentError,
        "placeholder 'n': it has no value (int32[]); pass feed_dict={…: value} for it (You must feed a value for placeholder "
        "tensor 'n' with dtype int32 and shape [])\n  built at: HERE"),
    "feed of a wrong shape": (
        lambda w: w.run(w.x, {w.x: [[1.0, 2.0]]}), errors.ShapeError,
        "feed of 'x:0': Cannot feed value of shape [1, 2], its shape is [?,3]; reshape the value or relax the "
        "placeholder's shape\n  built at: HERE"),
    "feed of a wrong rank": (
        lambda w: w.run(w.x, {w.x: 1.0}), errors.ShapeError,
        "feed of 'x:0': Cannot feed value of shape [], its shape is [?,3]; reshape the value or relax the "
        "placeholder's shape\n  built at: HERE"),
    "feed of a wrong dtype": (
        lambda w: w.run(w.n + 1, {w.n: 1j}), errors.DtypeError,
        "feed of 'n:0': 1j is complex128 but int32 was wanted; cast it, or pass int32 values (its type is not compatible with "
        "Tensor type int32)"),
    "feed that does not fit the type": (
        lambda w: w.run(w.n + 1, {w.n: 2**40}), errors.DtypeError,
        "feed of 'n:0': 1099511627776 does not fit int32 (-2147483648 … 2147483647); use a wider type (its type is not "
        "compatible with Tensor type int32)"),
    "feed of a ragged list": (
        lambda w: w.run(w.any, {w.any: [[1], [2, 3]]}), errors.ShapeError,
        "feed of 'any:0': [[1], [2, 3]] has rows of different lengths; pass numbers of one rectangular shape (setting an array "
        "element with a sequence: it must be a dense array)"),
    "feed of a tensor": (
        lambda w: w.run(w.n + 1, {w.n: wb.constant(1)}), errors.DtypeError,
        "feed of 'n:0': the value cannot be a tf.Tensor object; feed an array, or Session.run the tensor first"),
    "feed of an operation": (
        lambda w: w.run(w.n, {w.n.op: 1}), errors.DtypeError,
        "feed: 'n' is an operation (Cannot interpret feed_dict key as Tensor); feed one of its tensors, such as 'n:0'"),
    "feed of a foreign tensor": (
        lambda w: w.run(w.n, {w.foreign: 1.0}), errors.InvalidArgumentError,
        "feed: foreign:0 belongs to another graph; build it in this session's graph (with graph.as_default()) or use "
        "that graph's session"),
    "one tensor fed twice": (
        lambda w: w.run(w.n, {w.n: 1, "n:0": 2}), errors.InvalidArgumentError,
        "feed of 'n:0': it is fed 2 times, as tensor and by name; feed it once"),
    "feeds that are no dict": (
        lambda w: w.run(w.n, [w.n, 1]), errors.InvalidArgumentError,
        "feed_dict: it is a list; pass a dict from tensors to values"),
    "fetch of a foreign tensor": (
        lambda w: w.run(w.foreign), errors.InvalidArgumentError,
        "fetch: foreign:0 belongs to another graph; build it in this session's graph (with graph.as_default()) or use "
        "that graph's session"),
    "fetch of None": (
        lambda w: w.run([w.v, None]), errors.DtypeError,
        "fetch: None has invalid type: it is not a tensor; a gradient is None where no path leads from x to y: leave it out"),
    "fetch of a number": (
        lambda w: w.run(3), errors.DtypeError,
        "fetch: 3 is a int, not a tensor or operation; pass one, or a name"),
    "fetch of an array": (
        lambda w: w.run(np.ones(2)), errors.InvalidArgumentError,
        "fetch: array([1., 1.]) is a ndarray; pass tensors, operations, names or (nested) lists, tuples and dicts of "
        "them"),
    "fetch of an output that is none": (
        lambda w: w.run("x:3"), errors.InvalidArgumentError,
        "graph: no tensor 'x:3'; 'x' has 1 outputs, write 'name:index' (the name 'x:3' refers to an Operation not in the "
        "graph)"),
    "uninitialised variable": (
        lambda w: w.run(w.blank), errors.FailedPreconditionError,
        "variable 'blank': Attempting to use uninitialized value blank: it was never initialised; run "
        "global_variables_initializer() or restore a checkpoint first"
        + PLACES.format(op="'blank/read'", inputs="blank:0 resource[]")),
    "update of an uninitialised variable": (
        lambda w: w.run(wb.assign_add(w.blank, wb.constant([1.0, 2.0], name="c"), name="more")),
        errors.FailedPreconditionError,
        "variable 'blank': Attempting to use uninitialized value blank: it was never initialised; run "
        "global_variables_initializer() or restore a checkpoint first"
        + PLACES.format(op="'more'", inputs="blank:0 resource[], c:0 float32[2]")),
    "infeasible device": (
        far("/gpu:3"), errors.PlacementError,
        "place: 'far' asks for /device:GPU:3 but there are only {cpus}; ask for one of them or start the session with "
        f"more devices, or with ConfigProto(allow_soft_placement=True){NO_GPU}\n  built at: HERE"),
    "infeasible job": (
        far("/job:ps/task:1"), errors.PlacementError,
        "place: 'far' asks for /job:ps/task:1 but there are only {cpus}; ask for one of them or start the session with "
        "more devices\n  built at: HERE"),
    "a device that is none": (
        far("/foo:bar"), errors.InvalidArgumentError,
        "device: '/foo:bar' has the part 'foo:bar'; write names like '/job:worker/task:1/device:CPU:0', '/job:ps' or "
        "'/gpu:0' (Unknown attribute: 'foo')"),
    "colocation against a request": (
        together, errors.PlacementError,
        "place: 'a' must be with 'b' (colocate_with) but asks for /device:CPU:0 (from 'a') while /device:CPU:1 is "
        "asked by 'b'; make the index equal\n  built at: HERE"),
    "index out of range": (
        lambda w: w.run(wb.gather(wb.constant([1.0, 2.0], name="c"), w.n, name="pick"), {w.n: 5}),
        errors.InvalidArgumentError,
        "gather: indices = 5 is not in [0, 2), since the axis has 2 elements; use 0 … 1"
        + PLACES.format(op="'pick'", inputs="c:0 float32[2], n:0 int32[]")),
    "index out of range among constants": (
        lambda w: w.run(wb.gather(wb.constant([1.0, 2.0], name="c"), wb.constant(5, name="i"), name="pick")),
        errors.InvalidArgumentError,
        "gather: indices = 5 is not in [0, 2), since the axis has 2 elements; use 0 … 1"
        + PLACES.format(op="'pick'", inputs="c:0 float32[2], i:0 int32[]")),
    "integer division by zero": (
        lambda w: w.run(wb.floordiv(w.n, w.n, name="ratio"), {w.n: 0}), errors.InvalidArgumentError,
        "floordiv: integer division by zero in y of shape []; replace the zeros, or divide floats"
        + PLACES.format(op="'ratio'", inputs="n:0 int32[], n:0 int32[]")),
    "shapes that do not fit at run time": (
        lambda w: w.run(wb.matmul(w.any, w.v, name="product"), {w.any: np.ones((2, 5))}), errors.ShapeError,
        "matmul: a axis 1 is 5 but b axis 0 is 3; both are 'k' in 'a[m,k] b[k,n] -> [m,n]' "
        "(Dimensions must be equal, but are 5 and 3)"
        + PLACES.format(op="'product'", inputs="any:0 float32[2,5], v/read_1:0 float32[3,2]")),
    "NaN where none is allowed": (
        lambda w: w.run(wb.check_numerics(w.any, message="loss", name="guard"), {w.any: [1.0, np.nan]}),
        errors.InvalidArgumentError,
        "check_numerics: loss : Tensor had NaN values: 1 of 2 elements; find the first operation that makes one"
        + PLACES.format(op="'guard'", inputs="any:0 float32[2]")),
    "more memory than there is": (
        lambda w: w.run(wb.reduce_sum(wb.fill([w.n, w.n], wb.constant(1.0, name="one"), name="huge")), {w.n: 2**30}),
        errors.ResourceExhaustedError,
        "fill: Unable to allocate 4.00 EiB for an array with shape (1073741824, 1073741824) and data type float32 "
        "on /job:localhost/task:0/device:CPU:0; make the tensor smaller, or give its machine more memory"
        + PLACES.format(op="'huge'", inputs="stack:0 int32[2], one:0 float32[]")),
    "no cluster": (
        lambda w: wb.Session("grpc://localhost:1"), errors.NotFoundError,
        "Session: target 'grpc://localhost:1' is not a cluster (No session factory registered for the given session options); "
        "pass wb.Cluster(…), a server's target or nothing"),
    "a target that is none": (
        lambda w: wb.Session(37), errors.DtypeError,
        "Session: 37 is not a cluster and target must be a string; pass wb.Cluster(…) or nothing"),
    "a graph that is none": (
        lambda w: wb.Session(graph=37), errors.DtypeError, "Session: graph must be a tf.Graph, but it is 37"),
    "options that are none": (
        lambda w: wb.Session(config=37), errors.DtypeError, "Session: config must be a tf.ConfigProto, but it is 37"),
    "a step of an empty graph": (
        lambda w: wb.Session(graph=wb.Graph()).run([]), errors.FailedPreconditionError,
        "Session.run: The Session graph is empty. Add operations to the graph first"),
    "a scope of a name that is none": (
        lambda w: wb.get_default_graph().name_scope("a:0"), errors.InvalidArgumentError,
        "graph: 'a:0' is not an operation name; use letters, digits, _ . - /"),
}


def normal(error: BaseException) -> str:
    """The text with the place of this file in place of its line."""
    return re.sub(re.escape(__file__) + r":\d+", "HERE", str(error))


@pytest.mark.parametrize("what", TABLE)
def test_error_says_where_what_and_the_fix_and_nothing_is_lost(world, what):
    action, kind, text = TABLE[what]
    with pytest.raises(kind) as error:
        action(world)
    assert type(error.value) is kind
    assert normal(error.value) == text.replace("{cpus}", CPUS[world.devices])
    np.testing.assert_array_equal(world.run(world.v), np.ones((3, 2)))
    world.run(world.add)
    np.testing.assert_array_equal(world.run(world.v), np.full((3, 2), 2.0))


def test_a_closed_session(world):
    world.session.close()
    with pytest.raises(errors.FailedPreconditionError) as error:
        world.run(world.v)
    assert str(error.value) == "Session.run: the session is closed (Attempted to use a closed Session.); make a new one"


def test_a_loop_that_never_ends_is_stopped_by_control_c(world):
    limit = wb.placeholder("float32", [])
    loop = wb.while_loop(lambda i: i < limit, lambda i: i + 1.0, [wb.constant(0.0)])
    assert world.run(loop, {limit: 3.0}) == 3.0
    with pytest.raises(KeyboardInterrupt), control_c():
        world.run(loop, {limit: np.inf})
    np.testing.assert_array_equal(world.run(world.v), np.ones((3, 2)))


def test_a_failed_step_changes_no_variable_after_the_failure(world):
    """The update waits for the operation that fails."""
    with wb.control_dependencies([wb.check_numerics(world.any, message="gradient")]):
        update = wb.assign_add(world.v, np.ones((3, 2), np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="gradient : Tensor had Inf values: 1 of 1 elements"):
        world.run(update, {world.any: [np.inf]})
    np.testing.assert_array_equal(world.run(world.v), np.ones((3, 2)))
    np.testing.assert_array_equal(world.run(update, {world.any: [1.0]}), np.full((3, 2), 2.0))


def test_a_session_without_devices():
    with pytest.raises(errors.InvalidArgumentError) as error:
        wb.Session(devices=0)
    assert str(error.value) == "Session: devices is 0 but a step needs one; ask for 1 or more"


@pytest.mark.parametrize(("given", "text"), [
    ({"devices": "two"}, "Session: the number of CPU devices is 'two' but must be an integer; pass one, as in devices=2"),
    ({"devices": 2.0}, "Session: the number of CPU devices is 2.0 but must be an integer; pass one, as in devices=2"),
    ({"config": ConfigProto(device_count={"CPU": "all"})},
     "Session: the number of CPU devices is 'all' but must be an integer; pass one, as in devices=2"),
    ({"kernels": "onednn"}, "Session: kernels is 'onednn' but must be KernelOptions; pass "
                            "KernelOptions(libraries=(…)) or leave it out"),
    ({"kernels": 3}, "Session: kernels is 3 but must be KernelOptions; pass KernelOptions(libraries=(…)) or leave it out")])
def test_a_session_with_options_of_another_kind(given, text):
    with pytest.raises(errors.DtypeError) as error:
        wb.Session(graph=wb.Graph(), **given)
    assert str(error.value) == text


@pytest.mark.parametrize(("given", "text"), [
    ({"options": 3}, "Session.run: options must be RunOptions, but it is 3"),
    ({"options": RunMetadata()}, "Session.run: options must be RunOptions, but it is RunMetadata"),
    ({"run_metadata": {}}, "Session.run: run_metadata must be RunMetadata, but it is {}"),
    ({"run_metadata": RunOptions()}, "Session.run: run_metadata must be RunMetadata, but it is RunOptions")])
def test_a_step_with_options_of_another_kind_does_not_run(world, given, text):
    with pytest.raises(errors.DtypeError) as error:
        world.run(world.add, **given)
    assert str(error.value).startswith(text)
    np.testing.assert_array_equal(world.run(world.v), np.ones((3, 2)))


@pytest.mark.parametrize("name", ["WB_THREADS", "WB_TRACE_CAPACITY"])
def test_a_setting_that_is_no_number(monkeypatch, name):
    monkeypatch.setenv(name, "two")
    with pytest.raises(errors.InvalidArgumentError) as error:
        Settings.from_environment()
    assert str(error.value) == f"{name}: 'two' is not a whole number; set 0, 1, 2, … or leave it out"


@pytest.mark.parametrize("name", ["WB_CACHE", "WB_SWAP", "WORKBENCH_DATA"])
def test_a_folder_of_a_home_that_is_not_known(monkeypatch, name):
    monkeypatch.setenv(name, "~nobody-has-this-name/x")
    with pytest.raises(errors.InvalidArgumentError) as error:
        Settings.from_environment()
    assert str(error.value) == f"{name}: '~nobody-has-this-name/x' is below a home folder that is not known; set a whole path"
