"""pip with a line per package: what is fetched and installed while one waits, and all it said where it fails."""
from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["install", "shown"]

_FETCHED = re.compile(r"\s*(?:Downloading|Using cached) (\S+?)-(\d[^-]*)\S*(.*)")


def shown(line: str) -> str:
    """What people read of a line that pip says, "" for most."""
    if found := _FETCHED.match(line):
        return f"fetching {found[1]} {found[2]}{found[3]}".rstrip()
    if line.startswith("Installing collected packages: "):
        return f"installing {line.count(',') + 1} packages"
    return f"preparing {line.split()[-1]}" if line.startswith("Obtaining ") else ""


def install(arguments: Sequence[str], pip: Sequence[str] = (sys.executable, "-m", "pip", "install", "--progress-bar=off")) -> int:
    """Run pip; its exit status."""
    said = []
    with subprocess.Popen([*pip, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            if words := shown(line):
                print(f"  {words}", flush=True)
    if running.returncode:
        print("".join(said), file=sys.stderr, end="")
    return running.returncode


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:]))
