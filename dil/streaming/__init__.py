"""The loop of streams: micro-batches, made of the same steps as a run."""
