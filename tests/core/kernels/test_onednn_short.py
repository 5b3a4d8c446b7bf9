"""Products of 16 bits by the processor's instructions; float32 takes the same way, and is all that some processors have."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.core.kernels.test_onednn import select
from tests.core.passes.test_passes import kinds
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import registry
from workbench.core.kernels import onednn_short
from workbench.core.kernels.choice import Choice, Spec
from workbench.core.kernels.onednn_format import api
from workbench.core.kernels.onednn_short import IMAGE_AXES, SERVED, convolution, native, product
from workbench.core.kernels.onednn_window import Window
from workbench.core.kernels.options import KernelOptions
from workbench.core.passes import widen as widening
from workbench.core.passes.precision import precision
from workbench.core.passes.prune import prune

pytestmark = pytest.mark.named
SHORT = ("bfloat16", "float16")
HERE = pytest.mark.parametrize("name", ["float32", pytest.param("bfloat16", marks=pytest.mark.short)])
RANDOM = np.random.default_rng(6)


@pytest.fixture
def asked_anew() -> Iterator[None]:
    native.cache_clear()
    yield
    native.cache_clear()


def compare(op: str, name: str, choice: Choice | None, one: tuple[int, ...], two: tuple[int, ...], out: tuple[int, ...],
            **attributes: object) -> None:
    assert choice is not None
    dtype = as_dtype(name).numpy
    values = [RANDOM.normal(size=shape).astype(dtype) for shape in (one, two)]
    found = np.empty(out, dtype)
    scratch = [np.full(choice.scratch, 255, np.uint8)] if choice.scratch else []
    choice.make((False,) * 3)(*values, found, *scratch)
    wanted = registry[op].reference(*[value.astype(np.float32) for value in values], **attributes)
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=0, atol=8e-3 * np.abs(wanted).max())


@HERE
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_products(name: str, turn_a: bool, turn_b: bool) -> None:
    attributes = {"transpose_a": turn_a, "transpose_b": turn_b}
    a, b = (30, 20) if turn_a else (20, 30), (7, 30) if turn_b else (30, 7)
    compare("matmul", name, product(name, attributes, a, b), a, b, (20, 7), **attributes)


@HERE
@pytest.mark.parametrize("op", SERVED[1:])
@pytest.mark.parametrize("strides, padding, y", [((1, 1), "SAME", (2, 9, 8, 6)), ((2, 2), "VALID", (2, 4, 3, 6))])
def test_convolutions_and_their_derivatives(name: str, op: str, strides: tuple[int, int], padding: str,
                                            y: tuple[int, ...]) -> None:
    x, kernel, attributes = (2, 9, 8, 4), (3, 3, 4, 6), {"strides": strides, "padding": padding}
    window = Window.of(attributes, x[1:3], kernel[:2]).parameters()
    shapes = {"conv2d": (x, kernel, y), "conv2d_backprop_input": (kernel, y, x), "conv2d_backprop_filter": (x, y, kernel)}[op]
    more = {"conv2d": {}, "conv2d_backprop_input": {"input_shape": x}, "conv2d_backprop_filter": {"filter_shape": kernel}}[op]
    compare(op, name, convolution(op, name, x, kernel, y, IMAGE_AXES, window), *shapes, **attributes, **more)


@pytest.mark.short
def test_what_is_not_finite_stays_in_its_pixel() -> None:
    """oneDNN takes channels in pairs: of an odd number the first of the next pixel too, and NaN times 0 is NaN."""
    for outer, inner, size in ((16, 5, 1), (16, 6, 1), (5, 16, 1), (5, 5, 3), (16, 5, 3)):
        x, kernel = np.ones([1, 6, 7, inner], np.float32), np.ones([size, size, inner, outer], np.float32)
        x[0, 3, 3, 0] = np.nan
        y = np.ones([1, 7 - size, 8 - size, outer], np.float32)
        y[0, 2, 2, 0] = np.nan
        with wb.Graph().as_default() as graph:
            graph.precision = "bfloat16"
            image, filters, slope = [wb.placeholder("float32", value.shape) for value in (x, kernel, y)]
            made = wb.nn.conv2d(image, filters, 1, "VALID")
            fetches, feeds = [made, *wb.gradients(made, image, slope)], {image: x, filters: kernel, slope: y}
            with wb.Session() as session, wb.Session(kernels=KernelOptions(libraries=())) as plain:
                found, wanted = session.run(fetches, feeds), plain.run(fetches, feeds)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_library_is_asked_and_not_believed(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves float32 everywhere; one that computes something else, or fails, is declined and said once."""
    assert native("float32") and not native("int8")
    native.cache_clear()
    monkeypatch.setattr(onednn_short, "product", lambda name, attributes, a, b: Choice(
        "onednn", (None, None), (None,), lambda static: lambda a, b, out: out.fill(1)))
    assert not native("float32")


def test_a_type_without_instructions_is_declined(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN has kernels of bfloat16 for all of AVX-512, which take three times as long as float32's without instructions."""
    monkeypatch.setattr(onednn_short, "_right", lambda op, name: True)
    for short in (set(), {"bfloat16"}):
        native.cache_clear()
        monkeypatch.setattr(api(), "short", short)
        assert native("bfloat16") is bool(short) and not native("float16") and native("float32")


@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
def test_instructions_count_that_the_library_may_use(isa: str) -> None:
    """The processor may have them and ONEDNN_MAX_CPU_ISA forbid them."""
    asked = "from workbench.core.kernels.onednn_short import native; print(native('bfloat16'))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[3], env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa})
    assert done.stdout.strip() == "False"


@pytest.mark.falls_back
def test_a_library_that_fails_is_declined(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object) -> Choice:
        raise RuntimeError("no such luck")
    monkeypatch.setattr(onednn_short, "product", failing)
    assert not native("float32")


@pytest.mark.parametrize("name", SHORT)
def test_selectors_serve_a_type_exactly_where_the_library_does(name: str) -> None:
    spec = Spec((16, 16), np.dtype(as_dtype(name).numpy))
    image, kernel = Spec((1, 8, 8, 16), spec.dtype), Spec((3, 3, 16, 16), spec.dtype)
    options = {"strides": (1, 1), "padding": "SAME"}
    asked = [("matmul", {}, [spec, spec], spec), ("conv2d", options, [image, kernel], image),
             ("conv2d_backprop_input", options, [kernel, image], image),
             ("conv2d_backprop_filter", options, [image, image], kernel)]
    for op, attributes, inputs, output in asked:
        assert (select(op)(attributes, inputs, [output], [False]) is not None) == native(name)


@pytest.mark.parametrize("has", [False, True])
def test_products_stay_short_where_there_are_instructions(has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widening, "native", lambda name: has)
    with wb.Graph().as_default() as graph:
        x = wb.placeholder("float32", [4, 4])
        program = widening.widen(precision("bfloat16")(prune(graph, [wb.matmul(x, x)], [], {x: x.shape})))
    rounded = {"argument": 1, "rounded_to_bfloat16": 2, "matmul": 1}
    assert kinds(program) == ({"argument": 1, "bfloat16_of": 1, "float32_of": 1, "matmul": 1} if has else rounded)


@pytest.mark.short
def test_a_step_uses_them(graph: wb.Graph) -> None:
    graph.precision = "bfloat16"
    x = wb.placeholder("float32", [64, 64])
    y = wb.matmul(x, x)
    with wb.Session() as session:
        rows = {row.type: row.library for row in session.explain(y, {x: np.ones([64, 64])}).rows}
        assert rows["matmul"] == "onednn" and (session.run(y, {x: np.ones([64, 64])}) == 64).all()
