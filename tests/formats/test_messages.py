"""Protocol buffers: the classes, their bytes and text, and what damaged ones raise."""
from __future__ import annotations

import subprocess
import sys

import pytest

from workbench import errors
from workbench.formats import messages


def test_every_message_of_the_table_is_a_class():
    for name in messages.names():
        assert messages.message(name)().SerializeToString() == b""


def test_threads_that_come_first_together_make_one_set_of_classes():
    """As the workers of a cluster in one process do, each of which builds a graph."""
    program = """if True:
        import sys, threading
        from workbench.formats.messages import message
        sys.setswitchinterval(1e-6)
        ready, found = threading.Barrier(8), []
        def ask(name):
            ready.wait()
            found.append(message(name).DESCRIPTOR.file.pool)
        names = ["AttrValue", "NodeDef", "GraphDef", "TensorProto"] * 2
        threads = [threading.Thread(target=ask, args=[name]) for name in names]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len({id(pool) for pool in found}))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "1"


def test_numbers_are_those_of_tensorflow():
    node = messages.message("NodeDef")(name="n", op="Const", input=["a", "^b"])
    node.attr["T"].type = 1
    assert node.SerializeToString() == b"\n\x01n\x12\x05Const\x1a\x01a\x1a\x02^b*\x07\n\x01T\x12\x020\x01"
    assert "type: DT_FLOAT" in messages.text_of(node)
    assert messages.parse_text("NodeDef", messages.text_of(node), "node") == node


@pytest.mark.parametrize(("name", "text"), [
    ("NodeDef", "experimental_type { type_id: TFT_PRODUCT args { type_id: TFT_TENSOR args { type_id: TFT_BFLOAT16 } } }"),
    ("OpDef", "output_arg { experimental_full_type { type_id: TFT_MUTEX_LOCK } handle_data { dtype: DT_FLOAT } }"),
    ("OpDef", "deprecation { version: 26 explanation: 'x' } is_distributed_communication: true"),
    ("FunctionDef", "arg_attr { key: 0 value { attr { key: 'a' } } } resource_arg_unique_id { key: 1 value: 2 }"),
    ("MetaGraphDef", "meta_info_def { function_aliases { key: 'a' value: 'b' } }"),
])
def test_what_later_versions_write_as_text_is_read(name, text):
    message = messages.parse_text(name, text, "text")
    assert messages.message(name).FromString(message.SerializeToString()) == message


def test_damaged_bytes_and_text_are_one_error():
    with pytest.raises(errors.DataLossError, match=r"model: 3 bytes cannot be read as GraphDef \(.*\); get the file again"):
        messages.decode("GraphDef", b"\xff\xff\xff", "model")
    with pytest.raises(errors.DataLossError, match=r"model: the text cannot be read as GraphDef \(.*"):
        messages.parse_text("GraphDef", "node { nonsense: 1 }", "model")


def test_the_library_is_loaded_when_a_message_is_asked_for():
    text = "import sys, workbench, workbench.tf1 as tf; assert 'google.protobuf' not in sys.modules; tf.GraphDef()"
    subprocess.run([sys.executable, "-c", text], check=True)
