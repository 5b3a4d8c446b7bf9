"""Data, decoders and summaries of slim, as tf.contrib.slim has them."""
