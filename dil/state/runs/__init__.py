"""Runs, their leases, and their intents."""
