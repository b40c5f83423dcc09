"""Writes ``_dil_metadata.json`` beside the rows: facts for readers of the rows (rule U8)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dil.model.job import Job
from dil.publishing.layout import join
from dil.storage import Filesystem

NAME = "_dil_metadata.json"
# Spark takes a file of this name for Parquet, and fails to read a folder with this file.
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
    """Write whether the newest run read all rows or only changes, and the keys of the rows.

    The file is not part of the publish: after a crash before this call, the file of the earlier run
    stays. The metadata file that earlier releases wrote is deleted.
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
