"""Run as a program: digests of what kernels that share their work compute, one per line, for comparison between processes."""
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import workbench as wb
from workbench.core.graph.build import ops
from workbench.nn import zoo

Built = Sequence[Any]
RNG = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def with_gradients(build: Callable[..., Any]) -> Callable[..., Built]:
    """What `build` gives, and its gradients by all that it is given."""
    def built(*given: Any) -> Built:
        y = build(*given)
        return [y, *wb.gradients(wb.sin(y), list(given))]
    return built


def products() -> Iterator[tuple[str, Callable[..., Built], list[Any]]]:
    for rows, depth, columns in ((1, 5000, 1000), (2, 100_000, 2), (16, 20_000, 16), (257, 1001, 33), (64, 800, 500)):
        given = [random(rows, depth), random(depth, columns)]
        yield f"product {rows} x {depth} x {columns}", with_gradients(wb.matmul), given
    yield "products in a batch", with_gradients(wb.matmul), [random(12, 64, 3000), random(12, 3000, 5)]
    yield "sum of products", with_gradients(lambda a, b: wb.tensordot(a, b, 2)), [random(20, 30, 400), random(30, 400, 50)]
    yield "product of open shape", open_product, [random(300, 1000), random(1000, 200)]
    yield "half a square", lambda x: [wb.nn.l2_loss(x)], [random(3, 100_000)]
    yield "dense", dense, [random(96, 784)]


def open_product(a: Any, b: Any) -> Built:
    """Only the step knows how many rows there are; with its gradients, and an update by a product."""
    rows, w = wb.boolean_mask(a, np.arange(300) % 3 > 0), wb.Variable(np.zeros((1000, 200), np.float32))
    made = with_gradients(lambda *_: wb.matmul(rows, b))(a, b)
    slope = wb.matmul(rows, made[0], transpose_a=True)
    return [*made, ops.apply_gradient_descent(w.handle, wb.constant(np.float32(0.1)), slope)]


def dense(x: Any) -> Built:
    w, b = wb.Variable(random(784, 512)), wb.Variable(random(512))
    return wb.gradients(wb.square(wb.nn.relu(wb.matmul(x, w) + b)), [w, b, x])


def images() -> Iterator[tuple[str, Callable[..., Built], list[Any]]]:
    for size, inner, outer, width, stride in ((28, 1, 32, 5, 1), (14, 32, 64, 5, 1), (28, 64, 64, 1, 1), (33, 20, 24, 3, 2)):
        def convolution(x: Any, w: Any, stride: int = stride) -> Any:
            return wb.nn.conv2d(x, w, [1, stride, stride, 1], "SAME")
        yield (f"convolution {size}, {inner} to {outer}", with_gradients(convolution),
               [random(8, size, size, inner), random(width, width, inner, outer)])
    for pool in (wb.nn.max_pool, wb.nn.avg_pool):
        yield (pool.__name__, with_gradients(lambda x, pool=pool: pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")),
               [random(8, 28, 28, 32)])


def rows() -> Iterator[tuple[str, Callable[..., Built], list[Any]]]:
    for reduce in (wb.reduce_sum, wb.reduce_mean, wb.reduce_max, wb.reduce_logsumexp):
        yield reduce.__name__, lambda x, reduce=reduce: [reduce(x), reduce(x, 0), reduce(x, 1)], [random(1000, 700)]
    yield "long sums", lambda x: [wb.reduce_sum(x), wb.nn.l2_loss(x), wb.norm(x), wb.cumsum(x, 1)], [random(3, 200_000)]
    yield "softmax", with_gradients(wb.nn.softmax), [random(300, 1000)]
    yield "log softmax", with_gradients(wb.nn.log_softmax), [random(300, 1000)]
    yield "fused chain", lambda x: [wb.reduce_sum(wb.tanh(x) * wb.exp(x) + 1.0, 1)], [random(1000, 700)]
    yield "biases", lambda x: wb.gradients(wb.square(wb.nn.bias_add(x, wb.Variable(np.ones(7, np.float32)))), [x]), [
        random(200_000, 7)]
    yield "segments", lambda x: [wb.unsorted_segment_sum(x, wb.constant(np.arange(5000) * 7 % 100), 100)], [random(5000, 64)]


def lenet() -> tuple[Any, list[Any]]:
    """(training step, variables): convolutions, pools, products, a loss, and updates."""
    labels = wb.constant(np.arange(64) % 10)
    loss = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=zoo.lenet(wb.constant(random(64, 28, 28, 1))))
    return wb.train.MomentumOptimizer(0.01, 0.9).minimize(wb.reduce_mean(loss)), wb.trainable_variables()


def mlp() -> tuple[Any, list[Any]]:
    """(training step, variables): products, their gradients and plain updates."""
    h = wb.constant(random(128, 784))
    for rows, columns in ((784, 512), (512, 512), (512, 10)):
        h = wb.matmul(h, wb.Variable(0.05 * random(rows, columns))) + wb.Variable(np.zeros(columns, np.float32))
        h = wb.nn.relu(h) if columns > 10 else h
    loss = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=wb.constant(np.arange(128) % 10), logits=h)
    return wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_mean(loss)), wb.trainable_variables()


def lstm() -> tuple[Any, list[Any]]:
    """(training step, variables): a recurrence of packed products, and Adagrad on the rows of a table."""
    table = wb.Variable(random(500, 128))
    words = wb.nn.embedding_lookup(table, wb.constant(np.arange(20 * 16).reshape(20, 16) * 7 % 500))
    states, _ = wb.nn.dynamic_rnn(wb.nn.rnn_cell.BasicLSTMCell(128), words, dtype=wb.float32)
    logits = wb.matmul(wb.reshape(states, [320, 128]), wb.Variable(random(500, 128)), transpose_b=True)
    loss = wb.nn.sparse_softmax_cross_entropy_with_logits(labels=wb.constant(np.arange(320) % 500), logits=logits)
    return wb.train.AdagradOptimizer(0.1).minimize(wb.reduce_mean(loss)), wb.trainable_variables()


def show(name: str, values: Sequence[Any]) -> None:
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in values)).hexdigest()
    finite = all(np.isfinite(value).all() for value in values)
    print(f"{name}: {digest[:16] if finite else 'not finite'}")


def main() -> None:
    for name, build, given in [*products(), *images(), *rows()]:
        with wb.Graph().as_default(), wb.Session() as session:
            feeds = [wb.placeholder(wb.float32, array.shape) for array in given]
            fetches = list(build(*feeds))
            session.run(wb.global_variables_initializer())
            show(name, session.run(fetches, dict(zip(feeds, given, strict=True))))
    for model in (lenet, mlp, lstm):
        with wb.Graph().as_default(), wb.Session() as session:
            wb.set_random_seed(1)
            step, variables = model()
            session.run(wb.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            show(model.__name__, session.run(variables))


if __name__ == "__main__":
    main()
