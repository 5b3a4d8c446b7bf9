"""Nets of slim: functions from images to logits and end points by name, as tf.contrib.slim.nets has them."""
