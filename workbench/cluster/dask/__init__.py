"""What touches the Dask cluster itself: starting it, finding workers, its scheduler and its dashboard."""
