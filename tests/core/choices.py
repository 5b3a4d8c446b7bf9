"""What a session may be told about passes and kernels, and rows of operations under it, as the reference says."""
from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.core.ops.test_seams import chain, close, differentiated, tensors_of
from tests.evaluate import evaluate
from tests.opcases import Case
from workbench import errors
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.program import Program
from workbench.core.kernels.measured.question import WAYS
from workbench.core.kernels.options import KernelOptions
from workbench.core.passes.pipeline import DEVICE_PASSES, PASSES, run_passes
from workbench.core.passes.prune import prune
from workbench.core.run.session import Session

__all__ = ["EVERY", "LIBRARIES", "asked", "differing", "drawn", "without_passes"]

EVERY = tuple(name for name, _, _ in PASSES + DEVICE_PASSES)
LIBRARIES = ((), ("llvm",), ("onednn",), ("onednn", "llvm"))


def drawn(seed: int) -> dict[str, Any]:
    """Options of a session: every pass, library, way and the other choices of kernels as a coin falls."""
    coin = random.Random(f"options {seed}")
    kernels = KernelOptions(libraries=coin.choice(LIBRARIES), winograd=coin.random() < 0.5, keep_positions=coin.random() < 0.5,
                            deterministic=coin.random() < 0.5, ways={op: coin.choice(ways) for op, ways in WAYS.items()})
    return {"disabled_passes": [name for name in EVERY if coin.random() < 0.5], "lower_all": coin.random() < 0.2,
            "kernels": kernels}


def _effective(program: Program, off: Sequence[str]) -> frozenset[str]:
    """The passes that change the program, or a body in it, where those in `off` are not run."""
    found = set()

    def watched(name: str, rewrite: Any) -> Any:
        def run(given: Program) -> Program:
            made: Program = rewrite(given)
            if made is not given:      # a pass that finds nothing to do returns what it was given
                found.add(name)
            return made
        return run
    run_passes(program, off, stages=tuple((name, watched(name, rewrite), why) for name, rewrite, why in PASSES + DEVICE_PASSES))
    return frozenset(found)


def differing(program: Program) -> Iterator[tuple[str, ...]]:
    """`disabled_passes` of all passes without one and of each alone, where that makes another graph than the others make."""
    whole = _effective(program, ())
    seen = {whole}
    for off in (*((name,) for name in EVERY if name in whole), *(tuple(set(EVERY) - {name}) for name in EVERY)):
        found = _effective(program, off)
        if found not in seen:
            seen.add(found)
            yield off


def _built(row: Case, inputs: Sequence[Any]) -> tuple[list[Tensor], dict[Tensor, Any]]:
    """(the outputs of a row, and gradients where there are some; feeds)"""
    tensors, feeds = tensors_of(row, inputs)
    outputs = [y for y in row.build(*tensors) if isinstance(y, Tensor)]
    try:
        return [*outputs, *differentiated(outputs, feeds)], feeds
    except errors.UnimplementedError:      # of these shapes
        return outputs, feeds


def _agree(session: Session, fetches: list[Tensor], feeds: dict[Tensor, Any], wanted: Sequence[Any]) -> None:
    for value, right in zip(session.run(fetches, feeds), wanted, strict=True):
        close(value, right)


def without_passes(row: Case, inputs: Sequence[Any]) -> list[tuple[str, ...]]:
    """Compare a row under each of the `differing` choices of passes, which are returned."""
    with Graph().as_default() as graph:
        fetches, feeds = _built(row, inputs)
        fetches += [chain(y) for y in fetches[:1] if y.dtype.kind not in ("object", "string") and not y.dtype.is_quantized]
        wanted = evaluate(fetches, feeds)
        found = list(differing(prune(graph, fetches, [], {x: x.shape for x in feeds})))
        for off in found:
            with Session(disabled_passes=off) as session:
                _agree(session, fetches, feeds, wanted)
    return found


def asked(row: Case, inputs: Sequence[Any]) -> set[tuple[str, str]]:
    """Compare a row under each way that an operation of it has; (operation, way) that served because it was asked for."""
    served = set[tuple[str, str]]()
    with Graph().as_default():
        fetches, feeds = _built(row, inputs)
        with Session(kernels=KernelOptions(libraries=LIBRARIES[-1])) as session:
            decisions = [line.decision for line in session.explain(fetches, feeds).rows]
        ways = sorted({way for decision in decisions if decision is not None for way in decision.question.ways})
        wanted = evaluate(fetches, feeds) if ways else []
        for way in ways:
            options = KernelOptions(libraries=LIBRARIES[-1], ways={op: way for op, all_ways in WAYS.items() if way in all_ways})
            with Session(kernels=options) as session:
                _agree(session, fetches, feeds, wanted)
                served.update((line.type, way) for line in session.explain(fetches, feeds).rows
                              if line.decision is not None and (line.decision.way, line.decision.by) == (way, "asked"))
    return served
