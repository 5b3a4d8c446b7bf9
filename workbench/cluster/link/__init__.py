"""Connections between tasks: sockets, who receives, how a Dask comm becomes one of ours."""
