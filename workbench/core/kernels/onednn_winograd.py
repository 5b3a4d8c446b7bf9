"""Convolutions with 3x3 and 5x5 filters of stride 1 by Winograd's algorithm: our transforms around oneDNN's products.

The installed library has no Winograd kernels for this processor family. Tiles are handled in chunks that stay in the
caches between the transform that writes them, the 36 products and the transform that reads them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.core.kernels import llvm
from workbench.core.kernels import onednn_tiles as tiles
from workbench.core.kernels.choice import Choice, Kernel, Layout, Spec
from workbench.core.kernels.onednn_api import Argument
from workbench.core.kernels.onednn_desc import Desc
from workbench.core.kernels.onednn_filters import PLANES, Transformed
from workbench.core.kernels.onednn_format import Format, Primitive, fast, primitive
from workbench.core.kernels.onednn_program import Place, Program, Step
from workbench.core.kernels.openmp import runtime

__all__ = ["Winograd"]

LANES = 16
CHUNK = 6 << 20
"""Bytes of transformed tiles of one chunk."""
FEWEST_TILES = 64
"""Tiles of one chunk, below which the products lose speed."""
PASS = 12.0
"""Cost of transforming one element, counted in multiply-adds of a product."""
GAIN = 0.85
"""Predicted time relative to the direct kernel, below which this one is taken."""


def usable() -> bool:
    """Whether the transforms can be compiled and run here."""
    return llvm.serves() and runtime() is not None


class Winograd:
    """One convolution `y = conv(x, filter)` in [batch, height, width, channels] terms, with its three kernels.

    A filter that is `kept` for many steps comes transformed, others are transformed in each.
    """

    def __init__(self, x: Sequence[int], y: Sequence[int], size: int, before: tuple[int, int], kept: bool) -> None:
        self.batch, self.height, self.width, self.inner = x
        _, self.out_height, self.out_width, self.outer = y
        self.size, self.before, self.kept = size, before, kept
        self.step = 7 - size

    def possible(self) -> bool:
        """Are there whole vectors of channels, and what compiles the transforms?"""
        return not (self.inner % LANES or self.outer % LANES) and usable()

    def pays(self) -> bool:
        """Predicted from multiply-adds and from the elements that the transforms move."""
        count = self._tiles(self.out_height, self.out_width) * self.batch * PLANES
        direct = self.batch * self.out_height * self.out_width * self.size ** 2 * self.inner * self.outer
        filters = PLANES * self.inner * self.outer * PASS
        ours = count * (self.inner * self.outer + PASS * (self.inner + self.outer)) + filters
        return ours < GAIN * direct

    def _tiles(self, height: int, width: int) -> int:
        return -(-height // self.step) * -(-width // self.step)

    def forward(self, activation: str, inputs: Sequence[Layout | None], output: Format | None) -> Choice | None:
        """`activation` "", "bias" or "relu"; the kernel takes (x, filter[, bias], y, scratch)."""
        grid = Grid(self.batch, self.out_height, self.out_width, self.step, self.inner, self.outer)
        layout = Transformed(self.size, self.inner, self.outer, turned=False)
        work = Work(grid, layout, self.kept)
        product = work.product()
        if product is None:
            return None
        count = 3 if activation else 2

        def make(static: tuple[bool, ...]) -> Kernel:
            gather, scatter = tiles.gather(self.size, False), tiles.scatter(self.size, activation)
            multiply = product()

            def kernel(*arrays: Any) -> None:
                scratch = arrays[-1]
                x, y, base = (arrays[i].ctypes.data for i in (0, count, -1))
                bias = arrays[2].ctypes.data if activation else 0
                planes = arrays[1] if self.kept else work.transformed(arrays[1], scratch)
                for first in grid.chunks():
                    gather(grid.rows, x, base + work.source, work.source_plane, first, grid.across, grid.down,
                           *self.before, self.height, self.width, self.inner)
                    multiply(scratch, planes)
                    scatter(grid.rows, base + work.result, y, work.result_plane, first, grid.across, grid.down, bias,
                            self.out_height, self.out_width, self.outer)
            return kernel
        return self._choice((inputs[0], layout if self.kept else None, *inputs[2:]), output, make, work)

    def backward_data(self, dy: Layout | None, output: Format | None) -> Choice | None:
        """The kernel takes (filter, dy, dx, scratch): a convolution of `dy` with the filter turned round."""
        grid = Grid(self.batch, self.height, self.width, self.step, self.outer, self.inner)
        layout = Transformed(self.size, self.inner, self.outer, turned=True)
        work = Work(grid, layout, self.kept)
        product = work.product()
        if product is None:
            return None
        before = tuple(self.size - 1 - side for side in self.before)

        def make(static: tuple[bool, ...]) -> Kernel:
            gather, scatter = tiles.gather(self.size, False), tiles.scatter(self.size, "")
            multiply = product()

            def kernel(weights: Any, dy: Any, dx: Any, scratch: Any) -> None:
                source, target, base = dy.ctypes.data, dx.ctypes.data, scratch.ctypes.data
                planes = weights if self.kept else work.transformed(weights, scratch)
                for first in grid.chunks():
                    gather(grid.rows, source, base + work.source, work.source_plane, first, grid.across, grid.down,
                           *before, self.out_height, self.out_width, self.outer)
                    multiply(scratch, planes)
                    scatter(grid.rows, base + work.result, target, work.result_plane, first, grid.across, grid.down, 0,
                            self.height, self.width, self.inner)
            return kernel
        return self._choice((layout if self.kept else None, dy), output, make, work)

    def backward_filter(self, inputs: Sequence[Layout | None]) -> Choice | None:
        """The kernel takes (x, dy, gradient of the filter, scratch)."""
        grid = Grid(self.batch, self.out_height, self.out_width, self.step, self.inner, self.outer)
        work = Work(grid, Transformed(self.size, self.inner, self.outer, turned=False), kept=False)
        start, more = work.correlation(()), work.correlation((("sum",),))
        if start is None or more is None:
            return None

        def make(static: tuple[bool, ...]) -> Kernel:
            gather, gradients = tiles.gather(self.size, False), tiles.gather(self.size, True)
            finish, set_to, add = tiles.filter_gradient(self.size), start(), more()

            def kernel(x: Any, dy: Any, out: Any, scratch: Any) -> None:
                source, slope, base = x.ctypes.data, dy.ctypes.data, scratch.ctypes.data
                for first in grid.chunks():
                    gather(grid.rows, source, base + work.source, work.source_plane, first, grid.across, grid.down,
                           *self.before, self.height, self.width, self.inner)
                    gradients(grid.rows, slope, base + work.result, work.result_plane, first, grid.across, grid.down,
                              0, 0, self.out_height, self.out_width, self.outer)
                    (add if first else set_to)(scratch)
                finish(self.inner, base + work.filter, out.ctypes.data, work.layout.plane, self.outer)
            return kernel
        return self._choice(inputs, None, make, work)

    def _choice(self, inputs: Sequence[Layout | None], output: Format | None, make: Callable[[tuple[bool, ...]], Kernel],
                work: Work) -> Choice:
        return Choice("onednn", tuple(inputs), (output,), make, work.nbytes, note=f"winograd {self.step}x{self.size}")


class Grid:
    """Rows of tiles over the whole batch, cut into equal chunks of `rows`."""

    def __init__(self, batch: int, height: int, width: int, step: int, source: int, result: int) -> None:
        self.down, self.across = -(-height // step), -(-width // step)
        self.source, self.result = source, result
        self.total = batch * self.down
        row = PLANES * self.across * (source + result) * 4
        parts = [rows for rows in range(1, self.total + 1) if self.total % rows == 0]
        fitting = [rows for rows in parts if rows * row <= CHUNK]
        enough = next((rows for rows in parts if rows * self.across >= FEWEST_TILES), self.total)
        self.rows = max(fitting[-1] if fitting else 1, enough)

    def chunks(self) -> range:
        return range(0, self.total, self.rows)


class Work:
    """Where transformed source, result and (unless it is `kept` elsewhere) filter lie in scratch memory, and their products.

    Planes are one cache line longer than their data, as in `Transformed`.
    """

    def __init__(self, grid: Grid, layout: Transformed, kept: bool) -> None:
        self.layout, self.kept = layout, kept
        self.tiles, self.from_channels, self.to_channels = grid.rows * grid.across, grid.source, grid.result
        self.source_plane = self.tiles * grid.source * 4 + 64
        self.result_plane = self.tiles * grid.result * 4 + 64
        self.source = 0
        self.result = self.source + PLANES * self.source_plane
        self.filter = self.result + PLANES * self.result_plane
        self.nbytes = self.filter + (0 if kept else PLANES * layout.plane)

    def transformed(self, plain: Any, scratch: Any) -> Any:
        """`scratch`, in which the planes of this filter lie now."""
        self.layout.transform(plain, scratch.ctypes.data + self.filter)
        return scratch

    def product(self) -> Callable[[], Program] | None:
        """result = source @ filter for each of the 36 planes, or source @ filter^T where it is turned, of (scratch, where the
        filter lies: scratch again, or the kept one)."""
        layout = self.layout
        source = Desc((PLANES, self.tiles, self.from_channels), (self.source_plane // 4, self.from_channels, 1))
        strides = (layout.plane // 4, *((1, layout.outer) if layout.turned else (layout.outer, 1)))
        weights = Desc((PLANES, self.from_channels, self.to_channels), strides)
        result = Desc((PLANES, self.tiles, self.to_channels), (self.result_plane // 4, self.to_channels, 1))
        return self._program(fast(primitive("matmul", source, weights, None, result)), Place(0, self.source),
                             Place(1, layout.first if self.kept else self.filter), Place(0, self.result))

    def correlation(self, after: tuple[tuple[Any, ...], ...]) -> Callable[[], Program] | None:
        """filter (+)= source^T @ result for each of the 36 planes, of (scratch,)."""
        inner, outer = self.from_channels, self.to_channels
        source = Desc((PLANES, inner, self.tiles), (self.source_plane // 4, 1, inner))
        result = Desc((PLANES, self.tiles, outer), (self.result_plane // 4, outer, 1))
        weights = Desc((PLANES, inner, outer), (self.layout.plane // 4, outer, 1))
        return self._program(fast(primitive("matmul", source, result, None, weights, after=after)), Place(0, self.source),
                             Place(0, self.result), Place(0, self.filter))

    def _program(self, made: Primitive | None, left: Place, right: Place, out: Place) -> Callable[[], Program] | None:
        if made is None:
            return None
        pad = self.nbytes
        self.nbytes += -(-made.scratch // 64) * 64
        places = [(Argument.SOURCE, left), (Argument.WEIGHTS, right), (Argument.OUTPUT, out)]
        if made.scratch:
            places.append((Argument.SCRATCHPAD, Place(0, pad)))
        step = Step(made, tuple(places))
        return lambda: Program([step], compiled=True)      # as the transforms are


def spec_dimensions(spec: Spec, axes: Sequence[int]) -> tuple[int, int, int, int]:
    """[batch, height, width, channels] of an image value whose axes in the library's order are `axes`."""
    batch, channels, height, width = (spec.shape[axis] for axis in axes)
    return batch, height, width, channels
