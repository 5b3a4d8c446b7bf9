"""slim's data sets: examples in files, decoders and their handlers, readers side by side, summaries by names."""
from __future__ import annotations

import collections

import numpy as np
import pytest
from workbench.tf1.contrib import slim
from workbench.tf1.contrib.slim.python.slim.data import tfexample_decoder as decoders_by_module

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
decoders = slim.tfexample_decoder


def feature(value) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    flat = np.ravel(value)
    if flat.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat.tolist()))
    if flat.dtype.kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=flat.tolist()))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in flat.tolist()]))


def serialized(**features) -> bytes:
    return tf.train.Example(features=tf.train.Features(feature={
        key.replace("__", "/"): feature(value) for key, value in features.items()})).SerializeToString()


def decoded(example: bytes, features, handler):
    [item] = decoders.TFExampleDecoder(features, {"item": handler}).decode(tf.constant(example), ["item"])
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return session.run(item)


MANY, FLOATS, WORDS = tf.VarLenFeature(tf.int64), tf.VarLenFeature(tf.float32), tf.VarLenFeature(tf.string)


@pytest.mark.parametrize(("features", "values", "handler", "wanted"), [
    ({"a": tf.FixedLenFeature([2, 3], tf.float32)}, {"a": np.arange(6.0)}, decoders.Tensor("a"), [[0, 1, 2], [3, 4, 5]]),
    ({"a": FLOATS}, {"a": np.arange(6.0)}, decoders.Tensor("a", shape=[3, 2]), [[0, 1], [2, 3], [4, 5]]),
    ({"a": FLOATS, "s": MANY}, {"a": np.arange(6.0), "s": [3, 2]}, decoders.Tensor("a", "s"), [[0, 1], [2, 3], [4, 5]]),
    ({"a": FLOATS, "h": MANY, "w": MANY}, {"a": np.arange(6.0), "h": [1], "w": [6]}, decoders.Tensor("a", ["h", "w"]),
     [[0, 1, 2, 3, 4, 5]]),
    ({"a": WORDS}, {}, decoders.Tensor("a", default_value=""), []),
    ({"ymin": FLOATS, "xmin": FLOATS, "ymax": FLOATS, "xmax": FLOATS},
     {"ymin": [0.0, 0.1], "xmin": [0.2, 0.3], "ymax": [0.4, 0.5], "xmax": [0.6, 0.7]}, decoders.BoundingBox(),
     [[0, 0.2, 0.4, 0.6], [0.1, 0.3, 0.5, 0.7]]),
    ({"box/a": FLOATS, "box/b": FLOATS, "box/c": FLOATS, "box/d": FLOATS},
     {"box__a": [1.0], "box__b": [2.0], "box__c": [3.0], "box__d": [4.0]}, decoders.BoundingBox(list("abcd"), "box/"),
     [[1, 2, 3, 4]]),
    ({"indices": MANY, "values": FLOATS}, {"indices": [0, 2], "values": [5.0, 7.0]},
     decoders.SparseTensor(shape=[4], densify=True), [5, 0, 7, 0]),
    ({"i": MANY, "v": FLOATS, "s": MANY}, {"i": [1], "v": [5.0], "s": [3]},
     decoders.SparseTensor("i", "v", "s", densify=True, default_value=-1), [-1, 5, -1]),
    ({"a": MANY, "b": MANY}, {"b": [4]}, decoders.BackupHandler(decoders.Tensor("a"), decoders.Tensor("b")), [4]),
    ({"a": MANY, "b": MANY}, {"a": [3, 3], "b": [4]}, decoders.BackupHandler(decoders.Tensor("a"), decoders.Tensor("b")),
     [3, 3]),
    ({"a": MANY}, {"a": [3, 4]}, decoders.ItemHandlerCallback(["a"], lambda found: found["a"].values * 2), [6, 8])])
def test_handlers_make_items_of_features(features, values, handler, wanted):
    np.testing.assert_allclose(np.asarray(decoded(serialized(**values), features, handler), float), wanted, rtol=1e-6)


def test_a_feature_becomes_what_a_table_has_for_it():
    table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["cat", "dog"]))
    found = decoded(serialized(names=["dog", "cat", "dog"]), {"names": WORDS}, decoders.LookupTensor("names", table))
    assert found.tolist() == [1, 0, 1]


def test_a_sparse_item_has_the_places_of_its_indices():
    found = decoded(serialized(indices=[0, 3], values=[1.0, 2.0]), {"indices": MANY, "values": FLOATS},
                    decoders_by_module.SparseTensor(shape=[5]))
    assert found.indices.tolist() == [[0], [3]] and found.values.tolist() == [1, 2] and found.dense_shape.tolist() == [5]


@pytest.mark.parametrize("form", ["png", "jpeg", "raw"])
def test_images_are_decoded_by_the_format_that_stands_beside_them(form: str):
    pixels = np.random.default_rng(1).integers(0, 255, (4, 5, 3), dtype=np.uint8)
    with tf.Session() as session:
        file = pixels.tobytes() if form == "raw" else session.run(
            (tf.image.encode_png if form == "png" else tf.image.encode_jpeg)(tf.constant(pixels)))
        reference = session.run(tf.image.decode_image(file)) if form != "raw" else pixels
    features = {"image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
                "image/format": tf.FixedLenFeature((), tf.string, default_value="jpeg")}
    example = serialized(image__encoded=file, image__format=form.encode())
    np.testing.assert_array_equal(decoded(example, features, decoders.Image(shape=[4, 5, 3])), reference)


def test_several_images_of_an_example_are_decoded_together():
    pixels = np.random.default_rng(1).integers(0, 255, (2, 3, 4, 3), dtype=np.uint8)
    with tf.Session() as session:
        files = [session.run(tf.image.encode_png(tf.constant(one))) for one in pixels]
    example = tf.train.Example(features=tf.train.Features(feature={
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=files)),
        "image/format": feature(b"png")})).SerializeToString()
    found = decoded(example, {"image/encoded": tf.FixedLenFeature([2], tf.string), "image/format": tf.FixedLenFeature(
        (), tf.string)}, decoders.Image(repeated=True))
    np.testing.assert_array_equal(found, pixels)


def test_wrong_handlers_are_refused():
    with pytest.raises(ValueError, match=r"Cannot specify both shape_keys .* and shape"):
        decoders.Tensor("a", shape_keys="s", shape=[2])
    with pytest.raises(ValueError, match="expects 4 keys but got 3"):
        decoders.BoundingBox(["a", "b", "c"])
    with pytest.raises(ValueError, match="Backup handler is of type"):
        decoders.BackupHandler(decoders.Tensor("a"), "b")


def numbered(folder, files: int = 2, records: int = 3) -> str:
    """Files of examples with their numbers; the pattern of their names."""
    for file in range(files):
        with tf.python_io.TFRecordWriter(str(folder / f"part-{file}")) as writer:
            for record in range(records):
                writer.write(serialized(number=[file * records + record]))
    return str(folder / "part-*")


def described(sources) -> slim.dataset.Dataset:
    """The data set, as programs of slim describe theirs: with a tensor as the value of a feature that is missing."""
    features = {"number": tf.FixedLenFeature([1], tf.int64, default_value=tf.zeros([1], dtype=tf.int64))}
    decoder = decoders.TFExampleDecoder(features, {"label": decoders.Tensor("number", shape=[])})
    return slim.dataset.Dataset(sources, tf.TFRecordReader, decoder, 6, {"label": "a number"}, num_classes=6)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_provider_gives_every_example_once_an_epoch(tmp_path, shuffled: bool):
    dataset = described(numbered(tmp_path))
    provider = slim.dataset_data_provider.DatasetDataProvider(
        dataset, num_readers=2, shuffle=shuffled, num_epochs=2, common_queue_capacity=8, common_queue_min=2, seed=3)
    assert sorted(provider.list_items()) == ["label", "record_key"] and provider.num_samples() == 6 == dataset.num_classes
    key, label = provider.get(["record_key", "label"])
    found = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with slim.queues.QueueRunners(session), pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run([key, label]))
    assert collections.Counter(int(label) for _, label in found) == dict.fromkeys(range(6), 2)
    assert all(f"part-{label // 3}" in key.decode() for key, label in found)


def test_items_of_a_provider_are_its_own(tmp_path):
    dataset = described(numbered(tmp_path))
    with pytest.raises(ValueError, match="cannot also be used for a dataset item: label"):
        slim.dataset_data_provider.DatasetDataProvider(dataset, record_key="label")
    provider = slim.data_provider.DataProvider({"a": 1}, 3)
    with pytest.raises(ValueError, match=r"Item \[b\] is invalid. Valid entries include: \['a'\]"):
        provider.get(["b"])
    with pytest.raises(ValueError, match="items must be a list or tuple, not 'a'"):
        provider.get("a")


def test_readers_side_by_side_count_together_and_give_several_records(tmp_path):
    queue = tf.FIFOQueue(8, [tf.string, tf.string], [(), ()])
    reader = slim.parallel_reader.ParallelReader(tf.TFRecordReader, queue, num_readers=3)
    assert reader.num_readers == 3 and reader.common_queue is queue
    names = tf.train.string_input_producer(slim.parallel_reader.get_data_files([numbered(tmp_path)]), num_epochs=1)
    keys, _ = reader.read_up_to(names, 4)
    sums = [reader.num_records_produced(), reader.num_work_units_completed()]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with slim.queues.QueueRunners(session):
            assert [len(session.run(keys)) for _ in range(2)] == [4, 2]
            assert session.run(sums) == [6, 2]
    with pytest.raises(TypeError, match="must be"):
        slim.parallel_reader.ParallelReader(tf.TFRecordReader, tf.FIFOQueue(8, [tf.string]))
    with pytest.raises(ValueError, match="No data files found in"):
        slim.parallel_reader.get_data_files(str(tmp_path / "none-*"))


def test_a_single_pass_is_in_order(tmp_path):
    _, value = slim.parallel_reader.single_pass_read([str(tmp_path / "part-0"), numbered(tmp_path, 1)], tf.TFRecordReader)
    number = tf.parse_single_example(value, {"number": tf.FixedLenFeature((), tf.int64)})["number"]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with slim.queues.QueueRunners(session):
            assert [session.run(number) for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_default_that_is_no_constant_is_refused():
    feature_of_none = tf.FixedLenFeature([1], tf.int64, default_value=tf.placeholder(tf.int64, [1], "missing"))
    with pytest.raises(ValueError, match="missing:0, whose value is not known while the graph is built"):
        tf.parse_single_example(serialized(), {"a": feature_of_none})


def test_batches_of_unknown_shape_do_not_wait_unpadded():
    with pytest.raises(errors.ShapeError, match="prefetch_queue"):
        slim.prefetch_queue.prefetch_queue([tf.placeholder(tf.float32, [None, 2])])
    assert slim.prefetch_queue.prefetch_queue([tf.placeholder(tf.float32, [None, 2])], dynamic_pad=True)


def test_summaries_have_the_names_of_operations(capfd):
    loss, picture = tf.constant([0.0, 2.0], name="loss"), tf.zeros([1, 2, 2, 1], name="picture")
    mean = tf.reduce_mean(loss, name="mean")
    slim.summaries.add_histogram_summaries([loss], prefix="all")
    slim.summaries.add_scalar_summaries([mean])
    slim.summaries.add_image_summaries([picture], "seen")
    slim.summaries.add_zero_fraction_summaries([loss])
    slim.summaries.add_scalar_summary(mean, "told", print_summary=True)
    with tf.Session() as session:
        found = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    assert sorted(value.tag for value in found.value) == [
        "all/loss", "loss/Fraction_of_Zero_Values", "mean_1", "seen/picture/image/0", "told"]
    assert "told" in capfd.readouterr().err
