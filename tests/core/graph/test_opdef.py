"""Operation definitions: reading signatures, inferring shapes and dtypes, the registry's errors."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph import dtype as types
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.graph.opdef import REQUIRED, OpDef, op, registry
from workbench.core.graph.rules import infer_dtypes, infer_shapes
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.signature import parse


def defined(signature: Any, **options: Any) -> OpDef:
    """An operation that stays out of the registry."""
    return OpDef("f", signature, lambda *a: a, inputs=tuple(options.pop("inputs", "abc")), **options)


def shapes(signature: Any, *given: Any, **attrs: Any) -> list[Shape]:
    return infer_shapes(defined(signature), [as_shape(g) for g in given], attrs)


def test_signatures_are_read() -> None:
    inputs, outputs = parse("a[m,k] *values[...] x? -> [m] ?")
    assert [(p.name, p.dims, p.variadic) for p in inputs] == [("a", ("m", "k"), False), ("values", ("...",), True),
                                                              ("x", None, False)]
    assert [p.dims for p in outputs] == [("m",), None]
    assert parse("->") == ((), ())


def test_letters_bind_and_spread() -> None:
    assert shapes("a[m,k] b[k,n] -> [m,n]", [None, 3], [3, 4]) == [Shape([None, 4])]
    assert shapes("a[...,c] b[c] -> [...]", [2, 5, None], [3]) == [Shape([2, 5])]
    assert shapes("a[n,...] b[...] -> [n,...]", [7, 2, 1], [3]) == [Shape([7, 2, 3])]
    assert shapes("a[...] -> [...] []", None) == [Shape(None), Shape(())]
    assert shapes("a[2,_] -> [_,2]", [None, 9]) == [Shape([None, 2])]
    turned = defined(lambda *, flip: "a[m,n] -> [n,m]" if flip else "a[m,n] -> [m,n]", inputs="a")
    assert infer_shapes(turned, [as_shape([2, 3])], {"flip": True}) == [Shape([3, 2])]


@pytest.mark.parametrize(("signature", "given", "text"), [
    ("a[m,k] b[k,n] -> [m,n]", ([2, 3], [2, 4]),
     "f: a axis 1 is 3 but b axis 0 is 2; both are 'k' in 'a[m,k] b[k,n] -> [m,n]'"),
    ("a[m] -> [m]", ([2, 3],), "f: a has rank 2 (shape [2,3]) but rank 1 is needed by 'a[m] -> [m]'"),
    ("a[...,m,n] -> []", ([2],), "f: a has rank 1 (shape [2]) but rank >= 2 is needed"),
    ("a[3] -> []", ([4],), "f: a axis 0 is 4 but 3 is needed by"),
    ("a[...] b[...] -> [...]", ([2], [3]), "f: shapes [2] and [3] do not broadcast: axis -1 is 2 and 3")])
def test_shape_errors(signature: str, given: Any, text: str) -> None:
    with pytest.raises(errors.ShapeError) as caught:
        shapes(signature, *given)
    assert text in str(caught.value)


def dtypes(rule: Any, *given: types.DType, outputs: int = 1, **attrs: Any) -> list[str]:
    return [d.name for d in infer_dtypes(defined("-> ?", types=rule), given, attrs, outputs)]


def test_type_rules() -> None:
    f, i, b = types.float32, types.int32, types.bool_
    assert dtypes(None, f, f) == ["float32"]
    assert dtypes("T T -> bool", i, i) == ["bool"]
    assert dtypes("any -> @dtype", b, dtype="float64") == ["float64"]
    assert dtypes("T int -> T T", f, i, outputs=2) == ["float32", "float32"]
    assert dtypes("T:float I:int I -> I T", f, i, i, outputs=2) == ["int32", "float32"]
    assert dtypes(lambda given, attrs: [given[1]], f, b) == ["bool"]


@pytest.mark.parametrize(("rule", "given", "text"), [
    (None, (types.float32, types.float64),
     "f: a is float32 but b is float64; both must have one dtype: cast one of them"),
    ("T:float -> T", (types.int32,), "f: a is int32 but a float type is needed; cast it"),
    ("bool T -> T", (types.float32, types.float32), "f: a is float32 but bool is needed; cast it"),
    ("T int -> T", (types.float32, types.float32), "f: b is float32 but an integer type is needed"),
    ("@dtype -> @dtype", (types.int8,), "f: a is int8 but float32 is needed")])
def test_dtype_errors(rule: str, given: Any, text: str) -> None:
    with pytest.raises(errors.DtypeError) as caught:
        dtypes(rule, *given, dtype="float32")
    assert text in str(caught.value)


def test_parameters_become_inputs_and_attributes() -> None:
    d = registry["one_hot"]
    assert d.inputs == ("indices",) and d.attrs["depth"] is REQUIRED and d.attrs["axis"] == -1
    assert repr(REQUIRED) == "REQUIRED"
    assert registry["concat"].variadic == "values" and registry["random_uniform"].inputs == ("shape",)
    assert registry["abs"].doc.startswith("The absolute value")


def test_unknown_and_doubled_names() -> None:
    with pytest.raises(errors.UnimplementedError, match=r"ops.matmull: no such operation; did you mean matmul"):
        registry.find("matmull")
    with pytest.raises(errors.UnimplementedError, match=r"ops.zzz: no such operation; define it with @op"):
        registry.find("zzz")
    with pytest.raises(errors.AlreadyExistsError, match=r"operation 'matmul' is defined twice"):
        op("a? -> ?", name="matmul")(lambda a: a)


# what a definition may get wrong is an error where it stands

@pytest.mark.parametrize(("signature", "options", "text"), [
    ("x[a -> [a]", {}, "'x[a' in the signature 'x[a -> [a]' has no meaning; write terms like 'x[a,b]' or 'x?'"),
    ("x[a b] -> [a]", {}, "'a b' in the signature 'x[a b] -> [a]' has no meaning; "),
    ("x[a] -> [a", {}, "'[a' in the signature 'x[a] -> [a' has no meaning; "),
    ("x[...,a,...] -> []", {}, "a term of the signature 'x[...,a,...] -> []' has '...' twice; keep one"),
    ("x[a]", {}, "the signature 'x[a]' has 0 arrows; write the inputs, one '->' and the outputs"),
    ("x[a] y[a] -> [a]", {}, "the signature 'x[a] y[a] -> [a]' has the inputs (x, y) but the function has (x); write one term "
                             "for each parameter, by name and in order"),
    ("-> [2]", {}, "the signature '-> [2]' has the inputs () but the function has (x); "),
    ("z[a] -> [a]", {}, "the signature 'z[a] -> [a]' has the inputs (z) but the function has (x); "),
    ("*x[a] -> [a]", {}, "the signature '*x[a] -> [a]' has the inputs (*x) but the function has (x); "),
    ("x? -> ?", {"types": "T T -> T"},
     "types='T T -> T' has 2 terms for inputs but the function has the inputs (x); write at most one for each"),
    ("x? -> ?", {"types": "T"}, "types='T' has no '->'; "),
    ("x? -> ?", {"types": "T:real -> flaot32"},
     "'flaot32' in types='T:real -> flaot32' is not a dtype; write a name like float32, a capital letter, "),
    ("x? -> ?", {"types": "T:round -> T"}, "'T:round' in types='T:round -> T' is not a dtype; "),
    ("x? -> ?", {"types": "T -> @dtype"}, "'@dtype' in types='T -> @dtype' is not a dtype; "),
    ("x? -> ?", {"types": "T -> U"},
     "'U' of the outputs stands for no input in types='T -> U'; give an input that letter, or name the dtype"),
    ("x? -> ?", {"types": "T -> any"},
     "'any' of the outputs stands for no input in types='T -> any'; give an input that letter, or name the dtype"),
    (3, {}, "the signature is of int; write text such as 'x[a,b] -> [a]'"),
    ("x? -> ?", {"ufunc": lambda x, out=None: x * 2},
     "ufunc= is a function but only a numpy.ufunc is known to write its result and nothing else; leave it out, or pass into= a "
     "function of the inputs and outputs"),
    ("x? -> ?", {"ufunc": np.add}, "ufunc= has 2 inputs and 1 outputs but the operation has 1 and 1; leave it out"),
    ("x? -> ?", {"ufunc": np.modf}, "ufunc= has 1 inputs and 2 outputs but the operation has 1 and 1; leave it out"),
    ("x[...] -> [...]", {"elementwise": "x * alpha"},
     "elementwise='x * alpha' cannot be read: the kernel language has no meaning for the name alpha: 'alpha'; write arithmetic"
     ", comparisons, 'a if c else b' and functions like exp(…) of x, for one of float32, "),
    ("x[...] -> [...]", {"elementwise": "gelu(x)"},
     "elementwise='gelu(x)' cannot be read: the kernel language has no meaning for "),
    ("x[...] -> [...]", {"elementwise": "x *"}, "elementwise='x *' cannot be read: it is no expression: invalid syntax; "),
    ("x[...] -> [...]", {"elementwise": "x; x"}, "elementwise='x; x' cannot be read: it is no expression: invalid syntax; "),
    ("x[...] -> [...]", {"elementwise": "x", "types": "string -> string"},
     "elementwise='x' cannot be read: compiled loops have no string; "),
    ("x[...] -> [...]", {"elementwise": "exp(x)", "types": "T:int -> T"}, "elementwise='exp(x)' cannot be read: "),
    ("x[...] -> [...]", {"elementwise": abs}, "elementwise=<built-in function abs> is of builtin_function_or_method; "),
    ("x[a,b] -> [b]", {"elementwise": "x * 2"},
     "elementwise='x * 2' does not follow from the signature 'x[a,b] -> [b]', which is not one of elements; "),
    ("x? -> ?", {"elementwise": "x"}, "elementwise='x' does not follow from the signature 'x? -> ?'"),
    ("x[...] -> [...]", {"elementwise": "x", "stateful": True},
     "elementwise='x' stands beside stateful=True, but in a compiled loop the function is not called; leave elementwise out")])
def test_a_wrong_definition_is_refused_where_it_stands(signature: str, options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        op(signature, name="mine", **options)(lambda x: x)
    assert str(caught.value).startswith(f"@op mine: {text}") and "mine" not in registry


@pytest.mark.parametrize(("signature", "options"), [
    ("x[...] -> [...]", {"elementwise": "x * exp(-x) if x > 0 else 0"}), ("x[n] -> [n]", {"elementwise": "x + 1"}),
    ("x[...] -> [...]", {"elementwise": "x > 0", "types": "T:float -> bool"}),
    ("x[...] -> [...]", {"elementwise": "x + 1", "types": lambda given, attrs: list(given)})])
def test_an_expression_that_loops_can_compute_is_taken(signature: str, options: Any) -> None:
    op(signature, name="mine", **options)(lambda x: x)
    del registry["mine"]


@pytest.mark.parametrize(("made", "text"), [
    (None, "the signature is of NoneType; write text such as"), ("x[a -> [a]", "'x[a' in the signature 'x[a -> [a]' has no"),
    ("y? -> ?", "the signature 'y? -> ?' has the inputs (y) but the function has (x)")])
def test_a_function_that_gives_a_wrong_signature_is_refused_where_the_operation_is_built(made: Any, text: str) -> None:
    mine = op(lambda **attrs: made, name="mine")(lambda x: x)
    del registry["mine"]
    with Graph().as_default() as graph, pytest.raises(errors.InvalidArgumentError, match=re.escape(f"@op mine: {text}")):
        graph.create(mine, [ops.ones([2])], {}, "mine")


@pytest.mark.parametrize(("option", "text"), [
    ("elementwize", "@op: there is no option 'elementwize'; did you mean elementwise?"),
    ("reference", "@op: there is no option 'reference'; "),
    ("q", "@op: there is no option 'q'; the options are types, shape, ")])
def test_an_unknown_option_is_refused(option: str, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        op("x[a] -> [a]", **{option: 1})
    assert str(caught.value).startswith(text)


def test_a_rule_of_shapes_that_returns_nothing_is_named() -> None:
    op("x[a] -> [a]", name="mine", shape=lambda inputs, attrs: None)(lambda x: x)
    try:
        with wb.Graph().as_default(), pytest.raises(errors.InvalidArgumentError) as caught:
            ops.mine(wb.constant([1.0]))
    finally:
        del registry["mine"]
    assert str(caught.value).startswith("mine: its rule of shapes gave a NoneType; return a list with a shape for each output")
    assert "built at: " in str(caught.value)
