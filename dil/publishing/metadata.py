"""``_dil_metadata.json`` beside the rows: what their readers must know (rule U8)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dil.model.job import Job
from dil.publishing.layout import join
from dil.storage import Filesystem

NAME = "_dil_metadata.json"
# Spark takes files whose names begin so for Parquet, and fails to read a folder that has one.
_FORMER_NAME = "_metadata.json"
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
    """Say what the rows of the newest run are: all there is or changes, and their keys.

    It is no part of the publish: a crash before it leaves the one of the run before. The file of
    that kind that earlier releases wrote is deleted.
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
    filesystem.delete_file(join(folder, _FORMER_NAME))
