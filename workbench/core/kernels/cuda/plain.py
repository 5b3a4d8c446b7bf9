"""Reference kernels that are one expression of NumPy's functions: CuPy's arrays answer those, so they serve as they stand."""
from __future__ import annotations

from workbench.core.graph.opdef import registry
from workbench.core.kernels.cuda.values import ALL, FLOATS, REALS, lifted

__all__ = ["HOSTED", "PLAIN"]

PLAIN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # of the shape alone: what they give is the host's
    **dict.fromkeys(("shape", "size", "rank"), (ALL, ())),
    **dict.fromkeys(("identity", "stop_gradient", "placeholder_with_default", "expand_dims", "squeeze", "row_block",
                     "transpose", "reverse"), (ALL, ())),
    **dict.fromkeys(("reshape", "broadcast_to"), (ALL, ("shape",))),
    "slice": (ALL, ("begin", "size")),
    "diag": (REALS, ()), "diag_part": (REALS, ()),
    "matrix_transpose": (ALL, ()),
}
"""Operation -> the dtypes, and the inputs that the host reads."""

for _name, (_dtypes, _host) in PLAIN.items():
    _definition = registry[_name]
    _definition.kernel("gpu", _dtypes)(lifted(_definition, _definition.reference, _host))

# computed by the host: what is counted, since its length is the host's, and drawn numbers, which are then those of the CPU
HOSTED = {"range": REALS, "linspace": FLOATS, "random_uniform": REALS, "random_normal": REALS, "truncated_normal": REALS}
for _name, _dtypes in HOSTED.items():
    _definition = registry[_name]
    _definition.kernel("gpu", _dtypes)(lifted(_definition, _definition.reference, _definition.inputs))
