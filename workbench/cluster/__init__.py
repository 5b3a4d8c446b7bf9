"""Tasks on Dask workers: the only code that knows Dask."""
