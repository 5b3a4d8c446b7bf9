"""Files as operations: whole ones, and readers that take names from a queue and give records (paper §4.5)."""
from __future__ import annotations

import glob
import json
import os
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.state.queues import Queue
from workbench.core.state.readers import Reader
from workbench.core.state.record_buffer import RecordBuffer

FILE: dict[str, Any] = {"stateful": True, "differentiable": False}
READER: dict[str, Any] = {"context": True, "keeps": False, **FILE}


def _text(value):
    """A path from a string scalar."""
    raw = value.item() if isinstance(value, np.ndarray) else value
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


def _scalar(value):
    return np.asarray(value, dtype=object)


@op("filename[] -> []", types="string -> string", **FILE)
def read_file(filename):
    """The whole content of a file: string scalar. NotFoundError when it cannot be read."""
    path = _text(filename)
    try:
        with open(path, "rb") as file:
            return _scalar(file.read())
    except OSError as error:
        raise errors.NotFoundError(f"read_file: {path!r} cannot be read ({error.strerror}); check the path") from None


@op("filename[] contents[] ->", types="string string ->", **FILE)
def write_file(filename, contents):
    """Write `contents` as the file `filename`, making its folder."""
    path = _text(filename)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(contents.item() if isinstance(contents, np.ndarray) else contents)


@op("pattern? -> [n]", types="string -> string", shape=lambda inputs, attrs: [Shape([None])], **FILE)
def matching_files(pattern):
    """Paths that match one pattern or any of several, sorted: string [n], empty when there are none."""
    found = {path for one in np.asarray(pattern, object).ravel() for path in glob.glob(_text(one))}
    return np.array([os.fsencode(path) for path in sorted(found)], dtype=object)


@op("-> []", types="-> resource", **READER)
def file_reader(context, *, kind, options=(), shared_name="", container=""):
    """The handle of a reader of lines, whole files, records of fixed length or TFRecords."""
    name = shared_name or context.node
    return context.container.get(name, Reader, lambda: Reader(name, kind, tuple(options)), container)


@op("reader[] queue[] -> [] []", types="resource resource -> string string", blocking=True, counts=True, **READER)
def reader_read(context, reader, queue):
    """(key, value) of the next record; takes the name of the next file from the queue when one is at its end.

    OutOfRangeError once the queue is closed and empty and all files are read.
    """
    _read(context, reader, queue, 1, lambda found: context.done(*(_scalar(part) for part in found[0])))


@op("reader[] queue[] most[] -> [n] [n]", types="resource resource int -> string string", blocking=True,
    shape=lambda inputs, attrs: [Shape([None])] * 2, counts=True, **READER)
def reader_read_up_to(context, reader, queue, most):
    """(keys [n], values [n]) of up to `most` records, fewer when the queue is closed; needs no more files than that."""
    def done(found):
        context.done(*(np.array([row[side] for row in found] + [None], dtype=object)[:-1] for side in (0, 1)))
    _read(context, reader, queue, int(most), done)


def _read(context, reader, queue, most, done):
    found: list[tuple[bytes, bytes]] = []

    def opened(*names):
        reader.open(names[0].item() if isinstance(names[0], np.ndarray) else names[0])
        proceed()

    def failed(error):
        if found and isinstance(error, errors.OutOfRangeError):
            done(found)
        else:
            context.fail(error)

    def proceed():
        try:
            while len(found) < most and (record := reader.take()) is not None:
                found.append(record)
        except Exception as error:      # whoever feeds the queue must not see the failure of this step
            context.fail(error)
            return
        if len(found) >= most:
            done(found)
        else:
            context.on_cancel(queue.dequeue(opened, failed, context.node))

    if not isinstance(queue, Queue):
        raise errors.InvalidArgumentError(f"reader {reader.name!r}: it reads names from a queue, not from a "
                                          f"{type(queue).__name__}; pass a queue of strings")
    proceed()


@op("reader[] -> []", types="resource -> int64", **FILE)
def reader_num_records_produced(reader):
    """Records given out so far: int64 scalar."""
    return np.asarray(reader.produced, np.int64)


@op("reader[] -> []", types="resource -> int64", **FILE)
def reader_num_work_units_completed(reader):
    """Files read to their end so far: int64 scalar."""
    return np.asarray(reader.files, np.int64)


@op("reader[] ->", types="resource ->", **FILE)
def reader_reset(reader):
    """Forget the open file and the counts."""
    reader.reset()


@op("reader[] -> []", types="resource -> string", **FILE)
def reader_serialize_state(reader):
    """Where the reader is, as text that `reader_restore_state` takes: string scalar."""
    return _scalar(json.dumps(reader.position()).encode())


@op("reader[] state[] ->", types="resource string ->", **FILE)
def reader_restore_state(reader, state):
    """Go on from there. InvalidArgumentError for what no reader of this kind and these options said, NotFoundError when the
    file is gone."""
    try:
        position = json.loads(_text(state))
        told = position["kind"], position["options"]
    except (ValueError, KeyError, TypeError):
        raise errors.InvalidArgumentError(f"reader {reader.name!r}: the state {_text(state)[:80]!r} is none of a reader; pass "
                                          "what serialize_state() gave") from None
    if told != (reader.kind, list(reader.options)):
        raise errors.InvalidArgumentError(f"reader {reader.name!r}: the state is that of a reader {told} but this is "
                                          f"{(reader.kind, list(reader.options))}; restore it into the same kind")
    reader.resume(position)


# records without a queue

@op("-> [n]", types="-> string", shape=lambda inputs, attrs: [Shape([attrs["count"]])], counts=True, **READER)
def record_input(context, *, pattern, count, capacity=1, together=1, shift=0.0, seed=0):
    """`count` records of the TFRecord files that match `pattern`, in random order: string [count].

    See RecordBuffer. NotFoundError when no file matches, OutOfRangeError when the files hold no record.
    """
    buffer = context.container.get(context.node, RecordBuffer,
                                   lambda: RecordBuffer(context.node, pattern, capacity, together, shift, seed))
    return np.array([*buffer.take(count), None], dtype=object)[:-1]
