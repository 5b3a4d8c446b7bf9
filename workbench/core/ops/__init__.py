"""What exists: a family of operations a file, an operation a block."""
from workbench.core.ops import (
    array,
    comm,
    conv,
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
    sets,
    source,
)

__all__ = ["array", "comm", "conv", "filling", "functions", "fused", "index", "logic", "math", "matrix", "nn",
           "reduce", "rng", "sets", "source"]
