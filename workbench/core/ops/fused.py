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


@op("*values? -> ?", types=_dtypes, shape=_shapes, fresh=True)
def fused(*values: Any, steps: tuple[Step, ...], results: tuple[tuple[int, ...], ...], shapes: Any, dtypes: Any,
          columns: tuple[int | None, ...] = (), space: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> Any:
    """Several elementwise operations in one pass over memory.

    `steps` are (operation type, operands, attributes); an operand is ("input", i) or ("step", i). `results` are the steps
    whose values leave the kernel: those of one output lie side by side along its last axis. Of an input for which `columns`
    has a number the kernel reads as many columns as a step has, from that one on. Where steps sum rows, or take their means
    or extremes, over the last axis, `space` is the shape whose rows these are, and the other steps have that shape or one
    number a row; where they sum columns, over all axes but the last, the other steps have that shape. `names` are the
    operations that the steps were. The meaning is that of the reference kernels run one after the other.
    """
    width = shapes[0].static[-1] // len(results[0]) if shapes[0].rank else 1
    given = [value if first is None else value[..., first:first + width]
             for value, first in zip(values, columns or (None,) * len(values))]
    done: list[Any] = []
    until = {i: number for number, (_, operands, _) in enumerate(steps) for where, i in operands if where == "step"}
    until.update((i, len(steps)) for of in results for i in of)
    for number, (kind, operands, attrs) in enumerate(steps):
        arguments = [given[i] if where == "input" else done[i] for where, i in operands]
        repeated = kind == "broadcast_to"
        done.append(np.broadcast_to(arguments[0], dict(attrs)["shape"]) if repeated else
                    registry[kind].reference(*arguments, **dict(attrs)))
        del arguments
        for where, i in operands:
            if where == "step" and until[i] == number:      # what nobody reads any more takes no memory
                done[i] = None
    others = {id(value) for value in values}      # and outputs so far
    outputs = [_own(done[of[0]], s.static, others) if len(of) == 1 else np.concatenate([done[i] for i in of], -1)
               for of, s in zip(results, shapes)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _own(value: Any, shape: tuple[int, ...], others: set[int]) -> Any:
    """`value` of this shape in an array that nothing else refers to: itself, where it is one already."""
    own = isinstance(value, np.ndarray) and value.flags.owndata and value.shape == shape and id(value) not in others
    found = value if own else np.array(np.broadcast_to(value, shape))
    others.add(id(found))
    return found
