"""Distributions and what is computed of them."""
