"""Keras's preprocessing: sequences, texts and images made into arrays."""
from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image

from workbench import errors
from workbench.train.keras import layers, models
from workbench.train.keras.preprocessing import batches, image, pictures, sequence, text

pytestmark = pytest.mark.usefixtures("keras_session")


@pytest.fixture(autouse=True)
def seeded():
    """Both generators that Keras draws from begin alike, and are left as they were."""
    before, drawn = np.random.get_state(), random.getstate()
    np.random.seed(0)
    random.seed(0)
    yield
    np.random.set_state(before)
    random.setstate(drawn)


@pytest.mark.parametrize(("options", "wanted"), [
    ({}, [[0, 0, 1], [2, 3, 4]]), ({"maxlen": 2}, [[0, 1], [3, 4]]), ({"padding": "post"}, [[1, 0, 0], [2, 3, 4]]),
    ({"maxlen": 2, "truncating": "post", "value": 9}, [[9, 1], [2, 3]])])
def test_sequences_are_filled_up(options, wanted):
    found = sequence.pad_sequences([[1], [2, 3, 4]], **options)
    assert found.tolist() == wanted and found.dtype == np.int32


def test_sequences_of_rows_are_filled_up():
    found = sequence.pad_sequences([[], [[1, 2]], [[1, 2], [3, 4]]], dtype="float32")
    assert found.shape == (3, 2, 2) and found[1].tolist() == [[0, 0], [1, 2]]


def test_neighbours_are_pairs():
    pairs, labels = sequence.skipgrams([1, 2, 0, 3], 5, window_size=1, negative_samples=0, shuffle=False)
    assert pairs == [[1, 2], [2, 1]] and labels == [1, 1]
    pairs, labels = sequence.skipgrams([1, 2, 3], 9, 1, categorical=True, seed=1)
    near = [pair for pair, label in zip(pairs, labels) if label == [0, 1]]
    assert len(pairs) == 8 and sorted(near) == [[1, 2], [2, 1], [2, 3], [3, 2]]
    table = sequence.make_sampling_table(5)
    assert table.shape == (5,) and np.all(np.diff(table[1:]) > 0)
    assert sequence.skipgrams([1, 2, 3], 9, sampling_table=np.zeros(9)) == ([], [])


def test_words_are_numbered_by_how_often_they_occur():
    told = text.Tokenizer()
    told.fit_on_texts(["The cat, the dog!", "A dog? THE dog."])
    assert told.word_index == {"the": 1, "dog": 2, "cat": 3, "a": 4} and told.document_count == 2
    assert dict(told.word_docs) == {"the": 2, "dog": 2, "cat": 1, "a": 1} and told.index_docs[3] == 1
    assert told.texts_to_sequences(["a cat and a dog"]) == [[4, 3, 4, 2]]
    assert told.texts_to_matrix(["dog dog cat"], "count").tolist() == [[0, 0, 2, 1, 0]]
    assert told.texts_to_matrix(["dog dog cat", ""], "freq").tolist() == [[0, 0, 2 / 3, 1 / 3, 0], [0] * 5]
    assert told.texts_to_matrix(["dog dog cat"]).tolist() == [[0, 0, 1, 1, 0]]
    found = told.texts_to_matrix(["dog dog cat"], "tfidf")[0]
    assert found[2] == pytest.approx((1 + np.log(2)) * np.log(1 + 2 / 3)) and found[3] == pytest.approx(np.log(2))
    few = text.Tokenizer(num_words=3, char_level=True)
    few.fit_on_texts(["aab"])
    assert few.texts_to_sequences(["abc"]) == [[1, 2]] and few.sequences_to_matrix([[1, 5]]).tolist() == [[0, 1, 0]]


def test_words_are_hashed():
    assert text.text_to_word_sequence("One, two\tTHREE", lower=False) == ["One", "two", "THREE"]
    assert text.hashing_trick("a b a", 10, "md5") == [2, 5, 2] and text.one_hot("a b", 5) == text.hashing_trick("a b", 5)
    assert text.hashing_trick("a bc", 10, len) == [2, 3]


def photos(count=6):
    return np.random.default_rng(2).uniform(0, 255, (count, 5, 4, 3)).astype("float32")


def test_images_are_batched_in_passes():
    x = photos()
    flow = image.ImageDataGenerator(rescale=1 / 255).flow(x, np.arange(6), batch_size=4, shuffle=False)
    (first, numbers), (other, last), (again, _) = next(flow), next(flow), next(flow)
    assert numbers.tolist() == [0, 1, 2, 3] and last.tolist() == [4, 5] and np.allclose(first, x[:4] / 255)
    assert np.array_equal(first, again) and other.shape == (2, 5, 4, 3)
    one, two = (image.ImageDataGenerator(rotation_range=40, shear_range=0.3, channel_shift_range=20).flow(x, seed=3)
                for _ in range(2))
    assert np.array_equal(next(one), next(two)) and not np.array_equal(next(one), x)


def test_images_are_bent_as_told():
    x = photos(1)[0]
    apart = image.ImageDataGenerator(zoom_range=[0.5, 0.5]).random_transform(x)
    assert np.array_equal(apart, pictures.apply_transform(x, pictures.centred(np.diag([0.5, 0.5, 1]), 5, 4), 2))
    told = image.ImageDataGenerator(horizontal_flip=True, vertical_flip=True)
    flips = {told.random_transform(x).tobytes() for _ in range(40)}
    assert flips == {one.tobytes() for one in (x, x[::-1], x[:, ::-1], x[::-1, ::-1])}
    moved = pictures.apply_transform(x, pictures.shift(1, 0), 2, "constant", 7.0)
    assert np.array_equal(moved[:-1], x[1:]) and np.all(moved[-1] == 7)
    assert np.allclose(pictures.random_rotation(x, 0, 0, 1, 2), x) and np.allclose(pictures.random_shear(x, 0, 0, 1, 2), x)
    assert np.allclose(pictures.random_shift(x, 0, 0, 0, 1, 2), x) and np.allclose(pictures.random_zoom(x, (1, 1), 0, 1, 2), x)


def test_images_are_normalized():
    x = photos(20)
    told = image.ImageDataGenerator(featurewise_center=True, featurewise_std_normalization=True)
    with pytest.warns(UserWarning, match="featurewise_center is left out: the generator hasn't been fit"):
        image.ImageDataGenerator(featurewise_center=True).standardize(x[0])
    told.fit(x)
    found = np.stack([told.standardize(one) for one in x])
    assert np.allclose(found.mean((0, 1, 2)), 0, atol=1e-4) and np.allclose(found.std((0, 1, 2)), 1, atol=1e-4)
    white = image.ImageDataGenerator(featurewise_center=True, zca_whitening=True)
    small = np.random.default_rng(0).normal(size=(60, 2, 2, 1)).astype("float32")
    white.fit(small, augment=True, rounds=2, seed=1)
    flat = np.stack([white.standardize(one) for one in small]).reshape(60, 4)
    assert np.allclose(flat.T @ flat / 60, np.eye(4), atol=1e-3)
    own = image.ImageDataGenerator(samplewise_center=True, samplewise_std_normalization=True).standardize(x[0])
    assert np.allclose(own.mean(-1), 0, atol=1e-4)


def test_images_of_folders_train_a_model(tmp_path, capsys):
    for kind, colour in (("dark", 10), ("light", 240)):
        (tmp_path / kind).mkdir()
        for number in range(5):
            Image.fromarray(np.full((6, 6, 3), colour + number, "uint8")).save(tmp_path / kind / f"{number}.png")
    (tmp_path / "dark" / "notes.txt").write_text("no image")
    (tmp_path / "kept").mkdir()
    flow = image.ImageDataGenerator(rescale=1 / 255).flow_from_directory(
        tmp_path, (4, 4), "grayscale", ["dark", "light"], "binary", 4, seed=1, save_to_dir=tmp_path / "kept", save_prefix="x")
    assert "Found 10 images belonging to 2 classes." in capsys.readouterr().out
    assert flow.class_indices == {"dark": 0, "light": 1} and flow.image_shape == (4, 4, 1) and flow.filenames[0] == "dark/0.png"
    model = models.Sequential([layers.Flatten(input_shape=(4, 4, 1)), layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", ["acc"])
    model.fit_generator(flow, 10 / 4, 2, verbose=0)
    assert len(list((tmp_path / "kept").iterdir())) > 10
    whole = image.ImageDataGenerator().flow_from_directory(tmp_path, (3, 3), classes=["light", "dark"])
    x, y = next(whole)
    assert x.shape == (10, 3, 3, 3) and np.array_equal(y[:, 1] == 1, x[:, 0, 0, 0] < 100)


def test_images_and_arrays():
    x = photos(1)[0].round()
    picture = pictures.array_to_img(x, scale=False)
    assert np.array_equal(pictures.img_to_array(picture), x) and picture.size == (4, 5)
    assert pictures.img_to_array(picture, "channels_first").shape == (3, 5, 4)
    grey = pictures.array_to_img(x[..., :1])
    assert pictures.img_to_array(grey).shape == (5, 4, 1) and pictures.img_to_array(grey).max() == 255


@pytest.mark.parametrize(("use", "text_of_error"), [
    (lambda: sequence.pad_sequences([[1]], padding="front"), "padding type 'front' not understood"),
    (lambda: sequence.pad_sequences([1, 2]), "`sequences` must be a list of iterables"),
    (lambda: sequence.pad_sequences([[[1]], [[1, 2]]]), "Shape of sample (2,) of sequence at position 1"),
    (lambda: text.Tokenizer().sequences_to_matrix([[1]]), "Specify a dimension (num_words argument)"),
    (lambda: text.Tokenizer(5).sequences_to_matrix([[1]], "tfidf"), "Fit the Tokenizer on some data"),
    (lambda: text.Tokenizer(5).sequences_to_matrix([[1]], "sum"), "Unknown vectorization mode: 'sum'"),
    (lambda: image.ImageDataGenerator(zoom_range=[1, 2, 3]), "`zoom_range` should be a float or a tuple"),
    (lambda: image.ImageDataGenerator(data_format="last"), "Unknown data_format: 'last'"),
    (lambda: image.ImageDataGenerator().fit(np.ones([2, 2])), "Input to `.fit()` should have rank 4"),
    (lambda: image.ImageDataGenerator().flow(photos(), np.ones(2)), "should have the same length"),
    (lambda: image.ImageDataGenerator().flow(photos()[0]), "Input data should have rank 4"),
    (lambda: next(image.ImageDataGenerator().flow(photos(0))), "there are no images; give some"),
    (lambda: batches.DirectoryIterator(".", None, class_mode="one"), "Invalid class_mode: 'one'"),
    (lambda: pictures.array_to_img(np.ones([2, 2, 2])), "Unsupported channel number: 2"),
    (lambda: pictures.img_to_array(np.ones(2)), "Unsupported image shape: (2,)")])
def test_wrong_uses_are_named(use, text_of_error):
    with pytest.raises(errors.InvalidArgumentError) as error:
        use()
    assert text_of_error in str(error.value)
