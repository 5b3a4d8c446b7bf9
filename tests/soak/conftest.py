"""Clusters of the long tests start their processes as those of tests/cluster do."""
from tests.cluster.conftest import forked

__all__ = ["forked"]
