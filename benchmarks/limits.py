"""Where our training step goes, kind by kind of operation, beside what this machine can do at most.

    python -m benchmarks.limits [softmax] [mlp] [lenet] [alexnet] [googlenet] [inception_v3] [overfeat] [vgg_a] [lm_full]
                                [lm_sampled] [lm_full_loop] [lm_sampled_loop] [mlp_one] [googlenet_one]

One thread and processor time, so that what others compute meanwhile matters little; the shortest time of each operation in
some steps that are timed operation by operation. The limits are measured in the same process: multiplications and additions
a second in the best of some square products (NumPy's and ours), and bytes a second in copying arrays beyond the caches. An
operation cannot take less than its arithmetic at the one rate, nor than its bytes at the other: "at least" is the larger of
both, and its sum says which share of the step those rates would leave. A loop is told by what runs in it, in all its turns.
Winograd's convolutions do fewer multiplications than are counted, and may lie below.
"""
from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.zoo_networks import BATCHES, RATES, given, our_network, our_training, start

STEPS = 5
SQUARES = (512, 1024, 1536)
COPIED = 1 << 26
LANGUAGE = dict.fromkeys(("lm_full", "lm_sampled", "lm_full_loop", "lm_sampled_loop"), 20)
TURNS = 20      # of the loops of these
ALONE = {"mlp_one": 1, "googlenet_one": 1}      # what a network says of one image
WORK = {"softmax": 100, **BATCHES, **LANGUAGE, **ALONE}


class Limits(NamedTuple):
    """What the machine does a second on one thread."""

    operations: float
    nbytes: float

    def least(self, cost: Any) -> float:
        """Seconds that an operation needs at these rates."""
        return max(cost.operations / self.operations, cost.nbytes / self.nbytes) if cost else 0.0


def shortest(work: Callable[[], Any], turns: int = 5) -> float:
    found = []
    for _ in range(turns):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def limits(wb: Any) -> Limits:
    best = 0.0
    for size in SQUARES:
        a = np.random.default_rng(0).random((size, size), np.float32)
        with wb.Graph().as_default():
            x, y = wb.placeholder("float32", [size, size]), wb.placeholder("float32", [size, size])
            with wb.Session() as session:
                ours = session.make_callable(wb.matmul(x, y), [x, y])
                times = shortest(lambda: a @ a), shortest(lambda: ours(a, a))  # noqa: B023
        best = max(best, 2.0 * size ** 3 / min(times))
    one, other = np.ones(COPIED // 4, np.float32), np.empty(COPIED // 4, np.float32)
    return Limits(best, 2 * COPIED / shortest(lambda: np.copyto(other, one)))


def training(network: str) -> tuple[Any, Any, dict[Any, Any]]:
    """(session, what trains, what is fed)"""
    if network in LANGUAGE:
        import workbench.tf1 as tf
        from benchmarks import language_model
        return language_model.training(tf, False, "sampled" in network, "loop" in network)[:3]
    if network == "softmax":
        import workbench as wb
        from benchmarks import softmax_step
        return softmax_step.training(wb, *softmax_step.given())[:3]
    if network in ALONE:
        image = given(network.removesuffix("_one"), 1)[0]
        wb, session, x, logits = our_network(network.removesuffix("_one"), image)
        start(wb, session)
        return session, logits, {x: image}
    session, train, _, feed = our_training(network, *given(network, BATCHES[network]), RATES.get(network, 1e-3))
    return session, train, feed


def times(session: Any, train: Any, feed: dict[Any, Any]) -> list[tuple[Any, int, float]]:
    """(row of `explain`, how often it runs in a step, its shortest time in `STEPS` steps), in the order of execution."""
    for _ in range(2):
        session.run(train, feed)
    best: dict[str, float] = {}
    for _ in range(STEPS):
        found = session.explain(train, feed, steps=1)
        best |= {row.name: min(best.get(row.name, row.measured), row.measured) for row in found.rows if row.measured}
    return [(row, TURNS if row.inside else 1, best[row.name]) for row in found.rows if row.name in best and row.type != "while"]


def tell(network: str, rows: Iterable[tuple[Any, int, float]], most: Limits) -> None:
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    for row, turns, seconds in rows:
        kind = f"{row.type} ({row.library})" if row.library else row.type
        known = row.cost if row.library else None      # what only names a buffer anew moves nothing
        each = (known.operations, known.nbytes, most.least(known)) if known else (0, 0, 0)
        parts = (turns, seconds, *(turns * part for part in each))
        kinds[kind] = [a + b for a, b in zip(kinds[kind], parts)]
    whole, least = sum(sums[1] for sums in kinds.values()), sum(sums[4] for sums in kinds.values())
    print(f"\n{network}, batch {WORK[network]}, one thread: at those rates {least / whole:.2f} of the step\n")
    print("| operations | calls | share of the step | arithmetic, of the best product's rate | bytes, of copying's rate "
          "| at least |\n|---|---|---|---|---|---|")
    for kind, (calls, seconds, operations, nbytes, least) in sorted(kinds.items(), key=lambda item: -item[1][1]):
        if seconds >= whole / 100:
            print(f"| {kind} | {calls:.0f} | {seconds / whole:.1%} | {operations / seconds / most.operations:.0%} | "
                  f"{nbytes / seconds / most.nbytes:.0%} | {least / whole:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", choices=[*WORK, []], default=[])
    options = parser.parse_args()
    os.environ |= {"WB_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
    import workbench as wb
    time.perf_counter = time.process_time      # the steps' own timing as well
    most = limits(wb)
    for network in options.network or WORK:
        with wb.Graph().as_default():
            found = times(*training(network))
        most = Limits(*map(max, most, limits(wb)))      # a machine that is shared is not always as fast
        tell(network, found, most)


if __name__ == "__main__":
    main()
