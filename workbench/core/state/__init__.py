"""What outlives a step: variables, containers, queues, accumulators, datasets, record files and checkpoints."""
