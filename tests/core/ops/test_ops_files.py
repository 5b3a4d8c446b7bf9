"""Files and text as operations: readers over queues of names, CSV, numbers; in sessions, with their errors."""
from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.state import tfrecord as records
from workbench.core.state.readers import KINDS, Reader

pytestmark = pytest.mark.usefixtures("graph")


def fails(kind, text, fetches):
    with pytest.raises(kind) as caught:
        run(fetches)
    assert caught.value.message.splitlines()[0] == text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"head\none\r\n\n")
    (tmp_path / "b.txt").write_bytes(b"head\ntwo")
    (tmp_path / "empty.txt").write_bytes(b"")
    return tmp_path


# whole files

def test_files_are_read_written_and_found(folder: Path):
    assert run(ops.read_file(str(folder / "b.txt"))) == b"head\ntwo"
    with wb.Session() as session:
        session.run(ops.write_file(str(folder / "new" / "c.txt"), "ü"))
    assert (folder / "new" / "c.txt").read_text(encoding="utf-8") == "ü"
    found = run(ops.matching_files([str(folder / "b*"), str(folder / "a*")]))
    assert [os.path.basename(path) for path in found] == [b"a.txt", b"b.txt"]
    assert run(ops.matching_files(str(folder / "x*"))).shape == (0,)


def test_a_missing_file_is_named():
    fails(errors.NotFoundError, "read_file: '/no/such' cannot be read (No such file or directory); check the path",
          ops.read_file("/no/such"))


# readers

def read_all(reader, names, most=None):
    """Every (key, value) of the files, by a queue that is filled and closed."""
    queue = wb.FIFOQueue(10, wb.string, [()])
    step = ops.reader_read(reader.reader_ref, queue.queue_ref) if most is None else reader.read_up_to(queue, most)
    found = []
    with wb.Session() as session:
        session.run(queue.enqueue_many([[os.fspath(n) for n in names]]))
        session.run(queue.close())
        with pytest.raises(errors.OutOfRangeError):
            while True:
                found.append(tuple(part if isinstance(part, bytes) else part.tolist() for part in session.run(step)))
        counts = session.run([reader.num_records_produced(), reader.num_work_units_completed()])
    return found, [int(c) for c in counts]


def test_lines_of_several_files(folder: Path):
    reader = wb.TextLineReader(skip_header_lines=1)
    found, counts = read_all(reader, [folder / "a.txt", folder / "empty.txt", folder / "b.txt"])
    assert [value for _, value in found] == [b"one", b"", b"two"] and counts == [3, 3]
    assert found[0][0] == os.fsencode(folder / "a.txt") + b":2"


def test_several_records_at_once_across_files(folder: Path):
    found, _ = read_all(wb.TextLineReader(), [folder / "a.txt", folder / "b.txt"], most=4)
    assert [values for _, values in found] == [[b"head", b"one", b"", b"head"], [b"two"]]


def test_whole_files_and_fixed_records(folder: Path):
    found, _ = read_all(wb.WholeFileReader(), [folder / "b.txt"])
    assert found == [(os.fsencode(folder / "b.txt"), b"head\ntwo")]
    (folder / "c.bin").write_bytes(b"HHabcdefF")
    found, _ = read_all(wb.FixedLengthRecordReader(2, header_bytes=2, footer_bytes=1), [folder / "c.bin"])
    assert [value for _, value in found] == [b"ab", b"cd", b"ef"] and found[2][0].endswith(b"c.bin:2")
    found, _ = read_all(wb.FixedLengthRecordReader(3, 2, hop_bytes=1), [folder / "c.bin"])
    assert [value for _, value in found] == [b"abc", b"bcd", b"cde", b"def", b"efF"]


def test_records_of_tfrecord_files(folder: Path):
    (folder / "r").write_bytes(records.frame(b"one") + records.frame(b"two"))
    found, _ = read_all(wb.TFRecordReader(), [folder / "r"])
    assert [value for _, value in found] == [b"one", b"two"] and found[1][0].endswith(b"r:19")


def test_a_reader_waits_for_names_and_survives_a_missing_file(folder: Path):
    queue = wb.FIFOQueue(10, wb.string, [()])
    reader = wb.TextLineReader()
    _, value = reader.read(queue)
    name = wb.placeholder(wb.string, [])
    add = queue.enqueue(name)
    with wb.Session() as session:
        session.run(add, {name: "/no/such"})
        with pytest.raises(errors.NotFoundError, match=re.escape("'/no/such' cannot be read")):
            session.run(value)
        session.run(add, {name: str(folder / "b.txt")})
        assert session.run(value) == b"head"
        session.run(reader.reset())
        session.run(add, {name: str(folder / "a.txt")})
        assert [session.run(value) for _ in range(2)] == [b"head", b"one"]


def test_readers_say_what_they_cannot_be():
    with pytest.raises(errors.InvalidArgumentError, match=re.escape("record, header, footer and hop bytes are (0, 0, 0, 0)")):
        wb.FixedLengthRecordReader(0)
    queue = wb.ConditionalAccumulator(wb.float32)
    fails(errors.InvalidArgumentError, "reader 'TextLineReader': it reads names from a queue, not from a Accumulator; pass a "
                                       "queue of strings", wb.TextLineReader().read(queue.accumulator_ref)[1])


def test_a_reader_is_a_plain_store(folder: Path):
    reader = Reader("r", "line", (0,))
    assert reader.take() is None and set(KINDS) == {"line", "whole", "fixed", "framed", "name"}
    reader.open(os.fsencode(folder / "b.txt"))
    reader.open(os.fsencode(folder / "a.txt"))
    assert [reader.take()[1] for _ in range(3)] == [b"head", b"two", b"head"]
    reader.close()
    assert reader.take() is None and reader.produced == 0


# text

def test_strings_stay_strings_however_they_are_cut():
    """One string of a vector is plain bytes to NumPy, which would drop the zeros at its end."""
    p, i = wb.placeholder(wb.string, [2]), wb.placeholder(wb.int32, [])
    wanted = np.array([b"a", b"b\0\0"], object)
    cuts = [wb.gather(p, i), p[1], p[i], wb.unstack(p)[1], wb.cond(i > 0, lambda: p[1], lambda: p[0]),
            wb.map_fn(lambda s: wb.identity(wb.expand_dims(s, 0)), p)[1, 0], wb.stack([p[0], p[1]])[1],
            wb.decode_raw(p[i], wb.uint8), wb.string_join([p[1], wb.zeros_like(p)[0]])]
    *found, raw, joined = run(cuts, {p: wanted, i: 1})
    assert [*found, joined] == [b"b\0\0"] * 8
    assert raw.tolist() == [98, 0, 0]


def test_bytes_as_numbers():
    assert run(ops.decode_raw([b"\1\0\2\0", b"\3\0\4\0"], wb.int16)).tolist() == [[1, 2], [3, 4]]
    assert run(ops.decode_raw(b"\0\1", wb.int16, little_endian=False)).tolist() == [1]
    assert ops.decode_raw(b"\0\1", wb.uint8).shape == [None]
    fails(errors.InvalidArgumentError, "decode_raw: the strings have 3 bytes; all must have one length that 2 (of int16) "
                                       "divides (Input to DecodeRaw has length 3 that is not a multiple of 2, the size of "
                                       "int16)", ops.decode_raw(b"abc", wb.int16))


def test_numbers_as_text_and_back():
    assert run(ops.string_to_number([" 1", "2.5e1"])).tolist() == [1, 25]
    assert run(ops.string_to_number("-7", wb.int64)).item() == -7
    assert run(ops.as_string([1.5, -2.0])).tolist() == [b"1.500000", b"-2.000000"]
    assert run(ops.as_string([1.5, -2.0], precision=1, width=6)).tolist() == [b"   1.5", b"  -2.0"]
    assert run([ops.as_string([0.25], shortest=True), ops.as_string([7], width=3, fill="0"),
                ops.as_string([150.0], scientific=True, precision=2)]) == [b"0.25", b"007", b"1.50e+02"]
    assert run([ops.as_string([3]), ops.as_string([True, False])])[1].tolist() == [b"true", b"false"]
    fails(errors.InvalidArgumentError, "string_to_number: 'x1' is not a valid float32; correct the text "
          "(StringToNumberOp could not correctly convert string: x1)",
          ops.string_to_number("x1"))


def test_joining_and_splitting():
    assert run(ops.string_join([["a", "b"], ["c", "d"]], separator="-")).tolist() == [b"a-c", b"b-d"]
    assert run(ops.string_join([["a", "b"], "!"])).tolist() == [b"a!", b"b!"]
    found = run(wb.string_split(["a b", "", "c,d  e"], delimiter=" ,"))
    assert found.values.tolist() == [b"a", b"b", b"c", b"d", b"e"] and found.dense_shape.tolist() == [3, 3]
    assert found.indices.tolist() == [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]
    assert run(wb.string_split(["ab"], delimiter="")).values.tolist() == [b"a", b"b"]
    assert run(wb.string_split(["", "a  b"], skip_empty=False)).values.tolist() == [b"a", b"", b"b"]


def test_strings_are_added_end_to_end():
    names = wb.constant(["a", "b"])
    assert run("data/" + names).tolist() == [b"data/a", b"data/b"]
    assert run(names + ".png").tolist() == [b"a.png", b"b.png"]
    assert run(wb.add("x", "y")) == b"xy"
    assert run(wb.reshape(names, [2, 1]) + wb.constant(["-", "+", ""])).tolist() == [[b"a-", b"a+", b"a"], [b"b-", b"b+", b"b"]]
    assert [value.tolist() for value in run([names + names[::-1], names[::-1] + names])] == [[b"ab", b"ba"], [b"ba", b"ab"]]
    with pytest.raises(errors.DtypeError, match="string is needed"):
        names + wb.constant(1)


def test_csv_has_types_defaults_and_quotes():
    lines = np.array([b'1,2.5,"a,""b"""', b",,"], object)
    whole, real, text = run(ops.decode_csv(lines, [[7], [0.5], ["-"]]))
    assert (whole.tolist(), real.tolist(), text.tolist()) == ([1, 7], [2.5, 0.5], [b'a,"b"', b"-"])
    assert whole.dtype == np.int32 and real.dtype == np.float32
    assert run(ops.decode_csv("NA;4", [[1], [2]], field_delim=";", na_value="NA"))[0] == 1
    assert run(ops.decode_csv("5", [[0]]))[0].item() == 5


@pytest.mark.parametrize(("line", "defaults", "text"), [
    ("1,2,3", [[0], [0]], "decode_csv: record 0 has 3 fields but there are 2 defaults; give one for each (Expect 2 fields but "
                                "have 3 in record 0)"),
    (",2", [np.zeros(0, np.int32), [0]], "decode_csv: Field 0 is required but missing in record 0! Fill it in, or give a "
                                         "default"),
    ("x,2", [[0], [0]], "decode_csv: Field 0 in record 0 is not a valid int32: x; correct the text"),
    ('"a,2', [[""], [0]], "decode_csv: record 0 is '\"a,2' (unexpected end of data); mend its quotes (Quoted field has to "
                              "end with quote followed by a delimiter or the end)")])
def test_csv_says_what_is_wrong(line, defaults, text):
    fails(errors.InvalidArgumentError, text, ops.decode_csv(line, defaults))


def test_strings_that_are_added_broadcast_and_those_that_are_joined_do_not():
    assert run(wb.add(["a", "b"], ["!"])).tolist() == [b"a!", b"b!"]
    with pytest.raises(errors.ShapeError, match="string_join: inputs"):
        ops.string_join([["a", "b", "c"], ["d"]])
