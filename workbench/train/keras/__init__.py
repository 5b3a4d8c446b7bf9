"""USER LEVEL: models of layers that know how to train themselves, as Keras 2.0 in TensorFlow 1.4 has them."""
