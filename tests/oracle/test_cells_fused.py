"""Fused cells, and cells over images, against the kernels that TensorFlow has for them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours
from tests.opcases import reals
from tests.oracle.harness import agree, quiet, tensorflow

pytestmark = pytest.mark.oracle
X, C, H = (reals(*shape, seed=seed).astype("f") for shape, seed in (((4, 3, 2), 1), ((3, 5), 2), ((3, 5), 3)))
KERNEL, BIAS = reals(7, 20, seed=4).astype("f") / 2, reals(20, seed=5).astype("f")
PEEPHOLES = [reals(5, seed=seed).astype("f") for seed in (6, 7, 8)]


def raw(build: Any) -> list[Any]:
    """What operations of TensorFlow give."""
    with quiet(), tensorflow().Graph().as_default(), tensorflow().Session() as session:
        import tensorflow as tf
        return session.run(build(tf.raw_ops))


def mine(build: Any, values: list[Any]) -> list[Any]:
    """What we give, with these values of the variables in their order."""
    with ours.Graph().as_default(), ours.Session() as session:
        fetches = build(ours.contrib.rnn)
        session.run(ours.global_variables_initializer())
        for variable, value in zip(ours.global_variables(), values, strict=True):
            variable.load(value, session)
        return session.run(fetches)


@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_a_step_of_a_fused_lstm(peephole: bool, clip: float | None) -> None:
    wci, wcf, wco = PEEPHOLES
    wanted = raw(lambda ops: [getattr(ops.LSTMBlockCell(
        x=X[0], cs_prev=C, h_prev=H, w=KERNEL, wci=wci, wcf=wcf, wco=wco, b=BIAS, forget_bias=0.7,
        cell_clip=clip or -1.0, use_peephole=peephole), name) for name in ("cs", "h")])
    cell = {"forget_bias": 0.7, "cell_clip": clip, "use_peephole": peephole}
    values = [KERNEL, BIAS, *([wcf, wci, wco] if peephole else [])]
    agree(mine(lambda rnn: list(rnn.LSTMBlockCell(5, **cell)(X[0], (C, H))[1]), values), wanted)


@pytest.mark.parametrize("length", [4, 2])
def test_a_fused_lstm_over_a_sequence(length: int) -> None:
    zeros = np.zeros(5, "f")
    wanted = raw(lambda ops: [getattr(ops.BlockLSTM(
        seq_len_max=np.int64(length), x=X, cs_prev=C, h_prev=H, w=KERNEL, wci=zeros, wcf=zeros, wco=zeros, b=BIAS,
        forget_bias=1.0, cell_clip=-1.0), name) for name in ("cs", "h")])
    found = mine(lambda rnn: rnn.LSTMBlockFusedCell(5)(X, (C, H), sequence_length=[length] * 3), [KERNEL, BIAS])
    agree([found[0][:length], *found[1]], [wanted[1][:length], wanted[0][length - 1], wanted[1][length - 1]])


def test_a_step_of_a_fused_gru() -> None:
    gates, candidate = KERNEL[:, :10], KERNEL[:, 10:15]
    wanted = raw(lambda ops: ops.GRUBlockCell(x=X[0], h_prev=H, w_ru=gates, w_c=candidate, b_ru=BIAS[:10], b_c=BIAS[10:15]).h)
    found = mine(lambda rnn: rnn.GRUBlockCell(5)(X[0], H)[0], [gates, BIAS[:10], candidate, BIAS[10:15]])
    agree([found], [wanted])


def test_convolutions_over_time_are_kerass() -> None:
    """Gates are in another order there: input, forget, candidate, output."""
    tensorflow()
    import tensorflow as tf2
    images = reals(2, 3, 5, 4, 2, seed=9).astype("f")
    layer = tf2.keras.layers.ConvLSTM2D(3, (3, 2), padding="same", recurrent_activation="sigmoid", unit_forget_bias=False,
                                        return_sequences=True)
    layer(images)
    kernel, recurrent, bias = (reals(*w.shape, seed=i).astype("f") / 2 for i, w in enumerate(layer.get_weights()))
    layer.set_weights([kernel, recurrent, bias])
    order = [0, 2, 1, 3]
    joined = np.concatenate([kernel, recurrent], 2).reshape(3, 2, 5, 4, 3)[..., order, :].reshape(3, 2, 5, 12)

    def looped(rnn: Any) -> Any:
        cell = rnn.ConvLSTMCell(2, [5, 4, 2], 3, [3, 2], forget_bias=0.0)
        return ours.nn.dynamic_rnn(cell, ours.constant(images), dtype="float32")[0]
    agree([mine(looped, [joined, bias.reshape(4, 3)[order].ravel()])], [layer(images).numpy()])
