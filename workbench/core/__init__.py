"""The engine: build, differentiate, rewrite, place, partition, run, trace."""
