"""Nothing that a public function accepts is silently ignored: every argument is read, refused, or needs no effect."""
from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests import layers
from workbench.nn.arguments import HINTS, refuse
from workbench.train import config

USER_LEVEL = "nn.* train.* io.* tf1.* formats.* core.run.session cluster.chief.cluster cluster.chief.server"
OPERATIONS = "core.ops.*"      # where functions with a kernel's signature stand beside those that programs call, the composed


def unread(name: str, source: str) -> list[str]:
    """"module:line function(argument)" for each argument that its function never reads and that is not a hint."""
    found = []
    for node in layers.nodes(source):
        if not isinstance(node, ast.FunctionDef) or _only_describes(node):
            continue
        if layers.matches(name, OPERATIONS) and not any(getattr(d, "id", "") == "composed" for d in node.decorator_list):
            continue
        a = node.args
        rest = [p.arg for p in (a.vararg, a.kwarg) if p]      # an underscore before these does not excuse: they hide names
        names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        read = {x for part in node.body for x in _read(part)}
        names = [p for p in names if p not in ("self", "cls") and not p.startswith("_")]
        found += [f"{name}:{node.lineno} {node.name}({p})" for p in [*names, *rest]
                  if p not in read and p not in HINTS and f"{node.name}({p})" not in HINTS]
    return found


def _read(tree: ast.AST) -> Iterator[str]:
    """Names that are read somewhere below: neither what is only assigned, nor what is only deleted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _only_describes(node: ast.FunctionDef) -> bool:
    """Does the body hold a docstring alone, or say that a subclass defines it: an interface, whose arguments are for others?"""
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return not body or (len(body) == 1 and isinstance(body[0], ast.Raise))


# Methods that others call with a fixed list of arguments, of which they need not read all.
PROTOCOLS = {
    "after_create_session", "before_run", "after_run", "end", "__exit__",       # hooks and contexts
    "fit",                                                               # scikit-learn's transformers
    "sample", "next_inputs", "initialize", "step", "finalize",              # what loops call of decoders, and they of helpers
    "_finish", "_outputs", "_rule", "dense_tensor",        # what optimizers, canned models and feature columns override
    "on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end", "on_train_begin", "on_train_end",      # callbacks
    "compute_mask",                                        # what models call of layers
    "restore", "after_save",                               # what savers call of objects and of those who listen
    "_get_dense_tensor", "_get_sparse_tensors",            # what feature columns of programs override
    "create_model_fn_ops", "_metrics", "logits",           # what models call of heads, and they of their kinds
    "create_loss", "_measured",                            # what ready estimators call of theirs
    "every_n_step_begin", "every_n_step_end",              # what loops call of monitors
    "export",                                              # what evaluations call of exporters
    "_draw", "_possible",                                  # what sample and log_prob call of distributions
}


FOR_PROGRAMS = {
    "_use_locking",                                        # optimizers of programs pass it on
    "_keras_mask",                                         # layers of programs ask tensors for it
    "_diag",                                               # operators of programs multiply by it
}
"""Private attributes that are kept for programs, which read them as TensorFlow's."""


@cache
def attributes_read() -> frozenset[str]:
    """The names of all attributes that the package reads somewhere, of any object, with getattr too."""
    return frozenset(name for m in layers.modules().values() for name in _asked(m.nodes)) | FOR_PROGRAMS


def _asked(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            yield str(getattr(node.args[1], "value", ""))


def kept_unread(name: str, source: str) -> list[str]:
    """"module:line class.attribute" for each private attribute that __init__ sets and that nobody reads."""
    found = []
    for owner in layers.nodes(source):
        begin = next((node for node in getattr(owner, "body", ()) if isinstance(node, ast.FunctionDef)
                      and node.name == "__init__"), None) if isinstance(owner, ast.ClassDef) else None
        for node in ast.walk(begin) if begin is not None else ():
            kept = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr
            if kept and kept.startswith("_") and kept not in attributes_read():
                found.append(f"{name}:{node.lineno} {owner.name}.{kept}")
    return found


def test_every_argument_is_read_refused_or_a_hint():
    known = {k: m for k, m in layers.modules().items() if layers.matches(k, f"{USER_LEVEL} {OPERATIONS}")}
    found = [fault for name, module in known.items() for fault in unread(name, module.source)
             if fault.split()[1].partition("(")[0] not in PROTOCOLS]
    assert found == []


def test_what_objects_keep_is_read():
    known = {k: m for k, m in layers.modules().items() if layers.matches(k, USER_LEVEL)}
    assert [fault for name, module in known.items() for fault in kept_unread(name, module.source)] == []


OPTIONS = [getattr(config, name) for name in config.__all__ if name.endswith(("Options", "Proto", "Config"))]


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_every_option_of_a_record_is_read_refused_or_a_hint(kind):
    assert [name for name in kind.defaults
            if name not in attributes_read() and name not in kind.refused and f"{kind.__name__}({name})" not in HINTS] == []


def test_every_hint_is_an_argument_somewhere_and_says_why():
    known = layers.modules()
    for hint, why in HINTS.items():
        function, _, name = hint.rstrip(")").rpartition("(")
        where = [m.source for m in known.values()
                 if not function or f"def {function}(" in m.source or f"class {function}(" in m.source]
        assert any(text in source for source in where for text in (f"{name}:", f"{name}=", f"{name},", f'"{name}"')), hint
        assert len(why.split()) >= 5, hint


def test_an_ignored_argument_is_found():
    source = "def f(a, b=None, use_locking=False, **_rest):\n    return a\n\ndef g(x):\n    raise NotImplementedError\n"
    assert unread("m", source) == ["m:1 f(b)", "m:1 f(_rest)"]
    source = "def predict(verbose):\n    return 1\n\ndef train(verbose):\n    return 1\n"
    assert unread("m", source) == ["m:4 train(verbose)"]


def test_what_is_deleted_assigned_or_kept_for_nobody_is_not_read():
    assert unread("m", "def f(a, b, c):\n    del a\n    b = 1\n    c += 1\n") == ["m:1 f(a)", "m:1 f(b)"]
    source = "class A(B):\n    def __init__(self, a):\n        self._nobody_asks = self.open = a\n"
    assert kept_unread("m", source) == ["m:3 A._nobody_asks"]


def test_functions_beside_composed_ones_have_the_signature_of_a_kernel():
    source = "@op('a -> b')\ndef f(a, *, b=0):\n    return a\n\n@composed\ndef g(a, b=0):\n    return a\n"
    assert unread("core.ops.math", source) == ["core.ops.math:6 g(b)"]


def test_refusing_names_place_value_and_fix():
    refuse("f", "leave it out", a=None, b=False)
    with pytest.raises(Exception, match=r"f: b=3 has no meaning here; leave it out"):
        refuse("f", "leave it out", a=None, b=3)
