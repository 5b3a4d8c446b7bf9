"""Defun: functions as parts of a graph, each call one operation, with gradients of their own where they have them."""
from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.grad import RegisterGradient, gradients
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.core.graph.text import to_text
from workbench.nn.scopes import get_variable_scope, variable_scope

__all__ = ["Declare", "Defun", "functions_of", "remote_call", "symbolic_gradient"]

_numbers = itertools.count()


def functions_of(graph: Graph) -> dict[str, Function]:
    """The functions that the graph, with the bodies in it, has calls of, or was given: name -> function."""
    found: dict[str, Function] = root_graph(graph).held.setdefault("functions", {})
    return found


class Defun:
    """Decorator: a call of the function is one operation, whose type is the function's name; a step has the operations of the
    function in its place.

    `input_types` are the dtypes of its arguments; without them those of the arguments count, and each list of them makes a
    function of its own. `func_name` is its name, by default the Python function's, with a number where that is taken.
    `grad_func(*inputs, *output gradients)`, or `python_grad_func(operation, *output gradients)`, whose operation is the call,
    gives the gradient of each input; without them it follows from the function's operations. `shape_func(operation)` gives the
    shapes of the results, which are added to what follows from the operations. `out_names` are what the results are called in
    its definition; `noinline` is told to others who read the graph; nothing here is compiled apart (`compiled`). What it reads
    from outside stays as it is: `captured_inputs`. InvalidArgumentError for another number of arguments, DtypeError for other
    dtypes.
    """

    def __init__(self, *input_types: Any, func_name: str | None = None, grad_func: Any = None,
                 python_grad_func: Callable[..., Any] | None = None, out_names: Sequence[str] | None = None,
                 shape_func: Any = None, noinline: bool = False, compiled: bool | None = None,
                 separate_compiled_gradients: bool | None = None) -> None:
        if grad_func is not None and python_grad_func is not None:
            raise errors.InvalidArgumentError("Defun: grad_func and python_grad_func are two ways to give one gradient "
                                              "(Gradient defined twice); give one")
        self._types = [as_dtype(t) for t in input_types]
        self._options = {"func_name": func_name, "grad_func": grad_func, "python_grad_func": python_grad_func,
                         "out_names": out_names, "shape_func": shape_func, "noinline": noinline}

    def __call__(self, function: Callable[..., Any]) -> Any:
        """The function; what cannot be told of types is asked at its calls."""
        if not callable(function):
            raise errors.InvalidArgumentError(f"Defun: {function!r} is of {type(function).__name__}; decorate a function")
        least, most = _taken(function)
        count, name = len(self._types), self._options["func_name"] or _called(function)
        if count > most or (self._types and count < least):
            raise errors.InvalidArgumentError(f"Defun: {name} takes {least} arguments but {count} input types are given (The "
                                              "function has fewer or more arguments than the number of specified input "
                                              "types.); give the type of each")
        if self._types or most == 0:
            return Function(function, self._types, **self._options)
        return Overloaded(function, **self._options)


def _taken(function: Callable[..., Any]) -> tuple[int, float]:
    """How many arguments by position a function needs, and how many it takes."""
    parameters = inspect.signature(function).parameters.values()
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if len(plain) + any(p.kind is p.VAR_POSITIONAL for p in parameters) < len(parameters):
        raise errors.InvalidArgumentError(f"Defun: {_called(function)} takes arguments by name or with defaults (Functions "
                                          "with argument defaults or keyword arguments are not supported.); take each by "
                                          "position")
    return len(plain), len(plain) if len(plain) == len(parameters) else float("inf")


class Declare:
    """A function that is defined later, by its name: `inputs` and `outputs` are lists of (name, dtype). Calls, from within
    other functions too, are those of the function that Defun has given that name by then.

    NotFoundError for a call before that.
    """

    def __init__(self, func_name: str, inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]) -> None:
        self.name = func_name
        self.declared_input_types = [as_dtype(dtype) for _, dtype in inputs]
        self.declared_output_types = [as_dtype(dtype) for _, dtype in outputs]

    def __call__(self, *inputs: Any, name: str | None = None) -> Any:
        """A call of the function of that name."""
        found = functions_of(get_default_graph()).get(self.name)
        if found is None:
            raise _unknown("Declare", self.name)
        return found(*inputs, name=name)


def _unknown(where: str, name: str) -> errors.NotFoundError:
    return errors.NotFoundError(f"{where}: function {name!r} is not defined yet; define it with Defun(func_name={name!r}) and "
                                "add it to the graph (add_to_graph) first")


class Function:
    """What Defun makes: call it with tensors."""

    def __init__(self, function: Callable[..., Any], types: Sequence[DType], func_name: str | None = None,
                 grad_func: Any = None, python_grad_func: Callable[..., Any] | None = None,
                 out_names: Sequence[str] | None = None, shape_func: Callable[..., Any] | None = None,
                 noinline: bool = False) -> None:
        self._function, self.declared_input_types = function, tuple(types)
        self.grad_func, self.python_grad_func, self.out_names = grad_func, python_grad_func, out_names
        self._shapes, self.noinline, self._building = shape_func, noinline, False
        self._name, self._title = func_name or "", ""
        self._first: Any = None
        self._scope: Any = None
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the function returns for these arguments: the results of a call in the default graph, or the call."""
        name, apart = options.pop("name", None), options.pop("noinline", self.noinline)
        for hint in ("compiled", "separate_compiled_gradients"):      # which change no value
            options.pop(hint, None)
        if options:
            raise errors.InvalidArgumentError(f"{self._label}: a call takes name= and noinline=, not {', '.join(options)} "
                                              "(Unknown keyword arguments); leave them out")
        if len(args) != len(self.declared_input_types):
            raise errors.InvalidArgumentError(f"{self._label}: {len(args)} arguments were given but it takes "
                                              f"{len(self.declared_input_types)} (Expected number of arguments: "
                                              f"{len(self.declared_input_types)}); give each")
        graph = get_default_graph()
        inputs = [convert(arg, dtype) for arg, dtype in zip(args, self.declared_input_types)]
        body = self._body(graph, [t.shape for t in inputs])
        self.add_to_graph(graph)
        with graph.gradient_override_map({"call": self._own_gradient()} if self._own_gradient() else {}):
            call = ops.call_function(self.name, body, inputs, graph.unique_name(name or self.name) + "/", bool(apart))
        if self._shapes is not None:
            for output, shape in zip(call.outputs, self._shapes(call)):
                output.set_shape(shape)
        found = call.outputs[:len(body.titles)]
        return call if not found else found[0] if len(found) == 1 else tuple(found)

    @property
    def _label(self) -> str:
        return self._name or _called(self._function)

    @property
    def name(self) -> str:
        """Its name in every graph: `func_name`, or the Python function's with eight letters behind it that follow from what it
        does."""
        if not self._name:
            body = self.body()
            text = f"{[t.dtype.name for t in body.arguments]} {to_text(body)} {[t.name for t in body.results]}"
            self._name = f"{_called(self._function)}_{hashlib.sha1(text.encode()).hexdigest()[:8]}"
        return self._name

    def add_to_graph(self, graph: Graph) -> None:
        """Let the graph have the function, called or not, with the one that is its gradient.

        InvalidArgumentError where the graph has another function of that name.
        """
        known = functions_of(graph).setdefault(self.name, self)
        if known is not self and to_text(known.body()) != to_text(self.body()):
            raise errors.InvalidArgumentError(f"Defun: the graph has another function {self.name!r} already (Another function "
                                              "is already defined with that name); give func_name another name")
        if isinstance(self.grad_func, Function):
            self.grad_func.add_to_graph(graph)

    # what it is made of
    def body(self) -> Any:
        """Its body as the first call has it, or for arguments of any shape where there was none yet."""
        return self._first or self._body(get_default_graph(), [Shape(None)] * len(self.declared_input_types))

    def _body(self, graph: Graph, shapes: Sequence[Shape]) -> Any:
        known = graph.held.setdefault(("bodies", self), {})      # held itself: a number may be another's later
        if tuple(shapes) not in known:
            if self._building:
                raise errors.InvalidArgumentError(f"{self._label}: the function calls itself; write it with "
                                                  "while_loop")
            self._building = True
            try:
                with self._variables(graph):
                    known[tuple(shapes)] = self._traced(shapes)
            finally:
                self._building = False
        self._first = self._first or known[tuple(shapes)]
        return known[tuple(shapes)]

    def _variables(self, graph: Graph) -> contextlib.AbstractContextManager[Any]:
        """Whatever shapes it is called with, and in which scope: the variables are those that its first body made."""
        root = root_graph(graph)
        if self._scope is None or self._scope[0] is not root:
            self._scope = root, get_variable_scope()
            return contextlib.nullcontext()
        return variable_scope(self._scope[1], reuse=True)

    def _traced(self, shapes: Sequence[Shape]) -> Any:
        arguments = [*zip(self._titles(), self.declared_input_types, shapes)]
        return ops.function_body(self._label, self._function, arguments, self.out_names)

    def _titles(self) -> list[str]:
        """What the arguments are called."""
        names = [p.name for p in inspect.signature(self._function).parameters.values() if p.kind is not p.VAR_POSITIONAL]
        count = len(self.declared_input_types)
        return [*names, *(f"arg_{i}" for i in range(len(names), count))][:count]

    def _own_gradient(self) -> str:
        """The name under which its own gradient is registered, "" without one."""
        if not self._title and (self.grad_func is not None or self.python_grad_func is not None):
            self._title = f"{self.name}-{next(_numbers)}"
            RegisterGradient(self._title)(self._slopes)
        return self._title

    def _slopes(self, call: Operation, *dys: Any) -> list[Any]:
        count = len(self.declared_input_types)
        if self.python_grad_func is not None:
            found = self.python_grad_func(call, *dys)
        else:
            found = self.grad_func(*call.inputs[:count], *dys)
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        return listed + [None] * (len(call.inputs) - count) * (len(listed) == count)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """The tensors from outside that it reads."""
        return [outer for outer, _ in self.body().captures]

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """Name and type of what in it uses state or draws numbers."""
        return [(op.name, op.type) for op in self.body().operations if op.definition.stateful]

    @property
    def grad_func_name(self) -> str | None:
        """The name of the function that is its gradient, None without one."""
        return getattr(self.grad_func, "name", None)

    @property
    def definition(self) -> Any:
        """Its FunctionDef. UnimplementedError where it uses what TensorFlow has not."""
        from workbench.formats.writer import function_def  # protocol buffers are loaded when somebody asks for one

        return function_def(self)


def _called(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__).strip("<>_") or "function"


class Overloaded:
    """A function of arguments of any dtypes: for each list of them a Function of its own, with the dtypes in a given name."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._function, self._options = function, options
        self._made: dict[tuple[DType, ...], Function] = {}
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        """What the function returns for these arguments."""
        inputs = [convert(arg) for arg in args]
        return self.instantiate([t.dtype for t in inputs])(*inputs, name=name)

    def instantiate(self, input_types: Sequence[Any]) -> Function:
        """The function for arguments of these dtypes."""
        types = tuple(as_dtype(t) for t in input_types)
        if types not in self._made:
            given = self._options["func_name"]
            name = "_".join([given, *(t.name for t in types)]) if given else None
            self._made[types] = Function(self._function, types, **{**self._options, "func_name": name})
        return self._made[types]

    @property
    def captured_inputs(self) -> list[Tensor]:
        """The tensors from outside that it reads, for any of the dtypes so far."""
        return list(dict.fromkeys(t for made in self._made.values() for t in made.captured_inputs))


# operations that take functions

def _named(where: str, f: Any) -> Any:
    """A function of the default graph by its name, or itself."""
    if not isinstance(f, (str, bytes)):
        return f
    name = f if isinstance(f, str) else f.decode()
    known = functions_of(get_default_graph())
    if name not in known:
        raise _unknown(where, name)
    return known[name]


def symbolic_gradient(input: Sequence[Any], Tout: Sequence[Any], f: Any, name: str | None = None) -> Any:
    """The gradients by its arguments of a function, or of the one of that name: `input` is its arguments and then the gradients
    of its results; as many as `Tout`, zeros where it does not depend on an argument. NotFoundError for an unknown name."""
    function, count = _named("symbolic_gradient", f), len(Tout)
    with get_default_graph().name_scope(name or "SymbolicGradient"):
        xs = [convert(x) for x in input[:count]]
        made = function(*xs)
        ys = list(made) if isinstance(made, tuple) else [made]
        if len(ys) != len(input) - count:
            raise errors.InvalidArgumentError(f"symbolic_gradient: {function.name} has {len(ys)} results but "
                                              f"{len(input) - count} gradients of them were given, behind {count} arguments; "
                                              "give one of each")
        found = [ops.zeros_like(x) if dx is None else convert(dx) for x, dx in zip(xs, gradients(ys, xs, list(input[count:])))]
    return found[0] if count == 1 else found


def remote_call(args: Sequence[Any], Tout: Sequence[Any], f: Any, target: str, name: str | None = None) -> Any:
    """What a function, or the one of that name, returns for these arguments, of dtypes `Tout`; computed on device `target`."""
    if not isinstance(target, str):
        raise errors.UnimplementedError(f"remote_call: target is {target!r}, but where operations run is known before a step; "
                                        "give the name of a device")
    with get_default_graph().only_device(target):
        found = _named("remote_call", f)(*args, name=name)
    made = [t.dtype for t in (found if isinstance(found, (list, tuple)) else [found]) if isinstance(t, Tensor)]
    if made != [as_dtype(t) for t in Tout]:
        raise errors.InvalidArgumentError(f"remote_call: its function returns {[t.name for t in made]} but Tout is "
                                          f"{[as_dtype(t).name for t in Tout]}; make them agree")
    return found
