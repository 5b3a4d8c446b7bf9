"""What exists: a family of operations a file, an operation a block."""
from workbench.core.ops import array, conv, filling, functions, index, logic, math, matrix, nn, reduce, rng, sets, source

__all__ = ["array", "conv", "filling", "functions", "index", "logic", "math", "matrix", "nn", "reduce", "rng", "sets", "source"]
