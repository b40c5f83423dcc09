"""Typed sections of a job: the properties that several packages read, and their JSON."""
