"""Programs as bytes: every registered operation comes back equal, damaged bytes give our error and nothing else."""
from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.flow_programs import PROGRAMS as FLOW
from tests.core.ops.test_ops import inputs_of
from tests.core.passes.programs import PROGRAMS
from tests.opcases import CASES
from workbench import errors
from workbench.core.graph.check import verify
from workbench.core.graph.program import Program
from workbench.core.graph.serial import dump, load
from workbench.core.graph.shape import Shape
from workbench.core.graph.text import to_text
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES, run_passes
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.filterwarnings("ignore:densify")


def comes_back(program: Program) -> Program:
    data = dump(program)
    found = load(data)
    verify(found, "load")
    assert to_text(found, device=True) == to_text(program, device=True)
    assert [t.name for t in found.feeds] == [t.name for t in program.feeds]
    for old, new in zip(program.graph.operations, found.graph.operations, strict=True):
        assert (new.name, new.device, new.colocation, new.source) == (old.name, old.device, old.colocation, old.source)
        assert [(t.dtype, t.shape) for t in new.outputs] == [(t.dtype, t.shape) for t in old.outputs]
        assert new.attrs.keys() == old.attrs.keys()
        for key, value in old.attrs.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(new.attrs[key], value)
                assert new.attrs[key].dtype == value.dtype
    assert dump(found) == data
    return found


@pytest.mark.parametrize("row", CASES, ids=str)
def test_every_operation_comes_back(row):
    with wb.Graph().as_default() as graph:
        tensors, feeds = inputs_of(row)
        outputs = [t for t in row.build(*tensors) if isinstance(t, wb.Tensor)]
        floats = [t for t in tensors if t.dtype.kind == "float"]
        sloped = [t for t in outputs if t.dtype.kind == "float"]
        slopes = wb.gradients(sloped, floats) if row.order and floats and sloped else []
        outputs += [g for g in slopes if isinstance(g, wb.Tensor)]
    comes_back(prune(graph, outputs, [], {t: Shape(v.shape) for t, v in feeds.items()}))


@pytest.mark.parametrize("name", FLOW)
def test_branches_and_loops_come_back(name):
    with wb.Graph().as_default() as graph:
        feeds, fetches, _ = FLOW[name]()
    comes_back(prune(graph, fetches, [], {t: Shape(np.shape(v)) for t, v in feeds.items()}))


def softmax() -> Program:
    with wb.Graph().as_default() as graph:
        fetches, feeds = PROGRAMS["softmax_regression"]()
    program = prune(graph, [fetches[0]], [fetches[1]], {t: Shape(s) for t, s in feeds.items()})
    return run_passes(run_passes(program), stages=DEVICE_PASSES)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_after_all_passes_come_back(name):
    with wb.Graph().as_default() as graph:
        fetches, feeds = PROGRAMS[name]()
    tensors = [f for f in fetches if isinstance(f, wb.Tensor)]
    targets = [f for f in fetches if not isinstance(f, wb.Tensor)]
    program = prune(graph, tensors, targets, {t: Shape(s) for t, s in feeds.items()})
    for stage in ((), PASSES, PASSES + DEVICE_PASSES):
        comes_back(run_passes(program, stages=stage))


GOOD = dump(softmax())


def refuses(data: bytes) -> None:
    """`data` is no program: our error. (Damage may also leave a program of other numbers.)"""
    try:
        load(data)
    except errors.Error as error:
        assert str(error)


@given(st.binary(max_size=300))
def test_garbage_is_refused_by_our_error(data):
    with pytest.raises(errors.Error):
        load(data)


@given(st.integers(0, len(GOOD) - 1))
def test_truncated_bytes_are_refused(length):
    with pytest.raises(errors.DataLossError):
        load(GOOD[:length])


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(1, 255)), min_size=1, max_size=8))
def test_flipped_bytes_give_no_other_error(flips):
    data = bytearray(GOOD)
    for place, change in flips:
        data[place] ^= change
    refuses(bytes(data))


anything = st.recursive(st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.binary(max_size=5),
                        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner,
                                                                                    max_size=3))


@given(st.sampled_from(["graph", "feeds", "fetches", "targets"]), anything)
def test_wrong_fields_give_no_other_error(field, value):
    raw = msgpack.unpackb(GOOD, strict_map_key=False)
    refuses(msgpack.packb({**raw, field: value}))


@given(st.integers(0, 8), anything)
def test_wrong_rows_give_no_other_error(column, value):
    raw = msgpack.unpackb(GOOD, strict_map_key=False)
    raw["graph"][4][column] = value
    refuses(msgpack.packb(raw))


def test_errors_say_what_was_there():
    with pytest.raises(errors.DataLossError) as error:
        load(b"")
    assert str(error.value).startswith("program: 0 bytes are not a workbench program (")
    with pytest.raises(errors.DataLossError) as error:
        load(msgpack.packb({"version": 99}))
    assert str(error.value) == "program: version 99 but 1 is needed; run one workbench version on all tasks"
    with pytest.raises(errors.DataLossError) as error:
        load(msgpack.packb([1]))
    assert str(error.value) == "program: version 'list' but 1 is needed; run one workbench version on all tasks"


def test_only_registered_operations_are_built():
    with pytest.raises(errors.UnimplementedError, match="'os_system', which this process has not; if it is your own, import "):
        load(msgpack.packb({"version": 1, "graph": [["os_system", "x", [], [], {}, "", [], "", []]], "feeds": [],
                            "fetches": [], "targets": []}))


def test_attributes_that_cannot_travel_are_named():
    with wb.Graph().as_default() as graph:
        x = wb.constant(1.0)
        x.op.attrs["value"] = {1, 2}
        with pytest.raises(errors.InvalidArgumentError) as error:
            dump(Program(graph, (), (x,)))
    assert str(error.value) == ("program: attribute value {1, 2} (set) cannot travel; use numbers, text, tuples, "
                                "arrays, dtypes or shapes")
