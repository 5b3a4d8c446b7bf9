"""Where the tests find the real data sets, and small stand-ins in the real file format where there are none.

Tests that need the real files ask for `mnist_folder`; it skips, loudly, on machines without them.
"""
from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from workbench.io.idx import write_idx
from workbench.settings import settings

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
NAMED = settings.data      # as it was when the tests started
STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def use_data_beside_the_checkout() -> None:
    """Let this process and its children read the data folder beside the checkout, unless one is named already."""
    if settings.data is None and BESIDE.is_dir():
        os.environ["WORKBENCH_DATA"] = str(BESIDE)
        settings.data = BESIDE


@pytest.fixture
def mnist_folder() -> Path:
    """The folder with the real MNIST files."""
    for folder in (NAMED, BESIDE):
        if folder is not None and (folder / "mnist" / f"{STEMS[0]}.gz").is_file():
            return folder / "mnist"
    pytest.skip("needs the real MNIST files: set WORKBENCH_DATA to a folder that contains mnist/")


def write_small_mnist(folder: Path, train: int = 60, test: int = 20, compress: bool = True) -> Path:
    """Random digits in MNIST's four files; returns `folder`."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for (images, labels), count in zip((STEMS[:2], STEMS[2:]), (train, test)):
        suffix = ".gz" if compress else ""
        write_idx(folder / (images + suffix), rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), compress)
        write_idx(folder / (labels + suffix), rng.integers(0, 10, count, dtype=np.uint8), compress)
    return folder
