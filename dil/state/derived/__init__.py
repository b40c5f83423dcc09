"""Chains of derived datasets: blocks of queries, and which input is next."""
