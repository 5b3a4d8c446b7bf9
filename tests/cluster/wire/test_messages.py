"""Every message survives the wire; everything else is refused by name."""
from __future__ import annotations

import random
import struct

import ml_dtypes
import msgpack
import numpy as np
import pytest

from workbench import errors
from workbench.cluster.wire import messages as m
from workbench.cluster.wire.frames import (
    DTYPES,
    HEADER,
    MAGIC,
    VERSION,
    Dropped,
    Frame,
    Header,
    as_last,
    largest_dropped,
    parse_header,
)
from workbench.core.trace import Span

SPAN = Span("op", "dense/MatMul", "/job:ps/task:0", "/job:ps/task:0/device:CPU:0", 1, 0.5, 0.75, 3, "k", 12, "MatMul")

EXAMPLES = [
    m.OpenTask("/job:ps/task:0", "graph", {"/job:ps/task:0": "tcp://127.0.0.1:1"}, False, 10.0, 30.0),
    m.Opened("/job:ps/task:0", 4711), m.Registered("h"),
    m.RegisterPartition("h", b"\x00program", {"/job:worker/task:0": ""}, {"/job:ps/task:0": ""}),
    m.Refused("ShapeError", "a: 3 but 2; fix", ""), m.Abort("CancelledError", "stopped"),
    m.Failed("OutOfRangeError", "queue: empty; stop", "", True, ""), m.Ended(), m.LinkLost("/job:ps/task:0", "EOF"),
    m.Unregister(("h", "g")), m.Reset(("", "a")), m.WasReset(), m.StatusRequest(True), m.Status({"active": "[3]"}),
    m.ClockProbe(1.25),
    m.ClockReply(1.25, 1.5, 1.75, "in add"), m.SpanBatch(2, 1.5, (SPAN, SPAN)), m.Close(), m.Close(False), m.BeginAnew(),
    m.Leaving("it stops"), m.Through(("/job:ps/task:0", "/job:worker/task:0")),
    m.RunStep("h", (), 1, {}), m.RunStep("h", (), 1, {}, relay=("/job:worker/task:0",)),
    m.RunStep("h", (), 1, {}, "/job:worker/task:0", 5, 2), m.Last("k", True, None),
]


def frame_of(message, session=7, epoch=1, step=3):
    raw = b"".join(bytes(part) for part in m.encode(message, session, epoch, step))
    header = parse_header(raw)
    assert len(raw) == HEADER.size + header.meta + header.data
    body = raw[HEADER.size:]
    return Frame(header, body[:header.meta], bytearray(body[header.meta:]) if header.data else None)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_message_survives(message):
    frame = frame_of(message)
    assert m.decode(frame) == message
    assert (frame.header.session, frame.header.epoch, frame.header.step) == (7, 1, 3)


ARRAYS = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES.values()] + [
    np.float32(3.5), np.empty((0, 4), np.int8), np.zeros((3, 0), ml_dtypes.bfloat16), np.arange(12)[::3],
    np.asfortranarray(np.arange(6.).reshape(2, 3)), np.arange(40_000, dtype=np.float64)]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays_survive(array):
    got = m.decode(frame_of(m.Tensor("k", False, array))).value
    assert got.dtype == array.dtype and got.shape == array.shape and got.tobytes() == array.tobytes()
    both = m.decode(frame_of(m.RunStep("h", (1, 2), 0, {"x": array, "y": np.int8(1)}))).feeds
    assert both["x"].tobytes() == array.tobytes() and both["y"] == 1
    assert m.decode(frame_of(m.Done(0.5, [array, None]))).fetches[0].shape == array.shape


def test_an_order_that_comes_again_is_neither_packed_nor_read_anew():
    """Of a number that differs alone, and of nothing else: each is what it says."""
    orders = [m.RunStep(handle, (), trace, {}, relay=relay) for handle in ("again", "other") for trace in (0, 2)
              for relay in ((), ("/job:worker/task:0",))]
    frames = [frame_of(order, step=step) for step in (3, 4) for order in orders]
    assert [frame.header.step for frame in frames] == [3] * 8 + [4] * 8
    read = [m.decode(frame) for frame in frames]
    assert read == orders * 2 and all(first is again for first, again in zip(read[:8], read[8:]))
    assert frame_of(orders[0], session=8, epoch=2).header[2:4] == (8, 2)


def test_received_arrays_may_be_written():
    m.decode(frame_of(m.Tensor("k", False, np.zeros(3)))).value[:] = 1


def test_strings_and_foreign_byte_order_survive():
    words = np.array([[b"", b"abc"], ["täg".encode(), b"\x00" * 300]], object)
    got = m.decode(frame_of(m.Tensor("k", False, words))).value
    assert got.tolist() == words.tolist() and got.dtype == object
    assert m.decode(frame_of(m.Tensor("k", False, np.arange(3).astype(">i4")))).value.tolist() == [0, 1, 2]
    assert m.decode(frame_of(m.Tensor("k", False, np.array(["ä", "b"])))).value.tolist() == ["ä".encode(), b"b"]


def test_dead_and_valueless_tokens():
    assert m.decode(frame_of(m.Tensor("k|ä", True, None))) == m.Tensor("k|ä", True, None)
    assert m.decode(frame_of(m.Tensor("k", False, None))) == m.Tensor("k", False, None)


@pytest.mark.parametrize("array", [np.ones([3, 2], np.float32), np.array([b"a", b"bcd"], object)], ids=["numbers", "strings"])
def test_arrays_of_a_payload_that_was_dropped_are_known_by_their_sizes(array):
    def decoded(message):
        frame = frame_of(message)
        return m.decode(frame._replace(data=Dropped(frame.header.data)))
    size = 24 if array.dtype == np.float32 else 12
    assert decoded(m.Tensor("k", False, array)).value.nbytes == size
    feeds = decoded(m.RunStep("h", (), 0, {"small": np.ones(1), "large": array})).feeds
    assert [(type(fed), fed.nbytes) for fed in feeds.values()] == [(Dropped, 8), (Dropped, size)]
    assert largest_dropped(feeds.values()) == (1, feeds["large"]) and largest_dropped([array, None]) is None


def test_strings_that_do_not_fit_into_memory_are_dropped(monkeypatch):
    """As objects they take several times the bytes that came."""
    def full(*args):
        raise MemoryError
    frame = frame_of(m.Tensor("k", False, np.array([b"a", b"bcd"], object)))
    monkeypatch.setattr(np, "empty", full)
    assert m.decode(frame).value.nbytes == 12


def test_objects_do_not_travel():
    with pytest.raises(errors.DtypeError, match="k: object objects do not travel between tasks"):
        m.encode(m.Tensor("k", False, np.array([object()], object)), 7)
    with pytest.raises(errors.DtypeError, match=r"datetime64\[s\] does not travel between tasks; send one of bool"):
        m.encode(m.Tensor("k", False, np.array(["2020-01-01"], "datetime64[s]")), 7)


@pytest.mark.parametrize("shape", [(0,), (2, 0), ()], ids=str)
def test_empty_arrays_need_no_payload(shape):
    """A feed of nothing but an empty batch, of strings too, comes with no data at all."""
    for array in (np.full(shape, b"", object), np.empty(shape, np.float32)):
        got = m.decode(frame_of(m.RunStep("h", (1, 2), 0, {"x": array}))).feeds["x"]
        assert got.shape == shape and got.dtype == array.dtype
        assert m.decode(frame_of(m.Done(0.5, [array]))).fetches[0].shape == shape


def test_what_no_receiver_takes_is_refused_by_the_sender():
    """The receiver would take it for damage and drop the connection, and with it the session."""
    deep = np.zeros((1,) * 33)
    for message in (m.Tensor("k", False, deep), m.Done(0.5, [deep])):
        with pytest.raises(errors.ShapeError, match="an array of rank 33 does not travel between tasks, at most 32 do"):
            m.encode(message, 7)
    with pytest.raises(errors.DtypeError, match=r"k: '\\ud800' is not text \(surrogates not allowed\); send bytes"):
        m.encode(m.Tensor("k", False, np.array(["\ud800"], object)), 7)
    with pytest.raises(errors.ResourceExhaustedError, match=r"RegisterPartition\.program: it has 268435457 bytes, at most "
                                                            "268435456 travel; feed large arrays"):
        m.encode(m.RegisterPartition("h", bytes((1 << 28) + 1), {}, {}), 7)


def test_only_a_tensor_of_the_step_says_that_its_task_is_through():
    (tensor,), (order,) = m.encode(m.Tensor("k", False, np.ones(3)), 7, 1, 3), m.encode(m.RunStep("h", (), 1, {}), 7, 1, 3)
    last = as_last(tensor, 3)
    assert last == m.encode(m.Last("k", False, np.ones(3)), 7, 1, 3)[0] and len(last) == len(tensor)
    assert as_last(tensor, 4) is as_last(order, 3) is as_last(last, 3) is None


def test_large_values_are_sent_from_their_own_memory():
    array = np.zeros(100_000, np.float32)
    head, data = m.encode(m.Tensor("k", False, array), 7)
    assert len(head) < 100 and np.shares_memory(np.frombuffer(data, np.uint8), array)


def header(**changes):
    fields = {"magic": MAGIC, "version": VERSION, "kind": 6, "flags": 0, "session": 7, "epoch": 1, "meta": 0, "step": 3,
              "data": 0}
    return HEADER.pack(*{**fields, **changes}.values())


@pytest.mark.parametrize("changes, text", [
    ({"magic": b"GET "}, r"magic is b'GET ', expected b'WBx\\n'; the peer does not speak workbench"),
    ({"version": 9}, "version is 9, expected 2; install the same workbench everywhere"),
    ({"meta": 1 << 30}, "meta is 1073741824 bytes, at most 16777216"),
    ({"data": 1 << 60}, "data is 1152921504606846976 bytes, at most"),
])
def test_bad_headers(changes, text):
    with pytest.raises(errors.DataLossError, match=text):
        parse_header(header(**changes))


def test_texts_that_many_spans_have_in_common_are_kept_once():
    """Not their messages, which two have."""
    rows = [["recv", "w:0", "/job:worker/task:1", "/job:worker/task:1/device:CPU:0", 3, 1.0, 2.0, step,
             f"{step}|w:0|a|b|", 8, "late", "session_0_1", 1, 0.0, 0.0] for step in range(2)]
    first, second = m.decode(control([0, 1.5, rows], m.SpanBatch)).spans
    assert first == (*rows[0],) and second == (*rows[1],)
    for name in ("kind", "name", "task", "device", "detail", "executable"):
        assert getattr(first, name) is getattr(second, name), name


def control(body, kind=m.RunStep, data=None):
    meta = msgpack.packb(body)
    return Frame(Header(kind.kind, 0, 7, 1, len(meta), 3, len(data or b"")), meta, data)


def order(*fields, data=None):
    """As RunStep, which nobody tries again."""
    return control([*fields, "", 0, 0, []], data=data)


@pytest.mark.parametrize("frame, text", [
    (Frame(Header(99, 0, 7, 1, 0, 3, 0), b"", None), "kind is 99, expected 1 to 25"),
    (Frame(Header(6, 0, 7, 1, 3, 3, 0), b"\xc1\xff\x00", None), "RunStep: .* in a body of 3 bytes"),
    (control({"handle": "h"}), "RunStep: body has dict fields, expected 8"),
    (control(["h", 1]), "RunStep: body has 2 fields, expected 8"),
    (order(17, [1], 0, []), "RunStep.handle: got 17, expected text of at most 512 characters"),
    (order("h", [-1], 0, []), r"RunStep.live: got \[-1\], expected list of integer between 0"),
    (order("h", [True], 0, []), r"RunStep.live: got \[True\], expected list of integer"),
    (order("h", 7, 0, []), "RunStep.live: got 7, expected list of integer"),
    (order("h", [1], 4, []), "RunStep.trace: got 4, expected integer between 0 and 3"),
    (order("h", [1], 0, [["x", ["float32", [3], 12]]]), "RunStep.feeds x: 12 bytes at 0 go beyond the 0 that were sent"),
    (order("h", [1], 0, [["x", ["float99", [3], 12]]], data=bytes(64)), "dtype is 'float99', expected one of bool"),
    (order("h", [1], 0, [["x", ["float32", [4], 12]]], data=bytes(64)), r"float32 of shape \[4\] takes 16 bytes but 12"),
    (order("h", [1], 0, [["x", ["float32", [-1], 12]]], data=bytes(64)), "expected array description"),
    (order("h", [1], 0, [["x", ["string", [2], 6]]], data=b"\x01\0\0\0a" + bytes(59)), "string 1 of 2 ends at byte"),
    (order("h", [1], 0, [], data=bytes(64)), "RunStep: uses 0 payload bytes of 64"),
    (control([float("nan")], m.ClockProbe), "ClockProbe.sent: got nan, expected finite number"),
    (control([0, 1.5, [["op", 1]]], m.SpanBatch), r"SpanBatch.spans: got \['op', 1\], expected trace span"),
    (Frame(Header(24, 1, 7, 1, 1, 3, 4), b"t", bytearray(4)), "Through: got 4 bytes besides the tasks, expected none"),
    (Frame(Header(24, 0, 7, 1, 0, 3, 0), b"", None), "Through.tasks: got 1 names for 0 tasks"),
    (Frame(Header(24, 1, 7, 1, 0, 3, 0), b"", None), "Through.tasks: got 1 names for 1 tasks"),
    (Frame(Header(24, 100, 7, 1, 1, 3, 0), b"t", None), "Through.tasks: got 1 names for 100 tasks"),
    (Frame(Header(24, 2, 7, 1, 3, 3, 0), b"t\nt", None), "Through.tasks: got 1 names for 2 tasks"),
    (Frame(Header(24, 1, 7, 1, 1, 3, 0), b"\xff", None), "Through.tasks: 'utf-8' codec"),
    (Frame(Header(24, 1, 7, 1, 513, 3, 0), b"t" * 513, None), "Through.tasks: a name has 513 characters, at most"),
    (Frame(Header(10, 2, 7, 1, 1, 3, 4), b"k", bytearray(4)), "Tensor k: 4 bytes came with a valueless token"),
    (Frame(Header(10, 63 << 2, 7, 1, 1, 3, 0), b"k", None), "rank 63"),
    (Frame(Header(10, 200 << 8, 7, 1, 1, 3, 0), b"k", None), "dtype code 200 in 1 bytes"),
    (Frame(Header(10, 2, 7, 1, 1, 3, 0), b"\xff", None), "Tensor.edge: 'utf-8' codec"),
    (Frame(Header(10, 2 << 2 | 10 << 8, 7, 1, 17, 3, 0), struct.pack("<2Q", 0, 2**63) + b"k", None),
     r"k: shape \[0, 9223372036854775808\] has more elements than the"),
    (Frame(Header(10, 2 << 2 | 15 << 8, 7, 1, 17, 3, 0), struct.pack("<2Q", 0, 2**63) + b"k", None), "has more elements than"),
    (order("h", [1], 0, [["x", ["float32", [0, 2**47, 2**47], 0]]]), "RunStep.feeds x: shape .* has more elements than"),
])
def test_bad_bodies_are_refused_by_name(frame, text):
    with pytest.raises(errors.DataLossError, match=text):
        m.decode(frame)


def test_random_damage_never_gets_further_than_an_error():
    random.seed(1)
    arrays = m.RunStep("h", (1, 2), 0, {"x": np.ones(3)}), m.Tensor("k", False, np.ones(3))
    frames = [frame_of(message) for message in (*EXAMPLES, *arrays)]
    refused = 0
    for _ in range(3000):
        frame = random.choice(frames)
        raw = bytearray(frame.meta) or bytearray(1)
        for _ in range(random.randint(1, 4)):
            raw[random.randrange(len(raw))] = random.randrange(256)
        try:
            m.decode(Frame(frame.header, bytes(raw), frame.data))
        except errors.DataLossError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("kind", [m.RunStep.kind, m.Done.kind, m.RegisterPartition.kind])
def test_no_body_is_long(kind):
    """A small map unpacks to seventy times its bytes: the bound on what a stranger makes us hold is the bound of a body."""
    with pytest.raises(errors.DataLossError, match=f"meta is {17 << 20} bytes, at most {16 << 20} are allowed"):
        parse_header(HEADER.pack(MAGIC, VERSION, kind, 0, 7, 1, 17 << 20, 3, 0))


def test_a_program_travels_beside_its_body_and_may_be_dropped():
    program = bytes(range(256)) * 300
    head, *parts = m.encode(m.RegisterPartition("h", program, {}, {}), 7)
    header = parse_header(head)
    frame = Frame(header, head[HEADER.size:], b"".join(parts))
    assert header.meta < 20 and m.decode(frame).program == program
    dropped = m.decode(frame._replace(data=Dropped(header.data))).program
    assert type(dropped) is Dropped and len(dropped) == len(program)
    damaged = frame._replace(header=header._replace(data=100), data=program[:100])
    with pytest.raises(errors.DataLossError, match=r"RegisterPartition\.program: 76800 bytes at 0 go beyond the 100 that were"):
        m.decode(damaged)
