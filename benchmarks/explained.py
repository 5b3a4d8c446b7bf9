"""What serves our training steps, operation by operation, and what another instruction set changes about it.

    python -m benchmarks.explained [googlenet] [lm_full] [--rows N] [--differences]

Prints what `Session.explain` says of the step, with shares of the step in place of times: on one thread, by processor time,
of some steps that are timed operation by operation. `--differences` prints instead which library and kernel serve the same
operations on this processor and kept to AVX2, each in a process of its own, and how many operations that concerns.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter

from benchmarks.limits import times, training
from benchmarks.table import AVX2

WORK = ("googlenet", "lm_full")
Served = dict[str, list[str]]      # operation -> its type, library and kernel


def tell(work: str, most: int) -> None:
    """The rows as they are executed, `most` at most from each end."""
    time.perf_counter = time.process_time      # the steps' own timing as well
    session, train, feed = training(work)
    found = times(session, train, feed)
    whole = sum(seconds for _, seconds in found)
    explained = session.explain(train, feed)
    print(f"\n{work}: {len(found)} operations\n" + "\n".join(explained.usages) + "\n")
    columns = {name: i for i, name in enumerate(explained.table[0])}
    cells = {line[0].strip(): line for line in explained.table[1:]}
    shown = found if len(found) <= 2 * most else [*found[:most], None, *found[-most:]]
    for one in shown:
        if one is None:
            print("…")
            continue
        row, seconds = one
        line = cells[row.name]
        print("  ".join([f"{seconds / whole:6.2%}", *(line[columns[name]] for name in
                                                      ("operation", "type", "library", "kernel", "bytes", "notes"))]))


def served(work: str) -> Served:
    session, train, feed = training(work)
    return {row.name: [row.type, row.library, row.kernel] for row in session.explain(train, feed).rows}


def differences(work: str) -> None:
    """`own` and AVX2: what serves the operations that both have, where that is not the same."""
    own, other = (json.loads(subprocess.run([sys.executable, "-m", "benchmarks.explained", work, "--served"], check=True,
                                            env={**os.environ, **more}, capture_output=True, text=True).stdout)
                  for more in ({}, AVX2))
    kinds = Counter((own[name][0], *(f"{library}: {kernel}" for _, library, kernel in (own[name], other[name])))
                    for name in own if name in other and own[name] != other[name])
    print(f"\n{work}: {sum(kinds.values())} of {len(own)} operations are served otherwise\n")
    print("| operations | type | this processor | AVX2 |\n|---|---|---|---|")
    for (type_, one, two), count in kinds.most_common():
        print(f"| {count} | {type_} | {one} | {two} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", choices=[*WORK, []], default=[])
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--differences", action="store_true")
    parser.add_argument("--served", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("WB_THREADS", "1")
    for work in options.work or WORK:
        if options.served:
            print(json.dumps(served(work)))
        elif options.differences:
            differences(work)
        else:
            tell(work, options.rows)


if __name__ == "__main__":
    main()
