"""Summaries: named values of a step, collected in one fetch, to the journal that all views read and to a file."""
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.trace import journal
from workbench.nn.arguments import refuse
from workbench.nn.variables import GraphKeys, get_collection, root_graph

__all__ = ["FileWriter", "Summary", "histogram", "image", "merge", "merge_all", "read_events", "scalar", "text"]


def _add(operation: str, name: str, value: Any, collections: Any, family: str | None, **attrs: Any) -> Tensor:
    graph = root_graph()
    tag = f"{family}/{name}" if family else f"{graph.scope}{name}"
    title = name.replace(" ", "_").replace(":", "_")
    made = getattr(ops, operation)(convert(value), tag=tag.replace(" ", "_"), name=title, **attrs)
    for key in collections if collections is not None else [GraphKeys.SUMMARIES]:
        graph.add_to_collection(key, made)
    return made


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A number of each step (a scalar tensor of a real type) as a series `name`; gives a string scalar for
    FileWriter.add_summary."""
    return _add("scalar_summary", name, tensor, collections, family)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The distribution of a tensor's elements in a step; gives a string scalar for FileWriter.add_summary."""
    return _add("histogram_summary", name, values, collections, family)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Up to `max_outputs` pictures of images [n, height, width, 1, 3 or 4], uint8 or floats (scaled to be visible)."""
    return _add("image_summary", name, tensor, collections, family, max_outputs=max_outputs)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Text of a step, from a string tensor; gives a string scalar for FileWriter.add_summary."""
    return _add("text_summary", name, tensor, collections, None)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries as one string scalar."""
    made = ops.merge_summary(list(inputs), name=name)
    for key in collections or ():
        root_graph().add_to_collection(key, made)
    return made


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None) -> Tensor | None:
    """All summaries of the graph as one string scalar, None when there are none."""
    found = get_collection(key, scope)
    return merge(found) if found else None


class Summary:
    """Named numbers made in Python, for FileWriter.add_summary: `Summary(value=[Summary.Value(tag=…, simple_value=…)])`."""

    class Value:
        """One number and its name."""

        def __init__(self, tag: str = "", simple_value: float = 0.0) -> None:
            self.tag, self.simple_value = tag, float(simple_value)

    class _Values(list[Any]):
        def add(self, tag: str = "", simple_value: float = 0.0) -> Summary.Value:
            """Append a value and return it, to be filled in."""
            self.append(Summary.Value(tag, simple_value))
            return self[-1]

    def __init__(self, value: Any = ()) -> None:
        self.value = Summary._Values(value)

    def SerializeToString(self) -> bytes:
        """What a summary tensor with these values would give."""
        return b"\n".join(json.dumps({"kind": "scalar", "tag": v.tag, "value": v.simple_value}).encode()
                          for v in self.value)

    def ParseFromString(self, serialized: Any) -> int:
        """Take over the numbers of what a summary tensor gave; other kinds are left out. Gives the count of bytes."""
        raw = serialized.item() if hasattr(serialized, "item") else serialized
        events = [json.loads(line) for line in raw.splitlines()]
        self.value = Summary._Values(Summary.Value(e["tag"], e["value"]) for e in events if e["kind"] == "scalar")
        return len(raw)

    @classmethod
    def FromString(cls, serialized: Any) -> Summary:
        """The numbers of what a summary tensor gave."""
        made = cls()
        made.ParseFromString(serialized)
        return made


class FileWriter:
    """Appends summaries to `events.jsonl` in `logdir`, one JSON object a line, and scalars to the journal.

    Each line has "wall" (seconds since the epoch), "step", "kind" and "tag"; the graph goes to `graph.txt`. Lines reach
    the file when `max_queue` wait or `flush_secs` seconds have gone by, and at flush() and close(). One writer of a
    folder and `filename_suffix` at a time.
    """

    def __init__(self, logdir: Any, graph: Graph | None = None, max_queue: int = 10, flush_secs: float = 120,
                 graph_def: Any = None, filename_suffix: str = "") -> None:
        refuse("FileWriter", "pass graph", graph_def=graph_def)
        if max_queue < 1 or flush_secs < 0:
            raise errors.InvalidArgumentError(f"FileWriter: max_queue is {max_queue} and flush_secs {flush_secs}; use 1 or "
                                              "more and 0 or more")
        self._most, self._seconds, self._waiting, self._flushed = max_queue, flush_secs, 0, time.monotonic()
        self._folder = Path(os.fspath(logdir))
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"events{filename_suffix}.jsonl"
        self._file: Any = open(self._path, "a", encoding="utf-8")      # noqa: SIM115
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> str:
        """The folder it writes to."""
        return str(self._folder)

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write what a summary tensor gave (bytes or a string array of rank 0), or a Summary; FailedPreconditionError
        once closed."""
        if self._file is None:
            raise errors.FailedPreconditionError(f"FileWriter {self._folder}: it is closed; call reopen() first")
        raw = summary.SerializeToString() if isinstance(summary, Summary) else summary
        raw = raw.item() if hasattr(raw, "item") else raw
        step = -1 if global_step is None else int(global_step)
        for line in raw.splitlines():
            event = json.loads(line)
            self._file.write(json.dumps({"wall": time.time(), "step": step, **event}) + "\n")
            if event["kind"] == "scalar":
                journal.point(event["tag"], step, event["value"])
        self._waiting += 1
        if self._waiting >= self._most or time.monotonic() - self._flushed >= self._seconds:
            self.flush()

    def add_graph(self, graph: Graph, global_step: Any = None) -> None:
        """Write the graph as text, an operation a line; `graph_<step>.txt` where a global step is given."""
        lines = [f"{op.name} = {op.type}({', '.join(t.name for t in op.inputs)})\n" for op in graph.get_operations()]
        name = "graph.txt" if global_step is None else f"graph_{int(global_step)}.txt"
        (self._folder / name).write_text("".join(lines), encoding="utf-8")

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Write what a traced step recorded, as JSON, to `run_<tag>.json`, or `run_<tag>_<step>.json` with a step."""
        stats = getattr(run_metadata, "to_dict", None)
        if stats is None:
            raise errors.InvalidArgumentError(f"add_run_metadata: run_metadata is a {type(run_metadata).__name__}; pass the "
                                              "RunMetadata of a step")
        name = f"run_{tag}.json" if global_step is None else f"run_{tag}_{int(global_step)}.json"
        (self._folder / name).write_text(json.dumps(stats()), encoding="utf-8")

    def flush(self) -> None:
        """Have everything on disk."""
        if self._file is not None:
            self._file.flush()
            self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """End; closing twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def reopen(self) -> None:
        """Go on after close()."""
        if self._file is None:
            self._file = open(self._path, "a", encoding="utf-8")      # noqa: SIM115

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


def read_events(logdir: Any) -> Iterator[dict[str, Any]]:
    """The events a FileWriter wrote, in order. NotFoundError without a file, DataLossError naming the line that is damaged."""
    path = Path(os.fspath(logdir)) / "events.jsonl"
    if not path.exists():
        raise errors.NotFoundError(f"read_events: {path} does not exist; pass the folder of a FileWriter")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)
            except ValueError:
                raise errors.DataLossError(f"read_events: line {number} of {path} is no JSON ({line[:40]!r}); "
                                           "remove it") from None
