"""Checkpoints as operations: the task that holds variables writes them, and reads them back (paper §4.3)."""
from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import returns_list
from workbench.core.graph.dtype import as_dtype, string
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.state import checkpoint
from workbench.core.state.increments import Increments, Value
from workbench.core.state.kept import Kept
from workbench.core.state.pins import Pin, snapshot_together
from workbench.core.state.shards import write_shard
from workbench.core.state.snapshots import Snapshot, positions, set_positions, set_state, state_of
from workbench.core.threads import start_thread

STATE: dict[str, Any] = {"stateful": True, "differentiable": False}


def _text(value):
    raw = value.item() if isinstance(value, np.ndarray) else value
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else str(raw)


@op("base[] *handles[] -> []", types="string resource -> string", context=True, blocking=True, **STATE)
def save(context, base, *handles, parts, index=0, count=1, snapshot="", increments=0):
    """Write the variables into shard `index` of `count` of the checkpoint at `base`, beside them; gives the shard's record
    as JSON, for whoever publishes the checkpoint.

    `parts` has (name,) for each variable, or (name, start, shape) for one that is a block of a larger tensor. All are of
    one moment: an update is in all of them or in none; with the name of a `snapshot`, of the moment when that was taken.
    Then blocks of rows that did not change since they were written are named where they are, in up to so many checkpoints
    (`increments`) after the one that wrote them. Nothing waits for the disk but this step. Raises FailedPreconditionError for
    a variable without a value or a folder that cannot be written, ResourceExhaustedError when the disk is full.
    """
    def write(check):
        taken = _snapshot(context, snapshot) if snapshot else None
        values = _values(parts, handles, taken.take() if taken else snapshot_together(handles))
        known = taken.increments if taken else Increments()
        return known.write(_text(base), values, index, count, increments, check)
    _write(context, base, write)


def _write(context, base, write):
    """Give the record of `write(check)`, made on a thread of its own, as JSON; `check` raises once the step was stopped."""
    stop = threading.Event()
    context.on_cancel(stop.set)

    def check():
        if stop.is_set():
            raise errors.CancelledError(f"save: the step was stopped while {_text(base)} was written; save again")

    def run():
        try:
            context.done(np.asarray(json.dumps(write(check)).encode(), object))
        except BaseException as error:
            context.fail(error)
    start_thread(threading.Thread(target=run, daemon=True, name="workbench-save"))


def _values(parts, handles, pinned):
    arrays = [one.value if isinstance(one.value, Pin) else handle.device.copy_out(one.value)
              for handle, one in zip(handles, pinned)]
    return [Value(name, one._replace(value=None), array, *block) for (name, *block), one, array in zip(parts, pinned, arrays)]


def _snapshot(context, name):
    return context.container.get(name, Snapshot, lambda: Snapshot(name))


@op("base[] *values? -> []", types="string any -> string", context=True, blocking=True, **STATE)
def save_tensors(context, base, *values, names=(), snapshot=""):
    """Write tensors by name, or what pin_tensors pinned for this `snapshot`, into a shard of the checkpoint at `base`, beside
    it; otherwise as `save`."""
    def write(check):
        found = _snapshot(context, snapshot).take() if snapshot else list(zip(names, values))
        return write_shard(_text(base), found, check=check)
    _write(context, base, write)


@op("*values? ->", types="any ->", context=True, **STATE)
def pin_tensors(context, *values, names, shared_name):
    """Keep tensors by name as they are now, for a `save_tensors` that runs later with this name of a snapshot."""
    _snapshot(context, shared_name).put(list(zip(names, values)))


@op("*handles[] -> []", types="resource -> string", context=True, blocking=True, **STATE)
def take_snapshot(context, *handles, shared_name):
    """Pin the values that the variables have now, of one moment, for a `save` that runs later with this name of a snapshot.

    Gives where the task's random generators and dataset iterators are, as JSON, for set_positions. Nothing is copied: the
    next update of a variable writes another buffer, or what it overwrites is kept. Raises FailedPreconditionError for a
    variable without a value.
    """
    def pin():
        try:
            _snapshot(context, shared_name).put(snapshot_together(handles))
            context.done(np.asarray(json.dumps(positions(context.container)).encode(), object))
        except BaseException as error:
            context.fail(error)
    start_thread(threading.Thread(target=pin, daemon=True, name="workbench-pin"))


@op("found[] ->", types="string ->", name="set_positions", context=True, **STATE)
def set_positions_(context, found):
    """Let the task's random generators, dataset iterators and readers go on from where they were when take_snapshot told."""
    set_positions(context.container, json.loads(_text(found)))


@op("*handles[] -> []", types="resource -> string", context=True, **STATE)
def pin_state(context, *handles, names, shared_name):
    """Pin what queues, accumulators and counters of elements hold now, for a `save_state` of this name.

    Gives as JSON which operations wait at the queues, and how often each. A variable without a value is left out.
    """
    once = dict(zip(reversed(handles), reversed(names)))      # several handles may be of one queue
    found = [(name, state) for handle, name in once.items() if (state := state_of(handle)) is not None]
    _snapshot(context, shared_name).put(found)
    waiting: dict[str, int] = {}
    for _, state in found:
        for node, count in state.waiting.items():
            waiting[node] = waiting.get(node, 0) + count
    return np.asarray(json.dumps(waiting).encode(), object)


@op("base[] -> []", types="string -> string", context=True, blocking=True, **STATE)
def save_state(context, base, *, index, count, shared_name):
    """Write what pin_state pinned into shard `index` of `count` of the checkpoint at `base`, beside it; otherwise as `save`."""
    def write(check):
        tensors = [pair for name, state in _snapshot(context, shared_name).take() for pair in state.tensors(name)]
        return write_shard(_text(base), tensors, index, count, check)
    _write(context, base, write)


@op("path[] *handles[] ->", types="string resource ->", **STATE)
def restore_state(path, *handles, names, reopen):
    """Give queues, accumulators and counters what a checkpoint holds of them, in place of what they hold; what it does not
    know stays. `reopen` tells of each whether something fills it anew. NotFoundError without a checkpoint, DataLossError
    for a damaged one; then nothing has changed here."""
    known = checkpoint.contents(_text(path))
    found = [(handle, Kept.of(name, lambda key: checkpoint.read_part(known.path, key)), again)
             for name, handle, again in zip(names, handles, reopen) if name in known.tensors]
    for handle, state, again in found:
        set_state(handle, state, again)


def _restored(inputs, attrs):
    return [as_shape(shape) for shape in attrs["shapes"]]


@op("path[] -> ?", types="string ->", dtypes=lambda dtypes, attrs: [as_dtype(t) for t in attrs["dtypes"]],
    shape=returns_list(_restored), **STATE)
def restore(path, *, tensors, dtypes, shapes, starts=(), reshape=False):
    """Tensors of a checkpoint by name, each of the dtype and shape (may be partly unknown) announced for it.

    `starts` may tell for each where the block of its shape begins in the whole tensor, None for a whole one. With
    `reshape` a whole tensor may have another shape of as many elements. Raises NotFoundError (no such checkpoint, or a name
    that it does not hold), DataLossError (damaged, and where), InvalidArgumentError (another dtype or shape).
    """
    base = _text(path)
    known = checkpoint.contents(base)
    found = []
    for name, dtype, shape, start in zip(tensors, dtypes, shapes, starts or (None,) * len(tensors)):
        wanted = as_shape(shape)
        value = checkpoint.read_part(known.path, name, start, wanted.static if start is not None else ())
        if reshape and start is None and wanted.known and value.size == wanted.num_elements():
            value = value.reshape(wanted.static)
        if value.dtype != as_dtype(dtype).numpy or not wanted.compatible(Shape(value.shape)):
            raise errors.InvalidArgumentError(f"restore: {name!r} is announced as {as_dtype(dtype).name}{wanted} but the "
                                              f"checkpoint {known.path} holds {value.dtype}{Shape(value.shape)}; build the "
                                              "model that was saved")
        found.append(value if as_dtype(dtype) is not string else np.asarray(value, object))
    return found if len(found) > 1 else found[0]
