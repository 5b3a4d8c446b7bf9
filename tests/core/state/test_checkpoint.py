"""Checkpoints: everything comes back bit for bit, every damage is found, and no crash costs the previous one."""
from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import textwrap
import threading
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from workbench import errors
from workbench.core.state import checkpoint
from workbench.core.state.checkpoint import (
    Part,
    base_of,
    contents,
    latest,
    list_checkpoints,
    prune,
    publish,
    read,
    read_part,
    verify,
    write,
    write_shard,
)

SAMPLES = {
    "layer/weights:0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layer/bias": np.array([np.nan, -0.0, np.inf], np.float64),
    "half": np.array([1.5, -2], np.float16),
    "brain": np.array([[1.5], [-2]], ml_dtypes.bfloat16),
    "flags": np.array([True, False]),
    "step": np.array(2**40, np.int64),
    "none": np.zeros((0, 3), np.float32),
    "complex": np.array([1 + 2j], np.complex64),
    "wide complex": np.array([[1 + 2j, -3j]], np.complex128),
    "unicode Ω": np.array([-1], np.int8),
    **{f"all/{name}": np.array([1, 2], name) for name in ("uint8", "uint16", "uint32", "uint64", "int16", "int32")},
}
SMALL = {"a/w": np.arange(5, dtype=np.float32), "b": np.array([b"text", b""], object)}


def same(one, other):
    assert one.dtype == other.dtype and one.shape == other.shape
    assert one.tobytes() == other.tobytes() if one.dtype != object else one.tolist() == other.tolist()


def test_every_element_type_comes_back_bit_for_bit(tmp_path):
    path = write(tmp_path / "model.ckpt", 100, SAMPLES, {"seed": 7, "list": [1, None]})
    assert path == tmp_path / "model.ckpt-100"
    found = read(path)
    assert (found.step, found.meta, found.path) == (100, {"seed": 7, "list": [1, None]}, path)
    assert list(found.tensors) == list(SAMPLES)
    for name, array in SAMPLES.items():
        same(found.tensors[name], array)
    assert verify(path) == ""


def test_text_comes_back_as_bytes(tmp_path):
    words = np.array([["Grüße", b"\xff\x00"], ["", "x" * 1000]], object)
    tensors = {"o": words, "s": np.array([b"ab", b"c"]), "u": np.array("é"), "e": np.zeros((2, 0), object)}
    found = read(write(tmp_path / "t", 0, tensors)).tensors
    assert found["o"].tolist() == [["Grüße".encode(), b"\xff\x00"], [b"", b"x" * 1000]]
    assert found["s"].tolist() == [b"ab", b"c"] and found["u"].shape == () and found["u"].item() == "é".encode()
    assert found["e"].shape == (2, 0) and found["e"].dtype == object


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), hnp.arrays(
    st.sampled_from([np.float32, np.int16, np.bool_, np.dtype(">i4"), np.complex128]),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=4)), max_size=4))
def test_any_names_and_shapes(tmp_path_factory, tensors):
    found = read(write(tmp_path_factory.mktemp("c") / "x", 1, tensors)).tensors
    assert found.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape and found[name].dtype == array.dtype.newbyteorder("=")


def test_views_are_stored_by_value(tmp_path):
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    views = {"t": base.T, "reversed": base[::-1], "scalar": base[1, 1], "fortran": np.asfortranarray(base)}
    found = read(write(tmp_path / "x", 1, views)).tensors
    for name, view in views.items():
        np.testing.assert_array_equal(found[name], view)


def test_any_tool_can_read_the_shards(tmp_path):
    path = write(tmp_path / "x", 3, {"w": SAMPLES["layer/weights:0"], "b": SAMPLES["brain"]}, shards={"b": 1})
    first, second = sorted(tmp_path.glob("*.safetensors"), key=lambda p: p.name[-25:])
    same(load_file(first)["w"], SAMPLES["layer/weights:0"])
    same(load_file(second)["b"], SAMPLES["brain"])
    assert first.name.endswith("-00000-of-00002.safetensors")
    manifest = json.loads(Path(f"{path}.manifest.json").read_text())
    assert manifest["version"] == 1 and manifest["step"] == 3
    assert manifest["tensors"]["w"]["shape"] == [2, 3] and manifest["tensors"]["w"]["dtype"] == "float32"
    assert manifest["tensors"]["w"]["slices"][0]["crc32"] == f"{zlib.crc32(SAMPLES['layer/weights:0'].tobytes()):08x}"


def test_only_the_shards_asked_for_are_opened(tmp_path):
    path = write(tmp_path / "x", 3, {"a": np.ones(3), "b": np.zeros(3)}, shards={"a": 0, "b": 5})
    for shard in tmp_path.glob("*-00001-of-00002.safetensors"):
        shard.unlink()
    assert list(read(path, ["a"]).tensors) == ["a"]
    with pytest.raises(errors.DataLossError, match="is missing but its"):
        read(path, ["b"])


def test_parts_written_by_several_writers_become_whole_tensors(tmp_path):
    whole = np.arange(20, dtype=np.float32).reshape(5, 4)
    words = np.array(["a", "bc", "d"], object)
    halves = [{"w": Part(whole[:2], (0, 0), (5, 4)), "s": Part(words[:1], (0,), (3,))},
              {"w": Part(whole[2:], (2, 0), (5, 4)), "s": Part(words[1:], (1,), (3,))}]
    records = [write_shard(base_of(tmp_path / "p", 9), list(half.items()), i, 2) for i, half in enumerate(halves)]
    records = json.loads(json.dumps(records))        # they cross the wire as plain data
    assert latest(tmp_path) is None, "shards alone are no checkpoint"
    found = read(publish(base_of(tmp_path / "p", 9), 9, records)).tensors
    same(found["w"], whole)
    assert found["s"].tolist() == [b"a", b"bc", b"d"]


def test_any_block_of_a_tensor_is_read_from_the_parts_that_hold_some_of_it(tmp_path):
    whole, words = np.arange(60, dtype=np.float32).reshape(5, 4, 3), np.array(list("abcdefg"), object)
    cuts = [slice(0, 2), slice(2, 4), slice(4, 5)]
    records = [write_shard(base_of(tmp_path / "p", 9), [("w", Part(whole[cut], (cut.start, 0, 0), whole.shape)),
                                                        *([("s", words)] if i == 0 else [])], i, 3)
               for i, cut in enumerate(cuts)]
    path = publish(base_of(tmp_path / "p", 9), 9, records)
    assert contents(path).tensors == {"w": ("float32", (5, 4, 3)), "s": ("string", (7,))}
    for start, shape in [((0, 0, 0), (5, 4, 3)), ((1, 0, 0), (3, 4, 3)), ((2, 0, 0), (2, 4, 3)), ((3, 1, 1), (2, 2, 2)),
                         ((4, 3, 2), (1, 1, 1)), ((5, 0, 0), (0, 4, 3)), ((0, 0, 0), (0, 4, 3))]:
        same(read_part(path, "w", start, shape), whole[tuple(slice(a, a + n) for a, n in zip(start, shape))])
    assert read_part(path, "s", (2,), (3,)).tolist() == [b"c", b"d", b"e"]
    next(tmp_path.glob("*-00000-of-*.safetensors")).unlink()
    same(read_part(path, "w", (2, 0, 0), (3, 4, 3)), whole[2:])
    with pytest.raises(errors.DataLossError, match="is missing but its"):
        read_part(path, "w", (1, 0, 0), (2, 4, 3))
    with pytest.raises(errors.InvalidArgumentError, match=r"\[2, 4, 3\] at \[4, 0, 0\] is wanted of 'w', whose shape"):
        read_part(path, "w", (4, 0, 0), (2, 4, 3))


def test_a_damaged_byte_outside_the_block_is_found_too(tmp_path):
    path = write(tmp_path / "p", 1, {"w": np.arange(8.0)})
    shard, = tmp_path.glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    with pytest.raises(errors.DataLossError, match=r"tensor 'w' in .* has crc32"):
        read_part(path, "w", (0,), (2,))


def test_a_url_is_as_good_as_a_folder(tmp_path):
    """Memory stands for object stores: there is no rename, a file appears when it is complete."""
    folder = f"memory://{tmp_path.name}/run"
    assert latest(folder) is None
    for step in (1, 2, 3):
        path = write(f"{folder}/m", step, SAMPLES, shards={"half": 1})
    assert str(path) == f"{folder}/m-3" and str(latest(folder, verified=True)) == str(path)
    for name, array in SAMPLES.items():
        same(read(path).tensors[name], array)
    assert [str(p) for p in prune(folder, 2)] == [f"{folder}/m-1"]
    assert len(list(path.parent.iterdir())) == 2 * 3 + 1
    next(path.parent.glob("m-3.*-00001-*")).write_bytes(b"")
    assert str(latest(folder)) == f"{folder}/m-2"
    with pytest.raises(errors.DataLossError, match=f"the newest good checkpoint is {folder}/m-2$"):
        read(path)
    assert write(f"{folder}/", 4, SMALL).name == "ckpt-4"


def test_a_url_that_nothing_serves_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match=r"checkpoint: nobody://x/m cannot be reached .*; install what"):
        write("nobody://x/m", 1, SMALL)


def test_a_shard_that_the_publisher_does_not_see_is_no_damage(tmp_path):
    """Written on another machine, whose disk is its own."""
    record = write_shard(base_of(tmp_path / "there" / "m", 1), list(SMALL.items()))
    with pytest.raises(errors.FailedPreconditionError, match=r"00001.safetensors is missing .*: it was written a "
                       r"moment ago, and was removed since or is on another machine; .* must see one folder, so give a shared"):
        publish(base_of(tmp_path / "here" / "m", 1), 1, [record])


@pytest.mark.parametrize(("parts", "text"), [
    ([((0,), 2)], r"hold 2 elements but its shape \[4\] has 4"),
    ([((0,), 2), ((1,), 2)], r"overlap at \[1\] and \[0\]"),
    ([((0,), 2), ((3,), 2)], r"include \[2\] at \[3\], outside its shape \[4\]"),
])
def test_parts_must_tile_the_tensor(tmp_path, parts, text):
    records = [write_shard(base_of(tmp_path / "p", 1), [("w", Part(np.zeros(n), start, (4,)))], i, 2)
               for i, (start, n) in enumerate(parts)]
    with pytest.raises(errors.InvalidArgumentError, match=rf"p-1: the parts of tensor 'w' {text}; write each"):
        publish(base_of(tmp_path / "p", 1), 1, records)


def test_parts_must_agree(tmp_path):
    records = [write_shard(base_of(tmp_path / "p", 1), [("w", Part(np.zeros(2, t), (2 * i,), (4,)))], i, 2)
               for i, t in enumerate((np.float32, np.float64))]
    with pytest.raises(errors.InvalidArgumentError, match=r"is of float32\[4\], another of float64\[4\]; "):
        publish(base_of(tmp_path / "p", 1), 1, records)


def test_folder_prefixes_and_missing_steps(tmp_path):
    assert write(tmp_path, 5, SMALL) == tmp_path / "ckpt-5"
    assert write(f"{tmp_path}/new/", None, SMALL) == tmp_path / "new" / "ckpt"
    assert read(tmp_path).step == 5, "a folder means its newest checkpoint"
    assert read(tmp_path / "new" / "ckpt.manifest.json").step is None


# -- what cannot be written

def test_refused_input(tmp_path):
    for tensors, meta, text in [
        ({"x": np.array([{}], object)}, {}, "tensor 'x' is object but a checkpoint holds numbers and text"),
        ({"x": np.zeros(1, "datetime64[s]")}, {}, r"tensor 'x' is datetime64\[s\] but a checkpoint holds numbers"),
        ({"__metadata__": np.zeros(1)}, {}, "'__metadata__' but safetensors reserves that name; rename it"),
        (SMALL, {"x": {1, 2}}, "the meta data is not JSON .*set is not JSON serializable"),
        (SMALL, {"x": float("nan")}, "the meta data is not JSON"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            write(tmp_path / "x", 1, tensors, meta)
    with pytest.raises(errors.InvalidArgumentError, match="the step is -1 but steps count from 0"):
        write(tmp_path / "x", -1, SMALL)
    assert not list(tmp_path.iterdir()), "nothing stays behind"


def test_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.FailedPreconditionError, match=r"cannot be written .*; choose another folder"):
        write(tmp_path / "file" / "x", 1, SMALL)


FULL_DISK = """
    import resource, sys
    import numpy as np
    from workbench import errors
    from workbench.core.state.checkpoint import write
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        write(sys.argv[1], 2, {"a": np.zeros(1000), "w": np.zeros(1_000_000)}, shards={"w": 1})
    except errors.ResourceExhaustedError as problem:
        print(problem)
"""


def test_full_disk_is_said_and_costs_nothing(tmp_path):
    """A limit on file sizes stands for the full disk: the system refuses the write in the same way."""
    first = write(tmp_path / "x", 1, SMALL)
    before = sorted(tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path / "x")],
                          capture_output=True, text=True, timeout=60, check=True)
    assert "cannot be written, the disk is full" in done.stdout and "free some space" in done.stdout
    assert sorted(tmp_path.iterdir()) == before and verify(first) == ""


# -- what is damaged

def files_of(folder, base):
    return [path for path in sorted(folder.iterdir()) if path.name.startswith(base.name + ".")]


def test_every_flipped_byte_is_found_and_the_previous_one_used(tmp_path):
    good = write(tmp_path / "m", 1, SMALL)
    bad = write(tmp_path / "m", 2, SMALL, {"note": "hello"})
    checked = 0
    for path in files_of(tmp_path, bad):
        content = path.read_bytes()
        for position in range(len(content)):
            flipped = bytearray(content)
            flipped[position] ^= 1 << (position % 8)
            path.write_bytes(flipped)
            assert verify(bad), f"{path.name} byte {position}"
            checked += 1
        path.write_bytes(content[:-1])
        with pytest.raises(errors.DataLossError, match=f"the newest good checkpoint is {good}$"):
            read(bad)
        path.write_bytes(content)
    assert checked > 500 and verify(bad) == ""


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_truncation_is_found(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("c")
    good, bad = write(folder / "m", 1, SMALL), write(folder / "m", 2, SMALL)
    path = data.draw(st.sampled_from(files_of(folder, bad)))
    content = path.read_bytes()
    path.write_bytes(content[:data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(errors.DataLossError, match=f"the newest good checkpoint is {good}$"):
        read(bad)
    assert latest(folder) == latest(folder, verified=True) == good


def damage(folder, base, case):
    shard, manifest = sorted(files_of(folder, base), key=lambda p: p.suffix == ".json")
    content = shard.read_bytes()
    if case == "data":
        shard.write_bytes(content[:-1] + b"!")
    elif case == "header":
        shard.write_bytes(content.replace(b'"a/w"', b'"a/v"'))
    elif case == "longer":
        shard.write_bytes(content + b"!")
    elif case == "shard":
        shard.unlink()
    elif case == "shard garbage":
        shard.write_bytes(b"\xff" * len(content))
    elif case == "manifest garbage":
        manifest.write_bytes(b"<html>not found</html>")
    elif case == "manifest flipped":
        manifest.write_bytes(manifest.read_bytes().replace(b"float32", b"float64"))


DAMAGE = {
    "data": r"tensor 'b' in m-2\.\w+-00000-of-00001.safetensors has crc32 [0-9a-f]{8} but was written with "
            "[0-9a-f]{8}; the file is damaged",
    "header": r"shard m-2\S+ has a header of crc32 [0-9a-f]{8} but was written with [0-9a-f]{8}; the file is damaged",
    "longer": r"shard m-2\S+ has \d+ bytes but was written with \d+; the file is damaged",
    "shard": r"shard m-2\S+ is missing but its \d+ bytes belong to the checkpoint; copy it back",
    "shard garbage": r"shard m-2\S+ cannot be read \(its header says 18446744073709551615 bytes but \d+ follow\)",
    "manifest garbage": r"m-2.manifest.json starts with b'<html>not found</html>' but a manifest starts with",
    "manifest flipped": r"m-2.manifest.json has crc32 [0-9a-f]{8} but was written with [0-9a-f]{8}",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named_with_both_values(tmp_path, case, caplog):
    good = write(tmp_path / "m", 1, SMALL)
    bad = write(tmp_path / "m", 2, {"a/w": np.arange(5, dtype=np.float32), "b": np.ones(3, np.uint8)})
    damage(tmp_path, bad, case)
    text = rf"^checkpoint {bad}: {DAMAGE[case]}.*; the newest good checkpoint is {good}$"
    with pytest.raises(errors.DataLossError, match=text):
        read(bad)
    with caplog.at_level(logging.WARNING):
        assert latest(tmp_path, verified=True) == good
    assert "passing over a damaged checkpoint: checkpoint " in caplog.text
    damage(tmp_path, good, "shard")
    with pytest.raises(errors.DataLossError, match=f"no good checkpoint is left in {tmp_path}$"):
        read(bad)
    with pytest.raises(errors.NotFoundError, match=r"there is no good checkpoint in this folder; .* holds 'm-"):
        read(tmp_path)


def forge(base, **changes):
    """A manifest with a right checksum and wrong contents."""
    path = Path(f"{base}.manifest.json")
    body = json.loads(path.read_bytes())
    body.pop("crc32")
    body.update(changes)
    rest = json.dumps(body)[1:].encode()
    path.write_bytes(b'{"crc32": "%08x",\n' % zlib.crc32(rest) + rest)
    return body


def test_forged_manifests_reach_nothing_outside(tmp_path):
    bad = write(tmp_path / "m", 2, SMALL)
    body = forge(bad)
    tensors, shards = body["tensors"], body["shards"]
    piece = tensors["a/w"]["slices"][0]
    huge = {**tensors["a/w"], "shape": [2**62], "slices": [{**piece, "shape": [2**62]}]}
    for changes, text in [
        ({"version": 99}, "of version 99"), ({"format": "other"}, "it is 'other'"), ({"step": "x"}, "the wrong kind"),
        ({"shards": {"../../etc/passwd": {"nbytes": 1, "header_crc32": "0"}}}, "is not a shard's file name"),
        ({"shards": {}}, "more elements than the shards have bytes"), ({"tensors": []}, "list"),
        ({"tensors": {"w": huge}}, "'w' has more elements than the shards have bytes"),
        ({"shards": {k: {"nbytes": 1.5, "header_crc32": "0"} for k in shards}}, "lacks a size and a checksum"),
    ]:
        forge(bad, **{"tensors": tensors, "shards": shards, "version": 1, "step": 2, "format": "workbench checkpoint",
                      **changes})
        with pytest.raises(errors.DataLossError, match=f"does not follow format version 1 .*{text}"):
            read(bad)
    forge(bad, tensors={"a/w": {**tensors["a/w"], "dtype": "int64"}}, shards=shards)
    with pytest.raises(errors.DataLossError, match=r"is not int64\[5\] .*the manifest is damaged"):
        read(bad)


def test_missing_checkpoint_and_missing_name(tmp_path):
    path = write(tmp_path / "m", 2, SMALL)
    with pytest.raises(errors.NotFoundError, match=r"no m-3.manifest.json; .* holds 'm-2' \(.*Failed to find .*m-3\)$"):
        read(tmp_path / "m-3")
    with pytest.raises(errors.NotFoundError, match=r"m-2: Key zz not found in checkpoint, which holds 'a/w', 'b'; ask for one"):
        read(path, ["b", "zz"])
    with pytest.raises(errors.NotFoundError, match="holds no checkpoints; check the path"):
        read(tmp_path / "nowhere" / "m-3")
    assert latest(tmp_path / "nowhere") is None


# -- a folder of checkpoints

def test_order_is_that_of_publishing(tmp_path):
    for step in (300, 100, 200):
        write(tmp_path / "m", step, SMALL)
    assert [info.step for info in list_checkpoints(tmp_path)] == [300, 100, 200]
    assert latest(tmp_path) == tmp_path / "m-200"
    state = json.loads((tmp_path / "checkpoint").read_text())
    assert state == {"model_checkpoint_path": "m-200", "all_model_checkpoint_paths": ["m-300", "m-100", "m-200"]}


def test_prune_keeps_the_newest(tmp_path):
    for step in range(5):
        write(tmp_path / "m", step, SMALL)
        write(tmp_path / "other", step, SMALL)
    assert [path.name for path in prune(tmp_path, 2, "m")] == ["m-0", "m-1", "m-2"]
    left = [info.path.name for info in list_checkpoints(tmp_path)]
    assert left == ["other-0", "other-1", "other-2", "m-3", "other-3", "m-4", "other-4"]
    assert len(list(tmp_path.glob("m-*.safetensors"))) == 2
    assert prune(tmp_path, 2, "m") == prune(tmp_path, 0) == []
    with pytest.raises(errors.InvalidArgumentError, match="keep is -1 but must be 0"):
        prune(tmp_path, -1)


@pytest.mark.parametrize("case", DAMAGE)
def test_prune_never_deletes_the_newest_good_one(tmp_path, case):
    write(tmp_path / "m", 1, SMALL)
    good = write(tmp_path / "m", 2, SMALL)
    tensors = {"a/w": np.arange(5, dtype=np.float32), "b": np.ones(3, np.uint8)}
    for bad in [write(tmp_path / "m", step, tensors) for step in (3, 4)]:
        damage(tmp_path, bad, case)
    prune(tmp_path, 1)
    assert latest(tmp_path, verified=True) == good
    for name, array in read(good).tensors.items():
        same(array, SMALL[name])


def test_rewriting_a_step_replaces_it_and_leaves_nothing(tmp_path):
    write(tmp_path / "m", None, {"w": np.zeros(3)})
    path = write(tmp_path / "m", None, {"w": np.ones(3)})
    assert read(path).tensors["w"].tolist() == [1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 3, "manifest, shard and state"


def test_writers_of_one_process_take_turns(tmp_path):
    threads = [threading.Thread(target=write, args=(tmp_path / f"m{i}", 1, SMALL)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list_checkpoints(tmp_path)
    assert sorted(info.serial for info in found) == [1, 2, 3, 4, 5, 6] and not any(info.problem for info in found)


# -- a killed writer

WRITER = """
    import sys
    import numpy as np
    from workbench.core.state.checkpoint import write

    def observe(event):
        print(event, flush=True)
        sys.stdin.readline()          # until told to go on, or killed

    write(sys.argv[1], int(sys.argv[2]), {"w": np.full(1000, 2.0), "b": np.ones(3)}, shards={"b": 1}, observe=observe)
"""


def killed_writer(prefix, step, event, count=1):
    """Start a real process that writes a checkpoint and kill it at the `count`-th `event`."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(prefix), str(step)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        while True:
            heard = process.stdout.readline().strip()
            assert heard, "the writer ended before the event"
            count -= heard == event
            if not count:
                process.kill()
                break
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.wait(30) == -signal.SIGKILL


@pytest.mark.parametrize("step", [1, 2])       # 1 rewrites the existing checkpoint, 2 is a new one
@pytest.mark.parametrize(("event", "count"), [("shard written", 1), ("shard written", 2), ("manifest prepared", 1)])
def test_a_writer_killed_before_the_rename_costs_nothing(tmp_path, event, count, step):
    first = write(tmp_path / "m", 1, {"w": np.full(1000, 1.0), "b": np.zeros(3)}, shards={"b": 1})
    killed_writer(tmp_path / "m", step, event, count)
    assert [info.path for info in list_checkpoints(tmp_path)] == [first] and latest(tmp_path, verified=True) == first
    assert read(first).tensors["w"].tolist() == [1.0] * 1000
    write(tmp_path / "m", 3, SMALL)
    prune(tmp_path, 1)
    assert len(list(tmp_path.iterdir())) == 3, "the next writer sweeps up"


@pytest.mark.parametrize("step", [1, 2])
def test_a_writer_killed_after_the_rename_has_written(tmp_path, step):
    write(tmp_path / "m", 1, {"w": np.full(1000, 1.0), "b": np.zeros(3)}, shards={"b": 1})
    killed_writer(tmp_path / "m", step, "manifest published")
    assert latest(tmp_path, verified=True) == tmp_path / f"m-{step}"
    assert read(tmp_path / f"m-{step}").tensors["w"].tolist() == [2.0] * 1000
    write(tmp_path / "m", 3, SMALL)
    prune(tmp_path, 1)
    assert len(list(tmp_path.iterdir())) == 3


def test_failure_after_publishing_keeps_the_checkpoint(tmp_path, monkeypatch):
    """The state file for people may fail; the checkpoint is there all the same."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "in the way").touch()
    with pytest.raises(errors.FailedPreconditionError, match=r"checkpoint: .*/checkpoint cannot be written"):
        write(tmp_path / "m", 1, SMALL)
    assert verify(tmp_path / "m-1") == ""


def test_nothing_but_data_is_read(tmp_path):
    """No module that executes what it loads is even imported."""
    source = Path(checkpoint.__file__).read_text()
    assert "pickle" not in source and "eval(" not in source and "exec(" not in source
