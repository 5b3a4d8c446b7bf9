"""How graphs, sessions and trainings show themselves in a notebook; what they say elsewhere is their `repr`."""

from __future__ import annotations

import html
from collections import Counter
from typing import Any

from workbench.core.trace import journal
from workbench.viz.lost import broken

__all__ = ["explanation_html", "graph_html", "install", "session_html"]

_SCOPES = 12  # of a graph, the largest ones
_LONGEST = 60  # characters of a cell


def _table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(f'<tr><th style="text-align:left">{html.escape(name)}</th><td style="text-align:left">{html.escape(value)}'
                    "</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def graph_html(graph: Any) -> str:
    """How large it is, what it holds, where it was asked to be."""
    operations = graph.operations
    kinds, scopes, devices = Counter[str](), Counter[str](), Counter[str]()
    for op in operations:
        kinds[op.kind] += 1
        devices[op.device] += bool(op.device)
        if "/" in op.name:
            scopes[op.name.partition("/")[0]] += 1

    def most(counted: Counter[str], limit: int = _SCOPES) -> str:
        words = [f"{name} {count:,}" for name, count in counted.most_common(limit) if count]
        return ", ".join(words) + (f" and {len(counted) - limit} more" if len(counted) > limit else "")
    rows = [("graph", f"{len(operations):,} operations, {kinds['variable']:,} variables"), ("operations", most(kinds)),
            ("scopes", most(scopes)), ("devices asked for", most(devices))]
    return _table([row for row in rows if row[1]])


def session_html(session: Any) -> str:
    """What it runs on, what it does now, and the graph it runs."""
    status = journal.current()
    mine = status.session == session.name
    state = " ".join(filter(None, (status.state, status.what, status.cause))) if mine else "another session is at work"
    rows = [("session", session.name), ("state", state), ("step", f"{status.step:,}" if mine else ""),
            ("graph", f"{len(session.graph.operations):,} operations")]
    rows += [("trouble", " ".join(words)) for words in broken(status) if mine]
    return _table([row for row in rows if row[1]])


def explanation_html(explanation: Any) -> str:
    """What a step does, as a table; of a long text a cell shows the beginning, and all of it under the pointer."""
    def row(cells: tuple[str, ...], kind: str) -> str:
        return "<tr>" + "".join(f'<{kind} style="text-align:left" title="{html.escape(text)}">'
                                f"{html.escape(_short(text))}</{kind}>" for text in cells) + "</tr>"
    lines = "".join(f"<div>{html.escape(line)}</div>" for line in (explanation.summary, *explanation.usages))
    head, *rows = explanation.table
    return f"{lines}<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _training(training: Any) -> Any:
    from workbench.widgets.training import bundle  # ipywidgets are loaded by whoever needs them

    return bundle(training)


def install(shell: Any) -> None:
    """Teach this IPython shell to show them: by name, for views know no graph and no session."""
    html_formatter = shell.display_formatter.formatters["text/html"]
    html_formatter.for_type_by_name("workbench.core.graph.graph", "Graph", graph_html)
    html_formatter.for_type_by_name("workbench.core.run.session", "Session", session_html)
    html_formatter.for_type_by_name("workbench.core.run.explain", "Explanation", explanation_html)
    shell.display_formatter.mimebundle_formatter.for_type_by_name("workbench.train.sessions.background", "Training", _training)
