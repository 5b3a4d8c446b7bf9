"""Session: takes a step's definition through every stage once, caches the result, and runs it."""
from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core import trace
from workbench.core.compile.partition import Part, partition
from workbench.core.compile.place import place
from workbench.core.graph import graph as graphs
from workbench.core.graph.dtype import feed_array
from workbench.core.graph.fetch import FetchPlan, fetch_key, flatten
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import Program
from workbench.core.graph.shape import Shape
from workbench.core.graph.stages import side_by_side, whole
from workbench.core.passes.lower import lower, must_lower
from workbench.core.passes.pipeline import DEVICE_PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.run.gate import gate
from workbench.core.run.local import Backend, LocalBackend, Runner
from workbench.core.trace import Span

__all__ = ["InteractiveSession", "Session"]

_SPECIALISATIONS = 32     # plans per definition with concrete shapes; beyond that shapes stay unknown
_SHORTEST = 0.0005        # seconds between recorded steps: very short steps are sampled, their numbers tell how many
_OP_PERIOD = 0.5          # seconds between steps that are timed operation by operation


class _Executable(NamedTuple):
    runner: Runner
    build: Callable[[Any], Any]
    home: str


class _Nothing:
    """The step of an empty list of fetches, or of a constant's operation."""

    def run(self, feeds: Sequence[Any], step: int, traced: bool = False) -> Sequence[Any]:
        return ()


class Session:
    """Runs parts of a graph, on this process or on a cluster (paper §3.2).

    `target` is None or "" for this process, or an object with `backend()` such as `wb.Cluster`. `devices` is the
    number of virtual CPU devices of this process, unless `config` (ConfigProto) has a `device_count`. Safe to use
    from several threads: steps run concurrently and share state. `disabled_passes` names rewrites to leave out;
    `lower_all` runs every cond and while_loop on the general executor instead of compiling it to plain Python. Raises
    InvalidArgumentError and its kin with the operation, both values and the fix; the session and its variables stay
    usable after any error.
    """

    _numbers = itertools.count()

    def __init__(self, target: Any = None, graph: Graph | None = None, config: Any = None, devices: int = 1,
                 disabled_passes: Sequence[str] = (), lower_all: bool = False) -> None:
        self.graph = graph or graphs.get_default_graph()
        self.name = f"session_{next(self._numbers)}"
        self._disabled = tuple(disabled_passes)
        self._lowered = (lambda op: True) if lower_all else must_lower
        counts = getattr(config, "device_count", None) or {}
        self._backend: Backend = _backend(target, int(counts.get("CPU", devices)))
        self._cache: dict[Any, _Executable] = {}
        self._shapes: dict[Any, int] = {}
        self._lock = threading.RLock()
        self._steps, self._executables = itertools.count(), itertools.count()
        self._closed = False
        self._last_span = self._last_op = self._last_status = 0.0
        self._entered: list[Any] = []
        trace.journal.set_status(state="ready", session=self.name, tasks=_tasks(self._backend.devices))

    # running
    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, options: Any = None,
            run_metadata: Any = None) -> Any:
        """One step: the values of `fetches` (nested as given) with `feed_dict`'s values fed; blocks until it is done.

        Fetches are tensors, operations (which give None), variables or names. A tensor gives a NumPy array of its
        dtype and shape, one of rank 0 a NumPy scalar (strings: bytes). Any tensor can be fed, with arrays or numbers
        of its dtype and shape. Raises ShapeError and DtypeError for a feed, FailedPreconditionError for a variable
        without a value or a closed session, CancelledError after Stop, and what an operation raises;
        KeyboardInterrupt ends the step.
        """
        if gate.closed:
            gate.enter()
        if self._closed:
            raise errors.FailedPreconditionError("Session.run: the session is closed; make a new one")
        tensors, values, shapes = self._feeds(feed_dict) if feed_dict else ((), (), ())
        key = (fetch_key(fetches), tensors, shapes, self.graph.mutations)
        found = self._cache.get(key) or self._prepare(key, fetches, tensors, values, shapes)
        return self._step(found, values, options)

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] = ()) -> Callable[..., Any]:
        """A function of the fed values, in the order of `feed_list`, that runs the step; InvalidArgumentError for
        another number of them."""
        feeds = [self._feed_tensor(f) for f in feed_list]

        def call(*values: Any) -> Any:
            if len(values) != len(feeds):
                raise errors.InvalidArgumentError(f"make_callable: {len(values)} values for {len(feeds)} feeds; pass "
                                                  "one for each")
            return self.run(fetches, dict(zip(feeds, values)))
        return call

    def _step(self, found: _Executable, values: Sequence[Any], options: Any) -> Any:
        step = next(self._steps)
        journal = trace.journal
        if not journal.enabled:
            return found.build(found.runner.run(values, step))
        journal.ran = (self.name, step)
        start = time.perf_counter()
        traced = start - self._last_op > _OP_PERIOD or getattr(options, "trace_level", 0) > 0
        if traced:
            self._last_op = start
        results = found.runner.run(values, step, traced)
        end = time.perf_counter()
        if end - self._last_span > _SHORTEST:
            self._last_span = end
            self._record(found, step, start, end)
        return found.build(results)

    def _record(self, found: _Executable, step: int, start: float, end: float) -> None:
        journal = trace.journal
        if not self._backend.records_steps:
            journal.span(Span("step", self.name, found.home.partition("/device:")[0], found.home,
                              threading.get_ident(), start, end, step))
        if end - self._last_status > 0.1:
            self._last_status = end
            journal.set_status(state="paused" if gate.closed else "running", step=step, session=self.name)

    # feeding
    def _feeds(self, feed_dict: Mapping[Any, Any]) -> tuple[tuple[Any, ...], list[Any], tuple[Any, ...]]:
        if type(feed_dict) is not dict and not isinstance(feed_dict, Mapping):
            raise errors.InvalidArgumentError(f"feed_dict: it is a {type(feed_dict).__name__}; pass a dict from "
                                              "tensors to values")
        tensors, values, shapes = [], [], []
        for key, value in feed_dict.items():
            if type(key) is not Tensor and hasattr(key, "__graph_parts__"):
                return self._feeds(_in_parts(feed_dict))
            tensor = key if type(key) is Tensor else self._feed_tensor(key)
            if type(value) is not np.ndarray or value.dtype != tensor.dtype.numpy or not value.flags.c_contiguous:
                value = self._feed_value(tensor, value)
            tensors.append(tensor)
            values.append(value)
            shapes.append(value.shape)
        return tuple(tensors), values, tuple(shapes)

    def _feed_tensor(self, key: Any) -> Tensor:
        element = self.graph.as_graph_element(key, "feed")
        if isinstance(element, Operation):
            raise errors.InvalidArgumentError(f"feed: {element.name!r} is an operation; feed one of its tensors, such "
                                              f"as '{element.name}:0'")
        return element

    def _feed_value(self, tensor: Tensor, value: Any) -> Any:
        if isinstance(value, Tensor) or hasattr(value, "__tensor__"):
            raise errors.InvalidArgumentError(f"feed of {tensor.name!r}: the value is a graph tensor; feed an array, "
                                              "or Session.run the tensor first")
        array = feed_array(value, tensor.dtype, f"feed of {tensor.name!r}")
        return np.ascontiguousarray(array) if array.ndim else array

    # preparing
    def _prepare(self, key: Any, fetches: Any, tensors: tuple[Tensor, ...], values: Sequence[Any],
                 shapes: Sequence[Any]) -> _Executable:
        with self._lock:
            plan = flatten(self.graph, fetches)
            for tensor, value in zip(tensors, values):
                self._check_feed(tensor, value)
                if tensors.count(tensor) > 1:
                    raise errors.InvalidArgumentError(f"feed of {tensor.name!r}: it is fed {tensors.count(tensor)} "
                                                      "times, as tensor and by name; feed it once")
            general = (key[0], key[1], None, self.graph.mutations)
            if self._shapes.setdefault(general, 0) >= _SPECIALISATIONS:
                shapes = [t.shape for t in tensors]
                if general in self._cache:
                    return self._cache[general]
                key = general
            self._shapes[general] += 1
            if key not in self._cache:
                self._cache[key] = self._compile(plan, dict(zip(tensors, map(_as_shape, shapes))))
            return self._cache[key]

    def _check_feed(self, tensor: Tensor, value: Any) -> None:
        self.graph.as_graph_element(tensor, "feed")
        if not tensor.shape.compatible(Shape(np.shape(value))):
            raise errors.ShapeError(f"feed of {tensor.name!r}: its shape is {tensor.shape} but a value of shape "
                                    f"{list(np.shape(value))} was fed; reshape the value or relax the placeholder's "
                                    f"shape\n  built at: {tensor.op.source}")

    def _compile(self, plan: FetchPlan, feeds: Mapping[Tensor, Shape]) -> _Executable:
        start = time.perf_counter()
        self.graph.planning()
        name = f"{self.name}_{next(self._executables)}"      # never used again: tasks may still prepare one that was given up
        program = prune(self.graph, plan.tensors, plan.operations, feeds)
        self._publish(name, "built", "What the fetches need, before any rewrite.", program)
        program = lower(program, self._lowered)
        program = run_passes(program, self._disabled, lambda stage, note, p: self._publish(name, stage, note, p))
        home = self._backend.devices[0]
        placement = place(program, self._backend.devices, home)
        self._publish(name, "placed", "Every operation has a device.", program, placement)
        parts = partition(program, placement)
        self._rewrite_shares(name, parts)
        runner = self._backend.prepare(parts, name, len(program.fetches)) if parts else _Nothing()
        trace.journal.span(Span("compile", name, home.partition("/device:")[0], home, threading.get_ident(), start,
                                time.perf_counter(), -1, detail=f"{len(program.graph.operations)} operations"))
        return _Executable(runner, plan.build, _busiest(program, placement, home))

    def _publish(self, name: str, stage: str, note: str, program: Program,
                 placement: Mapping[str, str] | None = None) -> None:
        if trace.journal.enabled:
            trace.journal.graph(whole(name, stage, note, program, self._backend.devices, placement or {}))

    def _rewrite_shares(self, name: str, parts: Sequence[Part]) -> None:
        """The device passes, on each device's share alone; all shares are recorded after each pass."""
        stages = {"partition": ("Every device gets its share; what crosses is sent and received.",
                                [(part.device, part.program) for part in parts])}
        for part in parts:
            def record(stage: str, note: str, program: Program, device: str = part.device) -> None:
                stages.setdefault(stage, (note, []))[1].append((device, program))
            part.program = run_passes(part.program, self._disabled, record, DEVICE_PASSES)
        if trace.journal.enabled:
            for stage, (note, shares) in stages.items():
                trace.journal.graph(side_by_side(name, stage, note, shares, self._backend.devices))

    # life
    def list_devices(self) -> list[str]:
        """Full names of the devices that operations may be placed on."""
        return list(self._backend.devices)

    @property
    def backend(self) -> Backend:
        """What runs the prepared parts: this process or a cluster."""
        return self._backend

    def close(self) -> None:
        """Release plans and state; later runs raise FailedPreconditionError. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            self._cache.clear()
            self._backend.close()
            trace.journal.set_status(state="ready", step=max(0, next(self._steps) - 1))      # the last one, for every view

    def as_default(self) -> _Default:
        """A context in which eval() and run() use this session; it stays open afterwards."""
        return _Default(self)

    def __enter__(self) -> Session:
        entered = _Default(self, with_graph=True)
        entered.__enter__()
        self._entered.append(entered)
        return self

    def __exit__(self, *details: Any) -> None:
        self._entered.pop().__exit__(*details)
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._backend.devices)} devices"
        return f"<Session {self.name} {state}>"


class InteractiveSession(Session):
    """A session that is the default from the moment it is made (for notebooks)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        graphs.push_session(self)

    def close(self) -> None:
        graphs.pop_session(self)
        super().close()


class _Default:
    """The context in which a session (and with `with_graph` its graph) is the default."""

    def __init__(self, session: Session, with_graph: bool = False) -> None:
        self._session = session
        self._graph = session.graph.as_default() if with_graph and (
            session.graph is not graphs.get_default_graph()) else None

    def __enter__(self) -> Session:
        if self._graph is not None:
            self._graph.__enter__()
        graphs.push_session(self._session)
        return self._session

    def __exit__(self, *details: Any) -> None:
        graphs.pop_session(self._session)
        if self._graph is not None:
            self._graph.__exit__(*details)


def _backend(target: Any, cpus: int) -> Backend:
    if target is None or target == "":
        return LocalBackend(cpus)
    made = getattr(target, "backend", None)
    if made is None:
        raise errors.InvalidArgumentError(f"Session: target {target!r} is no cluster; pass wb.Cluster(…) or nothing")
    return made()      # type: ignore[no-any-return]


def _busiest(program: Program, placement: Mapping[str, str], otherwise: str) -> str:
    """The device that computes most: the steps of a replica are recorded under the worker that runs it."""
    counts = Counter(placement[op.name] for op in program.graph.operations if not op.definition.stateful)
    return max(counts.items(), key=lambda item: item[1], default=(otherwise, 0))[0]


def _tasks(devices: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(d.partition("/device:")[0] for d in devices))


def _as_shape(shape: Any) -> Shape:
    return shape if isinstance(shape, Shape) else Shape(shape)


def _in_parts(feed_dict: Mapping[Any, Any]) -> dict[Any, Any]:
    """Feeds of sparse tensors as feeds of the tensors they consist of."""
    found: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        parts = key.__graph_parts__()[0] if hasattr(key, "__graph_parts__") else None
        if parts is not None and len(value) != len(parts):
            raise errors.InvalidArgumentError(f"feed of {key!r}: {len(value)} values were fed but it has {len(parts)} "
                                              "parts; feed (indices, values, dense_shape)")
        found.update({key: value} if parts is None else zip(parts, value))
    return {k: v for k, v in found.items() if isinstance(k, str) or getattr(k, "op", k).type != "constant"}
