"""Summaries that the step itself writes, without a fetch and add_summary: tf.contrib.summary of TensorFlow 1.5 on."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.entered import default_session
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.nn.arguments import refuse
from workbench.train.optimizers.schedules import get_or_create_global_step
from workbench.train.saving import summary
from workbench.train.saving.events import FileWriter

__all__ = ["SummaryWriter", "all_summary_ops", "always_record_summaries", "audio", "create_file_writer",
           "create_summary_file_writer", "flush", "generic", "graph", "histogram", "image", "initialize",
           "never_record_summaries", "record_summaries_every_n_global_steps", "scalar", "should_record_summaries",
           "summary_writer_initializer_op"]

_WRITTEN, _WRITERS, _STATE = "_SUMMARY_V2", "_SUMMARY_WRITER_INIT_V2", "step summaries"


class _State:
    """Of a graph: where summaries go, and whether they are written (a bool, or a bool tensor)."""

    writer: SummaryWriter | None = None
    recorded: Any = False


def _state() -> _State:
    found: _State = root_graph().held.setdefault(_STATE, _State())
    return found


class SummaryWriter:
    """Writes what the summaries of a graph give to a file of events in a folder, opened when it is first needed."""

    def __init__(self, logdir: str, **options: Any) -> None:
        self._logdir, self._options = logdir, options
        self._file: FileWriter | None = None

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """Summaries that are made inside go to this writer."""
        state = _state()
        before, state.writer = state.writer, self
        try:
            yield self
        finally:
            state.writer = before

    def set_as_default(self) -> None:
        """Summaries that are made from here on go to this writer."""
        _state().writer = self

    def open(self) -> None:
        """Create the file, unless there is one."""
        self._file = self._file or FileWriter(self._logdir, **self._options)

    def write(self, made: bytes, step: Any) -> None:
        """Append a summary."""
        self.open()
        assert self._file is not None
        self._file.add_summary(made, int(step))

    def write_graph(self, described: Any, step: Any = None) -> None:
        """Append a graph."""
        self.open()
        assert self._file is not None
        self._file.add_graph(described, None if step is None else int(step))

    def flush(self, name: str | None = None) -> Operation:
        """The operation that brings what was written to the file."""
        return ops.py_func(self._flush, [], [], name=name or "flush")

    def close(self, name: str | None = None) -> Operation:
        """The operation that flushes and ends the file."""
        return ops.py_func(self._close, [], [], name=name or "close")

    def init(self, name: str | None = None) -> Operation:
        """The operation that creates the file."""
        return ops.py_func(self.open, [], [], name=name or "create_summary_file_writer")

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def create_file_writer(logdir: Any, max_queue: Any = None, flush_millis: Any = None, filename_suffix: Any = None,
                       name: str | None = None) -> SummaryWriter | None:
    """A writer to a new file in `logdir`; None for None. ValueError for a folder that only the step knows."""
    if logdir is None:
        return None
    found = constant_value(logdir) if isinstance(logdir, Tensor) else logdir
    if found is None:
        raise ValueError(f"create_file_writer: logdir {logdir.name} is known in the step only; pass a text")
    given: Any = found.item() if hasattr(found, "item") else found
    folder = os.fsdecode(given)
    options = {"max_queue": max_queue, "filename_suffix": filename_suffix,
               "flush_secs": None if flush_millis is None else flush_millis / 1000}
    made = SummaryWriter(folder, **{key: value for key, value in options.items() if value is not None})
    root_graph().add_to_collection(_WRITERS, made.init(name))
    return made


create_summary_file_writer = create_file_writer


# when summaries are written

@contextlib.contextmanager
def _recording(recorded: Any) -> Iterator[None]:
    state = _state()
    before, state.recorded = state.recorded, recorded
    try:
        yield
    finally:
        state.recorded = before


def always_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Summaries that are made inside are written in each step."""
    return _recording(True)


def never_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Summaries that are made inside are not written."""
    return _recording(False)


def record_summaries_every_n_global_steps(n: Any, global_step: Any = None) -> contextlib.AbstractContextManager[None]:
    """Summaries that are made inside are written in steps whose number `n` divides; none where `n` is 0."""
    step = convert(get_or_create_global_step() if global_step is None else global_step)
    if isinstance(n, int) and n == 0:
        return _recording(False)
    return _recording(ops.equal(step % ops.cast(convert(n), step.dtype), ops.cast(0, step.dtype)))


def should_record_summaries() -> Any:
    """Are summaries that are made here written: a bool, or a bool tensor of the step."""
    return _state().recorded


# summaries

def _numbered(step: Any) -> Tensor:
    """The number of the step, by default the global one: int64."""
    found: Tensor = ops.cast(convert(get_or_create_global_step() if step is None else step), "int64")
    return found


def _written(make: Callable[[], Tensor], step: Any) -> Operation:
    """The operation that writes a summary, which does nothing where there is no writer or none is to be written."""
    state = _state()
    writer, recorded = state.writer, state.recorded
    if writer is None or recorded is False:
        return ops.no_op()
    number = _numbered(step)
    scope = get_default_graph().scope      # a branch is no part of the tag

    def write() -> Operation:
        with get_default_graph().name_scope(scope):
            return ops.py_func(writer.write, [make(), number], [], name="write_summary")
    made: Operation = write() if recorded is True else ops.cond(recorded, write, ops.no_op)
    root_graph().add_to_collection(_WRITTEN, made)
    return made


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Operation:
    """Write a number as a point of a series, at `step` or the global step."""
    return _written(lambda: summary.scalar(name, tensor, [], family), step)


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Operation:
    """Write the distribution of a tensor's elements."""
    return _written(lambda: summary.histogram(name, tensor, [], family), step)


def image(name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: str | None = None,
          step: Any = None) -> Operation:
    """Write up to `max_images` pictures; elements that are not finite are shown as summary.image shows them.
    UnimplementedError for a `bad_color`."""
    refuse("contrib.summary.image", "leave it out", bad_color=bad_color)
    return _written(lambda: summary.image(name, tensor, max_images, [], family), step)


def audio(name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, family: str | None = None,
          step: Any = None) -> Operation:
    """Write up to `max_outputs` sounds."""
    return _written(lambda: summary.audio(name, tensor, sample_rate, max_outputs, [], family), step)


def generic(name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None) -> Operation:
    """Write a tensor as it is, with the metadata of a plugin."""
    return _written(lambda: summary.tensor_summary(name, tensor, None, [], metadata, family), step)


def graph(param: Any, step: Any = None, name: str | None = None) -> Operation:
    """Write a graph, a Graph or GraphDef, for the page of graphs."""
    writer = _state().writer
    if writer is None:
        return ops.no_op(name=name)
    number = _numbered(step)
    return ops.py_func(lambda at: writer.write_graph(param, at), [number], [], name=name)


# what a program runs

def all_summary_ops() -> list[Operation]:
    """The operations of the graph that write summaries."""
    return list(root_graph().get_collection(_WRITTEN))


def summary_writer_initializer_op() -> list[Operation]:
    """The operations that create the files of the graph's writers."""
    return list(root_graph().get_collection(_WRITERS))


def initialize(graph: Any = None, session: Any = None) -> None:
    """Create the files, and write `graph` where one is given. ValueError without a session."""
    running = session or default_session()
    running.run(summary_writer_initializer_op())
    writer = _state().writer
    if graph is not None and writer is not None:
        writer.write_graph(graph)


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> Operation:
    """The operation that flushes a writer, or that in force."""
    found = writer or _state().writer
    return ops.no_op(name=name) if found is None else found.flush(name)
