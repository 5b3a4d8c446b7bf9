"""NaN and infinities come through every oneDNN kernel as through the reference kernel of the operation."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.core.kernels.test_onednn import Value, apply, plain, to_array
from workbench.core.graph.build import ops  # noqa: F401  (defines the operations)
from workbench.core.graph.opdef import registry
from workbench.core.kernels import onednn_winograd
from workbench.core.kernels.choice import LASTING, selectors

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One served operation: attributes, input shapes, output shape; `spoiled` are the inputs that get a special value."""

    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Shape, ...]
    output: Shape
    spoiled: tuple[int, ...] = ()
    label: str = ""
    nothing: tuple[int, ...] = field(default=())
    """Inputs of which the reference wants the value that the operation implies (y of a pooling)."""
    last: Shape | None = None
    """The last input, where that is a shape."""

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


def convolutions(image: Shape, kernel: Shape, output: Shape, label: str, **more: Any) -> Iterator[Case]:
    """All directions of one convolution. Whether a tap in the padding multiplies is the kernel's affair: filters are
    spoiled only where there is no padding."""
    attributes = {"strides": (1, 1), "dilations": (1, 1), "data_format": "NHWC", **more}
    every = attributes["padding"] == "VALID"
    yield Case("conv2d", attributes, (image, kernel), output, (0, 1) if every else (0,), label)
    for activation in ("none", "relu"):
        yield Case("fused_conv2d", {**attributes, "activation": activation}, (image, kernel, kernel[-1:]), output,
                   (0, 1, 2) if every else (0, 2), f"{label}-{activation}")
    yield Case("conv2d_backprop_input", {**attributes, "input_shape": image}, (kernel, output), image,
               (0, 1) if every else (1,), label)
    yield Case("conv2d_backprop_filter", {**attributes, "filter_shape": kernel}, (image, output), kernel,
               (0, 1) if every else (), label)


def directions(family: str, image: Shape, kernel: Shape, output: Shape) -> Iterator[Case]:
    """All three of a convolution without padding."""
    axes = len(image) - 2
    attributes = {"strides": (1,) * axes, "dilations": (1,) * axes, "padding": "VALID"}
    label = f"{kernel}"
    yield Case(family, attributes, (image, kernel), output, (0, 1), label)
    yield Case(f"{family}_back", attributes, (kernel, output), image, (0, 1), label, last=image)
    yield Case(f"{family}_filters", attributes, (image, output), kernel, (0, 1), label, last=kernel)


def products() -> Iterator[Case]:
    for rows, depth, columns in ((3, 5, 7), (128, 784, 64), (300, 64, 130), (16, 2100, 1030), (784, 100, 10)):
        label = f"{rows}x{depth}x{columns}"
        for turn_a, turn_b in ((False, False), (False, True), (True, False)):
            a = (depth, rows) if turn_a else (rows, depth)
            b = (columns, depth) if turn_b else (depth, columns)
            turns = {"transpose_a": turn_a, "transpose_b": turn_b}
            turned = f"{label}-{'T' if turn_a else 'N'}{'T' if turn_b else 'N'}"
            yield Case("matmul", turns, (a, b), (rows, columns), (0, 1), turned)
            yield Case("matmul_update", {**turns, "sign": -1.0}, ((rows, columns), a, b, ()), (rows, columns),
                       (0, 1, 2, 3), turned)
            yield Case("matmul_add", turns, (a, b, (rows, columns)), (rows, columns), (0, 1, 2), turned)
            for activation in ("none", "relu"):
                yield Case("fused_matmul", {**turns, "activation": activation}, (a, b, (columns,)), (rows, columns),
                           (0, 1, 2), f"{turned}-{activation}")


def poolings() -> Iterator[Case]:
    for image, size, strides, output in (((2, 8, 8, 3), 2, 2, (2, 4, 4, 3)), ((2, 13, 12, 20), 3, 2, (2, 6, 5, 20))):
        attributes = {"ksize": (size, size), "strides": (strides, strides), "padding": "VALID", "data_format": "NHWC"}
        yield Case("max_pool", attributes, (image,), output, (0,), f"{size}")
        yield Case("max_pool_grad", attributes, (image, output, output), image, (0, 2), f"{size}", (1,))
        yield Case("avg_pool", attributes, (image,), output, (0,), f"{size}")
        yield Case("avg_pool_grad", {**attributes, "input_shape": image}, (output,), image, (0,), f"{size}")


def elementwise() -> Iterator[Case]:
    for shape in ((7,), (3, 50), (2, 9, 9, 33)):
        yield Case("relu", {}, (shape,), shape, (0,), str(shape))
        yield Case("relu_grad", {}, (shape, shape), shape, (0, 1), str(shape))
        yield Case("add", {}, (shape, shape), shape, (0, 1), str(shape))
    for shape in ((3, 50), (64, 28, 28, 33)):
        attributes = {"data_format": "NHWC"}
        yield Case("bias_add", attributes, (shape, shape[-1:]), shape, (0, 1), str(shape))
        yield Case("bias_add_grad", attributes, (shape,), shape[-1:], (0,), str(shape))


CASES = [*products(), *poolings(), *elementwise(),
         *convolutions((2, 9, 11, 3), (3, 3, 3, 5), (2, 7, 9, 5), "small", padding="VALID"),
         *convolutions((2, 9, 12, 16), (3, 3, 16, 32), (2, 9, 12, 32), "same", padding="SAME"),
         *convolutions((2, 7, 7, 40), (1, 1, 40, 24), (2, 7, 7, 24), "points", padding="VALID"),
         *directions("convolve_channels", (2, 9, 11, 19), (3, 3, 19, 1), (2, 7, 9, 19)),
         *directions("convolve_channels", (2, 9, 11, 3), (3, 3, 3, 2), (2, 7, 9, 6)),
         *directions("convolve_volumes", (2, 5, 7, 6, 3), (3, 3, 3, 3, 17), (2, 3, 5, 4, 17))]
WINOGRADS = [*convolutions((2, 14, 15, 16), (3, 3, 16, 32), (2, 12, 13, 32), "winograd", padding="VALID"),
             *convolutions((2, 9, 12, 16), (5, 5, 16, 16), (2, 9, 12, 16), "winograd-5", padding="SAME")]
SPECIAL = (np.nan, np.inf, -np.inf)


@pytest.mark.named
def test_every_served_operation_has_a_case() -> None:
    served = {type_ for (type_, _), offers in selectors.items() if "onednn" in dict(offers)}
    assert served == {case.op for case in CASES}


def spoiled(case: Case) -> Iterator[tuple[str, list[np.ndarray[Any, Any]]]]:
    """(what is special, inputs): each special value at the start, the middle and the end of each input in turn."""
    random = np.random.default_rng(11)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in case.inputs]
    for position in case.spoiled:
        for value in SPECIAL:
            array = inputs[position].copy()
            flat = array.reshape(-1)
            flat[[0, flat.size // 2, flat.size - 1]] = value
            given = [*inputs]
            given[position] = array
            if case.nothing:
                given[1] = registry["max_pool"].reference(given[0], **case.attributes)
            yield f"{value} in input {position}", [*given, *([] if case.last is None else [np.array(case.last)])]


def same(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], what: str) -> None:
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and got.flags.c_contiguous, what
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(got), kind(wanted), f"{what}: {kind.__name__}")
    finite = np.isfinite(wanted)
    scale = float(np.abs(wanted[finite]).max(initial=1.0))
    np.testing.assert_allclose(got[finite], wanted[finite], rtol=1e-4, atol=1e-4 * scale, err_msg=what)


def check(case: Case, *frees: bool, readers: int = 1) -> None:
    for what, inputs in spoiled(case):
        with np.errstate(all="ignore"):
            wanted = np.asarray(registry[case.op].reference(*inputs, **case.attributes), np.float32)
            values: list[Value] = [plain(array) for array in inputs]
            if inputs[0].shape == () or case.op == "matmul_update":
                values = [(array.shape, array, None) for array in inputs]
            for free in frees:
                got = to_array(apply(case.op, case.attributes, values, case.output, free, readers))
                same(got, wanted, f"{case}, {free=}: {what}")


@pytest.mark.named
@pytest.mark.parametrize("case", CASES, ids=str)
def test_special_values_come_through(case: Case) -> None:
    check(case, *((False,) if "matmul" in case.op else (False, True)))      # products lie plain, free or not


@pytest.mark.named
@pytest.mark.parametrize("readers", [1, LASTING])
@pytest.mark.parametrize("case", WINOGRADS, ids=str)
def test_special_values_stay_where_they_belong_in_winograd_s_tiles(case: Case, readers: int,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_winograd, "GAIN", 1e9)
    check(case, True, readers=readers)


@pytest.mark.named
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("value", SPECIAL)
def test_a_window_of_nothing_else_gives_it(value: float, free: bool) -> None:
    """The first of equal elements gets the gradient, as in the reference."""
    attributes = {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NCHW"}
    x = np.full((2, 5, 6, 8), value, np.float32)
    x[1] = 1.0
    y = registry["max_pool"].reference(x, **attributes)
    dy = np.random.default_rng(5).standard_normal(y.shape).astype(np.float32)
    got = apply("max_pool", attributes, [plain(x)], y.shape, free)
    same(to_array(got), y, "y")
    slope = apply("max_pool_grad", attributes, [plain(x), got, plain(dy)], x.shape, free)
    same(to_array(slope), registry["max_pool_grad"].reference(x, y, dy, **attributes), "gradient")


@pytest.mark.parametrize("layer", ["relu", "dense", "convolution", "pool"])
def test_a_diverged_model_looks_diverged(layer: str) -> None:
    """With every library on, NaN in the weights reaches what a program fetches."""
    import workbench as wb
    with wb.Graph().as_default():
        x = wb.placeholder("float32", [2, 8, 8, 4])
        weights = wb.placeholder("float32", [3, 3, 4, 16])
        made = {"relu": lambda: wb.nn.relu(weights), "pool": lambda: wb.nn.max_pool(weights, 2, 1, "VALID"),
                "dense": lambda: wb.nn.relu(wb.matmul(wb.reshape(x, [8, 64]), wb.reshape(weights, [64, 9])) + 1.0),
                "convolution": lambda: wb.nn.relu(wb.ops.conv2d(x, weights, (1, 1), "SAME"))}[layer]()
        images, spoiled_weights = np.ones((2, 8, 8, 4), np.float32), np.full((3, 3, 4, 16), np.nan, np.float32)
        assert np.isnan(wb.Session().run(made, {x: images, weights: spoiled_weights})).all()
