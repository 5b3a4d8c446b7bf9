"""TensorFlow's files: graphs, meta graphs, saved models and checkpoints, read and written as data."""
