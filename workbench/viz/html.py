"""HTML text that is escaped unless it was made here, and numbers the way people read them."""
from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

__all__ = ["Markup", "amount", "join", "ms", "number", "percent", "table", "tag"]

_VOID = frozenset(("meta", "br", "hr", "col"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. Strings are escaped, Markup is not; `class_` and `aria_label` become `class` and `aria-label`;
    an attribute that is None or False is left out, one that is True has no value."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        words.append(label if value is True else f'{label}="{html.escape(str(value), quote=True)}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(children)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    """The parts one after the other, escaped unless they are Markup; None is left out."""
    return Markup("".join(p if isinstance(p, Markup) else html.escape(str(p)) for p in parts if p is not None))


def table(caption: str, columns: Iterable[tuple[str, str]], rows: Iterable[Iterable[Any]]) -> Markup:
    """A table; a column is (title, "text" | "number" | "wide"). The first cell of a row is its header."""
    kinds = list(columns)
    head = tag("tr", *(tag("th", title, scope="col", class_=kind) for title, kind in kinds))
    body = [tag("tr", *(tag("th" if i == 0 else "td", cell, class_=kinds[i][1], scope="row" if i == 0 else None)
                        for i, cell in enumerate(row))) for row in rows]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_="table", role="region", aria_label=caption, tabindex="0")


def number(value: float, digits: int = 3) -> str:
    """'1,234', '12.3', '0.0123': `digits` significant digits, no exponent between 1e-4 and 1e15."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if isinstance(value, int) or abs(value) >= 10 ** digits:
        return f"{value:,.0f}"
    if value and abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}"


def ms(value: float) -> str:
    """Milliseconds in the unit that reads best: '870 µs', '9.8 ms', '1.25 s'."""
    if abs(value) >= 1000:
        return f"{number(value / 1000)} s"
    return f"{number(value)} ms" if abs(value) >= 1 or value == 0 else f"{number(1000 * value)} µs"


def percent(share: float) -> str:
    return f"{number(100 * share, 2)} %"


def amount(nbytes: float) -> str:
    """'31.4 kB': decimal units, as link speeds are given."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(nbytes) < 1000:
            return f"{number(float(nbytes))} {unit}"
        nbytes /= 1000
    return f"{number(nbytes)} TB"
