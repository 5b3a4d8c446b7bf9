"""The public names: the list is what the package has, each is documented, and importing it loads no heavy library."""
from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import workbench as wb
from workbench import nn, train

MODULES = {"workbench": wb, "nn": nn, "train": train, "layers": wb.layers, "losses": wb.losses, "metrics": wb.metrics,
           "summary": wb.summary, "rnn_cell": nn.rnn_cell}
HEAVY = ("bokeh", "dask", "distributed", "ipywidgets", "jupyterlab", "llvmlite", "matplotlib", "onnx", "pandas", "tornado")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_list_has_each_name_once_and_all_exist(module: str):
    names = MODULES[module].__all__
    assert len(set(names)) == len(names) and [n for n in names if not hasattr(MODULES[module], n)] == []


@pytest.mark.parametrize("module", sorted(MODULES))
def test_functions_and_classes_say_what_they_are(module: str):
    found = {n: getattr(MODULES[module], n) for n in MODULES[module].__all__}
    bare = [n for n, item in found.items() if (inspect.isfunction(item) or inspect.isclass(item)) and not item.__doc__]
    assert bare == []


def test_nothing_public_is_left_out_of_the_list():
    public = {n for n, v in vars(wb).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert public - set(wb.__all__) <= {"ops", "LAZY"} | set(wb.LAZY)





def test_names_that_programs_begin_with():
    expected = """AUTO_REUSE DType FIFOQueue Graph GraphKeys IndexedSlices InteractiveSession Operation Session Tensor
    TensorShape Variable VariableScope assign bool cond constant control_dependencies device errors float32 float64
    get_variable global_variables_initializer gradients group int32 int64 layers losses matmul metrics name_scope nn op
    ops placeholder reduce_mean reset_default_graph set_random_seed string summary train trainable_variables
    variable_scope while_loop zeros""".split()  # noqa: SIM905
    assert [n for n in expected if n not in wb.__all__] == []


def test_importing_is_light():
    code = f"import sys, workbench; print(','.join(m for m in {HEAVY!r} if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""
