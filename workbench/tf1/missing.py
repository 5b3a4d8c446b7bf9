"""What TensorFlow has and we have not: said at the program's line, with the nearest thing that is there."""
from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

__all__ = ["Namespace", "Need", "nearest", "needs", "unknown"]

INSTEAD = {
    "LMDBReader": "TFRecordReader, over files that python_io.TFRecordWriter makes of what the library lmdb reads",
    "python.debug": "add_check_numerics_ops(), and the Workbench panel, which pauses a step and shows its values",
    "load_op_library": "the decorator wb.op, which makes operations from Python",
    "keras.callbacks.RemoteMonitor": "keras.callbacks.LambdaCallback, or the Workbench panel, which shows runs from afar",
    "keras.utils.GeneratorEnqueuer": "data.Dataset.from_generator(…).prefetch(…)",
    "keras.utils.SequenceEnqueuer": "data.Dataset.from_generator(…).prefetch(…)",
    "keras.utils.HDF5Matrix": "the data sets of the library h5py, whose rows fit_generator takes",
    "keras.utils.convert_all_kernels_in_model": "the weights as they are: kernels of Theano alone had to be turned",
    "keras.utils.plot_model": "the model's summary(), or the graph in the Workbench panel",
    "train.sdca_fprint": "string_to_hash_bucket_strong, which makes numbers of texts",
    "train.sdca_optimizer": "train.FtrlOptimizer, which knows L1 and L2 too",
    "train.sdca_shrink_l1": "train.ProximalGradientDescentOptimizer, which shrinks weights at each step",
}
"""Dotted name, or the beginning of one -> what to use instead."""


_OF_MODULES = frozenset(vars(ModuleType(""))) | {"__builtins__", "__cached__", "__file__", "__path__"}
"""What a module knows of itself: not passed on to a namespace that is made of its names."""


class Namespace(SimpleNamespace):
    """Names of a module of TensorFlow; one that is missing raises AttributeError naming the nearest."""

    _path = "tf"
    __path__: tuple[str, ...] = ()      # these two Python asks for where something below a namespace is imported
    __spec__ = None
    __eq__ = object.__eq__      # it stands among the modules, which are compared by what they are
    __ne__ = object.__ne__
    __hash__ = object.__hash__      # type: ignore[assignment]

    def __init__(self, **names: Any) -> None:
        super().__init__(**{name: thing for name, thing in names.items() if name not in _OF_MODULES})

    @property
    def __name__(self) -> str:
        return "workbench.tf1" + vars(self).get("_path", "tf").removeprefix("tf")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(unknown(f"{vars(self).get('_path', 'tf')}.{name}", vars(self)))


def unknown(path: str, known: Mapping[str, Any]) -> str:
    """One line: what is missing and what is there instead."""
    name = path.removeprefix("tf.")
    instead = next((text for key, text in INSTEAD.items() if name == key or name.startswith(key + ".")), None)
    if instead is None:
        close = nearest(name.rpartition(".")[2], known)
        instead = f"the nearest names are {', '.join(close)}" if close else "nothing here comes near"
    else:
        instead = f"use instead: {instead}"
    return f"workbench.tf1: {path} is not offered; {instead}"


def nearest(name: str, known: Mapping[str, Any]) -> list[str]:
    """Up to three public names that look like `name`; a private one, as tools ask everything for, looks like none."""
    if name.startswith("_"):
        return []
    return difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], n=3, cutoff=0.6)


# what a program needs

class Need(NamedTuple):
    """A name of TensorFlow that a program uses: where, and whether it is offered (`why` is empty then)."""

    path: Path
    line: int
    name: str
    why: str


MODULES = ("tensorflow", "tensorflow.compat.v1", "workbench.tf1")


def needs(path: Path, tf: Any) -> list[Need]:
    """Every name of TensorFlow in a Python file, in order. SyntaxError where the file is not Python."""
    tree = ast.parse(path.read_bytes(), str(path))
    imported = list(_aliases(tree))
    aliases = {local: parts for local, parts, _ in imported}
    places = [(line, ".".join(parts)) for _, parts, line in imported if parts]
    for node in ast.walk(tree):
        dotted = _dotted(node)
        if dotted is not None and dotted[0] in aliases and isinstance(node, ast.Attribute):
            places.append((node.lineno, ".".join([*aliases[dotted[0]], *dotted[1:]])))
    found = {(line, name): Need(path, line, f"tf.{name}", _why(name, tf)) for line, name in places}
    inner = {(line, name) for line, name in found if any(
        other.startswith(name + ".") and there == line for there, other in found)}
    return [found[key] for key in sorted(set(found) - inner)]


def _aliases(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """(local name, its path below TensorFlow, line) of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES and (alias.asname or "." not in alias.name):
                    yield alias.asname or alias.name, (), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for module in sorted(MODULES, key=len, reverse=True):
                if node.module == module or node.module.startswith(module + "."):
                    inner = tuple(part for part in node.module[len(module):].split(".") if part)
                    for alias in node.names:
                        yield alias.asname or alias.name, (*inner, alias.name), node.lineno
                    break


def _dotted(node: ast.AST) -> list[str] | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(names)]


def _why(name: str, tf: Any) -> str:
    found = tf
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            text = str(error)
            return text if text.startswith("workbench.tf1:") else unknown(f"tf.{name}", dict.fromkeys(dir(found)))
        if not isinstance(found, (SimpleNamespace, type(ast))):
            return ""      # a class or a function: what its attributes are is its own affair
    return ""
