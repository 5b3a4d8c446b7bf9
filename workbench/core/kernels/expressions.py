"""Expressions of the kernel language as LLVM's assembly text: values, types, arithmetic and calls."""
from __future__ import annotations

import ast
import functools
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from workbench.core.kernels.elements import LLVM, MEMORY, llvm_type, stored

__all__ = ["Expressions", "LanguageError", "Module", "Value"]

FLOATS = ("float32", "float64", "lanes")
FLAGS = {"fused": "contract ", "fast": "reassoc nsz contract "}
LANES = 16
_FLOAT_WORDS: dict[type[ast.operator], str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_WHOLE_WORDS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem", ast.LShift: "shl",
    ast.RShift: "ashr", ast.BitAnd: "and", ast.BitOr: "or"}
_FOLDED: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("oeq", "eq"), ast.NotEq: ("une", "ne"), ast.Lt: ("olt", "slt"), ast.LtE: ("ole", "sle"),
    ast.Gt: ("ogt", "sgt"), ast.GtE: ("oge", "sge")}
_LIBRARY = ("exp", "log", "tanh", "log1p", "expm1", "erf")
"""Functions of one float that the C library serves in float64, and our own programs (`exp32`, …) in float32."""


class LanguageError(Exception):
    """A kernel program that the language does not allow; a mistake in workbench, never in a user's program."""


@dataclass(frozen=True)
class Value:
    """An operand: LLVM's text for it and its type; a number without a type yet has type "" and `number`."""

    text: str
    type: str
    number: float | int = 0


@dataclass
class Module:
    """What is written so far: functions by name, what they need from outside, and loop marks."""

    functions: Mapping[str, ast.FunctionDef]
    numbers: Mapping[str, float | int]
    written: dict[str, str] = field(default_factory=dict)      # function and its types -> type of its result
    text: list[str] = field(default_factory=list)
    declared: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> str:
        self.notes.append(f"!{len(self.notes)} = {text.replace('!self', f'!{len(self.notes)}')}")
        return f"!{len(self.notes) - 1}"


def _constant(number: float | int, type_: str) -> str:
    if type_ == "lanes":
        return "<" + ", ".join([f"float {_constant(number, 'float32')}"] * LANES) + ">"
    if type_ not in FLOATS:
        return str(int(number)) if type_ != "bool" else str(bool(number)).lower()
    value = float(number)
    if type_ == "float32" and abs(value) < 3.5e38:      # LLVM writes a float as the double of the same value
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class Expressions:
    """One function for one choice of parameter types: what it has written, its variables, and how it writes expressions."""

    def __init__(self, module: Module, node: ast.FunctionDef, types: Sequence[str], outer: bool = False) -> None:
        self.module, self.node, self.types, self.outer = module, node, list(types), outer
        self.count = 0
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.variables: dict[str, str] = {}
        self.memory: dict[str, str] = {}
        self.access = ""
        self.ends: dict[str, None] = {}      # what is done before the function returns
        self.marks = [d.id for d in node.decorator_list if isinstance(d, ast.Name)]
        self.flags = next((FLAGS[mark] for mark in self.marks if mark in FLAGS), "")

    @staticmethod
    def symbol(name: str, types: Sequence[str]) -> str:
        return ".".join([name, *types])

    def write(self) -> str:
        """Append the function to the module; gives the type of its result ("" for none)."""
        raise NotImplementedError

    def expression(self, node: ast.expr, wanted: str = "") -> Value:
        """The value of an expression; literals alone may stay without type, unless one is `wanted` of a choice of them."""
        if isinstance(node, ast.IfExp):
            return self._ifexp(node, wanted)
        write: Callable[[ast.expr], Value] | None = getattr(self, f"_{type(node).__name__.lower()}", None)
        if write is None:
            self.fail(node, "this expression")
        return write(node)

    def _constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, int | float):
            self.fail(node, "this constant")
        return Value("", "", node.value)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.variables:
            return self.load(node.id)
        if node.id in self.memory:
            return Value(f"%arg.{node.id}", self.memory[node.id])
        if node.id not in self.module.numbers:
            self.fail(node, f"the name {node.id}")
        return Value("", "", self.module.numbers[node.id])

    def _subscript(self, node: ast.Subscript) -> Value:
        address, type_ = self.element(node)
        found = self.emit(type_, f"load {stored(type_)}, ptr {address}{self.access}")
        if type_ == "bool":
            return self.emit("bool", f"icmp ne i8 {found.text}, 0")
        if type_ == "bfloat16":      # the upper half of the float32 of the same value
            half = self.emit("int32", f"shl i32 {self.emit('int32', f'zext i16 {found.text} to i32').text}, 16")
            return self.emit("float32", f"bitcast i32 {half.text} to float")
        return found

    def element(self, node: ast.Subscript) -> tuple[str, str]:
        """Address and type of an element of typed memory."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self.memory:
            self.fail(node, "an index into this")
        type_ = MEMORY[self.memory[node.value.id]]
        index = self.typed(self.expression(node.slice), "int64")
        at = f"getelementptr inbounds {stored(type_)}, ptr %arg.{node.value.id}, i64 {index.text}"
        return self.emit("", at).text, type_

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.expression(node.operand)
        if isinstance(node.op, ast.USub):
            if not value.type:
                return Value("", "", -value.number)
            if value.type in FLOATS:
                return self.emit(value.type, f"fneg {self.flags}{LLVM[value.type]} {value.text}")
            return self.emit(value.type, f"sub {LLVM[value.type]} 0, {value.text}")
        if isinstance(node.op, ast.Not) and value.type == "bool":
            return self.emit("bool", f"xor i1 {value.text}, true")
        self.fail(node, "this operator")

    def _binop(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.expression(node.left), self.expression(node.right), node)

    def binary(self, sign: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        if not left.type and not right.type and type(sign) in _FOLDED:
            return Value("", "", _FOLDED[type(sign)](left.number, right.number))
        left, right = self.alike(left, right, node)
        whole = left.type not in FLOATS
        word = (_WHOLE_WORDS if whole else _FLOAT_WORDS).get(type(sign))
        if word is None or left.type == "bool":
            self.fail(node, f"this operator on {left.type}")
        flags = "" if whole else self.flags
        return self.emit(left.type, f"{word} {flags}{LLVM[left.type]} {left.text}, {right.text}")

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.expression(v) for v in (node.left, *node.comparators)]
        found = [self.compared(op, one, other, node) for op, one, other in zip(node.ops, values, values[1:])]
        return functools.reduce(lambda a, b: self.emit("bool", f"and i1 {a.text}, {b.text}"), found)

    def compared(self, operator: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
        left, right = self.alike(left, right, node)
        words = _COMPARISONS[type(operator)]
        if left.type in FLOATS:
            result = "marks" if left.type == "lanes" else "bool"
            return self.emit(result, f"fcmp {words[0]} {LLVM[left.type]} {left.text}, {right.text}")
        word = words[1].replace("s", "u", 1) if left.type == "bool" and words[1][0] == "s" else words[1]
        return self.emit("bool", f"icmp {word} {LLVM[left.type]} {left.text}, {right.text}")

    def _boolop(self, node: ast.BoolOp) -> Value:
        word = "and" if isinstance(node.op, ast.And) else "or"
        values = [self.typed(self.expression(v), "bool") for v in node.values]
        return functools.reduce(lambda a, b: self.emit("bool", f"{word} i1 {a.text}, {b.text}"), values)

    def _ifexp(self, node: ast.IfExp, wanted: str) -> Value:
        """Both sides are computed; two literals take the type `wanted` by the expression around them."""
        test, left = self.expression(node.test), self.expression(node.body, wanted)
        if test.type not in ("bool", "marks"):
            self.fail(node.test, f"{test.type} as a condition")
        right = self.expression(node.orelse, left.type or wanted)
        kind = left.type or right.type or wanted
        left, right = self.alike(self.typed(left, kind), self.typed(right, kind), node)
        text = LLVM[left.type]
        return self.emit(left.type, f"select {LLVM[test.type]} {test.text}, {text} {left.text}, {text} {right.text}")

    # -- calls

    def _call(self, node: ast.Call) -> Value:
        return self.call(node)

    def call(self, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Name)
        name, given = node.func.id, [self.expression(a) for a in node.args]
        if name in ("float32", "float64", "int32", "int64", "bool"):
            return self.converted(given[0], name)
        special: Callable[[list[Value]], Value] | None = getattr(self, f"call_{name}", None)
        if special is not None:
            return special(given)
        kind = next((v.type for v in given if v.type and v.type not in MEMORY), "float64" if name in _LIBRARY else "")
        given = [v if v.type else self.typed(v, kind) for v in given]
        if name in _LIBRARY:
            if kind == "float64":
                self.module.declared[f"declare double @{name}(double)"] = None
                return self.emit(kind, f"call double @{name}(double {given[0].text})")
            name += "32"
        if name not in self.module.functions:
            self.fail(node, f"the function {name}")
        return self.own(self.module.functions[name], given)

    def own(self, function: ast.FunctionDef, given: Sequence[Value]) -> Value:
        types = [v.type for v in given]
        symbol = self.symbol(function.name, types)
        if symbol not in self.module.written:
            self.module.written[symbol] = type(self)(self.module, function, types).write()
        result = self.module.written[symbol]
        text = f'call {llvm_type(result)} @"{symbol}"({", ".join(f"{llvm_type(v.type)} {v.text}" for v in given)})'
        if result:
            return self.emit(result, text)
        self.lines.append("  " + text)
        return Value("", "")

    def call_sqrt(self, given: list[Value]) -> Value:
        return self.intrinsic("sqrt", given[0])

    def call_floor(self, given: list[Value]) -> Value:
        return self.intrinsic("floor", given[0])

    def call_ceil(self, given: list[Value]) -> Value:
        return self.intrinsic("ceil", given[0])

    def call_abs(self, given: list[Value]) -> Value:
        value = self.typed(given[0])
        if value.type in FLOATS:
            return self.intrinsic("fabs", value)
        minus = self.emit(value.type, f"sub {LLVM[value.type]} 0, {value.text}")
        below = self.emit("bool", f"icmp slt {LLVM[value.type]} {value.text}, 0")
        kind = LLVM[value.type]
        return self.emit(value.type, f"select i1 {below.text}, {kind} {minus.text}, {kind} {value.text}")

    def call_largest(self, given: list[Value]) -> Value:
        """The larger of two floats, NaN if one is NaN; sums of it over a loop can be vectorised."""
        left, right = self.alike(given[0], given[1], self.node)
        return self.intrinsic("maximum", left, right)

    def call_smallest(self, given: list[Value]) -> Value:
        """The smaller one likewise."""
        left, right = self.alike(given[0], given[1], self.node)
        return self.intrinsic("minimum", left, right)

    def call_multiply_add(self, given: list[Value]) -> Value:
        """x · y + z, rounded once where the processor can, in vectors and out of them."""
        return self.intrinsic("fmuladd", *given)

    def call_bits(self, given: list[Value]) -> Value:
        return self.emit("int32", f"bitcast float {given[0].text} to i32")

    def call_from_bits(self, given: list[Value]) -> Value:
        return self.emit("float32", f"bitcast i32 {given[0].text} to float")

    def call_load16(self, given: list[Value]) -> Value:
        """16 floats at an address."""
        return self.emit("lanes", f"load {LLVM['lanes']}, ptr {self.pointer(given[0])}, align 4")

    def call_store16(self, given: list[Value]) -> Value:
        value = self.typed(given[1], "lanes")
        self.lines.append(f"  store {LLVM['lanes']} {value.text}, ptr {self.pointer(given[0])}, align 4")
        return Value("", "")

    def call_load1(self, given: list[Value]) -> Value:
        """The float at an address."""
        return self.emit("float32", f"load float, ptr {self.pointer(given[0])}")

    def call_store1(self, given: list[Value]) -> Value:
        self.lines.append(f"  store float {self.typed(given[1], 'float32').text}, ptr {self.pointer(given[0])}")
        return Value("", "")

    def call_spread16(self, given: list[Value]) -> Value:
        """One float 16 times."""
        kind = LLVM["lanes"]
        first = self.emit("lanes", f"insertelement {kind} poison, float {self.typed(given[0], 'float32').text}, i64 0")
        return self.emit("lanes", f"shufflevector {kind} {first.text}, {kind} poison, <16 x i32> zeroinitializer")

    def call_place(self, given: list[Value]) -> Value:
        """The address of an element of typed memory."""
        kind, index = MEMORY[given[0].type], self.typed(given[1], "int64").text
        found = self.emit("", f"getelementptr inbounds {stored(kind)}, ptr {given[0].text}, i64 {index}")
        return self.emit("int64", f"ptrtoint ptr {found.text} to i64")

    def call_soon(self, given: list[Value]) -> Value:
        """Begin to bring an element, which may lie behind the end of its memory, into the nearest cache."""
        kind, index = MEMORY[given[0].type], self.typed(given[1], "int64").text
        found = self.emit("", f"getelementptr {stored(kind)}, ptr {given[0].text}, i64 {index}")
        self.module.declared["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
        self.lines.append(f"  call void @llvm.prefetch.p0(ptr {found.text}, i32 0, i32 3, i32 1)")
        return Value("", "")

    def call_copy16(self, given: list[Value]) -> Value:
        return self.call_store16([given[1], self.call_load16(given[:1])])

    def call_past16(self, given: list[Value]) -> Value:
        """Copy 16 floats to an address, a multiple of 16, past the caches."""
        value, kind = self.call_load16(given[:1]), LLVM["lanes"]
        mark = self.module.note("!{i32 1}")
        self.lines.append(f"  store {kind} {value.text}, ptr {self.pointer(given[1])}, align 16, !nontemporal {mark}")
        return Value("", "")

    def call_room(self, given: list[Value]) -> Value:
        """Address of so many bytes that live until the function returns."""
        name = f"%room{self.fresh()}"
        self.slots.append(f"  {name} = alloca [{int(given[0].number)} x i8], align 64")
        return self.emit("int64", f"ptrtoint ptr {name} to i64")

    def call_called(self, given: list[Value]) -> Value:
        """What the C function at an address gives, an int, for whole numbers and addresses."""
        numbers = [self.typed(value, "int64").text for value in given[1:]]
        return self.emit("int32", f"call i32 {self.pointer(given[0])}({', '.join(f'i64 {text}' for text in numbers)})")

    # -- small things

    def intrinsic(self, name: str, *given: Value) -> Value:
        values = [self.typed(v) for v in given]
        kind = LLVM[values[0].type]
        suffix = {"float": "f32", "double": "f64", "<16 x float>": "v16f32"}[kind]
        self.module.declared[f"declare {kind} @llvm.{name}.{suffix}({', '.join([kind] * len(values))})"] = None
        return self.emit(values[0].type, f"call {self.flags}{kind} @llvm.{name}.{suffix}("
                         + ", ".join(f"{kind} {v.text}" for v in values) + ")")

    def converted(self, value: Value, type_: str) -> Value:
        """`float32(x)` and its like; a float becomes a whole number by dropping what follows the point."""
        if not value.type or value.type == type_:
            return self.typed(value, type_)
        given, wanted = value.type in FLOATS, type_ in FLOATS
        if type_ == "bool":
            self.fail(self.node, f"{value.type} as bool")
        if given and wanted:
            word = "fpext" if type_ == "float64" else "fptrunc"
        elif given or wanted:
            word = "fptosi" if given else "uitofp" if value.type == "bool" else "sitofp"
        else:
            word = "zext" if value.type == "bool" else "sext" if type_ == "int64" else "trunc"
        return self.emit(type_, f"{word} {LLVM[value.type]} {value.text} to {LLVM[type_]}")

    def typed(self, value: Value, type_: str = "") -> Value:
        """The value with a type: a literal takes `type_`, else float64 or int64; others must have it already."""
        if not value.type:
            chosen = type_ or ("float64" if isinstance(value.number, float) else "int64")
            if isinstance(value.number, float) and chosen not in FLOATS:
                self.fail(self.node, f"{value.number} as {chosen}")
            return Value(_constant(value.number, chosen), chosen)
        if type_ == "int64" and value.type == "int32":
            return self.converted(value, type_)
        if type_ and value.type != type_:
            self.fail(self.node, f"{value.type} for {type_}")
        return value

    def alike(self, left: Value, right: Value, node: ast.AST) -> tuple[Value, Value]:
        if left.type == right.type or not left.type or not right.type:
            kind = left.type or right.type
            return self.typed(left, kind), self.typed(right, kind)
        if {left.type, right.type} == {"int32", "int64"}:
            return self.typed(left, "int64"), self.typed(right, "int64")
        self.fail(node, f"{left.type} beside {right.type}")

    def pointer(self, address: Value) -> str:
        return self.emit("", f"inttoptr i64 {self.typed(address, 'int64').text} to ptr").text

    def load(self, name: str) -> Value:
        return self.emit(self.variables[name], f"load {LLVM[self.variables[name]]}, ptr %var.{name}")

    def emit(self, type_: str, text: str) -> Value:
        name = f"%t{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return Value(name, type_)

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def fail(self, node: ast.AST, what: str) -> NoReturn:
        raise LanguageError(f"{self.node.name}: the kernel language has no meaning for {what}: "
                            f"{ast.unparse(node)[:80]!r}")
