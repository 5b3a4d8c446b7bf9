"""Option records that programs pass to sessions."""
from __future__ import annotations

import difflib
from typing import Any

from workbench import errors

__all__ = ["ConfigProto", "GPUOptions", "RunMetadata", "RunOptions"]


class _Options:
    """A record of named options; a name that it does not have raises InvalidArgumentError, then and later."""

    defaults: dict[str, Any] = {}      # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        for name, value in {**self.defaults, **fields}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.defaults:
            near = difflib.get_close_matches(name, self.defaults, 1)
            raise errors.InvalidArgumentError(
                f"{type(self).__name__}: {name!r} is not an option, which are {', '.join(self.defaults)}; "
                + (f"did you mean {near[0]}?" if near else "leave it out"))
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class GPUOptions(_Options):
    """Memory options of GPUs. They hold for all GPUs that a session has; with CPUs alone there is none they could bind."""

    defaults = {"allow_growth": False, "per_process_gpu_memory_fraction": 1.0, "visible_device_list": ""}   # noqa: RUF012


class ConfigProto(_Options):
    """Options of a session.

    `device_count={"CPU": n}` gives it n virtual CPU devices. With `allow_soft_placement` an operation whose type of device
    is not there, or has no kernel for it, runs on another; `log_device_placement` logs where each operation went.
    `device_memory_limit={"CPU": bytes}` bounds what plans and variables may hold on each device of a type: beyond it a step
    raises ResourceExhaustedError. `intra_op_parallelism_threads` is the number of threads of
    one kernel, for the whole process from then on, as `set_threads`; `inter_op_parallelism_threads` is how many heavy
    segments of a step may run at the same time; 0 leaves either as it is. `operation_timeout_in_ms` is the timeout of
    steps whose RunOptions name none. InvalidArgumentError for options that there are not.
    """

    defaults = {"allow_soft_placement": False, "log_device_placement": False, "device_count": None,   # noqa: RUF012
                "gpu_options": None, "intra_op_parallelism_threads": 0, "inter_op_parallelism_threads": 0,
                "operation_timeout_in_ms": 0, "device_memory_limit": None}

    def __init__(self, **fields: Any) -> None:
        super().__init__(**{**fields, "device_count": dict(fields.get("device_count") or {}),
                            "gpu_options": fields.get("gpu_options") or GPUOptions()})


class RunOptions(_Options):
    """Options of one run: with a `trace_level` above NO_TRACE every operation of the step is timed; a step that takes more
    than `timeout_in_ms` raises DeadlineExceededError, where 0 stands for no limit."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = 0, 1, 2, 3
    defaults = {"trace_level": 0, "timeout_in_ms": 0}      # noqa: RUF012


class RunMetadata(_Options):
    """Takes what a run reports: `step_stats.dev_stats`, a record for every device with its name and the operations
    (`node_stats`: names, times in microseconds, threads); None before a run."""

    defaults = {"step_stats": None}      # noqa: RUF012
