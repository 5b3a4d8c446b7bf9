"""One task inside a Dask worker: its host, its steps in flight, its engine."""
