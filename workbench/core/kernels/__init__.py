"""How, where the reference is too slow: one file per kernel library."""
