"""Every way to execute an operation gives the reference's values: each is asked for by name, whatever rules and times say."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.core.kernels import test_onednn as cases
from workbench.core.kernels.choice import Choice
from workbench.core.kernels.measured.question import WAYS
from workbench.core.kernels.options import KernelOptions, using

pytestmark = pytest.mark.named
PAIRS = [(op, way) for op, ways in WAYS.items() for way in ways]


def refused() -> None:
    """A way that there is not; a processor may refuse others: without AVX-512 oneDNN wants some weights plain."""


@pytest.fixture
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The ways that served while (op, way) was asked for."""
    op, way = request.param
    served: list[str] = []
    select = cases.select

    def watched(type_: str) -> Any:
        def chosen(*arguments: Any) -> Choice:
            choice: Choice = select(type_)(*arguments)
            if type_ == op and choice.decision is not None:
                served.append(choice.decision.way)
                assert choice.decision.way == way or choice.decision.question.ways.get(way, refused)() is None
            return choice
        return chosen
    monkeypatch.setattr(cases, "select", watched)
    with using(KernelOptions(libraries=("onednn", "llvm"), ways={op: way}, deterministic=True)):
        yield served


def ways(*ops: str) -> Any:
    pairs = [pair for pair in PAIRS if pair[0] in ops]
    return pytest.mark.parametrize("asked", pairs, ids=["-".join(pair) for pair in pairs], indirect=True)


@ways("matmul")
def test_products(asked: list[str], request: pytest.FixtureRequest) -> None:
    for turn_a in (False, True):
        for turn_b in (False, True):
            for shape in ((3, 5, 7), (17, 300, 41), (100, 784, 10), (784, 100, 10), (300, 64, 520)):
                cases.test_matmul(shape, turn_a, turn_b)
    cases.test_a_weight_that_many_products_read_may_lie_in_the_librarys_layout(False, None)
    cases.test_a_weight_that_many_products_read_may_lie_in_the_librarys_layout(True, None)
    assert request.node.callspec.params["asked"][1] in asked


@ways("fused_matmul")
def test_products_with_a_bias(asked: list[str], request: pytest.FixtureRequest) -> None:
    for turn_b in (False, True):
        for activation in ("none", "relu"):
            for shape in ((3, 5, 7), (128, 784, 64), (100, 784, 10)):
                cases.test_fused_matmul(shape, turn_b, activation)
            cases.test_a_weight_that_many_products_read_may_lie_in_the_librarys_layout(turn_b, activation)
    assert request.node.callspec.params["asked"][1] in asked


@ways("matmul_add")
def test_products_added_to_a_matrix(asked: list[str], request: pytest.FixtureRequest) -> None:
    for turn_a in (False, True):
        for turn_b in (False, True):
            for readers in (1, 20):
                cases.test_matmul_add((20, 300, 520), turn_a, turn_b, readers)
    assert request.node.callspec.params["asked"][1] in asked


@ways("matmul_update")
def test_products_that_update_a_weight(asked: list[str], request: pytest.FixtureRequest) -> None:
    for shape in ((5, 3, 7), (784, 100, 10), (300, 16, 500), (9, 40, 300), (2048, 9, 1024)):
        for sign in (-1.0, 1.0):
            cases.test_matmul_update(shape, sign, True)
            cases.test_matmul_update(shape, sign, False)
    assert request.node.callspec.params["asked"][1] in asked or request.node.callspec.params["asked"][1] == "inner"


@ways("conv2d", "fused_conv2d", "conv2d_backprop_input", "conv2d_backprop_filter")
def test_convolutions(asked: list[str], request: pytest.FixtureRequest) -> None:
    for image, kernel, strides, padding, dilations in cases.CONVOLUTIONS:
        for data_format in ("NHWC", "NCHW"):
            cases.test_convolution(image, kernel, strides, padding, dilations, data_format, False)
    for image, kernel, padding in cases.WINOGRADS:
        cases.test_convolution(image, kernel, (1, 1), padding, (1, 1), "NHWC", True)
    assert request.node.callspec.params["asked"][1] in asked
