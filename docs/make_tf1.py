"""Writes docs/tf1.md: every public name of TensorFlow 1.0 - 1.4 (docs/tf1_api.txt) against workbench.tf1."""
from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TARGET, LIST = ROOT / "docs" / "tf1.md", ROOT / "docs" / "tf1_api.txt"
STATES = ("same", "alias", "differs", "not offered")

HEAD = """# TensorFlow 1.x, name by name

Every public name of TensorFlow 1.0 - 1.4 against `import workbench.tf1 as tf`. Written by `python docs/make_tf1.py`; a test
fails when it is out of date. *same*: there, and it takes TensorFlow's parameters by position and by name; *alias*: the same as
another name, given behind it; *differs*: there, but the parameters named behind it are not taken, or stand elsewhere;
*not offered*: asking for it raises AttributeError with the text behind it.

`python -m workbench.tf1 check SCRIPT…` lists what a program needs.
"""


class Entry(NamedTuple):
    """A name of TensorFlow: its module ("tf.nn"), itself, its parameters (None where it is no function)."""

    module: str
    name: str
    parameters: tuple[str, ...] | None


class Row(NamedTuple):
    """What became of an entry: one of STATES, and how or why."""

    entry: Entry
    state: str
    why: str


def entries() -> Iterator[Entry]:
    """The list, in its order."""
    module = ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            module = line.strip("[]")
        elif line and not line.startswith("#"):
            name, bracket, inside = line.partition("(")
            yield Entry(module, name, _parameters(inside.removesuffix(")")) if bracket else None)


def _parameters(text: str) -> tuple[str, ...]:
    """Names of parameters; commas inside brackets and strings do not part them."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        quoted ^= character == '"'
        depth += 0 if quoted else (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.partition("=")[0].strip() for part in parts if part.strip())


def rows(tf: Any) -> list[Row]:
    """Every entry judged."""
    seen: dict[int, str] = {}
    return [_judged(entry, tf, seen) for entry in entries()]


def _judged(entry: Entry, tf: Any, seen: dict[int, str]) -> Row:
    found = tf
    path = [*entry.module.split(".")[1:], entry.name]
    try:
        for part in path:
            found = getattr(found, part)
    except AttributeError as error:
        return Row(entry, "not offered", str(error).partition("is not offered; ")[2] or str(error))
    why = differences(entry.parameters, found)
    if why:
        return Row(entry, "differs", why)
    full = ".".join(["tf", *path])
    first = seen.setdefault(id(found), full)
    return Row(entry, "alias", first) if callable(found) and first != full else Row(entry, "same", "")


def differences(wanted: tuple[str, ...] | None, found: Any) -> str:
    """What a call as TensorFlow's would not find, "" when nothing."""
    if wanted is None or not callable(found):
        return ""
    try:
        ours = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return ""
    names = [p.name for p in ours]
    free = any(p.kind is p.VAR_KEYWORD for p in ours)
    missing = [name for name in wanted if not name.startswith("*") and name not in names and not free]
    if missing:
        return "without " + ", ".join(missing)
    if any(p.kind is p.VAR_POSITIONAL for p in ours):
        return ""
    placed = [p.name for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    asked = [name for name in wanted if not name.startswith("*")]
    for number, (one, other) in enumerate(zip(asked, placed)):
        if one != other:
            return f"argument {number + 1} by position is {other}, not {one}"
    return "" if len(placed) >= len(asked) else f"{', '.join(asked[len(placed):])} by name only"


def page(tf: Any) -> str:
    """The whole page."""
    found = rows(tf)
    modules = list(dict.fromkeys(row.entry.module for row in found))
    parts = [HEAD, "\n| module | names | offered | " + " | ".join(STATES) + " |\n|" + "---|" * 7 + "\n"]
    for title, group in [(m, [r for r in found if r.entry.module == m]) for m in modules] + [("all", found)]:
        counts = [sum(row.state == state for row in group) for state in STATES]
        share = 100 * sum(counts[:3]) // len(group)
        parts.append(f"| {title} | {len(group)} | {share} % | {' | '.join(map(str, counts))} |\n")
    for module in modules:
        parts.append(f"\n## {module}\n")
        for state in STATES:
            group = [row for row in found if row.entry.module == module and row.state == state]
            if group and state == "same":
                parts.append("\nsame: " + " ".join(f"`{row.entry.name}`" for row in group) + "\n")
            elif group:
                parts.append(f"\n{state}:\n\n" + "".join(f"- `{r.entry.name}`: {r.why}\n" for r in group))
    return "".join(parts)


if __name__ == "__main__":
    import workbench.tf1

    TARGET.write_text(page(workbench.tf1), encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {len(rows(workbench.tf1))} names", file=sys.stderr)
