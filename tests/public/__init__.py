"""Runs test files of others, written against TensorFlow 1.x, on `workbench.tf1`. They are not shipped."""
