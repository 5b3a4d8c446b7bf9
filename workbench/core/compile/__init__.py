"""From a graph to straight-line code for each device: place, partition, cut, select, plan memory, generate."""
