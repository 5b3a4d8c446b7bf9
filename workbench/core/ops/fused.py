"""The operation that stands for a fused chain of elementwise operations; passes/fuse.py makes it, users never do."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.graph.opdef import op, registry

Step = tuple[str, tuple[tuple[str, int], ...], tuple[tuple[str, Any], ...]]


def _shapes(inputs: Any, attrs: Any) -> list[Any]:
    return list(attrs["shapes"])


def _dtypes(dtypes: Any, attrs: Any) -> list[Any]:
    return list(attrs["dtypes"])


@op("*values? -> ?", types=_dtypes, shape=_shapes)
def fused(*values: Any, steps: tuple[Step, ...], results: tuple[int, ...], shapes: Any, dtypes: Any,
          names: tuple[str, ...] = ()) -> Any:
    """Several elementwise operations in one pass over memory.

    `steps` are (operation type, operands, attributes); an operand is ("input", i) or ("step", i). `results` are the
    steps whose values leave the kernel, `names` the operations that they were. The meaning is that of the reference kernels
    run one after the other.
    """
    done: list[Any] = []
    for kind, operands, attrs in steps:
        arguments = [values[i] if where == "input" else done[i] for where, i in operands]
        done.append(registry[kind].reference(*arguments, **dict(attrs)))
    outputs = [np.broadcast_to(done[i], s.static) for i, s in zip(results, shapes)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
