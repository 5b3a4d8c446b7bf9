"""The language of generated kernels: a small typed subset of Python, translated to LLVM's assembly text.

A program is a Python module of functions over numbers and typed memory. Types are written as annotations (`floats32` is
memory of float32, `int64` a number); functions without annotations are compiled for the types they are called with.

- Statements: assignment (also augmented), `x[i] = …`, `for i in range(…)`, `if`, one `return` at a function's end, calls.
- Expressions: arithmetic, comparisons, `and`, `or`, `not`, `a if c else b`. All parts are evaluated, there is no short cut:
  an expression must be safe to compute even where its value is not used.
- Memory of bfloat16 (`bfloats16`) gives float32 of the same values, and takes the upper half of a float32: `bfloat16(x)` first.
- A literal takes the type of what it meets. int32 beside int64 is widened; any other mixture is an error.
- `for i in independent(n)` promises that the passes of the loop touch memory independently, so that it can be vectorised.
- `for i in streamed(n)` is that for memory which no cache holds: what later passes need is fetched meanwhile.
- `for i in streamed(n, past=True)`, or `independent`, lets what the passes write one after the other, and none reads, go past
  the caches.
- Functions marked `@fused` may contract products and sums; `@fast` ones may also reorder sums.
- A function to start with that is marked `@wide` uses vectors of 512 bits where the processor has them: functions such as `exp`
  gain, and what the last vector leaves over, one by one, grows.

Nothing here needs LLVM: the result is text, which `llvm.py` compiles.
"""
from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from pathlib import Path

from workbench.core.kernels.elements import LLVM, MEMORY, computed, llvm_type, stored
from workbench.core.kernels.expressions import Expressions, LanguageError, Module, Value
from workbench.core.kernels.stretches import STRETCH, in_stretches

__all__ = ["MEMORY", "LanguageError", "library_source", "translate"]


@functools.cache
def library_source(file: str) -> str:
    """Text of a program that lies beside this module."""
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def translate(sources: Sequence[str], name: str) -> tuple[str, list[str]]:
    """LLVM assembly of function `name` and all it calls, and the types of its parameters as annotated."""
    functions: dict[str, ast.FunctionDef] = {}
    numbers: dict[str, float | int] = {"inf": float("inf"), "nan": float("nan")}
    for source in sources:
        found = _parsed(source)
        functions.update(found[0])
        numbers.update(found[1])
    module = Module(functions, numbers)
    types = [_annotation(a, name) for a in functions[name].args.args]
    _Function(module, functions[name], types, outer=True).write()
    return "\n\n".join([*module.text, "\n".join(module.declared), "\n".join(module.notes)]) + "\n", types


@functools.lru_cache(maxsize=8)
def _parsed(source: str) -> tuple[dict[str, ast.FunctionDef], dict[str, float | int]]:
    functions: dict[str, ast.FunctionDef] = {}
    numbers: dict[str, float | int] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
              and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)):
            numbers[node.targets[0].id] = node.value.value
    return functions, numbers


def _annotation(argument: ast.arg, where: str) -> str:
    name = argument.annotation.id if isinstance(argument.annotation, ast.Name) else ""
    if name not in MEMORY and name not in LLVM:
        raise LanguageError(f"{where}: parameter {argument.arg} has no type of the language, but {name!r}")
    return name


class _Function(Expressions):
    """Writes a function's statements."""

    def write(self) -> str:
        """Append the function to the module; gives the type of its result ("" for none)."""
        name = self.node.name
        parameters = [f"{llvm_type(t)} %arg.{a.arg}" for a, t in zip(self.node.args.args, self.types, strict=True)]
        for argument, type_ in zip(self.node.args.args, self.types):
            if type_ in MEMORY:
                self.memory[argument.arg] = type_
            else:
                self.store(argument.arg, Value(f"%arg.{argument.arg}", type_))
        result = ""
        for statement in self.node.body:
            if isinstance(statement, ast.Return):
                assert statement.value is not None
                value = self.typed(self.expression(statement.value))
                result = value.type
                self.lines += [*self.ends, f"  ret {llvm_type(result)} {value.text}"]
            else:
                self.statement(statement)
        if not result:
            self.lines += [*self.ends, "  ret void"]
        symbol = name if self.outer else self.symbol(name, self.types)
        tail = (' noinline "prefer-vector-width"="512"' if "wide" in self.marks else "") if self.outer else " alwaysinline"
        head = f'define internal {llvm_type(result)} @"{symbol}"({", ".join(parameters)}){tail} {{'
        self.module.text.append("\n".join([head, *self.slots, *self.lines, "}"]))
        return result

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.assign(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.declare(node.target.id, ast.unparse(node.annotation), node.value)
        elif isinstance(node, ast.AugAssign):
            old = ast.parse(ast.unparse(node.target), mode="eval").body      # the same place, read instead of written
            self.assign(node.target, ast.BinOp(old, node.op, node.value))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call):
            self.loop(node.target.id, node.iter, node.body)
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call(node.value)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):      # a docstring
            self.fail(node, "this statement")

    def declare(self, name: str, type_: str, node: ast.expr) -> None:
        if type_ not in LLVM:
            self.fail(node, f"the type {type_}")
        self.store(name, self.typed(self.expression(node, type_), type_))

    def assign(self, target: ast.expr, node: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.store(target.id, self.expression(node, self.variables.get(target.id, "")))
        elif isinstance(target, ast.Subscript):
            address, type_ = self.element(target)
            value = self.typed(self.expression(node, computed(type_)), computed(type_))
            if type_ == "bool":
                value = self.emit("int8", f"zext i1 {value.text} to i8")
            elif type_ == "bfloat16":
                half = self.emit("int32", f"lshr i32 {self.call_bits([value]).text}, 16")
                value = self.emit("int16", f"trunc i32 {half.text} to i16")
            self.lines.append(f"  store {stored(type_)} {value.text}, ptr {address}{self.access}")
        else:
            self.fail(target, "this target of an assignment")

    def store(self, name: str, value: Value) -> None:
        value = self.typed(value, self.variables.get(name, ""))
        if name not in self.variables:
            self.variables[name] = value.type
            self.slots.append(f"  %var.{name} = alloca {LLVM[value.type]}")
        self.lines.append(f"  store {LLVM[value.type]} {value.text}, ptr %var.{name}")

    def loop(self, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> None:
        kind = call.func.id if isinstance(call.func, ast.Name) else ""
        if (kind == "streamed" or call.keywords) and len(call.args) in (1, 2):
            self.stretched(name, call, body)
            return
        if kind not in ("range", "independent") or not 1 <= len(call.args) <= 3:
            self.fail(call, "a loop over this")
        limits = [self.typed(self.expression(a), "int64") for a in call.args]
        start = limits[0] if len(limits) > 1 else Value("0", "int64")
        end, step = limits[min(1, len(limits) - 1)], limits[2].text if len(limits) > 2 else "1"
        label, outer = self.fresh(), self.access
        self.store(name, start)
        self.lines += [f"  br label %test{label}", f"test{label}:"]
        counter = self.load(name)
        inside = self.emit("bool", f"icmp slt i64 {counter.text}, {end.text}")
        self.lines += [f"  br i1 {inside.text}, label %body{label}, label %done{label}", f"body{label}:"]
        mark = ""
        if kind == "independent":
            group = self.module.note("distinct !{}")
            access = self.module.note('!{!"llvm.loop.parallel_accesses", ' + group + "}")
            mark = ", !llvm.loop " + self.module.note("distinct !{!self, " + access + "}")
            self.access = f", !llvm.access.group {group}"
        for statement in body:
            self.statement(statement)
        self.access = outer
        after = self.emit("int64", f"add nsw i64 {self.load(name).text}, {step}")
        self.store(name, after)
        self.lines += [f"  br label %test{label}{mark}", f"done{label}:"]

    def stretched(self, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> None:
        statements, past = in_stretches(name, call, body, self.memory)
        for part in (f"{memory}_part" for memory in past):
            if part not in self.memory:
                self.memory[part] = "floats32"
                self.slots.append(f"  %arg.{part} = alloca [{STRETCH} x float], align 64")
        for statement in statements:
            self.statement(statement)
        if past:
            self.ends["  fence seq_cst"] = None      # so that all threads see what passed the caches by

    def branch(self, node: ast.If) -> None:
        label = self.fresh()
        chosen = self.typed(self.expression(node.test), "bool")
        self.lines += [f"  br i1 {chosen.text}, label %then{label}, label %else{label}", f"then{label}:"]
        for statement in node.body:
            self.statement(statement)
        self.lines += [f"  br label %end{label}", f"else{label}:"]
        for statement in node.orelse:
            self.statement(statement)
        self.lines += [f"  br label %end{label}", f"end{label}:"]
