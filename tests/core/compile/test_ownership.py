"""Who may keep, alias and overwrite which array: what kernels of users and of the house give, take and leave alone."""
from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.opdef import registry
from workbench.core.kernels.options import KernelOptions
from workbench.core.run.local import LocalBackend
from workbench.core.run.session import Session
from workbench.core.state.container import Container, Context

X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5.0
FOLLOWERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "fetch": (lambda y: y, lambda y: y),
    "library": (lambda y: wb.nn.relu(y), lambda y: np.maximum(y, 0)),
    "ufunc": (lambda y: y + y, lambda y: 2 * y),
    "fused": (lambda y: wb.tanh(y * 2.0 + 1.0) * y, lambda y: np.tanh(y * 2 + 1) * y),
    "view": (lambda y: wb.reshape(y, [-1]) * 1.0, lambda y: y.reshape(-1)),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[wb.Graph]:
    before = set(registry)
    with wb.Graph().as_default() as graph:
        yield graph
    for name in set(registry) - before:
        del registry[name]


def defined(function: Callable[..., Any], signature: str = "x[a,b] -> [a,b]", **options: Any) -> Any:
    """An operation of a user's."""
    wb.op(signature, name="mine", **options)(function)
    return ops.mine


def run(fetch: Any, feeds: Any = None) -> Any:
    with Session() as session:
        return session.run(fetch, feeds)


# what a kernel gives is fitted

@pytest.mark.parametrize("follower", FOLLOWERS)
@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: np.asfortranarray(x),
                                  lambda x: np.broadcast_to(x[:1], x.shape)], ids=["rows", "columns", "fortran", "broadcast"])
def test_strided_results_are_read_as_what_they_mean(view, follower):
    build, meaning = FOLLOWERS[follower]
    x = wb.placeholder("float32", [4, 3])
    np.testing.assert_allclose(run(build(defined(view)(x)), {x: X}), meaning(view(X)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("follower", FOLLOWERS)
def test_unaligned_results_are_copied(follower):
    def kernel(x):
        raw = np.zeros(x.nbytes + 1, np.uint8)
        view = raw[1:].view(x.dtype).reshape(x.shape)
        view[...] = x
        return view
    build, meaning = FOLLOWERS[follower]
    x = wb.placeholder("float32", [4, 3])
    np.testing.assert_allclose(run(build(defined(kernel)(x)), {x: X}), meaning(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("follower", FOLLOWERS)
@pytest.mark.parametrize("row", ["resize", "where_indices"])
def test_operations_of_the_house_give_contiguous_arrays(row, follower):
    build, meaning = FOLLOWERS[follower]
    if row == "resize":
        images = np.random.default_rng(0).random((2, 3, 4, 2)).astype(np.float32)
        x = wb.placeholder("float32", images.shape)
        y = ops.resize(x, [6, 8], method="nearest")
        wanted = images.repeat(2, 1).repeat(2, 2)
    else:
        images = X > 0
        x = wb.placeholder("bool", images.shape)
        y = wb.cast(wb.where(x), "float32")
        wanted = np.argwhere(images).astype(np.float32)
    np.testing.assert_allclose(run(build(y), {x: images}), meaning(wanted), rtol=1e-5, atol=1e-6)


LIES = [
    (lambda x: x.astype(np.float64), errors.DtypeError,
     "mine: its kernel gave float64 but the output is declared float32; return an array of float32, or correct types= of "
     "the operation"),
    (lambda x: x[1:], errors.ShapeError,
     "mine: its kernel gave shape [3, 3] but the output is declared [4,3]; return that shape, or correct the signature of the "
     "operation"),
    (lambda x: x.ravel(), errors.ShapeError, "mine: its kernel gave shape [12] but the output is declared [4,3]; "),
    (lambda x: x.astype(">f4"), errors.DtypeError, "mine: its kernel gave >f4 but the output is declared float32; "),
    (lambda x: np.ma.masked_less(x, x.max()), errors.InvalidArgumentError,
     "mine: its kernel's result: 11 of 12 elements are masked but a tensor has no mask; "),
    (lambda x: None, errors.DtypeError, "mine: its kernel gave object but the output is declared float32; "),
    (lambda x: "text", errors.DtypeError, "mine: its kernel gave <U4 but the output is declared float32; "),
]


NAMES_OF_LIES = ["dtype", "short", "rank", "order", "mask", "none", "text"]


@pytest.mark.parametrize("follower", FOLLOWERS)
@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("kernel, kind, text", LIES, ids=NAMES_OF_LIES)
def test_a_kernel_that_lies_is_named(kernel, kind, text, constant, follower):
    x = wb.constant(X) if constant else wb.placeholder("float32", [4, 3])
    y = FOLLOWERS[follower][0](defined(kernel)(x))
    with pytest.raises(kind) as error:
        run(y, {} if constant else {x: X})
    assert str(error.value).startswith(text) and "operation: 'mine'" in str(error.value)
    assert "built at: " in str(error.value)


@pytest.mark.parametrize("lowered", [False, True], ids=["body", "switch"])
@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("where", ["cond", "while"])
@pytest.mark.parametrize("kernel, kind, text", LIES, ids=NAMES_OF_LIES)
def test_a_kernel_that_lies_in_a_body_is_named(kernel, kind, text, where, constant, lowered):
    mine, yes = defined(kernel), wb.placeholder("bool", [])
    x = wb.constant(X) if constant else wb.placeholder("float32", [4, 3])
    y = wb.cond(yes, lambda: wb.nn.relu(mine(x)), lambda: wb.identity(x)) if where == "cond" else wb.while_loop(
        lambda i, y: i < 2, lambda i, y: (i + 1, wb.nn.relu(mine(x)) + y), [0, wb.zeros([4, 3])])[1]
    with Session(lower_all=lowered) as session, pytest.raises(kind) as error:
        session.run(y, {yes: True} if constant else {yes: True, x: X})
    assert str(error.value).startswith(text) and "mine" in str(error.value).split("operation: ")[1]


def test_a_branch_that_is_not_taken_may_hold_a_kernel_that_lies():
    mine, yes = defined(lambda x: x[1:]), wb.placeholder("bool", [])
    y = wb.cond(yes, lambda: mine(wb.constant(X)), lambda: wb.constant(X))
    np.testing.assert_array_equal(run(y, {yes: False}), X)


def test_a_value_that_a_kernel_lies_about_is_not_taken_for_known():
    """The lengths of a shape are asked for while the graph is built."""
    lengths = defined(lambda x: x.astype(np.float64), "x[n] -> [n]")(wb.constant([2, 3]))
    assert wb.reshape(wb.placeholder("float32", [6]), lengths).shape.sizes == (None, None)
    with pytest.raises(errors.DtypeError, match="mine: its kernel gave float64 but the output is declared int32"):
        run(lengths)


def test_a_kernel_that_raises_at_constants_raises_when_it_runs():
    y = defined(lambda x: x.nothing)(wb.constant(X))
    with pytest.raises(errors.Error, match=r"mine: .*nothing"):
        run(y)


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("kernel, text", [
    (lambda x: np.array([b"a", b"b"]), r"mine: its kernel gave \|S1 but the output is declared string; "),
    (lambda x: np.array(["a", "b"], object), "mine: its kernel gave the output an element of str but it is declared string; "
                                             "return an array of object that holds bytes"),
    (lambda x: np.array([b"a", None], object), "mine: its kernel gave the output an element of NoneType but "),
    (lambda x: np.array([[b"a"], [b"b"]], object), r"mine: its kernel gave shape \[2, 1\] but "),
], ids=["fixed", "str", "none", "rank"])
def test_text_that_is_no_text_is_named(kernel, text, constant):
    x = wb.constant(X) if constant else wb.placeholder("float32", [4, 3])
    words = defined(kernel, "x[a,b] -> [2]", types="float32 -> string")(x)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        run(wb.equal(words, wb.constant([b"a", b"b"])), {} if constant else {x: X})


def test_text_of_a_kernel_is_read():
    x = wb.placeholder("float32", [4, 3])
    words = defined(lambda x: np.array([b"a", b"b"], object), "x[a,b] -> [2]", types="float32 -> string")(x)
    assert run(wb.equal(words, wb.constant([b"a", b"c"])), {x: X}).tolist() == [True, False]


def test_a_view_is_no_option_of_users():
    with pytest.raises(errors.InvalidArgumentError, match="@op mine: view=True is for operations of this package"):
        defined(lambda x: x.T, "x[a,b] -> [b,a]", view=True)


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
def test_a_kernel_may_turn_its_input(constant):
    x = wb.constant(X) if constant else wb.placeholder("float32", [4, 3])
    y = wb.matmul(defined(lambda x: x.T, "x[a,b] -> [b,a]")(x), np.eye(4, dtype=np.float32))
    np.testing.assert_array_equal(run(y, {} if constant else {x: X}), X.T)


def test_a_ufunc_that_gives_another_dtype_is_named():
    x = wb.placeholder("int32", [3])
    wrong = defined(lambda x: np.sqrt(x), "x[n] -> [n]", types="T -> T", ufunc=np.sqrt)
    with pytest.raises(errors.DtypeError, match="mine: its kernel gave float64 but the output is declared int32"):
        run(wrong(x), {x: np.array([1, 4, 9], np.int32)})


def test_what_is_known_of_an_unknown_shape_is_checked():
    x = wb.placeholder("float32", [4, 3])
    some = defined(lambda x: x[:, :2][1:], "x[a,b] -> [_,b]")
    with pytest.raises(errors.ShapeError) as error:
        run(wb.nn.relu(some(x)), {x: X})
    assert str(error.value).startswith("mine: its kernel gave shape [3, 2] but the output is declared [?,3]; ")


def test_a_kernel_with_too_few_results_is_named():
    x = wb.placeholder("float32", [4, 3])
    two = defined(lambda x: (x,), "x[a,b] -> [a,b] [a,b]")
    with pytest.raises(errors.InvalidArgumentError) as error:
        run(two(x)[0] + 1.0, {x: X})
    assert str(error.value).startswith("mine: its kernel gave 1 values for 2 outputs; return a tuple with one array for each")


def test_numbers_of_the_right_type_become_arrays():
    x = wb.placeholder("float32", [4, 3])
    total = defined(lambda x: x.sum(), "x[a,b] -> []")
    result = run([total(x), total(x) + 1.0], {x: X})
    assert result == [X.sum(), X.sum() + 1] and result[0].dtype == np.float32


# what a kernel is given stays as it is

@pytest.mark.parametrize("source", ["feed", "variable", "arena", "constant"])
def test_a_kernel_may_not_write_its_inputs(source):
    def kernel(x):
        x += 1.0
        return x
    mine = defined(kernel)
    x = wb.placeholder("float32", [4, 3])
    v = wb.Variable(X)
    given = {"feed": x, "variable": v.read_value(), "arena": wb.matmul(x, np.eye(3, dtype=np.float32)),
             "constant": wb.constant(X)}[source]
    y, fed = mine(given), X.copy()
    with Session() as session:
        session.run(v.initializer)
        with pytest.raises(errors.InvalidArgumentError, match=r"mine: .*read-only"):
            session.run(y, {x: fed})
        np.testing.assert_array_equal(session.run(v), X)
    np.testing.assert_array_equal(fed, X)


# what is kept is a copy

class Shelf:
    """What a user's operation keeps from one step to another."""

    def __init__(self) -> None:
        self.kept: list[Any] = []


def shelf_operations(**options: Any) -> tuple[Any, Any]:
    def put(context: Context, x):
        context.container.get("shelf", Shelf, Shelf).kept.append(x)
        return ()

    def look(context: Context):
        return context.container.get("shelf", Shelf, Shelf).kept[0]
    state = {"context": True, "stateful": True, "differentiable": False}
    wb.op("x[a,b] ->", types="T ->", name="put", **state, **options)(put)
    wb.op("-> [4,3]", types="-> float32", name="look", **state)(look)
    return ops.put, ops.look


@pytest.mark.parametrize("source", ["feed", "arena", "variable"])
def test_what_an_operation_keeps_is_its_own(source):
    put, look = shelf_operations()
    x, v = wb.placeholder("float32", [4, 3]), wb.Variable(X)
    product = wb.matmul(x, np.eye(3, dtype=np.float32))
    kept = {"feed": x, "arena": product, "variable": v.read_value()}[source]
    keep, over = put(kept), wb.matmul(wb.matmul(product + 1.0, np.eye(3, dtype=np.float32)), np.ones((3, 3), np.float32))
    more = wb.assign_add(v, np.ones((4, 3), np.float32))
    with Session() as session:
        session.run(v.initializer)
        fed = X.copy()
        session.run([keep, over], {x: fed})
        fed[...] = -99
        session.run([more.op, over], {x: X})
        np.testing.assert_array_equal(session.run(look()), X)


def test_fetches_of_operations_with_a_context_belong_to_the_caller():
    put, look = shelf_operations()
    x = wb.placeholder("float32", [4, 3])
    keep, seen = put(x), look()
    with Session() as session:
        session.run(keep, {x: X})
        first = session.run(seen)
        first[...] = -99
        np.testing.assert_array_equal(session.run(seen), X)


def source(y, *feeds):
    from workbench.core.compile.plan import compile_plan
    from workbench.core.passes.prune import prune
    return compile_plan(prune(y.graph, [y], [], {x: x.shape for x in feeds})).source


def test_random_numbers_are_fetched_without_a_copy():
    assert ".copy()" not in source(wb.random_uniform([3]))


def test_rows_of_a_product_or_of_a_table_become_a_list_without_a_copy():
    """A product of another shape, as a recurrence reads it, and what is gathered by an index that lies in planned memory."""
    x, table = wb.placeholder("float32", [4, 3]), wb.Variable(X)
    where = wb.placeholder("int32", [2, 3])
    for rows, feed, wanted in ((wb.reshape(wb.matmul(x, np.eye(3, dtype=np.float32)), [2, 2, 3]), {x: X}, X.reshape(2, 2, 3)),
                               (wb.gather(table, wb.transpose(where)), {where: [[0, 1, 3]] * 2}, X[[[0, 0], [1, 1], [3, 3]]])):
        turned = wb.TensorArray("float32", int(rows.shape[0])).unstack(rows)
        later = wb.matmul(wb.matmul(x, np.ones((3, 3), np.float32)), np.ones((3, 3), np.float32))
        y = wb.stack([turned.read(1), turned.read(0)])
        assert ".copy()" not in source(y, *feed)
        with Session() as session:
            session.run(table.initializer)
            found = session.run([y, later], {x: X, **feed})[0]
        np.testing.assert_array_equal(found, wanted[[1, 0]])


@pytest.mark.parametrize("known", ["nobody", "a name", "a view", "a weak reference", "its base"])
def test_a_result_to_which_nothing_else_refers_is_fetched_as_it_is(known):
    seen: list[Any] = []

    def doubled(x):
        result = x * 2
        seen[:] = [id(result), {"a name": result, "a view": result[:1], "a weak reference": weakref.ref(result)}.get(known)]
        return result[:] if known == "its base" else result

    x = wb.placeholder("float32", [3])
    found = run(defined(doubled, "x[n] -> [n]")(x), {x: np.ones(3, np.float32)})
    assert (id(found) == seen[0]) == (known == "nobody")
    np.testing.assert_array_equal(found, [2, 2, 2])


def test_a_result_that_is_fetched_twice_is_two_arrays():
    x = wb.placeholder("float32", [3])
    one, other = run([wb.ops.cumsum(x), wb.ops.cumsum(x)], {x: np.ones(3, np.float32)})
    one[...] = 9
    np.testing.assert_array_equal(other, [1, 2, 3])


def test_a_data_set_keeps_its_own_rows():
    """The product lies in memory that the rest of the step writes over."""
    x = wb.placeholder("float32", [4, 4])
    one = wb.matmul(x, x)
    iterator = wb.data.Dataset.from_tensor_slices(one).make_initializable_iterator()
    row = iterator.get_next()
    rest = wb.matmul(wb.matmul(wb.matmul(x + 1.0, x), x + 2.0), x)
    with Session() as session:
        fed = np.eye(4, dtype=np.float32)
        session.run([iterator.initializer, rest], {x: fed})
        fed[...] = 7
        for index in range(4):
            np.testing.assert_array_equal(session.run(row), np.eye(4, dtype=np.float32)[index])


@pytest.mark.parametrize("constant", [False, True])
def test_rows_of_a_data_set_belong_to_the_caller(constant):
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    x = wb.constant(data) if constant else wb.placeholder("float32", [3, 2])
    iterator = wb.data.Dataset.from_tensor_slices(x).make_initializable_iterator()
    row = iterator.get_next()
    feeds = {} if constant else {x: data}
    with Session() as session:
        for _ in range(2):
            session.run(iterator.initializer, feeds)
            found = session.run(row)
            np.testing.assert_array_equal(found, [0, 1])
            found[...] = -5
    np.testing.assert_array_equal(data, np.arange(6).reshape(3, 2))


def test_fetched_text_belongs_to_the_caller():
    x = wb.placeholder("string", [2])
    text = np.array([b"a", b"b"], object)
    found = run(wb.identity(x), {x: text})
    found[0] = b"z"
    assert text.tolist() == [b"a", b"b"]


# what is made for a variable alone becomes its buffer

LARGE = 17 << 20      # elements: 68 MiB of float32


def most(session: Session, target: Any) -> int:
    """The bytes that arrays take at most while `target` runs for the first time, plans and what stays included."""
    tracemalloc.start()
    try:
        session.run(target)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["filled", "drawn"])
def test_a_large_initial_value_is_not_held_twice(kind):
    one = wb.placeholder_with_default(np.float32(1.0), [])
    made = {"filled": lambda: wb.fill([LARGE], one), "drawn": lambda: wb.random_uniform([LARGE], seed=1)}[kind]
    v, w = (wb.Variable(made, name=name, dtype="float32") for name in "vw")      # which share what was filled
    with Session() as session:
        assert most(session, [v.initializer, w.initializer]) < 2.2 * 4 * LARGE
        before = session.run([v[:2], w[-2:]])
        assert session.backend.container.device("/job:localhost/task:0/device:CPU:0").memory.used == 2 * 4 * LARGE
        session.run([v.assign_add(wb.fill([LARGE], 1.0)).op, w.initializer])
        np.testing.assert_array_equal(session.run(v[:2]), before[0] + 1)
        if kind != "drawn":
            np.testing.assert_array_equal(session.run(w[-2:]), before[1])


def test_what_others_read_as_well_is_copied_into_the_variable():
    one = wb.placeholder_with_default(np.float32(1.0), [])
    value = wb.fill([LARGE], one)
    v, w = wb.Variable(value, name="v"), wb.Variable(value, name="w")
    with Session() as session:
        session.run([v.initializer, w.initializer])
        session.run([v.assign_add(wb.fill([LARGE], one)).op, w.assign_sub(wb.fill([LARGE], one)).op])
        assert session.run([v[0], w[0]]) == [2.0, 0.0]
        fetched, _ = session.run([value, v.initializer])
        fetched[:] = 5
        assert session.run(v[0]) == 1.0


# what is sent to another task

@pytest.mark.parametrize("libraries", [None, ()], ids=["compiled", "ufunc"])
def test_what_is_sent_is_made_where_the_task_says(libraries):
    container, made = Container(), []

    class Outgoing:
        def empty(self, shape, dtype):
            made.append(np.empty(shape, dtype))
            return made[-1]

        def look_back(self) -> None:
            """Nobody gives anything back."""
    container.outgoing = Outgoing()

    class Process:
        def backend(self) -> Any:
            return LocalBackend({"CPU": 2}, container=container)
    large = np.tile(X, (30_000, 1))
    x = wb.placeholder("float32", large.shape)
    with wb.device("/device:CPU:0"):
        y, small, kept = x * 0.5, x[0] * 0.5, x - 1.0
    with wb.device("/device:CPU:1"):
        z = wb.reduce_sum(y * small, 1)
    kernels = None if libraries is None else KernelOptions(libraries=libraries)
    with Session(Process(), kernels=kernels) as session:
        for _ in range(2):
            found = session.run([z, kept], {x: large})
    np.testing.assert_allclose(found[0], (large * 0.5 * large[0] * 0.5).sum(1), rtol=1e-5)
    assert len(made) == 2 and all(np.array_equal(one, large * 0.5) for one in made)
