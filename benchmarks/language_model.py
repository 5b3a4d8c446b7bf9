"""Training step of an LSTM-512 language model: batch 20, unrolled over 20 words, vocabulary 10,000, float32, gradient descent.

    python -m benchmarks.language_model [full] [sampled] [full_loop] [sampled_loop] [--rounds N] [--seconds S]
                                        [--profile] [--processor]

Embedding, one LSTM of 512 units, and a softmax over all words or over 512 that are drawn once, so that all contestants
compute the same; every framework in a process of its own, in turn. Peers that are not installed are left out. The graph
frameworks unroll the steps, or with `_loop` run them by dynamic_rnn. `--profile` compares nobody: it prints on which
operations our own step spends its time.
"""
from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import choices
from benchmarks.neighbour import compare, framework

BATCH, STEPS, UNITS, WORDS, SAMPLED = 20, 20, 512, 10_000, 512
RATE = 0.1
BAR = 0.7
TRACED = 12
Step = Callable[[], Any]


def parameters() -> tuple[list[Any], Any, Any, Any]:
    """(embedding, kernel, bias, output weights [words, units], output bias), inputs and labels [batch, steps], the drawn words.

    Gates in the kernel's columns are ordered input, candidate, forget, output; its rows are those of [input, state].
    """
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)
    weights = [normal(WORDS, UNITS), normal(2 * UNITS, 4 * UNITS), normal(4 * UNITS), normal(WORDS, UNITS), normal(WORDS)]
    text = rng.integers(0, WORDS, (BATCH, STEPS + 1)).astype(np.int32)
    drawn = rng.choice(WORDS, SAMPLED, replace=False).astype(np.int32)
    return weights, np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:]), drawn


def full(name: str) -> tuple[Step, Callable[[], Any]]:
    return MAKERS[name](False, False)


def sampled(name: str) -> tuple[Step, Callable[[], Any]]:
    return MAKERS[name](True, False)


def full_loop(name: str) -> tuple[Step, Callable[[], Any]]:
    return MAKERS[name](False, True)


def sampled_loop(name: str) -> tuple[Step, Callable[[], Any]]:
    return MAKERS[name](True, True)


class Cell:
    """One step of the LSTM, as both graph frameworks call cells."""

    output_size, state_size = UNITS, (UNITS, UNITS)

    def __init__(self, tf: Any, kernel: Any, bias: Any) -> None:
        self.tf, self.kernel, self.bias = tf, kernel, bias

    def zero_state(self, batch: Any, dtype: Any) -> Any:
        return self.tf.zeros([batch, UNITS], dtype), self.tf.zeros([batch, UNITS], dtype)

    def __call__(self, row: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        tf, (c, h) = self.tf, state
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([row, h], 1), self.kernel), self.bias), 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (c, h)


def states(tf: Any, cell: Cell, words: Any, looped: bool) -> Any:
    """[STEPS * BATCH, UNITS]: the outputs of the LSTM for `words` [STEPS, BATCH, UNITS]."""
    state = cell.zero_state(BATCH, tf.float32)
    if looped:
        return tf.reshape(tf.nn.dynamic_rnn(cell, words, initial_state=state, time_major=True)[0], [-1, UNITS])
    outputs = []
    for row in tf.unstack(words, axis=0):
        h, state = cell(row, state)
        outputs.append(h)
    return tf.concat(outputs, 0)


def graph_model(tf: Any, reads: bool, only_sampled: bool, looped: bool) -> tuple[Any, list[Any], tuple[Any, Any]]:
    """(loss, variables, placeholders) in the words that both graph frameworks share."""
    weights, _, _, drawn = parameters()
    variables = [tf.Variable(value, **({"use_resource": True} if reads else {})) for value in weights]
    table, kernel, bias, out, out_bias = variables
    x, y = tf.placeholder(tf.int32, [BATCH, STEPS]), tf.placeholder(tf.int32, [BATCH, STEPS])
    rows = states(tf, Cell(tf, kernel, bias), tf.nn.embedding_lookup(table, tf.transpose(x)), looped)
    targets = tf.reshape(tf.transpose(y), [-1])
    if only_sampled:
        ones = tf.ones([SAMPLED])
        loss = tf.nn.sampled_softmax_loss(
            out, out_bias, tf.reshape(targets, [-1, 1]), rows, SAMPLED, WORDS,
            sampled_values=(tf.constant(drawn.astype(np.int64)), tf.ones([BATCH * STEPS, 1]), ones))
    else:
        logits = tf.nn.bias_add(tf.matmul(rows, out, transpose_b=True), out_bias)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf.reduce_mean(loss), variables, (x, y)


def ours(only_sampled: bool, looped: bool) -> tuple[Step, Callable[[], Any]]:
    import workbench.tf1 as tf
    framework("ours")
    return run(tf, False, only_sampled, looped)


def tf1(only_sampled: bool, looped: bool) -> tuple[Step, Callable[[], Any]]:
    return run(framework("TF1 session").compat.v1, True, only_sampled, looped)


def run(tf: Any, reads: bool, only_sampled: bool, looped: bool) -> tuple[Step, Callable[[], Any]]:
    session, step, feeds, variables = training(tf, reads, only_sampled, looped)
    return (lambda: session.run(step, feeds)), (lambda: session.run(variables[1]))


def training(tf: Any, reads: bool, only_sampled: bool, looped: bool) -> tuple[Any, Any, dict[Any, Any], list[Any]]:
    """A session, the training step, what it is fed, and the variables."""
    with tf.Graph().as_default() as graph:
        loss, variables, (x, y) = graph_model(tf, reads, only_sampled, looped)
        step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
        start = tf.global_variables_initializer()
    session = tf.Session(graph=graph)
    session.run(start)
    words, labels = parameters()[1:3]
    return session, step, {x: words, y: labels}, variables


def profile(title: str, only_sampled: bool, looped: bool) -> None:
    """Print the share of each kind of operation in our step: its shortest time of some traced steps."""
    import workbench.tf1 as tf
    session, step, feeds, _ = training(tf, False, only_sampled, looped)
    shortest: dict[str, float] = {}
    calls: Counter[str] = Counter()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    time.perf_counter = time.process_time      # what others on the machine do meanwhile does not count
    for turn in range(TRACED):
        found = tf.RunMetadata()
        session.run(step, feeds, options=options, run_metadata=found)
        spent: Counter[str] = Counter()
        for node in (node for device in found.step_stats.dev_stats for node in device.node_stats):
            kind = re.sub(r"_\d+(?=/|_grad|$)", "", node.node_name)
            spent[kind] += node.op_end_rel_micros
            calls[kind] += turn == 0
        shortest = {kind: min(shortest.get(kind, micros), micros) for kind, micros in spent.items()}
    total = sum(shortest.values())
    print(f"\n{title}: {sum(calls.values())} operations\n  share  calls  operations")
    for kind, micros in sorted(shortest.items(), key=lambda item: -item[1]):
        if micros >= total / 200:
            print(f"{micros / total:7.1%}  {calls[kind]:5}  {kind}")


def torch_model(only_sampled: bool, looped: bool) -> tuple[Step, Callable[[], Any]]:
    torch = framework("torch")
    (table, kernel, bias, out, out_bias), words, labels, drawn = parameters()
    order = [0, 2, 1, 3]      # torch: input, forget, candidate, output
    lstm = torch.nn.LSTM(UNITS, UNITS)
    gates = [torch.from_numpy(kernel.T.reshape(4, UNITS, 2 * UNITS)[order].reshape(4 * UNITS, 2 * UNITS).copy())]
    shift = bias.reshape(4, UNITS)[order] + np.array([0, 1, 0, 0], np.float32)[:, None]
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(gates[0][:, :UNITS])
        lstm.weight_hh_l0.copy_(gates[0][:, UNITS:])
        lstm.bias_ih_l0.copy_(torch.from_numpy(shift.reshape(-1)))
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(False)
    embedding = torch.nn.Embedding(WORDS, UNITS, sparse=True, _weight=torch.from_numpy(table.copy()))
    sparse = {"sparse": True} if only_sampled else {}
    weights = torch.nn.Embedding(WORDS, UNITS, _weight=torch.from_numpy(out.copy()), **sparse)
    biases = torch.nn.Embedding(WORDS, 1, _weight=torch.from_numpy(out_bias[:, None].copy()), **sparse)
    x, y = torch.from_numpy(words.T.astype(np.int64)), torch.from_numpy(labels.T.astype(np.int64)).reshape(-1)
    candidates = torch.from_numpy(drawn.astype(np.int64))
    hits = torch.where(y[:, None] == candidates, torch.finfo(torch.float32).min, 0.0)
    learned = [embedding.weight, lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, weights.weight, biases.weight]
    functional = torch.nn.functional

    def step() -> None:
        rows = lstm(embedding(x))[0].reshape(-1, UNITS)
        if only_sampled:
            true = (rows * weights(y)).sum(1, keepdim=True) + biases(y)
            others = rows @ weights(candidates).T + biases(candidates)[:, 0] + hits
            loss = functional.cross_entropy(torch.cat([true, others], 1), torch.zeros_like(y))
        else:
            loss = functional.cross_entropy(torch.addmm(biases.weight[:, 0], rows, weights.weight.T), y)
        loss.backward()
        with torch.no_grad():
            for value in learned:
                value.add_(value.grad, alpha=-RATE)
                value.grad = None

    def kernel_now() -> Any:
        joined = torch.cat([lstm.weight_ih_l0, lstm.weight_hh_l0], 1).detach().numpy()
        return joined.reshape(4, UNITS, 2 * UNITS)[[0, 2, 1, 3]].reshape(4 * UNITS, 2 * UNITS).T
    return step, kernel_now


def jax_model(only_sampled: bool, looped: bool) -> tuple[Step, Callable[[], Any]]:
    jax = framework("JAX jit")
    jnp = jax.numpy
    weights, words, labels, drawn = parameters()
    x, y = jnp.asarray(words.T), jnp.asarray(labels.T.reshape(-1))

    def cell(kernel: Any, bias: Any, state: Any, row: Any) -> tuple[Any, Any]:
        c, h = state
        i, j, f, o = jnp.split(jnp.concatenate([row, h], 1) @ kernel + bias, 4, 1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(j)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    def loss(values: Any) -> Any:
        table, kernel, bias, out, out_bias = values
        zero = jnp.zeros((BATCH, UNITS))
        _, outputs = jax.lax.scan(lambda state, row: cell(kernel, bias, state, row), (zero, zero), table[x])
        rows = outputs.reshape(-1, UNITS)
        if only_sampled:
            true = (rows * out[y]).sum(1, keepdims=True) + out_bias[y][:, None]
            hits = jnp.where(y[:, None] == drawn, jnp.finfo(jnp.float32).min, 0.0)
            logits = jnp.concatenate([true, rows @ out[drawn].T + out_bias[drawn] + hits], 1)
            return -jax.nn.log_softmax(logits)[:, 0].mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(rows @ out.T + out_bias), y[:, None], 1).mean()

    update = jax.jit(lambda values: [v - RATE * g for v, g in zip(values, jax.grad(loss)(values))], donate_argnums=0)
    state = {"values": [jnp.asarray(value) for value in weights]}

    def step() -> None:
        state["values"] = update(state["values"])
        state["values"][1].block_until_ready()
    return step, lambda: np.asarray(state["values"][1])


MAKERS = {"ours": ours, "TF1 session": tf1, "torch": torch_model, "JAX jit": jax_model}
WORK = {"full": full, "sampled": sampled, "full_loop": full_loop, "sampled_loop": sampled_loop}


def main() -> None:
    parser = choices(__doc__, WORK)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    for name in given.work or WORK:
        kind, _, looped = name.partition("_")
        title = f"language model, {kind} softmax{' in a loop' if looped else ''}{given.suffix}"
        if given.profile:
            profile(title, kind == "sampled", bool(looped))
            continue
        compare(title, WORK[name], [0], False, given.rounds, given.seconds, BAR, given.processor)


if __name__ == "__main__":
    main()
