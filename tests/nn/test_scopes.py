"""Variables by name: scopes, reuse in every combination, defaults of scopes, error texts."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.nn.layers import l2_regularizer

pytestmark = pytest.mark.usefixtures("graph")


def names() -> list[str]:
    return [v.name for v in wb.global_variables()]


def test_names_carry_the_variable_scopes_but_not_the_name_scopes():
    with wb.variable_scope("a"), wb.name_scope("n"), wb.variable_scope("b"):
        v = wb.get_variable("v", [2])
        x = v + 1.0
    assert v.name == "a/b/v:0" and x.name == "a/n/b/add:0"


def test_reuse_shares_a_variable():
    with wb.variable_scope("a"):
        first = wb.get_variable("v", [2])
    with wb.variable_scope("a", reuse=True):
        assert wb.get_variable("v") is first and wb.get_variable("v", [2]) is first
    with wb.variable_scope("a") as scope:
        scope.reuse_variables()
        assert wb.get_variable("v") is first
    with wb.variable_scope("a", reuse=wb.AUTO_REUSE):
        assert wb.get_variable("v", [2]) is first
        second = wb.get_variable("w", [2])
    assert names() == ["a/v:0", "a/w:0"] and second.name == "a/w:0"


def test_reuse_is_inherited_by_inner_scopes():
    def layer():
        with wb.variable_scope("inner"):
            return wb.get_variable("v", [2])
    with wb.variable_scope("outer"):
        first = layer()
    with wb.variable_scope("outer", reuse=True):
        assert layer() is first


def test_a_scope_object_is_entered_again_as_it_was():
    with wb.variable_scope("a") as scope:
        first = wb.get_variable("v", [1])
    with wb.variable_scope("elsewhere"), wb.variable_scope(scope, reuse=True):
        assert wb.get_variable("v") is first
        assert wb.get_variable_scope().name == "a"
    assert scope.trainable_variables() == [first] == scope.global_variables()


def test_default_names_are_numbered_and_start_again_when_a_scope_is_entered_again():
    def model():
        made = []
        for _ in range(2):
            with wb.variable_scope(None, "dense"):
                made.append(wb.get_variable("kernel", [1]))
        return made
    with wb.variable_scope("net"):
        first = model()
    with wb.variable_scope("net", reuse=True):
        assert model() == first
    assert names() == ["net/dense/kernel:0", "net/dense_1/kernel:0"]


def test_defaults_of_a_scope_apply_below_it():
    with wb.variable_scope("a", initializer=wb.constant_initializer(3.0), dtype=wb.float64):
        v = wb.get_variable("v", [2])
        with wb.variable_scope("b", regularizer=l2_regularizer(2.0)):
            w = wb.get_variable("w", [2])
    penalty, = wb.get_collection(wb.GraphKeys.REGULARIZATION_LOSSES)
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert v.dtype is wb.float64 and session.run([v, w, penalty])[0].tolist() == [3, 3]
        assert float(session.run(penalty)) == 18


def test_the_initial_value_may_be_given_itself():
    a = wb.get_variable("a", initializer=np.float32([1, 2]))
    b = wb.get_variable("b", initializer=wb.constant([[1]]))
    c = wb.get_variable("c", [2], dtype=wb.int32)
    d = wb.get_variable("d", [2], initializer=wb.zeros_initializer)
    assert (a.shape, b.dtype, c.dtype, d.shape) == ([2], wb.int32, wb.int32, [2])
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run([a, c, d])[1].tolist() == [0, 0]


def test_a_name_that_a_plain_variable_has_gets_a_number():
    wb.Variable(1.0, name="v")
    assert wb.get_variable("v", [1]).name == "v_1:0"


def test_local_variables_are_neither_trained_nor_saved():
    v = wb.get_local_variable("v", [1])
    assert wb.local_variables() == [v] and wb.global_variables() == [] and wb.trainable_variables() == []


@pytest.mark.parametrize(("ask", "text"), [
    (lambda: wb.get_variable("v", [2]), r"Variable v already exists, disallowed. Built at .*test_scopes.py:\d+; enter its "
                                        "scope with reuse=True or AUTO_REUSE"),
    (lambda: shared("v", [3]), r"get_variable: 'v' has shape \[2\] but \[3\] is asked"),
    (lambda: shared("v", [2], wb.float64), "get_variable: 'v' is float32 but float64 is asked"),
    (lambda: shared("other"), "get_variable: 'other' does not exist but reuse=True; make it first, or use "
                              "reuse=AUTO_REUSE"),
    (lambda: wb.get_variable("n"), r"get_variable: 'n' is new and its shape is \[unknown\]; pass a fully known shape"),
    (lambda: wb.get_variable("n", [3], initializer=np.float32([1])), r"'n' is asked with shape \[3\] but its initial "
                                                                      "value "
                                                                     r"has \[1\]"),
    (lambda: wb.get_variable("n", [3], partitioner=1), "partitioner 1 is not a function"),
])
def test_mistakes_are_named_and_can_be_caught_as_value_errors(ask, text: str):
    wb.get_variable("v", [2])
    with pytest.raises((ValueError, errors.UnimplementedError), match=text):
        ask()


def shared(*args):
    with wb.variable_scope(wb.get_variable_scope(), reuse=True):
        return wb.get_variable(*args)


def test_a_scope_entered_as_an_object_keeps_its_original_name_scope():
    with wb.variable_scope("s1") as first:
        pass
    with wb.variable_scope("s2"), wb.variable_scope(first) as again:
        assert again.original_name_scope == first.original_name_scope == "s1/"


def test_a_jump_to_a_scope_object_does_not_disturb_the_numbering():
    with wb.variable_scope("outer") as outer:
        for name in ("outer/layer/w:0", "outer/layer_1/w:0"):
            with wb.variable_scope(None, "layer"):
                assert wb.get_variable("w", [1]).name == name
        with wb.variable_scope(outer):
            pass
        with wb.variable_scope(None, "layer"):
            assert wb.get_variable("w", [1]).name == "outer/layer_2/w:0"


# as programs of TensorFlow 1.x use scopes

def test_a_partitioned_variable_is_found_again_whether_it_is_cut_again_or_not():
    def halves(shape, **options):
        return [2, *[1] * (shape.rank - 1)]
    with wb.variable_scope("s", partitioner=halves):
        made = wb.get_variable("v", [4, 3])
        scalar = wb.get_variable("scalar", [])
    assert isinstance(scalar, wb.Variable) and len(list(made)) == 2 and made.as_tensor().op.name == "s/v"
    with wb.variable_scope("s", reuse=True):
        assert wb.get_variable("v") is made and wb.get_variable("v", [4, 3], partitioner=halves) is made
        with pytest.raises(ValueError, match=r"Trying to reuse partitioned variable s/v but specified partitions \[4, 1\] and"):
            wb.get_variable("v", [4, 3], partitioner=lambda shape, **options: [4, 1])


def test_scopes_list_what_is_theirs_and_stay_reusing():
    with wb.variable_scope("s") as scope:
        local = wb.get_local_variable("local", [], collections=["mine"])
        v = wb.get_variable("v", [])
    assert scope.local_variables() == [local] == scope.get_collection("mine") == wb.get_collection("mine")
    assert scope.get_collection(wb.GraphKeys.GLOBAL_VARIABLES) == [v]
    with wb.variable_scope("s", reuse=True) as reusing:
        pass
    with wb.variable_scope(reusing, reuse=False) as again:
        assert again.reuse
    with wb.variable_scope("c", caching_device="/cpu:0"), wb.variable_scope("d", caching_device="") as plain:
        assert plain.caching_device is None


def test_a_getter_works_beside_all_scopes_and_values_keep_their_type():
    def doubled(getter, *args, **options):
        with wb.name_scope("twice"):
            return getter(*args, **options) * 2.0
    with wb.variable_scope("s", custom_getter=doubled):
        assert wb.get_variable("v", []).op.name.startswith("twice/") and wb.trainable_variables()[0].op.name == "s/v"
    with pytest.raises(ValueError, match="Passed a custom_getter which is not callable: 3"):
        wb.get_variable("w", [], custom_getter=3)
    with pytest.raises(ValueError, match="Initializer type int32 and explicit dtype float64 don't match"):
        wb.get_variable("w", initializer=wb.constant(1), dtype=wb.float64)


def test_a_getter_that_says_nothing_of_reuse_makes_or_finds_the_variable():
    def named(getter, name, *args, **options):
        getter(name, *args, **options)
        return getter(name + "_more", *args, **{**options, "reuse": None})
    with wb.variable_scope("s"):
        plain = wb.get_variable("v", [2])
    found = []
    for _ in range(2):
        with wb.variable_scope("s", reuse=True, custom_getter=named):
            found.append(wb.get_variable("v", [2]))
    assert found[0] is found[1] and found[0].name == "s/v_more:0" and found[0] is not plain


def test_a_first_value_given_in_a_branch_stands_outside_of_it():
    """tensorforce counts its synchronisations so: a number, or an array, as the initializer of a variable in a cond."""
    def branch():
        step = wb.get_variable("step", dtype="int32", initializer=-5, trainable=False)
        table = wb.get_variable("table", initializer=np.array([1.0, 2.0]), trainable=False)
        return wb.cast(step, "float64") + table
    with wb.Graph().as_default(), wb.Session() as session:
        found = wb.cond(wb.constant(True), lambda: wb.cond(wb.constant(True), branch, lambda: np.zeros(2)), lambda: np.zeros(2))
        session.run(wb.global_variables_initializer())
        assert session.run(found).tolist() == [-4, -3]


def test_a_scope_of_variables_alone_names_no_operations():
    with wb.Graph().as_default(), wb.name_scope("model"):
        with wb.variable_scope("a", auxiliary_name_scope=False) as scope:
            assert wb.constant(1.0, name="one").op.name == "model/one"
            assert wb.get_variable("w", []).op.name == "a/w" and scope.name == "a"
        with wb.variable_scope(scope, reuse=True, auxiliary_name_scope=False):
            assert wb.get_variable("w").op.name == "a/w" and wb.constant(1.0, name="two").op.name == "model/two"
        with wb.variable_scope("a", reuse=True):
            assert wb.constant(1.0, name="three").op.name == "model/a/three"
