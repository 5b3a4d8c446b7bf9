"""Option records that programs pass to sessions."""
from __future__ import annotations

from typing import Any

__all__ = ["ConfigProto", "GPUOptions", "RunMetadata", "RunOptions"]


class _Options:
    """A record of named options; what has no meaning here is kept and ignored."""

    defaults: dict[str, Any] = {}      # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        vars(self).update(self.defaults)
        vars(self).update(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class GPUOptions(_Options):
    """Memory options of GPUs; accepted, without effect on the CPU."""

    defaults = {"allow_growth": False, "per_process_gpu_memory_fraction": 1.0}      # noqa: RUF012


class ConfigProto(_Options):
    """Options of a session: `device_count={"CPU": n}` gives it n virtual CPU devices."""

    defaults = {"allow_soft_placement": False, "log_device_placement": False}      # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.device_count = dict(fields.get("device_count") or {})
        self.gpu_options = fields.get("gpu_options") or GPUOptions()


class RunOptions(_Options):
    """Options of one run: with a `trace_level` above NO_TRACE every operation of the step is timed."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = 0, 1, 2, 3
    defaults = {"trace_level": 0, "timeout_in_ms": 0}      # noqa: RUF012


class RunMetadata(_Options):
    """Takes what a run reports; the spans themselves are in the journal."""
