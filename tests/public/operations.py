"""Operations that TensorFlow's own tests build graphs of: they take and give tensors of some types, and compute nothing."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import workbench as wb
from workbench.formats.twins import rows

# name: types of what it takes -> types of what it gives
TABLE = """
    A: -> float32
    B: -> float32
    FiveFloatOutputs: -> float32 float32 float32 float32 float32
    FloatInput: float32 ->
    FloatOutput: -> float32
    FloatOutputStringOutput: -> float32 string
    Foo1: float32 int32 int32 -> float32 int32
    Foo2: float32 string string -> float32 int32
    Foo3: float32 string float32 -> float32 int32
    Int64Output: -> int64
    IntInput: int32 ->
    IntInputFloatInput: int32 float32 ->
    IntOutput: -> int32
    IntOutputFloatOutput: -> int32 float32
    None: ->
    RefInputFloatInput: float32 float32 ->
    RefInputFloatInputIntOutput: float32 float32 -> int32
    RefInputIntInput: int32 int32 ->
    RefOutput: -> int32
    RefOutputFloatOutput: -> float32 float32
    TwoFloatInputs: float32 float32 ->
    TwoFloatInputsFloatOutput: float32 float32 -> float32
    TwoFloatInputsIntOutput: float32 float32 -> int32
    TwoFloatOutputs: -> float32 float32
    TwoIntInputs: int32 int32 ->
    TwoIntOutputs: -> int32 int32
"""


def _made(line: str) -> Callable[..., Any]:
    name, _, kinds = line.strip().partition(":")
    given, _, gives = kinds.partition("->")
    inputs, outputs = given.split(), gives.split()
    names = "abcdefg"[:len(inputs)]

    def kernel(*values: Any) -> tuple[()]:
        return ()
    kernel.__signature__ = inspect.Signature([      # type: ignore[attr-defined]
        inspect.Parameter(x, inspect.Parameter.POSITIONAL_OR_KEYWORD) for x in names])
    wb.op(" ".join(f"{x}?" for x in names) + " -> " + " ".join("?" for _ in outputs), name=name, types=f"{given} -> {gives}",
          differentiable=False)(kernel)
    rows(f"{name} {name} {' '.join(names)}")
    return getattr(wb.ops, name)


def _python_name(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


OPERATIONS = {_python_name(line.strip().partition(":")[0]): _made(line) for line in TABLE.strip().splitlines()}
"""Name in TensorFlow's module of test operations -> function that adds the operation."""
