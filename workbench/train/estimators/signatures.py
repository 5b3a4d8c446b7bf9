"""Signatures: what a model takes and gives by name, as the messages that a SavedModel has; and what an estimator exports."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.core.graph.build import convert
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Tensor, get_default_graph
from workbench.formats.messages import message
from workbench.formats.values import dtype_number, shape_proto
from workbench.nn.sparse import SparseTensor

__all__ = ["CLASSIFY", "DEFAULT_KEY", "PREDICT", "REGRESS", "ClassificationOutput", "ExportOutput", "PredictOutput",
           "RegressionOutput", "build_signature_def", "build_tensor_info", "classification_signature_def",
           "get_signature_def_by_key", "get_tensor_from_tensor_info", "is_valid_signature", "predict_signature_def",
           "regression_signature_def", "signatures", "with_default"]

CLASSIFY, PREDICT, REGRESS = ("tensorflow/serving/classify", "tensorflow/serving/predict", "tensorflow/serving/regress")
DEFAULT_KEY = "serving_default"


def build_tensor_info(tensor: Any) -> Any:
    """The TensorInfo of a tensor: name, dtype, shape; of a SparseTensor: the names of its three tensors."""
    found = tensor.__graph_element__() if hasattr(tensor, "__graph_element__") else tensor
    made = message("TensorInfo")(dtype=dtype_number(found.dtype), tensor_shape=shape_proto(found.get_shape()))
    if isinstance(found, SparseTensor):
        for part in ("values", "indices", "dense_shape"):
            setattr(made.coo_sparse, f"{part}_tensor_name", getattr(found, part).name)
    else:
        made.name = found.name
    return made


def get_tensor_from_tensor_info(tensor_info: Any, graph: Graph | None = None, import_scope: str | None = None) -> Any:
    """The Tensor or SparseTensor of `graph` (the default one) that a TensorInfo names, below `import_scope`.

    NotFoundError (a KeyError) for a name that the graph has not, ValueError for a TensorInfo without a name.
    """
    where, scope = graph or get_default_graph(), f"{import_scope}/" if import_scope else ""
    if tensor_info.WhichOneof("encoding") == "name":
        return where.get_tensor_by_name(scope + tensor_info.name)
    if tensor_info.WhichOneof("encoding") != "coo_sparse":
        raise ValueError(f"get_tensor_from_tensor_info: Invalid TensorInfo.encoding: {tensor_info.WhichOneof('encoding')}; it "
                         "names no tensor; make it with build_tensor_info")
    names = tensor_info.coo_sparse
    return SparseTensor(*(where.get_tensor_by_name(scope + name) for name in (
        names.indices_tensor_name, names.values_tensor_name, names.dense_shape_tensor_name)))


def build_signature_def(inputs: Mapping[str, Any] | None = None, outputs: Mapping[str, Any] | None = None,
                        method_name: str | None = None) -> Any:
    """A SignatureDef of TensorInfos by name."""
    found = message("SignatureDef")(method_name=method_name or "")
    for target, given in ((found.inputs, inputs), (found.outputs, outputs)):
        for key, info in (given or {}).items():
            target[key].CopyFrom(info)
    return found


def _of_tensors(inputs: Mapping[str, Any], outputs: Mapping[str, Any], method: str) -> Any:
    return build_signature_def({k: build_tensor_info(t) for k, t in inputs.items()},
                               {k: build_tensor_info(t) for k, t in outputs.items()}, method)


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    """The signature of a prediction from tensors by name to tensors by name. ValueError where either has none."""
    for name, given in (("inputs", inputs), ("outputs", outputs)):
        if not given:
            raise ValueError(f"Prediction {name} cannot be None or empty.")
    return _of_tensors(inputs, outputs, PREDICT)


def is_valid_signature(signature_def: Any) -> bool:
    """Can a server serve it: a prediction of anything from anything, a classifier or a regressor of serialized examples,
    with the names and types that these have?"""
    if signature_def is None or signature_def.method_name not in (PREDICT, REGRESS, CLASSIFY):
        return False
    inputs, outputs = ({key: as_dtype(info.dtype).name if info.dtype else "" for key, info in given.items()}
                       for given in (signature_def.inputs, signature_def.outputs))
    if signature_def.method_name == PREDICT:
        return bool(inputs and outputs)
    if signature_def.method_name == REGRESS:
        return inputs == {"inputs": "string"} and outputs == {"outputs": "float32"}
    known = {"classes": "string", "scores": "float32"}
    return inputs == {"inputs": "string"} and bool(outputs) and outputs.items() <= known.items()


def get_signature_def_by_key(meta_graph_def: Any, signature_def_key: str) -> Any:
    """The signature of a MetaGraphDef that has this name; ValueError where it has none."""
    if signature_def_key not in meta_graph_def.signature_def:
        raise ValueError(f"No SignatureDef with key '{signature_def_key}' found in MetaGraphDef.; it has "
                         f"{sorted(meta_graph_def.signature_def)}")
    return meta_graph_def.signature_def[signature_def_key]


def _of_type(what: str, value: Tensor, dtype: str) -> Tensor:
    if value.dtype.name != dtype:
        raise ValueError(f"{what} must be {dtype} but it is {value.dtype.name}; cast it")
    return value


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Any:
    """The signature of a classifier of serialized examples (string [n]): `classes` (string [n, k]), `scores` (float32
    [n, k]), or one of them. ValueError for other types, and for neither."""
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs["classes"] = _of_type("Classification classes", convert(classes), "string")
    if scores is not None:
        outputs["scores"] = _of_type("Classification scores", convert(scores), "float32")
    return _of_tensors({"inputs": _of_type("Classification examples", convert(examples), "string")}, outputs, CLASSIFY)


def regression_signature_def(examples: Any, predictions: Any) -> Any:
    """The signature of a regressor of serialized examples (string [n]): float32 `predictions`. ValueError for other types."""
    for name, given in (("examples", examples), ("predictions", predictions)):
        if given is None:
            raise ValueError(f"Regression {name} cannot be None.")
    return _of_tensors({"inputs": _of_type("Regression examples", convert(examples), "string")},
                       {"outputs": _of_type("Regression predictions", convert(predictions), "float32")}, REGRESS)


# what an estimator exports

class ExportOutput:
    """One of the outputs of a served model; subclasses give its signature."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The SignatureDef from what the served model receives to this output."""
        raise NotImplementedError(f"{type(self).__name__}.as_signature_def(receiver_tensors) is missing; define it")


def _only(what: str, receivers: Mapping[str, Any]) -> Any:
    if len(receivers) != 1 or next(iter(receivers.values())).dtype.name != "string":
        raise ValueError(f"{what} input must be a single string Tensor; got {dict(receivers)}")
    return next(iter(receivers.values()))


class ClassificationOutput(ExportOutput):
    """Classes: their `scores` (float [n, k]) and names `classes` (string [n, k]), or one of them. ValueError for others."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None and not (isinstance(scores, Tensor) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (isinstance(classes, Tensor) and classes.dtype.name == "string"):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The SignatureDef of a classifier. ValueError unless a single string tensor is received."""
        return classification_signature_def(_only("Classification", receiver_tensors), self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """Numbers: `value`, float [n, ...]. ValueError for others."""

    def __init__(self, value: Any) -> None:
        if not (isinstance(value, Tensor) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The SignatureDef of a regressor. ValueError unless a single string tensor is received."""
        return regression_signature_def(_only("Regression", receiver_tensors), self.value)


class PredictOutput(ExportOutput):
    """Any outputs by name; a tensor alone is called "output". ValueError for what is no tensor."""

    def __init__(self, outputs: Any) -> None:
        self.outputs = dict(outputs) if isinstance(outputs, Mapping) else {"output": outputs}
        for key, value in self.outputs.items():
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key!r}.")
            if not isinstance(value, Tensor):
                raise ValueError(f"Prediction output value must be a Tensor; got {value}.")

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """The SignatureDef of a prediction from everything that is received."""
        return predict_signature_def(receiver_tensors, self.outputs)


def with_default(outputs: Mapping[Any, ExportOutput]) -> dict[str, ExportOutput]:
    """The outputs, of which an only one is the default too. ValueError where several are given and none is the default."""
    if len(outputs) > 1 and not {DEFAULT_KEY, None} & set(outputs):
        raise ValueError("Multiple export_outputs were provided, but none of them is specified as the default. Do this by "
                         f"naming one of them with signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY ({DEFAULT_KEY!r}).")
    named = {key or DEFAULT_KEY: value for key, value in outputs.items()}
    if len(named) == 1:
        named.setdefault(DEFAULT_KEY, *named.values())
    return named


def signatures(receivers: Any, outputs: Mapping[Any, ExportOutput],
               more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The signature of each output over what is received (tensors by name, or one, called "input"), and, as "name:output",
    over each of the other ways of `more`. An output that does not go with a way, as classes with what is no string, is
    left out.

    ValueError where several outputs are given and none of them is the default.
    """
    named, found = with_default(outputs), {}
    for way, given in (("", receivers), *(more or {}).items()):
        tensors = given if isinstance(given, Mapping) else {"input": given}
        for key, output in named.items():
            try:
                found[f"{way}:{key}" if way else key] = output.as_signature_def(tensors)
            except ValueError:
                continue
    return found
