"""Graph to equivalent graph, each pass one sentence and one file."""
