"""What a profile shows and counts: the options of tf.profiler, built step by step."""
from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["TRAINABLE", "ProfileOptionBuilder"]

TRAINABLE = "_trainable_variables"
"""The property, beside type and device, by which trainable variables are chosen."""

_PLAIN: dict[str, Any] = {
    "max_depth": 100, "min_bytes": 0, "min_micros": 0, "min_params": 0, "min_float_ops": 0, "min_occurrence": 0,
    "order_by": "name", "account_type_regexes": [".*"], "start_name_regexes": [".*"], "trim_name_regexes": [],
    "show_name_regexes": [".*"], "hide_name_regexes": [], "account_displayed_op_only": False, "select": ["micros"],
    "step": -1, "output": "stdout"}


def _options(**changed: Any) -> dict[str, Any]:
    return copy.deepcopy({**_PLAIN, "max_depth": 10000, "account_displayed_op_only": True, **changed})


class ProfileOptionBuilder:
    """Options of a profile as a dictionary; every method gives the builder back, `build` the options."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = copy.deepcopy(dict(_PLAIN if options is None else options))

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Options that count the parameters of trainable variables."""
        return _options(account_type_regexes=[TRAINABLE], select=["params"])

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Options that count arithmetic, the most of it first."""
        return _options(min_float_ops=1, order_by="float_ops", select=["float_ops"])

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, min_accelerator_micros: int = 0, min_cpu_micros: int = 0,
                        min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0) -> dict[str, Any]:
        """Options that show microseconds and bytes of a run, the most time first."""
        return _options(min_micros=min_micros, min_bytes=min_bytes, min_accelerator_micros=min_accelerator_micros,
                        min_cpu_micros=min_cpu_micros, min_peak_bytes=min_peak_bytes, min_residual_bytes=min_residual_bytes,
                        min_output_bytes=min_output_bytes, order_by="micros", select=["micros", "bytes"])

    def build(self) -> dict[str, Any]:
        """The options, for `profile`."""
        return copy.deepcopy(self._options)

    def _with(self, **changed: Any) -> ProfileOptionBuilder:
        self._options.update(copy.deepcopy(changed))
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Show no more levels than this."""
        return self._with(max_depth=max_depth)

    def with_min_memory(self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0,
                        min_output_bytes: int = 0) -> ProfileOptionBuilder:
        """Show what takes at least so many bytes."""
        return self._with(min_bytes=min_bytes, min_peak_bytes=min_peak_bytes, min_residual_bytes=min_residual_bytes,
                          min_output_bytes=min_output_bytes)

    def with_min_execution_time(self, min_micros: int = 0, min_accelerator_micros: int = 0,
                                min_cpu_micros: int = 0) -> ProfileOptionBuilder:
        """Show what takes at least so many microseconds."""
        return self._with(min_micros=min_micros, min_accelerator_micros=min_accelerator_micros, min_cpu_micros=min_cpu_micros)

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Show what holds at least so many parameters."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Show what stands for at least so many operations."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Show what does at least so much arithmetic."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Count operations alone whose type or device one of these matches."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(self, start_name_regexes: Sequence[str] | None = None, show_name_regexes: Sequence[str] | None = None,
                        hide_name_regexes: Sequence[str] | None = None,
                        trim_name_regexes: Sequence[str] | None = None) -> ProfileOptionBuilder:
        """Begin at the names, show, hide, and go no deeper than what these match."""
        given = {"start_name_regexes": start_name_regexes, "show_name_regexes": show_name_regexes,
                 "hide_name_regexes": hide_name_regexes, "trim_name_regexes": trim_name_regexes}
        return self._with(**{key: list(value) for key, value in given.items() if value is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Are sums those of what is shown alone?"""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Write nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Print the profile."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Write the profile into a file."""
        return self._with(output=f"file:outfile={outfile}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Show the largest first, by name, micros, bytes, params, float_ops or occurrence."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """Show these: micros, bytes, params, float_ops, occurrence, op_types, device."""
        return self._with(select=list(attributes))

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Count the run that was added as this step; -1: all of them."""
        return self._with(step=step)
