"""Chains of derived datasets: the blocks of queries, and the choice of the next input."""
