"""Kernels for CUDA devices, as far as no device is needed: what is registered and written, and what they start from."""
from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.kernels import load_device_kernels
from workbench.core.kernels.cuda import elementwise, plain, pool, rows, softmax, text, updates
from workbench.core.kernels.cuda.conv import problem_of
from workbench.core.kernels.cuda.cudnn import Problem
from workbench.core.ops.conv_windows import views

pytestmark = pytest.mark.once
load_device_kernels("GPU")
SERVED = sorted(name for name, definition in registry.items() if "GPU" in definition.kernels)
ALLOWED = frozenset(map(as_dtype, (*elementwise.ALL, "resource")))


# what is registered

def test_what_an_mlp_a_convnet_and_an_embedding_need_is_there():
    wanted = {"matmul", "bias_add", "bias_add_grad", "relu", "relu_grad", "conv2d", "conv2d_backprop_input",
              "conv2d_backprop_filter", "max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad", "softmax_xent",
              "sparse_softmax_xent", "reduce_mean",
              "resource_gather", "unsorted_segment_sum", "apply_gradient_descent", "apply_momentum", "apply_adam", "assign",
              "assign_add", "sparse_apply_gradient_descent", "sparse_apply_momentum", "sparse_apply_adam", "reshape", "cast"}
    assert wanted <= set(SERVED)


@pytest.mark.parametrize("name", SERVED)
def test_a_kernel_takes_what_the_operation_has_and_says_for_which_dtypes(name):
    definition = registry[name]
    for kernel in definition.kernels["GPU"]:
        given = [object()] * (len(definition.inputs) + (2 if definition.variadic else 0) + int(definition.context))
        inspect.signature(kernel.function).bind(*given, **dict.fromkeys(definition.attrs))
        assert kernel.dtypes is not None and kernel.dtypes <= ALLOWED, "no text, no complex numbers"
        assert not definition.blocking


def test_text_and_complex_numbers_have_no_kernel():
    for name, dtypes in (("add", ["complex64"] * 3), ("identity", ["string"] * 2), ("matmul", ["bfloat16"] * 3)):
        assert registry[name].kernel_for("GPU", [as_dtype(d) for d in dtypes]) is None, name
    assert registry["add"].kernel_for("GPU", [as_dtype("float32")] * 3) is not None


def test_registering_needs_no_cupy():
    program = ("import sys\nimport workbench\nfrom workbench.core.kernels import load_device_kernels\n"
               "load_device_kernels('GPU')\nprint('cupy' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "False", done.stderr


# what is written

@pytest.mark.parametrize("expression, number, written", [
    ("x + y", "float", "(a + b)"),
    ("1.5 * x if x > 0 else exp(-abs(y))", "double", "((a > (double)(0)) ? ((double)(1.5) * a) : exp((-fabs(b))))"),
    ("maximum(x, 0) ** y", "float", "pow(largest(a, (float)(0)), b)"), ("x == y", "int", "(a == b)")])
def test_expressions_become_cpp(expression, number, written):
    assert text.translated(expression, {"x": "a", "y": "b"}, number) == written


@pytest.mark.parametrize("expression", ["x.real", "z + 1", "x and y", "sorted(x)", "x // y", "x < y < 1", "'a'"])
def test_what_cannot_be_written_is_named(expression):
    with pytest.raises(errors.InvalidArgumentError, match=r"is not known on CUDA devices; write arithmetic"):
        text.translated(expression, {"x": "a", "y": "b"}, "float")


@pytest.mark.parametrize("name", sorted(elementwise.EXPRESSIONS))
def test_every_stated_expression_can_be_written(name):
    definition = registry[name]
    for dtype in elementwise.EXPRESSIONS[name]:
        dtypes = ["bool", dtype, dtype] if name == "select" else [dtype] * len(definition.inputs)
        assert elementwise.source(definition.elementwise, definition.inputs, dtypes, dtype).startswith("out0 = (")


def test_functions_and_expressions_are_of_operations_that_have_them():
    assert all(registry[name].ufunc is not None for name in elementwise.FUNCTIONS)
    assert all(registry[name].elementwise is not None for name in elementwise.EXPRESSIONS)
    assert all(registry[name].elementwise is None for name in elementwise.STATED)


@pytest.mark.parametrize("name, rule", updates.RULES.items())
def test_a_rule_of_an_optimizer_names_the_inputs_of_its_operation(name, rule):
    assert len(registry[name].inputs) == len(rule.states) + len(rule.inputs) and set(registry[name].attrs) == set(rule.options)
    assert registry[name].inputs[len(rule.states):] == rule.inputs
    assert all(f"new_{state} = " in rule.code for state in rule.states)
    assert rule.parameters.startswith("T w") and rule.parameters.count("raw T") == len(rule.inputs) - 1


def test_texts_of_kernels_have_their_types():
    assert softmax.source("d").startswith("typedef double T;") and "typedef float T;" in pool.source("float32")
    assert "(signed char)1 << 7" in pool.source("int8") and "#define LOWEST ((T)(0))" in pool.source("uint16")
    assert "unsigned long long total" in rows.source("max", "uint64") and "float total" in rows.source("sum", "float16")


# references that serve as they stand

class Protocol(NDArrayOperatorsMixin):
    """An array that answers NumPy's protocols and methods and nothing else, as CuPy's do."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)
        self.dtype, self.shape, self.ndim, self.size = self.value.dtype, self.value.shape, self.value.ndim, self.value.size

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("an array of the device was taken for one of the host")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __array__

    def __len__(self) -> int:
        return len(self.value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return Protocol(getattr(ufunc, method)(*map(_bare, inputs), **options))

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        return Protocol(function(*map(_bare, arguments), **options))

    def __getitem__(self, key: Any) -> Any:
        return Protocol(self.value[key])

    def reshape(self, *dims: Any) -> Any:
        return Protocol(self.value.reshape(*dims))

    def transpose(self, *axes: Any) -> Any:
        return Protocol(self.value.transpose(*axes))

    def swapaxes(self, *axes: Any) -> Any:
        return Protocol(self.value.swapaxes(*axes))

    def copy(self, order: str = "C") -> Any:
        return Protocol(self.value.copy(order))

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return Protocol(self.value.astype(dtype, copy=copy))


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Protocol) else [_bare(v) for v in value] if isinstance(value, list) else value


GIVEN: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "shape": ([np.ones((2, 3))], {"out_type": "int64"}), "size": ([np.ones((2, 3))], {}), "rank": ([np.ones((2, 3))], {}),
    "expand_dims": ([np.arange(6.0)], {"axis": 0}), "squeeze": ([np.ones((1, 3, 1))], {"axis": (0, 2)}),
    "row_block": ([np.arange(6.0)], {"first": 1, "count": 3}), "transpose": ([np.arange(6.0).reshape(2, 3)], {"perm": (1, 0)}),
    "reverse": ([np.arange(6.0).reshape(2, 3)], {"axis": (1,)}), "reshape": ([np.arange(6.0), np.array([2, -1])], {}),
    "placeholder_with_default": ([np.arange(6.0)], {"shape": None}),
    "broadcast_to": ([np.arange(3.0), np.array([2, 3])], {}), "diag": ([np.arange(3.0)], {}),
    "slice": ([np.arange(6.0).reshape(2, 3), np.array([0, 1]), np.array([2, -1])], {}),
    "diag_part": ([np.arange(9.0).reshape(3, 3)], {}),
    "matrix_transpose": ([np.arange(6.0).reshape(1, 2, 3)], {})}


@pytest.mark.parametrize("name", sorted(plain.PLAIN))
def test_a_reference_that_serves_as_it_stands_asks_nothing_else_of_its_arrays(name):
    definition, host = registry[name], plain.PLAIN[name][1]
    values, attrs = GIVEN.get(name, ([np.arange(6.0).reshape(2, 3)], {}))
    there = [value if key in host else Protocol(value) for key, value in zip(definition.inputs, values)]
    found, wanted = definition.reference(*there, **attrs), definition.reference(*values, **attrs)
    assert isinstance(found, Protocol) or name in ("shape", "size", "rank")
    assert np.asarray(_bare(found)).dtype == wanted.dtype
    np.testing.assert_array_equal(_bare(found), wanted)


# the numbers that kernels start from

def options(padding: Any, strides: tuple[int, int] = (1, 1), data_format: str = "NHWC") -> dict[str, Any]:
    return {"strides": strides, "padding": padding, "data_format": data_format, "dilations": (1, 1)}


def test_a_convolution_is_described_for_cudnn():
    same = problem_of("float32", (8, 28, 27, 3), (5, 3, 3, 4), options("SAME"))
    assert same == (Problem("float32", True, (8, 3, 28, 27), (4, 3, 5, 3), (8, 4, 28, 27), (2, 1), (1, 1), (1, 1)), None)
    first = problem_of("float64", (8, 3, 28, 27), (5, 3, 3, 4), options("VALID", (2, 1), "NCHW"))
    assert first == (Problem("float64", False, (8, 3, 28, 27), (4, 3, 5, 3), (8, 4, 12, 25), (0, 0), (2, 1), (1, 1)), None)


def test_zeros_that_cudnn_cannot_add_alike_on_both_sides_stand_around_the_images():
    problem, around = problem_of("float32", (8, 28, 28, 3), (3, 3, 3, 4), options("SAME", (2, 2)))
    assert around == (0, 1, 0, 1) and problem.images == (8, 3, 29, 29) and problem.padding == (0, 0)
    assert problem.outputs == (8, 4, 14, 14)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("padding, strides", [("SAME", (2, 1)), ("VALID", (1, 2)), (((1, 0), (2, 1)), (2, 2))])
def test_the_geometry_of_windows_finds_every_element(data_format, padding, strides):
    """The places that a kernel computes from it are those of the reference's windows."""
    shape = (2, 5, 6, 3) if data_format == "NHWC" else (2, 3, 5, 6)
    x, attrs = np.arange(1.0, 181.0).reshape(shape), options(padding, strides, data_format)
    made, pooled, count, outputs = pool.geometry(shape, (2, 3), attrs)
    h, w, c, oh, ow, sn, sh, sw, sc, tn, th, tw, tc, kh, kw, dh, dw, top, left = made
    last = x if data_format == "NHWC" else x.transpose(0, 2, 3, 1)
    windows, flat, out = views(last, (2, 3), attrs), x.reshape(-1), np.zeros(outputs)
    for n, y, z, k in np.ndindex(2, oh, ow, c):
        inside = [flat[n * sn + a * sh + b * sw + k * sc] for a in range(max(0, y * dh - top), min(y * dh - top + kh, h))
                  for b in range(max(0, z * dw - left), min(z * dw - left + kw, w))]
        assert inside == [v for v in windows[n, y, z, :, :, k].reshape(-1) if v]
        out[n * tn + y * th + z * tw + k * tc] += 1
    assert (out == 1).all() and int(np.prod(pooled)) == outputs and count == x.size


def test_every_kernel_module_says_what_it_serves():
    """No operation is registered from two families by accident: a later one would hide the earlier for the same dtypes."""
    for name in SERVED:
        kernels = registry[name].kernels["GPU"]
        for number, later in enumerate(kernels):
            assert not any(earlier.dtypes <= later.dtypes for earlier in kernels[number + 1:]), name
