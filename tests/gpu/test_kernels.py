"""Every kernel for CUDA devices against the reference kernel: values, dtype and shape exact, in all rows of opcases.py."""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.core.ops.test_ops import inputs_of
from tests.evaluate import _begun, _kernel
from tests.opcases import CASES, Case
from workbench import errors
from workbench.core.device.cuda import CudaDevice
from workbench.core.grad import gradients
from workbench.core.graph.build import IndexedSlices, ops
from workbench.core.graph.graph import Operation
from workbench.core.graph.opdef import registry
from workbench.core.kernels import load_device_kernels
from workbench.core.state.container import Container, Context

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:densify"), pytest.mark.usefixtures("graph")]
NAME = "/job:localhost/task:0/device:GPU:0"
TOLERANCES = {np.float64: 1e-9, np.float32: 2e-5, np.float16: 4e-3}
DRAWN = {"random_uniform", "random_normal", "truncated_normal"}


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    load_device_kernels("GPU")
    made = CudaDevice(NAME)
    yield made


def compared(op: Operation, device: CudaDevice, values: list[Any], uploaded: bool, tolerance: float) -> bool:
    """Runs the kernel for the device beside the reference; False where there is none for these dtypes."""
    kernel = op.definition.kernel_for("GPU", op.dtypes)
    if kernel is None or any(not isinstance(value, np.ndarray) for value in values):
        return False
    contexts = [Context(Container(), node=op.name) for _ in range(2)] if op.definition.context else [None, None]
    with np.errstate(all="ignore"):
        wanted = functools.partial(op.definition.reference, *contexts[:1] if op.definition.context else ())(*values, **op.attrs)
        given = [device.upload(v) if uploaded else device.copy_in(v) for v in values]
        found = device.issue(functools.partial(kernel, *contexts[1:] if op.definition.context else (), **op.attrs), *given)
    for before, after in zip(values, given):
        np.testing.assert_array_equal(device.copy_out(after), before, err_msg=f"{op.kind} changed what it was given")
    wanted = [np.asarray(v) for v in (wanted if isinstance(wanted, (tuple, list)) else [wanted])]
    found = [device.copy_out(v) for v in (found if isinstance(found, (tuple, list)) else [found])]
    assert len(found) == len(wanted)
    for value, right in zip(found, wanted):
        assert (value.dtype, value.shape) == (right.dtype, right.shape), op.kind
        exact = right.dtype.kind not in "f"
        np.testing.assert_allclose(value, right, rtol=0 if exact else tolerance, atol=0 if exact else tolerance * 0.1 * max(
            1.0, float(np.max(np.abs(right[np.isfinite(right)]), initial=0))), err_msg=op.kind)
    return True


def everything(row: Case, dtype: Any, order: int = 2) -> tuple[list[Any], dict[Any, Any]]:
    """The row's outputs and the gradients of what can be differentiated."""
    tensors, feeds = inputs_of(row, dtype)
    outputs = row.build(*tensors)
    wrt = [t for t in tensors if t.dtype.is_differentiable]
    ends = [t for t in outputs if t.dtype.is_differentiable]
    found = list(outputs)
    for _ in range(min(order, row.order)):
        if not wrt or not ends:
            break
        slopes = [ops.densify(s) if isinstance(s, IndexedSlices) else s for s in gradients(ends, wrt) if s is not None]
        found += slopes
        ends = [ops.square(s) for s in slopes]
    return found, feeds


@pytest.mark.parametrize("uploaded", [False, True], ids=["placed", "uploaded"])
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("row", CASES, ids=str)
def test_every_kernel_gives_what_the_reference_gives(row: Case, dtype: Any, uploaded: bool, device: CudaDevice) -> None:
    if dtype is np.float16 and not row.small:
        dtype = np.float32
    fetches, feeds = everything(row, dtype)
    values, order = _begun(fetches, feeds)
    state = Container()
    for op in order:
        given = [values[t] for t in op.inputs]
        compared(op, device, given, uploaded, TOLERANCES[dtype])
        with np.errstate(all="ignore"):
            result = _kernel(op, state)(*given)
        for tensor, value in zip(op.outputs, result if isinstance(result, (tuple, list)) else [result]):
            values[tensor] = np.asarray(value) if not isinstance(value, (list, tuple)) and tensor.dtype.name not in (
                "resource", "variant") else value


def test_every_kernel_is_met_by_a_row_or_by_a_test_of_variables(device: CudaDevice) -> None:
    met: set[str] = set()
    for row in CASES:
        fetches, feeds = everything(row, np.float32)
        met.update(op.kind for op in _begun(fetches, feeds)[1])
    handled = {name for name, d in registry.items() if isinstance(d.types, str) and "resource" in d.types}
    assert {name for name, d in registry.items() if "GPU" in d.kernels} - handled - met - DRAWN == set()


LAYERS = [((2, 9, 8, 3), (3, 3, 3, 4), 1, "SAME", 1), ((2, 9, 8, 3), (3, 2, 3, 4), 2, "SAME", 1),
          ((1, 28, 28, 1), (5, 5, 1, 32), 1, "SAME", 1), ((2, 14, 14, 32), (5, 5, 32, 16), 1, "VALID", 1),
          ((2, 12, 11, 3), (3, 3, 3, 5), 1, "VALID", 2),
          ((2, 9, 8, 3), (1, 1, 3, 7), 2, "VALID", 1), ((2, 9, 8, 3), (4, 3, 3, 4), (2, 1), ((1, 2), (0, 3)), 1)]


@pytest.mark.parametrize("library", ["cuDNN", "patches"])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("images, filter, strides, padding, dilations", LAYERS, ids=str)
def test_convolutions(images, filter, strides, padding, dilations, data_format, library, device, monkeypatch):
    from workbench.core.kernels.cuda import cudnn
    if library == "patches":
        monkeypatch.setattr(cudnn, "available", lambda: False)
    else:
        assert cudnn.available()
    rng = np.random.default_rng(0)
    given = rng.standard_normal(images).astype(np.float32)
    given = np.ascontiguousarray(given.transpose(0, 3, 1, 2)) if data_format == "NCHW" else given
    x, f = ops.placeholder("float32", given.shape), ops.placeholder("float32", filter)
    y = ops.conv2d(x, f, strides, padding, data_format=data_format, dilations=dilations)
    slopes = gradients(ops.square(y), [x, f])
    values, order = _begun([y, *slopes], {x: given, f: rng.standard_normal(filter)})
    for op in order:
        inputs = [values[t] for t in op.inputs]
        assert compared(op, device, inputs, True, 2e-5) or op.definition.kernel_for("GPU", op.dtypes) is None
        result = _kernel(op, Container())(*inputs)
        values.update(zip(op.outputs, result if isinstance(result, (tuple, list)) else [result]))


def test_sums_of_rows_have_one_order(device: CudaDevice) -> None:
    """The same bits in every run, though a hundred rows share a segment."""
    rng = np.random.default_rng(0)
    rows, ids = rng.standard_normal((5000, 7)).astype(np.float32), rng.integers(0, 50, 5000).astype(np.int32)
    kernel = registry["unsorted_segment_sum"].kernel_for("GPU", [])
    found = [device.copy_out(device.issue(kernel, device.copy_in(rows), device.upload(ids), np.int32(50))) for _ in range(3)]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


@pytest.mark.parametrize("kind, given, text", [
    ("gather", (np.ones((3, 2), np.float32), np.array([0, 5], np.int32)), r"gather: indices\[1\] = 5 is not in \[0, 3\)"),
    ("sparse_softmax_xent", (np.ones((2, 3), np.float32), np.array([0, -1])), r"Received a label value of -1"),
    ("floordiv", (np.array([1, 2]), np.array([1, 0])), "integer division by zero"),
    ("check_numerics", (np.array([1, np.nan], np.float32),), "Tensor had NaN values"),
    ("unsorted_segment_sum", (np.ones((2, 2), np.float32), np.array([0, 9]), np.array(3)), "out of range")])
@pytest.mark.parametrize("uploaded", [False, True], ids=["placed", "uploaded"])
def test_values_that_are_refused(kind, given, text, uploaded, device):
    definition = registry[kind]
    kernel = functools.partial(definition.kernel_for("GPU", []), **{key: value for key, value in {
        **definition.attrs, **({"axis": 0} if kind == "gather" else {})}.items()})
    values = [device.upload(v) if uploaded else device.copy_in(v) for v in given]
    with pytest.raises(errors.InvalidArgumentError, match=text):
        device.issue(kernel, *values)
