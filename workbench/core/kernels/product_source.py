"""Text of compiled products of matrices: blocks in registers, columns of the right side packed for them.

An element is a sum over blocks of `DEPTH` terms, each added one after the other. So its bits depend on the number of terms
alone: not on the size of the blocks of rows and columns, on who computes them, or on the width of vectors.
"""
from __future__ import annotations

import functools
from dataclasses import dataclass

__all__ = ["DEPTH", "LANES", "Form", "source"]

LANES = 16
DEPTH = 256           # terms: so many of a panel of 16 columns take half of the first cache
BLOCK = 128           # rows whose part of the left side stays in the second cache
DIRECT = 8            # rows, up to which the right side is read where it lies: packing it costs as much as some four


@dataclass(frozen=True)
class Form:
    """What a product is made of, sizes aside: which sides are turned, what an element begins with ("", "bias" or "start", a
    matrix), whether ReLU ends it, the `sign` of a scale of the right side (0: none), and the size of a block in registers."""

    turn_a: bool = False
    turn_b: bool = False
    begin: str = ""
    relu: bool = False
    sign: float = 0.0
    rows: int = 4
    lanes: int = 1

    @property
    def width(self) -> int:
        return LANES * self.lanes

    @property
    def each(self) -> range:
        """The first columns of a block's vectors."""
        return range(0, self.width, LANES)

    @property
    def sums(self) -> list[tuple[str, int, int]]:
        """(name, row, first column) of the vectors that hold a block's sums."""
        return [(f"sum{row}_{column}", row, column) for row in range(self.rows) for column in self.each]

    @property
    def started(self) -> bool:
        """Is the product added to a matrix?"""
        return self.begin == "start" or self.sign != 0.0


@functools.cache
def source(form: Form) -> str:
    """`product(…)` of the arrays in the order of the operation, the part of the panels or of the blocks of rows, and sizes."""
    arrays = ["start", "a", "b", "scale"] if form.sign else ["a", "b", form.begin] if form.begin else ["a", "b"]
    given = "".join(f"{name}: floats32, " for name in (*arrays, "out"))
    lines = ["@wide", "@fused",
             f"def product({given}first: int64, last: int64, by_rows: int64, m: int64, k: int64, n: int64):",
             f"    panel = room({4 * DEPTH * form.width})",
             f"    side = room({4 * DEPTH * BLOCK if form.turn_a else 4})",
             f"    edge = room({4 * (form.rows + 1) * form.width})",
             *([f"    factor = {form.sign} * scale[0]"] if form.sign else []),
             f"    top = first * {form.rows} if by_rows == 1 else 0",
             f"    bottom = last * {form.rows} if by_rows == 1 and last * {form.rows} < m else m",
             f"    left = 0 if by_rows == 1 else first * {form.width}",
             f"    right = last * {form.width} if by_rows == 0 and last * {form.width} < n else n",
             f"    for t0 in range(0, k, {DEPTH}):",
             f"        depth = {DEPTH} if t0 + {DEPTH} < k else k - t0",
             f"        for i0 in range(top, bottom, {BLOCK}):",
             f"            end = i0 + {BLOCK} if i0 + {BLOCK} < bottom else bottom",
             *(_side() if form.turn_a else []),
             f"            for j in range(left, right, {form.width}):",
             f"                columns = {form.width} if j + {form.width} < n else n - j",
             *_panel(form),
             f"                for i in range(i0, end, {form.rows}):",
             *(f"                    {line}" for line in (*_sums(form), *_places(form), *_finished(form), *_narrow(form)))]
    return "\n".join(lines) + "\n"


def _side() -> list[str]:
    """Lines that bring rows of a turned left side together, 16 of each term."""
    return [f"            for p in range(i0, end, {LANES}):",
            f"                width = {LANES} if p + {LANES} < end else end - p",
            "                for t in range(depth):",
            f"                    into = side + ((p - i0) * depth + t * {LANES}) * 4",
            f"                    if width == {LANES}:",
            "                        copy16(place(a, (t0 + t) * m + p), into)",
            "                    else:",
            "                        for c in range(width):",
            "                            store1(into + 4 * c, a[(t0 + t) * m + p + c])"]


def _panel(form: Form) -> list[str]:
    """Lines that pack columns of the right side, row after row, in a narrow panel with zeros; `base` and `step` say where they
    lie."""
    into = f"panel + 4 * ({form.width} * t + {{}})"
    at = "(j + {}) * k + t0 + t" if form.turn_b else "(t0 + t) * n + j + {}"
    one, lanes = (" * factor", "spread16(factor) * ") if form.sign else ("", "")
    direct = not form.turn_b and not form.sign
    whole = ([f"store1({into.format(c)}, b[{at.format(c)}]{one})" for c in range(form.width)] if form.turn_b else
             [f"store16({into.format(c)}, {lanes}load16(place(b, {at.format(c)})))" for c in form.each])
    return ["                base = panel",
            f"                step = {4 * form.width}",
            f"                if columns == {form.width}{f' and end - i0 > {DIRECT}' if direct else ''}:",
            "                    for t in range(depth):",
            *(f"                        {line}" for line in whole),
            f"                if columns < {form.width}:",
            "                    for t in range(depth):",
            *(f"                        store16({into.format(c)}, spread16(0.0))" for c in form.each),
            "                        for c in range(columns):",
            f"                            store1({into.format('c')}, b[{at.format('c')}]{one})",
            *([f"                if columns == {form.width} and end - i0 <= {DIRECT}:",
               "                    base = place(b, t0 * n + j)",
               "                    step = 4 * n"] if direct else [])]


def _sums(form: Form) -> list[str]:
    """Lines that add up a block; rows behind the last one are the last one once more, and leave the same in its place."""
    rows = range(form.rows)
    ends = [f"row{r} = i + {r} if i + {r} < end else end - 1" for r in rows]
    if form.turn_a:
        ends += [f"group = side + ((i - i0) // {LANES} * {LANES} * depth + (i - i0) % {LANES}) * 4",
                 *(f"from{r} = group + (row{r} - i) * 4" for r in rows)]
    one = f"load1(from{{}} + {4 * LANES} * t)" if form.turn_a else "a[row{} * k + t0 + t]"
    return [*ends,
            *(f"{name} = spread16(0.0)" for name, _, _ in form.sums),
            "for t in range(depth):",
            *(f"    y{c} = load16(base + t * step + {4 * c})" for c in form.each),
            *(line for r in rows for line in (
                f"    x = spread16({one.format(r)})",
                *(f"    {name} = {name} + x * y{c}" for name, row, c in form.sums if row == r)))]


def _places(form: Form) -> list[str]:
    """Lines that say where a block goes, and where lies what it is added to: a narrow one goes to the edge first."""
    narrow, spot = f"columns < {form.width}", f"edge + {4 * form.width} * (row{{}} - i)"
    lines = [f"into{r} = {spot.format(r)} if {narrow} else place(out, row{r} * n + j)" for r in range(form.rows)]
    old = "out[r * n + j + c]"
    if form.started:
        lines += [f"old{r} = into{r} if t0 > 0 or {narrow} else place(start, row{r} * n + j)" for r in range(form.rows)]
        old += " if t0 > 0 else start[r * n + j + c]"
    lines += [f"if {narrow}:",
              f"    for r in range(i, i + {form.rows} if i + {form.rows} < end else end):",
              "        for c in range(columns):",
              f"            store1(edge + 4 * ({form.width} * (r - i) + c), {old})"]
    if form.begin == "bias":
        behind = 4 * form.rows * form.width
        lines += ["    for c in range(columns):", f"        store1(edge + {behind} + 4 * c, bias[j + c])",
                  f"more = edge + {behind} if {narrow} else place(bias, j)"]
    return lines


def _finished(form: Form) -> list[str]:
    """Lines that add a block to what it begins with, or to what earlier terms left, and end its last terms."""
    added = [f"{name} = {name} + load16({'old' if form.started else 'into'}{r} + {4 * c})" for name, r, c in form.sums]
    ends = [f"{name} = {name} + load16(more + {4 * c})" for name, _, c in form.sums if form.begin == "bias"]
    ends += [f"{name} = largest({name}, spread16(0.0))" for name, _, _ in form.sums if form.relu]
    return [*(added if form.started else ["if t0 > 0:", *(f"    {line}" for line in added)]),
            *(["if t0 + depth == k:", *(f"    {line}" for line in ends)] if ends else []),
            *(f"store16(into{r} + {4 * c}, {name})" for name, r, c in form.sums)]


def _narrow(form: Form) -> list[str]:
    """Lines that bring a narrow block from the edge to its place."""
    return [f"if columns < {form.width}:",
            f"    for r in range(i, i + {form.rows} if i + {form.rows} < end else end):",
            "        for c in range(columns):",
            f"            out[r * n + j + c] = load1(edge + 4 * ({form.width} * (r - i) + c))"]
