"""Typed sections of a job: the properties that several rooms read, and how to read their JSON."""
