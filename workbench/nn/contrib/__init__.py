"""Layers and metrics that TensorFlow 1.x keeps in tf.contrib."""
