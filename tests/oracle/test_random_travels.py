"""Hundreds of random calls that travel as graphs, gradients and all: each library computes what the other one wrote."""
from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.oracle.calls.draw import Call
from tests.oracle.harness import agree, compared, flat, is_real, quiet, slopes, tensorflow, unrewritten
from tests.oracle.test_random_calls import CONSTANT, NARROWER, OTHERWISE, drawn, entered, excused

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]

BLOCKS, CALLS = 20, 60
OTHERS = {
    "image.flip_left_right image.flip_up_down image.transpose_image":
        "images of unknown rank are single ones, as in TensorFlow 1.4",
    "linalg.expm": "TensorFlow 2 keeps values of a branch for its gradient as optional ones",
    "gather_first": "a slice of nothing has a gradient of other than its shape there"}
OWN = ("window_extents", "image_patches_grad")
"""Operations that TensorFlow has nothing like: patches of images whose size only the step knows."""


def written(tf: Any, call: Call, ways: list[int], session: Any, sloped: bool) -> tuple[Any, dict[str, Any], list[Any]]:
    """(the graph in bytes, what is fed, the values there) of a call, with its gradients where it is `sloped`."""
    with tf.Graph().as_default() as graph, session() as running:
        xs, feeds = [], {}
        for number, (array, way) in enumerate(zip(call.arrays, ways)):
            dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
            if way == CONSTANT:
                xs.append(tf.constant(array, dtype))
            else:
                xs.append(tf.placeholder(dtype, entered(array.shape, way), name=f"in{number}"))
                feeds[f"in{number}:0"] = array
        ys = flat(call.program(tf, *xs))
        if sloped:
            with contextlib.suppress(LookupError):      # there is none
                ys += [g for g in slopes(tf, ys, [x for x in xs if is_real(x)], 0.7) if g is not None]
        names = [tf.identity(tf.convert_to_tensor(y), name=f"out{number}").name for number, y in enumerate(ys)]
        return graph.as_graph_def().SerializeToString(), feeds, running.run(names, feeds)


def read(tf: Any, graph: bytes, feeds: dict[str, Any], count: int, session: Any) -> list[Any]:
    with tf.Graph().as_default(), session() as running:
        tf.import_graph_def(tf.GraphDef.FromString(graph), name="")
        found: list[Any] = running.run([f"out{number}:0" for number in range(count)], feeds)
        return found


def difference(seed: int, forth: bool) -> str:
    """What the reader computes otherwise than the writer; nothing where TensorFlow refuses the call."""
    call, ways = drawn(seed)
    if any(excused(table, call) for table in (NARROWER, OTHERWISE, OTHERS)):
        return ""
    tf, sloped = tensorflow(), seed % 2 == 0
    with quiet():
        try:
            graph, feeds, values = written(tf, call, ways, unrewritten, sloped)
        except Exception:
            return ""
        try:
            if forth:
                graph, feeds, values = written(ours, call, ways, ours.Session, sloped)
                if any(f"Workbench{kind}".encode() in graph for kind in OWN):
                    return ""
            reader, session = (tf, unrewritten) if forth else (ours, ours.Session)
            found = read(reader, graph, feeds, len(values), session)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    halves = "float16" in {array.dtype.name for array in call.arrays}
    compared("values", len(values))
    try:
        agree([np.asarray(v) for v in found], values, 3e-2 if halves else 3e-3, lenient=True)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("forth", [True, False], ids=["ours in TensorFlow", "TensorFlow's here"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_agrees(block: int, forth: bool) -> None:
    found = []
    for seed in range(block * CALLS, (block + 1) * CALLS):
        if words := difference(seed, forth):
            call, ways = drawn(seed)
            inputs = ", ".join(f"{a.dtype}{list(a.shape)}" for a in call.arrays)
            found.append(f"seed {seed}: {call.text} of {inputs} {ways}: {words}")
    assert not found, "\n\n".join(found)
