"""A step flushes subnormal numbers to zero, on every thread and in every form of kernel; whoever runs it goes on as before."""
from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.kernels.arithmetic import FLUSHES, Arithmetic, computing

SMALL = np.float32(1e-38)      # subnormal
flushes = pytest.mark.skipif(not FLUSHES, reason="subnormal numbers stay what they are on this system")


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with wb.Graph().as_default():
        yield


def keeps() -> bool:
    """Does this thread compute with subnormal numbers?"""
    return bool(SMALL * np.float32(0.5) != 0)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc" or platform.machine() not in ("x86_64", "aarch64"),
                    reason="not promised here")
def test_common_systems_flush() -> None:
    assert FLUSHES


FORMS = {"ufunc": lambda x: x * 0.5, "chain": lambda x: wb.abs(x * 0.5) + x * 0.25, "sum": lambda x: wb.reduce_sum(x * 0.5),
         "operand": lambda x: x * 1e30, "branch": lambda x: wb.cond(wb.shape(x)[0] > 0, lambda: x * 0.5, lambda: x + 1.0),
         "loop": lambda x: wb.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * 0.5), [wb.constant(0), x])[1],
         "constant": lambda x: wb.constant(np.full(3, SMALL)) * 0.5}


@flushes
@pytest.mark.parametrize("count", [3, 3_000_000], ids=["few", "shared by threads"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_normal_number_is_zero(form: str, count: int) -> None:
    x = wb.placeholder("float32", [None])
    with wb.Session() as session:
        for _ in range(2):
            assert not np.any(session.run(FORMS[form](x), {x: np.full(count, SMALL)}))
    assert keeps()


def test_what_is_only_passed_on_stays_what_it_is() -> None:
    x = wb.placeholder("float32", [2])
    with wb.Session() as session:
        assert (session.run(wb.identity(x), {x: np.full(2, SMALL)}) == SMALL).all()


@flushes
def test_a_thread_computes_as_before_when_its_step_failed() -> None:
    x, n = wb.placeholder("float32", [2]), wb.placeholder("int32", [1])
    with wb.Session() as session, pytest.raises(errors.Error):
        session.run(wb.reshape(x * 0.5, n), {x: np.full(2, SMALL), n: [3]})
    assert keeps()


@flushes
def test_who_flushed_before_flushes_still() -> None:
    x = wb.placeholder("float32", [2])
    with Arithmetic(), wb.Session() as session:
        session.run(x * 0.5, {x: np.full(2, SMALL)})
        assert not keeps()
    assert keeps()


@flushes
def test_a_thread_of_many_steps_computes_as_they_do_until_it_ends_that() -> None:
    before = np.geterr()
    with computing():
        for _ in range(2):
            with Arithmetic():
                assert not keeps() and set(np.geterr().values()) == {"ignore"}
            assert not keeps() and set(np.geterr().values()) == {"ignore"}
    assert keeps() and np.geterr() == before
    with Arithmetic():
        assert not keeps()
    assert keeps() and np.geterr() == before


@flushes
def test_a_step_computes_to_its_end_as_it_began() -> None:
    """A task sends something large in the middle of a step: another thread receives from then on."""
    before, way = np.geterr(), computing()
    way.__enter__()
    with Arithmetic():
        with Arithmetic():
            way.__exit__(None, None, None)
            with Arithmetic():
                assert not keeps()
            assert not keeps() and set(np.geterr().values()) == {"ignore"}
        assert not keeps() and set(np.geterr().values()) == {"ignore"}
    assert keeps() and np.geterr() == before
    with computing():
        assert not keeps()
    assert keeps() and np.geterr() == before


@flushes
def test_every_thread_of_a_step_on_several_devices_flushes() -> None:
    made: list[Any] = []
    x = wb.placeholder("float32", [400, 400])
    for device in ("/cpu:0", "/cpu:1"):
        with wb.device(device):
            made.append(wb.reduce_max(wb.matmul(x, x) * 0 + x * 0.5))
    with wb.Session(devices=2) as session:
        assert session.run(made, {x: np.full((400, 400), SMALL)}) == [0, 0]
    assert keeps()
