"""The steps of a run that differ for a derived dataset: planning, execution and commit."""
