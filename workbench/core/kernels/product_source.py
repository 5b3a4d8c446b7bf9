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
    matrix), whether ReLU ends it, `sign` of a scale of the right side (0: none), and the size of a block in registers."""

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
    def parts(self) -> list[tuple[int, int]]:
        """(row, column) of each part of a block that a vector of the language holds."""
        return [(row, column) for row in range(self.rows) for column in range(0, self.width, LANES)]


@functools.cache
def source(form: Form) -> str:
    """`product(…)` of the arrays in the order of the operation, the part of panels or blocks of rows, and the sizes."""
    arrays = {"": ["a", "b"], "bias": ["a", "b", "bias"], "start": ["a", "b", "start"]}[form.begin]
    arrays = ["start", "a", "b", "scale"] if form.sign else arrays
    given = "".join(f"{name}: floats32, " for name in (*arrays, "out"))
    lines = ["@wide", "@fused",
             f"def product({given}first: int64, last: int64, by_rows: int64, m: int64, k: int64, n: int64):",
             f"    panel = room({4 * DEPTH * form.width})",
             f"    side = room({4 * DEPTH * BLOCK if form.turn_a else 4})",
             f"    edge = room({8 * form.rows * form.width})",
             *([f"    factor = {form.sign} * scale[0]"] if form.sign else []),
             f"    top = first * {form.rows} if by_rows == 1 else 0",
             f"    bottom = last * {form.rows} if by_rows == 1 else m",
             "    bottom = bottom if bottom < m else m",
             f"    left = 0 if by_rows == 1 else first * {form.width}",
             f"    right = n if by_rows == 1 else last * {form.width}",
             "    right = right if right < n else n",
             f"    for t0 in range(0, k, {DEPTH}):",
             f"        depth = {DEPTH} if t0 + {DEPTH} < k else k - t0",
             f"        for i0 in range(top, bottom, {BLOCK}):",
             f"            end = i0 + {BLOCK} if i0 + {BLOCK} < bottom else bottom",
             *(_side() if form.turn_a else []),
             f"            for j in range(left, right, {form.width}):",
             f"                columns = {form.width} if j + {form.width} < n else n - j",
             *_panel(form),
             f"                for i in range(i0, end, {form.rows}):",
             *(f"                    {line}" for line in _block(form))]
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
    """Lines that pack columns of the right side, a row of the panel after the other; `base` and `step` say where they lie."""
    scaled = " * factor" if form.sign else ""
    into, at = f"panel + 4 * ({form.width} * t + {{}})", "(j + {}) * k + t0 + t" if form.turn_b else "(t0 + t) * n + j + {}"
    each = range(form.width) if form.turn_b else range(0, form.width, LANES)
    lanes = "spread16(factor) * " if form.sign else ""
    whole = [f"store1({into.format(c)}, b[{at.format(c)}]{scaled})" if form.turn_b else
             f"store16({into.format(c)}, {lanes}load16(place(b, {at.format(c)})))" for c in each]
    direct = not form.turn_b and not form.sign
    some = f" and end - i0 > {DIRECT}" if direct else ""
    return ["                base = panel",
            f"                step = {4 * form.width}",
            f"                if columns == {form.width}{some}:",
            "                    for t in range(depth):",
            *(f"                        {line}" for line in whole),
            f"                if columns < {form.width}:",
            "                    for t in range(depth):",
            *(f"                        store16({into.format(c)}, spread16(0.0))" for c in range(0, form.width, LANES)),
            "                        for c in range(columns):",
            f"                            store1({into.format('c')}, b[{at.format('c')}]{scaled})",
            *([f"                if columns == {form.width} and end - i0 <= {DIRECT}:",
               "                    base = place(b, t0 * n + j)",
               "                    step = 4 * n"] if direct else [])]


def _block(form: Form) -> list[str]:
    """Lines of one block; rows behind the last one are the last one once more, and leave the same there."""
    rows, name = range(form.rows), "sum{}_{}".format
    first = {"": "", "bias": "bias", "start": "start"}[form.begin if not form.sign else "start"]
    lines = [f"row{r} = i + {r} if i + {r} < end else end - 1" for r in rows]
    if form.turn_a:
        lines += ["group = side + ((i - i0) // 16 * 16 * depth + (i - i0) % 16) * 4",
                  *(f"from{r} = group + (row{r} - i) * 4" for r in rows)]
    lines += [f"{name(r, c)} = spread16(0.0)" for r, c in form.parts]
    lines += ["for t in range(depth):",
              *(f"    y{c} = load16(base + t * step + {4 * c})" for c in range(0, form.width, LANES)),
              *(line for r in rows for line in (
                  f"    x = spread16({f'load1(from{r} + {4 * LANES} * t)' if form.turn_a else f'a[row{r} * k + t0 + t]'})",
                  *(f"    {name(r, c)} = {name(r, c)} + x * y{c}" for c in range(0, form.width, LANES))))]
    lines += [f"into{r} = place(out, row{r} * n + j) if columns == {form.width} else edge + {4 * form.width} * (row{r} - i)"
              for r in rows]
    if first == "start":
        lines += [f"old{r} = place(start, row{r} * n + j)" for r in rows]
        lines += [f"old{r} = into{r} if t0 > 0 or columns < {form.width} else old{r}" for r in rows]
    else:
        lines += [f"old{r} = into{r}" for r in rows]
    lines += _brought(form, first)
    added = [f"{name(r, c)} = {name(r, c)} + load16(old{r} + {4 * c})" for r, c in form.parts]
    lines += added if first == "start" else ["if t0 > 0:", *(f"    {line}" for line in added)]
    ends = []
    if first == "bias":
        ends += [f"{name(r, c)} = {name(r, c)} + load16(row_bias + {4 * c})" for r, c in form.parts]
    if form.relu:
        ends += [f"{name(r, c)} = largest({name(r, c)}, spread16(0.0))" for r, c in form.parts]
    if ends:
        lines += ["if t0 + depth == k:", *(f"    {line}" for line in ends)]
    lines += [f"store16(into{r} + {4 * c}, {name(r, c)})" for r, c in form.parts]
    return [*lines, f"if columns < {form.width}:", "    for r in range(i, end if i + {0} > end else i + {0}):".format(form.rows),
            "        for c in range(columns):",
            f"            out[r * n + j + c] = load1(edge + 4 * ({form.width} * (r - i) + c))"]


def _brought(form: Form, first: str) -> list[str]:
    """Lines that bring what a narrow panel is added to."""
    lines = ["row_bias = place(bias, j) if columns == {0} else edge + {1}".format(
        form.width, 4 * form.rows * form.width)] if first == "bias" else []
    lines += [f"if columns < {form.width}:",
              "    for r in range(i, end if i + {0} > end else i + {0}):".format(form.rows),
              "        for c in range(columns):",
              "            old = out[r * n + j + c]" + (
                  " if t0 > 0 else start[r * n + j + c]" if first == "start" else ""),
              f"            store1(edge + 4 * ({form.width} * (r - i) + c), old)"]
    if first == "bias":
        lines += ["    for c in range(columns):", f"        store1(edge + 4 * ({form.rows * form.width} + c), bias[j + c])"]
    return lines
