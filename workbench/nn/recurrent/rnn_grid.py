"""Cells over time and frequency: LSTMs that walk along the inputs of each step in overlapping windows."""
from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Tensor
from workbench.nn.recurrent.rnn import batch_of
from workbench.nn.recurrent.rnn_base import MemoryCell, clipped, joined, parts_of
from workbench.nn.recurrent.rnn_contrib import ShardedCell
from workbench.nn.scopes import get_variable_scope, variable_scope

__all__ = ["BidirectionalGridLSTMCell", "GridLSTMCell", "TimeFreqLSTMCell"]


def _windows(where: str, x: Tensor, width: int, begin: int, end: int, size: int | None, skip: int | None) -> list[Tensor]:
    """The features [batch, size] that begin every `skip` between `begin` and `end` of `width`."""
    if size is None or skip is None or skip < 1 or not 0 < size <= end - begin or end > width:
        raise errors.InvalidArgumentError(f"{where}: feature_size is {size} and frequency_skip {skip} for inputs {begin} to "
                                          f"{end} of {width}; both must be 1 or more and fit")
    count = (end - begin - size) // skip + 1
    return [x[:, begin + skip * number:begin + skip * number + size] for number in range(count)]


class TimeFreqLSTMCell(ShardedCell, MemoryCell):
    """LSTM along windows of `feature_size` inputs, `frequency_skip` apart; each also reads the output of the one before it
    (Sainath, Li 2016). The state [batch, 2 · units · windows] holds memory and output of each window in turn.

    Variables: `W_0`… [feature_size + 2 · units, 4 · units], `B`, `W_F_diag`, `W_I_diag`, `W_O_diag`. `state_size` tells of one
    window: for more give an initial state.
    """

    _state_is_tuple = False

    def __init__(self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
                 num_unit_shards: int = 1, forget_bias: float = 1.0, feature_size: int | None = None,
                 frequency_skip: int | None = 1, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._use_peepholes = num_units, use_peepholes
        self._cell_clip, self._initializer = cell_clip, initializer
        self._shards, self._forget_bias, self._size, self._skip = num_unit_shards, forget_bias, feature_size, frequency_skip

    def _peep(self, name: str, gate: Tensor, c: Tensor) -> Tensor:
        return gate + self.diagonal(name, c, self._num_units) if self._use_peepholes else gate

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        width = self.width([inputs])
        windows = _windows("TimeFreqLSTMCell", inputs, width, 0, width, self._size, self._skip)
        if self.width([state]) != 2 * self._num_units * len(windows):
            raise errors.InvalidArgumentError(f"TimeFreqLSTMCell: the state is {self.width([state])} wide but {len(windows)} "
                                              f"windows of {self._num_units} units need {2 * self._num_units * len(windows)}; "
                                              "give an initial state of that width")
        before = parts_of(state, 2 * len(windows))
        found, m = [], ops.zeros_like(before[1])
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            for number, window in enumerate(windows):
                c, seen = before[2 * number], before[2 * number + 1]
                enter, candidate, forget, leave = parts_of(
                    self.sharded("W", [window, seen, m], 4 * self._num_units, self._shards, "B"), 4)
                kept = ops.sigmoid(self._peep("W_F_diag", forget + self._forget_bias, c))
                c = clipped(kept * c + ops.sigmoid(self._peep("W_I_diag", enter, c)) * ops.tanh(candidate), self._cell_clip)
                m = ops.sigmoid(self._peep("W_O_diag", leave, c)) * ops.tanh(c)
                found += [c, m]
        return joined(found[1::2]), joined(found)


class GridLSTMCell(ShardedCell):
    """Two LSTMs at each window of `feature_size` inputs, `frequency_skip` apart: one goes on through time, one through the
    windows (Kalchbrenner, Danihelka, Graves 2015; with peepholes Sainath, Li 2016).

    `num_frequency_blocks` lists the windows of each block; blocks lie between `start_freqindex_list` and
    `end_freqindex_list`, without these there is one over all inputs. The state is a named tuple of `state_f00_b00_c`,
    `state_f00_b00_m` … of each window and block, or one tensor of them for a single block. Variables of block b: `W_f_b_0`…
    and `B_f_b`, unless weights are shared `W_t_b_0`… and `B_t_b`, and `W_F_diag_freqf_b` … for the peepholes.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, share_time_frequency_weights: bool = False,
                 cell_clip: float | None = None, initializer: Any = None, num_unit_shards: int = 1, forget_bias: float = 1.0,
                 feature_size: int | None = None, frequency_skip: int | None = None,
                 num_frequency_blocks: Sequence[int] | None = None, start_freqindex_list: Sequence[int] | None = None,
                 end_freqindex_list: Sequence[int] | None = None, couple_input_forget_gates: bool = False,
                 state_is_tuple: bool = True, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        if num_frequency_blocks is None:
            raise errors.InvalidArgumentError("GridLSTMCell: Must specify num_frequency_blocks, which is None; list how "
                                              "many windows each block has")
        self._blocks = [int(count) for count in num_frequency_blocks]
        if not state_is_tuple and len(self._blocks) > 1:
            raise errors.InvalidArgumentError(f"GridLSTMCell: state_is_tuple is False but there are {len(self._blocks)} "
                                              "blocks, whose states one tensor would mix; pass state_is_tuple=True")
        self._num_units, self._use_peepholes, self._shared = num_units, use_peepholes, share_time_frequency_weights
        self._cell_clip, self._initializer = cell_clip, initializer
        self._shards, self._forget_bias = num_unit_shards, forget_bias
        self._size, self._skip, self._state_is_tuple = feature_size, frequency_skip, state_is_tuple
        self._coupled = couple_input_forget_gates
        self._starts, self._ends = start_freqindex_list, end_freqindex_list
        self._type: Any = namedtuple("GridLSTMStateTuple", self._names("state"))      # type: ignore[misc]  # one for each list

    def _names(self, prefix: str) -> list[str]:
        return [f"{prefix}_f{window:02d}_b{block:02d}_{part}" for block, count in enumerate(self._blocks)
                for window in range(count) for part in "cm"]

    @property
    def state_tuple_type(self) -> Any:
        """The named tuple that the state is; None for a state of one tensor."""
        return self._type if self._state_is_tuple else None

    @property
    def state_size(self) -> Any:
        sizes = [self._num_units] * len(self._type._fields)
        return self._type(*sizes) if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._num_units * len(self._type._fields)

    def _features(self, x: Tensor, offset: int = 0) -> list[list[Tensor]]:
        """The windows of each block; those that begin `offset` later (or earlier) see zeros beyond the inputs."""
        width, where = self.width([x]), type(self).__name__
        starts, ends = (self._starts, self._ends) if self._starts else ([0], [width])
        if ends is None or not len(starts) == len(ends) == len(self._blocks):
            raise errors.InvalidArgumentError(f"{where}: there are {len(self._blocks)} num_frequency_blocks, {len(starts)} "
                                              f"starts and {0 if ends is None else len(ends)} ends; give one of each for "
                                              "a block")
        moved = ops.pad(x, [[0, 0], [max(-offset, 0), max(offset, 0)]]) if offset else x
        moved = moved[:, max(offset, 0):max(offset, 0) + width]
        found = [_windows(where, moved, width, begin, end, self._size, self._skip) for begin, end in zip(starts, ends)]
        for count, made in zip(self._blocks, found):
            if count != len(made):
                raise errors.InvalidArgumentError(f"{where}: Invalid num_frequency_blocks, requires {count} but gets "
                                                  f"{len(made)}; check the input size and filter config")
        return found

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        flat = list(state) if self._state_is_tuple else list(parts_of(state, len(self._type._fields)))
        outputs, states = self._walk(self._features(inputs), flat)
        return joined(outputs), self._type(*states) if self._state_is_tuple else joined(states)

    def _walk(self, features: list[list[Tensor]], state: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(outputs of time and frequency, memories and outputs of time) of every window of every block."""
        outputs: list[Tensor] = []
        states: list[Tensor] = []
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            for block, windows in enumerate(features):
                m = c = ops.zeros([batch_of(windows[0], 0), self._num_units], windows[0].dtype)
                for window in windows:
                    c_time, m_time = state[len(states)], state[len(states) + 1]
                    (c, m), (c_time, m_time) = self._step(block, [window, m_time, m], c, c_time)
                    outputs += [m_time, m]
                    states += [c_time, m_time]
        return outputs, states

    def _step(self, block: int, seen: list[Tensor], c_freq: Tensor, c_time: Tensor) -> Any:
        """((memory, output) along the windows, (memory, output) along time) at one window."""
        count = 3 if self._coupled else 4
        gates = {"freq": parts_of(self.sharded(
            f"W_f_{block}", seen, count * self._num_units, self._shards, f"B_f_{block}"), count)}
        gates["time"] = gates["freq"] if self._shared else parts_of(
            self.sharded(f"W_t_{block}", seen, count * self._num_units, self._shards, f"B_t_{block}"), count)
        old = {"freq": c_freq, "time": c_time}

        def peeped(letter: str, way: str, gate: Tensor, first: Tensor, second: Tensor) -> Tensor:
            if not self._use_peepholes:
                return gate
            own = "freq" if self._shared else way
            names = [f"W_{letter}_diag_{own}{end}_{block}" for end in "ft"]
            return gate + self.diagonal(names[0], first, self._num_units) + self.diagonal(names[1], second, self._num_units)

        new = {}
        for way, parts in gates.items():
            enter = ops.sigmoid(peeped("I", way, parts[0], c_freq, c_time))
            kept = 1.0 - enter if self._coupled else ops.sigmoid(peeped("F", way, parts[2] + self._forget_bias, c_freq, c_time))
            new[way] = clipped(kept * old[way] + enter * ops.tanh(parts[1]), self._cell_clip)
        return [(new[way], ops.sigmoid(peeped("O", way, parts[-1], new["freq"], new["time"])) * ops.tanh(new[way]))
                for way, parts in gates.items()]


class BidirectionalGridLSTMCell(GridLSTMCell):
    """GridLSTMCell that walks through the windows in both directions, with weights of its own for each: variables are below
    `fwd` and `bwd`, the state has `fwd_state_f00_b00_c` …. The windows of the way back begin `backward_slice_offset` later."""

    def __init__(self, num_units: int, use_peepholes: bool = False, share_time_frequency_weights: bool = False,
                 cell_clip: float | None = None, initializer: Any = None, num_unit_shards: int = 1, forget_bias: float = 1.0,
                 feature_size: int | None = None, frequency_skip: int | None = None,
                 num_frequency_blocks: Sequence[int] | None = None, start_freqindex_list: Sequence[int] | None = None,
                 end_freqindex_list: Sequence[int] | None = None, couple_input_forget_gates: bool = False,
                 backward_slice_offset: int = 0, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(num_units, use_peepholes, share_time_frequency_weights, cell_clip, initializer, num_unit_shards,
                         forget_bias, feature_size, frequency_skip, num_frequency_blocks, start_freqindex_list,
                         end_freqindex_list, couple_input_forget_gates, True, reuse, name)
        self._offset = int(backward_slice_offset)
        self._type = namedtuple("BidirectionalGridLSTMStateTuple",      # type: ignore[misc]  # one for each list
                                [*self._names("fwd_state"), *self._names("bwd_state")])

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        half = len(state) // 2
        with variable_scope("fwd"):
            outputs, states = self._walk(self._features(inputs), list(state[:half]))
        with variable_scope("bwd"):
            back = [block[::-1] for block in self._features(inputs, self._offset)]
            more, rest = self._walk(back, list(state[half:]))
        return joined(outputs + more), self._type(*states, *rest)
