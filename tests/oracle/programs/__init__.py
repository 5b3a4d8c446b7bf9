"""Random programs as data: drawn from a seed, interpreted by any library with TensorFlow's version 1 names."""
