"""Readers of secondary inputs, for the driver and for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from dil.extraction.secondary import SecondaryAccess, read_authentication, read_validation
from dil.extraction.secondary.columns import InputLimits
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.secret import Secret
from dil.publishing.manifest import live_paths
from dil.secrets import SecretResolver
from dil.storage import filesystem_for


def secondary_access(job: Job) -> SecondaryAccess:
    """Return the reader of a job's secondary inputs; the reader also decrypts texts in them."""
    passwords = tuple(password.reveal() for password in job.keys.passwords)
    resolver = SecretResolver({}, Path(), passwords, job.keys.strong)
    limits = InputLimits(job.extraction.memory_bytes, job.secondary.most_bytes)
    return SecondaryAccess(filesystem_for, live_paths, resolver.resolve, limits)


def authentication_reader(job: Job) -> Callable[[], Mapping[str, Secret]] | None:
    """Return the function that rereads the authentication input (rule S11); None without input."""
    if not job.has_input("authentication"):
        return None
    return partial(read_authentication, job.secondary, secondary_access(job))


def validation_reader(job: Job) -> Callable[[], Iterator[JsonObject]] | None:
    """Return the reader of the rows for in-flow validation, None if there is no such input."""
    if not job.has_input("validation"):
        return None
    return partial(read_validation, job.secondary, secondary_access(job))
