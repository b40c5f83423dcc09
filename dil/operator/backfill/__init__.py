"""Backfills: a range of a job is read again into its own folder, then published or dropped.

A backfill has a folder ``_backfill/<id>/`` below ``data.publisher.final.dir``, and a chain of its
own in the job's state store. Reading takes the lease of that chain, so that the job can run
meanwhile. Publishing and undoing take the job's lease: each is one act in the job's chain.
"""
