"""Nested structures: packed, compared, flattened down to a shallower structure; the words of errors that programs match."""
from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from workbench.nn import nest

Pair = namedtuple("Pair", "a b")
OtherPair = namedtuple("OtherPair", "a b")
DEEP = {"b": [1, (2, 3)], "a": Pair(4, {"x": 5})}


def test_what_is_flat_packs_into_its_structure_again_with_dictionaries_by_their_keys():
    assert nest.flatten(DEEP) == [4, 5, 1, 2, 3] and nest.pack_sequence_as(DEEP, nest.flatten(DEEP)) == DEEP
    ordered = OrderedDict([("d", 0), ("a", [0, 0])])
    packed = nest.pack_sequence_as(ordered, [1, 2, 3])
    assert packed == OrderedDict([("d", 3), ("a", [1, 2])]) and list(packed) == ["d", "a"]
    assert nest.pack_sequence_as("text", [7]) == 7 and nest.pack_sequence_as([], []) == []
    for wrong, flat, error, text in [("text", [1, 2], ValueError, "Structure is a scalar"),
                                     ([1, 2], "ab", TypeError, "flat_sequence must be a sequence"),
                                     ([1, [2]], [1, 2, 3], ValueError, "had 2 elements, but flat_sequence had 3 elements")]:
        with pytest.raises(error, match=text):
            nest.pack_sequence_as(wrong, flat)


@pytest.mark.parametrize(("first", "second", "error", "text"), [
    ([[1, 2], 3], [1, 2], ValueError, r"number of elements\.\n\nFirst structure \(3 elements\): .*\n\nSecond structure \(2 "),
    ([0, 1], np.zeros(2), ValueError, r"same number of elements\.\n\nFirst structure \(2 elements\)"),
    ([[3], 4], [3, [4]], ValueError, r"same nested structure\.\n\nFirst structure: .*\n\nSecond structure: "),
    ([(1, 2), 3], [[1, 2], 3], TypeError, "same sequence type"),
    (Pair(1, 2), OtherPair(1, 2), TypeError, "same sequence type"),
    ({"a": 1}, {"b": 1}, ValueError, "same set of keys")])
def test_structures_that_differ_say_how(first, second, error, text):
    with pytest.raises(error, match=text):
        nest.assert_same_structure(first, second)
    with pytest.raises(error, match=text):
        nest.map_structure(lambda *_: 0, first, second)
    if error is TypeError:
        nest.assert_same_structure(first, second, check_types=False)


def test_functions_of_all_leaves():
    assert nest.map_structure(lambda x, y: x + y, Pair([1], 2), Pair([10], 20)) == Pair([11], 22)
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure(len)
    with pytest.raises(TypeError, match="callable"):
        nest.map_structure("no", [1])


def test_structures_are_flat_down_to_a_shallower_one():
    assert nest.flatten_up_to([0, {"k": 0}], [[1, 2], {"k": (3, 4)}]) == [[1, 2], (3, 4)]
    assert nest.flatten_up_to({"a": 0, "b": 0}, DEEP) == [DEEP["a"], DEEP["b"]] and nest.flatten_up_to(0, [1, 2]) == [[1, 2]]
    assert nest.flatten_up_to({"c": [0], "b": 0}, {"c": [3], "b": 4}) == [4, 3]      # values by keys, whatever their order
    steps = Pair(Pair(1, 2), Pair(2, 3))
    assert nest.map_structure_up_to(Pair(0, 0), lambda x, s: (x + s.a) * s.b, Pair(2, 3), steps) == Pair(6, 15)
    names = ["even", ["odd"]]
    assert nest.map_structure_up_to(names, lambda name, of: f"{name}{len(of)}", names, [[2, 4], [[1, 3, 5]]]) == [
        "even2", ["odd3"]]
    with pytest.raises(ValueError, match="no sequences"):
        nest.map_structure_up_to([0], len)


@pytest.mark.parametrize(("shallow", "deep", "error", "text"), [
    ([0, 0], 3, TypeError, "If shallow structure is a sequence, input must also be a sequence. Input has type: <class 'int'>"),
    ([0, 0], (1, 2), TypeError, "Input structure has type <class 'tuple'>, while shallow structure has type <class 'list'>"),
    ([0, 0, 0], [1, 2], ValueError, "Input structure has length 2, while shallow structure has length 3"),
    ([0, [0]], [1, 2], TypeError, "input must also be a sequence")])
def test_a_structure_that_is_no_shallower_one_says_why(shallow, deep, error, text):
    for ask in (nest.assert_shallow_structure, nest.flatten_up_to):
        with pytest.raises(error, match=text):
            ask(shallow, deep)


def test_keys_and_values_of_a_dictionary_become_flat_together():
    assert nest.flatten_dict_items({(1, (2, 3)): ("a", ("b", "c")), 4: [5]}) == {1: "a", 2: "b", 3: "c", 4: [5]}
    for wrong, error, text in [([1], TypeError, "must be a dictionary"), ({(1, 2): "ab"}, ValueError, "Key had 2 elements, but "
                               "value had 1 elements"), ({(1, 1): (2, 3)}, ValueError, "not unique")]:
        with pytest.raises(error, match=text):
            nest.flatten_dict_items(wrong)


def test_a_function_says_how_deep_a_structure_is_walked():
    whole = [3, (1, [0]), [5, 6], {"a": (7,)}, []]
    marks = nest.get_traverse_shallow_structure(lambda part: not isinstance(part, tuple), whole)
    assert marks == [True, False, [True, True], {"a": False}, []]
    assert nest.flatten_up_to(marks, whole) == [3, (1, [0]), 5, 6, (7,)]
    assert nest.get_traverse_shallow_structure(lambda part: (True, False) if isinstance(part, tuple) else True,
                                               [(1, [2]), ([1], 2)]) == [(True, False), ([True], False)]
    for answer, part, text in [([True], 0, "returned structure"), (1, [1], "non-bool scalar"), ([1], [1], "depth=1 structure")]:
        with pytest.raises(TypeError, match=text):
            nest.get_traverse_shallow_structure(lambda _, answer=answer: answer, part)
