"""Signals in frames and bands, against NumPy and SciPy."""
from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import workbench.tf1 as tf

pytestmark = pytest.mark.usefixtures("graph")
signal = tf.contrib.signal
SOUND = np.random.default_rng(0).normal(size=(2, 50)).astype("f")


def run(tensor, feeds=None):
    with tf.Session() as session:
        return session.run(tensor, feeds)


@pytest.mark.parametrize("length", [1, 7, 8])
def test_windows_are_scipys(length):
    for made, name in ((signal.hann_window, "hann"), (signal.hamming_window, "hamming")):
        np.testing.assert_allclose(run(made(length, periodic=False)), scipy.signal.get_window(name, length, False), atol=1e-6)
        if length == 8:      # TensorFlow makes no difference for odd lengths
            np.testing.assert_allclose(run(made(length)), scipy.signal.get_window(name, length), atol=1e-6)


@pytest.mark.parametrize(("pad_end", "frames"), [(False, 8), (True, 9)])
@pytest.mark.parametrize("known", [True, False])
def test_frames_stand_in_the_place_of_their_axis(pad_end, frames, known):
    x = tf.placeholder(tf.float32, [2, 50] if known else [None, None])
    for axis, array in ((-1, SOUND), (0, SOUND.T)):
        found = signal.frame(x if axis else tf.transpose(x), 11, 6, pad_end, 7.0, axis)
        rows = np.pad(SOUND, [[0, 0], [0, 20]], constant_values=7.0) if pad_end else SOUND
        wanted = np.stack([rows[:, i * 6:i * 6 + 11] for i in range(frames if pad_end else 7)], 1)
        found_rows = run(found, {x: SOUND})
        np.testing.assert_array_equal(found_rows if axis else np.moveaxis(found_rows, 2, 0), wanted)
        assert array.ndim + 1 == found.shape.ndims and found.shape[-1 if axis else 1].value == 11


def test_frames_added_up_are_a_signal_and_gradients_go_back():
    x = tf.constant(SOUND)
    framed = signal.frame(x, 10, 5)
    total = signal.overlap_and_add(framed, 5)
    twice = np.r_[np.ones(5), np.full(40, 2), np.ones(5)]
    np.testing.assert_allclose(run(total), SOUND * twice, 1e-6)
    np.testing.assert_allclose(run(tf.gradients(total * total, x)[0]), 2 * SOUND * twice ** 2, 1e-5)
    assert total.shape.as_list() == [2, 50]


def test_transforms_and_back():
    x = tf.placeholder(tf.float32, [2, None])
    found = signal.stft(x, 16, 4, pad_end=True)
    _, _, wanted = scipy.signal.stft(np.pad(SOUND, [[0, 0], [0, 14]]), window="hann", nperseg=16, noverlap=12, boundary=None,
                                     padded=False)
    back = signal.inverse_stft(found, 16, 4, window_fn=signal.inverse_stft_window_fn(4))
    values, again = run([found, back], {x: SOUND})
    np.testing.assert_allclose(values, np.moveaxis(wanted, 1, 2) * 8, atol=1e-5)
    np.testing.assert_allclose(again[:, 12:50], SOUND[:, 12:], atol=1e-5)
    assert signal.stft(x, 12, 4).shape.as_list()[2] == 9 and signal.stft(x, 12, 4, 12, None).shape.as_list()[2] == 7
    assert signal.inverse_stft(signal.stft(x, 12, 4, 8), 12, 4, 8).shape.as_list() == [2, None]


def test_bands_of_the_mel_scale():
    weights = run(signal.linear_to_mel_weight_matrix(4, 65, 8000))
    assert weights.shape == (65, 4) and not weights[0].any() and 0.8 < weights.max() <= 1
    inner = weights[(weights[:, :-1] > 0).any(1) & (weights[:, 1:] > 0).any(1)]
    assert inner.size and (np.diff(weights.argmax(0)) > 0).all()      # each band lies above the one before, ever wider
    logs = np.log(SOUND[:, :20] ** 2 + 1)
    np.testing.assert_allclose(run(signal.mfccs_from_log_mel_spectrograms(logs)),
                               scipy.fft.dct(logs, 2) / np.sqrt(40), 1e-4, 1e-5)


@pytest.mark.parametrize(("call", "text"), [
    (lambda: signal.hann_window(8, dtype=tf.int32), "dtype must be a floating point type"),
    (lambda: signal.frame(tf.constant(1.0), 3, 1), "the rank of signal is 0"),
    (lambda: signal.frame(SOUND, 3, 0), "frame_length is 3 and frame_step 0"),
    (lambda: signal.frame(SOUND, 0, 1), "frame_length is 0 and frame_step 1"),
    (lambda: signal.frame(SOUND, tf.placeholder(tf.int32, []), 1), "known only at run time"),
    (lambda: signal.linear_to_mel_weight_matrix(0), "num_mel_bins must be positive"),
    (lambda: signal.linear_to_mel_weight_matrix(lower_edge_hertz=-1), "lower_edge_hertz must be non-negative"),
    (lambda: signal.linear_to_mel_weight_matrix(lower_edge_hertz=4000), "lower_edge_hertz 4000.0 >= upper_edge_hertz 3800.0"),
    (lambda: signal.linear_to_mel_weight_matrix(dtype=tf.int32), "dtype must be a floating point type"),
    (lambda: signal.mfccs_from_log_mel_spectrograms(np.zeros((2, 0), "f")), "num_mel_bins must be positive"),
])
def test_what_is_no_signal(call, text):
    with pytest.raises(ValueError, match=text):
        call()
