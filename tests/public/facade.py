"""`tensorflow` and every module below it, as the public names of `workbench.tf1`.

Test files of that time import the modules in which TensorFlow keeps things (`tensorflow.python.ops.array_ops`), not the
public names. A facade stands for each: it looks a name up where its kind is public, most likely place first.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import workbench.tf1 as tf
from tests.public.standins import STAND_INS
from workbench.tf1.missing import Namespace
from workbench.tf1.then import SourceThen

# where the names of a module are public, when not first of all in `tf` itself
FIRST = {module: place for place, modules in {
    "nn": "nn nn_ops nn_impl rnn gen_nn_ops ctc_ops embedding_ops candidate_sampling_ops", "contrib.rnn": "core_rnn_cell",
    "python.ops.lookup_ops": "lookup_ops", "python.ops.control_flow_ops": "control_flow_ops",
    "nn.rnn_cell": "rnn_cell rnn_cell_impl", "image": "image_ops image_ops_impl gen_image_ops",
    "saved_model.signature_def_utils": "signature_def_utils signature_def_utils_impl",
    "contrib.framework.nest": "nest",
    "metrics": "metrics metrics_impl", "losses": "losses losses_impl util", "errors": "errors errors_impl",
    "test": "test test_util gradient_checker googletest",
    "summary": "summary", "spectral": "spectral_ops", "linalg": "linalg linalg_impl linalg_ops", "logging": "tf_logging",
    "resource_loader": "resource_loader", "data": "dataset_ops iterator_ops readers", "sets": "sets sets_impl",
    "compat": "compat", "python_io": "tf_record", "gfile": "file_io",
    "layers": "layers core base convolutional normalization pooling"}.items() for module in modules.split()}
ELSEWHERE = (
    "nn", "train", "image", "errors", "test", "layers", "losses", "metrics", "summary", "sets", "strings", "linalg",
    "spectral", "nn.rnn_cell", "data", "distributions", "gfile", "python_io", "saved_model", "estimator",
    "feature_column", "graph_util", "bitwise", "initializers", "logging", "compat", "app", "flags", "contrib.framework",
    "contrib.rnn", "contrib.util", "contrib.layers", "contrib.distributions", "contrib.metrics", "contrib.learn",
    "contrib.training", "contrib.slim", "contrib.staging")
OTHER_NAMES = {"accumulate_n_v2": "accumulate_n", "TensorFlowTestCase": "TestCase", "_NodeDef": "NodeDef",
               "IsBuiltWithCuda": "is_built_with_cuda"}


MODULES = (ModuleType, Namespace)
TOOLS = ("test_utils", "testing_utils", "dnn_testing_utils", "linear_testing_utils", "bijector_test_util",
         "linear_operator_test_util", "test_data", "estimator_test_utils")
"""Files that several test files share: they are read as those are."""


def found(path: str) -> Any:
    """The public thing at a dotted path below `tf`, None where there is none."""
    thing: Any = tf
    for name in path.split("."):
        try:
            thing = getattr(thing, name)
        except AttributeError:
            return None
    return thing


def places(module: str) -> Iterator[Any]:
    """Where the names of this module may be public, the likeliest first."""
    parts = module.split(".")[1:]
    below = [".".join(part for part in parts[:end] if part not in ("python", "ops")) for end in range(len(parts), 0, -1)]
    likely = below if "contrib" in parts else [FIRST.get(parts[-1], "") if parts else "", *below]
    inner = [".".join(parts)] if "python" in parts and len(parts) > 1 else []       # where programs import it from
    likely = [*inner, *likely, "", *ELSEWHERE] if "contrib" in parts else [*likely, "", *ELSEWHERE, *inner]
    for path in dict.fromkeys(likely):
        place = tf if not path else found(path)
        if place is not None:
            yield place


def keras_of(module: str) -> list[Any]:
    """What is public of a module of TensorFlow's Keras."""
    _, there, path = module.partition("._impl.")
    place = found(path) if there else None
    return [] if place is None else [place]


class Facade(ModuleType):
    """A module of TensorFlow: whatever is asked of it is a public name, a stand-in, or is missing."""

    def __init__(self, name: str, source: Path) -> None:
        super().__init__(name)
        self.source = source

    def __getattr__(self, name: str) -> Any:
        for key in (f"{self.__name__.rpartition('.')[2]}.{name}", name):
            if key in STAND_INS:
                return STAND_INS[key]
        folder = (self.source / name).is_dir() or (self.source / f"{name}.py").exists()     # then it names a module
        if folder and name == "core":
            raise AttributeError(f"{self.__name__}.core is no module of messages")
        if not name.startswith("__") and not (folder and ".contrib." in self.__name__):
            for one in dict.fromkeys((OTHER_NAMES.get(name, name), name.lstrip("_"))):
                for place in [*keras_of(self.__name__), tf] if folder else places(self.__name__):
                    try:
                        thing = getattr(place, one)
                    except AttributeError:
                        continue
                    if isinstance(thing, MODULES) == folder:
                        return thing
        raise AttributeError(f"{self.__name__} has no public name {name}")


class Public(ModuleType):
    """A public module."""

    def __init__(self, name: str, names: Any) -> None:
        super().__init__(name)
        self.names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self.names, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import of `tensorflow…`; `root` holds TensorFlow's folders, which tell what is a folder of modules."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None,
                  ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "tensorflow":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        public = found(spec.name.partition(".")[2]) if spec.name != "tensorflow" else tf
        if isinstance(public, MODULES) and "python" not in spec.name.split("."):
            return Public(spec.name, public)
        return ModuleType(spec.name) if self.tool(spec.name) else Facade(spec.name, self.root / spec.name.replace(".", "/"))

    def tool(self, name: str) -> Path | None:
        """The file of a module that test files share."""
        file = self.root / (name.replace(".", "/") + ".py")
        return file if file.stem in TOOLS and file.exists() else None

    def exec_module(self, module: ModuleType) -> None:
        """A facade looks things up when asked; what test files share is run."""
        file = self.tool(module.__name__)
        if file is not None:
            run_file(file, vars(module))


def run_file(path: Path, names: dict[str, Any]) -> dict[str, Any]:
    """The names of a file, read as Python of its time read it, after it was run among these."""
    names.update(__file__=str(path))
    exec(SourceThen(path.stem, str(path)).get_code(path.stem), names)      # a test file that the caller asked for
    return names


def install(file: Path) -> None:
    """From here on `import tensorflow` is `workbench.tf1`, for a test file somewhere below a folder `tensorflow`."""
    root = next((folder.parent for folder in file.resolve().parents if folder.name == "tensorflow"), file.parent)
    os.environ["TEST_SRCDIR"] = str(root / "tensorflow")
    sys.meta_path.insert(0, Finder(root))
