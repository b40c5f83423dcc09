"""``_metadata.json`` beside the rows: what whoever reads them must know (rule U8)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dil.model.job import Job
from dil.publishing.layout import join
from dil.storage import Filesystem

NAME = "_metadata.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Metadata:
    format: int
    run_id: str
    table_type: str
    is_full: bool
    primary_keys: tuple[str, ...]
    delta_fields: tuple[str, ...]


def write_metadata(
    filesystem: Filesystem, folder: str, job: Job, run_id: str, *, is_full: bool
) -> None:
    """Tell of the newest run what its rows are: all there is or changes, and what tells them apart.

    It is no part of the publish: a crash before it leaves the one of the run before.
    """
    metadata = _Metadata(
        FORMAT,
        run_id,
        job.planning.table_type.value,
        is_full,
        job.extraction.primary_keys,
        job.extraction.delta_fields,
    )
    filesystem.put(join(folder, NAME), msgspec.json.encode(metadata))
