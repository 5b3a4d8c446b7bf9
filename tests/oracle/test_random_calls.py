"""Thousands of random calls of single operations: values, dtypes, slopes and what is known of shapes are TensorFlow's."""
from __future__ import annotations

from typing import Any

import pytest

import workbench.tf1 as ours
from tests.oracle.calls.draw import Call, Draw
from tests.oracle.calls.families import BINARY, FAMILIES, UNARY
from tests.oracle.harness import agree, compared, flat, is_real, quiet, slopes, tensorflow, unrewritten

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]

BLOCKS, CALLS = 50, 60
KNOWN, PARTLY, DIMENSIONS, NOTHING, CONSTANT = range(5)      # what the graph knows of an input
NARROWER = {
    "argmax argmin matrix_band_part imag": "take no bool, as in TensorFlow 1.4",
    "nn.l2_normalize": "takes no complex numbers, as in TensorFlow 1.4",
    "conv2d convolution conv1d conv3d max_pool avg_pool depthwise_conv2d extract_image_patches":
        "a window that is larger than images of unknown size is refused in the step; TensorFlow gives nothing there",
    "image.flip_left_right image.rot90 image.per_image_standardization image.resize_image_with_crop_or_pad image.central_crop":
        "take images of unknown rank as single ones, as in TensorFlow 1.4",
    "split diag_part reverse": "a scalar of unknown rank has no axis; TensorFlow gives it back"}
"""Operations -> what of them we refuse that TensorFlow takes."""
OTHERWISE = {
    "squared_difference": "of complex numbers is a square, as in TensorFlow 1.4; since then it is a square of sizes",
    "reduce_prod cumprod": "float16 is multiplied in float32 here",
    "image.convert_image_dtype": "rounds as TensorFlow 1.4 does"}
NO_SLOPE = {"image.rgb_to_hsv": "has no gradient, as in TensorFlow 1.4"}
LESS_KNOWN = {
    "where": "a branch of unknown rank may broadcast here",
    "lrn": "takes any rank here",
    "matrix_solve matrix_solve_ls matrix_triangular_solve cholesky_solve": "the systems in front may broadcast here",
    "reverse_sequence": "the number of lengths is compared in the step"}
"""Operations of whose results we know less than TensorFlow while the graph is built."""


def drawn(seed: int) -> tuple[Call, list[int]]:
    draw = Draw(seed)
    call = draw.one(*FAMILIES)(draw)
    return call, [draw.one(KNOWN, PARTLY, DIMENSIONS, NOTHING, CONSTANT, CONSTANT) for _ in call.arrays]


def entered(shape: tuple[int, ...], way: int) -> Any:
    """What a placeholder says of `shape`."""
    if way == PARTLY:
        return [size if i % 2 else None for i, size in enumerate(shape)]
    return None if way == NOTHING else [None] * len(shape) if way == DIMENSIONS else shape


def told(tf: Any, call: Call, ways: list[int], session: Any) -> tuple[Any, ...]:
    """(values, slopes, shapes known) of a call, or the error that it is."""
    with tf.Graph().as_default():
        xs, feeds = [], {}
        for array, way in zip(call.arrays, ways):
            dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
            xs.append(tf.constant(array, dtype) if way == CONSTANT else tf.placeholder(dtype, entered(array.shape, way)))
            if way != CONSTANT:
                feeds[xs[-1]] = array
        ys = flat(call.program(tf, *xs))
        shapes = [y.shape.as_list() if y.shape.ndims is not None else None for y in ys]
        try:
            gradients = slopes(tf, ys, [x for x in xs if is_real(x)], 0.7)
        except LookupError:
            gradients = []      # there is none
        with session() as running:
            made = running.run([*ys, *(g for g in gradients if g is not None)], feeds)
    rest = iter(made[len(ys):])
    return made[:len(ys)], [None if g is None else next(rest) for g in gradients], shapes


def excused(table: dict[str, str], call: Call) -> bool:
    return any(call.text.split()[0] in names.split() for names in table)


def difference(call: Call, ways: list[int]) -> str:
    """What differs, nothing where TensorFlow refuses."""
    with quiet():
        try:
            wanted = told(tensorflow(), call, ways, unrewritten)
        except Exception:
            return ""
    try:
        mine = told(ours, call, ways, ours.Session)
    except Exception as error:
        return "" if excused(NARROWER, call) else f"{type(error).__name__}: {error}"
    kinds = {array.dtype.name for array in call.arrays}
    halves, short = "float16" in kinds, {"float32", "complex64"} & kinds or call.text.startswith("image.")
    tolerance = 2e-2 if halves else 3e-3 if short else 1e-7
    try:
        agree(mine[0], wanted[0], tolerance)
        if mine[1] and wanted[1] and not halves and not excused(NO_SLOPE, call):
            agree(mine[1], wanted[1], tolerance, "slope", lenient=True)
    except AssertionError as error:
        return "" if excused(OTHERWISE, call) else str(error)
    compared("shapes", len(mine[2]))
    less = [(had, could) for had, could in zip(mine[2], wanted[2]) if could is not None and (
        had is None or any(a is None and b is not None for a, b in zip(had, could, strict=True)))]
    return "" if not less or excused(LESS_KNOWN, call) else f"shape {less[0][0]} is known where TensorFlow knows {less[0][1]}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_agrees(block: int) -> None:
    found = []
    for seed in range(block * CALLS, (block + 1) * CALLS):
        call, ways = drawn(seed)
        if words := difference(call, ways):
            inputs = ", ".join(f"{a.dtype}{list(a.shape)}" for a in call.arrays)
            found.append(f"seed {seed}: {call.text} of {inputs} {ways}: {words}")
    assert not found, "\n\n".join(found)


def test_every_operation_is_drawn() -> None:
    names = {drawn(seed)[0].text.split()[0] for seed in range(BLOCKS * CALLS)}
    assert names >= {*UNARY, *BINARY} and len(names) > 200
