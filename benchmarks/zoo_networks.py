"""Networks of workbench.nn.zoo: training steps, and inference of one image with its latency.

    python -m benchmarks.zoo_networks [inception_step] [googlenet_step] [overfeat_step] [vgg_step] [googlenet_one] [mlp_one]
        [--rounds N] [--seconds S] [--processor] [--suffix TEXT]

Steps are forward, backward and gradient descent, on Inception-v3 with 4 images, GoogLeNet with 8, Overfeat and VGG-A with 4.
Inference takes an image from NumPy and gives back logits as an array: ours and TensorFlow's by `make_callable`, torch in
inference mode, eager and compiled. Every framework in a process of its own, in turn; first the results agree.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import choices
from benchmarks.neighbour import PEERS, compare, framework
from benchmarks.networks import IMAGES, NETWORKS, initial, peer

RATES = {"inception_v3": 1e-6, "overfeat": 1e-5, "vgg_a": 1e-5}
"""Of descent; 1e-3 elsewhere. A unit whose sum is nearly zero may be on in one framework and off in another: with longer steps
Overfeat's losses go apart. With 4 images, rounding to 32 bits moves the gradients of Inception-v3 by 7 % in every framework
(its last maps are normalised over few places), so that losses agree only where the steps are short."""
BATCHES = {"mlp": 128, "lenet": 64, "alexnet": 16, "googlenet": 8, "inception_v3": 4, "overfeat": 4, "vgg_a": 4}
BAR = 0.7
Made = tuple[Callable[[], Any], Callable[[], Any]]


def given(network: str, batch: int) -> tuple[Any, Any]:
    """(images, labels)"""
    rng = np.random.default_rng(0)
    images = rng.random((batch, *IMAGES[network]), np.float32)
    return images, rng.integers(0, 10, batch).astype(np.int32)


def our_network(network: str, images: Any) -> tuple[Any, Any, Any, Any]:
    """(workbench, a session with the same weights as the peers', placeholder, logits)"""
    wb = framework("ours")
    x = wb.placeholder("float32", [None, *images.shape[1:]])
    logits = NETWORKS["mlp"](Ours(wb), x) if network == "mlp" else getattr(wb.nn.zoo, network)(x)
    return wb, wb.Session(), x, logits


class Ours:
    """The words of networks.mlp in ours; other networks stand in the zoo."""

    def __init__(self, wb: Any) -> None:
        self.wb = wb

    def dense(self, x: Any, units: int, relu: bool = False) -> Any:
        return self.wb.layers.dense(x, units, self.wb.nn.relu if relu else None)


def start(wb: Any, session: Any) -> None:
    session.run(wb.global_variables_initializer())
    rng = np.random.default_rng(1)
    for variable in wb.trainable_variables():
        variable.load(initial(rng, variable.shape.static), session)


def step(network: str, name: str) -> Made:
    images, labels = given(network, BATCHES[network])
    make = {"ours": our_step, "torch": torch_step, "JAX jit": jax_step, "TF1 session": flow_step}[name]
    return make(network, images, labels, RATES.get(network, 1e-3))


def our_training(network: str, images: Any, labels: Any, rate: float) -> tuple[Any, Any, Any, dict[Any, Any]]:
    """(session, what trains, loss, what is fed)"""
    wb, session, x, logits = our_network(network, images)
    y = wb.placeholder("int32", [None])
    loss = wb.reduce_mean(wb.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = wb.train.GradientDescentOptimizer(rate).minimize(loss)
    start(wb, session)
    return session, train, loss, {x: images, y: labels}


def our_step(network: str, images: Any, labels: Any, rate: float) -> Made:
    session, train, loss, feed = our_training(network, images, labels, rate)
    return (lambda: session.run(train, feed)), (lambda: session.run(loss, feed))


def torch_step(network: str, images: Any, labels: Any, rate: float) -> Made:
    torch = framework("torch")
    words = peer("torch", torch)
    x, y = words.images(images), torch.from_numpy(labels.astype(np.int64))

    def loss() -> Any:
        words.again()
        return torch.nn.functional.cross_entropy(NETWORKS[network](words, x), y)

    def train() -> None:
        loss().backward()
        with torch.no_grad():
            torch._foreach_add_(words.values, [v.grad for v in words.values], alpha=-rate)
            for v in words.values:
                v.grad = None
    return train, lambda: loss().item()


def jax_step(network: str, images: Any, labels: Any, rate: float) -> Made:
    jax = framework("JAX jit")
    jnp, words = jax.numpy, peer("JAX jit", jax)
    x, y = jnp.asarray(images), jnp.asarray(labels)

    def loss(values: list[Any], x: Any, y: Any) -> Any:
        words.again(values)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(NETWORKS[network](words, x)), y[:, None], 1))
    made: list[Any] = []
    words.again(made)
    NETWORKS[network](words, x[:1])
    state = [list(made)]

    @functools.partial(jax.jit, donate_argnums=0)
    def update(values: list[Any], x: Any, y: Any) -> Any:
        return [p - rate * g for p, g in zip(values, jax.grad(loss)(values, x, y))]
    value = jax.jit(loss)

    def train() -> None:
        state[0] = update(state[0], x, y)
        jax.block_until_ready(state[0])
    return train, lambda: float(value(state[0], x, y))


def flow_step(network: str, images: Any, labels: Any, rate: float) -> Made:
    tf = framework("TF1 session")
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x, y = v1.placeholder(tf.float32, images.shape), v1.placeholder(tf.int32, labels.shape)
        logits = NETWORKS[network](peer("TF1 session", tf), x)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.GradientDescentOptimizer(rate).minimize(loss)
        first = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(first)
    feed = {x: images, y: labels}
    return (lambda: session.run(train, feed)), (lambda: session.run(loss, feed))


def one(network: str, name: str) -> Made:
    image = given(network, 1)[0]
    if name == "ours":
        wb, session, x, logits = our_network(network, image)
        start(wb, session)
        run = session.make_callable(logits, [x])
    else:
        run = {"torch": torch_one, "torch.compile": torch_one, "JAX jit": jax_one, "TF1 session": flow_one}[name](
            network, name, image)
    return (lambda: run(image)), (lambda: run(image))


def torch_one(network: str, name: str, image: Any) -> Callable[[Any], Any]:
    torch = framework("torch")
    words = peer(name, torch)

    def logits(x: Any) -> Any:
        words.again()
        return NETWORKS[network](words, x)
    with torch.inference_mode():
        logits(words.images(image))
    made = torch.compile(logits) if name == "torch.compile" else logits

    def run(image: Any) -> Any:
        with torch.inference_mode():
            return made(words.images(image)).numpy()
    return run


def jax_one(network: str, name: str, image: Any) -> Callable[[Any], Any]:
    jax = framework(name)
    words = peer(name, jax)
    NETWORKS[network](words, jax.numpy.asarray(image))
    values = list(words.values)

    @jax.jit
    def logits(values: list[Any], x: Any) -> Any:
        words.again(values)
        return NETWORKS[network](words, x)
    return lambda image: np.asarray(logits(values, image))


def flow_one(network: str, name: str, image: Any) -> Callable[[Any], Any]:
    tf = framework(name)
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, image.shape)
        logits = NETWORKS[network](peer(name, tf), x)
        first = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(first)
    return session.make_callable(logits, [x])  # type: ignore[no-any-return]


WORK: dict[str, tuple[str, Callable[[str], Made]]] = {
    "inception_step": ("Inception-v3 step, batch 4", functools.partial(step, "inception_v3")),
    "googlenet_step": ("GoogLeNet step, batch 8", functools.partial(step, "googlenet")),
    "overfeat_step": ("Overfeat step, batch 4", functools.partial(step, "overfeat")),
    "vgg_step": ("VGG-A step, batch 4", functools.partial(step, "vgg_a")),
    "googlenet_one": ("GoogLeNet, one image", functools.partial(one, "googlenet")),
    "mlp_one": ("MLP 784-512-512-10, one image", functools.partial(one, "mlp"))}


def main() -> None:
    options = choices(__doc__, WORK).parse_args()
    for name in options.work or WORK:
        title, work = WORK[name]
        peers = {**PEERS, **({"torch.compile": "torch"} if name.endswith("_one") else {})}
        compare(title + options.suffix, work, [0], False, options.rounds, options.seconds, BAR, options.processor, peers)


if __name__ == "__main__":
    main()
