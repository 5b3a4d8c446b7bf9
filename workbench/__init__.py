"""workbench: build a dataflow graph, train it on a Dask cluster, and see it live."""

__version__ = "0.1.0"
