"""Nothing that a public function accepts is silently ignored: every argument is read, refused, or needs no effect."""
from __future__ import annotations

import ast

import pytest

from tests import layers
from workbench.nn.arguments import HINTS, refuse

USER_LEVEL = "nn.* train.* io.* tf1.* core.run.session cluster.chief.cluster cluster.chief.server"


def unread(name: str, source: str) -> list[str]:
    """"module:line function(argument)" for each argument that its function never reads and that is not a hint."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or _only_describes(node):
            continue
        a = node.args
        rest = [p.arg for p in (a.vararg, a.kwarg) if p]      # an underscore before these does not excuse: they hide names
        names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        read = {x.id for part in node.body for x in ast.walk(part) if isinstance(x, ast.Name)}
        names = [p for p in names if p not in ("self", "cls") and not p.startswith("_")]
        found += [f"{name}:{node.lineno} {node.name}({p})" for p in [*names, *rest]
                  if p not in read and p not in HINTS and f"{node.name}({p})" not in HINTS]
    return found


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
    "restore",                                             # what savers call of objects
    "_get_dense_tensor", "_get_sparse_tensors",            # what feature columns of programs override
}


def test_every_argument_is_read_refused_or_a_hint():
    known = {k: m for k, m in layers.modules().items() if layers.matches(k, USER_LEVEL)}
    found = [fault for name, module in known.items() for fault in unread(name, module.source)
             if fault.split()[1].partition("(")[0] not in PROTOCOLS]
    assert found == []


def test_every_hint_is_an_argument_somewhere_and_says_why():
    known = layers.modules()
    for hint, why in HINTS.items():
        function, _, name = hint.rstrip(")").rpartition("(")
        where = [m.source for m in known.values() if not function or f"def {function}(" in m.source]
        assert any(f"{name}:" in source or f"{name}=" in source for source in where), hint
        assert len(why.split()) >= 5, hint


def test_an_ignored_argument_is_found():
    source = "def f(a, b=None, use_locking=False, **_rest):\n    return a\n\ndef g(x):\n    raise NotImplementedError\n"
    assert unread("m", source) == ["m:1 f(b)", "m:1 f(_rest)"]
    source = "def predict(verbose):\n    return 1\n\ndef train(verbose):\n    return 1\n"
    assert unread("m", source) == ["m:4 train(verbose)"]


def test_refusing_names_place_value_and_fix():
    refuse("f", "leave it out", a=None, b=False)
    with pytest.raises(Exception, match=r"f: b=3 has no meaning here; leave it out"):
        refuse("f", "leave it out", a=None, b=3)
