"""Sequence-to-sequence models over lists of steps: decoders, attention, embeddings, buckets, and their losses."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.embedding import embedding_lookup
from workbench.nn.initializers import Zeros
from workbench.nn.losses import sequence_loss_by_example
from workbench.nn.recurrent.rnn import static_rnn
from workbench.nn.recurrent.rnn_base import RNNCell
from workbench.nn.recurrent.rnn_wrappers import EmbeddingWrapper, OutputProjectionWrapper
from workbench.nn.scopes import get_variable, get_variable_scope, variable_scope

__all__ = ["attention_decoder", "basic_rnn_seq2seq", "batch_sequence_loss", "embedding_attention_decoder",
           "embedding_attention_seq2seq", "embedding_rnn_decoder", "embedding_rnn_seq2seq", "embedding_tied_rnn_seq2seq",
           "model_with_buckets", "one2many_rnn_seq2seq", "rnn_decoder", "sequence_loss", "sequence_loss_by_example",
           "tied_rnn_seq2seq"]

Loop = Callable[[Any, int], Any] | None


# losses

def sequence_loss(logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any],
                  average_across_timesteps: bool = True, average_across_batch: bool = True,
                  softmax_loss_function: Callable[..., Any] | None = None, name: str | None = None) -> Tensor:
    """The sum (or mean over the batch) of sequence_loss_by_example, whose arguments it takes: a scalar."""
    with get_default_graph().name_scope(name or "sequence_loss"):
        losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        total = ops.reduce_sum(losses)
        return total / ops.cast(ops.shape(losses)[0], total.dtype) if average_across_batch else total


def batch_sequence_loss(logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True,
                        average_across_batch: bool = True, softmax_loss_function: Callable[..., Any] | None = None,
                        name: str | None = None) -> Tensor:
    """Weighted cross entropy of logits [batch, time, classes] for targets int [batch, time] and weights [batch, time].

    Averaged by the weights over both (a scalar), over time ([batch]), over the batch ([time]) or not at all. ShapeError
    for other ranks.
    """
    x, t, w = convert(logits), convert(targets), convert(weights)
    if (x.shape.rank, t.shape.rank, w.shape.rank) != (3, 2, 2):
        raise errors.ShapeError(f"sequence_loss: logits have shape {x.shape}, targets {t.shape}, weights {w.shape}; they are "
                                "[batch, time, classes], [batch, time] and [batch, time]")
    loss = softmax_loss_function or ops.sparse_softmax_cross_entropy_with_logits
    with get_default_graph().name_scope(name or "sequence_loss"):
        classes = x.shape.as_list()[2]
        flat = ops.reshape(x, ops.stack([-1, ops.shape(x)[2] if classes is None else classes]))
        losses = ops.reshape(loss(labels=ops.reshape(t, [-1]), logits=flat), ops.shape(t)) * w
        axes = [axis for axis, wanted in ((0, average_across_batch), (1, average_across_timesteps)) if wanted]
        if not axes:
            return losses
        return ops.reduce_sum(losses, axis=axes) / (ops.reduce_sum(w, axis=axes) + 1e-12)


# decoders: (outputs, final state) over a list of inputs, one for each step

def _next_input(given: Any, previous: Any, step: int, loop_function: Loop) -> Any:
    """What a decoder reads at `step`: what the loop function makes of the output before it, or else what was given."""
    if loop_function is None or previous is None:
        return given
    with variable_scope("loop_function", reuse=True):
        return loop_function(previous, step)


def rnn_decoder(decoder_inputs: Sequence[Any], initial_state: Any, cell: RNNCell, loop_function: Loop = None,
                scope: Any = None) -> tuple[list[Tensor], Any]:
    """The outputs of `cell` over a list of inputs [batch, n], and its final state.

    With `loop_function(previous output, step)` each input but the first is what it gives.
    """
    with variable_scope(scope or "rnn_decoder") as opened:
        state, outputs, previous = initial_state, [], None
        for step, x in enumerate(decoder_inputs):
            if step > 0:
                opened.reuse_variables()      # a cell of a program may ask for its variables at each step
            x = _next_input(x, previous, step, loop_function)
            output, state = cell(x, state)
            outputs.append(output)
            previous = output
        return outputs, state


def basic_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                      dtype: Any = "float32", scope: Any = None) -> tuple[list[Tensor], Any]:
    """One cell reads the encoder's inputs, a second one of its kind goes on from its state over the decoder's."""
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                     loop_function: Loop = None, dtype: Any = "float32", scope: Any = None) -> tuple[list[Tensor], Any]:
    """basic_rnn_seq2seq with the same weights in both parts."""
    with variable_scope("combined_tied_rnn_seq2seq"):
        name = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=name)
        with variable_scope(get_variable_scope(), reuse=True):
            return rnn_decoder(decoder_inputs, state, cell, loop_function, name)


def _fed_back(embedding: Any, projection: Any, update: bool) -> Callable[[Any, int], Tensor]:
    """A loop function: the embedding of the most probable symbol."""
    def loop(previous: Any, _: int) -> Tensor:
        logits = previous if projection is None else ops.xw_plus_b(previous, projection[0], projection[1])
        found = embedding_lookup(embedding, ops.argmax(logits, 1))
        return found if update else ops.stop_gradient(found)
    return loop


def embedding_rnn_decoder(decoder_inputs: Sequence[Any], initial_state: Any, cell: RNNCell, num_symbols: int,
                          embedding_size: int, output_projection: Any = None, feed_previous: bool = False,
                          update_embedding_for_previous: bool = True, scope: Any = None) -> tuple[list[Tensor], Any]:
    """rnn_decoder over symbols int32 [batch], embedded; with `feed_previous` each but the first is what came out before.

    `output_projection` is a pair (weights [cell's output size, num_symbols], biases) for that.
    """
    with variable_scope(scope or "embedding_rnn_decoder"):
        table = get_variable("embedding", [num_symbols, embedding_size])
        loop = _fed_back(table, output_projection, update_embedding_for_previous) if feed_previous else None
        return rnn_decoder([embedding_lookup(table, x) for x in decoder_inputs], initial_state, cell, loop)


def embedding_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                          num_encoder_symbols: int, num_decoder_symbols: int, embedding_size: int,
                          output_projection: Any = None, feed_previous: Any = False, dtype: Any = None,
                          scope: Any = None) -> tuple[list[Tensor], Any]:
    """Symbols to symbols: lists of int32 [batch] in, a list of [batch, num_decoder_symbols] (or, with
    `output_projection`, of the cell's outputs) out. `feed_previous` may be a bool tensor."""
    with variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as opened:
        reading = EmbeddingWrapper(cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(reading, encoder_inputs, dtype=opened.dtype)
        writing = OutputProjectionWrapper(cell, num_decoder_symbols) if output_projection is None else cell
        return _either(feed_previous, lambda fed: embedding_rnn_decoder(
            decoder_inputs, state, writing, num_decoder_symbols, embedding_size, output_projection, fed))


def embedding_tied_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                               num_symbols: int, embedding_size: int, num_decoder_symbols: int | None = None,
                               output_projection: Any = None, feed_previous: Any = False, dtype: Any = None,
                               scope: Any = None) -> tuple[list[Tensor], Any]:
    """embedding_rnn_seq2seq whose two parts share their embedding and their cell: symbols are the same in both.

    Outputs are over `num_decoder_symbols`, where given, of the `num_symbols`.
    """
    with variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        table = get_variable("embedding", [num_symbols, embedding_size], dtype)
        reads, writes = ([embedding_lookup(table, x) for x in inputs] for inputs in (encoder_inputs, decoder_inputs))
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)
        update = isinstance(feed_previous, bool)
        return _either(feed_previous, lambda fed: tied_rnn_seq2seq(
            reads, writes, cell, _fed_back(table, output_projection, update) if fed else None, opened.dtype))


def one2many_rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs_dict: dict[str, Sequence[Any]], enc_cell: RNNCell,
                         dec_cells_dict: dict[str, RNNCell], num_encoder_symbols: int,
                         num_decoder_symbols_dict: dict[str, int], embedding_size: int, feed_previous: Any = False,
                         dtype: Any = None, scope: Any = None) -> tuple[dict[str, list[Tensor]], dict[str, Any]]:
    """embedding_rnn_seq2seq with one encoder and a decoder for each name: ({name: outputs}, {name: final state}).

    A decoder's variables are below `one2many_decoder_` and its name.
    """
    outputs, states = {}, {}
    with variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as opened:
        reading = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(reading, encoder_inputs, dtype=opened.dtype)
        for name, inputs in decoder_inputs_dict.items():
            with variable_scope(f"one2many_decoder_{name}"):
                outputs[name], states[name] = _decoded(inputs, state, dec_cells_dict[name], num_decoder_symbols_dict[name],
                                                       embedding_size, feed_previous)
    return outputs, states


def _decoded(inputs: Sequence[Any], state: Any, cell: RNNCell, symbols: int, size: int,
             feed_previous: Any) -> tuple[list[Tensor], Any]:
    writing = OutputProjectionWrapper(cell, symbols)
    return _either(feed_previous, lambda fed: embedding_rnn_decoder(inputs, state, writing, symbols, size, None, fed))


def _either(feed_previous: Any, decode: Callable[[bool], tuple[list[Tensor], Any]]) -> tuple[list[Tensor], Any]:
    """decode(True or False); for a tensor both are built over the same weights and the run chooses."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)

    def branch(fed: bool) -> Callable[[], Any]:
        def build() -> Any:
            with variable_scope(get_variable_scope(), reuse=None if fed else True):
                outputs, state = decode(fed)
                return tuple(outputs), state
        return build
    outputs, state = ops.cond(feed_previous, branch(True), branch(False))
    return list(outputs), state


# attention

class _Attention:
    """Reads attention states [batch, length, size] by additive attention. Source: Vinyals et al. 2014, after Bahdanau."""

    def __init__(self, states: Tensor, heads: int) -> None:
        length, size = states.shape.as_list()[1], int(states.shape.as_list()[2] or 0)
        self.size, self.heads = size, heads
        self.length = ops.shape(states)[1] if length is None else length
        self.states = ops.reshape(states, ops.stack([-1, self.length, 1, size]))
        self.features, self.scales = [], []
        for head in range(heads):
            kernel = get_variable(f"AttnW_{head}", [1, 1, size, size], states.dtype)
            self.features.append(ops.conv2d(self.states, kernel, [1, 1, 1, 1], "SAME"))
            self.scales.append(get_variable(f"AttnV_{head}", [size], states.dtype))

    def read(self, query: Any, weights: _Weights) -> list[Tensor]:
        parts = _flat(query)
        found = []
        for head in range(self.heads):
            y = ops.reshape(weights(f"Attention_{head}", parts, self.size), [-1, 1, 1, self.size])
            scores = ops.reduce_sum(self.scales[head] * ops.tanh(self.features[head] + y), axis=[2, 3])
            share = ops.reshape(ops.softmax(scores), ops.stack([-1, self.length, 1, 1]))
            found.append(ops.reshape(ops.reduce_sum(share * self.states, axis=[1, 2]), [-1, self.size]))
        return found

    def nothing(self, batch: Tensor) -> list[Tensor]:
        return [ops.zeros(ops.stack([batch, self.size]), self.states.dtype) for _ in range(self.heads)]


def _flat(state: Any) -> list[Tensor]:
    return [t for part in state for t in _flat(part)] if isinstance(state, (list, tuple)) else [convert(state)]


class _Weights:
    """Linear maps by name; every step of a decoder uses the same."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __call__(self, name: str, parts: Sequence[Tensor], units: int) -> Tensor:
        if name not in self._made:
            width = sum(t.shape.as_list()[1] or 0 for t in parts)
            with variable_scope(name) if name else variable_scope(get_variable_scope()):
                dtype = parts[0].dtype
                self._made[name] = (get_variable("kernel", [width, units], dtype),
                                    get_variable("bias", [units], dtype, Zeros()))
        kernel, bias = self._made[name]
        return ops.xw_plus_b(parts[0] if len(parts) == 1 else ops.concat(list(parts), axis=1), kernel, bias)


def attention_decoder(decoder_inputs: Sequence[Any], initial_state: Any, attention_states: Any, cell: RNNCell,
                      output_size: int | None = None, num_heads: int = 1, loop_function: Loop = None, dtype: Any = None,
                      scope: Any = None, initial_state_attention: bool = False) -> tuple[list[Tensor], Any]:
    """rnn_decoder that also reads `attention_states` [batch, length, size] at each step; outputs [batch, output_size].

    `num_heads` read on their own. With `initial_state_attention` the first step reads too, else it sees zeros.
    InvalidArgumentError without inputs or heads, ShapeError when the size is unknown.
    """
    if not decoder_inputs or num_heads < 1:
        raise errors.InvalidArgumentError(f"attention_decoder: {len(decoder_inputs)} decoder inputs and {num_heads} heads; "
                                          "give at least one of each")
    states = convert(attention_states)
    if states.shape.rank != 3 or states.shape.as_list()[2] is None:
        raise errors.ShapeError(f"attention_decoder: attention_states have shape {states.shape}; they are [batch, length, "
                                "size] with a known size")
    with variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        attention, weights = _Attention(states, num_heads), _Weights()
        state, outputs, previous = initial_state, [], None
        first = convert(decoder_inputs[0])
        seen = attention.read(state, weights) if initial_state_attention else attention.nothing(ops.shape(first)[0])
        for step, x in enumerate(decoder_inputs):
            x = _next_input(x, previous, step, loop_function)
            x = convert(x)
            joined = weights("", [x, *seen], x.shape.as_list()[1] or 0)
            output, state = cell(joined, state)
            seen = attention.read(state, weights)
            previous = weights("AttnOutputProjection", [convert(output), *seen], output_size or cell.output_size)
            opened.reuse_variables()
            outputs.append(previous)
        return outputs, state


def embedding_attention_decoder(decoder_inputs: Sequence[Any], initial_state: Any, attention_states: Any, cell: RNNCell,
                                num_symbols: int, embedding_size: int, num_heads: int = 1,
                                output_size: int | None = None, output_projection: Any = None,
                                feed_previous: bool = False, update_embedding_for_previous: bool = True,
                                dtype: Any = None, scope: Any = None,
                                initial_state_attention: bool = False) -> tuple[list[Tensor], Any]:
    """attention_decoder over symbols int32 [batch], embedded; other arguments as for embedding_rnn_decoder."""
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        table = get_variable("embedding", [num_symbols, embedding_size])
        loop = _fed_back(table, output_projection, update_embedding_for_previous) if feed_previous else None
        return attention_decoder([embedding_lookup(table, x) for x in decoder_inputs], initial_state, attention_states,
                                 cell, output_size, num_heads, loop, None, None, initial_state_attention)


def embedding_attention_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: RNNCell,
                                num_encoder_symbols: int, num_decoder_symbols: int, embedding_size: int,
                                num_heads: int = 1, output_projection: Any = None, feed_previous: Any = False,
                                dtype: Any = None, scope: Any = None,
                                initial_state_attention: bool = False) -> tuple[list[Tensor], Any]:
    """embedding_rnn_seq2seq whose decoder reads the encoder's outputs by attention."""
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        reading = EmbeddingWrapper(cell, num_encoder_symbols, embedding_size)
        read, state = static_rnn(reading, encoder_inputs, dtype=opened.dtype)
        states = ops.stack(read, axis=1)
        size = num_decoder_symbols if output_projection is None else None
        writing = OutputProjectionWrapper(cell, num_decoder_symbols) if output_projection is None else cell
        return _either(feed_previous, lambda fed: embedding_attention_decoder(
            decoder_inputs, state, states, writing, num_decoder_symbols, embedding_size, num_heads, size,
            output_projection, fed, initial_state_attention=initial_state_attention))


def model_with_buckets(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], targets: Sequence[Any],
                       weights: Sequence[Any], buckets: Sequence[tuple[int, int]], seq2seq: Callable[[Any, Any], Any],
                       softmax_loss_function: Callable[..., Any] | None = None, per_example_loss: bool = False,
                       name: str | None = None) -> tuple[list[list[Tensor]], list[Tensor]]:
    """(outputs, loss) of `seq2seq` for each bucket (encoder steps, decoder steps), all over the same weights.

    The lists must be as long as the largest bucket, the last; else InvalidArgumentError.
    """
    for what, given, wanted in (("encoder_inputs", encoder_inputs, buckets[-1][0]), ("targets", targets, buckets[-1][1]),
                                ("weights", weights, buckets[-1][1])):
        if len(given) < wanted:
            raise errors.InvalidArgumentError(f"model_with_buckets: there are {len(given)} {what} but the last bucket has "
                                              f"{wanted} steps; give one for each")
    outputs, losses = [], []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    with get_default_graph().name_scope(name or "model_with_buckets"):
        for number, (reads, writes) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number else None):
                made, _ = seq2seq(encoder_inputs[:reads], decoder_inputs[:writes])
                outputs.append(made)
                losses.append(loss(made, targets[:writes], weights[:writes],
                                   softmax_loss_function=softmax_loss_function))
    return outputs, losses
