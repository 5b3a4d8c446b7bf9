"""USER LEVEL: layers, cells, losses and initializers, written with public operations alone."""
