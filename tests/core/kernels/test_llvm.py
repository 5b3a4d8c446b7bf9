"""Compiled kernels across processes, machines and accidents: compiled once, loaded after, never trusted blindly."""
from __future__ import annotations

import ast
import ctypes
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.interrupts import every_interrupt
from workbench.core.graph.opdef import registry
from workbench.core.kernels import llvm
from workbench.core.kernels.cache import Cache
from workbench.core.kernels.choice import Spec
from workbench.core.kernels.entry import OBJECT
from workbench.core.kernels.fused_rows import softmax_steps
from workbench.core.kernels.language import library_source
from workbench.core.kernels.llvm import Program, bind, load
from workbench.core.kernels.llvm_fused import kernel_source, make_kernel
from workbench.settings import settings

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _both_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about libraries that are there, whatever this run of the tests may use."""
    monkeypatch.setattr(settings, "libraries", ("onednn", "llvm"))
    monkeypatch.delenv("WB_LIBRARIES", raising=False)

SOURCE = "def kernel(x: floats32, y: floats32, n: int64):\n    for i in independent(n):\n        y[i] = x[i] + {}.0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(settings, "cache", tmp_path / "kernels")
    monkeypatch.setattr(llvm, "_addresses", {})
    return tmp_path / "kernels"


def forget() -> None:
    """As in a new process: nothing loaded yet."""
    llvm._addresses.clear()


def added(number: int) -> float:
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    bind(Program((SOURCE.format(number),), "kernel"), (5,), False)(x, y)
    assert (y == y[0]).all()
    return float(y[0])


def test_all_that_the_interpreter_reads_of_a_kernel_lives_as_long_as_the_kernel():
    """The garbage collector follows a built-in function to its definition, whatever else is forgotten."""
    kernel = bind(Program((SOURCE.format(5),), "kernel"), (5,), False)
    definition = ctypes.c_void_p.from_address(id(kernel) + OBJECT).value
    block = kernel.__self__
    assert block.ctypes.data < definition < block.ctypes.data + block.nbytes
    assert kernel.__name__ == "kernel" and kernel.__doc__ is None


def test_machine_code_is_compiled_once_and_then_loaded(folder):
    before = llvm.compiled
    assert added(41) == 42 and llvm.compiled == before + 1
    forget()
    assert added(41) == 42 and llvm.compiled == before + 1
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"workbench kernel 1\n", b"\x7fELF nonsense"])
def test_a_damaged_entry_is_compiled_anew(folder, damage):
    assert added(10) == 11
    forget()
    [entry] = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage)
    before = llvm.compiled
    assert added(10) == 11 and llvm.compiled == before + 1
    assert entry.read_bytes() == whole


def test_what_carries_a_true_checksum_but_no_code_is_compiled_anew(folder):
    """A file that was written whole by something else: the linker refuses it, and the entry is replaced."""
    assert added(12) == 13
    forget()
    [entry] = folder.iterdir()
    Cache(folder, 1 << 20).put(entry.stem, b"no object file")
    before = llvm.compiled
    assert added(12) == 13 and llvm.compiled == before + 1
    forget()
    assert added(12) == 13 and llvm.compiled == before + 1


@pytest.mark.parametrize("part", ["cpu", "features", "version", "own text"])
def test_the_key_holds_everything_that_decides_the_code(part, monkeypatch):
    machine, program = llvm.machine(), Program((SOURCE.format(1),), "kernel")
    parts = machine.identity.split("\0")
    index = {"own text": 0, "version": 1, "cpu": 4, "features": 5}[part]
    key = machine.key(program)
    monkeypatch.setattr(machine, "identity", "\0".join([*parts[:index], parts[index] + "!", *parts[index + 1:]]))
    assert machine.key(program) != key
    assert len({machine.key(p) for p in (program, Program((SOURCE.format(2),), "kernel"),
                                         Program(program.sources, "other"), Program(program.sources, "kernel", "team"))}) == 4


def test_entries_of_a_foreign_machine_stay_untouched(folder, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr(llvm.machine(), "identity", "another processor")
        assert added(20) == 21
    [foreign] = folder.iterdir()
    content = foreign.read_bytes()
    forget()
    before = llvm.compiled
    assert added(20) == 21 and llvm.compiled == before + 1
    assert foreign.read_bytes() == content and len(list(folder.iterdir())) == 2


def test_without_a_usable_folder_kernels_still_compile(folder, caplog):
    folder.write_text("a file")
    assert added(30) == 31 and added(31) == 32
    assert len([r for r in caplog.records if "kernel cache:" in r.getMessage()]) == 1


PROCESS = """
import numpy as np, workbench as wb
from tests.interrupts import every_interrupt
from workbench.core.kernels import llvm
import sys
rows = [int(n) for n in sys.argv[1:]]
x, y_ = wb.placeholder("float32", [None, 784]), wb.placeholder("float32", [None, 10])
W, b = wb.Variable(wb.zeros([784, 10])), wb.Variable(wb.zeros([10]))
y = wb.nn.softmax(wb.matmul(x, W) + b)
loss = wb.reduce_mean(-wb.reduce_sum(y_ * wb.log(y), axis=1)) + wb.reduce_mean(wb.tanh(y * 2.0 + 1.0) * wb.sigmoid(y))
step = wb.train.GradientDescentOptimizer(0.5).minimize(loss)
session = wb.Session()
session.run(wb.global_variables_initializer())
counts, losses = [], []
for count in rows:
    x_, l_ = np.ones((count, 784), np.float32), np.eye(10, dtype=np.float32)[np.arange(count) % 10]
    losses.append(float(session.run([loss, step], {x: x_, y_: l_})[0]))
    counts.append(llvm.compiled)
print(*counts)
print(*losses)
print("numba" in sys.modules, "workbench.core.kernels.expressions" in sys.modules)
"""


def process(cache: Path, *rows: int, **environment: str) -> list[list[str]]:
    done = subprocess.run([sys.executable, "-c", PROCESS, *map(str, rows)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "WB_CACHE": str(cache), **environment})
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_a_second_process_and_a_new_batch_size_compile_nothing(tmp_path):
    counts, losses, _ = process(tmp_path / "kernels", 128, 100, 37)
    assert int(counts[0]) > 0 and counts[1:] == counts[:1] * 2
    again, same, modules = process(tmp_path / "kernels", 37, 128)
    assert again == ["0", "0"]
    assert modules[0] == "False"
    assert len(same) == 2 and np.isfinite(np.array(losses, float)).all()


@pytest.fixture(scope="module")
def losses(tmp_path_factory) -> list[str]:
    """What three steps lose where everything is there."""
    return process(tmp_path_factory.mktemp("all") / "kernels", 64, 64, 64, WB_LIBRARIES="onednn,llvm")[1]


def test_without_llvm_the_reference_serves_with_the_same_results(tmp_path, losses):
    nothing, plain, _ = process(tmp_path / "kernels", 64, 64, 64, WB_LIBRARIES="onednn")
    assert nothing == ["0", "0", "0"]
    np.testing.assert_allclose(np.array(losses, float), np.array(plain, float), rtol=1e-5)


ABSENT = """
import logging, sys, types
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
sys.modules["llvmlite"] = {module}
"""


@pytest.mark.parametrize("module,line", [
    ("None", "llvmlite is not installed; NumPy serves (pip install llvmlite)"),
    ("types.SimpleNamespace(binding=types.SimpleNamespace())", "LLVM cannot be used: ")], ids=["absent", "broken"])
def test_a_missing_or_broken_llvm_costs_speed_only(tmp_path, losses, module, line):
    done = subprocess.run([sys.executable, "-c", ABSENT.format(module=module) + PROCESS, "64", "64"], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "WB_CACHE": str(tmp_path / "kernels")})
    assert done.returncode == 0, done.stderr
    *said, counts, found, _ = done.stdout.splitlines()
    assert counts == "0 0"
    assert sum(text.startswith(line) for text in said) == 1
    np.testing.assert_allclose(np.array(found.split(), float), np.array(losses[:2], float), rtol=1e-5)


def test_threads_that_ask_for_one_program_compile_it_once(folder):
    program, found = Program((SOURCE.format(50),), "kernel"), []
    before = llvm.compiled
    threads = [threading.Thread(target=lambda: found.append(load(program))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8 and llvm.compiled == before + 1


@pytest.fixture(params=["x86-64", "x86-64-v2"] if platform.machine() in ("x86_64", "AMD64") else ["generic"])
def few_instructions(folder, request, monkeypatch):
    """A processor with fewer instructions than this one may have."""
    from llvmlite import binding
    monkeypatch.setattr(llvm, "_machines", [])
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: request.param)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: binding.FeatureMap())
    assert f"\0{request.param}\0" in llvm.machine().identity


def test_a_processor_with_fewer_instructions_computes_the_same(few_instructions):
    x = np.concatenate([np.linspace(-30, 30, 1001), [np.nan, np.inf, -np.inf, 0.0]]).astype(np.float32)
    source = ("def kernel(x: floats32, y: floats32, n: int64):\n    for i in independent(n):\n"
              "        y[i] = tanh(x[i]) + sigmoid(x[i]) * floor(x[i]) + exp(x[i])\n")
    y = np.empty_like(x)
    bind(Program((library_source("program_math.py"), source), "kernel"), (x.size,), False)(x, y)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        wanted = np.tanh(wide) + np.floor(wide) / (1 + np.exp(-wide)) + np.exp(wide)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [65, 128, 4100])
def test_a_processor_with_fewer_instructions_sums_rows(few_instructions, columns):
    """The softmax of rows and their largest elements, with vectors that are wide elsewhere."""
    x = (np.random.default_rng(0).standard_normal((5, columns)) * 9).astype(np.float32)
    y, top = np.empty_like(x), np.empty((5, 1), np.float32)
    attrs = {"steps": softmax_steps("softmax", ("input", 0), 0), "results": ((5,), (0,)), "space": x.shape}
    make_kernel(*kernel_source(attrs, *[[Spec(a.shape, a.dtype) for a in arrays] for arrays in ([x], [y, top])]))(x, y, top)
    np.testing.assert_allclose(y, registry["softmax"].reference(x.astype(np.float64), axis=1), rtol=2e-6, atol=1e-9)
    np.testing.assert_array_equal(top, x.max(1, keepdims=True))


def test_ctrl_c_at_any_moment_of_a_compile_leaves_nothing_half_done(folder):
    """Whenever it strikes, another thread can compile and run the same program at once, and what is on disk is whole."""
    for number in every_interrupt(lambda: added(60), "kernels/llvm.py"):
        found: list[float] = []
        other = threading.Thread(target=lambda found=found: found.append(added(60)), daemon=True)
        other.start()
        other.join(60)
        assert found == [61], number
        assert Cache(folder, 1 << 20).damaged() == [], number
        forget()
        for entry in folder.iterdir():
            entry.unlink()
    assert added(60) == 61


KILLED = """
import os, signal, threading, sys
from workbench.core.kernels.llvm import Program, load
from tests.core.kernels.test_llvm import SOURCE
print("ready", flush=True)
for number in range(1000, 100000):
    load(Program((SOURCE.format(number),), "kernel"))
    print(number, flush=True)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_process_stopped_while_it_compiles_leaves_whole_entries(tmp_path, stop):
    running = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, "WB_CACHE": str(tmp_path / "kernels")}, cwd=Path(__file__).parents[3])
    assert running.stdout is not None
    for line in running.stdout:
        if line.strip() == "1004":
            running.send_signal(stop)
            break
    running.communicate(timeout=60)
    cache = Cache(tmp_path / "kernels", 1 << 20)
    assert cache.damaged() == [] and len(list(cache.entries())) >= 4


@pytest.mark.parametrize("heavy", [False, True])
def test_kernels_run_with_and_without_the_interpreter_s_lock(folder, heavy):
    x, y = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    kernel = bind(Program((SOURCE.format(3),), "kernel"), (7,), heavy)
    references = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(kernel)
    for _ in range(1000):
        assert kernel(x, y) is None
    assert (sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(kernel)) == references
    np.testing.assert_array_equal(y, x + 3)


def test_all_that_translates_is_part_of_the_key():
    """Else machine code that an older translator made would be taken from the disk."""
    folder = Path(llvm.__file__).parent
    used, asked = {"language.py", "llvm.py"}, ["language.py"]
    while asked:
        tree = ast.parse((folder / asked.pop()).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench.core.kernels."):
                name = f"{node.module.rpartition('.')[2]}.py"
                asked += [name] * (name not in used)
                used.add(name)
    assert used <= {*llvm.OWN}
