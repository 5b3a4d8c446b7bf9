"""The table of TensorFlow's names: how it judges, that it is up to date, and the shares that hold."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import workbench.tf1 as tf
from workbench.tf1.spelling import spelled

ROOT = Path(__file__).resolve().parents[2]


def load():
    specification = importlib.util.spec_from_file_location("make_tf1", ROOT / "docs" / "make_tf1.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


TABLE = load()


def test_the_page_is_up_to_date():
    assert TABLE.TARGET.read_text(encoding="utf-8") == TABLE.page(tf), "run: python docs/make_tf1.py"


def test_the_list_names_each_once_and_reads_parameters():
    found = list(TABLE.entries())
    assert len(found) > 1700 and len({(e.module, e.name) for e in found}) == len(found)
    [entry] = [e for e in found if (e.module, e.name) == ("tf", "reduce_sum")]
    assert entry.parameters == ("input_tensor", "axis", "keep_dims", "name", "reduction_indices")


@pytest.mark.parametrize(("wanted", "function", "why"), [
    (("a", "b"), lambda a, b: 0, ""), (("a", "b"), lambda a: 0, "without b"), (("a",), lambda a, c=1: 0, ""),
    (("a", "b"), lambda b, a: 0, "argument 1 by position is b, not a"), (("a", "b"), lambda a, **rest: 0, "b by name only"),
    (("a", "*rest"), lambda a, *rest: 0, ""), (None, 3, "")])
def test_differences_are_found(wanted, function, why):
    assert TABLE.differences(wanted, function) == why


def test_spelled_functions_take_their_words():
    def ours(x, axis=0, keepdims=False):
        return x, axis, keepdims
    theirs = spelled(ours, "input ?hint axis keep_dims=keepdims dim=axis".replace("input", "input=x"))
    assert theirs(1) == (1, 0, False) and theirs(1, None, 2, True) == (1, 2, True)
    assert theirs(input=1, dim=3) == (1, 3, False) and theirs(1, axis=4, dim=3) == (1, 4, False)
    with pytest.raises(TypeError, match="nothing"):
        theirs(1, nothing=2)
    with pytest.raises(TypeError, match="x"):
        theirs()
