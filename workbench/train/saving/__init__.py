"""What is kept of a run: checkpoints, events, summaries, timelines."""
