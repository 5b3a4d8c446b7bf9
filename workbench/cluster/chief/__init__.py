"""The driving side: the cluster as its user sees it, steps in flight, the tasks it watches."""
