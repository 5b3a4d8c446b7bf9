"""View models to live notebook widgets."""
