"""Names by which programs of TensorFlow 1.5 - 1.15 ask for what is here, and what came with them."""
from __future__ import annotations

import sys

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench.tf1.imports import as_tensorflow


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def of(path):
    found = tf
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("later, older", [line.split() for line in """
    io.read_file read_file
    io.decode_jpeg image.decode_jpeg
    io.TFRecordWriter python_io.TFRecordWriter
    io.FixedLenFeature FixedLenFeature
    io.gfile.exists gfile.Exists
    io.gfile.GFile gfile.GFile
    random.normal random_normal
    random.set_random_seed set_random_seed
    random.uniform random_uniform
    math.reduce_sum reduce_sum
    math.argmax argmax
    debugging.assert_equal assert_equal
    dtypes.cast cast
    dtypes.float32 float32
    signal.stft contrib.signal.stft
    sparse.to_dense sparse_tensor_to_dense
    sparse.SparseTensor SparseTensor
    quantization.dequantize dequantize
    queue.FIFOQueue FIFOQueue
    lookup.StaticHashTable contrib.lookup.HashTable
    metrics.precision_at_k metrics.sparse_precision_at_k
    nn.max_pool2d nn.max_pool
    nn.silu nn.swish
    nn.depth_to_space depth_to_space
    image.resize_with_crop_or_pad image.resize_image_with_crop_or_pad
    train.piecewise_constant_decay train.piecewise_constant
    initializers.tables_initializer tables_initializer
    nest.map_structure contrib.framework.nest.map_structure
    data.experimental.map_and_batch contrib.data.map_and_batch
    compat.v1.placeholder placeholder
    compat.v1.nn.relu nn.relu
    no_gradient NotDifferentiable
    version.VERSION __version__""".strip().splitlines()])
def test_a_later_name_means_the_older_one(later, older):
    assert of(later) is of(older)


def test_the_version_is_after_1_4_as_text_and_as_numbers():
    """tensorflow/nmt compares texts, others numbers; "1.15" would be before "1.4"."""
    assert tf.__version__ == tf.VERSION > "1.4.0-dev20171024"
    assert [int(part) for part in tf.__version__.split(".")] > [1, 4, 1]


def test_version_1_by_its_name_in_version_2():
    as_tensorflow()
    import tensorflow.compat.v1 as v1  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from tensorflow.compat.v1 import placeholder  # type: ignore[import-not-found,import-untyped,unused-ignore]

    v1.disable_v2_behavior()
    v1.disable_eager_execution()
    assert v1 is tf and placeholder is tf.placeholder


def test_a_program_builds_a_graph():
    assert tf.executing_eagerly() is False and tf.resource_variables_enabled() is False
    with pytest.raises(tf.errors.UnimplementedError, match="enable_eager_execution: programs build graphs here"):
        tf.enable_eager_execution()


def test_what_is_built_in_an_init_scope_stands_outside_of_a_branch(graph):
    made = []

    def branch():
        with tf.init_scope():
            made.append(tf.constant(3.0, name="outside"))
        return made[0] * 2.0
    found = tf.cond(tf.constant(True), branch, lambda: tf.constant(0.0))
    assert graph.get_tensor_by_name("outside:0") is made[0]
    with tf.Session() as session:
        assert session.run(found) == 6.0


def test_what_is_a_tensor():
    things = [tf.constant(1), tf.Variable(1), tf.SparseTensor([[0]], [1], [1]), np.zeros(1), 1]
    assert [tf.is_tensor(thing) for thing in things] == [True, True, True, False, False]


def test_dimensions_by_function():
    x = tf.placeholder("float32", [None, 3])
    assert tf.dimension_value(x.shape[1]) == 3 and tf.dimension_value(x.shape[0]) is None and tf.dimension_value(4) == 4
    assert tf.dimension_at_index(x.shape, 1).value == 3
    assert tf.dimension_at_index(tf.placeholder("float32").shape, 0).value is None


def test_an_operation_prints(capsys, tmp_path):
    x, word = tf.constant(np.arange(10.0)), tf.constant("text")
    lines = [tf.print("x is", x, word), tf.print(x, output_stream=sys.stdout, summarize=-1, end="."),
             tf.print(1, word, sep="-", output_stream=f"file://{tmp_path / 'file'}")]
    with tf.control_dependencies(lines):
        y = tf.identity(1)
    with tf.Session() as session:
        session.run(y)
    out, error = capsys.readouterr()
    assert error == "x is [0. 1. 2. ... 7. 8. 9.] text\n" and out == "[0. 1. 2. 3. 4. 5. 6. 7. 8. 9.]."
    assert (tmp_path / "file").read_text() == "1-text\n"


def test_a_python_function_gets_arrays_that_give_themselves():
    found = tf.py_function(lambda x, y: x.numpy() + y.numpy().sum(), [tf.constant(1.0), tf.constant([1.0, 2.0])], tf.float32)
    with tf.Session() as session:
        assert session.run(found) == 4.0


def test_classes_are_drawn_as_the_type_that_is_asked_for():
    with tf.Session() as session:
        found = session.run(tf.random.categorical(tf.constant([[-50.0, 50.0, -50.0]]), 4, dtype=tf.int32))
    assert found.tolist() == [[1, 1, 1, 1]] and found.dtype == np.int32


def test_strings_are_split_at_white_space_or_one_character():
    with tf.Session() as session:
        found = [session.run(tf.strings.split(tf.constant([" a  b", "c"]), sep)).values.tolist() for sep in (None, " ")]
    assert found == [[b"a", b"b", b"c"], [b"", b"a", b"", b"b", b"c"]]
    with pytest.raises(tf.errors.UnimplementedError, match=r"strings.split: sep '::'"):
        tf.strings.split(["a::b"], "::")


def test_data_sets_by_their_later_methods(tmp_path):
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(name)
    paths = str(tmp_path / "*.txt")
    numbers = tf.data.Dataset.range(4).interleave(
        lambda n: tf.data.Dataset.from_tensors(n), 2, num_parallel_calls=tf.data.experimental.AUTOTUNE)
    numbers = numbers.prefetch(tf.data.AUTOTUNE).with_options(tf.data.Options())
    assert tf.data.get_output_types(numbers) is tf.int64 and tf.data.get_output_shapes(numbers) == []
    made = [tf.data.make_one_shot_iterator(data).get_next() for data in (
        numbers, tf.data.Dataset.list_files(paths), tf.data.Dataset.list_files(paths, shuffle=True, seed=1))]
    with tf.Session() as session:
        rows = [session.run(made) for _ in range(2)]
        assert session.run(made[0]) == 2
    assert [row[0] for row in rows] == [0, 1] and [row[1][-5:] for row in rows] == [b"a.txt", b"b.txt"]
    assert sorted(row[2] for row in rows) == [row[1] for row in rows]


def test_a_fold_over_a_list_is_one_over_its_rows():
    """OpenNMT-tf multiplies its inputs so."""
    with tf.Session() as session:
        parts = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]), tf.constant([5.0, 6.0])]
        assert session.run(tf.foldl(lambda a, x: a * x, parts)).tolist() == [15, 48]
        assert session.run(tf.foldr(lambda a, x: a - x, parts)).tolist() == [1, 0]


def test_sessions_of_the_debugger_are_imported_and_refused():
    from workbench.tf1.python.debug import DumpingDebugWrapperSession, LocalCLIDebugHook

    class Own(LocalCLIDebugHook):
        pass
    for kind in (DumpingDebugWrapperSession, Own):
        with pytest.raises(tf.errors.UnimplementedError, match=r"is not offered; use instead: add_check_numerics_ops"):
            kind(None)


def test_pools_of_sequences_by_a_number_or_a_list():
    x = tf.constant(np.arange(8.0).reshape(1, 8, 1))
    with tf.Session() as session:
        found = session.run([tf.nn.max_pool1d(x, 2, [2], "SAME"), tf.nn.avg_pool1d(tf.transpose(x, [0, 2, 1]), [1, 3, 1], 3,
                                                                                   "VALID", data_format="NCW")])
    assert found[0].ravel().tolist() == [1, 3, 5, 7] and found[1].tolist() == [[[1, 4]]]
