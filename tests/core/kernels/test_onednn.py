"""oneDNN kernels against small NumPy references: every operation, both data formats, odd shapes, a chain."""
from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from workbench.core.kernels import onednn, onednn_format, onednn_products, onednn_winograd
from workbench.core.kernels.choice import LASTING, Choice, Spec, reorders, selectors
from workbench.core.kernels.onednn_api import Argument, load
from workbench.core.kernels.onednn_desc import contiguous
from workbench.core.kernels.onednn_filters import Transformed
from workbench.core.kernels.onednn_products import Product, Task, usual
from workbench.core.kernels.onednn_program import Place
from workbench.core.kernels.onednn_window import Window
from workbench.core.kernels.options import KernelOptions, using
from workbench.settings import settings

pytestmark = pytest.mark.named


@pytest.fixture(autouse=True)
def _both_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about libraries that are there, whatever this run of the tests may use."""
    monkeypatch.setattr(settings, "libraries", ("onednn", "llvm"))
    monkeypatch.delenv("WB_LIBRARIES", raising=False)

FLOAT32 = np.dtype(np.float32)
Value = tuple[tuple[int, ...], Any, Any]
"""shape, array (flat bytes if private), layout."""

random = np.random.default_rng(7)


def some(*shape: int) -> np.ndarray[Any, Any]:
    return random.standard_normal(shape).astype(np.float32)


def plain(array: np.ndarray[Any, Any]) -> Value:
    return array.shape, np.ascontiguousarray(array), None


def select(type_: str) -> Any:
    return dict(selectors[type_, "CPU"])["onednn"]


def run(choice: Choice, arrays: Sequence[Any], outputs: Sequence[Any]) -> None:
    scratch = [np.full(choice.scratch, 255, np.uint8)] if choice.scratch else []
    kernel = choice.make(tuple(True for _ in (*arrays, *outputs)))
    kernel(*arrays, *outputs, *scratch)
    moving = choice.make(tuple(False for _ in (*arrays, *outputs)))
    moving(*arrays, *outputs, *scratch)


def empty(shape: tuple[int, ...], layout: Any) -> Any:
    return np.full(shape, np.nan, np.float32) if layout is None else np.full(layout.nbytes, 255, np.uint8)


def moved(value: Value, layout: Any) -> Any:
    """The value's array in `layout`, reordered as the planner would."""
    shape, array, has = value
    if has == layout:
        return array
    out = empty(shape, layout)
    run(reorders[(layout or has).library](Spec(shape, FLOAT32, has), Spec(shape, FLOAT32, layout)), [array], [out])
    return out


def to_array(value: Value) -> np.ndarray[Any, Any]:
    return np.asarray(moved(value, None))


def apply(type_: str, attributes: Mapping[str, Any], values: Sequence[Value], shape: tuple[int, ...],
          free: bool = False, readers: int = 1) -> Value:
    """Plan one operation as the planner does, run it, return its output."""
    specs = [Spec(one, FLOAT32, layout, readers) for one, _, layout in values]
    choice = select(type_)(attributes, specs, [Spec(shape, FLOAT32)], [free])
    assert choice is not None, f"{type_} declined"
    assert free or choice.outputs == (None,)
    arrays = [moved(value, layout) for value, layout in zip(values, choice.inputs)]
    out = empty(shape, choice.outputs[0])
    run(choice, arrays, [out])
    return shape, out, choice.outputs[0]


def close(value: Value, wanted: np.ndarray[Any, Any], tolerance: float = 1e-4) -> None:
    got = to_array(value)
    assert got.shape == wanted.shape
    scale = max(1.0, float(np.abs(wanted).max()))
    assert float(np.abs(got - wanted).max()) <= tolerance * scale


def test_library_is_installed_for_the_tests() -> None:
    assert onednn.available()


# Products


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 1, 1), (17, 300, 41), (100, 784, 10), (300, 64, 520),
                                   (16, 2100, 1030)])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_matmul(shape: tuple[int, int, int], turn_a: bool, turn_b: bool) -> None:
    rows, depth, columns = shape
    a = some(depth, rows) if turn_a else some(rows, depth)
    b = some(columns, depth) if turn_b else some(depth, columns)
    wanted = (a.T if turn_a else a) @ (b.T if turn_b else b)
    attributes = {"transpose_a": turn_a, "transpose_b": turn_b}
    close(apply("matmul", attributes, [plain(a), plain(b)], (rows, columns)), wanted)


@pytest.mark.parametrize("shape", [(3, 5, 7), (128, 784, 64), (16, 2100, 1030)])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_fused_matmul(shape: tuple[int, int, int], turn_b: bool, activation: str) -> None:
    rows, depth, columns = shape
    a, b, bias = some(rows, depth), some(columns, depth) if turn_b else some(depth, columns), some(columns)
    wanted = a @ (b.T if turn_b else b) + bias
    if activation == "relu":
        wanted = np.maximum(wanted, 0)
    attributes = {"transpose_b": turn_b, "activation": activation}
    close(apply("fused_matmul", attributes, [plain(a), plain(b), plain(bias)], (rows, columns)), wanted)


@pytest.mark.parametrize("shape", [(3, 5, 7), (128, 784, 64), (16, 2100, 1030), (20, 300, 520)])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("readers", [1, 20])
def test_matmul_add(shape: tuple[int, int, int], turn_a: bool, turn_b: bool, readers: int) -> None:
    rows, depth, columns = shape
    a = some(depth, rows) if turn_a else some(rows, depth)
    b = some(columns, depth) if turn_b else some(depth, columns)
    values = [plain(a), plain(b), plain(some(rows, columns))]
    specs = [Spec(one, FLOAT32, None, readers) for one, _, _ in values]
    attributes = {"transpose_a": turn_a, "transpose_b": turn_b}
    choice = select("matmul_add")(attributes, specs, [Spec((rows, columns), FLOAT32)], [False])
    out = empty((rows, columns), None)
    run(choice, [moved(value, layout) for value, layout in zip(values, choice.inputs)], [out])
    close(plain(out), (a.T if turn_a else a) @ (b.T if turn_b else b) + values[2][1])


@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("activation", [None, "none", "relu"])
def test_a_weight_that_many_products_read_may_lie_in_the_librarys_layout(turn_b: bool, activation: str | None) -> None:
    """In which layout, if any, is the library's matter on each processor; values are the same."""
    rows, depth, columns = 20, 300, 520
    a, b, bias = some(rows, depth), some(columns, depth) if turn_b else some(depth, columns), some(columns)
    values = [plain(a), plain(b), *([] if activation is None else [plain(bias)])]
    specs = [Spec(one, FLOAT32, None, readers=20) for one, _, _ in values]
    attributes = {"transpose_b": turn_b, "activation": activation or "none"}
    choice = select("matmul" if activation is None else "fused_matmul")(attributes, specs, [Spec((rows, columns), FLOAT32)],
                                                                       [False])
    out = empty((rows, columns), None)
    run(choice, [moved(value, layout) for value, layout in zip(values, choice.inputs)], [out])
    wanted = a @ (b.T if turn_b else b) + (0 if activation is None else bias)
    close(plain(out), np.maximum(wanted, 0) if activation == "relu" else wanted)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_row_takes_a_packed_weight_where_there_is_avx512_alone(wide: bool, rows: int,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load(), "wide", wide)
    task = Task(Product({}, (rows, 784), (784, 512)), Place(0), Place(1), Place(2))
    rule = usual(task, Spec((784, 512), FLOAT32, None, readers=20))
    assert rule == (["kept", "plain"] if wide or rows > 1 else ["plain"])


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_turns_and_packs_for_itself_but_not_for_others(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread brings together the others wait for: up to 1.5 and 2 times as long as the plain product takes on two."""
    monkeypatch.setattr(onednn_products, "get_threads", lambda: threads)
    for attributes, a, b, copied in (({"transpose_b": True}, (64, 512), (1024, 512), "turned"),
                                     ({"transpose_a": True}, (128, 512), (128, 512), "packed")):
        task = Task(Product(attributes, a, b), Place(0), Place(1), Place(2))
        assert usual(task, Spec(b, FLOAT32)) == ([copied, "plain"] if threads == 1 else ["plain"])
    large = Task(Product({"transpose_b": True}, (64, 1024), (3136, 1024)), Place(0), Place(1), Place(2))
    assert usual(large, Spec((3136, 1024), FLOAT32)) == ["turned", "plain"]


@pytest.mark.parametrize("shape", [(5, 3, 7), (784, 100, 10), (300, 16, 500), (9, 40, 300)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("in_place", [False, True])
def test_matmul_update(shape: tuple[int, int, int], sign: float, in_place: bool) -> None:
    rows, depth, columns = shape
    weight, x, dy, scale = some(rows, columns), some(depth, rows), some(depth, columns), np.array(0.25, np.float32)
    wanted = weight + sign * 0.25 * (x.T @ dy)
    specs = [Spec(one.shape, FLOAT32) for one in (weight, x, dy, scale)]
    attributes = {"transpose_a": True, "sign": sign}
    choice = select("matmul_update")(attributes, specs, [Spec(weight.shape, FLOAT32)], [False])
    out = weight if in_place else np.full_like(weight, np.nan)
    assert choice.inplace == {0: 0}
    scratch = [np.full(choice.scratch, 255, np.uint8)] if choice.scratch else []
    choice.make((True,) * 5)(weight, x, dy, scale, out, *scratch)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


# Convolutions


def sides(attributes: Mapping[str, Any], image: Sequence[int], kernel: Sequence[int]) -> list[tuple[int, int]]:
    """Padding by the published TensorFlow formula, written independently of the library's."""
    if attributes["padding"] not in ("SAME", "VALID"):
        return list(attributes["padding"])
    found = []
    dilations = attributes.get("dilations", (1, 1))
    for extent, size, stride, dilation in zip(image, kernel, attributes["strides"], dilations):
        span = (size - 1) * dilation + 1
        out = -(-extent // stride)
        total = max((out - 1) * stride + span - extent, 0) if attributes["padding"] == "SAME" else 0
        found.append((total // 2, total - total // 2))
    return found


def windows(x: np.ndarray[Any, Any], attributes: Mapping[str, Any], kernel: Sequence[int],
            fill: float = 0.0) -> tuple[np.ndarray[Any, Any], list[tuple[int, int]]]:
    """Views [batch, height, width, kernel height, kernel width, channels] of an NHWC image, and the padding."""
    pad = sides(attributes, x.shape[1:3], kernel)
    padded = np.pad(x, [(0, 0), *pad, (0, 0)], constant_values=fill)
    dilations = attributes.get("dilations", (1, 1))
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    view = np.lib.stride_tricks.sliding_window_view(padded, spans, (1, 2))
    view = view[:, ::attributes["strides"][0], ::attributes["strides"][1], :, ::dilations[0], ::dilations[1]]
    return view.transpose(0, 1, 2, 4, 5, 3), pad


def scatter(parts: np.ndarray[Any, Any], attributes: Mapping[str, Any], shape: Sequence[int],
            kernel: Sequence[int]) -> np.ndarray[Any, Any]:
    """Adjoint of `windows`."""
    pad = sides(attributes, shape[1:3], kernel)
    padded = np.zeros((shape[0], shape[1] + sum(pad[0]), shape[2] + sum(pad[1]), shape[3]), np.float64)
    (step_y, step_x), (gap_y, gap_x) = attributes["strides"], attributes.get("dilations", (1, 1))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            padded[:, i * gap_y:i * gap_y + parts.shape[1] * step_y:step_y,
                   j * gap_x:j * gap_x + parts.shape[2] * step_x:step_x][:, :parts.shape[1], :parts.shape[2]] += \
                parts[:, :, :, i, j]
    return padded[:, pad[0][0]:pad[0][0] + shape[1], pad[1][0]:pad[1][0] + shape[2]].astype(np.float32)


def formatted(nhwc: np.ndarray[Any, Any], data_format: str) -> Value:
    return plain(nhwc.transpose(0, 3, 1, 2) if data_format == "NCHW" else nhwc)


CONVOLUTIONS = [
    # image (NHWC), filter, strides, padding, dilations
    ((2, 9, 11, 3), (3, 3, 3, 5), (1, 1), "SAME", (1, 1)),
    ((2, 9, 12, 4), (2, 5, 4, 17), (2, 3), "SAME", (1, 1)),
    ((3, 14, 14, 6), (5, 5, 6, 16), (1, 1), "VALID", (1, 1)),
    ((1, 28, 28, 1), (5, 5, 1, 32), (1, 1), "SAME", (1, 1)),
    ((2, 23, 23, 3), (11, 11, 3, 8), (4, 4), "VALID", (1, 1)),
    ((2, 21, 22, 3), (11, 11, 3, 8), (4, 4), ((2, 1), (0, 3)), (1, 1)),
    ((2, 10, 13, 20), (3, 3, 20, 33), (1, 1), ((0, 2), (1, 0)), (1, 1)),
    ((2, 12, 12, 16), (3, 3, 16, 16), (1, 1), "SAME", (2, 2)),
    ((2, 7, 7, 40), (1, 1, 40, 24), (1, 1), "VALID", (1, 1)),
    ((2, 13, 13, 32), (3, 3, 32, 48), (1, 1), "SAME", (1, 1)),
]


def attributes_of(strides: Any, padding: Any, dilations: Any, data_format: str) -> dict[str, Any]:
    return {"strides": strides, "padding": padding, "dilations": dilations, "data_format": data_format}


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("image, kernel, strides, padding, dilations", CONVOLUTIONS)
def test_convolution(image: Any, kernel: Any, strides: Any, padding: Any, dilations: Any, data_format: str,
                     free: bool) -> None:
    check_convolution(image, kernel, attributes_of(strides, padding, dilations, data_format), free)


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_zeros_around_an_image_do_not_keep_it_from_generated_code(activation: str) -> None:
    """The library has none with AVX2 for filters that move by four and begin outside: it unrolled the images."""
    def generated(side: int, padding: Any) -> bool:
        attributes = {**attributes_of((4, 4), padding, (1, 1), "NHWC"), "activation": activation}
        inputs = [Spec((2, side, side, 3), FLOAT32), Spec((11, 11, 3, 64), FLOAT32), Spec((64,), FLOAT32)]
        choice = select("fused_conv2d")(attributes, inputs, [Spec((2, 55, 55, 64), FLOAT32)], [True])
        return choice is not None and choice.note.startswith(("jit", "brg"))
    assert generated(224, ((2, 2), (2, 2))) == generated(228, "VALID")


def check_convolution(image: Any, kernel: Any, attributes: dict[str, Any], free: bool, readers: int = 1) -> None:
    """All three directions of one; `readers` of each value."""
    data_format = attributes["data_format"]
    x, weights = some(*image), some(*kernel)
    view, _ = windows(x, attributes, kernel[:2])
    y = np.einsum("nhwijc,ijco->nhwo", view, weights, optimize=True)
    dy, bias = some(*y.shape), some(kernel[3])
    dx = scatter(np.einsum("nhwo,ijco->nhwijc", dy, weights, optimize=True), attributes, image, kernel[:2])
    dw = np.einsum("nhwijc,nhwo->ijco", view, dy, optimize=True)
    image_value, y_value, dy_value = (formatted(one, data_format) for one in (x, y, dy))
    close(apply("conv2d", attributes, [image_value, plain(weights)], y_value[0], free, readers), y_value[1])
    fused = formatted(np.maximum(y + bias, 0), data_format)
    close(apply("fused_conv2d", {**attributes, "activation": "relu"}, [image_value, plain(weights), plain(bias)],
                y_value[0], free, readers), fused[1])
    close(apply("conv2d_backprop_input", {**attributes, "input_shape": image_value[0]}, [plain(weights), dy_value],
                image_value[0], free, readers), formatted(dx, data_format)[1])
    close(apply("conv2d_backprop_filter", {**attributes, "filter_shape": kernel}, [image_value, dy_value], kernel,
                free, readers), dw)


WINOGRADS = [
    ((2, 13, 11, 32), (3, 3, 32, 48), "SAME"), ((1, 9, 16, 16), (5, 5, 16, 32), "SAME"),
    ((3, 14, 10, 16), (3, 3, 16, 16), "VALID"), ((2, 8, 9, 16), (5, 5, 16, 16), ((0, 4), (3, 1))),
]


@pytest.mark.parametrize("chunk, readers", [(1, 1), (1 << 30, 1), (1, LASTING)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("image, kernel, padding", WINOGRADS)
def test_winograd(image: Any, kernel: Any, padding: Any, data_format: str, chunk: int, readers: int,
                  monkeypatch: pytest.MonkeyPatch) -> None:
    """All three directions, in one chunk of tiles and in many, with filters of one step and with such that stay."""
    monkeypatch.setattr(onednn_winograd, "GAIN", 1e9)
    monkeypatch.setattr(onednn_winograd, "CHUNK", chunk)
    monkeypatch.setattr(onednn_winograd, "FEWEST_TILES", 1 if chunk == 1 else 64)
    attributes = attributes_of((1, 1), padding, (1, 1), data_format)
    specs = [Spec(formatted(np.empty(image), data_format)[0], FLOAT32), Spec(kernel, FLOAT32, readers=readers)]
    shape = windows(some(*image), attributes, kernel[:2])[0].shape[:3]
    out = Spec(formatted(np.empty((*shape, kernel[3])), data_format)[0], FLOAT32)
    choice = select("conv2d")(attributes, specs, [out], [True])
    assert "winograd" in choice.note and isinstance(choice.inputs[1], Transformed) == (readers == LASTING)
    check_convolution(image, kernel, attributes, True, readers)


def test_winograd_needs_llvm_and_whole_vectors_of_channels() -> None:
    attributes = attributes_of((1, 1), "SAME", (1, 1), "NHWC")

    def note(channels: int) -> str:
        image = Spec((4, 16, 16, channels), FLOAT32)
        return str(select("conv2d")(attributes, [image, Spec((3, 3, channels, channels), FLOAT32)], [image],
                                    [False]).note)
    assert note(64) == "winograd 4x3"
    assert "winograd" not in note(24)
    with using(KernelOptions(winograd=False)):
        assert "winograd" not in note(64)
    with using(KernelOptions(libraries=("onednn",))):
        assert "winograd" not in note(64)


# Pooling

POOLINGS = [
    ((2, 8, 8, 3), (2, 2), (2, 2), "VALID"),
    ((2, 13, 12, 20), (3, 3), (2, 2), "SAME"),
    ((1, 7, 9, 5), (3, 2), (1, 2), "SAME"),
    ((2, 11, 11, 16), (3, 3), (2, 2), "VALID"),
    ((2, 9, 9, 4), (3, 3), (2, 2), ((1, 0), (0, 1))),
]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("image, kernel, strides, padding", POOLINGS)
def test_max_pool(image: Any, kernel: Any, strides: Any, padding: Any, data_format: str, free: bool) -> None:
    attributes = {"ksize": kernel, "strides": strides, "padding": padding, "data_format": data_format}
    x = some(*image)
    view, _ = windows(x, attributes, kernel, -np.inf)
    y = view.max((3, 4))
    dy = some(*y.shape)
    first = view.reshape(*view.shape[:3], -1, view.shape[5]).argmax(3)
    taken = np.arange(kernel[0] * kernel[1])[:, None] == first[..., None, :]
    parts = (taken * dy[..., None, :]).reshape(view.shape)
    dx = scatter(parts, attributes, image, kernel)
    x_value = formatted(x, data_format)
    y_value = apply("max_pool", attributes, [x_value], formatted(y, data_format)[0], free)
    assert (y_value[2] is not None) == free
    close(y_value, formatted(y, data_format)[1], 0)
    got = apply("max_pool_grad", attributes, [x_value, y_value, formatted(dy, data_format)], x_value[0], free)
    close(got, formatted(dx, data_format)[1], 1e-6)


def test_max_pool_gradient_does_not_search_again_when_positions_were_kept() -> None:
    attributes = {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": "NHWC"}
    x, y = Spec((2, 8, 8, 16), FLOAT32), Spec((2, 4, 4, 16), FLOAT32)
    kept = select("max_pool")(attributes, [x], [y], [True]).outputs[0]
    with_positions = select("max_pool_grad")(attributes, [x, Spec(y.shape, FLOAT32, kept), y], [x], [True])
    without = select("max_pool_grad")(attributes, [x, y, y], [x], [True])
    assert with_positions.inputs[1] == kept
    assert with_positions.scratch < without.scratch
    with using(KernelOptions(keep_positions=False)):
        assert select("max_pool")(attributes, [x], [y], [True]).outputs == (None,)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("image, kernel, strides, padding", POOLINGS)
def test_avg_pool(image: Any, kernel: Any, strides: Any, padding: Any, data_format: str) -> None:
    attributes = {"ksize": kernel, "strides": strides, "padding": padding, "data_format": data_format}
    x = some(*image)
    view, _ = windows(x, attributes, kernel)
    count = windows(np.ones_like(x), attributes, kernel)[0].sum((3, 4))
    y = view.sum((3, 4)) / count
    dy = some(*y.shape)
    dx = scatter(np.broadcast_to((dy / count)[:, :, :, None, None], view.shape), attributes, image, kernel)
    x_value, dy_value = formatted(x, data_format), formatted(dy, data_format)
    close(apply("avg_pool", attributes, [x_value], dy_value[0]), formatted(y, data_format)[1], 1e-6)
    close(apply("avg_pool_grad", {**attributes, "input_shape": x_value[0]}, [dy_value], x_value[0]),
          formatted(dx, data_format)[1], 1e-6)


# Elementwise


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 4, 5)])
def test_relu_and_add(shape: tuple[int, ...]) -> None:
    x, y = some(*shape), some(*shape)
    close(apply("relu", {}, [plain(x)], shape), np.maximum(x, 0), 0)
    close(apply("relu_grad", {}, [plain(x), plain(np.maximum(y, 0))], shape), np.where(y > 0, x, 0), 0)
    close(apply("add", {}, [plain(x), plain(y)], shape), x + y, 0)


def test_relu_gradient_in_place() -> None:
    dy, y = some(3, 5), np.maximum(some(3, 5), 0)
    wanted = np.where(y > 0, dy, 0)
    spec = Spec((3, 5), FLOAT32)
    choice = select("relu_grad")({}, [spec, spec], [spec], [False])
    assert choice.inplace == {0: 0}
    choice.make((True, True, True))(dy, y, dy, *([np.empty(choice.scratch, np.uint8)] if choice.scratch else []))
    np.testing.assert_array_equal(dy, wanted)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (64, 28, 28, 33), (4, 7)])
def test_bias_add_and_gradient(shape: tuple[int, ...], data_format: str) -> None:
    x, bias = some(*shape), some(shape[-1])
    as_value = (lambda one: formatted(one, data_format)) if len(shape) == 4 else plain
    attributes = {"data_format": data_format}
    close(apply("bias_add", attributes, [as_value(x), plain(bias)], as_value(x)[0]), as_value(x + bias)[1], 0)
    wanted = x.astype(np.float64).sum(tuple(range(len(shape) - 1)))
    close(apply("bias_add_grad", attributes, [as_value(x)], (shape[-1],)), wanted.astype(np.float32), 1e-5)


# Layouts


@pytest.mark.parametrize("keep_positions", [False, True])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_layouts_travel_through_a_chain_and_back(data_format: str, keep_positions: bool) -> None:
    """conv -> relu -> pool -> conv forward and backward; only the ends are plain."""
    with using(KernelOptions(keep_positions=keep_positions)):
        _chain_and_back(data_format)


def _chain_and_back(data_format: str) -> None:
    attributes = attributes_of((1, 1), "SAME", (1, 1), data_format)
    pool = {"ksize": (2, 2), "strides": (2, 2), "padding": "VALID", "data_format": data_format}
    shapes = {name: formatted(np.empty(shape, np.float32), data_format)[0] for name, shape in
              {"x": (2, 12, 12, 5), "a": (2, 12, 12, 19), "p": (2, 6, 6, 19), "y": (2, 6, 6, 7)}.items()}
    x, w1, w2 = some(*shapes["x"]), some(3, 3, 5, 19), some(3, 3, 19, 7)
    dy = some(*shapes["y"])

    def step(free: bool) -> list[Value]:
        a = apply("conv2d", attributes, [plain(x), plain(w1)], shapes["a"], free)
        r = apply("relu", {}, [a], shapes["a"], free)
        p = apply("max_pool", pool, [r], shapes["p"], free)
        y = apply("conv2d", attributes, [p, plain(w2)], shapes["y"], False)
        dp = apply("conv2d_backprop_input", attributes, [plain(w2), plain(dy)], shapes["p"], free)
        dr = apply("max_pool_grad", pool, [r, p, dp], shapes["a"], free)
        da = apply("relu_grad", {}, [dr, r], shapes["a"], free)
        both = apply("add", {}, [da, r], shapes["a"], free)
        biased = apply("bias_add", {"data_format": data_format}, [both, plain(np.ones(19, np.float32))], shapes["a"],
                       free)
        return [y, apply("conv2d_backprop_filter", attributes, [p, plain(dy)], w2.shape, free),
                apply("conv2d_backprop_filter", attributes, [plain(x), da], w1.shape, free), biased,
                apply("bias_add_grad", {"data_format": data_format}, [da], (19,), free)]

    for private, ordinary in zip(step(True), step(False)):
        close(private, to_array(ordinary), 1e-5)


def test_equal_layouts_are_equal_values() -> None:
    attributes = attributes_of((1, 1), "SAME", (1, 1), "NCHW")
    specs = [Spec((2, 5, 12, 12), FLOAT32), Spec((3, 3, 5, 19), FLOAT32)]
    out = [Spec((2, 19, 12, 12), FLOAT32)]
    first, second = (select("conv2d")(attributes, specs, out, [True]) for _ in range(2))
    assert first.outputs[0] == second.outputs[0] and hash(first.outputs[0]) == hash(second.outputs[0])
    assert first.outputs[0].library == "onednn" and first.outputs[0].nbytes == 2 * 19 * 12 * 12 * 4


def test_two_threads_with_their_own_kernels_do_not_disturb_each_other() -> None:
    attributes = attributes_of((1, 1), "SAME", (1, 1), "NHWC")
    image, kernel = (2, 12, 12, 16), (3, 3, 16, 32)
    failures: list[str] = []
    start = threading.Barrier(2)

    def work(seed: int) -> None:
        mine = np.random.default_rng(seed)
        x = mine.standard_normal(image).astype(np.float32)
        weights = mine.standard_normal(kernel).astype(np.float32)
        view, _ = windows(x, attributes, kernel[:2])
        wanted = np.einsum("nhwijc,ijco->nhwo", view, weights, optimize=True)
        start.wait(30)
        for _ in range(20):
            got = to_array(apply("conv2d", attributes, [plain(x), plain(weights)], wanted.shape))
            if not np.allclose(got, wanted, rtol=1e-3, atol=1e-3):
                failures.append(f"seed {seed}")
                return

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


# What is declined


@pytest.mark.parametrize("type_, shapes", [
    ("matmul", [(3, 4), (4, 5), (3, 5)]), ("conv2d", [(1, 4, 4, 2), (3, 3, 2, 2), (1, 4, 4, 2)]),
    ("max_pool", [(1, 4, 4, 2), (1, 2, 2, 2)]), ("relu", [(3,), (3,)]), ("bias_add_grad", [(3, 4), (4,)]),
])
def test_other_element_types_are_declined(type_: str, shapes: list[tuple[int, ...]]) -> None:
    attributes = {"ksize": (2, 2), "strides": (2, 2) if type_ == "max_pool" else (1, 1), "padding": "SAME"}
    for dtype, served in ((np.float64, False), (np.int32, False), (np.float32, True)):
        specs = [Spec(shape, np.dtype(dtype)) for shape in shapes]
        assert (select(type_)(attributes, specs[:-1], specs[-1:], [False]) is not None) == served


def test_shapes_that_are_not_ours_are_declined() -> None:
    shapes = [(0, 3), (3, 4), (0, 4), (2, 3, 4), (2, 4, 4), (1, 4)]
    spec = {shape: Spec(shape, FLOAT32) for shape in shapes}
    matmul, add = select("matmul"), select("add")
    assert matmul({}, [spec[0, 3], spec[3, 4]], [spec[0, 4]], [False]) is None
    assert matmul({}, [spec[2, 3, 4], spec[2, 4, 4]], [spec[2, 3, 4]], [False]) is None
    assert add({}, [spec[3, 4], spec[1, 4]], [spec[3, 4]], [False]) is None
    grouped = [Spec((1, 8, 8, 4), FLOAT32), Spec((3, 3, 2, 4), FLOAT32)]
    assert select("conv2d")(attributes_of((1, 1), "SAME", (1, 1), "NHWC"), grouped, [Spec((1, 8, 8, 4), FLOAT32)],
                            [False]) is None


@pytest.mark.parametrize("image, kernel, padding, wanted", [
    ((5, 6), (2, 3), "SAME", Window((2, 2), (1, 1), (0, 0), (1, 1))),
    ((5, 6), (2, 3), "VALID", Window((2, 2), (1, 1), (0, 0), (0, 0))),
    ((5, 6), (2, 3), ((1, 2), (3, 4)), Window((2, 2), (1, 1), (1, 3), (2, 4))),
])
def test_padding_puts_the_odd_element_after(image: Any, kernel: Any, padding: Any, wanted: Window) -> None:
    assert Window.of({"strides": (2, 2), "padding": padding}, image, kernel) == wanted


def test_of_what_follows_a_product_only_sums_have_an_argument() -> None:
    """About a ReLU the library answers with memory that is not a descriptor; asking for its size ended processes."""
    plain = contiguous((8, 8), (0, 1))
    made = [onednn_format.primitive("matmul", plain, plain, None, plain, after=after)
            for after in ((("relu",),), (("relu",), ("add", plain)))]
    found = [[position for position in range(3) if Argument.after(position) in one.formats] for one in made if one]
    assert found == [[], [1]]
