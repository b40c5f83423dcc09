"""Finds files of late rows in ``<dataset>_late``, however the job handles late rows now.

A job that wrote late rows beside its dataset may handle late rows differently today, but its
earlier files still belong to it: rows that are read again must not be in the dataset and in a file
of late rows. So this module always checks the folder, and a warehouse's table of late rows.
"""

from __future__ import annotations

import re

from dil.model.dataset import source_name
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.publishing import layout
from dil.publishing.owner import owning_jobs
from dil.spi.destination import Destination
from dil.storage import FileInfo, Filesystem

# A dataset of DIL or of another program has one of these; a folder of late rows has none of them.
_OF_DATASETS = (layout.META, "_delta_log", "metadata")
_NAME = re.compile(r"part-.+-[0-9a-f]{16}-\d+\.\w+")
# Under these modes other jobs may publish into the same dataset, or load into the same table.
_SHARED = frozenset({PublishMode.APPEND, PublishMode.MERGE})


def late_files(spec: PublishingSpec, filesystem: Filesystem) -> tuple[FileInfo, ...]:
    """Return the files of late rows beside a dataset; empty if their folder is itself a dataset."""
    if not spec.dataset_path.strip("/"):
        return ()  # Files beside data.publisher.final.dir do not belong to the job.
    folder = layout.late_dir(spec)
    files = iter(filesystem.files(folder))
    first = next(files, None)
    if first is None or is_other_dataset(folder, filesystem):
        return ()
    return tuple(file for file in (first, *files) if _is_late(file, folder))


def is_other_dataset(folder: str, filesystem: Filesystem) -> bool:
    """Return whether the folder for late rows is itself a dataset."""
    return any(filesystem.exists(f"{folder}/{name}") for name in _OF_DATASETS)


def late_rows_there(job: Job, filesystem: Filesystem, destination: Destination) -> tuple[str, ...]:
    """Return the URIs of the files of late rows that a run of a job may delete.

    The result includes the URIs of deleted files as long as their rows are in a table. Under
    append, a run deletes only files of closed timelabels; for other labels a reading adds rows, and
    does not read the rows of an earlier file again. If other jobs publish into the same dataset, no
    record says which work unit a file belongs to, so a run deletes no file.
    """
    spec = job.publishing
    labels = job.planning.timelabel
    if spec.mode is PublishMode.APPEND and (labels is None or not labels.closes):
        return ()
    if spec.mode in _SHARED and not _is_alone(job, filesystem, destination):
        return ()
    there = [filesystem.uri(file.path) for file in late_files(spec, filesystem)]
    folder = layout.late_dir(spec)
    there += [filesystem.uri(f"{folder}/{name}") for name in destination.late_files()]
    return tuple(dict.fromkeys(there))


def _is_alone(job: Job, filesystem: Filesystem, destination: Destination) -> bool:
    is_own = owning_jobs(filesystem, layout.dataset_dir(job.publishing)) <= {job.name}
    return is_own and not destination.has_others(source_name(job.name))


def _is_late(file: FileInfo, folder: str) -> bool:
    above, _, name = file.path.rpartition("/")
    return above == folder and _NAME.fullmatch(name) is not None
