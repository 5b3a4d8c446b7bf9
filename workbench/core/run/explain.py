"""What a step does, as a table for people: a row for each operation, the memory of each device, sources on request."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench import errors
from workbench.core.compile.budget import Budgeted
from workbench.core.compile.explain import Row, Usage, explain_plan, usage
from workbench.core.compile.plan import Plan, plans_of
from workbench.core.device.interface import Memory
from workbench.core.kernels.choice import Decision
from workbench.core.trace import Journal, Span, spans_of

__all__ = ["Explanation", "explained", "kernel_of"]

FUSED = 8       # operations of a fused kernel that are named
COLUMNS = ("operation", "type", "library", "kernel", "estimated", "measured", "bytes", "notes")
_EXECUTABLE = Span._fields.index("executable")


@dataclass(frozen=True)
class Explanation:
    """What one executable of a session does; printed it is a table. `rows` are in the order of execution, device by
    device; estimates are rough and for one thread; `steps` is how many steps the measured times come from."""

    executable: str
    rows: tuple[Row, ...]
    memory: tuple[Usage, ...]
    programs: tuple[tuple[str, str], ...]       # device, the Python that its steps run
    steps: int = 0
    devices: tuple[tuple[str, int, int], ...] = ()      # bytes in use now and at most so far, of devices of this process
    budgets: Mapping[str, Budgeted] = field(default_factory=dict)      # of a session with a memory budget, by device

    def source(self, operation: str | None = None) -> str:
        """The source that the kernel of an operation (by its name, or one of those it was fused with) was compiled from;
        without a name the Python that a step runs. NotFoundError for an operation without a generated kernel."""
        if operation is None:
            return "\n".join(f"# {device}\n{text}" for device, text in self.programs)
        for row in self.rows:
            if row.source and operation in (row.name, *row.members):
                return row.source
        here = [row for row in self.rows if operation == row.name]
        fact = (f"runs as {here[0].library or 'no library'}, {here[0].kernel}; only generated kernels have a source" if here
                else "is not part of this step; the names are those of the rows")
        raise errors.NotFoundError(f"explain: {operation!r} {fact}")

    @property
    def summary(self) -> str:
        """One line: how much, how long."""
        estimated = sum(row.cost.seconds for row in self.rows if row.cost and not row.inside)
        measured = sum(row.measured or 0.0 for row in self.rows if not row.inside)
        kernels = sum(bool(row.library) for row in self.rows)
        return (f"{self.executable}: {len(self.rows)} operations, {kernels} kernels, estimated {_time(estimated)} on one thread"
                + (f", measured {_time(measured)} ({self.steps} timed {'step' if self.steps == 1 else 'steps'})"
                   if self.steps else ""))

    @property
    def usages(self) -> list[str]:
        """The memory that the plan of each device needs, and what its devices in this process hold."""
        return [f"{m.device}: arena {m.arena:,} bytes{_outside(m)}{self._saved(m.device)}, {m.busiest:,} alive at once "
                f"({', '.join(f'{name} {size:,}' for name, size in m.largest)}), {m.waiting:,} of them for gradients, "
                f"{f'{m.swapped:,} more on disk meanwhile, ' if m.swapped else ''}"
                f"{m.unshared:,} without sharing; "
                f"variables {m.variables:,}, constants {m.constants:,}" for m in self.memory] + [
                    f"{device}: {now:,} bytes in use by this session, {peak:,} at most" for device, now, peak in self.devices]

    def _saved(self, device: str) -> str:
        found = self.budgets.get(device)
        return "" if found is None else (f" of a budget of {found.budget:,} (before {found.again} operations were computed "
                                         f"again {found.before:,})" if found.again else f" of a budget of {found.budget:,}")

    @property
    def table(self) -> list[tuple[str, ...]]:
        """The head and a line for each row, as texts."""
        return [COLUMNS, *map(_cells, self.rows)]

    def __str__(self) -> str:
        return "\n".join([self.summary, *self.usages, "", *_aligned(self.table)])

    __repr__ = __str__


def explained(executable: str, plans: Iterable[tuple[str, Plan]], journal: Journal,
              counted: Callable[[str], Memory | None], budgets: Mapping[str, Budgeted]) -> Explanation:
    """The explanation of `plans` by device, with the times that `journal` remembers of their operations, the memory that is
    `counted` for a device, and what `budgets` changed."""
    parts = list(plans)
    times, steps = _times(executable, journal)
    rows = [replace(row, measured=times.get((row.device, row.name))) for device, plan in parts
            for row in explain_plan(plan, device)]
    held = {device: memory for device, _ in parts if (memory := counted(device)) is not None}
    return Explanation(executable, tuple(rows), tuple(usage(plan, device) for device, plan in parts),
                       tuple((device, plan.source) for device, plan in parts), steps,
                       tuple((device, memory.used, memory.peak) for device, memory in held.items()), budgets)


def kernel_of(executable: str, operation: str) -> list[tuple[str, str]]:
    """What this process knows of how an operation of an executable is computed, as (fact, value) for people; [] where its
    plan is another process's."""
    found = next((row for plan in plans_of(executable) for row in explain_plan(plan) if operation in (row.name, *row.members)),
                 None)
    if found is None:
        return []
    facts = [("Kernel", f"{found.library}: {found.kernel}" if found.library else found.kernel)]
    if found.members:
        together = [name for name in dict.fromkeys((found.name, *found.members)) if name != operation]
        facts.append(("Fused with", ", ".join(together[:FUSED]) + (f" and {len(together) - FUSED} more" if len(together) > FUSED
                                                                  else "")))
    elif found.unfused:
        facts.append(("Not fused", found.unfused))
    if found.decision is not None:
        facts.append(("Chosen", _decided(found.decision)))
    if found.cost is not None:
        facts.append(("Estimated", f"{_time(found.cost.seconds)} on one thread, {found.cost.nbytes:,} bytes read and written"))
    return facts


def _times(executable: str, journal: Journal) -> tuple[dict[tuple[str, str], float], int]:
    """(device, operation) -> mean seconds a step; and how many steps were timed."""
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    steps: set[int] = set()
    for span in spans_of(row for row in journal.rows_since(0)[2] if row[_EXECUTABLE] == executable):      # few of all
        if span.kind in ("op", "loop"):
            total[span.device, span.name] += span.seconds
            steps.add(span.step)
    return {key: seconds / len(steps) for key, seconds in total.items()}, len(steps)


def _outside(usage: Usage) -> str:
    return f" and {usage.outside:,} outside" if usage.outside else ""


def _cells(row: Row) -> tuple[str, ...]:
    """The row as text, a cell for each of COLUMNS."""
    notes = [f"fused: {', '.join(row.members)}" if row.members else "",
             f"not fused: {row.unfused}" if row.unfused else "", f"{row.reorders} reorders" if row.reorders else "",
             f"scratch {row.scratch:,} bytes" if row.scratch else "", _decided(row.decision) if row.decision else ""]
    return (("  " if row.inside else "") + row.name, row.type, row.library or "-", row.kernel,
            _time(row.cost.seconds) if row.cost else "?", "" if row.measured is None else _time(row.measured),
            f"{row.cost.nbytes:,}" if row.cost else "?", "; ".join(filter(None, notes)))


def _decided(decision: Decision) -> str:
    """Which way, why, and what the ways take as far as it was measured: "way plain (measured): plain 20 µs, blas 24 µs"."""
    others = [name for name in decision.question.ways if name not in decision.seconds]
    times = [f"{name} {_time(seconds)}" for name, seconds in sorted(decision.seconds.items(), key=lambda pair: pair[1])]
    if not times:
        return f"way {decision.way} ({decision.by}), of {', '.join(others)}"
    return f"way {decision.way} ({decision.by}): {', '.join([*times, *(f'{name} not served' for name in others)])}"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
