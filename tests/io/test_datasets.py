"""Data sets: where MNIST is looked for, what it looks like, and the announced stand-in."""
from __future__ import annotations

import shutil

import numpy as np
import pooch
import pytest
from typer.testing import CliRunner

from tests.data_fixture import write_small_mnist
from workbench import errors
from workbench.cli import app
from workbench.io import datasets, download
from workbench.io.datasets import FallbackDataWarning, load_mnist
from workbench.io.idx import write_idx
from workbench.io.mnist_tutorial import read_data_sets
from workbench.settings import settings


def test_real_mnist(mnist_folder):
    mnist = load_mnist(mnist_folder)
    assert [len(part) for part in (mnist.train, mnist.validation, mnist.test)] == [55_000, 5_000, 10_000]
    assert mnist.train.images.shape == (55_000, 784) and mnist.train.images.dtype == np.float32
    assert mnist.train.images.min() == 0 and mnist.train.images.max() == 1
    assert list(mnist.validation.labels[:5]) == [5, 0, 4, 1, 9] and list(mnist.test.labels[:3]) == [7, 2, 1]
    assert (mnist.source, mnist.folder) == ("mnist", mnist_folder)
    assert not download.damaged(mnist_folder)


@pytest.mark.parametrize("compress", [True, False])
def test_small_files_with_one_hot_labels(tmp_path, compress):
    folder = write_small_mnist(tmp_path / "x", compress=compress)
    mnist, plain = load_mnist(folder, one_hot=True, validation=10), load_mnist(folder, validation=0)
    assert mnist.train.labels.shape == (50, 10) and mnist.train.labels.dtype == np.float32
    np.testing.assert_array_equal(mnist.train.labels.argmax(1), plain.train.labels[10:])
    assert plain.validation.num_examples == 0 and plain.train.labels.dtype == np.uint8


def test_dotted_file_names_are_found(small_mnist):
    for path in list(small_mnist.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert load_mnist(small_mnist, validation=1).test.num_examples == 20


def test_search_order(small_mnist, monkeypatch, tmp_path, own_cache):
    monkeypatch.setattr(settings, "data", small_mnist.parent)
    assert load_mnist(validation=1).folder == small_mnist
    monkeypatch.setattr(settings, "data", small_mnist)
    assert load_mnist(validation=1).folder == small_mnist, "the variable may name the folder itself"
    other = write_small_mnist(tmp_path / "other")
    assert load_mnist(other, validation=1).folder == other, "an explicit path comes first"


@pytest.fixture
def homeless(monkeypatch):
    """A user without HOME and without an entry, as in a container run with any number."""
    pwd = pytest.importorskip("pwd")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(user):
        raise KeyError(user)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_a_user_without_a_home_folder_has_no_cache_of_data_sets(homeless, monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "data", None)
    monkeypatch.setattr(settings, "cache", tmp_path)
    monkeypatch.chdir(tmp_path)
    wanted = "this user has no home folder where a download could be kept"
    assert datasets.find_mnist() == (None, [wanted])
    shown = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "250"})
    assert wanted in shown.output
    with monkeypatch.context() as older:
        older.setattr(pooch, "os_cache", lambda project: f"~/.cache/{project}")
        assert datasets.find_mnist() == (None, [wanted])


def test_the_cache_serves_and_a_damaged_one_does_not(mnist_folder, own_cache):
    shutil.copytree(mnist_folder, own_cache)
    assert datasets.find_mnist(download=False) == (own_cache, [])
    damaged = own_cache / "t10k-labels-idx1-ubyte.gz"
    damaged.chmod(0o644)
    damaged.write_bytes(b"damaged")
    folder, tried = datasets.find_mnist(download=False)
    assert folder is None and tried[0].endswith("lacks t10k-labels-idx1-ubyte.gz")


def test_fallback_is_announced_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "data", tmp_path)
    with pytest.warns(FallbackDataWarning) as caught:
        mnist = load_mnist(one_hot=True, download=False)
    text = str(caught[0].message)
    assert len(caught) == 1 and "\n" not in text and caught[0].filename == __file__
    assert f"WORKBENCH_DATA {tmp_path}/mnist lacks all four files" in text
    assert "no download was wanted" in text and "1,797 digits stand in for MNIST" in text
    assert repr(mnist).startswith("<scikit-learn's digits, standing in for MNIST: 1,318 training, 119 validation, 360 test; ")
    assert repr(mnist).endswith("images float32[784], labels float32[10]>")
    assert "set WORKBENCH_DATA to a folder with its four .gz files" in text
    assert mnist.source == "digits" and mnist.folder is None
    assert mnist.train.images.shape[1] == 784 and mnist.train.images.dtype == np.float32
    assert mnist.train.images.min() >= 0 and mnist.train.images.max() <= 1
    sizes = [part.num_examples for part in (mnist.train, mnist.validation, mnist.test)]
    assert sum(sizes) == 1797 and min(sizes) > 100



def test_bundled_digits_can_be_learned():
    """Nearest class mean: the enlarged digits must still look like digits."""
    with pytest.warns(FallbackDataWarning):
        mnist = load_mnist(download=False, validation=0)
    means = np.stack([mnist.train.images[mnist.train.labels == digit].mean(0) for digit in range(10)])
    guess = ((mnist.test.images[:, None] - means) ** 2).sum(-1).argmin(1)
    assert (guess == mnist.test.labels).mean() > 0.85


def test_explicit_path_without_files_never_falls_back(tmp_path):
    with pytest.raises(errors.NotFoundError, match=r"train-images-idx3-ubyte, .* not there .*pass no path to search"):
        load_mnist(tmp_path)


def test_contradicting_files(small_mnist):
    write_idx(small_mnist / "train-labels-idx1-ubyte.gz", np.zeros(59, np.uint8), compress=True)
    with pytest.raises(errors.DataLossError, match=r"uint8\[60, 28, 28\] and the labels uint8\[59\], but"):
        load_mnist(small_mnist, validation=1)
    write_idx(small_mnist / "train-labels-idx1-ubyte.gz", np.full(60, 12, np.uint8), compress=True)
    with pytest.raises(errors.DataLossError, match=r"a train label is 12 but digits are 0..9; get the labels file"):
        load_mnist(small_mnist, validation=1)


def test_truncated_file_is_an_error_not_a_fallback(small_mnist, monkeypatch):
    path = small_mnist / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(settings, "data", small_mnist)
    with pytest.raises(errors.DataLossError, match=f"read_idx {path}: the "):
        load_mnist(validation=1)


def test_validation_out_of_range(small_mnist):
    with pytest.raises(errors.InvalidArgumentError, match="validation is 5000 but there are 60 training examples"):
        load_mnist(small_mnist)


def test_tutorial_reader(small_mnist):
    data = read_data_sets(small_mnist, one_hot=True, validation_size=10)
    images, labels = data.train.next_batch(20)
    assert images.shape == (20, 784) and labels.shape == (20, 10)
    raw = read_data_sets(str(small_mnist), dtype=np.uint8, reshape=False, validation_size=10)
    assert raw.test.images.shape == (20, 28, 28, 1) and raw.test.images.dtype == np.uint8
    np.testing.assert_array_equal(raw.train.images.reshape(50, -1), np.rint(data.train.images * 255))


def test_tutorial_reader_searches_when_its_folder_is_empty(small_mnist, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "data", small_mnist)
    assert read_data_sets(tmp_path / "MNIST_data", validation_size=5).folder == small_mnist
    assert not (tmp_path / "MNIST_data").exists()


def test_tutorial_reader_extras():
    fake = read_data_sets("unused", fake_data=True, one_hot=True)
    assert fake.source == "fake" and fake.train.images.min() == 1 and fake.train.labels[0, 0] == 1
    with pytest.raises(errors.DtypeError, match="dtype is float64 but images come as float32 or uint8; choose one"):
        read_data_sets("unused", dtype=np.float64)
