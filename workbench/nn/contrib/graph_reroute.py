"""Edges of a graph laid anew: what reads one tensor reads another, parts are joined, taken apart and gone around."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import resource
from workbench.core.graph.graph import Operation, Tensor
from workbench.nn.contrib.graph_select import ControlOutputs, get_consuming_ops, make_list_of_op, make_list_of_t
from workbench.nn.contrib.graph_views import SubGraphView, make_view

__all__ = ["add_control_inputs", "bypass", "connect", "detach", "detach_control_inputs", "detach_control_outputs",
           "detach_inputs", "detach_outputs", "make_placeholder_from_dtype_and_shape", "make_placeholder_from_tensor",
           "placeholder_name", "remove_control_inputs", "reroute_inputs", "reroute_ios", "reroute_outputs", "reroute_ts",
           "swap_inputs", "swap_ios", "swap_outputs", "swap_ts"]


# placeholders

def placeholder_name(t: Tensor | None = None, scope: str | None = None) -> str:
    """What the placeholder for a tensor is called: "geph__", its operation and its number, in `scope` or in its own."""
    if t is not None and not isinstance(t, Tensor):
        raise errors.DtypeError(f"placeholder_name: {t!r} is a {type(t).__name__}; pass a tensor")
    own, _, short = t.op.name.rpartition("/") if t is not None else ("", "", "")
    place = (own if scope is None else scope).removesuffix("/")
    name = "geph" if t is None else short if short.startswith("geph__") else f"geph__{short}_{t.index}"
    return f"{place}/{name}" if place else name


def make_placeholder_from_tensor(t: Tensor, scope: str | None = None) -> Tensor:
    """A placeholder of the dtype and shape of a tensor."""
    return ops.placeholder(t.dtype, t.shape, name=placeholder_name(t, scope))


def make_placeholder_from_dtype_and_shape(dtype: Any, shape: Any = None, scope: str | None = None) -> Tensor:
    """A placeholder called "geph"."""
    return ops.placeholder(dtype, shape, name=placeholder_name(scope=scope))


# what reads a tensor

def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """What reads a tensor of `ts0` reads the one at its place in `ts1`, and the other way round; the number of changed inputs.

    Of the operations only those of `can_modify` change, and none of `cannot_modify`. Errors as of reroute_ts.
    """
    return _reroute(ts0, ts1, True, can_modify, cannot_modify)


def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """What reads a tensor of `ts1` reads the one at its place in `ts0` instead; the number of changed inputs.

    Of the operations only those of `can_modify` change, and none of `cannot_modify`. ValueError (InvalidArgumentError) for
    lists of several lengths, for other dtypes or shapes, and where an operation would wait for itself: nothing changes then.
    """
    return _reroute(ts0, ts1, False, can_modify, cannot_modify)


def _reroute(ts0: Any, ts1: Any, both: bool, can_modify: Any, cannot_modify: Any) -> int:
    first, second = make_list_of_t(ts0), make_list_of_t(ts1)
    if len(first) != len(second):
        raise errors.InvalidArgumentError(f"reroute: ts0 and ts1 have different sizes: {len(first)} != {len(second)}; pair "
                                          "them")
    instead = [*zip(second, first), *(zip(first, second) if both else ())]
    allowed = None if can_modify is None else set(make_list_of_op(can_modify))
    denied = set() if cannot_modify is None else set(make_list_of_op(cannot_modify))
    changes: dict[Operation, list[Tensor]] = {}
    count = 0
    for old, new in instead:
        _check_alike(new, old)
        for op in old.consumers() if old is not new else ():
            if (allowed is None or op in allowed) and op not in denied:
                inputs = changes.setdefault(op, list(op.inputs))
                for place in [place for place, t in enumerate(op.inputs) if t is old]:
                    inputs[place], count = new, count + 1
    ops.rewire({op: (inputs, op.controls) for op, inputs in changes.items()})
    return count


def _check_alike(new: Tensor, old: Tensor) -> None:
    """InvalidArgumentError unless `new` can stand for `old` wherever that is read, with all that is known of it there."""
    if new.dtype is not old.dtype:
        raise errors.InvalidArgumentError(f"reroute: Dtypes {new.dtype.name} of {new.name} and {old.dtype.name} of {old.name} "
                                          "are not compatible.; cast one")
    if not new.shape.compatible(old.shape):
        raise errors.InvalidArgumentError(f"reroute: Shapes {new.shape} of {new.name} and {old.shape} of {old.name} are not "
                                          "compatible.; reshape one")
    if new.shape.merge(old.shape, "reroute") != new.shape:
        raise errors.InvalidArgumentError(f"reroute: {old.name} has shape {old.shape}, on which its readers rely, but "
                                          f"{new.name} {new.shape}; say with set_shape what is known of it")


# what enters and leaves a part

def _views(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    one, two = make_view(sgv0), make_view(sgv1)
    if one and two and one.graph is not two.graph:
        raise errors.InvalidArgumentError("reroute: Wrong graph! the parts belong to two graphs; pass parts of one")
    return one, two


def _reroute_inputs(sgv0: Any, sgv1: Any, both: bool) -> tuple[SubGraphView, SubGraphView]:
    one, two = _views(sgv0, sgv1)
    _reroute(one.inputs, two.inputs, both,
             [*one.ops, *two.ops, *get_consuming_ops([*one.passthroughs, *two.passthroughs])], None)
    first, second = (one.inputs, one.passthroughs), (two.inputs, two.passthroughs)
    two._take_inputs(*first)
    if both:
        one._take_inputs(*second)
    return one, two


def _reroute_outputs(sgv0: Any, sgv1: Any, both: bool) -> tuple[SubGraphView, SubGraphView]:
    one, two = _views(sgv0, sgv1)
    _reroute(one.outputs, two.outputs, both, None, [*one.ops, *two.ops])
    return one, two


def swap_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Each of two parts reads the inputs of the other: (views, brought up to date)."""
    return _reroute_inputs(sgv0, sgv1, True)


def reroute_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """The second part reads the inputs of the first: (views, brought up to date)."""
    return _reroute_inputs(sgv0, sgv1, False)


def swap_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """What reads outputs of one of two parts reads those of the other: (views)."""
    return _reroute_outputs(sgv0, sgv1, True)


def reroute_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """What reads outputs of the second part reads those of the first: (views)."""
    return _reroute_outputs(sgv0, sgv1, False)


def swap_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """swap_outputs, then swap_inputs."""
    return swap_inputs(*swap_outputs(sgv0, sgv1))


def reroute_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """reroute_outputs, then reroute_inputs."""
    return reroute_inputs(*reroute_outputs(sgv0, sgv1))


# what an operation waits for

def add_control_inputs(op: Operation, cops: Any) -> None:
    """Let an operation wait for others. ValueError (InvalidArgumentError) where it does already, or they would for it."""
    more = _others(op, cops)
    known = next((each for each in more if each in op.controls), None)
    if known is not None:
        raise errors.InvalidArgumentError(f"add_control_inputs: {known.name} is already a control_input of {op.name}; leave it "
                                          "out")
    ops.rewire({op: (op.inputs, (*op.controls, *more))})


def remove_control_inputs(op: Operation, cops: Any) -> None:
    """Let an operation wait for others no more. ValueError (InvalidArgumentError) where it does not."""
    fewer = _others(op, cops)
    strange = next((each for each in fewer if each not in op.controls), None)
    if strange is not None:
        raise errors.InvalidArgumentError(f"remove_control_inputs: {strange.name} is not a control_input of {op.name}; leave "
                                          "it out")
    ops.rewire({op: (op.inputs, [each for each in op.controls if each not in fewer])})


def _others(op: Any, cops: Any) -> list[Operation]:
    if not isinstance(op, Operation):
        raise errors.DtypeError(f"graph_editor: Expected a tf.Operation, got: {type(op).__name__}; pass an operation")
    return make_list_of_op(cops, allow_graph=False)


# parts taken out

def detach_control_inputs(sgv: Any) -> None:
    """Let no operation of a part wait for others than its own."""
    view = make_view(sgv)
    inside = set(view.ops)
    ops.rewire({op: (op.inputs, [each for each in op.controls if each in inside]) for op in view.ops})


def detach_control_outputs(sgv: Any, control_outputs: ControlOutputs) -> None:
    """Let no other operation wait for one of a part."""
    view = make_view(sgv)
    inside, known = set(view.ops), control_outputs.update()
    later = dict.fromkeys(each for op in view.ops for each in known.get(op) if each not in inside)
    ops.rewire({op: (op.inputs, [each for each in op.controls if each not in inside]) for op in later})


def detach_inputs(sgv: Any, control_inputs: bool = False) -> tuple[SubGraphView, list[Tensor]]:
    """(a part, the placeholders that it reads now instead of its inputs). Variables stay what they are."""
    view = make_view(sgv)
    values = [t for t in view.inputs if t.dtype is not resource]
    fed = _fed(values)
    _reroute(fed, values, False, [*view.ops, *get_consuming_ops(view.passthroughs)], None)
    instead = dict(zip(values, fed))
    view._take_inputs([instead.get(t, t) for t in view.inputs], [instead.get(t, t) for t in view.passthroughs])
    if control_inputs:
        detach_control_inputs(view)
    return view, fed


def _fed(values: Sequence[Tensor]) -> list[Tensor]:
    if not values:
        return []
    graph = values[0].graph
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        return [make_placeholder_from_tensor(t) for t in values]


def detach_outputs(sgv: Any, control_outputs: ControlOutputs | None = None) -> tuple[SubGraphView, list[Tensor]]:
    """(a view of a part with the outputs that others read, the placeholders that these read now instead)."""
    view = make_view(sgv)
    inside = set(view.ops)
    view = view.remap_outputs([t for t in dict.fromkeys(view.outputs) if any(op not in inside for op in t.consumers())])
    fed = _fed(view.outputs)
    _reroute(fed, view.outputs, False, view.consumers(), None)
    if control_outputs is not None:
        detach_control_outputs(view, control_outputs)
    return view, fed


def detach(sgv: Any, control_inputs: bool = False, control_outputs: ControlOutputs | None = None,
           control_ios: ControlOutputs | None = None) -> tuple[SubGraphView, list[Tensor], list[Tensor]]:
    """(a part, the placeholders that it reads, those that others read in place of its outputs); `control_ios` stands for both
    options before it."""
    view, entering = detach_inputs(sgv, control_inputs or control_ios is not None)
    _, leaving = detach_outputs(view, control_outputs or control_ios)
    return view, entering, leaving


def connect(sgv0: Any, sgv1: Any, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """The second part reads the outputs of the first, which others read no more with `disconnect_first`: (views)."""
    one, two = _views(sgv0, sgv1)
    if disconnect_first:
        detach_outputs(one)
    reroute_inputs(SubGraphView(passthrough_ts=one.outputs), two)
    return one, two


def bypass(sgv: Any) -> tuple[SubGraphView, list[Tensor]]:
    """What reads outputs of a part reads its inputs instead: (the part, the placeholders that it reads now)."""
    view = make_view(sgv)
    inputs = view.inputs
    view, fed = detach_inputs(view)
    reroute_ts(inputs, view.outputs)
    return view, fed
