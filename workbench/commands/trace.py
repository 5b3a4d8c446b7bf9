"""`workbench trace`: look into a saved trace, and write it for Perfetto."""
from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from workbench import errors

__all__ = ["EMBEDDED", "export", "inspect", "load"]

EMBEDDED = "workbench-trace"     # id of the <script type="application/json"> in which a page may carry a trace
SCRIPT = re.compile(rb'<script[^>]*\bid="?' + EMBEDDED.encode() + rb'"?[^>]*>(.*?)</script>', re.S)
ROWS = 12
GZIP_MAGIC = b"\x1f\x8b"


def load(path: Path) -> dict[str, Any]:
    """The Chrome/Perfetto trace in a .json or .json.gz, or in a page that carries one; NotFoundError or DataLossError."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    except FileNotFoundError:
        raise errors.NotFoundError(f"trace {path}: there is no such file; check the path") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise errors.DataLossError(f"trace {path}: it cannot be read ({problem}); save it again") from problem
    if content.lstrip()[:1] == b"<":
        found = SCRIPT.search(content)
        if found is None:
            raise errors.DataLossError(f"trace {path}: the page of {len(content)} bytes has no trace in it; a "
                                       "report holds pictures alone: pass the file that --trace wrote")
        content = found[1]
    try:
        trace = json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise errors.DataLossError(f"trace {path}: its {len(content)} bytes are not JSON ({problem}); "
                                   "save it again") from problem
    trace = {"traceEvents": trace} if isinstance(trace, list) else trace
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(isinstance(event, dict) and "ph" in event for event in events):
        raise errors.DataLossError(f"trace {path}: it is JSON but holds no list of trace events; "
                                   "pass a trace that workbench train --trace wrote")
    return dict(trace)


def export(path: Path, target: Path) -> int:
    """Write the trace in `path` as JSON that ui.perfetto.dev opens; returns how many events it has."""
    trace = load(path)
    try:
        target.write_text(json.dumps(trace, separators=(",", ":")), encoding="utf-8")
    except OSError as problem:
        raise errors.FailedPreconditionError(f"trace {target}: it cannot be written ({problem.strerror}); "
                                             "choose another path") from problem
    return len(trace["traceEvents"])


def inspect(path: Path, console: Console) -> None:
    """Print what a trace holds: tasks, duration, and where the time went."""
    events = load(path)["traceEvents"]
    names = {event.get("pid"): event.get("args", {}).get("name", "") for event in events
             if event["ph"] == "M" and event.get("name") == "process_name"}
    spans = [event for event in events if event["ph"] == "X"]
    length = max((e["ts"] + e.get("dur", 0) for e in spans), default=0) - min((e["ts"] for e in spans), default=0)
    console.print(f"{path}: {len(events)} events, {len(spans)} spans over {length / 1e6:.3f} s", highlight=False,
                  soft_wrap=True)
    _print_totals(console, "task", spans, lambda event: names.get(event.get("pid")) or f"process {event.get('pid')}")
    _print_totals(console, "span", spans, lambda event: str(event.get("name")))


def _print_totals(console: Console, title: str, spans: list[dict[str, Any]], key: Any) -> None:
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in spans:
        total = totals[key(event)]
        total[0] += 1
        total[1] += event.get("dur", 0) / 1e3
    table = Table(title, "count", "total ms", box=None)
    for name, (count, milliseconds) in sorted(totals.items(), key=lambda item: -item[1][1])[:ROWS]:
        table.add_row(name, str(count), f"{milliseconds:.3f}")
    if len(totals) > ROWS:
        table.add_row(f"and {len(totals) - ROWS} more", "", "")
    console.print(table, highlight=False)
