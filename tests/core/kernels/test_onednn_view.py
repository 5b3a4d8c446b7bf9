"""NumPy reads and writes the library's formats as the library does, with and without blocks and padding."""
from __future__ import annotations

import numpy as np
import pytest

from workbench.core.kernels import onednn
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.onednn_api import load
from workbench.core.kernels.onednn_desc import Interned, channels_last
from workbench.core.kernels.onednn_format import Format, identity_of
from workbench.core.kernels.onednn_view import read, write

pytestmark = pytest.mark.named

FLOAT32 = np.dtype(np.float32)
SHAPE = (3, 2, 21, 18)          # a filter [height, width, in, out]
AXES = (3, 2, 0, 1)


def blocked(blocks: list[tuple[int, int]]) -> Format:
    """A format of SHAPE with these (axis, size) blocks, made from its description as the library makes them."""
    api = load()
    assert api is not None
    import ctypes
    extents = [SHAPE[axis] for axis in AXES]
    inner = {axis: int(np.prod([size for of, size in blocks if of == axis] or [1])) for axis in range(4)}
    outer = [-(-extent // inner[axis]) for axis, extent in enumerate(extents)]
    counts = [*outer, *(size for _, size in blocks)]
    tag = "".join([*("ABCD"[axis] if inner[axis] > 1 else "abcd"[axis] for axis in range(4)),
                   *(f"{size}{'abcd'[axis]}" for axis, size in blocks)])
    find = api.library.dnnl_fmt_tag2str
    find.restype = ctypes.c_char_p
    number = next(number for number in range(2000) if find(number).decode() == tag)
    made = api._out("dnnl_memory_desc_create_with_tag", 4, (ctypes.c_int64 * 12)(*extents), 3, number)
    assert api.size(made) == 4 * int(np.prod(counts))
    return Format(tuple(extents), AXES, Interned(made, api.size(made), api.blocking(made, 4)), api.size(made),
                  api.blocking(made, 4))


@pytest.mark.parametrize("blocks", [[], [(1, 16), (0, 16)], [(1, 8), (0, 8)], [(1, 4), (0, 16), (1, 4)]], ids=str)
def test_blocks_are_read_and_written_as_the_library_does(blocks: list[tuple[int, int]]) -> None:
    layout = blocked(blocks)
    value = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    theirs, ours = np.full(layout.nbytes, 255, np.uint8), np.full(layout.nbytes, 255, np.uint8)
    choice = onednn.reorder(Spec(SHAPE, FLOAT32), Spec(SHAPE, FLOAT32, layout))
    choice.make((False,) * 3)(value, theirs, *([np.empty(choice.scratch, np.uint8)] if choice.scratch else []))
    write(ours, SHAPE, layout, value)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(read(theirs, SHAPE, layout), value)


def test_a_format_without_blocks_is_a_view() -> None:
    shape, axes = (2, 5, 6, 7), (0, 1, 2, 3)
    identity = identity_of(channels_last(shape, axes))
    layout = Format(shape, axes, identity, 4 * 2 * 5 * 6 * 7, "")
    array = np.zeros(layout.nbytes + 3, np.uint8)          # something may follow the values
    read(array, shape, layout)[1, 4, 5, 6] = 3.0
    assert array[:layout.nbytes].view(np.float32)[-1] == 3.0
