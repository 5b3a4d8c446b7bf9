"""Option records that programs pass to sessions."""
from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

from workbench import errors
from workbench.formats.messages import decode, message, text_of

__all__ = ["ConfigProto", "GPUOptions", "GraphOptions", "OptimizerOptions", "RewriterConfig", "RunMetadata", "RunOptions"]


class _Options:
    """A record of named options; a name that it does not have raises InvalidArgumentError, then and later, and a value of
    another kind than its default DtypeError. Its text is that of the protocol buffer of its name."""

    defaults: dict[str, Any] = {}      # noqa: RUF012
    refused: dict[str, str] = {}       # noqa: RUF012
    """Option whose every value but the default is refused -> what to do instead."""

    def __init__(self, **fields: Any) -> None:
        given = {name: value for name, value in fields.items() if value is not None}
        for name, value in {**copy.deepcopy(self.defaults), **given}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(name)
        made = _of_kind(f"{type(self).__name__}.{name}", value, self.defaults[name])
        if name in self.refused and made != self.defaults[name]:
            raise errors.UnimplementedError(f"{type(self).__name__}: {name}={value!r} is not offered; {self.refused[name]}")
        super().__setattr__(name, made)

    def _check(self, name: str) -> None:
        if name not in self.defaults:
            near = difflib.get_close_matches(name, self.defaults, 1)
            raise errors.InvalidArgumentError(
                f"{type(self).__name__}: {name!r} is not an option, which are {', '.join(self.defaults)}; "
                + (f"did you mean {near[0]}?" if near else "leave it out"))

    def _given(self) -> list[tuple[str, Any]]:
        """The options that differ from their defaults, in the order in which they are declared."""
        return [(name, getattr(self, name)) for name in self.defaults if getattr(self, name) != self.defaults[name]]

    def HasField(self, field_name: str) -> bool:
        """Has it a value other than the default?"""
        self._check(field_name)
        return bool(getattr(self, field_name) != self.defaults[field_name])

    def CopyFrom(self, other: Any) -> None:
        """Take all values of another record of this kind. DtypeError for one of another kind."""
        self._alike(other, "CopyFrom")
        vars(self).update(copy.deepcopy(vars(other)))

    def _alike(self, other: Any, where: str) -> None:
        if type(other) is not type(self):
            raise errors.DtypeError(f"{where}: Parameter to {where}() must be instance of same class: expected "
                                    f"{type(self).__name__} got {type(other).__name__}; pass one")

    def Clear(self) -> None:
        """Give every option its default."""
        self.CopyFrom(type(self)())

    def ClearField(self, field_name: str) -> None:
        """Give one option its default."""
        self._check(field_name)
        setattr(self, field_name, copy.deepcopy(self.defaults[field_name]))

    # as protocol buffers, with the numbers of TensorFlow's fields
    def _message(self) -> Any:
        """The protocol buffer of this name with the options that differ from their defaults and that it has."""
        kind = message(type(self).__name__)
        return kind(**{name: value._message() if isinstance(value, _Options) else value for name, value in self._given()
                       if name in kind.DESCRIPTOR.fields_by_name})

    def _take(self, given: Iterable[tuple[str, Any]]) -> None:
        """Take values by name, of a record or of a protocol buffer: lists and dictionaries get more, the rest is replaced."""
        for name, value in given:
            mine = getattr(self, name)
            if isinstance(mine, _Options):
                mine._take(value._given() if isinstance(value, _Options) else _told(value))
            elif isinstance(mine, dict):
                mine.update(value)
            elif isinstance(mine, list):
                mine.extend(value)
            else:
                setattr(self, name, copy.deepcopy(value))

    def SerializeToString(self) -> bytes:
        """The bytes of the protocol buffer of this name; options of ours alone are not in it."""
        return bytes(self._message().SerializeToString())

    def MergeFromString(self, serialized: bytes) -> int:
        """Take what such bytes tell and keep the rest; how many there were. DataLossError for bytes that are none."""
        self._take(_told(decode(type(self).__name__, serialized, type(self).__name__)))
        return len(serialized)

    def ParseFromString(self, serialized: bytes) -> int:
        """Take what such bytes tell, and the default of everything else; how many there were."""
        self.Clear()
        return self.MergeFromString(serialized)

    @classmethod
    def FromString(cls, s: bytes) -> Any:
        """A record with what such bytes tell."""
        made = cls()
        made.MergeFromString(s)
        return made

    def MergeFrom(self, other: Any) -> None:
        """Take what another record of this kind has beside its defaults. DtypeError for one of another kind."""
        self._alike(other, "MergeFrom")
        self._take(other._given())

    def ByteSize(self) -> int:
        """How many bytes it makes."""
        return len(self.SerializeToString())

    def IsInitialized(self) -> bool:
        """True: no option has to be given."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None      # type: ignore[assignment]

    def __str__(self) -> str:
        return text_of(self._message())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given())})"


def _told(given: Any) -> list[tuple[str, Any]]:
    return [(field.name, value) for field, value in given.ListFields()]


_KINDS: dict[type, Any] = {bool: Integral, int: Integral, float: Real, str: (str, bytes), list: (list, tuple), dict: Mapping}
"""Type of a default -> of what its option may be given."""


def _of_kind(where: str, value: Any, default: Any) -> Any:
    """An option's value as one of its default's type; DtypeError where it cannot be one."""
    kind = type(default)
    plain = value.item() if hasattr(value, "item") else value      # a number of NumPy's
    if not isinstance(plain, _KINDS.get(kind, (kind, Mapping) if isinstance(default, _Options) else object)):
        raise errors.DtypeError(f"{where}: {value!r} has type {type(value).__name__}, but expected one of: {kind.__name__}; "
                                "pass that")
    if isinstance(default, _Options):
        return kind(**plain) if isinstance(plain, Mapping) else plain
    if kind not in _KINDS:
        return value
    return plain.decode() if isinstance(plain, bytes) else kind(plain)


class GPUOptions(_Options):
    """Options of GPUs, which bind none where there are CPUs alone. A session that has GPUs refuses `visible_device_list`, and
    `per_process_gpu_memory_fraction` between 0 and 1: `device_count` says how many it has, `device_memory_limit` how many
    bytes each. No other one changes a value: memory is taken when it is needed, from one pool, and freed as soon as nobody
    reads it."""

    defaults = {"allow_growth": False, "per_process_gpu_memory_fraction": 0.0, "visible_device_list": "",   # noqa: RUF012
                "allocator_type": "", "deferred_deletion_bytes": 0, "force_gpu_compatible": False,
                "polling_active_delay_usecs": 0, "polling_inactive_delay_msecs": 0}


class OptimizerOptions(_Options):
    """How a graph is rewritten before it runs. L0 leaves out the elimination of common subexpressions and the folding of
    constants, unless they are asked for; L1 is the default. Whether kernels are compiled is chosen by the kernel libraries
    (`global_jit_level`); inlining and the size of folded constants change no value."""

    L1, L0 = 0, -1
    DEFAULT, OFF, ON_1, ON_2 = 0, -1, 1, 2
    defaults = {"do_common_subexpression_elimination": False, "do_constant_folding": False,      # noqa: RUF012
                "do_function_inlining": False, "max_folded_constant_in_bytes": 0, "opt_level": 0, "global_jit_level": 0}


class RewriterConfig(_Options):
    """Which rewrites a graph gets: OFF for `constant_folding`, or for `arithmetic_optimization` (operations that change nothing
    are removed), leaves these out. Layouts, pruning, order and memory change no value, and are always seen to."""

    DEFAULT, ON, OFF, AGGRESSIVE = 0, 1, 2, 3
    DEFAULT_MEM_OPT, NO_MEM_OPT, MANUAL = 0, 1, 2
    defaults = {"layout_optimizer": 0, "disable_model_pruning": False, "constant_folding": 0,  # noqa: RUF012
                "memory_optimization": 0, "arithmetic_optimization": 0, "dependency_optimization": 0, "optimizers": []}
    refused = {"optimizers": "use Session(disabled_passes=…)"}      # noqa: RUF012


class GraphOptions(_Options):
    """What happens to a graph before it runs: `optimizer_options` and `rewrite_options`; shapes are always inferred. With
    `enable_bfloat16_sendrecv` float32 values travel between the tasks of a cluster rounded to bfloat16, in half the bytes:
    variables that other tasks read, and gradients, have an error of at most 2^-8 of each value there, and are infinite beyond
    3.39e38."""

    defaults = {"enable_recv_scheduling": False, "optimizer_options": OptimizerOptions(),      # noqa: RUF012
                "build_cost_model": 0, "build_cost_model_after": 0, "infer_shapes": False, "place_pruned_graph": False,
                "enable_bfloat16_sendrecv": False, "timeline_step": 0, "rewrite_options": RewriterConfig()}
    refused = {"timeline_step": "use RunOptions(trace_level=…)",  # noqa: RUF012
               "build_cost_model": "use RunMetadata", "build_cost_model_after": "use RunMetadata"}


class ConfigProto(_Options):
    """Options of a session.

    `device_count={"CPU": n}` gives it n virtual CPU devices. With `allow_soft_placement` an operation whose type of device
    is not there, or has no kernel for it, runs on another; `log_device_placement` logs where each operation went.
    `device_memory_limit={"CPU": bytes}` bounds what plans and variables may hold on each device of a type that the session
    has: beyond it a step raises ResourceExhaustedError. `intra_op_parallelism_threads` is the number of threads of
    one kernel, for the whole process from then on, as `set_threads`; `inter_op_parallelism_threads` is how many heavy
    segments of a step may run at the same time; 0 leaves either as it is. `operation_timeout_in_ms` is the timeout of
    steps whose RunOptions name none. `graph_options` says how graphs are rewritten. Sessions share the threads of the process,
    and keep their state to themselves, whatever `use_per_session_threads` and `isolate_session_state` say. InvalidArgumentError
    for options that there are not, UnimplementedError for those that are not offered.
    """

    defaults = {"allow_soft_placement": False, "log_device_placement": False, "device_count": {},   # noqa: RUF012
                "gpu_options": GPUOptions(), "intra_op_parallelism_threads": 0, "inter_op_parallelism_threads": 0,
                "operation_timeout_in_ms": 0, "device_memory_limit": None, "graph_options": GraphOptions(),
                "use_per_session_threads": False, "isolate_session_state": False, "placement_period": 0,
                "device_filters": [], "session_inter_op_thread_pool": []}
    refused = {"session_inter_op_thread_pool": "use inter_op_parallelism_threads",      # noqa: RUF012
               "placement_period": "operations are placed once"}


class RunOptions(_Options):
    """Options of one run: with a `trace_level` above NO_TRACE every operation of the step is timed; a step that takes more
    than `timeout_in_ms` raises DeadlineExceededError, where 0 stands for no limit. With `output_partition_graphs` the
    RunMetadata takes what ran on each device."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = 0, 1, 2, 3
    defaults = {"trace_level": 0, "timeout_in_ms": 0, "inter_op_thread_pool": 0, "output_partition_graphs": False,  # noqa: RUF012
                "debug_options": None, "report_tensor_allocations_upon_oom": False}
    refused = {"inter_op_thread_pool": "steps share the threads of the process",      # noqa: RUF012
               "debug_options": "use tf.Print"}


class RunMetadata(_Options):
    """Takes what a run reports: `step_stats.dev_stats`, a record for every device with its name and the operations
    (`node_stats`: names, times in microseconds, threads, what was computed and its bytes), and `partition_graphs`, where they
    were asked for: a GraphDef for every device, after all rewrites, with what is sent and received; none before a run."""

    step_stats: Any
    partition_graphs: Any
    defaults = {"step_stats": SimpleNamespace(dev_stats=[]), "partition_graphs": [], "cost_graph": None}      # noqa: RUF012

    def __setattr__(self, name: str, value: Any) -> None:
        """Graphs of devices, (device, graph) as a session gives them, become GraphDefs."""
        if name == "partition_graphs":
            value = [_of_device(*one) if isinstance(one, tuple) else one for one in value]
        super().__setattr__(name, value)

    def _message(self) -> Any:
        made = message("RunMetadata")(partition_graphs=self.partition_graphs)
        fields = [f.name for f in message("NodeExecStats").DESCRIPTOR.fields]
        for device in self.step_stats.dev_stats if self.step_stats is not None else ():
            shown = made.step_stats.dev_stats.add(device=device.device)
            for node in device.node_stats:
                told = {name: getattr(node, name) for name in fields if hasattr(node, name)}
                lists = {name: [_of_node(name, one) for one in told.pop(name, ())] for name in ("output", "memory")}
                shown.node_stats.add(**{**told, **lists, "thread_id": told["thread_id"] & 0xFFFFFFFF})      # it has 32 bits
        return made


def _of_node(field: str, one: Any) -> Any:
    """A record of an output or of memory as a message, which it is where it was read from one."""
    if hasattr(one, "DESCRIPTOR"):
        return one
    if field == "memory":
        return message("AllocatorMemoryUsed")(**vars(one))
    from workbench.formats.values import shape_proto  # loaded when somebody asks for a message

    told = one.tensor_description
    return message("NodeOutput")(slot=one.slot, tensor_description=message("TensorDescription")(
        dtype=told.dtype.as_datatype_enum, shape=shape_proto(told.shape),
        allocation_description=message("AllocationDescription")(**vars(told.allocation_description))))


def _of_device(device: str, graph: Any) -> Any:
    """The GraphDef of what runs on a device; nodes of ours alone have our types in it."""
    from workbench.formats.writer import graph_def  # the twins of operations are loaded when somebody asks for one

    found = graph_def(graph, strangers=True)
    for node in found.node:
        node.device = device
    return found
