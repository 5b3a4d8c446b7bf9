"""Event files: what a program tells TensorBoard, as TFRecords of the protocol buffer Event; written and read."""
from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from workbench import errors
from workbench.core.graph.graph import Graph
from workbench.core.state import tfrecord as records
from workbench.core.trace import journal
from workbench.formats.messages import decode, message
from workbench.train.saving.plugin_assets import write_plugin_assets

__all__ = ["FileWriter", "FileWriterCache", "summary_iterator"]

_VERSION = "brain.Event:2"
_NOT_LETTERS = re.compile(r"[^\w.-]", re.ASCII)


class FileWriter:
    """Appends events to a new file `events.out.tfevents.<seconds>.<host>` in `logdir`, and scalars to the journal.

    Events reach the file when `max_queue` wait or `flush_secs` seconds have gone by, and at flush() and close(). After
    close() the next event needs reopen(), which begins another file.
    """

    def __init__(self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120,
                 graph_def: Any = None, filename_suffix: str | None = None) -> None:
        if max_queue < 1 or flush_secs < 0:
            raise errors.InvalidArgumentError(f"FileWriter: max_queue is {max_queue} and flush_secs {flush_secs}; use 1 or "
                                              "more and 0 or more")
        self._most, self._seconds, self._suffix = max_queue, flush_secs, filename_suffix or ""
        self._folder, self._lock = Path(os.fsdecode(logdir)), threading.Lock()
        self._described: set[str] = set()      # tags whose metadata the file has: only their first value tells it
        self._tags: set[str] = set()           # of traced steps
        self._file: BinaryIO | None = None
        self.reopen()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def get_logdir(self) -> str:
        """The folder it writes to."""
        return str(self._folder)

    # what is written
    def add_event(self, event: Any) -> None:
        """Write an Event. FailedPreconditionError once closed."""
        self._write(event.SerializeToString())

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write what a summary tensor gave (bytes or a string array of rank 0), or a Summary. DataLossError for other bytes."""
        raw = summary.item() if hasattr(summary, "item") else summary
        found = decode("Summary", raw if isinstance(raw, bytes) else raw.SerializeToString(), "add_summary")
        for value in found.value:
            if value.HasField("metadata"):
                if value.tag in self._described:
                    value.ClearField("metadata")
                self._described.add(value.tag)
        self._add(global_step, summary=found)
        for value in found.value:
            if value.WhichOneof("value") == "simple_value":
                journal.point(value.tag, -1 if global_step is None else int(global_step), value.simple_value)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Write a SessionLog: that a session started, stopped, or wrote a checkpoint."""
        self._add(global_step, session_log=message("SessionLog").FromString(session_log.SerializeToString()))

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph with the files of its plugins, or the GraphDef of one.

        An operation that TensorFlow has not is written under our name for it. TypeError for anything else.
        """
        given = graph if graph is not None else graph_def
        if isinstance(given, Graph):
            write_plugin_assets(given, self._folder)
            from workbench.formats.writer import graph_def as graph_message  # a tenth of the time of an import of all
            given = graph_message(given, add_shapes=True, strangers=True)
        if not hasattr(given, "SerializeToString"):
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        self._add(global_step, graph_def=given.SerializeToString())

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Write a MetaGraphDef. TypeError for anything else."""
        if not hasattr(meta_graph_def, "graph_def"):
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}")
        self._add(global_step, meta_graph_def=meta_graph_def.SerializeToString())

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Write what a traced step recorded, under a `tag` that no other has. ValueError for a second one with it."""
        if tag in self._tags:
            raise ValueError("The provided tag was already used for this event type")
        self._tags.add(tag)
        if not hasattr(run_metadata, "SerializeToString"):
            raise errors.InvalidArgumentError(f"add_run_metadata: run_metadata is a {type(run_metadata).__name__}; pass the "
                                              "RunMetadata of a step")
        self._add(global_step, tagged_run_metadata=message("TaggedRunMetadata")(
            tag=tag, run_metadata=run_metadata.SerializeToString()))

    def _add(self, global_step: Any, **what: Any) -> None:
        step = 0 if global_step is None else int(global_step)
        self._write(message("Event")(wall_time=time.time(), step=step, **what).SerializeToString())

    # the file
    def _write(self, event: bytes) -> None:
        with self._lock:
            if self._file is None:
                raise errors.FailedPreconditionError(f"FileWriter {self._folder}: it is closed; call reopen() first")
            self._file.write(records.frame(event))
            self._waiting += 1
            if self._waiting >= self._most or time.monotonic() - self._flushed >= self._seconds:
                self._flush()

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def flush(self) -> None:
        """Have everything on disk."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """End; closing twice is fine."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def reopen(self) -> None:
        """Go on after close(), in another file; nothing while it is open."""
        with self._lock:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = _created(self._folder, self._suffix)
                head = message("Event")(wall_time=time.time(), file_version=_VERSION)
                self._file.write(records.frame(head.SerializeToString()))
                self._flush()

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


def _created(folder: Path, suffix: str) -> BinaryIO:
    """A file that was not there: writers that begin in one second get different ones, in the order in which they began."""
    host = _NOT_LETTERS.sub("_", socket.gethostname()) or "localhost"
    stem, count = f"events.out.tfevents.{int(time.time()):010d}.{host}", 0
    while True:
        try:
            return open(folder / f"{stem}{f'.{count}' if count else ''}{suffix}", "xb")
        except FileExistsError:
            count += 1


class FileWriterCache:
    """One writer per folder, for those who would open several."""

    _writers: dict[str, FileWriter] = {}      # noqa: RUF012
    _lock = threading.RLock()

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of a folder, opened at the first call."""
        with FileWriterCache._lock:
            path = os.fsdecode(logdir)
            if path not in FileWriterCache._writers:
                FileWriterCache._writers[path] = FileWriter(path)
            return FileWriterCache._writers[path]

    @staticmethod
    def clear() -> None:
        """Close and forget all of them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._writers.values():
                writer.close()
            FileWriterCache._writers.clear()


def summary_iterator(path: Any) -> Iterator[Any]:
    """The Events of a file, in order. NotFoundError where there is none, DataLossError says where it is damaged."""
    name = os.fsdecode(path)
    try:
        file = open(name, "rb")      # noqa: SIM115
    except OSError as error:
        raise errors.NotFoundError(f"summary_iterator: {name!r} cannot be read ({error.strerror}); pass a file of a "
                                   "FileWriter") from None
    with file:
        for offset, record in records.frames(file, name):
            yield decode("Event", record, f"summary_iterator: the record at byte {offset} of {name!r}")
