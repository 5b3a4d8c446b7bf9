"""The train step of softmax regression 784x10: batch 100, gradient descent, fed from NumPy arrays."""
from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import agree, compare, report
from benchmarks.peers import load

RATE, BATCH = np.float32(0.5), 100


def main() -> None:
    tf, torch, jax, wb = load()
    images, labels = given()
    makers = {"ours": ours(wb), "ours callable": ours(wb, callable_=True), "TF1 session": tf1(tf, False),
              "TF1 callable": tf1(tf, True), "tf.function": tf2(tf), "torch eager": torch_eager(torch),
              "JAX jit": jax_jit(jax)}
    steps = {}
    reference = None
    for name, make in makers.items():
        step, weights = make(images, labels)
        for _ in range(5):
            step()
        found = weights()
        reference = found if reference is None else reference
        agree(name, reference, found)
        steps[name] = step
    del steps["ours callable"]
    report(compare("Softmax regression step: batch 100", steps), bar=0.5)


def given() -> tuple[Any, Any]:
    """(images, labels) of a batch"""
    rng = np.random.default_rng(0)
    return rng.random((BATCH, 784), np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)]


def training(wb: Any, images: Any, labels: Any) -> tuple[Any, Any, dict[Any, Any], Any]:
    """(session, what trains, what is fed, the weights)"""
    with wb.Graph().as_default() as graph:
        x, y_ = wb.placeholder("float32", [None, 784]), wb.placeholder("float32", [None, 10])
        weights, bias = wb.Variable(wb.zeros([784, 10])), wb.Variable(wb.zeros([10]))
        y = wb.nn.softmax(wb.matmul(x, weights) + bias)
        loss = wb.reduce_mean(-wb.reduce_sum(y_ * wb.log(y), axis=1))
        step = wb.train.GradientDescentOptimizer(RATE).minimize(loss)
        session = wb.Session(graph=graph)
        session.run(wb.global_variables_initializer())
    return session, step, {x: images, y_: labels}, weights


def ours(wb: Any, callable_: bool = False) -> Any:
    def make(images: Any, labels: Any) -> Any:
        session, step, feed, weights = training(wb, images, labels)
        run = (lambda: session.run(step, feed))
        if callable_:
            call = session.make_callable(step, list(feed))
            run = (lambda: call(images, labels))
        return run, lambda: session.run(weights)
    return make


def tf1(tf: Any, callable_: bool) -> Any:
    v1 = tf.compat.v1

    def make(images: Any, labels: Any) -> Any:
        graph = tf.Graph()
        with graph.as_default():
            x, y_ = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.float32, [None, 10])
            weights = v1.Variable(tf.zeros([784, 10]), use_resource=True)
            bias = v1.Variable(tf.zeros([10]), use_resource=True)
            y = tf.nn.softmax(tf.matmul(x, weights) + bias)
            loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.math.log(y), axis=1))
            step = v1.train.GradientDescentOptimizer(RATE).minimize(loss)
            config = v1.ConfigProto(intra_op_parallelism_threads=2, inter_op_parallelism_threads=2)
            session = v1.Session(graph=graph, config=config)
            session.run(v1.global_variables_initializer())
            feed = {x: images, y_: labels}
            run = (lambda: session.run(step, feed))
            if callable_:
                call = session.make_callable(step, [x, y_])
                run = (lambda: call(images, labels))
        return run, lambda: session.run(weights)
    return make


def tf2(tf: Any) -> Any:
    def make(images: Any, labels: Any) -> Any:
        weights, bias = tf.Variable(tf.zeros([784, 10])), tf.Variable(tf.zeros([10]))

        @tf.function
        def step(x: Any, y_: Any) -> None:
            with tf.GradientTape() as tape:
                y = tf.nn.softmax(tf.matmul(x, weights) + bias)
                loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.math.log(y), axis=1))
            for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
                variable.assign_sub(RATE * gradient)
        x, y_ = tf.constant(images), tf.constant(labels)
        return lambda: step(x, y_), lambda: weights.numpy()
    return make


def torch_eager(torch: Any) -> Any:
    def make(images: Any, labels: Any) -> Any:
        x, y_ = torch.from_numpy(images), torch.from_numpy(labels)
        weights = torch.zeros(784, 10, requires_grad=True)
        bias = torch.zeros(10, requires_grad=True)

        def step() -> None:
            y = torch.softmax(x @ weights + bias, 1)
            loss = (-(y_ * torch.log(y)).sum(1)).mean()
            loss.backward()
            with torch.no_grad():
                for variable in (weights, bias):
                    variable -= float(RATE) * variable.grad
                    variable.grad = None
        return step, lambda: weights.detach().numpy()
    return make


def jax_jit(jax: Any) -> Any:
    jnp = jax.numpy

    def make(images: Any, labels: Any) -> Any:
        def loss(parameters: Any, x: Any, y_: Any) -> Any:
            y = jax.nn.softmax(x @ parameters[0] + parameters[1])
            return jnp.mean(-jnp.sum(y_ * jnp.log(y), axis=1))

        @jax.jit
        def update(parameters: Any, x: Any, y_: Any) -> Any:
            return [p - RATE * g for p, g in zip(parameters, jax.grad(loss)(parameters, x, y_))]
        state = [[jnp.zeros((784, 10)), jnp.zeros(10)]]
        x, y_ = jax.device_put(images), jax.device_put(labels)

        def step() -> None:
            state[0] = update(state[0], x, y_)
            state[0][0].block_until_ready()
        return step, lambda: np.asarray(state[0][0])
    return make


if __name__ == "__main__":
    main()
