"""Device names: reading, writing, merging, comparing."""
from __future__ import annotations

import pytest

from workbench import errors
from workbench.core.graph.device import DeviceSpec, merge, parse


@pytest.mark.parametrize(("text", "canonical"), [
    ("/job:worker/task:1/device:GPU:0", "/job:worker/task:1/device:GPU:0"), ("/cpu:0", "/device:CPU:0"), ("/gpu:*",
                                                                                                          "/device:GPU:*"),
    ("/task:2/replica:0/job:ps", "/job:ps/replica:0/task:2"), ("", ""), ("/device:cpu", "/device:CPU:*"), ("/GPU:3",
                                                                                                 "/device:GPU:3")])
def test_names(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical and str(parse(canonical)) == canonical


def test_none_and_specs() -> None:
    spec = DeviceSpec("ps", 1)
    assert parse(None) == DeviceSpec() and parse(spec) is spec


@pytest.mark.parametrize("text", ["/jobs:a", "/job:a/task:x", "tpu", "/device:CPU:-1"])
def test_bad_names_show_the_form(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError,
                       match=r"device: .* has the part .*; write names like '/job:worker/task:1"):
        parse(text)


@pytest.mark.parametrize("text, words", [
    ("/job:muu/device:GPU:2/cpu:0", "has the types GPU and CPU; name one .Cannot specify multiple device types"),
    ("/job:j/replica:foo", "invalid literal for int.. with base 10: 'foo'"), ("/bar:muu/baz:2", "Unknown attribute: 'bar'")])
def test_bad_names_say_what_tensorflow_says(text: str, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        parse(text)


@pytest.mark.parametrize(("outer", "inner", "result"), [
    ("/job:ps", "/task:1", "/job:ps/task:1"), ("/job:ps/gpu:1", "/job:worker", "/job:worker/device:GPU:1"),
    ("/gpu:1", "/cpu", "/device:CPU:*"), ("/gpu:1", "/gpu:0", "/device:GPU:0"), ("", "/cpu:0", "/device:CPU:0"),
    ("/job:a/replica:0", "/task:1", "/job:a/replica:0/task:1"), ("/replica:0", "/replica:1", "/replica:1")])
def test_merge(outer: str, inner: str, result: str) -> None:
    assert merge(outer, inner) == result


def test_accepts_and_conflict() -> None:
    full = parse("/job:worker/task:1/device:GPU:0")
    assert parse("/job:worker").accepts(full) and parse("").accepts(full) and not parse("/task:2").accepts(full)
    assert parse("/job:a").conflict(parse("/job:b")) == "job" and parse("/job:a").conflict(parse("/gpu:0")) == ""
    assert parse("/cpu:0").conflict(parse("/gpu:0")) == "type"
    assert parse("/job:worker/replica:1").accepts(full) and parse("/replica:0").conflict(parse("/replica:1")) == ""
