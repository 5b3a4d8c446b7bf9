"""Updates alone, their gradients given: Adam on 10 million parameters and on many small variables, descent and Adagrad on
4,096 rows of a large table.

    python -m benchmarks.optimizer_updates [adam] [adam_small] [rows] [adagrad_rows] [--rounds N] [--seconds S] [--processor]

Twenty variables of half a million float32 parameters; two hundred of a thousand; a table of a million rows of 128, of which
some are named twice.
Every framework in a process of its own, in turn; torch by its fused form where it has one, JAX with its arrays donated.
`--processor` compares processor time instead of what went by; then give every process one core (`taskset -c 1`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import choices
from benchmarks.neighbour import compare, framework

LARGE, SMALL = (20, 500_000), (200, 1_000)      # variables, and elements of each
ROWS, WIDTH, NAMED = 1_000_000, 128, 4096
RATE, START = 0.01, 0.1
COMPARED = 512
BAR = 0.7
Step = Callable[[], Any]
Made = tuple[Step, Callable[[], Any]]


def dense(sizes: tuple[int, int]) -> tuple[list[Any], list[Any]]:
    """(values, gradients) of the variables."""
    rng = np.random.default_rng(0)
    values, grads = (rng.standard_normal((2, *sizes), np.float32) * np.float32(0.1))
    return list(values), list(grads)


def table() -> tuple[Any, Any, Any]:
    """(table, gradients of rows, the rows)."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((ROWS, WIDTH), np.float32)
    return values, rng.standard_normal((NAMED, WIDTH), np.float32), rng.integers(0, ROWS, NAMED).astype(np.int64)


def adam_small(name: str) -> Made:
    return adam(name, SMALL)


def adam(name: str, sizes: tuple[int, int] = LARGE) -> Made:
    values, grads = dense(sizes)
    if name == "torch":
        torch = framework(name)
        learned = [torch.nn.Parameter(torch.from_numpy(v).clone()) for v in values]
        for p, g in zip(learned, grads):
            p.grad = torch.from_numpy(g).clone()
        optimizer = torch.optim.Adam(learned, RATE, fused=True)
        return optimizer.step, lambda: learned[0].detach().numpy()[:COMPARED]
    if name == "JAX jit":
        return jax_adam(framework(name), values, grads)
    return graph_updates(name, values, lambda tf: tf.train.AdamOptimizer(RATE), lambda tf: [tf.constant(g) for g in grads],
                         np.arange(COMPARED))


def jax_adam(jax: Any, values: list[Any], grads: list[Any]) -> Made:
    jnp = jax.numpy

    def one(p: Any, m: Any, v: Any, g: Any, rate: Any) -> Any:
        m, v = m + 0.1 * (g - m), v + 0.001 * (g * g - v)
        return p - rate * m / (jnp.sqrt(v) + 1e-8), m, v

    def all_of(state: Any, time: Any, grads: Any) -> Any:
        rate = RATE * jnp.sqrt(1 - 0.999 ** time) / (1 - 0.9 ** time)
        return [one(p, m, v, g, rate) for (p, m, v), g in zip(state, grads)], time + 1
    update = jax.jit(all_of, donate_argnums=0)
    given = [jnp.asarray(g) for g in grads]
    now = [([(jnp.asarray(v), jnp.zeros(v.size), jnp.zeros(v.size)) for v in values], jnp.float32(1.0))]

    def step() -> None:
        now[0] = update(*now[0], given)
        now[0][0][-1][0].block_until_ready()
    return step, lambda: np.asarray(now[0][0][0][0][:COMPARED])


def graph_updates(name: str, values: list[Any], optimizer: Callable[[Any], Any], grads: Callable[[Any], list[Any]],
                  some: Any) -> Made:
    """Ours and TensorFlow's, in the words that both share; `some` of the first variable are compared."""
    if name == "ours":
        framework(name)
        import workbench.tf1 as tf
    else:
        tf = framework(name).compat.v1
    options: dict[str, Any] = {} if name == "ours" else {"use_resource": True}
    with tf.Graph().as_default() as graph:
        first = [tf.placeholder(tf.float32, v.shape) for v in values]
        variables = [tf.Variable(f, **options) for f in first]
        step = optimizer(tf).apply_gradients(list(zip(grads(tf), variables)))
        look, start = tf.gather(variables[0], some), tf.global_variables_initializer()
    session = tf.Session(graph=graph)
    session.run(start, dict(zip(first, values)))
    run = session.make_callable(step)
    return run, lambda: session.run(look)


def rows(name: str) -> Made:
    return sparse(name, lambda tf: tf.train.GradientDescentOptimizer(RATE), "SGD")


def adagrad_rows(name: str) -> Made:
    return sparse(name, lambda tf: tf.train.AdagradOptimizer(RATE, START), "Adagrad")


def sparse(name: str, optimizer: Callable[[Any], Any], title: str) -> Made:
    values, grads, named = table()
    if name == "torch":
        torch = framework(name)
        weight = torch.nn.Parameter(torch.from_numpy(values))
        options = {"initial_accumulator_value": START, "eps": 0.0} if title == "Adagrad" else {}
        update = getattr(torch.optim, title)([weight], RATE, **options)
        places, given = torch.from_numpy(named[None]), torch.from_numpy(grads)

        def step() -> None:
            weight.grad = torch.sparse_coo_tensor(places, given, (ROWS, WIDTH))
            update.step()
        return step, lambda: weight.detach().numpy()[named[:COMPARED]]
    if name == "JAX jit":
        return jax_rows(framework(name), values, grads, named, title)
    return graph_updates(name, [values], optimizer, lambda tf: [
        tf.IndexedSlices(tf.constant(grads), tf.constant(named), tf.constant([ROWS, WIDTH]))], named[:COMPARED])


def jax_rows(jax: Any, values: Any, grads: Any, named: Any, title: str) -> Made:
    jnp = jax.numpy

    def all_of(weight: Any, accum: Any, grads: Any, named: Any) -> Any:
        if title == "SGD":
            return weight.at[named].add(-RATE * grads), accum
        found, places = jnp.unique(named, size=NAMED, fill_value=ROWS, return_inverse=True)
        total = jnp.zeros_like(grads).at[places].add(grads)
        accum = accum.at[found].add(total * total, mode="drop")
        return weight.at[found].add(-RATE * total / jnp.sqrt(accum[found]), mode="drop"), accum
    update = jax.jit(all_of, donate_argnums=(0, 1))
    given, places = jnp.asarray(grads), jnp.asarray(named)
    now = [(jnp.asarray(values), jnp.full((ROWS if title == "Adagrad" else 1, WIDTH), START, jnp.float32))]

    def step() -> None:
        now[0] = update(*now[0], given, places)
        now[0][0].block_until_ready()
    return step, lambda: np.asarray(now[0][0][places[:COMPARED]])


WORK = {"adam": ("Adam, 10 million parameters", adam), "adam_small": ("Adam, 200 small variables", adam_small),
        "rows": ("Descent, 4096 rows of a table", rows),
        "adagrad_rows": ("Adagrad, 4096 rows of a table", adagrad_rows)}


def main() -> None:
    given = choices(__doc__, WORK).parse_args()
    for name in given.work or WORK:
        title, work = WORK[name]
        compare(title + given.suffix, work, [0], False, given.rounds, given.seconds, BAR, given.processor)


if __name__ == "__main__":
    main()
