"""What exists: a family of operations a file, an operation a block."""
from workbench.core.ops import (
    array,
    comm,
    filling,
    functions,
    fused,
    index,
    logic,
    math,
    matrix,
    nn,
    reduce,
    rng,
    source,
)

__all__ = ["array", "comm", "filling", "functions", "fused", "index", "logic", "math", "matrix", "nn", "reduce", "rng",
           "source"]
