"""USER LEVEL: optimizers, savers, replicas and the training loop, written with the public graph API alone."""
