"""Backfills: a range of a job read again beside its dataset, looked at, then published or dropped.

A backfill is a folder ``_backfill/<id>/`` below ``data.publisher.final.dir`` and a chain of its own
in the job's state store. Reading takes that chain's lease, so that runs of the job go on. Only
publishing and undoing take the job's lease: each is one operator's act in the job's chain.
"""
