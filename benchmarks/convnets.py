"""Training steps of LeNet (batch 64) and AlexNet (batch 16): forward, backward and gradient descent, float32.

    python -m benchmarks.convnets lenet|alexnet
"""
from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import agree, compare, report
from benchmarks.peers import load


class Conv(NamedTuple):
    size: int
    out: int
    stride: int
    pad: int


class Pool(NamedTuple):
    size: int
    stride: int


class Dense(NamedTuple):
    out: int
    relu: bool = True


class Net(NamedTuple):
    title: str
    batch: int
    image: tuple[int, int, int]
    layers: tuple[Any, ...]
    bar: float


LENET = Net("LeNet step: batch 64", 64, (28, 28, 1), (
    Conv(5, 32, 1, 2), Pool(2, 2), Conv(5, 64, 1, 2), Pool(2, 2), Dense(1024), Dense(10, False)), 0.5)
ALEXNET = Net("AlexNet step: batch 16", 16, (224, 224, 3), (
    Conv(11, 64, 4, 2), Pool(3, 2), Conv(5, 192, 1, 2), Pool(3, 2), Conv(3, 384, 1, 1), Conv(3, 256, 1, 1),
    Conv(3, 256, 1, 1), Pool(3, 2), Dense(4096), Dense(4096), Dense(1000, False)), 0.5)
RATE = 0.001


def parameters(net: Net) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    height, width, channels = net.image
    found, flat = [], 0
    for layer in net.layers:
        if isinstance(layer, Conv):
            shape: tuple[int, ...] = (layer.size, layer.size, channels, layer.out)
            height = (height + 2 * layer.pad - layer.size) // layer.stride + 1
            width = (width + 2 * layer.pad - layer.size) // layer.stride + 1
            channels = layer.out
        elif isinstance(layer, Pool):
            height, width = ((d - layer.size) // layer.stride + 1 for d in (height, width))
            continue
        else:
            shape = (flat or height * width * channels, layer.out)
            flat = layer.out
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        found.append(((rng.standard_normal(shape) * scale).astype(np.float32), np.zeros(shape[-1], np.float32)))
    return found


def ours(wb: Any, net: Net, values: list[Any], images: Any, labels: Any) -> Any:
    graph = wb.Graph()
    with graph.as_default():
        x = wb.placeholder("float32", [None, *net.image])
        y_ = wb.placeholder("int32", [None])
        variables = [(wb.Variable(w), wb.Variable(b)) for w, b in values]
        h, left = x, list(variables)
        for layer in net.layers:
            if isinstance(layer, Pool):
                k, s = layer
                h = wb.nn.max_pool(h, [1, k, k, 1], [1, s, s, 1], "VALID")
                continue
            w, b = left.pop(0)
            if isinstance(layer, Conv):
                p = (layer.pad, layer.pad)
                h = wb.nn.relu(wb.nn.bias_add(wb.ops.conv2d(h, w, (layer.stride, layer.stride), (p, p)), b))
            else:
                if h.shape.rank == 4:
                    h = wb.reshape(h, [-1, int(np.prod(h.shape.sizes[1:]))])
                h = wb.nn.bias_add(wb.matmul(h, w), b)
                h = wb.nn.relu(h) if layer.relu else h
        loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=h))
        step = wb.train.GradientDescentOptimizer(RATE).minimize(loss)
        session = wb.Session(graph=graph)
        session.run(wb.global_variables_initializer())

    def run(images: Any = images, labels: Any = labels) -> Any:
        return session.run(step, {x: images, y_: labels})
    return run, (lambda: [session.run(w) for w, _ in variables]), session


def tf1(tf: Any, net: Net, values: list[Any], images: Any, labels: Any) -> Any:
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x, y_ = v1.placeholder(tf.float32, [None, *net.image]), v1.placeholder(tf.int32, [None])
        variables = [(v1.Variable(w, use_resource=True), v1.Variable(b, use_resource=True)) for w, b in values]
        loss = _tf_loss(tf, net, variables, x, y_)
        step = v1.train.GradientDescentOptimizer(RATE).minimize(loss)
        session = v1.Session(graph=graph, config=v1.ConfigProto(intra_op_parallelism_threads=2,
                                                                inter_op_parallelism_threads=2))
        session.run(v1.global_variables_initializer())
    feed = {x: images, y_: labels}
    return (lambda: session.run(step, feed)), (lambda: [session.run(w) for w, _ in variables])


def _tf_loss(tf: Any, net: Net, variables: list[Any], x: Any, y_: Any) -> Any:
    h, left = x, list(variables)
    for layer in net.layers:
        if isinstance(layer, Pool):
            h = tf.nn.max_pool2d(h, layer.size, layer.stride, "VALID")
            continue
        w, b = left.pop(0)
        if isinstance(layer, Conv):
            pad = [[0, 0], [layer.pad] * 2, [layer.pad] * 2, [0, 0]]
            h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, layer.stride, pad), b))
        else:
            if len(h.shape) == 4:
                h = tf.reshape(h, [-1, int(np.prod(h.shape[1:]))])
            h = tf.nn.bias_add(tf.matmul(h, w), b)
            h = tf.nn.relu(h) if layer.relu else h
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=h))


def tf2(tf: Any, net: Net, values: list[Any], images: Any, labels: Any) -> Any:
    variables = [(tf.Variable(w), tf.Variable(b)) for w, b in values]
    flat = [v for pair in variables for v in pair]
    x, y_ = tf.constant(images), tf.constant(labels)

    @tf.function
    def step(x: Any, y_: Any) -> None:
        with tf.GradientTape() as tape:
            loss = _tf_loss(tf, net, variables, x, y_)
        for variable, gradient in zip(flat, tape.gradient(loss, flat)):
            variable.assign_sub(RATE * gradient)
    return (lambda: step(x, y_)), (lambda: [w.numpy() for w, _ in variables])


def torch_net(torch: Any, net: Net, values: list[Any], images: Any, labels: Any) -> Any:
    functional = torch.nn.functional
    fmt = torch.channels_last
    x = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=fmt)
    y_ = torch.from_numpy(labels.astype(np.int64))
    pairs, spatial = [], None
    for w, b in values:
        t = torch.from_numpy(w.copy())
        if w.ndim == 4:
            t = t.permute(3, 2, 0, 1).contiguous(memory_format=fmt)
        pairs.append((t.requires_grad_(), torch.from_numpy(b.copy()).requires_grad_()))
    flat = [v for pair in pairs for v in pair]

    def step() -> None:
        h, left = x, list(pairs)
        for layer in net.layers:
            if isinstance(layer, Pool):
                h = functional.max_pool2d(h, layer.size, layer.stride)
                continue
            w, b = left.pop(0)
            if isinstance(layer, Conv):
                h = functional.relu(functional.conv2d(h, w, b, layer.stride, layer.pad))
            else:
                if h.dim() == 4:
                    h = h.permute(0, 2, 3, 1).reshape(h.shape[0], -1)
                h = torch.addmm(b, h, w)
                h = functional.relu(h) if layer.relu else h
        functional.cross_entropy(h, y_).backward()
        with torch.no_grad():
            torch._foreach_add_(flat, [v.grad for v in flat], alpha=-RATE)
            for v in flat:
                v.grad = None
    del spatial
    return step, lambda: [w.detach().permute(2, 3, 1, 0).numpy() if w.dim() == 4 else w.detach().numpy() for w, _ in pairs]


def jax_net(jax: Any, net: Net, values: list[Any], images: Any, labels: Any) -> Any:
    jnp, lax = jax.numpy, jax.lax

    def loss(pairs: Any, x: Any, y_: Any) -> Any:
        h, left = x, list(pairs)
        for layer in net.layers:
            if isinstance(layer, Pool):
                window = (1, layer.size, layer.size, 1)
                h = lax.reduce_window(h, -jnp.inf, lax.max, window, (1, layer.stride, layer.stride, 1), "VALID")
                continue
            w, b = left.pop(0)
            if isinstance(layer, Conv):
                h = jax.nn.relu(lax.conv_general_dilated(h, w, (layer.stride,) * 2, [(layer.pad,) * 2] * 2,
                                                         dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)
            else:
                h = h.reshape(h.shape[0], -1) @ w + b
                h = jax.nn.relu(h) if layer.relu else h
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), y_[:, None], 1))

    @jax.jit
    def update(pairs: Any, x: Any, y_: Any) -> Any:
        return jax.tree.map(lambda p, g: p - RATE * g, pairs, jax.grad(loss)(pairs, x, y_))
    state = [jax.tree.map(jnp.asarray, values)]
    x, y_ = jax.device_put(images), jax.device_put(labels)

    def step() -> None:
        state[0] = update(state[0], x, y_)
        jax.block_until_ready(state[0])
    return step, lambda: [np.asarray(w) for w, _ in state[0]]


def main(name: str, peers: list[str]) -> None:
    net = {"lenet": LENET, "alexnet": ALEXNET}[name]
    tf, torch, jax, wb = load()
    rng = np.random.default_rng(0)
    images = rng.random((net.batch, *net.image), np.float32)
    labels = rng.integers(0, net.layers[-1].out, net.batch).astype(np.int32)
    values = parameters(net)
    made: dict[str, Any] = {"ours": ours(wb, net, values, images, labels)[:2]}
    for title, build in (("TF1 session", lambda: tf1(tf, net, values, images, labels)),
                         ("tf.function", lambda: tf2(tf, net, values, images, labels)),
                         ("torch channels-last", lambda: torch_net(torch, net, values, images, labels)),
                         ("JAX jit", lambda: jax_net(jax, net, values, images, labels))):
        if not peers or title in peers:
            made[title] = build()
    reference = None
    for title, (step, weights) in made.items():
        step()
        step()
        change = np.concatenate([(w - v[0]).ravel() for w, v in zip(weights(), values)])
        reference = change if reference is None else reference
        agree(title, reference, change, 2e-2)
    rounds, seconds = (9, 0.5) if name == "lenet" else (7, 1.0)
    report(compare(net.title, {t: s for t, (s, _) in made.items()}, rounds=rounds, seconds=seconds, warm_up=5), net.bar,
           save=not peers)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "lenet", sys.argv[2:])
