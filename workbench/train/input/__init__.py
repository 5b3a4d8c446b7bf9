"""What brings data into a step: datasets, queues, readers and their batches."""
