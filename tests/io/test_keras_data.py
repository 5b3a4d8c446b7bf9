"""Data sets under Keras's names: files that are there are read, others are downloaded once, and what cannot be is said."""
from __future__ import annotations

import functools
import hashlib
import json
import tarfile

import numpy as np
import pytest

import workbench.tf1 as tf
from tests.io.serving import serving
from workbench import errors
from workbench.io import datasets, download, keras_data
from workbench.settings import settings

DATA = tf.keras.datasets


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """A home folder of the test's own, so that ~/.keras is nobody's; patience with servers; NumPy's generator as it was."""
    monkeypatch.setattr(download, "fetch", functools.partial(download.fetch, answer_seconds=60.0, progress=False))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = np.random.get_state()
    yield tmp_path / "home" / ".keras" / "datasets"
    np.random.set_state(before)


def packed(folder, name):
    """An archive of a folder with one text."""
    (folder / name).mkdir(parents=True)
    (folder / name / "text.txt").write_text("words")
    with tarfile.open(folder / "other.tgz", "w:gz") as file:
        file.add(folder / name, name)
    return hashlib.sha256((folder / "other.tgz").read_bytes()).hexdigest()


def test_a_file_is_downloaded_once_and_unpacked(tmp_path, own_home):
    known = packed(tmp_path / "origin", "things")
    with serving(tmp_path / "origin") as (url, asked):
        for _ in range(2):
            found = tf.keras.utils.get_file("things", f"{url}other.tgz", untar=True, file_hash=known)
        plain = keras_data.get_file("things.tgz", f"{url}other.tgz", extract=True, cache_subdir="b", cache_dir=str(tmp_path))
    assert found == str(own_home / "things") and (own_home / "things" / "text.txt").read_text() == "words"
    assert sorted(path.name for path in own_home.iterdir()) == ["things", "things.tar.gz"]
    assert plain == str(tmp_path / "b" / "things.tgz") and (tmp_path / "b" / "things" / "text.txt").is_file()
    assert len([line for line in asked if line.startswith("GET")]) == 2


def test_what_cannot_be_had_is_said(tmp_path, own_home):
    text = "answered 404 .*put the files there by hand"
    with serving(tmp_path) as (url, _), pytest.raises(errors.UnavailableError, match=text):
        keras_data.get_file("none.npz", f"{url}none.npz")
    own_home.mkdir(parents=True)
    (own_home / "bad.tar.gz").write_text("no archive")
    with pytest.raises(errors.DataLossError, match=r"bad.tar.gz cannot be unpacked"):
        keras_data.get_file("bad", "http://nowhere/bad.tar.gz", untar=True)
    with pytest.raises(errors.InvalidArgumentError, match="hash_algorithm is 'sha1'"):
        keras_data.get_file("bad", "http://nowhere/bad", hash_algorithm="sha1")


@pytest.mark.parametrize("looks", [True, False], ids=["Python looks", "an older Python"])
@pytest.mark.parametrize("name", ["../outside", "link"])
def test_an_archive_writes_nothing_beside_its_folder(own_home, monkeypatch, name, looks):
    if not looks:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    own_home.mkdir(parents=True)
    member = tarfile.TarInfo(name)
    if name == "link":
        member.type, member.linkname = tarfile.SYMTYPE, "../.."
    with tarfile.open(own_home / "bad.tar.gz", "w:gz") as archive:
        archive.addfile(member)
    with pytest.raises(errors.DataLossError, match=rf"bad.tar.gz cannot be unpacked \(.*{name}"):
        keras_data.get_file("bad", "http://nowhere/bad.tar.gz", untar=True)
    assert not (own_home.parent / "outside").exists() and not (own_home / "link").is_symlink()


def test_digits_come_from_one_file_or_from_mnists_own(tmp_path, own_home, small_mnist, monkeypatch):
    arrays = {name: np.arange(4, dtype="uint8") for name in ("x_train", "y_train", "x_test", "y_test")}
    own_home.mkdir(parents=True)
    np.savez(own_home / "mnist.npz", **arrays)
    assert DATA.mnist.load_data()[1][0].tolist() == [0, 1, 2, 3]
    (own_home / "mnist.npz").unlink()
    monkeypatch.setattr(settings, "data", small_mnist.parent)
    (images, digits), (other, _) = DATA.mnist.load_data()
    assert images.shape == (60, 28, 28) and digits.shape == (60,) and len(other) == 20 and images.dtype == np.uint8
    monkeypatch.setattr(keras_data, "find_mnist", lambda: (None, ["the cache lacks all four files"]))
    with pytest.raises(errors.UnavailableError, match=r"mnist.load_data: .* the cache lacks all four files; put them there"):
        DATA.mnist.load_data()
    assert datasets.read_mnist(small_mnist)[0][0].shape == (60, 28, 28)


def test_small_pictures_come_from_their_binary_files(own_home):
    rng = np.random.default_rng(0)
    ten = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for folder, names, labels in (("cifar-10-batches-bin", ten, 1), ("cifar-100-binary", ["train.bin", "test.bin"], 2)):
        (own_home / folder).mkdir(parents=True)
        for name in names:
            rng.integers(0, 10, (3, 3072 + labels)).astype("uint8").tofile(own_home / folder / name)
    (x, y), (other, _) = DATA.cifar10.load_data()
    assert x.shape == (15, 32, 32, 3) and y.shape == (15, 1) and other.shape == (3, 32, 32, 3)
    raw = np.fromfile(own_home / "cifar-10-batches-bin" / "data_batch_1.bin", "uint8")
    assert y[0, 0] == raw[0] and x[0, 0, 0].tolist() == raw[[1, 1025, 2049]].tolist()
    (_, fine), _ = DATA.cifar100.load_data()
    (_, coarse), _ = DATA.cifar100.load_data("coarse")
    raw = np.fromfile(own_home / "cifar-100-binary" / "train.bin", "uint8")
    assert [coarse[0, 0], fine[0, 0]] == raw[:2].tolist()
    (own_home / "cifar-100-binary" / "test.bin").write_bytes(b"short")
    with pytest.raises(errors.DataLossError, match="have 5 bytes, no multiple of 3074"):
        DATA.cifar100.load_data()
    with pytest.raises(errors.InvalidArgumentError, match="label_mode is 'one'"):
        DATA.cifar100.load_data("one")


def test_rows_and_words(own_home, monkeypatch):
    own_home.mkdir(parents=True)
    np.savez(own_home / "houses.npz", x=np.arange(20.0).reshape(10, 2), y=np.arange(10.0))
    monkeypatch.setattr(keras_data, "get_file", lambda path, *_, **__: str(own_home / path))
    (x, y), (other, last) = DATA.boston_housing.load_data("houses.npz")
    assert x.shape == (8, 2) and len(last) == 2 and np.array_equal(x[:, 0], 2 * y) and np.array_equal(other[:, 0], 2 * last)
    (own_home / "imdb_word_index.json").write_text(json.dumps({"the": 1}))
    assert DATA.imdb.get_word_index() == {"the": 1}
    with pytest.raises(errors.UnimplementedError, match=r"imdb.load_data: imdb.npz holds pickled lists, .*Tokenizer"):
        DATA.imdb.load_data(num_words=1000)
