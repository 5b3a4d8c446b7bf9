"""The house rules: who may import whom and what, what is never called, how long a file or function may be."""
from __future__ import annotations

import pytest

from tests import layers
from tests.layers import Module

# From the ground up; a module imports strictly lower layers only. New modules of `core` get a place here.
LAYERS = (
    ("errors", "errors"),
    ("settings", "settings"),
    ("how memory is kept", "heap"),
    ("what libraries read", "environment"),
    ("names of tasks and messages", "core.names"),
    ("threads", "core.threads"),
    ("random numbers", "core.streams"),
    ("schemas", "formats.schema"),
    ("messages", "formats.messages"),
    ("rings", "core.rings"),
    ("how often", "core.pace core.counter"),
    ("records of a run", "core.trace"),
    ("devices", "core.device.interface"),
    ("the host", "core.device.host"),
    ("CUDA devices", "core.device.cuda"),
    ("gate and interrupts", "core.run.gate core.run.staying core.run.knob core.run.interrupts core.run.collector"),
    ("languages", "core.graph.language core.graph.origin"),
    ("element types", "core.graph.dtype"),
    ("numbers that integers stand for", "core.graph.quantized"),
    ("dimensions", "core.graph.dimension"),
    ("shapes", "core.graph.shape"),
    ("values as messages", "formats.values"),
    ("products in one order", "core.graph.ordered"),
    ("factors of matrices", "core.graph.factoring"),
    ("linear algebra", "core.graph.algebra"),
    ("array arithmetic", "core.graph.arrays"),
    ("record files", "core.state.tfrecord"),
    ("storage", "core.state.storage"),
    ("tensor files", "core.state.tensorfile"),
    ("changes", "core.state.changes"),
    ("passes over data", "core.state.passing"),
    ("elements of data", "core.state.elements core.state.mapped core.state.ahead core.state.cached "
                         "core.state.queries"),
    ("what checkpoints keep", "core.state.kept core.state.stores core.state.calls"),
    ("state", "core.state.variables core.state.queues core.state.accumulators core.state.tokens core.state.clocks "
              "core.state.pushes core.state.readers core.state.record_buffer core.state.datasets "
              "core.state.lookups core.state.growing_tables core.state.retries core.state.barriers core.state.swapfile "
              "core.state.staging core.state.mutexes"),
    ("containers", "core.state.container"),
    ("data that lie in tasks", "core.state.partitions"),
    ("updates of several variables", "core.state.together"),
    ("pins", "core.state.pins"),
    ("manifests", "core.state.manifest"),
    ("shards", "core.state.shards"),
    ("increments", "core.state.increments"),
    ("snapshots", "core.state.snapshots"),
    ("checkpoints", "core.state.checkpoint"),
    ("signatures of operations", "core.graph.signature"),
    ("operation definitions", "core.graph.opdef"),
    ("rules of shapes and dtypes", "core.graph.rules"),
    ("device names", "core.graph.device"),
    ("parts of graphs", "core.graph.scopes core.graph.naming core.graph.collecting core.graph.permissions core.graph.readers "
                        "core.graph.arithmetic"),
    ("what is in a graph", "core.graph.contents"),
    ("what a thread is inside of", "core.graph.entered"),
    ("graph records", "core.graph.graph"),
    ("results of kernels", "core.graph.fitting"),
    ("rows of tensors", "core.graph.slices"),
    ("lists as values", "core.graph.chains"),
    ("bodies", "core.graph.subgraph"),
    ("calls of operations", "core.graph.calling"),
    ("graph building", "core.graph.build"),
    ("programs", "core.graph.program"),
    ("fetches, text, bytes, checks", "core.graph.fetch core.graph.text core.graph.serial core.graph.check"),
    ("stages as views see them", "core.graph.stages"),
    ("graph rewriting", "core.passes.rewrite"),
    ("operations", "core.ops.*"),
    ("what is computed again", "core.recomputed"),
    ("gradients", "core.grad"),
    ("kernels", "core.kernels.*"),
    ("passes", "core.passes.*"),
    ("costs", "core.compile.cost"),
    ("simulation", "core.compile.simulate"),
    ("placement", "core.compile.place"),
    ("loops over devices", "core.compile.loops"),
    ("partition", "core.compile.partition"),
    ("order of operations", "core.compile.order"),
    ("segments", "core.compile.segments core.compile.memory"),
    ("budgets of bytes", "core.compile.budget"),
    ("values", "core.compile.values"),
    ("kernels of open shapes", "core.compile.late"),
    ("ownership", "core.compile.ownership"),
    ("forms", "core.compile.forms"),
    ("instructions", "core.compile.instructions"),
    ("liveness", "core.compile.liveness"),
    ("time stamps", "core.compile.marks"),
    ("code generation", "core.compile.codegen"),
    ("weights", "core.compile.weight core.compile.counting"),
    ("plan", "core.compile.plan"),
    ("explanations and times", "core.compile.explain core.compile.timing"),
    ("instances", "core.compile.instance"),
    ("rendezvous", "core.run.rendezvous"),
    ("events of a step", "core.run.events"),
    ("executor", "core.run.executor core.run.tally"),
    ("executor of straight steps", "core.run.straight"),
    ("threads of a step", "core.run.crew core.run.pool core.run.nodes"),
    ("Python's frames of all threads", "core.run.python_frames"),
    ("where a step is", "core.run.where"),
    ("driver", "core.run.driver"),
    ("the short way of light steps", "core.run.light"),
    ("devices of one process", "core.run.local"),
    ("feeds", "core.run.feeding"),
    ("losses by name", "core.run.losses"),
    ("plans of a session", "core.run.plans"),
    ("preparation", "core.run.prepare"),
    ("reports of a step", "core.run.metadata core.run.explain core.run.tuning"),
    ("partial steps and handles", "core.run.target core.run.partial core.run.handles"),
    ("session", "core.run.session"),
    ("questions to the default session", "core.run.default_session"),
    ("rooms", "core.graph core.device core.state core.compile core.run"),
    ("engine", "core"),
    ("twins of operations", "formats.twins formats.elements formats.frames"),
    ("seeds, handles and arrays of graphs", "formats.seeds formats.gates formats.arrays"),
    ("families of twins", "formats.families.*"),
    ("operations of our own as data", "formats.own formats.unknown"),
    ("names of outputs", "formats.outputs"),
    ("what is wrong with a graph", "formats.sound"),
    ("branches and loops of functions", "formats.chosen"),
    ("functions of graphs", "formats.functions formats.definitions"),
    ("branches of graphs", "formats.branches"),
    ("loops of graphs", "formats.loops"),
    ("graphs as data", "formats.writer formats.reader"),
    ("layers and losses", "nn.*"),
    ("training", "train.*"),
    ("tables of files", "formats.table"),
    ("tensor bundles", "formats.bundle"),
    ("files of graphs", "formats.graph_util"),
    ("parts of graphs", "formats.scoped formats.registered formats.contexts formats.savers formats.mixed"),
    ("files of saved models", "formats.assets"),
    ("meta graphs", "formats.meta"),
    ("folders of checkpoints", "formats.folders"),
    ("checkpoints to go on from", "formats.newest"),
    ("savers of TensorFlow", "formats.saver"),
    ("values of checkpoints", "formats.restoring formats.remapping"),
    ("saved models", "formats.saved_model"),
    ("exported models", "formats.exporting"),
    ("models as functions", "formats.predictor"),
    ("frozen graphs", "formats.freezing"),
    ("formats", "formats"),
    ("accounts of a run", "viz.accounting viz.batch viz.blame viz.books viz.ledger viz.lost viz.names viz.palette viz.reader "
                          "viz.replicas viz.slices viz.stretches viz.units viz.verdict viz.waiting viz.window viz.working"),
    ("cluster", "cluster.*"),
    ("views", "viz.*"),
    ("widgets and files", "widgets.* io.*"),
    ("public names", layers.FACADE),
    ("historic names", "tf1.*"),
    ("commands", "commands.*"),
    ("command line", "cli"),
    ("its module", "__main__"),
)

# Modules of one of these may import each other, without cycles.
PACKAGES = ("formats.families.* core.ops.* core.kernels.* core.passes.* nn.* train.* cluster.* viz.* widgets.* io.* commands.* "
            "tf1.*")

# Library -> who may import it; an empty right side means nobody.
OWNERS = (
    ("dask distributed tornado", "cluster.*"),
    ("llvmlite onednn", "core.kernels.*"),
    ("threadpoolctl", "core.kernels.threads environment"),
    ("cupy cupyx cupy_backends cuda", "core.kernels.* core.device.cuda"),
    ("ctypes", "core.kernels.* core.device.cuda heap environment"),
    ("ipywidgets anywidget comm ipykernel IPython", "widgets.*"),
    ("bokeh", "viz.* cluster.dask.page"),
    ("graphviz pygraphviz", "viz.*"),
    ("PIL", "core.ops.images_files train.keras.preprocessing.pictures"),
    ("scipy", "core.graph.arrays core.graph.algebra core.ops.special train.optimizers.contrib "
              "train.keras.preprocessing.pictures"),
    ("pooch requests sklearn", "io.*"),
    ("safetensors", ""),      # tests read with it what we write
    ("fsspec upath", "core.state.storage"),
    ("msgpack", "core.graph.serial cluster.*"),
    ("rich", "commands.* cli"),
    ("typer click", "cli"),
    ("google", "formats.messages train.testing"),
    ("pickle cloudpickle dill marshal shelve joblib", ""),
    ("tensorflow torch jax numba", ""),
)

EXECUTOR_MAY_NOT = ("threading _thread time asyncio socket select selectors queue concurrent multiprocessing "
                    "subprocess os random numpy dask distributed")

# What user-level code may know of the engine.
PUBLIC = ("errors settings core.graph.build core.state.checkpoint core.graph.device core.graph.dimension core.graph.dtype "
          "core.run.gate core.grad core.graph.entered core.graph.graph core.graph.program core.graph.subgraph "
          "core.graph.opdef core.ops core.names core.state.tfrecord core.run.session core.graph.shape "
          "core.graph.text core.trace formats.messages formats.values formats.writer")
RECORDS = "errors settings core.names core.counter core.trace core.run.gate"

# Built-ins that execute text, and the only places that may: each compiles source that this process generated itself.
EXECUTING = "eval exec compile __import__"
EXECUTES = {"core.compile.codegen": "exec compile"}

# Files over 400 lines and functions over 40: each a decision. Name -> why.
MOST_LINES, MOST_FUNCTION_LINES = 400, 40
LONG = {
    ".": "the list of the public names, one line each",
}

KNOWN = layers.modules()


def test_imports_go_strictly_down():
    assert layers.upward(KNOWN, LAYERS, PACKAGES) == []


def test_no_modules_import_each_other_in_a_circle():
    assert layers.cycles(KNOWN) == []


def test_libraries_stay_with_their_owners():
    assert layers.foreign(KNOWN, OWNERS) == []


def test_the_executor_is_pure():
    pure = {k: m for k, m in KNOWN.items() if k in ("core.run.events", "core.run.executor", "core.run.straight")}
    assert layers.foreign(pure, [(EXECUTOR_MAY_NOT, "")]) == []


def test_user_level_code_uses_the_public_graph_api():
    assert layers.outside(KNOWN, "nn.*", f"{PUBLIC} nn.*") == []
    assert layers.outside(KNOWN, "train.*", f"{PUBLIC} nn.* train.*") == []


def test_views_read_records_and_widgets_bind_views():
    assert layers.outside(KNOWN, "viz.*", f"{RECORDS} viz.*") == []
    assert layers.outside(KNOWN, "widgets.*", f"{RECORDS} viz.* widgets.*") == []


def test_operation_families_never_import_each_other():
    assert layers.family_imports(KNOWN, "core.ops") == []


def test_nothing_loaded_is_executed():
    assert layers.calls(KNOWN, EXECUTING, EXECUTES) == []


def test_long_files_and_functions_are_decisions():
    found = layers.oversize(KNOWN, MOST_LINES, MOST_FUNCTION_LINES)
    assert {name: size for name, size in found.items() if name not in LONG} == {}


def test_every_module_says_what_it_owns():
    assert layers.unexplained(KNOWN) == []


# -- the rules above find what they are for

def world(**sources):
    """Modules by name, with the double underscore standing for a dot."""
    named = {name.replace("__", "."): source for name, source in sources.items()}
    return {name: Module(name, source) for name, source in {"errors": "", "core.graph.graph": "", **named}.items()}


@pytest.mark.parametrize("source", [
    "from workbench.core.run.session import Session",
    "from workbench.core.run import session",
    "import workbench.core.run.session as s",
    "from ..run import session",
    "from ..run.session import Session",
    "def f():\n    from workbench.core.run.session import Session",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from workbench.core.run.session import Session",
    "import importlib\nimportlib.import_module('workbench.core.run.session')",
])
def test_every_way_to_import_is_seen(source):
    found = layers.upward(world(core__graph__graph=source, core__run__session=""), LAYERS, PACKAGES)
    assert len(found) == 1 and found[0].startswith("core.graph.graph:") and found[0].endswith(
        "imports core.run.session, but 'session' is not below 'graph records'")


def test_neighbours_and_strangers_are_seen():
    known = world(core__compile__memory="from workbench.core.compile import segments", core__compile__segments="", core__new="")
    assert layers.upward(known, LAYERS, PACKAGES) == [
        "core.compile.memory:1 imports core.compile.segments, but 'segments' is not below 'segments'",
        "core.new: it is in no layer; give it a place in LAYERS"]
    fine = world(viz__a="from workbench.viz.b import c", viz__b="", core__graph__graph="from workbench import errors")
    assert layers.upward(fine, LAYERS, PACKAGES) == []


def test_circles_are_seen():
    known = world(viz__a="from workbench.viz import b", viz__b="def f():\n    import workbench.viz.a")
    assert layers.cycles(known) == ["viz.a -> viz.b -> viz.a"]


def test_foreign_libraries_are_seen():
    found = layers.foreign(world(core__graph__graph="def f():\n    import dask.array", cluster__task="import dask",
                                 io__x="from pickle import loads"), OWNERS)
    assert found == ["core.graph.graph:2 imports dask, which is for cluster.* alone",
                     "io.x:1 imports pickle, which is for nobody"]


def test_reaching_past_the_public_api_is_seen():
    known = world(train__sgd="from workbench.core.compile.plan import Plan", core__compile__plan="",
                  viz__x="from workbench.core.graph import graph", core__ops__nn="from workbench.core.ops import math",
                  core__ops__math="", core__ops__math_more="from workbench.core.ops import math")
    assert len(layers.outside(known, "train.*", PUBLIC)) == len(layers.outside(known, "viz.*", RECORDS)) == 1
    assert layers.family_imports(known, "core.ops") == [
        "core.ops.nn:1 imports core.ops.math; call `ops.<name>` instead"]


def test_executing_calls_are_seen():
    known = world(io__x="eval('1')\nre.compile('x')\nmodel.eval()\nrun('x', shell=True)\nload(allow_pickle=0)",
                  core__compile__codegen="exec(compile('', '', 'exec'))\neval('')")
    assert layers.calls(known, EXECUTING, EXECUTES) == [
        "io.x:1 calls eval", "io.x:4 passes shell=True", "io.x:5 passes allow_pickle=True",
        "core.compile.codegen:2 calls eval"]


def test_sizes_are_measured():
    long = "class A:\n    def b(self):\n" + "        x = 1\n" * 40
    assert layers.oversize(world(viz__a=long, viz__b="x = 1\n" * 401), 400, 40) == {"viz.a:A.b": 41, "viz.b": 401}


def test_first_lines_are_read():
    known = {name: Module(name, source) for name, source in {
        "a": '"""Owns a."""\n', "b": "x = 1\n", "c": '"""Owns c"""\n', "d": '\n"""Owns d."""\n',
        "e": '"""Owns e.\n\nMore."""\n'}.items()}
    assert [fault[0] for fault in layers.unexplained(known)] == ["b", "c", "d"]
