"""What a session runs on: the devices that its target and its options ask for."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.device.interface import device_types, type_of
from workbench.core.kernels.threads import set_threads
from workbench.core.names import task_of
from workbench.core.run.local import Backend, LocalBackend

__all__ = ["backend_of", "cluster_of", "options_of", "passes_off", "serving", "short_messages", "tasks_of", "times_of"]

_COUNT = "Session: the number of {} devices is {!r} but must be an integer; pass one, as in devices=2"

serving: dict[str, Any] = {}
"""The servers of this process by the addresses ("host:port") at which they listen."""


def cluster_of(target: Any) -> Any:
    """The cluster that a session's target is or, in the words "grpc://host:port", names; None for this process.

    NotFoundError for a text that names no server of this process, DtypeError for what is no target at all.
    """
    if target is None or target == "":
        return None
    server = serving.get(target.rpartition("://")[2]) if isinstance(target, str) else None
    cluster = target if server is None else server.target
    if hasattr(cluster, "backend"):
        return cluster
    if isinstance(target, str):
        raise errors.NotFoundError(f"Session: target {target!r} is not a cluster (No session factory registered for the "
                                   "given session options); pass wb.Cluster(…), a server's target or nothing")
    raise errors.DtypeError(f"Session: {target!r} is not a cluster and target must be a string; pass wb.Cluster(…) or "
                            "nothing")


def options_of(cluster: Any, config: Any) -> Any:
    """`config`, or where it is None what the server of the cluster was given for its sessions."""
    return config if config is not None else getattr(cluster, "session_config", None)


def backend_of(cluster: Any, config: Any, devices: int) -> Backend:
    """This process, with `devices` CPUs or what `config` counts, or what the cluster has; errors for other options."""
    if config is not None and not hasattr(config, "graph_options"):
        raise errors.DtypeError(f"Session: config must be a tf.ConfigProto, but it is {config!r}")
    counts = getattr(config, "device_count", None) or {}
    for kind, count in counts.items():
        known = ["CPU", "GPU", *(k for k in device_types if k not in ("CPU", "GPU"))]
        if not _whole(count):
            raise errors.DtypeError(_COUNT.format(kind, count))
        if kind not in known or int(count) < 0:
            raise errors.InvalidArgumentError(f"Session: device_count asks for {count} devices of type {kind!r}; the types are "
                                              f"{' and '.join(known)}, and numbers are not negative")
    threads = getattr(config, "intra_op_parallelism_threads", 0)
    together = getattr(config, "inter_op_parallelism_threads", 0)
    limits = getattr(config, "device_memory_limit", None)
    if cluster is None:
        if not _whole(devices):
            raise errors.DtypeError(_COUNT.format("CPU", devices))
        if threads:
            set_threads(threads)
        backend = LocalBackend({"CPU": devices, **counts}, limits=limits, together=together)
        if any(type_of(device) == "GPU" for device in backend.devices):
            _check_gpus(getattr(config, "gpu_options", None))
        return backend
    if threads or together or limits or "CPU" in counts:
        raise errors.UnimplementedError(f"Session: config sets threads, devices or memory ({config!r}) but the tasks of a "
                                        "cluster have their own; set WB_THREADS where the workers start, and leave these out")
    return cluster.backend()      # type: ignore[no-any-return]


def _whole(count: Any) -> bool:
    return isinstance(count, int | np.integer) and not isinstance(count, bool)


def _check_gpus(options: Any) -> None:
    """UnimplementedError for GPUOptions that a session with GPUs does not follow."""
    if options is not None and (options.visible_device_list or options.per_process_gpu_memory_fraction not in (0.0, 1.0)):
        raise errors.UnimplementedError(f"Session: {options!r} chooses GPUs or a share of their memory; use "
                                        "device_count={'GPU': number} and device_memory_limit={'GPU': bytes}")


def times_of(options: Any, metadata: Any) -> tuple[float | None, bool]:
    """The seconds that RunOptions give a step, None where they name no limit, and whether each operation is timed.

    DtypeError for other options, and for what is no RunMetadata.
    """
    if options is not None and not hasattr(options, "timeout_in_ms"):
        raise errors.DtypeError(f"Session.run: options must be RunOptions, but it is {options!r}; pass tf.RunOptions(…) or "
                                "nothing")
    if metadata is not None and not hasattr(metadata, "step_stats"):
        raise errors.DtypeError(f"Session.run: run_metadata must be RunMetadata, but it is {metadata!r}; pass tf.RunMetadata() "
                                "or nothing")
    limit = getattr(options, "timeout_in_ms", 0)
    return limit / 1000.0 if limit > 0 else None, getattr(options, "trace_level", 0) > 0


def passes_off(config: Any) -> list[str]:
    """The rewrites that `config` leaves out: those that are turned off, and with optimization level L0 those that are not asked
    for one by one."""
    graphs = getattr(config, "graph_options", None)
    if graphs is None:
        return []
    options, rewrites = graphs.optimizer_options, graphs.rewrite_options
    low = options.opt_level == options.L0
    off = {"cse": low and not options.do_common_subexpression_elimination,
           "fold": rewrites.constant_folding == rewrites.OFF or (low and not options.do_constant_folding),
           "algebra": rewrites.arithmetic_optimization == rewrites.OFF}
    return [name for name, out in off.items() if out]


def short_messages(config: Any) -> bool:
    """Does `config` ask that float32 values travel between tasks as bfloat16?"""
    return bool(getattr(getattr(config, "graph_options", None), "enable_bfloat16_sendrecv", False))


def tasks_of(devices: Sequence[str]) -> tuple[str, ...]:
    """The tasks that have the devices, each once."""
    return tuple(dict.fromkeys(task_of(d) for d in devices))
