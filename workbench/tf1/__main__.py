"""`python -m workbench.tf1 run SCRIPT` runs a program of TensorFlow; `check SCRIPT…` lists which names are not offered."""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import workbench.tf1 as tf
from workbench.tf1.imports import as_tensorflow
from workbench.tf1.missing import needs
from workbench.tf1.then import names_then, run_main, sources_then

USE = "use: python -m workbench.tf1 check SCRIPT…, or run SCRIPT arguments…"


def main(arguments: Sequence[str]) -> int:
    """0 when everything is offered, 1 when something is missing, 2 for arguments or files that cannot be read."""
    if len(arguments) < 2 or arguments[0] not in ("check", "run"):
        print(USE, file=sys.stderr)
        return 2
    if arguments[0] == "run":
        return run(arguments[1:])
    worst = 0
    for path in map(Path, arguments[1:]):
        try:
            found = needs(path, tf)
        except (OSError, SyntaxError, ValueError) as error:
            print(f"{path}: it cannot be read as Python: {error}", file=sys.stderr)
            worst = 2
            continue
        missing = [need for need in found if need.why]
        for need in missing:
            print(f"{need.path}:{need.line}: {need.why.removeprefix('workbench.tf1: ')}")
        names = {need.name for need in found}
        print(f"{path}: {len(names)} names of TensorFlow, {len({need.name for need in missing})} not offered")
        worst = max(worst, 1 if missing else 0)
    return worst


def run(arguments: Sequence[str]) -> int:
    """Run a script as `python SCRIPT arguments…` did then, with `import tensorflow` leading here (`workbench/tf1/then.py`)."""
    script = arguments[0]
    if not os.path.isfile(script):
        print(f"{script}: there is no such file", file=sys.stderr)
        return 2
    as_tensorflow()
    names_then()
    sources_then(script)
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    run_main(script)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
