"""Cells, loops over time, attention and decoders."""
