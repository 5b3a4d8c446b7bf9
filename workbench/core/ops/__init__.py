"""What exists: a family of operations a file, an operation a block."""
from workbench.core.ops import (
    array,
    comm,
    conv,
    filling,
    flow,
    flow_build,
    functions,
    fused,
    index,
    lists,
    logic,
    math,
    matrix,
    nn,
    reduce,
    rng,
    sets,
    source,
    state,
    updates,
)

__all__ = [
    "array", "comm", "conv", "filling", "flow", "flow_build", "functions", "fused", "index", "lists", "logic", "math", "matrix",
    "nn", "reduce", "rng", "sets", "source", "state", "updates",
]
