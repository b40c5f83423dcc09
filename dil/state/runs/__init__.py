"""Runs, their leases, and what they intend to publish."""
