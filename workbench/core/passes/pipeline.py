"""The passes in order, each with the sentence that explains it to the viewer."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from workbench.core.graph.check import verify
from workbench.core.graph.program import Program
from workbench.core.passes.ahead import ahead
from workbench.core.passes.algebra import algebra
from workbench.core.passes.bodies import rewrite_bodies
from workbench.core.passes.broad import broad
from workbench.core.passes.cse import cse
from workbench.core.passes.epilogue import epilogue
from workbench.core.passes.finite import SENTENCE as LOOKED
from workbench.core.passes.finite import finite
from workbench.core.passes.fold import fold
from workbench.core.passes.fuse import fuse
from workbench.core.passes.hoist import hoist
from workbench.core.passes.invariant import invariant
from workbench.core.passes.join import join
from workbench.core.passes.pads import pads
from workbench.core.passes.precision import SENTENCE, precision
from workbench.core.passes.rows import rows
from workbench.core.passes.stable import stable
from workbench.core.passes.together import together
from workbench.core.passes.unread import unread
from workbench.core.passes.whole import whole
from workbench.core.passes.widen import widen
from workbench.settings import settings

__all__ = ["DEVICE_PASSES", "PASSES", "Passes", "checks", "passes_with", "run_passes"]

Pass = Callable[[Program], Program]
Passes = tuple[tuple[str, Pass, str], ...]

PASSES: Passes = (
    ("fold", fold, "Constants are computed once, now, instead of in every step."),
    ("stable", stable, "Formulas that overflow or cancel, such as log(softmax(x)), become functions that do neither."),
    ("algebra", algebra, "Operations that change nothing (x + 0, identity) are removed."),
    ("invariant", invariant, "Variables that a loop only reads are read once, before it."),
    ("cse", cse, "Equal computations are done once and shared."),
    ("unread", unread, "Variables of loops that nobody reads, such as lists for gradients that need none, are left out."),
)


DEVICE_PASSES: Passes = (
    ("widen", widen, "Products that no library computes in 16 bits are those of rounded values in float32."),
    ("rows", rows, "Rows of large tensors are read where they lie, and gradients of all rows are put together."),
    ("ahead", ahead, "What all iterations of a loop multiply by a weight is one product, before or behind the loop."),
    ("hoist", hoist, "What all steps of a recurrence multiply by a weight is one product, before or behind the steps."),
    ("join", join, "Sums of products over rows become one product over all rows."),
    ("pads", pads, "Convolutions pad by themselves instead of reading a padded copy."),
    ("broad", broad, "Filters as wide as what they read take width and channels for channels; as large ones are products."),
    ("epilogue", epilogue, "Bias, ReLU and weight updates are folded into the products they follow."),
    ("whole", whole, "What is reduced over all axes is reduced row by row, where it is computed, and then over rows."),
    ("fuse", fuse, "Elementwise chains become one kernel that passes over memory once."),
    ("together", together, "Updates of small variables by one rule take their locks and read their settings once."),
)
"""Run on each device's graph after partition, so that no kernel spans devices."""


def passes_with(short: str | None = None) -> Passes:
    """PASSES, and where a type of 16 bits is named, the pass that computes products in it, before equal casts are shared."""
    return PASSES if short is None else (*PASSES[:2], ("precision", precision(short), SENTENCE), *PASSES[2:])


def checks(check_numerics: bool | None = None, scales: Collection[str] = ()) -> Passes:
    """The pass for `check_numerics` (None: as `settings` say), which goes before all others, also those in bodies, when
    operations are as the program wrote them; `scales` are `Contents.loss_scales`."""
    wanted = settings.check_numerics if check_numerics is None else check_numerics
    return (("finite", finite(scales), LOOKED),) if wanted else ()


def run_passes(program: Program, disabled: Iterable[str] = (),
               record: Callable[[str, str, Program], None] | None = None,
               stages: Passes = PASSES) -> Program:
    """All enabled passes in order, first in the bodies of branches and loops; `record(name, sentence, program)` sees
    the graph after each."""
    off = frozenset(disabled)
    program, verified = rewrite_bodies(program, lambda body: run_passes(body, off, stages=stages)), None
    for name, function, sentence in stages:
        if name in off:
            continue
        program = function(program)
        if settings.check and program is not verified:      # a pass that finds nothing to do returns what it was given
            verify(program, name)
            verified = program
        if record is not None:
            record(name, sentence, program)
    return program
