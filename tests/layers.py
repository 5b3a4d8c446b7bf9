"""Reads every module's imports, calls and sizes and says which break the rules; the rules stand in test_layers.py."""
from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "workbench"
FACADE = "."          # the package itself: its public names


@dataclass(frozen=True)
class Module:
    """One source file; `name` is without the package: "core.graph", "core" for core/__init__.py, "." for our own."""

    name: str
    source: str
    package: bool = False

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return nodes(self.source)

    @cached_property
    def imports_and_calls(self) -> list[ast.AST]:
        return [node for node in self.nodes if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call))]


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a source, outer ones first: many rules ask for those of the whole package, which take seconds to find."""
    return tuple(ast.walk(ast.parse(source)))


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Every module of the package by name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root / PACKAGE).with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts) or FACADE
        found[name] = Module(name, path.read_text(encoding="utf-8"), package)
    return found


def matches(name: str, patterns: str) -> bool:
    """Does one of the space-separated patterns fit? `core.ops.*` fits `core.ops` too."""
    return any(fnmatchcase(name, p) or (p.endswith(".*") and name == p[:-2]) for p in patterns.split())


def imports(module: Module, known: Mapping[str, Module]) -> Iterator[tuple[str, int]]:
    """(absolute dotted name, line) of every import, wherever it stands: in functions and under TYPE_CHECKING too."""
    for node in module.imports_and_calls:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield (deeper if _own(deeper) in known and deeper != PACKAGE else base), node.lineno
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, node.lineno


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    full = [PACKAGE, *([] if module.name == FACADE else module.name.split("."))]
    base = full[:len(full) - node.level + (1 if module.package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _own(name: str) -> str | None:
    """The name inside the package, None for a foreign one."""
    if name == PACKAGE:
        return FACADE
    return name[len(PACKAGE) + 1:] if name.startswith(PACKAGE + ".") else None


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def own_imports(module: Module, known: Mapping[str, Module]) -> dict[str, int]:
    """Modules of this package that `module` imports -> line."""
    found: dict[str, int] = {}
    for name, line in imports(module, known):
        own = _own(name)
        while own is not None and own not in known and "." in own:
            own = own.rpartition(".")[0]          # a name inside a module
        if own is not None and own != module.name:
            found.setdefault(own, line)
    return found


@cache
def level(name: str, layers: Sequence[tuple[str, str]]) -> int | None:
    """Which layer a module is in; the most specific pattern wins."""
    fits = [(len(p.rstrip("*")), not p.endswith("*"), i) for i, (_, patterns) in enumerate(layers)
            for p in patterns.split() if matches(name, p)]
    return max(fits)[2] if fits else None


def upward(known: Mapping[str, Module], layers: Sequence[tuple[str, str]], packages: str) -> list[str]:
    """Imports that do not go strictly down; modules of one of the `packages` may use each other."""
    faults = []
    for module in known.values():
        here = level(module.name, layers)
        if here is None:
            faults.append(f"{module.name}: it is in no layer; give it a place in LAYERS")
            continue
        for other, line in own_imports(module, known).items():
            there = level(other, layers)
            family = any(matches(module.name, p) and matches(other, p) for p in packages.split())
            if there is not None and (there > here or (there == here and not family)):
                faults.append(f"{module.name}:{line} imports {other}, but {layers[there][0]!r} is not below "
                              f"{layers[here][0]!r}")
    return faults


def cycles(known: Mapping[str, Module]) -> list[str]:
    """Groups of modules that import each other, one line per group found."""
    edges = {name: set(own_imports(module, known)) & set(known) for name, module in known.items()}
    faults, done = [], set[str]()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            faults.append(" -> ".join([*path[path.index(name):], name]))
        elif name not in done:
            for other in sorted(edges[name]):
                visit(other, [*path, name])
            done.add(name)

    for name in edges:
        visit(name, [])
    return faults


def foreign(known: Mapping[str, Module], owners: Sequence[tuple[str, str]]) -> list[str]:
    """Imports of libraries outside the modules that own them."""
    faults = []
    for module in known.values():
        for name, line in imports(module, known):
            top = name.partition(".")[0]
            for libraries, patterns in owners:
                if top in libraries.split() and not matches(module.name, patterns):
                    who = f"{patterns} alone" if patterns else "nobody"
                    faults.append(f"{module.name}:{line} imports {top}, which is for {who}")
    return faults


def outside(known: Mapping[str, Module], users: str, allowed: str) -> list[str]:
    """Imports of own modules by `users` beyond those `allowed`."""
    return [f"{module.name}:{line} imports {other}, but {users} may only use {allowed}"
            for module in known.values() if matches(module.name, users)
            for other, line in own_imports(module, known).items() if not matches(other, allowed)]


def family_imports(known: Mapping[str, Module], folder: str) -> list[str]:
    """Imports between the families of a folder; `flow_grad` and `flow_body` are both of the family `flow`."""
    def family(name: str) -> str:
        return name.removeprefix(folder + ".").partition("_")[0]

    return [f"{module.name}:{line} imports {other}; call `ops.<name>` instead"
            for module in known.values() if module.name.startswith(folder + ".")
            for other, line in own_imports(module, known).items()
            if other.startswith(folder + ".") and family(other) != family(module.name)]


def calls(known: Mapping[str, Module], banned: str, allowed: Mapping[str, str]) -> list[str]:
    """Calls of `banned` built-ins by their plain names beyond those `allowed`, `shell=True`, `allow_pickle=True`."""
    faults = []
    for module in known.values():
        for node in module.imports_and_calls:
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in banned.split() and name not in allowed.get(module.name, "").split():
                faults.append(f"{module.name}:{node.lineno} calls {name}")
            faults += [f"{module.name}:{node.lineno} passes {word.arg}=True" for word in node.keywords
                       if word.arg in ("shell", "allow_pickle") and not (
                           isinstance(word.value, ast.Constant) and word.value.value is False)]
    return faults


def oversize(known: Mapping[str, Module], lines: int, function_lines: int) -> dict[str, int]:
    """"core.graph" or "core.graph:Graph.add" -> lines, for files and functions beyond the limits."""
    found = {name: count for name, module in known.items() if (count := len(module.source.splitlines())) > lines}

    def visit(node: ast.AST, path: str, module: Module) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                continue          # no function stands in an expression
            inner = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{path}.{child.name}" if path else child.name
                size = (child.end_lineno or 0) - child.lineno + 1
                if not isinstance(child, ast.ClassDef) and size > function_lines:
                    found[f"{module.name}:{inner}"] = size
            visit(child, inner, module)

    for module in known.values():
        visit(module.nodes[0], "", module)
    return found


def unexplained(known: Mapping[str, Module]) -> list[str]:
    """Modules whose first line is no docstring of one sentence."""
    faults = []
    for module in known.values():
        first = module.source.split("\n", 1)[0]
        sentence = first.removeprefix('"""').removesuffix('"""').strip()
        if not first.startswith('"""') or not sentence.endswith((".", ":")) or not ast.get_docstring(module.nodes[0]):
            faults.append(f"{module.name}:1 starts with {first[:60]!r}, but the first line says in one sentence what "
                          "the module owns")
    return faults
