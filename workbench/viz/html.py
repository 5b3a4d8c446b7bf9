"""HTML text that is escaped unless it was made here."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

__all__ = ["Markup", "join", "table", "tag"]

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
    head = tag(
        "tr", *(tag("th", title, scope="col", role="columnheader", class_=kind) for title, kind in kinds), role="row"
    )
    body = [tag("tr", *(_cell(i == 0, *kinds[i], cell) for i, cell in enumerate(row)), role="row") for row in rows]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), role="table")
    return tag("div", made, class_="table", role="region", aria_label=caption, tabindex="0")


def _cell(header: bool, label: str, kind: str, content: Any) -> Markup:
    """NOTE: roles are spelled out because narrow screens show rows as cards, which would end their being a table."""
    if header:
        return tag("th", content, scope="row", role="rowheader", class_=kind)
    return tag("td", content, role="cell", class_=kind, data_label=label)
