"""Independent truth: what TensorFlow, PyTorch and JAX say to the same programs; runs where they are installed."""
