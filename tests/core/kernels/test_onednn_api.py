"""The binding: what it finds, what it says when something fails, and that a missing library only declines."""
from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from workbench.core.kernels import onednn, onednn_api, onednn_call, onednn_format
from workbench.core.kernels.choice import Spec, selectors
from workbench.core.kernels.llvm import usable
from workbench.core.kernels.onednn_api import Api, load
from workbench.core.kernels.onednn_desc import any_format, channels_last, contiguous
from workbench.core.kernels.onednn_format import ARGUMENTS, known, primitive
from workbench.core.kernels.onednn_program import Builder, Place
from workbench.core.kernels.options import KernelOptions, using
from workbench.errors import InternalError, UnimplementedError
from workbench.settings import settings

pytestmark = pytest.mark.named

FLOAT32 = np.dtype(np.float32)


@pytest.fixture
def api() -> Api:
    loaded = load()
    assert loaded is not None
    return loaded


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Api | None]:
    """`load` as if never called. The process keeps its one library: a second engine would refuse the first's work."""
    fresh = cache(onednn_api._loaded.__wrapped__)
    monkeypatch.setattr(onednn_format, "load", fresh)
    return fresh


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch, unloaded: Callable[[], Api | None]) -> None:
    monkeypatch.setattr(onednn_api, "DISTRIBUTIONS", ("no-such-distribution-of-onednn",))


def test_version_is_three(api: Api) -> None:
    assert api.version[0] == 3 and load() is api


def test_status_names_are_the_library_s_own(api: Api) -> None:
    import ctypes
    name = api.library.dnnl_status2str
    name.restype = ctypes.c_char_p
    assert [name(i).decode() for i in range(len(onednn_api.STATUS))] == list(onednn_api.STATUS)


def test_algorithm_numbers_are_the_library_s_own(api: Api) -> None:
    import ctypes
    name = api.library.dnnl_alg_kind2str
    name.restype = ctypes.c_char_p
    names = {"CONVOLUTION_DIRECT": "convolution_direct", "ELU": "eltwise_elu",
             "LINEAR": "eltwise_linear",
             "POOLING_MAX": "pooling_max", "POOLING_AVERAGE": "pooling_avg_exclude_padding",
             "BINARY_ADD": "binary_add", "BINARY_MULTIPLY": "binary_mul"}
    assert {ours: name(getattr(onednn_api, ours)).decode() for ours in names} == names


def test_errors_name_the_call_and_the_status(api: Api) -> None:
    with pytest.raises(InternalError, match="onednn: dnnl_reorder returned invalid_arguments, expected success; set "
                                            "WB_LIBRARIES without onednn"):
        api.check(2, "dnnl_reorder")
    with pytest.raises(UnimplementedError, match="dnnl_convolution returned unimplemented"):
        api.check(3, "dnnl_convolution")
    with pytest.raises(InternalError, match="dnnl_memory_desc_create_with_strides returned invalid_arguments"):
        api.plain((-3, 2), (2, 1))


def test_a_primitive_is_made_once(api: Api) -> None:
    parts = (contiguous((6, 5), (0, 1)), any_format((5, 4), (0, 1)), None, contiguous((6, 4), (0, 1)))
    first = primitive("matmul", *parts)
    assert first is not None and primitive("matmul", *parts) is first
    assert primitive("matmul", *parts, after=(("relu",),)) is not first


def test_a_format_survives_packing_and_unpacking(api: Api) -> None:
    """A format that is not C-contiguous on any processor; which one a primitive would like best differs."""
    shape, axes = (2, 5, 6, 7), (0, 1, 2, 3)
    packed = onednn_format.as_format(onednn_format.identity_of(channels_last(shape, axes)), shape, axes)
    assert packed is not None and packed.nbytes == 2 * 5 * 6 * 7 * 4
    value = np.arange(2 * 5 * 6 * 7, dtype=np.float32).reshape(shape)
    flat, back = np.empty(packed.nbytes, np.uint8), np.empty_like(value)
    for source, target, arrays in ((None, packed, (value, flat)), (packed, None, (flat, back))):
        choice = onednn.reorder(Spec(shape, FLOAT32, source), Spec(shape, FLOAT32, target))
        scratch = [np.empty(choice.scratch, np.uint8)] if choice.scratch else []
        choice.make((False, False))(*arrays, *scratch)
    np.testing.assert_array_equal(flat.view(np.float32), value.transpose(0, 2, 3, 1).reshape(-1))
    np.testing.assert_array_equal(back, value)


def test_reorder_without_a_layout_of_ours_is_refused() -> None:
    spec = Spec((2, 3), FLOAT32)
    with pytest.raises(UnimplementedError, match="reorder: layouts are None and None; one must be of onednn"):
        onednn.reorder(spec, spec)


def copy_of_four() -> onednn_format.Primitive:
    """A primitive that copies four numbers."""
    shape = contiguous((4,), (0,))
    made = primitive("reorder", shape, shape)
    assert made is not None
    return made


def test_code_of_a_primitive_is_generated_for_the_first_kernel_that_runs_it(api: Api) -> None:
    """Selectors describe more of them than a plan runs: of those only formats, scratch and the implementation are asked."""
    shape = contiguous((4, 7), (0, 1))
    made = primitive("reorder", shape, shape)
    assert made is not None
    builder = Builder(1, 1)
    builder.step(made, {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: builder.output()})
    assert made.implementation
    assert builder.scratch() == made.scratch
    assert made.formats[onednn_api.Argument.OUTPUT] is made.formats[onednn_api.Argument.SOURCE]
    assert onednn_api.Argument.BIAS not in made.formats
    asked = {argument for argument in ARGUMENTS if argument in made.formats}
    assert {onednn_api.Argument.SOURCE, onednn_api.Argument.OUTPUT} <= asked
    assert made._pointer is None
    builder.program()((False, False))
    generated = made._pointer
    assert generated is not None
    builder.program()((False, False))
    assert made._pointer is generated


@pytest.mark.parametrize("libraries", [("onednn",), ("llvm", "onednn")])
def test_arguments_are_found_where_they_are_at_every_call(api: Api, monkeypatch: pytest.MonkeyPatch,
                                                          libraries: tuple[str, ...]) -> None:
    monkeypatch.setattr(settings, "libraries", libraries)
    made = copy_of_four()
    builder = Builder(1, 1)
    builder.step(made, {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: builder.output()})
    kernel, spare = builder.program()((False, False)), np.empty(7, np.uint8)
    for source in (np.arange(4, dtype=np.float32), np.arange(8, dtype=np.float32)[4:], np.arange(4, dtype=np.float32)):
        out = np.zeros(4, np.float32)
        kernel(source, out, spare)
        np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize("libraries", [("onednn",), ("llvm", "onednn")])
def test_primitives_of_a_kernel_run_in_a_row_until_one_fails(api: Api, monkeypatch: pytest.MonkeyPatch,
                                                             libraries: tuple[str, ...]) -> None:
    monkeypatch.setattr(settings, "libraries", libraries)
    made = copy_of_four()
    builder = Builder(1, 1)
    between = builder.buffer(16)
    builder.step(made, {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: between})
    builder.step(made, {onednn_api.Argument.SOURCE: between})      # it has no output
    builder.step(made, {onednn_api.Argument.SOURCE: between, onednn_api.Argument.OUTPUT: builder.output()})
    kernel = builder.program()((False, False))
    source, out, scratch = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(builder.scratch(), np.uint8)
    for _ in range(2):
        refused = "dnnl_primitive_execute returned invalid_arguments, expected success of reorder"
        with pytest.raises(InternalError, match=refused):
            kernel(source, out, scratch)
        np.testing.assert_array_equal(scratch[:16].view(np.float32), source)
        assert not out.any()


def test_a_session_without_llvm_runs_no_compiled_code(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a plan's kernels are made later, when the options of its session are no longer in force."""
    monkeypatch.setattr(settings, "libraries", ("llvm", "onednn"))
    builder = Builder(1, 1)
    builder.step(copy_of_four(), {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: builder.output()})
    with using(KernelOptions(libraries=("onednn",))):
        make = builder.program()
    monkeypatch.setattr(onednn_call, "bind", None)
    source, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    make((False, False))(source, out)
    np.testing.assert_array_equal(out, source)


@pytest.mark.skipif(not usable(), reason="no LLVM here")
@pytest.mark.parametrize("given", [1, "a list"])
def test_what_is_no_array_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch, given: object) -> None:
    monkeypatch.setattr(settings, "libraries", ("llvm", "onednn"))
    made = copy_of_four()
    builder, source = Builder(1, 1), np.zeros(4, np.float32)
    builder.step(made, {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: builder.output()})
    kernel = builder.program()((False, False))
    with pytest.raises(TypeError, match="primitives: it takes other arguments; pass NumPy arrays, no fewer than"):
        kernel(*([source] if given == 1 else [source, [0.0] * 4]))


def test_equal_descriptors_have_one_number(api: Api) -> None:
    one, other = (onednn_format.identity_of(contiguous((3, 4), (0, 1))) for _ in range(2))
    assert one == other != onednn_format.identity_of(contiguous((4, 3), (1, 0)))
    assert one.nbytes == 48 and known(one).identity == one


def test_without_the_library_every_selector_declines_and_one_line_says_so(
        absent: None, caplog: pytest.LogCaptureFixture) -> None:
    spec = Spec((4, 4), FLOAT32)
    image = Spec((1, 4, 4, 4), FLOAT32)
    attributes = {"ksize": (2, 2), "strides": (2, 2), "padding": "SAME"}
    with caplog.at_level(logging.INFO):
        assert not onednn.available()
        for type_, inputs, outputs in (
                ("matmul", [spec, spec], [spec]), ("fused_matmul", [spec, spec, Spec((4,), FLOAT32)], [spec]),
                ("matmul_update", [spec, spec, spec, Spec((), FLOAT32)], [spec]), ("relu", [spec], [spec]),
                ("conv2d", [image, image], [image]), ("conv2d_backprop_input", [image, image], [image]),
                ("conv2d_backprop_filter", [image, image], [image]), ("max_pool", [image], [image]),
                ("max_pool_grad", [image] * 3, [image]), ("avg_pool", [image], [image]),
                ("avg_pool_grad", [image], [image]), ("add", [spec, spec], [spec]), ("relu_grad", [spec] * 2, [spec]),
                ("bias_add", [spec, Spec((4,), FLOAT32)], [spec]), ("bias_add_grad", [spec], [Spec((4,), FLOAT32)])):
            assert dict(selectors[type_, "CPU"])["onednn"](attributes, inputs, outputs, [False]) is None
    lines = [record.message for record in caplog.records if "oneDNN" in record.message]
    assert lines == ["oneDNN is not installed; NumPy and compiled kernels serve (pip install onednn-cpu-gomp)"]


def test_a_library_that_cannot_be_loaded_is_announced(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unloaded: Callable[[], Api | None],
        caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "libdnnl.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(onednn_api, "find", lambda: broken)
    assert unloaded() is None
    assert "oneDNN at libdnnl.so cannot be used" in caplog.text


def test_primitives_and_descriptors_nobody_needs_are_freed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    monkeypatch.setattr(onednn_format, "_primitives", type(onednn_format._primitives)())
    monkeypatch.setattr(onednn_format, "MOST_PRIMITIVES", 4)
    gc.collect()
    before = len(onednn_format._interned)
    for rows in range(600, 640):
        assert primitive("matmul", contiguous((rows, 3), (0, 1)), contiguous((3, 5), (0, 1)), None,
                         contiguous((rows, 5), (0, 1))) is not None
    assert len(onednn_format._primitives) == 4
    gc.collect()
    assert len(onednn_format._interned) <= before + 4 * 4, "at most three matrices and a scratchpad for each kept one"


def test_a_plan_keeps_its_primitives(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_format, "_primitives", type(onednn_format._primitives)())
    builder, shape = Builder(1, 1), contiguous((641, 3), (0, 1))
    made = primitive("reorder", shape, shape)
    assert made is not None
    builder.step(made, {onednn_api.Argument.SOURCE: Place(0), onednn_api.Argument.OUTPUT: builder.output()})
    kernel = builder.program()((False, False))
    del made, builder
    onednn_format._primitives.clear()
    source, out = np.ones((641, 3), np.float32), np.zeros((641, 3), np.float32)
    kernel(source, out)
    np.testing.assert_array_equal(out, source)


def test_a_descriptor_is_compared_with_few_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interning asks the library about candidates of the same shape only, however many formats there are."""
    kept = [onednn_format.identity_of(contiguous((rows, 7), (0, 1))) for rows in range(700, 800)]
    asked: list[object] = []
    equal = api.equal
    monkeypatch.setattr(api, "equal", lambda left, right: asked.append(left) or equal(left, right))
    monkeypatch.setattr(onednn_format, "_identities", {})      # else it is known by its strides
    assert onednn_format.identity_of(contiguous((750, 7), (0, 1))) is kept[50]
    assert len(asked) == 1


def test_a_descriptor_is_made_once_however_many_ask(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan asks for each several times: of a value that is made, read and differentiated, in several formats."""
    made: list[object] = []
    out = api._out
    monkeypatch.setattr(api, "_out", lambda name, *arguments: made.append(name) or out(name, *arguments))
    kept = onednn_format.identity_of(contiguous((811, 7), (0, 1)))
    assert [name for name in made if "memory_desc_create" in str(name)] == ["dnnl_memory_desc_create_with_strides"]
    before = len(made)
    assert onednn_format.identity_of(contiguous((811, 7), (0, 1))) is kept
    assert (kept.nbytes, kept.strides, kept.text) == (4 * 811 * 7, (7, 1), "strides 7,1")
    first = primitive("reorder", contiguous((811, 7), (0, 1)), known(kept))
    assert first is not None and first.formats[onednn_api.Argument.SOURCE] is kept
    assert sum("memory_desc_create_with_strides" in str(name) for name in made[before:]) == 0
