"""The steps of a run that differ for a derived dataset: what is planned, and what is executed."""
