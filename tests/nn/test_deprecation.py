"""Marks of what will go: who is warned, how often, what the documentation says, and what cannot be marked."""
from __future__ import annotations

import pytest

import workbench.tf1 as tf
from workbench.nn.contrib.deprecation import silence

F = tf.contrib.framework


@pytest.fixture
def warned(caplog):
    caplog.set_level("WARNING", "workbench")
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_function_warns_once_or_each_time(warned):
    @F.deprecated("2016-07-04", "Use add.")
    def plus(a, b):
        """Adds.

        Both."""
        return a + b

    @F.deprecated(None, "Use nothing.", warn_once=False)
    def minus(a, b):
        return a - b
    assert [plus(1, b=2), plus(3, 4), minus(5, 2), minus(1, 1)] == [3, 7, 3, 0]
    first, *rest = warned()
    assert first.startswith(f"From {__file__}:") and first.endswith(
        f": plus (from {__name__}) is deprecated and will be removed after 2016-07-04.\nInstructions for updating:\nUse add.")
    assert len(rest) == 2 and "minus" in rest[0] and "removed in a future version." in rest[1]
    assert plus.__doc__ == ("Adds. (deprecated)\n\nTHIS FUNCTION IS DEPRECATED. It will be removed after 2016-07-04.\n"
                            "Instructions for updating:\nUse add.\n\nBoth.")
    assert minus.__doc__.startswith("DEPRECATED FUNCTION\n\nTHIS FUNCTION") and minus.__name__ == "minus"


def test_only_who_gives_an_argument_is_warned(warned):
    @F.deprecated_args("2016-07-04", "Leave it.", "old", ("older", [None, 3]), "more")
    def function(x, old=1, older=None, **more):
        return x + old + sum(more.values())
    assert function(1) == 2 and function(1, older=None) == 2 and function(1, older=3) == 2 and warned() == []
    assert function(1, 5) == 6 and function(1, old=5) == 6 and function(1, older=4, a=1) == 3
    assert [text.partition(" with ")[2].partition(" is ")[0] for text in warned()] == ["old", "older", "more"]
    assert function.__doc__.startswith("DEPRECATED FUNCTION ARGUMENTS")


def test_values_that_will_go_are_told_of_also_by_default(warned):
    class Layer:
        @F.deprecated_arg_values(None, "Say so.", fast=True, mode="50%")
        def call(self, fast=True, mode=None):
            """Calls."""
            return fast, mode
    layer = Layer()
    assert [layer.call(False), layer.call(), layer.call(True), layer.call(False, "50%")] == [
        (False, None), (True, None), (True, None), (False, "50%")]
    assert ["fast=True" in text or "mode=50%" in text for text in warned()] == [True, True]
    assert "Layer.call" in warned()[0] and Layer.call.__doc__.startswith("Calls. (deprecated arguments)\n\nSOME ARGUMENTS")


def test_silence_is_for_a_while(warned):
    @F.deprecated(None, "Use nothing.", warn_once=False)
    def function():
        pass
    with silence():
        function()
    assert warned() == []
    function()
    assert len(warned()) == 1


@pytest.mark.parametrize(("make", "text"), [
    (lambda: F.deprecated("07-04-2016", "x"), "YYYY-MM-DD"), (lambda: F.deprecated(None, ""), "conversion instructions"),
    (lambda: F.deprecated_args(None, "x"), "Specify which argument"), (lambda: F.deprecated_arg_values(None, "x"), "argument"),
    (lambda: F.deprecated_args(None, "x", "missing")(lambda a: a), r"not present.*\['missing'\]"),
    (lambda: F.deprecated_args(None, "x", ("a", 3))(lambda a: a), "pass them as a list"),
    (lambda: F.deprecated(None, "x")(property(lambda self: 3)), "make sure @property appears before @deprecated")])
def test_what_cannot_be_marked(make, text):
    with pytest.raises(ValueError, match=text):
        make()
