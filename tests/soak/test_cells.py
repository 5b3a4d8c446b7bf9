"""A notebook cell that rebuilds a model can be run again a hundred times in the memory of ten."""
from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

CELLS = """
import gc
import numpy as np
import psutil
import workbench as wb
def cell():
    with wb.Graph().as_default():
        x = y = wb.placeholder("float32", [32, 64])
        for _ in range(6):
            y = wb.nn.relu(wb.matmul(y, wb.Variable(np.full((64, 64), 0.1, np.float32))))
        loss = wb.reduce_mean(wb.square(y))
        step = wb.train.AdamOptimizer(0.01).minimize(loss)
        session = wb.Session()
        session.run(wb.global_variables_initializer())
        session.run([loss, step], {x: np.ones((32, 64), np.float32)})
def level(times):
    for _ in range(times):
        cell()
    gc.collect()
    return psutil.Process().memory_info().rss
ten = level(10)
print(level(90) / ten)
"""


def test_a_hundred_cells_take_no_more_than_a_tenth_over_ten() -> None:
    run = subprocess.run([sys.executable, "-c", CELLS], capture_output=True, text=True, timeout=240, check=True)
    assert float(run.stdout) < 1.1
