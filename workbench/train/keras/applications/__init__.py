"""USER LEVEL: well-known nets as Keras models, with the names of their layers, for weights that others trained."""
