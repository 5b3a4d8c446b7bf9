"""Colours that can be told apart, by everybody, on white and on black."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.viz import fixtures
from workbench.viz.palette import COLORS, color_of, device_order, short_device, short_task

pytestmark = pytest.mark.tiny
# Machado, Oliveira and Fernandes 2009, severity 1
DEUTAN = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]])
PROTAN = np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]])


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    high, low = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: np.ndarray) -> np.ndarray:
    lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    ) @ np.clip(rgb, 0, 1)
    return np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    ) @ np.cbrt(lms)


@pytest.mark.parametrize("color", COLORS)
def test_three_to_one_on_white_and_black_paper(color):
    assert contrast(color, "#ffffff") >= 3 and contrast(color, "#14171a") >= 3


@pytest.mark.parametrize("sight", [np.eye(3), DEUTAN, PROTAN], ids=["all", "deutan", "protan"])
def test_the_first_six_differ_for_colour_blind_eyes(sight):
    for a, b in itertools.combinations(COLORS[:6], 2):
        assert np.linalg.norm(oklab(sight @ linear(a)) - oklab(sight @ linear(b))) > 0.06, (a, b)


def test_a_task_has_the_colour_of_its_first_device_and_other_devices_have_others():
    first, second = (color_of(f"/job:ps/task:0/device:{kind}:0") for kind in ("cpu", "gpu"))
    assert color_of("/job:ps/task:0") == first != second
    assert color_of("/job:localhost/task:0/device:CPU:0") != color_of("/job:localhost/task:0/device:CPU:1")


def test_names_are_short_and_sorted_by_number():
    assert [short_device(d) for d in fixtures.DEVICES[1:3]] == ["ps:1 cpu:0", "worker:0 cpu:0"]
    assert short_device("") == "not placed" and short_device("odd name") == "odd name"
    assert short_task("/job:worker/task:12") == "worker:12" and short_task("me") == "me"
    assert sorted(["/job:w/task:10", "/job:w/task:9", "/job:a/task:0"], key=device_order) == [
        "/job:a/task:0",
        "/job:w/task:9",
        "/job:w/task:10",
    ]


def test_ten_tasks_of_a_job_differ_and_the_usual_cluster_has_no_two_of_one_colour():
    for job in ("ps", "worker", "trainer"):
        assert len({color_of(f"/job:{job}/task:{i}") for i in range(10)}) == 10
    usual = [("localhost", 0), *(("ps", i) for i in range(3)), *(("worker", i) for i in range(5))]
    assert len({color_of(f"/job:{job}/task:{i}") for job, i in usual}) == len(usual)


def test_a_colour_depends_on_the_name_alone():
    names = [f"/job:worker/task:{i}" for i in range(64)]
    before = [color_of(name) for name in names]
    assert [color_of(name) for name in reversed(names)] == before[::-1]
