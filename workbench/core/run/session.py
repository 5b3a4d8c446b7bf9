"""Session: takes a step's definition through every stage once, caches the result, and runs it."""
from __future__ import annotations

import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core import trace
from workbench.core.compile.place import Policy
from workbench.core.device.interface import type_of
from workbench.core.graph import graph as graphs
from workbench.core.graph.device import DeviceName
from workbench.core.graph.entered import pop_session, push_session
from workbench.core.graph.fetch import fetch_key, flatten
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.origin import found_again
from workbench.core.graph.shape import Shape
from workbench.core.kernels.options import KernelOptions
from workbench.core.names import task_of
from workbench.core.pace import Chosen
from workbench.core.passes.lower import must_lower
from workbench.core.run.explain import Explanation, explained, kernel_of
from workbench.core.run.feeding import check_feed, feed_arrays, feed_tensor, read_feeds
from workbench.core.run.gate import gate
from workbench.core.run.handles import TensorHandle
from workbench.core.run.local import Backend, Doubtful, LocalBackend
from workbench.core.run.losses import record
from workbench.core.run.metadata import StepRecorder
from workbench.core.run.partial import PartialSteps
from workbench.core.run.plans import Definition, Executable, Family, Form, Plans
from workbench.core.run.prepare import Preparation, check_budget, check_kernels, check_passes
from workbench.core.run.staying import Staying
from workbench.core.run.target import backend_of, cluster_of, options_of, passes_off, short_messages, tasks_of, times_of
from workbench.core.run.tuning import Tuned, tune_plans
from workbench.core.run.where import place_of
from workbench.core.trace import Span
from workbench.settings import settings

__all__ = ["Session"]

trace.journal.locate, trace.journal.kernel = place_of, kernel_of

_CLOSED = "Session.run: the session is closed (Attempted to use a closed Session.); make a new one"
_FORMS = 4096             # ways to ask that are remembered; one that is forgotten costs a flattening
_OP_PERIOD = 0.5          # seconds between steps that are timed operation by operation

_log = logging.getLogger("workbench")
_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Session(Staying):
    """Runs parts of a graph, on this process or on a cluster (paper §3.2).

    `target` is None or "" for this process, or an object with `backend()` such as `wb.Cluster`. `devices` is the
    number of virtual CPU devices of this process, unless `config` (ConfigProto) has a `device_count`. Safe to use
    from several threads: steps run concurrently and share state. `disabled_passes` names rewrites to leave out;
    `lower_all` runs every cond and while_loop on the general executor instead of compiling it to plain Python;
    `kernels` says which libraries may serve and how they choose (default: `settings`).
    `memory_budget` is how many bytes a step's values may take on each device, its variables, constants and feeds apart: values
    of the forward pass are computed again for gradients until its plan keeps to it, or ResourceExhaustedError says what it
    needs; values stay as they are, bit for bit with `deterministic` kernels. `check_numerics` ends a step at the first NaN or
    infinity (default: `settings`).
    Raises errors of `workbench.errors` with the operation, both values and the fix; the session stays usable after any.
    """

    _numbers = itertools.count()

    def __init__(self, target: Any = None, graph: Graph | None = None, config: Any = None, devices: int = 1,
                 disabled_passes: Sequence[str] = (), lower_all: bool = False, kernels: KernelOptions | None = None,
                 memory_budget: int | None = None, check_numerics: bool | None = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise errors.DtypeError(f"Session: graph must be a tf.Graph, but it is {graph!r}")
        self._cluster, self._config = cluster_of(target), config
        self.graph, config = graph or graphs.get_default_graph(), options_of(self._cluster, config)
        self.name = f"session_{next(self._numbers)}"
        disabled = check_passes([*disabled_passes, *passes_off(config)])
        self._timeout = (getattr(config, "operation_timeout_in_ms", 0) or 0) / 1000.0 or None
        self._backend: Backend = backend_of(self._cluster, config, devices)
        # NOTE: a loop compiled in place computes on one device, and its condition has to be the host's
        lower_all = lower_all or any(type_of(d) != "CPU" for d in self._backend.devices)
        policy = Policy(bool(getattr(config, "allow_soft_placement", False)),
                        bool(getattr(config, "log_device_placement", False)))
        self._preparation = Preparation(
            self.graph, self._backend, disabled, (lambda op: True) if lower_all else must_lower, check_kernels(kernels), policy,
            check_numerics, short_messages(config), check_budget(memory_budget))
        self._plans = Plans(settings.plan_bytes)
        self._forms: dict[Any, Form] = {}
        self._executables = itertools.count()
        self._tasks, self._newest, self._closed = tasks_of(self._backend.devices), 0, False      # newest: began last
        self._chosen, self._told, self._last_op, self._last_status = Chosen(), object(), 0.0, 0.0
        self._entered: list[Any] = []
        self._partial = PartialSteps(self.graph)
        _open.add(self)
        trace.journal.set_status(state="ready", session=self.name, tasks=self._tasks)

    # running
    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, options: Any = None,
            run_metadata: Any = None) -> Any:
        """One step: the values of `fetches` (nested as given) with `feed_dict`'s values fed; blocks until it is done.

        Fetches are tensors, operations (which give None), variables or names. A tensor gives a NumPy array of its
        dtype and shape, one of rank 0 a NumPy scalar (strings: bytes). Any tensor can be fed, with arrays or numbers
        of its dtype and shape. Raises ShapeError and DtypeError for a feed, FailedPreconditionError for a variable
        without a value or a closed session, CancelledError after Stop, and what an operation raises;
        KeyboardInterrupt ends the step. `options` (RunOptions) may ask for times of all operations, and limit the step's
        time: DeadlineExceededError, with what the step changed until then. `run_metadata` (RunMetadata) takes the times.
        """
        if gate.closed:
            gate.enter()
        if self._closed:
            raise errors.FailedPreconditionError(_CLOSED)
        tensors, values, shapes = read_feeds(self.graph, feed_dict) if feed_dict else ((), (), ())
        key = fetch_key(fetches), tensors
        form = self._forms.get(key)
        if form is None or form.mutations != self.graph.mutations:
            form = self._form(key, fetches, tensors)
        found = form.ready.get(shapes) or self._find(form, tensors, values, shapes)
        if options is None and run_metadata is None:
            return self._step(form, found, values, False, self._timeout)
        return self._step_with(form, found, values, options, run_metadata)

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = (), accept_options: bool = False,
                      ) -> Callable[..., Any]:
        """A function of the fed values, in the order of `feed_list`, that runs the step; InvalidArgumentError for
        another number of them. With `accept_options` it also takes `options` and `run_metadata`, as `run` does."""
        feeds = tuple(feed_tensor(self.graph, f) for f in feed_list or ())
        if accept_options:
            return lambda *given, **options: self.run(fetches, dict(zip(feeds, given, strict=True)), **options)
        key = fetch_key(fetches), feeds
        form = self._form(key, fetches, feeds)

        def call(*given: Any) -> Any:
            nonlocal form
            if len(given) != len(feeds):
                raise errors.InvalidArgumentError(f"make_callable: {len(given)} values for {len(feeds)} feeds; pass "
                                                  "one for each")
            if gate.closed:
                gate.enter()
            if self._closed:
                raise errors.FailedPreconditionError(_CLOSED)
            values, shapes = feed_arrays(feeds, given) if feeds else ((), ())
            if form.mutations != self.graph.mutations:
                form = self._form(key, fetches, feeds)
            found = form.ready.get(shapes) or self._find(form, feeds, values, shapes)
            return self._step(form, found, values, False, self._timeout)
        return call

    def partial_run_setup(self, fetches: Any, feeds: Sequence[Any] = ()) -> str:
        """The handle of one step that partial_run computes in several calls, each with more of `feeds`; `fetches` are all that
        will be asked for, each once."""
        return self._partial.begin(fetches, feeds)

    def partial_run(self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """The values of `fetches` in the step of `handle`, given these feeds and those before. Every operation runs once, as
        soon as its feeds are known. InvalidArgumentError for what the setup did not name, or a feed that is missing."""
        return self._partial.go_on(handle, fetches, feed_dict or {}, self.run)

    def _step_with(self, form: Form, found: Executable, values: Sequence[Any], options: Any, metadata: Any) -> Any:
        """A step with options of its own."""
        limit, traced = times_of(options, metadata)
        if metadata is None:
            return self._step(form, found, values, traced, limit or self._timeout)
        recorder = StepRecorder(trace.journal)
        try:
            return self._step(form, found, values, True, limit or self._timeout, recorder)
        finally:
            metadata.step_stats = recorder.stats(self.graph)
            wanted = getattr(options, "output_partition_graphs", False)
            metadata.partition_graphs = list(found.shares.items()) if wanted else []

    def _step(self, form: Form, found: Executable, values: Sequence[Any], traced: bool = False,
              deadline: float | None = None, recorder: StepRecorder | None = None) -> Any:
        step = found.used = self._newest = self._backend.next_step()
        found.count.steps += 1
        if form.order is not None:
            values = [values[i] for i in form.order]
        journal = trace.journal
        if not journal.enabled:
            return form.build(self._run(found, values, step, traced, deadline, recorder))
        thread, start = threading.get_ident(), time.perf_counter()
        journal.ran = journal.inside[thread] = self.name, step, start
        if (status := journal.status) is not self._told:
            if status.state == "running" and status.session == self.name:
                self._told = status      # which is not looked at again
            else:
                self._say("running", step=step)
        if start - self._last_op > _OP_PERIOD and not found.pop_new():
            self._last_op, traced = start, True
        try:
            results = self._run(found, values, step, traced, deadline, recorder)
        finally:
            journal.inside.pop(thread, None)
            journal.ended = end = time.perf_counter()
        if start >= (chosen := self._chosen).due or end - start > chosen.unusual:
            self._record(found, step, start, end)
            chosen.recorded(start, end, time.perf_counter())
        if form.losses:
            record(form.losses, results, step, journal)
        return form.build(results)

    def _run(self, found: Executable, values: Sequence[Any], step: int, *how: Any) -> Sequence[Any]:
        try:
            return found.runner.run(values, step, *how)
        except errors.OutOfRangeError:      # the end of the data, which programs wait for
            raise
        except BaseException as error:
            trace.journal.fail(self.name, step, error, what=found_again(self.graph, error))
            raise

    def _say(self, state: str, **facts: Any) -> None:
        """What this session does now; a gate that is shut stays the news."""
        gate.say(state=state, session=self.name, tasks=self._tasks, **facts)

    def _record(self, found: Executable, step: int, start: float, end: float) -> None:
        journal = trace.journal
        if not self._backend.records_steps:
            journal.span(Span("step", self.name, task_of(found.home), found.home,
                              threading.get_ident(), start, end, step, executable=found.name))
        if end - self._last_status > 0.1:
            self._last_status = end
            self._say("running", step=step)

    def explain(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, steps: int = 0) -> Explanation:
        """What a step of `fetches` does: for each operation its kernel and library, what was fused or why not, estimated
        and measured time, bytes; and the memory of each device. Print it, or end a cell with it.

        Prepares the step as `run` does, with the shapes of the values in `feed_dict`, and runs nothing, unless `steps`
        asks for steps that are timed operation by operation: these change variables, as any step. Times are those that
        the journal remembers. On a cluster it shows what this machine's libraries would choose.
        """
        form, found, values = self._asked("explain", fetches, feed_dict)
        for _ in range(steps):
            self._step(form, found, values, True, self._timeout)
        return explained(found.name, found.runner.compiled(), trace.journal, self._backend.memory, found.budgets)

    def tune(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, seconds: float = 5.0) -> Tuned:
        """Times the ways to execute the operations of a step, where there are several, for about `seconds`, and keeps the times
        on this machine's disk; its plans choose by them from then on. Runs no step, and says what changes.
        """
        _, found, _ = self._asked("tune", fetches, feed_dict)
        if self._preparation.kernels.deterministic:
            raise errors.FailedPreconditionError("Session.tune: deterministic sessions choose by rules alone; leave out "
                                                 "deterministic (KernelOptions, WB_DETERMINISTIC)")
        tuned = tune_plans([plan for _, plan in found.runner.compiled()], seconds)
        if tuned.measured or tuned.changed:
            self._plans.drop()      # they are made anew when they are next asked for
        return tuned

    def _asked(self, call: str, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> tuple[Form, Executable, Sequence[Any]]:
        """What would run a step of `fetches`, with the values to feed."""
        if self._closed:
            raise errors.FailedPreconditionError(f"Session.{call}: the session is closed; make a new one")
        tensors, values, shapes = read_feeds(self.graph, feed_dict or {})
        form = self._form((fetch_key(fetches), tensors), fetches, tensors)
        return form, form.ready.get(shapes) or self._find(form, tensors, values, shapes), values

    # preparing
    def _form(self, key: Any, fetches: Any, tensors: tuple[Tensor, ...]) -> Form:
        """Read the request; equal ones, whatever their form, share their plans."""
        for tensor in tensors:
            if tensors.count(tensor) > 1:
                raise errors.InvalidArgumentError(f"feed of {tensor.name!r}: it is fed {tensors.count(tensor)} times, as "
                                                  "tensor and by name; feed it once")
            self.graph.as_graph_element(tensor, where="feed")
            if not self.graph.is_feedable(tensor):
                raise errors.InvalidArgumentError(f"feed of {tensor.name!r}: it may not be fed (prevent_feeding); leave it out")
        if not self.graph.operations:
            raise errors.FailedPreconditionError("Session.run: The Session graph is empty. Add operations to the graph first")
        plan = flatten(self.graph, fetches, self._handle)
        order = sorted(range(len(tensors)), key=lambda i: tensors[i].name)
        definition = Definition(tuple(plan.tensors), tuple(plan.operations), tuple(tensors[i] for i in order),
                                self.graph.planning())
        form = Form(self._plans.family(definition), tuple(order) if order != sorted(order) else None, plan.build)
        if len(self._forms) >= _FORMS:
            self._forms.clear()
        self._plans.watch(form)
        self._forms[key] = form
        return form

    def _handle(self, tensor: Tensor, name: bytes) -> TensorHandle:
        return TensorHandle(self, name.decode(), tensor.op.inputs[0].dtype)

    def _find(self, form: Form, tensors: Sequence[Tensor], values: Sequence[Any], shapes: Any) -> Executable:
        """What runs `form` for these shapes: a plan of their own, or the one that leaves shapes open."""
        family = form.family
        fed = shapes if form.order is None else tuple(shapes[i] for i in form.order)
        if not family.known(fed):
            for tensor, value in zip(tensors, values):
                check_feed(tensor, value)
        if family.deserves(fed):
            found = form.ready[shapes] = self._plans.find(family, fed, lambda: self._special(family, fed))
            return found
        if family.general is None:
            _log.warning("Session.run: more than %d different shapes were fed for %s; further shapes share a plan that leaves "
                         "them open and fuses nothing, until they are used often. Pad or bucket the inputs",
                         len(family.special), ", ".join(t.name for t in family.definition.feeds))
        return self._general(family)

    def _special(self, family: Family, fed: Sequence[Any]) -> Executable:
        """A plan for the shapes `fed`. Where they contradict the rule of an operation, the step decides: it may never come
        there, or an assertion before it says more."""
        try:
            return self._prepare(family.definition, [Shape(shape) for shape in fed])
        except errors.ShapeError as error:
            found = self._general(family)
            return Executable(found.name, Doubtful(found.runner, error), found.home, 0, {}, found.shares)

    def _general(self, family: Family) -> Executable:
        return self._plans.find(family, None, lambda: self._prepare(family.definition, [
            t.shape for t in family.definition.feeds]))

    def _prepare(self, definition: Definition, shapes: Sequence[Shape]) -> Executable:
        name = f"{self.name}_{next(self._executables)}"
        try:
            return self._preparation.prepare(name, definition, shapes, self._say)
        except BaseException as error:
            trace.journal.fail(self.name, trace.journal.status.step, error, what=found_again(self.graph, error))
            raise

    # life
    @staticmethod
    def reset(target: Any = None, containers: Sequence[str] | None = None, config: Any = None) -> None:
        """Forget what is in these containers (None: what is in none) of `target`, with all tasks where that is a cluster or a
        server, and close the sessions of this process to it. Who waits on a queue there gets CancelledError."""
        cluster, names = cluster_of(target), list(containers) if containers else [""]
        for session in [s for s in list(_open) if not s._closed and s._cluster is cluster]:
            if isinstance(session._backend, LocalBackend):
                session._backend.container.clear(names)
            session.close()
        if cluster is not None:
            cluster.reset(names)

    def list_devices(self) -> list[DeviceName]:
        """Full names of the devices that operations may be placed on, texts with a `name` and a `device_type`."""
        return [DeviceName(device) for device in self._backend.devices]

    @property
    def backend(self) -> Backend:
        """What runs the prepared parts: this process or a cluster."""
        return self._backend

    @property
    def plans(self) -> Plans:
        """What was prepared so far and is kept."""
        return self._plans

    def close(self) -> None:
        """Release plans and state; later runs raise FailedPreconditionError. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            self._plans.clear()
            self._forms.clear()
            self._backend.close()
            # how it ended stays the news
            state = {} if trace.journal.status.state in ("finished", "stopped", "failed") else {"state": "ready"}
            trace.journal.set_status(**state, step=self._newest)      # for every view

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


class _Default:
    """The context in which a session (and with `with_graph` its graph) is the default."""

    def __init__(self, session: Session, with_graph: bool = False) -> None:
        self._session = session
        self._graph = session.graph.as_default() if with_graph and (
            session.graph is not graphs.get_default_graph()) else None

    def __enter__(self) -> Session:
        if self._graph is not None:
            self._graph.__enter__()
        push_session(self._session)
        return self._session

    def __exit__(self, *details: Any) -> None:
        pop_session(self._session)
        if self._graph is not None:
            self._graph.__exit__(*details)
